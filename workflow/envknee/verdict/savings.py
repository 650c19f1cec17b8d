"""Savings of a point: its GPU-hours to the target, compared with larger num_envs, from measured trials only.

Input: records of learning trials, and the point. Output: `Saving`s. Pure.

A point is compared with two others of its horizon and batch size: the one whose learning trials had the most FPS, and the one with twice
as many environments. Costs are interquartile means over seeds, with Welch's t on their logarithms. Hours count every GPU that takes part,
or the CPU.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.verdict import learning_cost, learning_trials
from envknee.verdict.rule import doublings
from envknee.verdict.schema.savings import Saving
from envknee.verdict.series import Ranks, Series, by_series
from envknee.verdict.words.numbers import counted, percent, span

HOUR_S = 3600.0


def analyse(records: Sequence[Record], series: Series, num_envs: int, settings: Decide) -> list[Saving]:
    """Return the savings of a point against others with learning trials; maybe none."""
    by_size = {
        size: ran
        for size, group in by_series(records, "learning").get(series, {}).items()
        if (ran := learning_trials.that_ran(group))
    }
    own = by_size.get(num_envs)
    if own is None or learning_trials.seconds_of(own).censored:
        return []
    others: dict[int, Literal["largest FPS", "twice as many environments"]] = {}
    if 2 * num_envs in by_size:
        others[2 * num_envs] = "twice as many environments"
    fastest = _fastest(by_size)
    if fastest is not None and fastest != num_envs:
        others[fastest] = "largest FPS"
    return [_saving(series, num_envs, other, by_size, against, settings) for other, against in sorted(others.items())]


def _fastest(by_size: Mapping[int, Sequence[Record]]) -> int | None:
    fps = {
        size: statistics.geometric_mean(values)
        for size, group in by_size.items()
        if (values := [record.fps_total.median for record in group if record.fps_total])
    }
    return max(fps, key=lambda size: (fps[size], -size), default=None)


def _saving(
    series: Series,
    num_envs: int,
    other: int,
    by_size: Mapping[int, Sequence[Record]],
    against: Literal["largest FPS", "twice as many environments"],
    settings: Decide,
) -> Saving:
    first = by_size[num_envs][0]
    gpus = learning_trials.gpus_of(first)
    chosen, compared = (learning_cost.level_of(learning_trials.seconds_of(by_size[n])) for n in (num_envs, other))
    # On the CPU, the hours are the machine's.
    hours, against_hours = (math.exp(-level.log_value) * (gpus or 1) / HOUR_S for level in (chosen, compared))
    _, *ends_of_ratio = doublings.difference(chosen, compared, settings.confidence)
    upper, lower = (None if end is None or compared.at_most else -doublings.expm1(end) for end in ends_of_ratio)
    saved = 1.0 - hours / against_hours
    device = "GPU" if gpus else "CPU"
    seeds = min(chosen.repeats, compared.repeats)
    ranks = Ranks.of(first.request)
    why = " (the most FPS of these trials)" if against == "largest FPS" else ""
    # The other point spends at least its bound, so the true saving is at least the saving against the bound.
    share = f"{'at least ' if compared.at_most else ''}{saved:.0%} less"
    if saved < 0.0:
        share = f"{'at most ' if compared.at_most else ''}{-saved:.0%} more"
    saved_ends = span(lower, upper, lambda share: percent(share, 0))
    ends = f"; saved {saved_ends}" if saved_ends else ""
    return Saving(
        num_envs=num_envs,
        horizon=series.horizon,
        batch_size=series.batch_size,
        against=against,
        against_num_envs=other,
        device=device,
        hours=hours,
        against_hours=against_hours,
        saved=saved,
        saved_lower=lower,
        saved_upper=upper,
        at_least=compared.at_most,
        seeds=seeds,
        statement=(
            f"{num_envs:,} environments{ranks.each} spend {hours:.3g} {device}-hours to the target,"
            f" {share} than {other:,}{why} with {'at least ' if compared.at_most else ''}{against_hours:.3g}"
            f" ({counted(seeds, 'seed')}{ends})"
        ),
    )
