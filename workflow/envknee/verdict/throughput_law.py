"""The law t_iter(N) = t0 + c N of one series. It explains a throughput limit, which only uses doublings. Pure."""

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from envknee.study.space import rollout_size
from envknee.verdict.rule import affine
from envknee.verdict.schema.throughput import Law


def fit_law(fps: Mapping[int, Sequence[float]], horizon: int, confidence: float, world_size: int = 1) -> Law | None:
    """Fit t_iter(N) = t0 + c N to the iteration times ranks x N x horizon / FPS; None with fewer than three num_envs."""
    if len(fps) < 3:
        return None
    steps_per_env = world_size * horizon
    line = affine.fit(
        {n: [rollout_size(n, steps_per_env) / value for value in sorted(values)] for n, values in sorted(fps.items())},
        confidence,
    )
    t0, slope = line.fixed, line.slope
    points = {num_envs: statistics.geometric_mean(values) for num_envs, values in fps.items()}
    error = max(abs(line.at(n) / (rollout_size(n, steps_per_env) / value) - 1.0) for n, value in points.items())
    with np.errstate(divide="ignore"):
        asymptotes = steps_per_env / line.draws[:, 1]
    drawn = (line.draws[:, 0], line.draws[:, 1], asymptotes, line.ratio_draws)
    bounds = [affine.interval(values, confidence) for values in drawn]
    saturates = slope > 0.0
    return Law(
        t0_s=t0, t0_s_lower=bounds[0][0], t0_s_upper=bounds[0][1],
        s_per_env=slope, s_per_env_lower=bounds[1][0], s_per_env_upper=bounds[1][1],
        asymptote_fps=steps_per_env / slope if saturates else None,
        asymptote_fps_lower=bounds[2][0], asymptote_fps_upper=bounds[2][1],
        half_saturation_num_envs=t0 / slope if saturates else None,
        half_saturation_num_envs_lower=bounds[3][0], half_saturation_num_envs_upper=bounds[3][1],
        largest_relative_error=error, used=error <= affine.ERROR_LIMIT, num_envs=sorted(fps), trials=sum(map(len, fps.values())),
    )  # fmt: skip
