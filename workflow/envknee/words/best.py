"""What `envknee best` says beside the setting that it prints. Pure."""

from collections.abc import Mapping

from envknee.verdict.schema.best import Aim, Answer, Best
from envknee.verdict.schema.joint import Setting
from envknee.verdict.series import Ranks
from envknee.words.card import lean_page, settings_words
from envknee.words.headline import NO_TRIAL
from envknee.words.joint_costs import setting_words
from envknee.words.numbers import counted

AIMS: dict[Aim, str] = {
    "soonest": "what learns soonest",
    "fps": "what has most FPS",
    "cheapest": "what costs the fewest GPU-seconds",
}
"""What is decided, or is not."""


def undecided_line(best: Best) -> str:
    """Return that an answer is open, and the best setting so far."""
    setting = Setting.at(best.num_envs, best)
    said = f"{best.study}: {AIMS[best.aim]} is undecided"
    if best.memory_gb is not None:
        said += f" on {best.memory_gb:,.1f} GB"
    if best.state == "still pays":
        said += ", because more environments still paid at the largest size"
    return f"{said}. Best so far: {best.arm}, {setting_words(setting, Ranks(best.world_size, best.rank_word))}"


def lacks_line(best: Best) -> str:
    """Return what the arm has beside the printed options, such as lean frames; "" if nothing."""
    if best.command is None or not best.command.argv or not best.command.lacks:
        return ""
    return (
        f"{best.arm} also has {settings_words(best.command)}, which these options do not set{lean_page(best.command)}"
    )


def composed_line(best: Best) -> str:
    """Return that no trial ran the printed setting; "" if some did."""
    return f"{best.arm}: {NO_TRIAL}" if best.is_composed else ""


def age_words(seconds: float) -> str:
    """Return `12 minutes`, `5 hours` or `12 days`."""
    minutes = max(seconds, 0.0) / 60
    if minutes < 90:
        return counted(round(minutes), "minute")
    if minutes < 48 * 60:
        return counted(round(minutes / 60), "hour")
    return counted(round(minutes / 60 / 24), "day")


def origin_line(best: Best, now_unix_s: float, here: Mapping[str, str | None]) -> str:
    """Return how old a stored answer is, where it comes from, and which versions differ here. `here` may know few of the packages."""
    differ = [
        f"{package} {version} (here {here[package] or 'not installed'})"
        for package, version in best.versions.items()
        if package in here and here[package] != version
    ]
    said = (
        f"measured {age_words(now_unix_s - best.measured_unix_s)} ago on {best.device}"
        f" (study {best.study}, arm {best.arm}, program {best.program})"
    )
    return f"{said}, with {', '.join(differ)}" if differ else said


def answer_words(answer: Answer) -> str:
    """Return what tells a stored answer from others, as an error lists it."""
    return f"{answer.arm} ({answer.program} on {answer.device})"
