"""Seconds to the target as frames times seconds per frame, each by a model of its own. Pure.

Frames tell how much experience a setting needs, seconds per frame how fast it comes. A seed that missed the target tells a lower bound of
its frames, and its speed as well as any other.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.posterior import Trials
from envknee.verdict.joint.surface import Surface, fit
from envknee.verdict.learning_cost import that_ran
from envknee.verdict.schema.joint import FramesOfSetting


def frames_at(settings: Sequence[Point], records: Sequence[Record], confidence: float) -> list[FramesOfSetting]:
    """Return both factors at some settings, from the learning trials of all settings."""
    timed = that_trained(records)
    if not timed:
        return []
    every = sorted({*settings, *(record.request.point for record in timed)})
    places = [every.index(record.request.point) for record in timed]
    frames = frames_trials(every, timed)
    speeds = Trials(places, [math.log(record.train_s / record.frames) for record in timed], [False] * len(timed))
    return factors_at(settings, fit(every, frames), fit(every, speeds), confidence)


def factors_at(
    settings: Sequence[Point], frames: Surface, seconds_per_frame: Surface, confidence: float
) -> list[FramesOfSetting]:
    """Return both factors at some settings, from a surface of each over the same settings."""
    places = [frames.settings.index(setting) for setting in settings]
    return [
        FramesOfSetting(
            **vars(setting),
            **_interval("frames", frames, place, confidence),
            **_interval("seconds_per_frame", seconds_per_frame, place, confidence),
        )
        for setting, place in zip(settings, places, strict=True)
    ]


def that_trained(records: Sequence[Record]) -> list[Record]:
    """Return the learning trials that tell frames and their time."""
    return [record for record in that_ran(records) if record.frames > 0 and record.train_s > 0.0]


def frames_trials(settings: Sequence[Point], records: Sequence[Record]) -> Trials:
    """Return ln frames to the target of trials that trained, each at one of these settings."""
    return Trials(
        [settings.index(record.request.point) for record in records],
        [math.log(record.frames_to_target or record.frames) for record in records],
        [record.frames_to_target is None for record in records],
    )


def _interval(name: str, surface: Surface, place: int, confidence: float) -> dict[str, Any]:
    half = NormalDist().inv_cdf((1.0 + confidence) / 2) * math.sqrt(max(float(surface.covariance[place, place]), 0.0))
    mean = float(surface.mean[place])
    return {name: math.exp(mean), f"{name}_lower": math.exp(mean - half), f"{name}_upper": math.exp(mean + half)}
