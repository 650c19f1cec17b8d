#!/usr/bin/env bash
# Makes .venv from the lock files, once; later calls see in a moment that it is there.
#
#     bash workflow/setup.sh
#
# In:      containers/requirements.lock, requirements-cpu.lock or requirements-cuda.lock, and workflow/requirements.lock; if asked for,
#          containers/requirements-trainers.lock, requirements-ray.lock and requirements-ovphysx.lock
# Out:     .venv, complete if and only if .venv/complete says so; exit 2 and one sentence when that could not be done
# PYTHON   the interpreter, CPython 3.11 or 3.12; without it the first such one of python3, python3.12, python3.11
# TORCH    cuda or cpu, see containers/install.sh
# TRAINERS all (containers/requirements-trainers.lock as well), ray (requirements-ray.lock, too) or none; without it what .venv has,
#          at first none
# PHYSICS  ovphysx (PhysX without Isaac Sim: requirements-ovphysx.lock) or newton; without it what .venv has, at first newton
set -euo pipefail
unset PYTHONPATH PYTHONHOME # of a cluster's module: pip would find foreign packages
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "envknee: $*" >&2
  exit 2
}

version_of() { "$1" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null | grep .; }
is_supported() { [[ $1 == 3.11 || $1 == 3.12 ]]; }

# What .venv is made of, and where: scripts in it hold its path.
key() {
  echo "$(cat containers/*.lock containers/install.sh workflow/requirements.lock | sha256sum) $(version_of "$1") $PWD"
}

is_complete() {
  local made_of torch trainers physics
  { read -r made_of && read -r torch && read -r trainers && read -r physics; } 2>/dev/null <.venv/complete &&
    [[ $made_of == "$(key "${PYTHON:-.venv/bin/python}")" && ${TORCH:-$torch} == "$torch" && ${TRAINERS:-$trainers} == "$trainers" &&
      ${PHYSICS:-$physics} == "$physics" ]]
}

choose_python() {
  local candidate version
  if [ -n "${PYTHON:-}" ]; then
    version=$(version_of "$PYTHON") || fail "PYTHON=$PYTHON does not run as a Python 3. Name CPython 3.11 or 3.12, for" \
      "instance PYTHON=python3.12."
    is_supported "$version" || fail "PYTHON=$PYTHON is Python $version, and only 3.11 and 3.12 have all packages. Name one" \
      "of those, for instance PYTHON=python3.12."
    return
  fi
  # Where python3 is an older .venv's own, as make puts that first, the new one gets the same Python.
  for candidate in python3 python3.12 python3.11; do
    if version=$(version_of "$candidate") && is_supported "$version"; then
      PYTHON=$candidate
      return
    fi
  done
  fail "no Python 3.11 or 3.12 was found (python3 is ${version_of_python3:-missing}). Install one, on Debian 12 with" \
    "'apt-get install python3 python3-venv', or name one: make sweep PYTHON=/path/to/python3.12"
}

make_venv() {
  local output
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || fail "$PYTHON has no venv module. On Debian and Ubuntu:" \
    "apt-get install python$(version_of "$PYTHON")-venv"
  output=$("$PYTHON" -m venv --clear .venv 2>&1) || fail "could not make .venv: $(tail -n 1 <<<"$output")"
}

# .venv/bin/NAME: Python's module MODULE, with .venv's packages alone. Two set-ups may write it at once.
write_command() {
  local name=$1 module=$2 text
  text=$(
    cat <<EOF
#!/bin/sh
# A cluster's modules and ROS set these variables, and foreign packages would come before .venv's.
unset PYTHONPATH PYTHONHOME
exec "\$(dirname "\$(readlink -f "\$0")")/python" -P -m $module "\$@"
EOF
  )
  [[ -x .venv/bin/$name && $(<".venv/bin/$name") == "$text" ]] && return
  printf '%s\n' "$text" >".venv/bin/$name.$$"
  chmod +x ".venv/bin/$name.$$"
  mv ".venv/bin/$name.$$" ".venv/bin/$name"
}

write_commands() {
  write_command envknee envknee
  write_command snakemake envknee.run.snakemake_here
}

# The installer removes files of its own meanwhile, which rm -rf does not mind. A second Ctrl-C stops nothing here.
discard_incomplete() {
  trap '' HUP INT TERM
  [ -f .venv/complete ] || rm -rf .venv || true
}

case ${TRAINERS:-none} in
  all | ray | none) ;;
  *) fail "TRAINERS=$TRAINERS: expected TRAINERS=all (every trainer's packages), TRAINERS=ray (Ray, too) or TRAINERS=none" \
    "(RSL-RL alone)." ;;
esac
case ${PHYSICS:-newton} in
  ovphysx | newton) ;;
  *) fail "PHYSICS=$PHYSICS: expected PHYSICS=ovphysx (PhysX without Isaac Sim, too) or PHYSICS=newton (Newton alone)." ;;
esac
if is_complete; then
  # One that an earlier version made has other commands. Somebody else's, which cannot be written to, keeps them.
  if [ -w .venv/bin ]; then write_commands; fi
  exit 0
fi
version_of_python3=$(version_of python3 || true)
choose_python
[ -w . ] || fail "no permission to write to $PWD, where .venv belongs. Use a copy of the project that is yours."
[ ! -L .venv ] || fail ".venv is a link to $(readlink .venv), and setting up would empty that. Remove the link (rm .venv) and run this" \
  "again: the project gets an environment of its own."
exec 9>>.venv.lock
if ! flock --nonblock 9; then
  echo "envknee: waiting for another set-up in this folder, or for a sweep that uses .venv, which is to be made anew" >&2
  flock 9 || echo "envknee: no file locks on this disk: run one set-up at a time" >&2
fi
if is_complete; then exit 0; fi

echo "envknee: setting up .venv: once, in a minute or two" >&2
trap discard_incomplete EXIT
# An .venv that is made anew, after a change of versions, keeps its trainers and its physics.
if [ -z "${TRAINERS:-}" ]; then TRAINERS=$(sed -n 3p .venv/complete 2>/dev/null || true); fi
if [ -z "${PHYSICS:-}" ]; then PHYSICS=$(sed -n 4p .venv/complete 2>/dev/null || true); fi
: "${TRAINERS:=none}" "${PHYSICS:=newton}"
locks=(containers/requirements.lock workflow/requirements.lock)
case $TRAINERS in
  all) locks+=(containers/requirements-trainers.lock) ;;
  ray) locks+=(containers/requirements-trainers.lock containers/requirements-ray.lock) ;;
esac
if [ "$PHYSICS" = ovphysx ]; then locks+=(containers/requirements-ovphysx.lock); fi
rm -f .venv/complete
make_venv
mkdir .venv/tmp
TMPDIR=$PWD/.venv/tmp bash containers/install.sh .venv/bin/python "${locks[@]}"
rmdir .venv/tmp
# Relative: Python reads this file in the encoding of the locale, and a path outside of ASCII would stop every command under LC_ALL=C.
echo "../../../../workflow" >"$(echo .venv/lib/python3.*/site-packages)/envknee.pth"
write_commands
printf '%s\n' "$(key .venv/bin/python)" "${TORCH:-auto}" "$TRAINERS" "$PHYSICS" >.venv/complete
