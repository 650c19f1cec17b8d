"""Asks for the trials of a study whose sampler was added: SAMPLER, SWEEP and the trials that are EXPECTED, in JSON."""

import json
import sys

from envknee.ask.ask import ask
from envknee.study.load import parse_study
from envknee.study.schema import study_schema

sampler, sweep, expected = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
study, asked = parse_study({"study": "own", "ask_version": 2, "throughput": sweep}), []
for number in range(len(expected)):
    asked.append(ask(study, number, asked, {}))
assert [[one.num_envs, one.batch_size, one.skip and one.skip.reason] for one in asked] == expected
assert f"'{sampler}'" in str(study_schema())
