"""README's first lines and docs/joint.md: each arm at its own best setting, from joint studies.

A function takes runs: an arm of a published study, with its name for readers. It returns Markdown, or a value that stands in a sentence. No
study is named here. `benchmarks/pages/readme.py` and `joint.py` name them once they are published, and put the functions into their BLOCKS.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import NamedTuple

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.observed import first_step_s
from envknee.verdict.schema.joint import ConfirmedSetting, JointAnswer
from envknee.words.cards import fitting
from envknee.words.joint import threshold_words
from envknee.words.joint_costs import cost_words, interval_words, short_setting

from benchmarks.pages.cells import table
from benchmarks.pages.published import arm_of, records_of

CARDS = ("8 GB", "24 GB", "80 GB")


class Run(NamedTuple):
    """An arm of a published study."""

    study: str
    arm: str
    title: str
    """What readers call it, such as `Isaac Lab's frames`."""


class Times(NamedTuple):
    """How many times as much: a ratio with its interval."""

    ratio: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """Return `6.2 times (4.1 to 9.3)`."""
        return f"{self.ratio:.1f} times ({self.lower:.1f} to {self.upper:.1f})"


def answer_of(study: str, arm: str, kind: Kind) -> JointAnswer:
    """Return the joint answer of an arm about one kind of trial; there must be one."""
    (answer,) = [joint for joint in arm_of(study, arm).joint if joint.kind == kind]
    return answer


def best_of(study: str, arm: str, kind: Kind) -> ConfirmedSetting:
    """Return the setting that learns soonest, or has the most FPS; fresh seeds must name one."""
    answer = answer_of(study, arm, kind)
    if answer.soonest is None:
        raise ValueError(
            f"{study}: no setting of {arm} is named as the best one for {kind}; mend the text that names it"
        )
    return answer.confirmed[answer.soonest]


def cost(setting: ConfirmedSetting, kind: Kind) -> str:
    """Return a confirmed setting's seconds or FPS with their interval: `4.0 s (3.0 to 5.3)`, or `61,200 FPS (51,695 to 72,453)`."""
    assert setting.cost is not None and setting.cost_lower is not None and setting.cost_upper is not None
    return f"{cost_words(kind, setting.cost)} ({interval_words(kind, setting.cost_lower, setting.cost_upper)})"


def seconds(setting: ConfirmedSetting) -> str:
    """Return a setting's seconds to the target with their interval: `4.0 s (3.0 to 5.3)`."""
    return cost(setting, "learning")


def soonest(run: Run) -> str:
    """Return the soonest setting of an arm: `4.0 s (3.0 to 5.3) at 1,024 × 16 × 2,048`."""
    setting = best_of(run.study, run.arm, "learning")
    return f"{seconds(setting)} at {short_setting(setting)}"


def most_fps(run: Run) -> str:
    """Return the setting with most FPS of an arm: `61,200 FPS (51,695 to 72,453) at 8,192 × 16 × 16,384`."""
    setting = best_of(run.study, run.arm, "throughput")
    return f"{cost(setting, 'throughput')} at {short_setting(setting)}"


def times(slow: ConfirmedSetting, fast: ConfirmedSetting) -> Times:
    """Return how many times the cost of one setting another one has: seconds, or one over FPS.

    Both have seeds of their own, so that the distances of the logarithms' bounds add in squares (MOVER; Zou and Donner 2008, Stat. Med.
    27:1693). Each bound holds for all confirmed settings of its arm at once, so the interval holds for two settings that were chosen.
    """
    one, other = (_logarithms(setting) for setting in (slow, fast))
    middle = one[1] - other[1]
    below = math.hypot(one[1] - one[0], other[2] - other[1])
    above = math.hypot(one[2] - one[1], other[1] - other[0])
    return Times(*(math.exp(middle + off) for off in (0.0, -below, above)))


def _logarithms(setting: ConfirmedSetting) -> tuple[float, float, float]:
    """Return ln of the lower bound, of the cost and of the upper bound."""
    assert setting.cost is not None and setting.cost_lower is not None and setting.cost_upper is not None
    return math.log(setting.cost_lower), math.log(setting.cost), math.log(setting.cost_upper)


def times_of(slow: Run, fast: Run, kind: Kind) -> Times:
    """Return how many times as soon, or as many FPS, an arm has as another one, each at its own best setting."""
    return times(best_of(slow.study, slow.arm, kind), best_of(fast.study, fast.arm, kind))


def at_their_best(runs: Sequence[Run], kind: Kind) -> str:
    """Return a row for each arm at its own best setting, and how many times better the last one is."""
    last = runs[-1]
    rows = []
    for run in runs:
        setting = best_of(run.study, run.arm, kind)
        against = "" if run == last else f"{times_of(run, last, kind)}"
        memory = "" if setting.memory_peak_gb is None else f"{setting.memory_peak_gb:.1f} GB"
        rows.append((run.title, short_setting(setting), cost(setting, kind), f"{setting.seeds}", memory, against))
    value, seeds, factor = (
        ("FPS", "repeats", "more FPS") if kind == "throughput" else ("seconds to the target", "seeds", "sooner")
    )
    return table(("", "setting", value, seeds, "memory", f"{last.title}: {factor}"), rows)


def thresholds(run: Run, kind: Kind) -> str:
    """Return until where doubling an axis pays, with the other axes at their best; and the range of mini-batches."""
    answer = answer_of(run.study, run.arm, kind)
    rows = [
        (f"`{own.axis}`", threshold_words(own), ", ".join(f"{value:,}" for value in own.tested))
        for own in answer.thresholds
    ]
    rows.append(("mini-batches per epoch", mini_batches(run, kind), _all_mini_batches(answer)))
    return table(("axis", "threshold, or range", "tested"), rows)


def _all_mini_batches(answer: JointAnswer) -> str:
    return ", ".join(f"{own.value:,}" for own in answer.mini_batches) or "none"


def mini_batches(run: Run, kind: Kind = "learning") -> str:
    """Return the range of mini-batches that are not shown to cost more than the cut-off, by the model: `4 to 16`."""
    kept = [own.value for own in answer_of(run.study, run.arm, kind).mini_batches if own.not_slower]
    if not kept:
        return "not known"
    return f"{min(kept):,}" if len(kept) == 1 else f"{min(kept):,} to {max(kept):,}"


def what_fits(runs: Sequence[Run]) -> str:
    """Return how many environments are predicted to fit cards, with each arm's horizon and batch of most FPS."""
    heads, rows = ["card"], {card: [card] for card in CARDS}
    for run in runs:
        setting = best_of(run.study, run.arm, "throughput")
        heads.append(f"{run.title}, horizon {setting.horizon}, batch {setting.batch_size:,}")
        found = fits(run, setting)
        for card, row in rows.items():
            row.append(found.get(card, "not known"))
    return table(heads, rows.values())


def fits(run: Run, setting: ConfirmedSetting) -> Mapping[str, str]:
    """Return card -> environments that are predicted to fit it, with a setting's horizon and batch size."""
    limit = arm_of(run.study, run.arm).memory
    cards = [] if limit is None else limit.cards
    return {
        own.card.partition(" (")[0]: fitting(own)
        for own in cards
        if (own.horizon, own.batch_size) == (setting.horizon, setting.batch_size)
    }


def fresh_records(run: Run, setting: ConfirmedSetting) -> list[Record]:
    """Return the fresh seeds of an arm at a setting that reached the target."""
    point = Point(setting.num_envs, setting.horizon, setting.batch_size)
    return [
        record
        for record in records_of(run.study)
        if (record.request.arm, record.request.kind, record.request.point) == (run.arm, "learning", point)
        and record.request.confirms
        and record.seconds_to_target is not None
    ]


def once_compiled_s(run: Run) -> float:
    """Return the seconds to the target at the soonest setting, had every iteration taken as long as the median one.

    Compiling and other costs of the first iterations are left out: the geometric mean over seeds of environment steps ÷ FPS.
    """
    records = fresh_records(run, best_of(run.study, run.arm, "learning"))
    return geometric_mean(
        record.frames_to_target / record.fps_total.median
        for record in records
        if record.frames_to_target is not None and record.fps_total is not None
    )


def starting_s(run: Run) -> float:
    """Return the seconds that the first iterations cost beyond the median one, compiling included, at the soonest setting."""
    records = fresh_records(run, best_of(run.study, run.arm, "learning"))
    whole = geometric_mean(
        record.seconds_to_target - first_step_s(record) for record in records if record.seconds_to_target
    )
    return whole - once_compiled_s(run)


def headline(learners: Sequence[Run], simulators: Sequence[Run], reward: float) -> str:
    """Return README's first lines: what learns soonest, what has the most FPS, and the factors between arms.

    `learners` and `simulators` are arms of learning and of FPS, the fastest one last.
    """
    fast, fast_fps = learners[-1], simulators[-1]
    lines = [
        f"Reward {reward:g} comes soonest with {fast.title}: **{soonest(fast)}** (environments × horizon × batch)."
    ]
    for slow in learners[:-1]:
        lines.append(
            f"{_capital(slow.title)} at their best take {soonest(slow)}: **{times_of(slow, fast, 'learning')}** as long."
        )
    lines.append(f"Most environment steps per second (FPS) come with {fast_fps.title}: {most_fps(fast_fps)}.")
    for slow in simulators[:-1]:
        factor = times_of(slow, fast_fps, "throughput")
        lines.append(
            f"{_capital(slow.title)} at their best give {most_fps(slow)}. {_capital(fast_fps.title)} give **{factor}** as many."
        )
    return "\n".join(f"- {line}" for line in lines)


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]
