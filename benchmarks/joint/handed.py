"""The first joint sweep: seconds to a reward of 4.5 of lean frames on H100s, and the settings that every simulated study has.

Its file has a row for each trial: 64 Sobol points, and 18 settings with four fresh seeds each; `reached` 0 means that 25 s of training were
spent first.
"""

import csv
import math
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from envknee.base.point import Point
from envknee.verdict.joint import surface
from envknee.verdict.joint.posterior import Trials
from envknee.verdict.joint.surface import Surface

PATH = Path(__file__).parents[2] / "tests" / "fixtures" / "joint_lean_warp.csv"

AXES: dict[str, Any] = {
    "num_envs": [128, 256, 512, 1024, 2048],
    "horizon": [8, 16, 32, 64],
    "batch_size": [512, 1024, 2048, 4096, 8192, 16384],
}
SETTINGS = [
    Point(num_envs, horizon, batch_size)
    for num_envs, horizon, batch_size in product(*AXES.values())
    if batch_size <= num_envs * horizon
]
"""Every legal one, ascending."""


def trials() -> Trials:
    """Return all trials at `SETTINGS`."""
    place_of = {setting: place for place, setting in enumerate(SETTINGS)}
    with PATH.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    places = [place_of[Point(int(row["num_envs"]), int(row["horizon"]), int(row["batch_size"]))] for row in rows]
    return Trials(places, [math.log(float(row["seconds"])) for row in rows], [row["reached"] == "0" for row in rows])


@cache
def fitted() -> Surface:
    """Return what the model makes of them."""
    return surface.fit(SETTINGS, trials())
