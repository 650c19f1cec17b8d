"""Settings and costs of the joint answer in a few words. Pure.

A cost is seconds to the target; for throughput it is seconds per frame, and is said as FPS, which are one over it.
"""

from envknee.base.fields import Kind
from envknee.verdict.schema.joint import ConfirmedSetting, Setting
from envknee.verdict.series import ONE_GPU, Ranks, Series
from envknee.words.numbers import counted, percent
from envknee.words.ranks import each
from envknee.words.series import series_words


def setting_words(setting: Setting, ranks: Ranks) -> str:
    """Return `512 environments per GPU, horizon 32, batch 1,024`."""
    series = Series("", setting.horizon, setting.batch_size)
    return f"{setting.num_envs:,} environments{each(ranks)}, {series_words(series)}"


def short_setting(setting: Setting, ranks: Ranks = ONE_GPU) -> str:
    """Return `512 × 32 × 1,024`, num_envs, horizon and batch; without the batch if it is the library's own."""
    sizes = [f"{setting.num_envs:,}{each(ranks)}", f"{setting.horizon:,}"]
    if setting.batch_size is not None:
        sizes.append(f"{setting.batch_size:,}")
    return " × ".join(sizes)


def cost_words(kind: Kind, cost: float) -> str:
    """Return `6.1 s`, or `16,090 FPS`."""
    return f"{1.0 / cost:,.0f} FPS" if kind == "throughput" else f"{cost:,.1f} s"


def interval_words(kind: Kind, lower: float, upper: float) -> str:
    """Return `5.3 to 7.0`, or for throughput `15,730 to 16,460`: the ends change places."""
    if kind == "throughput":
        return f"{1.0 / upper:,.0f} to {1.0 / lower:,.0f}"
    return f"{lower:,.1f} to {upper:,.1f}"


def level_words(error: float) -> str:
    """Return the level of an interval: `96%`, or `98.75%`."""
    return f"{(1.0 - error) * 100.0:.4g}%"


def error_words(error: float) -> str:
    """Return a chance of error: `5%`, or `1.25%`."""
    return f"{error * 100.0:.3g}%"


def seeds_words(kind: Kind, count: int) -> str:
    """Return `8 fresh seeds`, or `8 fresh repeats`."""
    return counted(count, "fresh repeat" if kind == "throughput" else "fresh seed")


def confirmed_cost(kind: Kind, setting: ConfirmedSetting, error: float) -> str:
    """Return `6.1 s (96% interval 5.3 to 7.0, 8 fresh seeds)`."""
    assert setting.cost is not None, "it can be compared"
    seeds = seeds_words(kind, setting.seeds)
    if setting.cost_lower is None or setting.cost_upper is None:
        return f"{cost_words(kind, setting.cost)} ({seeds})"
    interval = interval_words(kind, setting.cost_lower, setting.cost_upper)
    return f"{cost_words(kind, setting.cost)} ({level_words(error)} interval {interval}, {seeds})"


def at_most_slower(kind: Kind, most: float) -> str:
    """Return `takes at most 12% longer than the best one`, or for FPS `the best one has at most 12% more FPS`."""
    if kind == "throughput":
        return f"the best one has at most {percent(most)} more FPS" if most else "no other one has more FPS"
    return f"takes at most {percent(most)} longer than the best one" if most else "no other one is sooner"
