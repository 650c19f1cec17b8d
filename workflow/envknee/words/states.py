"""The state of a limit in a few words, for tables and titles. Pure."""

from collections.abc import Collection

from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.limit import Gain, SeriesLimit
from envknee.words.numbers import counted, listed, percent, span


def gain_evidence(limit: SeriesLimit) -> list[str]:
    """Return the gain of the deciding doubling, or else of the last one, with its bound, in a few words."""
    gain = limit.named
    if gain is None:
        return []
    least, most = gain.gain_lower_one_sided, gain.gain_upper_one_sided
    bound = span(gain.gain_lower, gain.gain_upper)
    if limit.state == "still pays" and least is not None:
        bound = f"at least {percent(least)}"
    elif limit.state == "reached" and most is not None:
        bound = f"at most {percent(most)}"
    said, pays, repeated = f"gains {percent(gain.gain)}", f"cut-off {limit.delta:.0%}", repeats(gain.repeats)
    if isinstance(limit, LearningLimit):
        said, pays = f"saves {percent(gain.gain)} of the time", f"pays from {limit.delta:.0%} saved"
        repeated = counted(gain.repeats, "seed")
        if gain.gain < 0.0:
            said = f"takes {percent(-gain.gain)} longer"
            if limit.state == "reached" and most is not None:
                bound = f"saves {bound}" if most >= 0.0 else f"at least {percent(-most)}"
    return [f"doubling {gain.num_envs:,} {said} ({', '.join(filter(None, (bound, repeated)))}; {pays})"]


def what_decides(limit: SeriesLimit) -> str:
    """Return `3 more repeats`, or what else an undecided limit lacks; "" without a doubling."""
    if not limit.gains:
        return ""
    if not limit.gains[-1].machines:
        return "no machine ran both sizes"
    if limit.more_repeats is None:
        return _why_more_do_not_decide(limit.gains[-1])
    return counted(limit.more_repeats, f"more {repeat_word(limit)}")


def _why_more_do_not_decide(largest: Gain) -> str:
    if largest.decides:
        return "too near the cut-off"
    return "too few trials beside little load" if largest.loaded else "too few seeds arrived"


def repeat_word(limit: SeriesLimit) -> str:
    """Return the word for a repeat: a trial that learns has a seed."""
    return "seed" if isinstance(limit, LearningLimit) else "repeat"


def what_would_decide(limit: SeriesLimit) -> str:
    """Return how many more repeats (or seeds) would decide."""
    if limit.more_repeats is None:
        return f"over 200 {repeat_word(limit)}s of each point would be needed to decide"
    return f"about {what_decides(limit)} of each point would decide"


def why_no_doubling(sizes: Collection[int]) -> str:
    """Return why no two of the measured num_envs are a doubling apart."""
    if len(sizes) == 1:
        return f"one point ({listed(sizes)} environments): a doubling needs two"
    return f"no measured num_envs is twice another ({listed(sizes)}): no doubling to compare; list N, 2N, 4N, ..."


def repeats(count: int) -> str:
    """Return `one repeat` or `3 repeats`."""
    return "one repeat" if count == 1 else f"{count} repeats"
