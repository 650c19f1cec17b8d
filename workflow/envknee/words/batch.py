"""The critical batch size and the gradient noise scale in sentences. Pure."""

import math

from envknee.verdict.schema.batch import BatchLaw, PointNoise
from envknee.verdict.schema.laws import LARGEST_ERROR, LEAST_SIZES
from envknee.verdict.schema.limit import LEAST_REPEATS
from envknee.words.numbers import counted, ends, listed, percent
from envknee.words.ranks import each
from envknee.words.series import series_words

METHOD = (
    "S(B) = S_min (1 + B_noise / B) as E(B) = E_min + S_min B: least squares of relative errors, both at least 0, through"
    " interquartile means over seeds; intervals: stratified bootstrap (1,000 resamples) of the logarithms, widened by Student's t"
)

NOISE_METHOD = "ratio of mean unbiased estimates of tr(Sigma) and |G|^2; interval: Fieller's over samples, Student t, from 3 samples on"


def batch_notes(law: BatchLaw) -> list[str]:
    """Return notes on the law, a sentence each."""
    notes = []
    if law.pooled_num_envs:
        notes.append(
            f"pooled over {listed(law.pooled_num_envs)} environments{each(law.ranks)} and horizon {listed(law.pooled_horizons)}:"
            " what looks like the batch's effect may be theirs"
        )
    for base in law.rules:
        changes = ": the learning rate changes with the batch" if base.changes_rate else ""
        notes.append(f"under rule {base}{changes}")
    censored = [point for point in law.points if point.reached < point.seeds]
    if censored:
        notes.append(
            "left out of the fit, because not every seed reached the target (a lower bound, shown as such): batch "
            + ", ".join(f"{point.batch_size:,} ({point.reached} of {point.seeds})" for point in censored)
        )
    if law.is_library_batch:
        notes.append("the library's own batch counts as what it was: the rollout over its number of mini-batches")
    if law.missed:
        notes.append(
            f"the law misses batch {listed(law.missed)} by more than {LARGEST_ERROR:.0%}"
            " and by more than the seeds' interval: shown, but not used"
        )
    notes += [
        f"at batch {found.batch_size:,} the law expects {found.expected_frames:,.0f} environment steps, and at least"
        f" {found.least_frames:,.0f} were needed: shown, but not used"
        for found in law.contradicted
    ]
    if law.few_seeds:
        notes.append(f"fewer than {LEAST_REPEATS} seeds at some batch size: the interval is somewhat too narrow")
    return notes


def batch_statement(law: BatchLaw) -> str:
    """Return the law in one sentence, or what to measure for one."""
    if law.state != "fitted":
        return f"{batch_title(law)}: {_what_to_measure(law)}"
    unused = "" if law.used else "not used: "
    return f"{unused}{batch_title(law)}: {_meaning(law)}"


def batch_title(law: BatchLaw) -> str:
    """Return the noise scale with its interval, or the batch sizes that could be fitted."""
    sizes = [point.batch_size for point in law.fitted]
    if law.state != "fitted":
        return f"batch {listed(sizes)} alone" if sizes else "no batch size at which every seed reached the target"
    if law.b_noise is None:
        return f"optimizer steps fall in proportion to the batch up to {sizes[-1]:,}"
    interval = ends(law.b_noise_lower, law.b_noise_upper, "{:,.0f}".format, "no upper end")
    return f"B_noise {law.b_noise:,.0f} transitions ({interval})"


def _meaning(law: BatchLaw) -> str:
    """Return what the noise scale of a fitted law means, with the evidence."""
    where = "all num_envs and horizons pooled"
    if law.num_envs is not None:
        where = f"{law.num_envs:,} environments{each(law.ranks)}, horizon {law.horizon}"
    seeds = min(point.seeds for point in law.fitted)
    evidence = f"{len(law.fitted)} batch sizes, {counted(seeds, 'seed')} or more each; {where}"
    if law.b_noise is None:
        return f"B_noise lies beyond it ({evidence})"
    largest = law.fitted[-1].batch_size
    above = percent(largest / law.b_noise if law.b_noise else math.inf, 0)
    return (
        "a larger batch saves ever fewer optimizer steps, a smaller one ever fewer environment steps;"
        f" at batch {largest:,} environment steps are {above} above their least ({evidence})"
    )


def noise_statement(noise: PointNoise) -> str:
    """Return the gradient noise scale of a point in one sentence."""
    scale = noise.scale
    place = f"{noise.num_envs:,} environments{each(noise.ranks)}, {series_words(noise.series)}"
    where = f"at {place}, {counted(scale.samples, 'trial')}"
    if scale.transitions is None:
        return f"gradient noise scale larger than measurable: noise hides the gradient {where}"
    interval = ends(scale.lower, scale.upper, "{:,.0f}".format, "no upper end")
    return f"gradient noise scale {scale.transitions:,.0f} transitions ({interval}) {where}"


def _what_to_measure(law: BatchLaw) -> str:
    """Return what to measure for a law, beside the batch sizes that are known."""
    known = [point.batch_size for point in law.fitted]
    more = LEAST_SIZES - len(known)
    examples = ""
    if known:
        sizes = [size for size in (4 * max(known), min(known) // 4) if size]
        examples = f", such as {' and '.join(f'{size:,}' for size in sizes[:more])}"
    return (
        f"for B_noise measure {counted(more, 'more batch size')}{examples}, at one num_envs and horizon, with"
        f" {LEAST_REPEATS} seeds each that reach the target"
    )
