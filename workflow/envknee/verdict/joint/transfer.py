"""ln seconds of an arm that learns like another one: frames to the target of that arm, and its own seconds per frame. Pure.

Frames do not depend on how fast they come, and seconds per frame not on what is learned. So the search of a fast arm, and short throughput
trials of a slow one, tell which settings are good for the slow one. Whether both learn alike is another question (`alike`).
"""

import math
from collections.abc import Sequence

import numpy as np

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.frames import frames_trials, that_trained
from envknee.verdict.joint.observed import trials_of
from envknee.verdict.joint.surface import Surface, fit


def transferred(settings: Sequence[Point], learned: Sequence[Record], timed: Sequence[Record]) -> Surface | None:
    """Return ln seconds to the target at every setting; None without a trial of either kind.

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
    frames, seconds = fit(settings, frames_trials(settings, trained)), fit(every, speeds)
    places = [every.index(setting) for setting in settings]
    return Surface(
        settings,
        frames.mean + seconds.mean[places],
        frames.covariance + seconds.covariance[np.ix_(places, places)],
        math.hypot(frames.amplitude, seconds.amplitude),
        math.hypot(frames.noise, seconds.noise),
    )
