"""Prints what studies ask in a process of its own: each sampler that is named, and a hash of all its requests."""

import sys

from asked import digest, replay_study

for name in sys.argv[1:]:
    print(name, digest(replay_study(name)))
