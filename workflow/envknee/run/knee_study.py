"""The study that `envknee knee` makes of its options. Pure.

Input: options, the command, and how many trials run at once. Output: a study as plain data.
"""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from envknee.study import space
from envknee.study.load import parse_study
from envknee.study.value_types import STUDY_NAME

DOUBLINGS = 12
"""How many doublings of the first size a search without a range may climb."""

FIRST_SIZE = 256

GRID_REPEATS = 3
TIMED = {"timed_share": 0.333, "precision": 0.015}
"""A start of half a minute is worth ten seconds of timing, unless the median is known sooner."""

CLIMB_REPEATS = 8
"""Most repeats of a size without a range: only those that decide get them. Several devices have as many repeats each, and at least two."""

FRESH_REPEATS = 4
"""Fewest fresh repeats of the doubling that a search finds, on several devices: gains are compared within each of them."""


class Layout(NamedTuple):
    """How the trials of a study are shared out. All but the number of `workers` must stay the same in a folder."""

    window: int | None
    """As in a study; None: its default. In a search without a range, the number of lanes: each has a device that measures both ends of a
    doubling in turns."""
    workers: int | None
    """As in a section; None: each trial has a job of its own."""


def name_for(preset: str, argv: list[str]) -> str:
    """Return a name for a study, from the preset and the command's last word."""
    words = [Path(preset).stem, *(Path(word).name for word in argv[-1:])]
    name = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:64].strip("-")
    return name if STUDY_NAME.fullmatch(name) else "knee"


def layout_of(given: argparse.Namespace, argv: list[str], horizon: int, at_once: int) -> Layout:
    """Return the layout of a new study of which `at_once` trials may run at once.

    Raises:
        UserError: where the options make no study.
    """
    if given.num_envs is None:
        return Layout(at_once, at_once)
    points = _points(study_of(given, argv, horizon, Layout(None, None)))
    workers = 1 if given.profile == "slurm" else min(at_once, _repeats(given))
    if workers > 1:
        return Layout(workers * points, workers)
    return Layout(max(points, at_once) if at_once > 1 else None, None)


def layout_again(before: Mapping[str, Any], at_once: int) -> Layout:
    """Return the layout of a study that goes on, of which `before` is plain data, where `at_once` trials may run at once now."""
    window, sweep = before.get("window"), before["throughput"]
    if "workers" not in sweep or window is None:
        return Layout(window, None)
    lanes = window if sweep.get("sampler") == "adaptive" else window // _points(before)
    return Layout(window, min(at_once, lanes))


def _points(study: Mapping[str, Any]) -> int:
    parsed = parse_study(dict(study), "the study that these options make")
    assert parsed.throughput is not None, "every study of knee has that section"
    return space.points_asked(parsed.throughput, parsed.world_sizes)


def _repeats(given: argparse.Namespace) -> int:
    """Return the repeats of each size in a range."""
    return GRID_REPEATS if given.repeats is None else given.repeats


def of_each(lanes: int, least: int) -> int:
    """Return the smallest number of repeats, `least` or more, of which each lane can have as many."""
    return -(-least // lanes) * lanes


def study_of(given: argparse.Namespace, argv: list[str], horizon: int, layout: Layout) -> dict[str, Any]:
    """Return the study as plain data."""
    climbs = given.num_envs is None
    first = FIRST_SIZE if given.first_size is None else given.first_size
    shared = {
        "num_envs": {"from": first, "to": given.last_size or first * 2**DOUBLINGS} if climbs else given.num_envs,
        "horizon": [horizon if given.horizon is None else given.horizon],
        "batch_size": "library" if given.batch_size is None else given.batch_size,
    }
    lanes = layout.window or 1
    most = max(of_each(lanes, CLIMB_REPEATS), 2 * lanes) if climbs else GRID_REPEATS
    repeats = most if given.repeats is None else given.repeats
    workers = {} if layout.workers is None else {"workers": layout.workers}
    search: dict[str, Any] = {}
    if climbs:
        adaptive = {"ascending": True} | ({"confirm": of_each(lanes, FRESH_REPEATS)} if lanes > 1 else {})
        search = {"sampler": "adaptive", "adaptive": adaptive}
    command: dict[str, Any] = {"preset": given.preset, "argv": argv}
    if given.ranks is not None:
        command["ranks"] = given.ranks
    study: dict[str, Any] = {
        "study": given.name,
        "task": {"id": " ".join([Path(argv[0]).name, argv[-1]])},
        "arms": {"command": {"trainer": "command", "gpus": given.gpus, "command": command}},
        "throughput": shared
        | {"repeats": repeats, "iterations": given.iterations}
        | TIMED
        | {"limit_s": given.limit_s}
        | search
        | workers,
    }
    if layout.window is not None:
        study["window"] = layout.window
    if given.target_reward is not None:
        study["learning"] = shared | {
            "repeats": max(2, repeats), "target_reward": given.target_reward, "budget_s": given.budget_s,
            "limit_s": given.budget_s + given.limit_s,
        } | workers  # fmt: skip
    return study


def without_placeholders(word: str, place: str) -> str:
    """Return the place of the file that a word names, with braces doubled in its folders: they are no placeholders."""
    if place == word:
        return word
    in_word = word if place.endswith(word) else ""
    folders = place.removesuffix(in_word) if in_word else place
    return folders.replace("{", "{{").replace("}", "}}") + in_word
