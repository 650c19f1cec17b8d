"""The handed joint data: seconds to a reward of 4.5 of lean frames on H100s, 64 Sobol points and 18 settings with four fresh seeds each.

tests/fixtures/joint_lean_warp.csv has a row for each trial; `reached` 0 means that 25 s of training were spent first.
"""

import csv
import math
from itertools import product
from pathlib import Path

from envknee.base.point import Point
from envknee.verdict.joint.posterior import Trials

PATH = Path(__file__).parents[1] / "fixtures" / "joint_lean_warp.csv"

SETTINGS = [
    Point(num_envs, horizon, batch_size)
    for num_envs, horizon, batch_size in product(
        (128, 256, 512, 1024, 2048), (8, 16, 32, 64), (512, 1024, 2048, 4096, 8192, 16384)
    )
    if batch_size <= num_envs * horizon
]


def handed(*stages: str) -> Trials:
    """Return the trials of some stages ("search", "fresh") at `SETTINGS`."""
    place_of = {setting: place for place, setting in enumerate(SETTINGS)}
    with PATH.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["stage"] in stages]
    places = [place_of[Point(int(row["num_envs"]), int(row["horizon"]), int(row["batch_size"]))] for row in rows]
    return Trials(places, [math.log(float(row["seconds"])) for row in rows], [row["reached"] == "0" for row in rows])
