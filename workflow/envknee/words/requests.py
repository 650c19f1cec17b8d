"""Why a request is not run, as a sentence. Pure."""

from collections.abc import Iterable

from envknee.record.reasons import (
    ClearlyPays,
    Composed,
    CrashedBefore,
    Decided,
    DriftKnown,
    FailedBefore,
    LargeRollout,
    PredictedTooLarge,
    RefusalReason,
    RolloutTooLarge,
    SamplerDone,
    Searched,
    SearchedSeries,
    ShownSlower,
    SkipReason,
    TimeSpent,
)


def why(reason: SkipReason | RefusalReason | str) -> str:
    """Return a reason in words. Requests of version 1 hold the words themselves."""
    if isinstance(reason, str):
        return reason
    if isinstance(reason, RolloutTooLarge | FailedBefore | PredictedTooLarge):
        return of_refusal(reason)
    return of_skip(reason)


def of_skip(skip: SkipReason) -> str:
    """Return why a trial would change nothing."""
    match skip:
        case Decided():
            return f"decided after {skip.repeats} repeats"
        case TimeSpent():
            repeats = _counted(skip.repeats, "repeat")
            return f"{repeats} took {skip.spent_s:,} s, and another would exceed time_limit_s {skip.time_limit_s:g}"
        case DriftKnown():
            return "with time_limit_s only the first repeat measures a point again"
        case ClearlyPays():
            return "its doublings clearly gain more than delta: another repeat would not change the verdict"
        case Composed():
            learns = " and ".join(f"{num_envs:,}" for num_envs in skip.learns_num_envs)
            return (
                f"its time follows from steps of {skip.collects_num_envs:,} environments and learning of {learns} environments"
                f" at horizon {skip.horizon}"
            )
        case LargeRollout():
            return f"its rollout is over {skip.times:g} times any at the smallest horizon: measured once the memory of others is known"
        case ShownSlower():
            return (
                f"slower: {skip.seeds} seeds take at least {skip.least_s:g} s to the target, and arm {skip.faster_arm} at"
                f" {skip.faster_num_envs:,} environments at most {skip.most_s:g} s ({skip.confidence:.0%} intervals)"
            )
        case Searched():
            return "; ".join(map(_of_series, skip.series))
        case CrashedBefore():
            return f"the program crashed at {skip.num_envs:,} environments in trial {skip.trial}, twice"
        case SamplerDone():
            return "the sampler needs no further trial"


def of_refusal(refusal: RefusalReason) -> str:
    """Return why a trial cannot fit the memory."""
    match refusal:
        case RolloutTooLarge():
            return (
                f"The observations of one rollout of {refusal.num_envs:,} x {refusal.horizon} take {refusal.needed_gb:g} GB"
                f" (measured: {refusal.measured_gb:g} GB at {refusal.measured_num_envs:,} x {refusal.measured_horizon})."
                f" The device has {refusal.device_gb:g} GB, of which {refusal.usable_gb:g} GB can be used."
            )
        case FailedBefore():
            return (
                f"{refusal.trials} trials no larger ran out of memory, the smallest at {refusal.smallest_num_envs:,} environments and"
                f" horizon {refusal.smallest_horizon}."
            )
        case PredictedTooLarge():
            return (
                f"The memory model of {refusal.trials} trials (largest error {refusal.largest_error_gb:g} GB) predicts"
                f" {refusal.predicted_gb:g} GB at {refusal.num_envs:,} x {refusal.horizon}, and the device has"
                f" {refusal.device_gb:g} GB."
            )


def _of_series(series: SearchedSeries) -> str:
    batch = "library batch" if series.batch_size is None else f"batch {series.batch_size:,}"
    return f"horizon {series.horizon}, {batch}: {_of_end(series)}"


def _of_end(series: SearchedSeries) -> str:
    match series.end:
        case "no_doubling_fits":
            return f"no two num_envs that fit are a doubling apart ({_listed(series.num_envs) or 'none fits'})"
        case "none_measured":
            return "no two num_envs could be measured"
        case "threshold_between":
            return f"decided, the threshold lies between {_listed(series.num_envs, ' and ')} environments"
        case "still_pays":
            return (
                f"decided, doubling still pays at {_listed(series.num_envs)} environments, the last that can be doubled"
            )
        case "stopped_paying":
            return f"decided, doubling {_listed(series.num_envs, ' and ')} environments has stopped paying"
        case "undecided":
            return f"undecided at {_listed(series.num_envs)} environments after {series.repeats} repeats"
        case "too_many_repeats":
            return f"undecided, {_listed(series.num_envs)} environments would need more than {series.repeats} repeats"


def _listed(sizes: Iterable[int], between: str = ", ") -> str:
    return between.join(f"{size:,}" for size in sizes)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
