#!/usr/bin/env bash
# Runs a trial's command in a container, and takes it along when the launcher is killed.
#
#     python dying.py PARENT USR1 bash guard.sh SCRATCH PROGRAM CONTAINER COMMAND...       as the first process of its group
#
# In:   SCRATCH, the folder that the command may fill; PROGRAM and CONTAINER, by which a container that is no child of
#       this process group is removed (docker NAME), or two empty words
# Out:  the command's exit status
#
# A launcher that is killed tells nobody, and Apptainer forgets the signal that would tell it (prctl PDEATHSIG): this shell gets
# it. It outlives a SIGTERM, which goes to the whole group, to tell how the trial ended.
set -u

if [ "$1" = gone ]; then # the launcher is; in a session of its own, to outlive the group
  group=$2 scratch=$3 program=$4 container=$5
  kill -KILL -- "-$group"
  if [ -n "$program" ]; then "$program" rm --force "$container" >/dev/null 2>&1; fi
  sleep 1
  rm -rf -- "$scratch"
  exit
fi

scratch=$1 program=$2 container=$3
shift 3
trap 'setsid bash "$0" gone "$$" "$scratch" "$program" "$container"' USR1
trap : TERM
"$@" &
while :; do
  wait "$!"
  status=$?
  kill -0 "$!" 2>/dev/null || exit "$status"
done
