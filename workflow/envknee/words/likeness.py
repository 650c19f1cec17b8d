"""Whether an arm learns like another one, in sentences. Pure."""

from collections.abc import Iterable

from envknee.verdict.schema.joint import JointAnswer, JointPlan, Likeness, LikenessState
from envknee.words.joint_costs import level_words, short_setting
from envknee.words.numbers import counted

FIRST: dict[LikenessState, str] = {
    "shown": "learns", "differs": "does not learn", "not shown": "not shown to learn"
}  # fmt: skip


def likeness_lines(found: JointAnswer) -> list[str]:
    """Return in a line whether an arm learns like the one whose search planned its settings; none for an arm with a search of its own."""
    if found.learns_like is None:
        return []
    likeness = found.likeness
    if likeness is None:
        return [f"not shown to learn like {found.learns_like} yet: fresh seeds of that arm are left"]
    return [_line(likeness)]


def planned_from(arms: Iterable[str]) -> str:
    """Return `planned from lean's environment steps`."""
    return f"planned from {steps_of(arms)}"


def steps_of(arms: Iterable[str]) -> str:
    """Return `lean's environment steps`."""
    owners = " and ".join(f"{arm}'s" for arm in dict.fromkeys(arms))
    return f"{owners} environment steps"


def plan_words(plan: JointPlan, likeness: Likeness | None, finding: str) -> str:
    """Return a finding of a plan, with what the fresh seeds of both arms say of it."""
    shown = f"whether it learns like {plan.arm} is not known yet" if likeness is None else _line(likeness)
    return f"{planned_from([plan.arm])}, no claim: {finding}; {shown}"


def _line(likeness: Likeness) -> str:
    arm, settings = likeness.arm, counted(len(likeness.at), "setting")
    if likeness.state == "too few settings":
        return f"not shown to learn like {arm}: {settings} to compare, and {likeness.least_settings} are needed{_told(likeness)}"
    if likeness.state == "seeds missed the target":
        return f"not shown to learn like {arm}: seeds of it, or of this arm, missed the target{_told(likeness)}"
    if likeness.state == "varies":
        ratios = [own.ratio for own in likeness.at]
        return f"does not learn like {arm} everywhere: {min(ratios):.2f} to {max(ratios):.2f} × its environment steps"
    return f"{FIRST[likeness.state]} like {arm}: {_ratio(likeness)} at {settings}"


def _told(likeness: Likeness) -> str:
    return "" if likeness.ratio is None else f"; {_ratio(likeness)}"


def _ratio(likeness: Likeness) -> str:
    """Return `1.02 × its environment steps (97% interval 0.95 to 1.09)`."""
    interval = f"{_level(likeness)} interval {likeness.ratio_lower:.2f} to {likeness.ratio_upper:.2f}"
    return f"{likeness.ratio:.2f} × its environment steps ({interval})"


def setting_lines(found: JointAnswer) -> list[str]:
    """Return a line for each setting at which the environment steps of both arms are compared."""
    likeness = found.likeness
    if likeness is None:
        return []
    return [
        f"{short_setting(own)}: {own.ratio:.2f} × the environment steps of {likeness.arm}"
        f" ({_level(likeness)} interval {own.ratio_lower:.2f} to {own.ratio_upper:.2f})"
        for own in likeness.at
    ]


def _level(likeness: Likeness) -> str:
    return level_words(2.0 * likeness.error)


def likeness_notes(found: JointAnswer) -> list[str]:
    """Return what the comparison requires, and what follows from it."""
    if found.likeness is None:
        return []
    arm, margin, least = found.likeness.arm, found.likeness.margin, found.likeness.least_settings
    required = (
        f"two arms learn alike if the interval of the ratio lies within {1 - margin:.2f} to {1 + margin:.2f}, at {least} settings or"
        " more that do not differ in it"
    )
    if found.likeness.state == "shown":
        follows = (
            f"chances are by the environment steps of {arm} and this arm's own FPS; thresholds take a search of its own"
        )
    else:
        follows = (
            f"nothing is said of settings without fresh seeds: the search of {arm} only chose those that have them"
        )
    return [required, follows]


def likeness_next(found: JointAnswer) -> str | None:
    """Return the next step of an arm that is not shown to learn like another one; None if there is none of its own."""
    likeness = found.likeness
    if likeness is None or likeness.state == "shown":
        return None
    if likeness.state == "not shown":
        more = found.seeds_to_next_look or 1
        return f"Raise `more_repeats` by {more}: more seeds may show that both arms learn alike."
    return "Give it a search: take `learns_like` out, in a study of another name."
