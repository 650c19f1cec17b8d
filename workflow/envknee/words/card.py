"""The card of a study in words: what terminal, report and MLflow open with. Pure.

Learn soonest
run      lean-warp: 1,024 environments, horizon 32, batch 8,192: target in 10.9 s (10.0 to 11.9, 15 seeds)
state    undecided: one point (1,024 environments): a doubling needs two
fits     18,387 environments (18,099 to 18,677) on 25.8 GB
against  lean-warp learns in 0.18 of stock's time (0.16 to 0.21) at 1,024 × 32 × 8,192
train    isaaclab train --rl_library rsl_rl --task ... --num_envs 1024 ...
"""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from envknee.base.fields import Kind
from envknee.verdict.schema.card import OF_LIMIT, ArmRatio, Card, CardEntry, TrainingCommand
from envknee.verdict.schema.joint import JointAnswer, Setting
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks
from envknee.words.further import about
from envknee.words.headline import NO_TRIAL
from envknee.words.intervals import threshold_interval
from envknee.words.joint import joint_next, joint_statement, threshold_line, what_is_left
from envknee.words.joint_costs import setting_words, short_setting
from envknee.words.numbers import counted, ends, percent, span
from envknee.words.ranks import each, together
from envknee.words.states import gain_evidence, what_decides, why_no_doubling
from envknee.words.throughput import load_sentences

QUESTIONS: dict[Kind, str] = {"learning": "Learn soonest", "throughput": "Most FPS"}
"""The heading of each kind of trial."""

NOT_MEASURED: dict[Kind, str] = {"learning": "no learning trials", "throughput": "no throughput trials"}


class Part(NamedTuple):
    """The answer to one question."""

    heading: str
    lines: list[tuple[str, str]]
    """(name, text), a sentence or several each."""
    command: str | None = None
    """The training command, on one line, to copy; None if none is known."""


def card_parts(card: Card) -> list[Part]:
    """Return a part for each question; for one that was not measured its heading alone."""
    parts = {entry.kind: _part(entry) for entry in card.entries}
    parts |= {kind: Part(f"{QUESTIONS[kind]}: not measured ({NOT_MEASURED[kind]})", []) for kind in card.not_measured}
    return [parts[kind] for kind in QUESTIONS if kind in parts]


def _part(entry: CardEntry) -> Part:
    lines = [("run", _run(entry)), ("state", _state(entry)), ("fits", _fits(entry))]
    lines += [("against", said) for said in against(entry)]
    if entry.load is not None and (said := load_sentences(entry.load)):
        lines.append(("load", " ".join(said)))
    command = None if entry.command is None else command_line(entry.command)
    if entry.command is not None and (said := _lacks(entry.command)):
        lines.append(("lacks", said))
    return Part(QUESTIONS[entry.kind], [line for line in lines if line[1]], command)


def _run(entry: CardEntry) -> str:
    """Return the setting, and what it gives."""
    if entry.setting is None or entry.value is None:
        return f"{entry.arm}: {_why_none(entry)}"
    gives = _result(entry)
    if entry.composed is not None:
        gives += f". {NO_TRIAL[0].upper()}{NO_TRIAL[1:]}: {_composed(entry)}"
    return f"{entry.arm}: {setting_words(entry.setting, entry.ranks)}: {gives}"


def _why_none(entry: CardEntry) -> str:
    """Return why there is no setting to train with."""
    found = entry.joint
    if found is None:
        return "no seed arrived"
    return joint_statement(found, entry.ranks) if found.state in ("confirmed", "no data") else "no claim yet"


def _result(entry: CardEntry) -> str:
    """Return `target in 10.9 s (10.0 to 11.9, 15 seeds)`, or `441,181 FPS (438,000 to 444,000, 4 repeats; 93% of the best)`."""
    assert entry.value is not None, "there is a result"
    is_learning = entry.kind == "learning"
    repeated = counted(entry.repeats, "seed" if is_learning else "repeat")
    decimals = 1 if is_learning else 0
    interval = span(entry.lower, entry.upper, lambda value: f"{value:,.{decimals}f}")
    evidence = ", ".join(filter(None, (interval, repeated)))
    if entry.share_of_best is not None:
        evidence += f"; {entry.share_of_best:.0%} of the best"
    value = f"{entry.value:,.{decimals}f}"
    return f"target in {value} s ({evidence})" if is_learning else f"{value} FPS{together(entry.ranks)} ({evidence})"


def _composed(entry: CardEntry) -> str:
    """Return what the FPS of a setting without a trial are put together from."""
    composed = entry.composed
    assert composed is not None, "no trial ran it"
    said = f"from times at horizon {composed.horizon}"
    return said if composed.error is None else f"{said} (at most {percent(composed.error)} off where measured, too)"


def _state(entry: CardEntry) -> str:
    """Return whether the limit is decided, with the reason, and what deciding would cost."""
    if entry.joint is not None:
        said = _state_of_joint(entry.joint)
    else:
        assert entry.limit is not None, "a limit or a joint answer stands behind each entry"
        said = _state_of_limit(entry.limit)
    if entry.cost_s is not None:
        said += f" ({about(entry.cost_s)})"
    if entry.binds in ("memory", "learning"):
        said += f". Limited by {entry.binds}"
    return said


def _state_of_limit(limit: SeriesLimit) -> str:
    state = OF_LIMIT[limit.state]
    if not limit.gains:
        return f"{state}: {why_no_doubling(_sizes(limit))}"
    because = gain_evidence(limit)[0]
    if limit.state == "reached":
        return f"{state}: threshold {limit.threshold_num_envs:,} ({threshold_interval(limit)}); {because}"
    if limit.state == "still pays":
        return f"{state} at {limit.largest_num_envs:,}: {because}"
    missing = what_decides(limit)
    if limit.more_repeats is None or not limit.gains[-1].machines:
        return f"{state} ({missing}): {because}"
    return f"{state}: {because}. To decide: about {missing} of each point"


def _sizes(limit: SeriesLimit) -> list[int]:
    """Return the sizes that ran."""
    if isinstance(limit, LearningLimit):
        return [point.num_envs for point in limit.points if point.seeds]
    assert isinstance(limit, ThroughputLimit), "there are two kinds of limits"
    return [point.num_envs for point in limit.points]


def _state_of_joint(found: JointAnswer) -> str:
    if found.state != "confirmed":
        return f"undecided: {what_is_left(found)}. To decide: {joint_next(found)}".removesuffix(".")
    threshold = found.threshold_of("num_envs")
    if threshold is None:
        return (
            f"decided among {counted(len(found.confirmed), 'confirmed setting')}"
            if found.soonest is not None
            else "undecided"
        )
    said = f"{OF_LIMIT[threshold.state]}: {threshold_line(found, threshold)}"
    if threshold.state == "undecided":
        lead = "" if found.is_too_near else "To decide: "
        said += f". {lead}{joint_next(found)}".removesuffix(".")
    return said


def _fits(entry: CardEntry) -> str:
    """Return how many environments fit the memory at the setting's horizon and batch size; "" if unknown."""
    wall = entry.wall
    if wall is None:
        return ""
    on = "" if entry.device_memory_gb is None else f" on {entry.device_memory_gb:,.1f} GB"
    failed = "" if wall.smallest_failed is None else f"; {wall.smallest_failed:,} did not fit"
    if wall.largest_num_envs is None:
        return (
            ""
            if wall.largest_fitted is None
            else f"{wall.largest_fitted:,} environments{each(entry.ranks)} ran{on}{failed}"
        )
    largest = f"{wall.largest_num_envs:,} environments{each(entry.ranks)}"
    if wall.largest_num_envs_lower is not None:
        largest += f" ({ends(wall.largest_num_envs_lower, wall.largest_num_envs_upper, unknown='no upper end')})"
    far = ", an extrapolation" if wall.is_far_beyond else ""
    return f"{largest}{on}{far}{failed}"


def against(entry: CardEntry) -> list[str]:
    """Return a sentence for each other arm: the ratio at the best settings, then at each size that both have."""
    others = dict.fromkeys(ratio.other for ratio in entry.ratios)
    return [_against(entry, other, [own for own in entry.ratios if own.other == other]) for other in others]


def _against(entry: CardEntry, other: str, ratios: Sequence[ArmRatio]) -> str:
    first, *more = ratios
    known = [own for own in more if own.ratio is not None]
    if first.ratio is None:
        said = f"{other} has no result to compare"
    elif entry.kind == "learning":
        said = f"{entry.arm} learns in {_digits(first.ratio)} of {other}'s time ({_interval(first)})"
    else:
        said = f"{entry.arm} has {_digits(first.ratio)} times {other}'s FPS ({_interval(first)})"
    if first.ratio is not None:
        said += ", each at its best" if first.setting is None else f" at {_where(first.setting, entry)}"
    if known:
        said += "; " + ", ".join(f"at {_where(own.setting, entry)}: {_times(own)}" for own in known if own.setting)
    return said


def _where(setting: Setting, entry: CardEntry) -> str:
    """Return num_envs alone where horizon and batch are the entry's own."""
    own = entry.setting
    if own is not None and (setting.horizon, setting.batch_size) == (own.horizon, own.batch_size):
        return f"{setting.num_envs:,}"
    return short_setting(setting, Ranks(1, "GPU"))


def _times(ratio: ArmRatio) -> str:
    assert ratio.ratio is not None, "both arms have a result"
    return f"{_digits(ratio.ratio)} ({_interval(ratio)})"


def _interval(ratio: ArmRatio) -> str:
    return span(ratio.lower, ratio.upper, _digits) or "no interval"


def _digits(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10.0 else f"{ratio:,.1f}"


def command_line(command: TrainingCommand) -> str | None:
    """Return the command as a shell takes it, on one line; None if none is known."""
    if not command.argv:
        return None
    variables = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()]
    return " ".join([*variables, shlex.join(command.argv)])


def _lacks(command: TrainingCommand) -> str:
    """Return what the command does not set."""
    if not command.lacks:
        return ""
    if not command.argv:
        return f"no command outside envknee is known for {settings_words(command)} (docs/trainers.md)"
    return f"the command has no {settings_words(command)}{lean_page(command)}"


def lean_page(command: TrainingCommand) -> str:
    """Return where lean frames are explained, if the command lacks them; else ""."""
    return ": docs/leanframes.md has the lines for your script" if "observations: lean" in command.lacks else ""


def settings_words(command: TrainingCommand) -> str:
    """Return what a command lacks as a study file has it, each in backticks."""
    return ", ".join(f"`{setting}`" for setting in command.lacks)
