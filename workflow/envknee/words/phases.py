"""Phase laws in sentences. Pure."""

from collections.abc import Mapping

from envknee.record.schema import Phase
from envknee.verdict.schema.laws import LARGEST_ERROR, LEAST_SIZES
from envknee.verdict.schema.phases import PhaseLaw, PhaseLaws, PhasePoint
from envknee.verdict.series import Ranks
from envknee.words.numbers import listed
from envknee.words.ranks import each
from envknee.words.throughput import LAW_METHOD

METHOD = (
    f"per phase {LAW_METHOD}, drawn jointly for all phases; certainty: share of draws in which the phase is the largest"
)


def phase_notes(found: PhaseLaws) -> list[str]:
    """Return notes on the laws of a series, a sentence each."""
    notes = []
    if found.trials < found.timed_trials:
        notes.append(f"{found.trials} of {found.timed_trials} timed trials tell their phases")
    missed = [f"{law.phase} ({law.largest_relative_error:.0%})" for law in found.laws if not law.used]
    if missed:
        notes.append(
            f"laws that miss a point by more than {LARGEST_ERROR:.0%}, shown but not used: {', '.join(missed)}"
        )
    apart = found.apart
    if abs(apart.share_of_total - 1.0) > LARGEST_ERROR:
        notes.append(
            f"at {apart.num_envs:,} environments the phases add up to {apart.share_of_total:.0%} of the time that FPS are"
            " counted with: time between collecting and learning counts as `other`"
        )
    return notes


def phase_statement(found: PhaseLaws) -> str:
    """Return the phase that sets the knee, in one sentence."""
    detail = _detail(found)
    return f"{phase_title(found)}; {detail}" if detail else phase_title(found)


def phase_title(found: PhaseLaws) -> str:
    """Return the beginning of `phase_statement`: the phase that takes most of an added environment's time, or of an iteration."""
    if found.sets_the_knee is None:
        return _measured(found.points[-1], found.ranks)
    return _grows(found, found.law(found.sets_the_knee))


def phases_title(found: Mapping[str, PhaseLaws | None]) -> str:
    """Return in one sentence the phase that takes most of the time in each of several arms."""
    known = {arm: laws for arm, laws in found.items() if laws is not None}
    if not known:
        return "What the time of an iteration goes to, by arm"
    knees = {arm: laws.sets_the_knee for arm, laws in known.items()}
    if None in knees.values():
        return f"Most of an iteration's time goes to {_by_phase({arm: _largest(laws) for arm, laws in known.items()})}"
    return f"Most of each added environment's time goes to {_by_phase(knees)}"


def _largest(found: PhaseLaws) -> Phase:
    """Return the phase with the largest share of an iteration at the most environments."""
    shares = found.points[-1].shares
    return max(shares, key=lambda phase: shares[phase])


def _by_phase(phase_of: Mapping[str, str | None]) -> str:
    """Return `learning`, or `learning (stock) and render (lean)`."""
    arms_of = dict[str, list[str]]()
    for arm, phase in phase_of.items():
        arms_of.setdefault(str(phase), []).append(arm)
    if len(arms_of) == 1:
        return next(iter(arms_of))
    return " and ".join(f"{phase} ({', '.join(arms)})" for phase, arms in arms_of.items())


def _detail(found: PhaseLaws) -> str:
    """Return why no phase sets the knee; or what few environments wait for, "" if that is not known."""
    if not found.laws:
        sizes = listed(point.num_envs for point in found.points)
        return f"a law needs {LEAST_SIZES} different num_envs, and phases are known at {sizes}"
    if found.sets_the_knee is None and any(law.s_per_env for law in found.laws):
        return "no law is close enough to say which phase sets the knee"
    if found.sets_the_knee is None:
        return "no phase takes longer with more environments"
    wait = found.few_wait_for
    if wait is None:
        return ""
    law = found.law(wait)
    share = _with_interval(law.share_of_t0, law.share_of_t0_lower, law.share_of_t0_upper)
    fixed_ms = sum(law.t0_s for law in found.laws) * 1e3
    return (
        f"what few environments wait for: {wait}, {share} of the {fixed_ms:,.3g} ms"
        f" that do not grow with num_envs ({_certain(law.largest_t0_certainty)})"
    )


def _grows(found: PhaseLaws, knee: PhaseLaw) -> str:
    """Return what share of an added environment's time the phase takes that sets the knee, and the next one."""
    others = [law for law in found.laws if law is not knee and law.used]
    second = max(others, key=lambda law: law.share_of_slope or 0.0, default=None)
    beside = ""
    if second is not None and second.share_of_slope:
        beside = f", {second.phase} {second.share_of_slope:.0%}"
    share = _with_interval(knee.share_of_slope, knee.share_of_slope_lower, knee.share_of_slope_upper)
    return f"{knee.phase} takes {share} of each added environment's time{beside} ({_certain(knee.largest_slope_certainty)})"


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
