"""The memory limit in sentences. Pure."""

from collections.abc import Callable, Sequence

from envknee.verdict.memory_fit import Fit
from envknee.verdict.schema.memory import MemoryLimit, MemoryWall
from envknee.verdict.series import Ranks, Series
from envknee.words.numbers import ends, listed
from envknee.words.ranks import each

FAR_BEYOND = 4.0
"""From this multiple of the largest measured num_envs on, a prediction is called an extrapolation."""


def memory_notes(fit: Fit, walls: Sequence[MemoryWall]) -> list[str]:
    """Return notes on the model, a sentence each."""
    notes = []
    horizons = {sample.horizon for sample in fit.samples}
    if any(sample.off_policy for sample in fit.samples):
        notes.append("the replay buffer is within base: it is as large whatever num_envs and horizon are")
    elif 2 not in fit.columns:
        notes.append(
            f"one horizon ({listed(horizons)}): the rollout's part is within per_environment"
            if len(horizons) == 1
            else "the rollout's part cannot be told from the others at these points"
        )
    if any(wall.contradicted for wall in walls):
        notes.append("a trial at or below a predicted largest num_envs did not fit: trust the trial")
    return notes


def memory_statement(
    limit: MemoryLimit, fit: Fit | None, why_not: str, ranks: Ranks, at: Callable[[Series], str]
) -> str:
    """Return the memory limit in one sentence."""
    failed = limit.smallest_failed
    measured = "" if failed is None else f"; the smallest that did not fit: {failed:,}"
    if fit is None or limit.device_memory_gb is None:
        # Peaks without the memory of their device are those of a table.
        why_not = why_not or "the GPU's memory is not given (--device-gb)"
        return f"not identifiable: {why_not}{measured}"
    alone, on_gpu = ranks.world_size == 1, limit.quantity == "device memory used"
    whose = ("the GPU's" if alone else "each GPU's") if on_gpu else ("the host's" if alone else "each rank's")
    share = f"{1.0 - limit.margin:.0%} of {whose} {limit.device_memory_gb:,.1f} GB"
    known = [wall for wall in limit.walls if wall.largest_num_envs is not None]
    if not known:
        return f"memory does not grow with num_envs at the points measured ({share} available){measured}"
    tightest = min(known, key=lambda wall: wall.largest_num_envs or 0)
    where = at(tightest.series)
    beyond = tightest.extrapolation or 0.0
    if beyond > FAR_BEYOND:
        factor = "over 1,000" if beyond > 1000.0 else f"about {beyond:,.0f}"
        largest = f"{factor} times the largest num_envs{each(ranks)} measured"
        return f"far from binding: {share} would take {largest}{where}, an extrapolation{measured}"
    verb = "predicted: up to" if beyond > 1.0 else "up to"
    safe, estimate, ran = tightest.largest_num_envs_lower, tightest.largest_num_envs or 0, tightest.largest_fitted or 0
    if safe is not None and safe < ran <= estimate and not tightest.contradicted:
        safe, verb = ran, "measured: up to"
    if safe is None:
        points = f"{fit.points} points for {len(fit.columns)} unknowns"
        why = f" (no interval: {points}; measure another num_envs)" if fit.covariance is None else ""
        return f"{verb} {estimate:,} environments{each(ranks)} fit {share}{where}{why}{measured}"
    interval = (
        f"{limit.confidence:.0%} interval {ends(tightest.largest_num_envs_lower, tightest.largest_num_envs_upper)}"
    )
    return f"{verb} {safe:,} environments{each(ranks)} fit {share}{where} (estimate {estimate:,}, {interval}){measured}"
