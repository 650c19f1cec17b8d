"""What `envknee best` chooses from, and how it chooses. Pure.

Input: a verdict with its records, or answers that were stored. Output: an `Answer` for each arm and question; the setting of one of them.

Without a memory size the setting is the card's. On a smaller GPU it is the best one of those that fit, with the study's margin kept free,
and that lie not beyond the threshold of their series. It is decided where the threshold lies further up, or the doubling that leads to it
is shown to pay: then only memory ends the search. Of several arms it is the best arm's.
"""

from collections.abc import Sequence
from pathlib import PurePath

from envknee.base.fields import KINDS, Kind
from envknee.base.point import batch_transitions
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.verdict.card import CommandOf, as_run, entry_of, estimates_of
from envknee.verdict.learning_cost import gpus_of
from envknee.verdict.memory_model import CARDS_GB, usable_gb
from envknee.verdict.memory_sample import largest_peak_gb, sample_of, usual_mini_batches
from envknee.verdict.schema.best import ANSWERED_BY, Aim, Answer, Axis, Best, Measured, Option
from envknee.verdict.schema.card import CardEntry, CardState
from envknee.verdict.schema.joint import Setting
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit

AXES: tuple[Axis, ...] = ("num_envs", "horizon", "batch_size")


def answers_of(verdict: Verdict, records: Sequence[Record], command_of: CommandOf) -> list[Answer]:
    """Return every arm's answer to each question that its trials may answer; none of a drill."""
    if verdict.drill is not None:
        return []
    answers = []
    for arm in verdict.arms:
        for kind in KINDS:
            own = [record for record in without_skipped(records) if _is_of(record, arm, kind)]
            entry = entry_of(arm, kind, verdict.rules, ())
            if entry is not None and any(record.outcome.environment is not None for record in own):
                answers.append(_answer(verdict, arm, entry, own, command_of))
    return answers


def _is_of(record: Record, arm: ArmVerdict, kind: Kind) -> bool:
    return (record.request.arm, record.request.kind) == (arm.arm, kind)


def _answer(
    verdict: Verdict, arm: ArmVerdict, entry: CardEntry, records: Sequence[Record], command_of: CommandOf
) -> Answer:
    newest = max(
        (record for record in records if record.outcome.environment is not None),
        key=lambda record: record.outcome.ended_unix_s,
    )
    environment = newest.outcome.environment
    assert environment is not None, "it was chosen for that"
    options = _options(verdict, arm, entry, records, command_of)
    return Answer(
        study=verdict.study,
        task_id=verdict.task_id,
        arm=arm.arm,
        world_size=arm.world_size,
        rank_word=arm.rank_word,
        kind=entry.kind,
        program=program_of(newest),
        device=environment.device.name,
        device_memory_gb=environment.device.memory_gb,
        gpus=max(map(gpus_of, records)),
        versions=environment.packages,
        measured_unix_s=newest.outcome.ended_unix_s,
        swept=[axis for axis in AXES if len({getattr(record.request, axis) for record in records}) > 1],
        memory_margin=verdict.memory_margin,
        options=list(options.values()),
        best=None if entry.setting is None else options[entry.setting],
        state=entry.state,
        is_limited_by_memory=entry.binds == "memory",
    )


def program_of(record: Record) -> str:
    """Return the trainer of a trial, or for a program of the user's own its preset, or else its file's name."""
    command = record.request.command
    if command is None:
        return record.request.trainer
    return command.preset or PurePath(command.argv[0]).name


def _options(
    verdict: Verdict, arm: ArmVerdict, entry: CardEntry, records: Sequence[Record], command_of: CommandOf
) -> dict[Setting, Option]:
    """Return the settings that gave a result in every trial, and always the card's own."""
    limits = _limits(verdict, arm, entry)
    joint = {} if entry.joint is None else {Setting.at(own.num_envs, own): own.seeds for own in entry.joint.confirmed}
    options = {}
    for setting, estimate in estimates_of(entry, verdict).items():
        limit = limits.get(setting)
        if setting != entry.setting and limit is not None and _has_failed(limit, setting.num_envs):
            continue
        options[setting] = Option(
            **dict(setting),
            value=estimate.value,
            lower=estimate.lower,
            upper=estimate.upper,
            repeats=joint[setting] if limit is None else _repeats(limit, setting.num_envs),
            is_composed=limit is not None and _is_composed(limit, setting.num_envs),
            peak_gb=_peak_gb(arm, setting, records),
            is_beyond_threshold=limit is not None and _is_beyond_threshold(limit, setting.num_envs),
            is_best_of_smaller=entry.state == "decided"
            if limit is None
            else _is_best_of_smaller(limit, setting.num_envs),
            command=command_of(arm.arm, setting),
        )
    return options


def _limits(verdict: Verdict, arm: ArmVerdict, entry: CardEntry) -> dict[Setting, SeriesLimit]:
    """Return the limit of the series that each setting lies in; nothing for a joint answer, which has none."""
    if entry.joint is not None:
        return {}
    limits: Sequence[ThroughputLimit | LearningLimit]
    limits = arm.throughput if entry.kind == "throughput" else arm.learning
    return {
        Setting.at(point.num_envs, as_run(limit, point.num_envs, verdict.rules)): limit
        for limit in limits
        for point in limit.points
    }


def _has_failed(limit: SeriesLimit, num_envs: int) -> bool:
    """Tell whether some repeat did not run, or some seed did not arrive."""
    if isinstance(limit, ThroughputLimit):
        return limit.point(num_envs).failed > 0
    assert isinstance(limit, LearningLimit), "there are two kinds of limits"
    (point,) = (own for own in limit.points if own.num_envs == num_envs)
    return point.reached < point.trials


def _is_composed(limit: SeriesLimit, num_envs: int) -> bool:
    return isinstance(limit, ThroughputLimit) and limit.point(num_envs).is_composed


def _repeats(limit: SeriesLimit, num_envs: int) -> int:
    if isinstance(limit, ThroughputLimit):
        return len(limit.point(num_envs).fps_repeats)
    assert isinstance(limit, LearningLimit), "there are two kinds of limits"
    return next(own.seeds for own in limit.points if own.num_envs == num_envs)


def _is_beyond_threshold(limit: SeriesLimit, num_envs: int) -> bool:
    return limit.threshold_num_envs is not None and num_envs > limit.threshold_num_envs


def _is_best_of_smaller(limit: SeriesLimit, num_envs: int) -> bool:
    """Tell whether a size is shown to be better than all smaller ones: the threshold is not below it, or the doubling to it pays."""
    if limit.state == "reached" and limit.threshold_num_envs is not None:
        return num_envs <= limit.threshold_num_envs
    return any(gain.doubled == num_envs and gain.shown(limit.delta) == "pays" for gain in limit.gains)


def _peak_gb(arm: ArmVerdict, setting: Setting, records: Sequence[Record]) -> float | None:
    """Return the largest peak of one rank at a setting, or without a trial there that of the arm's memory model."""
    there = [record for record in records if Setting.at(record.request.num_envs, record.request) == setting]
    measured = largest_peak_gb(there)
    if measured is not None or arm.memory is None:
        return measured
    usual = usual_mini_batches([sample_of(record) for record in records])
    batch = batch_transitions(setting.num_envs, setting.horizon, setting.batch_size, usual, arm.world_size)
    return arm.memory.peak_gb(setting.num_envs, setting.horizon, batch)


# --- Choosing ------------------------------------------------------------------------------------------------------------


def gpu_memory_gb(size: float) -> float:
    """Return the GB (1e9 bytes) of a GPU that is sold with `size` GB: what nvidia-smi reports of a known card, or else 1e9 bytes each."""
    named = (memory_gb for card, memory_gb in CARDS_GB.items() if card.startswith(f"{size:g} GB "))
    return next(named, size)


def fitting(answer: Answer, memory_gb: float) -> list[Option]:
    """Return the settings that are known to fit a GPU's memory, with the study's margin kept free."""
    room_gb = usable_gb(memory_gb, answer.memory_margin)
    return [option for option in answer.options if option.peak_gb is not None and option.peak_gb <= room_gb]


def chosen(answer: Answer, aim: Aim, memory_gb: float | None) -> Best | None:
    """Return the best setting of an arm, on a GPU of `memory_gb` if given; None without one."""
    option, is_decided = answer.best, answer.is_decided(memory_gb)
    if memory_gb is not None:
        fits = fitting(answer, memory_gb)
        if option is not None and option not in fits:
            option = min(
                (own for own in fits if not own.is_beyond_threshold), key=lambda own: _rank(answer, own), default=None
            )
            is_decided = option is not None and option.is_best_of_smaller
    if option is None:
        return None
    is_learning = answer.kind == "learning"
    given = answer.model_dump(include=set(Measured.model_fields))
    found = option.model_dump(exclude={"is_beyond_threshold", "is_best_of_smaller", "command"})
    return Best(
        **given,
        **found,
        aim=aim,
        num_envs_total=option.num_envs * answer.world_size,
        state=_state(answer, option, is_decided),
        unit="s" if is_learning else "FPS",
        gpu_seconds=option.value * answer.gpus if is_learning and answer.gpus else None,
        memory_gb=memory_gb,
        command=option.command,
    )


def _state(answer: Answer, option: Option, is_decided: bool) -> CardState:
    if is_decided:
        return "decided"
    return "still pays" if answer.state == "still pays" and option == answer.best else "undecided"


def _rank(answer: Answer, option: Option) -> float:
    return option.value if answer.kind == "learning" else -option.value


def best_of(found: Sequence[Best]) -> Best:
    """Return the best one of several arms, all with the same aim and, for `cheapest`, all on GPUs or all on CPUs."""

    def cost(best: Best) -> float:
        if best.aim == "fps":
            return -best.value
        return best.value if best.aim == "soonest" or best.gpu_seconds is None else best.gpu_seconds

    return min(found, key=cost)


def default_aim(answers: Sequence[Answer]) -> Aim:
    """Return what is asked without `--for`: the card's first question that was measured."""
    return "soonest" if any(answer.kind == ANSWERED_BY["soonest"] for answer in answers) else "fps"
