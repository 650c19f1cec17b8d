"""ln seconds of an arm that learns like another one: frames to the target of that arm, and its own seconds per frame. Pure.

Frames do not depend on how fast they come, and seconds per frame not on what is learned. So the search of a fast arm, and short throughput
trials of a slow one, tell which settings are good for the slow one. Whether both learn alike is another question (`alike`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.frames import frames_trials, that_trained
from envknee.verdict.joint.observed import trials_of
from envknee.verdict.joint.surface import Surface, fit


class Factors(NamedTuple):
    """Both factors of an arm's seconds at the same settings."""

    frames: Surface
    """Of ln frames to the target, of the other arm."""
    seconds_per_frame: Surface
    """Of ln seconds per frame, of this arm."""

    @property
    def seconds(self) -> Surface:
        """Natural logarithm of the seconds to the target."""
        frames, speeds = self.frames, self.seconds_per_frame
        return Surface(
            frames.settings,
            frames.mean + speeds.mean,
            frames.covariance + speeds.covariance,
            math.hypot(frames.amplitude, speeds.amplitude),
            math.hypot(frames.noise, speeds.noise),
        )


def transferred(settings: Sequence[Point], learned: Sequence[Record], timed: Sequence[Record]) -> Surface | None:
    """Return ln seconds to the target at every setting; None without a trial of either kind. The arguments are those of `factors_of`."""
    factors = factors_of(settings, learned, timed)
    return None if factors is None else factors.seconds


def factors_of(settings: Sequence[Point], learned: Sequence[Record], timed: Sequence[Record]) -> Factors | None:
    """Return frames and seconds per frame at every setting; None without a trial of either kind.

    Args:
        settings: ascending
        learned: learning trials of the other arm, each at one of `settings`
        timed: throughput trials of this arm, at any points
    """
    trained = that_trained(learned)
    every = sorted({*settings, *(record.request.point for record in timed)})
    speeds = trials_of(timed, every, "throughput")
    if not trained or not speeds.places:
        return None
    anywhere = fit(every, speeds)
    places = [every.index(setting) for setting in settings]
    here = replace(
        anywhere,
        settings=settings,
        mean=anywhere.mean[places],
        covariance=anywhere.covariance[np.ix_(places, places)],
    )
    return Factors(fit(settings, frames_trials(settings, trained)), here)
