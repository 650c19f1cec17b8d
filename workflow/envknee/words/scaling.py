"""Scaling efficiency in sentences. Pure."""

from collections.abc import Sequence

from envknee.verdict.schema.scaling import Scaling, ScalingLoss, ScalingPoint
from envknee.words.numbers import percent, span
from envknee.words.ranks import ranks_words
from envknee.words.series import series_words

METHOD = (
    "weak scaling: FPS of all ranks / (ranks x FPS of one) at equal num_envs per rank, horizon and batch_size; geometric means"
    " over processes, compared within machines, t on ln FPS, two-sided, each point alone"
)


def scaling_statement(scaling: Scaling) -> str:
    """Return the fastest point in one sentence, and the range over all; or why there is no efficiency."""
    fastest = scaling.fastest
    if fastest is None:
        return f"no efficiency: {_missing(scaling)}"
    if len(scaling.points) == 1:
        return point_statement(fastest)
    shares = [point.efficiency for point in scaling.points]
    ends = dict.fromkeys(percent(share, 0) for share in (min(shares), max(shares)))
    return f"{point_statement(fastest)}; {' to '.join(ends)} over {len(shares)} points"


def scaling_title(scaling: Scaling) -> str:
    """Return the speed-up at the fastest point in a few words; or why there is none."""
    if scaling.fastest is None:
        return scaling_statement(scaling)
    return point_title(scaling.fastest)


def scalings_title(scalings: Sequence[Scaling]) -> str:
    """Return the speed-ups of several arms in one sentence."""
    points = [scaling.fastest for scaling in scalings if scaling.fastest is not None]
    ranks = {point.ranks for point in points}
    if len(ranks) != 1:
        return "What more ranks give, by arm"
    (shared,) = ranks
    speedups = [point.speedup for point in points]
    ends = dict.fromkeys(f"{speedup:.2f}" for speedup in (min(speedups), max(speedups)))
    return f"{ranks_words(shared)} give {' to '.join(ends)} times one {shared.word}'s FPS"


def point_statement(point: ScalingPoint) -> str:
    """Return the speed-up at a point, with its efficiency."""
    interval = span(point.efficiency_lower, point.efficiency_upper, lambda share: percent(share, 0))
    sure = interval or "one repeat: no interval"
    return f"{point_title(point)}, {series_words(point.series)} (efficiency {percent(point.efficiency, 0)}, {sure})"


def point_title(point: ScalingPoint) -> str:
    """Return `2 GPUs give 1.90 times one GPU's FPS at 4,096 environments each`."""
    ranks = point.ranks
    return f"{ranks_words(ranks)} give {point.speedup:.2f} times one {ranks.word}'s FPS at {point.num_envs:,} environments each"


def scaling_notes(scaling: Scaling) -> list[str]:
    """Return notes on the scaling of an arm, a sentence each."""
    notes = []
    if scaling.slowest_share is not None:
        share = percent(scaling.slowest_share, 0)
        notes.append(f"the slowest {scaling.rank_word} collects at {share} of the fastest one's FPS")
    notes += loss_notes(scaling)
    if scaling.lacks == "partner":
        one = "cpu_ranks: 1" if scaling.partner_gpus == 0 else "gpus: 1"
        if scaling.has_nodes:
            one += ", nodes: 1"
        more = f"run a study (of another name) with one arm more, like {scaling.arm} but with `{one}`"
        notes.append(f"for the scaling efficiency of {ranks_words(scaling.ranks)} {more}")
    return notes


def loss_notes(scaling: Scaling) -> list[str]:
    """Return where the loss of each point goes whose interval shows one; one sentence if none does; nothing without intervals."""
    if any(point.loses for point in scaling.points):
        return [loss_statement(point, point.loss) for point in scaling.points if point.loses and point.loss is not None]
    if any(point.efficiency_upper is not None for point in scaling.points):
        return ["no loss is shown: every interval reaches 100%"]
    return []


def loss_statement(point: ScalingPoint, loss: ScalingLoss) -> str:
    """Return how much longer an iteration takes on all ranks at a point, and what that time goes to."""
    more_s = loss.iteration_all_ranks_s - loss.iteration_one_rank_s
    largest = loss.largest_collecting
    most = f" (most of it {largest}, {_ms(loss.more_s[largest])})" if largest else ""
    return (
        f"with {point.num_envs:,} environments each, {ranks_words(point.ranks)} take {_ms(more_s)} longer for an iteration than one"
        f" {point.rank_word}'s {_ms(loss.iteration_one_rank_s)}: about {_ms(loss.slowest_rank_s)} waiting for the slowest"
        f" {point.rank_word}, {_ms(loss.exchange_s)} exchanging gradients, {_ms(loss.collecting_s)} collecting{most}"
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms"


def _missing(scaling: Scaling) -> str:
    if scaling.lacks == "partner":
        return f"no arm of the study is this one on one {scaling.rank_word}"
    if scaling.lacks == "same hardware":
        return f"this arm ran on {scaling.devices}, and arm {scaling.partner} on {scaling.partner_devices}"
    several = ranks_words(scaling.ranks)
    return f"no point is timed on {several} and on one {scaling.rank_word} (arm {scaling.partner})"
