"""What `envknee knee` says beside its verdict. Pure."""

from envknee.words.further import about
from envknee.words.numbers import counted
from envknee.words.progress import seconds_range

LEAST_TRIALS, MOST_TRIALS = 15, 30
"""Trials of a search: rows "adaptive, ascending" of docs/verdicts.md, and sizes that gain much."""


def not_begun(num_envs: int, expected_s: float, left_s: float) -> str:
    """Return why the time has no room for the next trial."""
    return (
        f"the next trial ({num_envs:,} environments) takes {about(expected_s)}, and {left_s:.0f} s of --time are left for"
        " trials. It does not begin"
    )


def too_short(given: str, expected_s: float, sizes: int) -> str:
    """Return what is wrong with a time in which no doubling can be measured: that takes a trial at two sizes."""
    measured = "no size was" if sizes == 0 else f"{counted(sizes, 'size')} was"
    whole = seconds_range(LEAST_TRIALS * expected_s, MOST_TRIALS * expected_s)
    return (
        f"--time {given} is too short: {measured} measured in it, a doubling needs two, and the next trial takes"
        f" {about(expected_s)}. A search takes {LEAST_TRIALS} to {MOST_TRIALS} trials: {whole} at this size, and more at larger"
        " ones. Type the same with more time: it goes on from here"
    )


def time_is_over(given: str, why: str) -> str:
    """Return that the time ended a search; the command that goes on with it follows."""
    return f"--time {given} is over: {why}. Type the same to go on:"
