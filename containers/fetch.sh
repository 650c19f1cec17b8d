#!/usr/bin/env bash
# Fetches the wheels of the image's lock files with this machine's own pip settings; install.sh then needs no network.
#
#     bash containers/fetch.sh PYTHON FOLDER VERSION
#
# In:    a Python with pip, and the version of the Python that they are for, such as 3.12
# Out:   FOLDER with all wheels (one package is published as source only)
# TORCH  cuda or cpu: the build of PyTorch, see install.sh
set -euo pipefail

python=${1:?usage: fetch.sh PYTHON FOLDER VERSION}
wheels=${2:?usage: fetch.sh PYTHON FOLDER VERSION}
version=${3:?usage: fetch.sh PYTHON FOLDER VERSION}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT # pip catches Ctrl-C and ends as if the index had no such build

fetch() {
  PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip download -q --no-input --dest "$wheels" --require-hashes --no-deps \
    "${target[@]}" "$@" >"$log" 2>&1
}

download() {
  fetch "$@" || {
    grep -E 'ERROR' "$log" | tail -n 5 >&2
    echo "envknee: the image's packages could not be fetched. Check the network and pip's settings (PIP_INDEX_URL," \
      "PIP_FIND_LINKS, proxies), then run the same command again." >&2
    exit 2
  }
}

target=()
if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != "$version" ]; then
  target=(--python-version "$version" --implementation cp)
  # pip takes no "up to": every glibc up to Ubuntu 24.04's.
  for minor in {5..39}; do target+=(--platform "manylinux_2_${minor}_x86_64"); done
  for name in manylinux1 manylinux2010 manylinux2014; do target+=(--platform "${name}_x86_64"); done
fi
echo "envknee: fetching the packages of the image" >&2
# Many indexes have no CPU build; the CUDA build runs on the CPU, too.
if [ "${TORCH:?cuda or cpu}" = cuda ] || ! fetch --requirement "$here/requirements-cpu.lock"; then
  download --requirement "$here/requirements-cuda.lock"
fi
download --no-build-isolation --ignore-requires-python --requirement "$here/requirements.lock" \
  --requirement "$here/requirements-trainers.lock"
