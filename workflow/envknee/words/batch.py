"""The critical batch size in sentences. Pure."""

import math
from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.study.scaling_rule import RATE_GROWS
from envknee.verdict.rule import affine
from envknee.verdict.rule.union import LEAST_REPEATS
from envknee.verdict.schema.batch import BatchLaw, BatchPoint, PointNoise
from envknee.verdict.series import Ranks
from envknee.words.numbers import counted, ends, listed, percent
from envknee.words.ranks import each
from envknee.words.series import series_words


def batch_notes(
    records: Sequence[Record], points: Sequence[BatchPoint], place: tuple[int, int] | None, ranks: Ranks
) -> list[str]:
    """Return notes on the law, a sentence each."""
    notes = []
    if place is None:
        sizes = sorted({record.request.num_envs for record in records})
        horizons = sorted({record.request.horizon for record in records})
        notes.append(
            f"pooled over {listed(sizes)} environments{each(ranks)} and horizon {listed(horizons)}: what looks like the batch's"
            " effect may be theirs"
        )
    notes += [
        f"under rule {base}" + (": the learning rate changes with the batch" if base.rule in RATE_GROWS else "")
        for base in dict.fromkeys(record.request.scaled_from for record in records)
        if base is not None
    ]
    censored = [point for point in points if point.reached < point.seeds]
    if censored:
        notes.append(
            "left out of the fit, because not every seed reached the target (a lower bound, shown as such): batch "
            + ", ".join(f"{point.batch_size:,} ({point.reached} of {point.seeds})" for point in censored)
        )
    if any(record.request.batch_size is None for record in records):
        notes.append("the library's own batch counts as what it was: the rollout over its number of mini-batches")
    return notes


def batch_statement(law: BatchLaw, ranks: Ranks) -> str:
    """Return the law in one sentence, or what to measure for one."""
    fitted = [point for point in law.points if point.reached == point.seeds]
    if law.state != "fitted":
        return _what_to_measure([point.batch_size for point in fitted])
    where = "all num_envs and horizons pooled"
    if law.num_envs is not None:
        where = f"{law.num_envs:,} environments{each(ranks)}, horizon {law.horizon}"
    largest = fitted[-1].batch_size
    seeds = min(point.seeds for point in fitted)
    evidence = f"{len(fitted)} batch sizes, {counted(seeds, 'seed')} or more each; {where}"
    unused = "" if law.used else "not used: "
    if law.b_noise is None:
        return f"{unused}optimizer steps fall in proportion to the batch up to {largest:,}: B_noise lies beyond it ({evidence})"
    interval = ends(law.b_noise_lower, law.b_noise_upper, "{:,.0f}".format, "no upper end")
    return (
        f"{unused}B_noise {law.b_noise:,.0f} transitions ({interval}): a larger batch saves ever fewer optimizer steps, a"
        f" smaller one ever fewer frames; at batch {largest:,} frames are"
        f" {percent(largest / law.b_noise if law.b_noise else math.inf, 0)} above their least ({evidence})"
    )


def noise_statement(noise: PointNoise, ranks: Ranks) -> str:
    """Return the gradient noise scale of a point in one sentence."""
    scale = noise.scale
    where = f"at {noise.num_envs:,} environments{each(ranks)}, {series_words(noise.series)}, {counted(scale.samples, 'trial')}"
    if scale.transitions is None:
        return f"gradient noise scale larger than measurable: noise hides the gradient {where}"
    interval = ends(scale.lower, scale.upper, "{:,.0f}".format, "no upper end")
    return f"gradient noise scale {scale.transitions:,.0f} transitions ({interval}) {where}"


def _what_to_measure(known: Sequence[int]) -> str:
    """Return what to measure for a law, beside `known` batch sizes."""
    measured = f"batch {listed(known)} alone" if known else "no batch size at which every seed reached the target"
    more = affine.LEAST_SIZES - len(known)
    sizes = [size for size in (4 * max(known), min(known) // 4) if size] if known else []
    such = f", such as {' and '.join(f'{size:,}' for size in sizes[:more])}" if sizes else ""
    return (
        f"{measured}: for B_noise measure {counted(more, 'more batch size')}{such}, at one num_envs and horizon, with"
        f" {LEAST_REPEATS} seeds each that reach the target"
    )
