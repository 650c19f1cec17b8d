#!/usr/bin/env bash
# Starts drilled_trainer.py as scripts of clusters do: below a shell, with a daemon beside it that leaves its session.
#
#     bash drilled_trainer.sh PYTHON drilled_trainer.py NAME ROWS
set -u
python=$1 program=$2 name=$3 rows=$4
(setsid "$python" "$program" daemon "$name" "$rows" "$$" &)
trap '' TERM
"$python" "$program" trains "$name" "$rows" "$$"
