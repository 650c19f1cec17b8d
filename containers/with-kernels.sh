#!/bin/sh
# Runs a command with Warp's kernels of the image in a writable cache: links to them, beside which new ones are compiled.
#
#     with-kernels.sh CACHE COMMAND...       inside the image; CACHE is an empty folder
set -eu
export WARP_CACHE_PATH=$1
shift
cp -rs /opt/envknee/kernels/. "$WARP_CACHE_PATH"
exec "$@"
