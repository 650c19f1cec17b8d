"""Prints what studies ask in a process of its own: each sampler that is named, and a hash of all its requests."""

import sys

import joint_study
from asked import digest, replay_study

for name in sys.argv[1:]:
    study = joint_study.replay_study() if name == "profile" else replay_study(name)
    print(name, digest(study))
