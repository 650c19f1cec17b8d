"""Seconds by phase that follow a law: t0 + c x environments, in each phase."""

from collections.abc import Mapping

from envknee.record.schema import PHASES, Phase

SIZES = [64, 128, 256, 512, 1024]

LAWS: dict[Phase, tuple[float, float]] = {
    "physics": (0.080, 0.5e-5),
    "render": (0.010, 2.0e-5),
    "observation": (0.005, 1.0e-5),
    "inference": (0.060, 1.0e-5),
    "storage": (0.002, 0.5e-5),
    "learning": (0.050, 6.0e-5),
    "other": (0.030, 1.0e-5),
}
"""t0 in seconds and c in seconds per environment, shaped like an H100's: physics waits, learning costs."""

Laws = Mapping[Phase, tuple[float, float]]


def at(num_envs: int, laws: Laws = LAWS) -> dict[Phase, float]:
    seconds: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
    return {**seconds, **{phase: t0 + c * num_envs for phase, (t0, c) in laws.items()}}
