"""Phase laws in sentences. Pure."""

from collections.abc import Sequence

from envknee.verdict.rule import affine
from envknee.verdict.schema.phases import PhaseLaw, PhaseLaws, PhasePoint
from envknee.verdict.series import Ranks
from envknee.words.numbers import listed
from envknee.words.ranks import each


def phase_notes(timed: int, points: Sequence[PhasePoint], laws: Sequence[PhaseLaw]) -> list[str]:
    """Return notes on the laws of a series with so many `timed` trials, a sentence each."""
    notes = []
    repeats = sum(point.repeats for point in points)
    if repeats < timed:
        notes.append(f"{repeats} of {timed} timed trials tell their phases")
    missed = [f"{law.phase} ({law.largest_relative_error:.0%})" for law in laws if not law.used]
    if missed:
        notes.append(
            f"laws that miss a point by more than {affine.ERROR_LIMIT:.0%}, shown but not used: {', '.join(missed)}"
        )
    apart = max(points, key=lambda point: abs(point.share_of_total - 1.0))
    if abs(apart.share_of_total - 1.0) > affine.ERROR_LIMIT:
        notes.append(
            f"at {apart.num_envs:,} environments the phases add up to {apart.share_of_total:.0%} of the time that FPS are"
            " counted with: time between collecting and learning counts as `other`"
        )
    return notes


def phase_statement(told: PhaseLaws, ranks: Ranks) -> str:
    """Return the phase that sets the knee, in one sentence."""
    points, laws = told.points, told.laws
    knee, wait = (phase and told.law(phase) for phase in (told.sets_the_knee, told.few_wait_for))
    if not laws:
        sizes = listed(point.num_envs for point in points)
        return f"{_measured(points[-1], ranks)}; a law needs {affine.LEAST_SIZES} different num_envs, and phases are known at {sizes}"
    if knee is None:
        why = "no law is close enough to say which phase sets the knee"
        if not any(law.s_per_env for law in laws):
            why = "no phase takes longer with more environments"
        return f"{_measured(points[-1], ranks)}; {why}"
    others = sorted(
        (law for law in laws if law is not knee and law.used), key=lambda law: law.share_of_slope or 0.0, reverse=True
    )
    second = [f", {law.phase} {law.share_of_slope:.0%}" for law in others[:1] if law.share_of_slope]
    share = _with_interval(knee.share_of_slope, knee.share_of_slope_lower, knee.share_of_slope_upper)
    grows = (
        f"{knee.phase} takes {share} of each added environment's time{''.join(second)}"
        f" ({_certain(knee.largest_slope_certainty)})"
    )
    if wait is None:
        return grows
    share = _with_interval(wait.share_of_t0, wait.share_of_t0_lower, wait.share_of_t0_upper)
    return (
        f"{grows}; what few environments wait for: {wait.phase}, {share} of the {sum(law.t0_s for law in laws) * 1e3:,.3g} ms"
        f" that do not grow with num_envs ({_certain(wait.largest_t0_certainty)})"
    )


def _measured(point: PhasePoint, ranks: Ranks) -> str:
    first, second = sorted(point.shares, key=lambda phase: point.shares[phase], reverse=True)[:2]
    return (
        f"at {point.num_envs:,} environments{each(ranks)} {first} takes {point.shares[first]:.0%} of an iteration,"
        f" {second} {point.shares[second]:.0%}"
    )


def _with_interval(value: float | None, lower: float | None, upper: float | None) -> str:
    assert value is not None
    ends = list(dict.fromkeys(f"{end:.0%}" for end in (lower, upper) if end is not None))
    return f"{value:.0%}" + (f" ({' to '.join(ends)})" if len(ends) == 2 else "")


def _certain(share: float) -> str:
    """Return `73% certain`, or at most `over 99% certain`: there are not enough draws for more."""
    return "over 99% certain" if share > 0.99 else f"{share:.0%} certain"
