#!/usr/bin/env bash
# Makes virtual environments with programs that know nothing of envknee, for tests/workflow/trainers/test_foreign_trainers.py.
#
#     bash tests/programs/foreign.sh FOLDER [rl-zoo3] [mjlab]        then: ENVKNEE_FOREIGN=FOLDER make test
#
# Versions are pinned here. PyTorch is a CPU build, and is installed first: what asks for it later takes that one.
set -euo pipefail
folder=$1
shift
[ $# -gt 0 ] || set -- rl-zoo3 mjlab

declare -A packages=(
  [rl-zoo3]="rl-zoo3==2.9.2 requests==2.34.2 tensorboard==2.21.0"
  [mjlab]="mjlab==1.6.0"
)

for name; do
  python3 -m venv "$folder/$name"
  # shellcheck disable=SC2086  # several words are meant
  "$folder/$name/bin/pip" install --quiet torch==2.13.0 ${packages[$name]}
done
