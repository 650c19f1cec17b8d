"""What the arms of a study share. Pure."""

from envknee.verdict.schema.study import Verdict


def shared_series(verdict: Verdict) -> str | None:
    """Return horizon and batch size if several arms have the same: a figure names them once, below its title."""
    series = {str(limit.series) for arm in verdict.arms for limit in arm.throughput}
    series |= {
        f"{limit.series}" + (f" at {limit.scaled_from.num_envs:,} environments" if limit.scaled_from else "")
        for arm in verdict.arms
        for limit in arm.learning
    }
    return series.pop() if len(series) == 1 and len(verdict.arms) > 1 else None
