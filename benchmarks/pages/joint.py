"""docs/joint.md: an arm whose settings another arm's search planned."""

from envknee.words.joint_costs import short_setting

from benchmarks.pages import joint_runs
from benchmarks.pages.cells import table
from benchmarks.pages.joint_runs import Run, answer_of, seconds

STUDY, FAST, SLOW = "cartpole-learns-like", "lean-warp", "stock"


def settings_of_both() -> str:
    """Return the settings that both arms confirmed: seconds, memory, and the ratio of environment steps."""
    fast, slow = (answer_of(STUDY, arm, "learning") for arm in (FAST, SLOW))
    own = {short_setting(setting): setting for setting in fast.confirmed}
    steps = {short_setting(ratio): ratio for ratio in (slow.likeness.at if slow.likeness else [])}
    rows = []
    for setting in slow.confirmed:
        at = short_setting(setting)
        ratio = steps[at]
        memory = f"{setting.memory_peak_gb:.1f} and {own[at].memory_peak_gb:.1f} GB"
        interval = f"{ratio.ratio:.2f} ({ratio.ratio_lower:.2f} to {ratio.ratio_upper:.2f})"
        rows.append((at, seconds(setting), seconds(own[at]), interval, memory))
    return table(("setting", f"`{SLOW}`", f"`{FAST}`", "ratio of environment steps", "memory"), rows)


def ratio() -> str:
    """Return the ratio of environment steps over all settings, with its interval."""
    likeness = answer_of(STUDY, SLOW, "learning").likeness
    if likeness is None or likeness.state != "shown":
        raise ValueError(f"{STUDY}: the arms are not shown to learn alike; mend the sentence of docs/joint.md")
    level = 1.0 - 2.0 * likeness.error
    return f"{likeness.ratio:.2f} times as many ({level:.0%} interval {likeness.ratio_lower:.2f} to {likeness.ratio_upper:.2f})"


def soonest() -> str:
    """Return the soonest setting of the fast arm."""
    return joint_runs.soonest(Run(STUDY, FAST, "lean frames"))


BLOCKS = {
    "joint-learns-like": settings_of_both, "joint-learns-like-ratio": ratio, "joint-learns-like-soonest": soonest
}  # fmt: skip
