#!/usr/bin/env bash
# Installs the packages of lock files into a Python environment: the right build of PyTorch first, then the rest.
#
#     bash containers/install.sh PYTHON LOCKFILE...
#
# In:    a Python whose environment may be written to, and lock files. Only files whose sha256 they hold are installed
# Out:   the packages in that environment; exit 2 and one sentence when that could not be done
# TORCH  cuda or cpu: the build of PyTorch. Without it cuda where `nvidia-smi -L` finds a GPU, else cpu.
#
# pip's own settings apply. Many package indexes have no CPU build. The CUDA build is installed then, which runs on the CPU too but takes
# 4 GB more: PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS may name a place that has a CPU build.
set -euo pipefail

python=${1:?usage: install.sh PYTHON LOCKFILE}
locks=("${2:?usage: install.sh PYTHON LOCKFILE...}" "${@:3}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() {
  echo "envknee: $*" >&2
  exit 2
}

has_gpu() { [[ $(nvidia-smi -L 2>/dev/null) == *"GPU 0:"* ]]; }

require_disk() {
  local folder gb=$1 free_kb
  folder=$("$python" -c 'import sys; print(sys.prefix)')
  free_kb=$(df -Pk "$folder" | awk 'NR == 2 {print $4}')
  ((free_kb >= gb * 1000 * 1000)) || fail "set-up needs about $gb GB of disk, and $folder has $((free_kb / 1000 / 1000)) GB" \
    "free. Make room there, or set the project up on another disk."
}

# pip's complaints go through a log: on the terminal they would bury the one line that says what to do.
log=$(mktemp)
first=$(mktemp)
trap 'rm -f "$log" "$first"' EXIT
trap 'exit 130' INT # pip catches Ctrl-C and ends as if it had failed

# Lock files are complete, so no dependency is followed. Isaac Lab declares Python 3.12 alone, and runs on 3.11.
pip_try() {
  local lock requirements=()
  echo "envknee: installing $1" >&2
  for lock in "${@:2}"; do requirements+=(--requirement "$lock"); done
  PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore \
    "$python" -m pip install -qq --no-input --no-compile --log "$log" --require-hashes --no-deps --no-build-isolation \
    --ignore-requires-python "${requirements[@]}" >/dev/null 2>&1
}

pip_install() { pip_try "$@" || explain "$1"; }

explain() {
  if grep -qE 'No space left on device|Disk quota exceeded' "$log"; then
    fail "the disk is full: set-up stopped while installing $1. Make room for the environment and for pip's cache (or" \
      "set PIP_NO_CACHE_DIR=1), then run the same command again."
  elif grep -qE 'from versions: none|NewConnectionError|TimeoutError|NameResolutionError|ProxyError|SSLError' "$log"; then
    sed -nE "s/.*after connection broken by '(.*)'.*/pip: \1/p" "$log" | tail -n 1 >&2
    fail "pip found no package index: set-up stopped while installing $1. Check the network and pip's settings" \
      "(PIP_INDEX_URL, PIP_FIND_LINKS, proxies), then run the same command again. Only set-up needs a network."
  elif grep -q 'DO NOT MATCH THE HASHES' "$log"; then
    sed -nE 's/^[^ ]+ +( *(Expected|Got|[a-z0-9_.-]+==).*)/pip: \1/p' "$log" | tail -n 12 >&2
    fail "set-up stopped while installing $1: the package index serves a file that is not the pinned one (sha256, above)." \
      "Use an index that you trust."
  fi
  sed -nE 's/^[^ ]+ +((ERROR|error)[: ].*)/pip: \1/p' "$log" | tail -n 12 >&2
  fail "set-up stopped while installing $1; what pip said is above."
}

if [ -z "${TORCH:-}" ]; then
  if has_gpu; then
    TORCH=cuda
    echo "envknee: nvidia-smi finds a GPU: PyTorch's CUDA build is installed. For the CPU build: make setup TORCH=cpu" >&2
  else
    TORCH=cpu
    echo "envknee: nvidia-smi finds no GPU: PyTorch's CPU build is installed. On a login node whose cluster has GPUs, type" \
      "make setup TORCH=cuda instead, which replaces it" >&2
  fi
fi
case $TORCH in
  cuda) require_disk 10 ;;
  cpu) require_disk 4 ;;
  *) fail "TORCH=$TORCH is not a build of PyTorch. Use TORCH=cuda or TORCH=cpu, or leave it out to let the machine decide." ;;
esac

# Some packages are built with setuptools.
sed -nE '/^(pip|setuptools)==/,/[^\\]$/p' "$here/requirements.lock" >"$first"
pip_install "pip and setuptools" "$first"
if [ "$TORCH" = cpu ] && ! pip_try "PyTorch (cpu)" "$here/requirements-cpu.lock"; then
  # pip says the latter where somebody's constraints name PyTorch, too.
  grep -qE 'from versions: [0-9]|ResolutionImpossible' "$log" || explain "PyTorch (cpu)"
  echo "envknee: the package index has no CPU build of PyTorch; the CUDA build, which takes 4 GB more, runs on the CPU too" >&2
  TORCH=cuda
  require_disk 10
fi
if [ "$TORCH" = cuda ]; then pip_install "PyTorch (cuda)" "$here/requirements-cuda.lock"; fi
pip_install "the other packages" "${locks[@]}"

if [ "$TORCH" = cuda ] && has_gpu; then
  env -u CUDA_VISIBLE_DEVICES "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null ||
    fail "PyTorch (CUDA $("$python" -c 'import torch; print(torch.version.cuda)')) cannot use this machine's GPU" \
      "with driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1): update the driver," \
      "or set up for the CPU with TORCH=cpu."
fi
