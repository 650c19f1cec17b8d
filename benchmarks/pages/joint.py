"""docs/joint.md: an arm whose settings another arm's search planned."""

from envknee.verdict.schema.joint import ConfirmedSetting, JointAnswer
from envknee.words.joint_costs import short_setting

from benchmarks.pages.cells import table
from benchmarks.pages.published import arm_of

STUDY, FAST, SLOW = "cartpole-learns-like", "lean-warp", "stock"


def answer_of(arm: str) -> JointAnswer:
    """Return the joint answer about learning of an arm; there must be one."""
    (answer,) = [joint for joint in arm_of(STUDY, arm).joint if joint.kind == "learning"]
    return answer


def seconds(setting: ConfirmedSetting) -> str:
    """Return seconds to the target with their simultaneous interval: `4.0 s (3.0 to 5.3)`."""
    return f"{setting.cost:.1f} s ({setting.cost_lower:.1f} to {setting.cost_upper:.1f})"


def settings_of_both() -> str:
    """Return the settings that both arms confirmed: seconds, memory, and the ratio of environment steps."""
    fast, slow = answer_of(FAST), answer_of(SLOW)
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
    likeness = answer_of(SLOW).likeness
    if likeness is None or likeness.state != "shown":
        raise ValueError(f"{STUDY}: the arms are not shown to learn alike; mend the sentence of docs/joint.md")
    level = 1.0 - 2.0 * likeness.error
    return f"{likeness.ratio:.2f} times as many ({level:.0%} interval {likeness.ratio_lower:.2f} to {likeness.ratio_upper:.2f})"


def soonest_of(arm: str) -> ConfirmedSetting:
    """Return the setting that is named as the soonest of an arm; there must be one."""
    answer = answer_of(arm)
    if answer.soonest is None:
        raise ValueError(f"{STUDY}: no setting of {arm} is named as the soonest; mend the sentences that name it")
    return answer.confirmed[answer.soonest]


def soonest() -> str:
    """Return the soonest setting of the fast arm."""
    setting = soonest_of(FAST)
    return f"{seconds(setting)} at {short_setting(setting)}"


BLOCKS = {
    "joint-learns-like": settings_of_both, "joint-learns-like-ratio": ratio, "joint-learns-like-soonest": soonest
}  # fmt: skip
