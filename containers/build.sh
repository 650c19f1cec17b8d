#!/usr/bin/env bash
# Builds the image that trials run in with `runtime: apptainer`, from isaaclab.def.
#
#     bash containers/build.sh IMAGE
#
# In:     Apptainer 1.2 or newer; root, or a user with ranges in /etc/subuid and /etc/subgid; a network
# Out:    IMAGE, whole or not at all, and IMAGE.cdx.json: its packages in CycloneDX's words; exit 2 and one sentence when that could not be done
# BASE    ubuntu (Docker Hub's image, Python 3.12) or debian (debootstrap, Python 3.11); without it ubuntu
# TORCH   cuda or cpu: the build of PyTorch; without it cuda on ubuntu and cpu on debian
# ARCHITECTURES  GPUs that kernels are compiled for, such as "90 100" for sm_90 and sm_100, or "" for none; without it those of
#         all common ones with TORCH=cuda, two minutes each on one core, and none with TORCH=cpu. No GPU is needed for it.
# MIRROR  for debian, where its packages come from; without it the mirror that this machine's own apt uses
# PYTHON  a Python with pip that fetches the wheels; without it python3
set -euo pipefail

image=${1:?usage: build.sh IMAGE}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")

fail() {
  echo "envknee: $*" >&2
  exit 2
}

command -v apptainer >/dev/null || fail "apptainer is not installed, and the image $image has to be built. Install" \
  "Apptainer 1.2 or newer (on Debian 12: containers/install-apptainer.sh), copy an image from a machine that has it and" \
  "name it with \`image:\`, or use runtime: host."

arguments=()
case ${BASE:=ubuntu} in
  ubuntu)
    version=3.12
    : "${TORCH:=cuda}"
    ;;
  debian)
    version=3.11
    : "${TORCH:=cpu}"
    command -v debootstrap >/dev/null || fail "BASE=debian needs debootstrap: apt-get install debootstrap"
    mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m1 '/debian/*$')} ||
      fail "this machine's apt names no Debian mirror. Name one with MIRROR=..."
    arguments=(AGENT=debootstrap FROM=debian:bookworm SUITE=bookworm "MIRROR=$mirror")
    ;;
  *) fail "BASE=$BASE is not a base of the image. Use BASE=ubuntu or BASE=debian." ;;
esac
case $TORCH in cuda | cpu) ;; *) fail "TORCH=$TORCH is not a build of PyTorch. Use TORCH=cuda or TORCH=cpu." ;; esac
export TORCH
if [ "$TORCH" = cuda ]; then : "${ARCHITECTURES=80 86 89 90 100 120}"; else : "${ARCHITECTURES=}"; fi
[[ $ARCHITECTURES =~ ^([0-9]{2,3}( |$))*$ ]] ||
  fail "ARCHITECTURES=$ARCHITECTURES: expected numbers with a space between, such as '90 100' for sm_90 and sm_100."

# The commit's time stands for the build's: it is the same in every build of a commit.
commit=${ENVKNEE_GIT_COMMIT:-$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)}
if [ -z "${ENVKNEE_GIT_COMMIT:-}" ] && [ -n "$(git -C "$root" status --porcelain -uno 2>/dev/null)" ]; then commit+=-dirty; fi
time=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 1700000000)
arguments+=(
  "TORCH=$TORCH" "ARCHITECTURES=${ARCHITECTURES:-none}" "GIT_COMMIT=$commit" "BUILD_DATE=$(date -u -d "@$time" +%FT%TZ)"
  "LOCK_SHA256=$(cat "$here"/requirements{,-cpu,-cuda,-trainers}.lock | sha256sum | cut -d ' ' -f 1)"
)

mkdir -p "$(dirname "$image")"
image=$(cd "$(dirname "$image")" && pwd)/$(basename "$image")
stage=$(mktemp -d "${image}.XXXXXX")
# A second Ctrl-C does not stop the removal, and what cannot be removed fails no build.
trap 'trap "" HUP INT TERM; rm -rf "$stage" || true' EXIT
mkdir -p "$stage/mnt/containers" "$stage/mnt/wheels" "$stage/tmp"
cp "$here"/*.{sh,py,lock} "$stage/mnt/containers"
cp "$root/workflow/envknee/tasks/cartpole.usda" "$stage/mnt"
cp "$root/workflow/leanframes/kernels.py" "$stage/mnt/lean_kernels.py"
bash "$here/fetch.sh" "${PYTHON:-python3}" "$stage/mnt/wheels" "$version"

words=()
for argument in "${arguments[@]}"; do words+=(--build-arg "$argument"); done
log=$image.log
echo "envknee: building $image ($BASE, PyTorch for $TORCH): some minutes, see $log" >&2
# %post must not see the host's /tmp and home, which Apptainer mounts read-write there when root builds.
unset SOURCE_DATE_EPOCH # mksquashfs takes either this or the options below
# With an equals sign: for a user without root, Apptainer takes every f for --fakeroot out of a word that begins with one dash.
APPTAINER_NO_MOUNT=tmp,home APPTAINER_TMPDIR=${APPTAINER_TMPDIR:-$stage/tmp} \
  apptainer build --force "${words[@]}" --warn-unused-build-args --mount "type=bind,\"src=$stage/mnt\",dst=/mnt" \
  --mksquashfs-args="-all-time $time -mkfs-time $time -comp zstd -Xcompression-level 3" \
  "$stage/image.sif" "$here/isaaclab.def" >"$log" 2>&1 ||
  fail "the image could not be built: $(grep -E 'FATAL|envknee:|rror' "$log" | tail -n 1). All that was said is in $log"
mv "$stage/mnt/sbom.cdx.json" "$image.cdx.json"
mv "$stage/image.sif" "$image"
