"""The three states of a limit in a few words, for tables and titles. Pure."""

from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.words.numbers import counted


def state_words(limit: ThroughputLimit | LearningLimit, of_each: str) -> str:
    """Return `8,192 envs`, `still pays at 16,384 envs` or `undecided up to 16,384 envs (3 more repeats)`.

    `of_each` is the unit of num_envs, such as `envs per GPU`.
    """
    if limit.threshold_num_envs is not None:
        return f"{limit.threshold_num_envs:,} {of_each}"
    if limit.largest_num_envs is None:
        return "nothing measured"
    if limit.state == "still pays":
        return f"still pays at {limit.largest_num_envs:,} {of_each}"
    wanted = what_decides(limit)
    return f"undecided up to {limit.largest_num_envs:,} {of_each}" + (f" ({wanted})" if wanted else "")


def what_would_decide(more: int | None, word: str) -> str:
    """Return how many more repeats (or seeds, by `word`) would decide."""
    if more is None:
        return f"over 200 {word}s of each point would be needed to decide"
    return f"about {counted(more, f'more {word}')} of each point would decide"


def what_decides(limit: ThroughputLimit | LearningLimit) -> str:
    """Return `3 more repeats`, or what else an undecided limit lacks; "" without a doubling."""
    is_learning = isinstance(limit, LearningLimit)
    if not (limit.savings if is_learning else limit.gains):
        return ""
    if not is_learning and not limit.gains[-1].machines:
        return "no machine ran both sizes"
    more, what = (limit.more_seeds, "seed") if is_learning else (limit.more_repeats, "repeat")
    if more is None:
        return "too few seeds arrived" if is_learning and not limit.savings[-1].decides else "too near the cut-off"
    return counted(more, f"more {what}")
