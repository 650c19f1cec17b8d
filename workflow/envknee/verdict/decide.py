"""All limits of a study, with one recommendation per arm. Pure.

Input: the records of a study and its settings. Output: a `Verdict`.
"""

from collections import Counter
from collections.abc import Sequence

from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.record.status import BROKE
from envknee.verdict import (
    batch,
    gpu_peaks,
    gpu_scaling,
    learning,
    machines,
    memory_limit,
    noise_scale,
    phase_law,
    remedies,
    scaling_rules,
    spending,
    throughput,
)
from envknee.verdict.hardware import hardware
from envknee.verdict.headline import headline
from envknee.verdict.joint.answer import answer as joint_answer
from envknee.verdict.measurements import Measurements, filtered, measurements_of
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.study import ArmVerdict, Broken, Crashed, Verdict
from envknee.verdict.series import Ranks
from envknee.verdict.settings import StudySettings


def decide(records: Sequence[Record], study: StudySettings) -> Verdict:
    """Return the verdict of a study. Pure: the same records give the same verdict."""
    statuses = Counter(record.outcome.status for record in records)
    not_skipped = without_skipped(records)
    settings, schedule = study.settings, study.schedules["throughput"]
    measured = measurements_of(not_skipped)
    unselected = _without_selected(measured, study)
    scalings = gpu_scaling.analyse(unselected, study.arms, settings, schedule)
    joint = {arm: _joint_answers(arm, measured, study) for arm in study.arms}
    arms = [_arm(arm, measured.of_arm(arm), unselected.of_arm(arm), scalings, joint[arm], study) for arm in study.arms]
    # Memory limits rest on all trials, and the FPS beside them on unselected ones.
    limits = {arm.arm: arm.memory for arm in arms if arm.memory is not None}
    return Verdict(
        study=study.study,
        task_id=study.task_id,
        trials_measured=len(not_skipped),
        trials_planned=study.trials_planned - statuses["skipped"],
        statuses=dict(sorted(statuses.items())),
        delta=settings.delta,
        delta_learning=settings.delta_learning,
        confidence=settings.confidence,
        memory_margin=settings.memory_margin,
        arms=arms,
        scaling=scalings,
        spending=spending.analyse(not_skipped, study.arms),
        remedies=remedies.analyse(unselected, study.arms, limits, settings, schedule),
        rules=scaling_rules.analyse(unselected, [limit for arm in arms for limit in arm.learning]),
        drill=study.drill,
        broken=_broken(not_skipped),
        crashed=_crashed(not_skipped),
    )


def _arm(
    arm: str,
    measured: Measurements,
    unselected: Measurements,
    scalings: Sequence[Scaling],
    answers: Sequence[JointAnswer],
    study: StudySettings,
) -> ArmVerdict:
    settings, records = study.settings, measured.records
    ranks = Ranks.of(study.arms[arm])
    learned = learning.analyse(unselected, settings, study.schedules["learning"])
    without_headline = ArmVerdict(
        arm=arm,
        world_size=ranks.world_size,
        rank_word=ranks.word,
        hardware=hardware(records),
        trials=len(records),
        throughput=throughput.analyse(unselected, settings, study.schedules["throughput"]),
        learning=learned,
        joint=list(answers),
        memory=memory_limit.analyse(records, settings),
        gpu_peaks=gpu_peaks.analyse(records),
        phases=phase_law.analyse(measured, settings),
        noise_scales=noise_scale.analyse(records, ranks, settings),
        batch=batch.analyse(unselected.records, settings),
        machines=machines.analyse(measured, learned),
        warnings=sorted({warning for record in records for warning in record.outcome.warnings}),
    )
    if any(answer.kind == "throughput" and answer.replaces_series for answer in answers):
        return without_headline  # it would recommend the best FPS seen, and the joint answer has a better setting
    return without_headline.model_copy(update={"headline": headline(without_headline, unselected, scalings, study)})


def _joint_answers(arm: str, measured: Measurements, study: StudySettings) -> list[JointAnswer]:
    """Return the joint answers of an arm."""
    records, world_size = measured.of_arm(arm).records, study.arms[arm].world_size
    leader = study.arms[arm].learns_like
    of_leader = [] if leader is None else measured.of_arm(leader).records
    return [
        joint_answer(arm, kind, records, joint, study.settings, world_size, of_leader)
        for kind, joint in study.joint_of(arm).items()
    ]


def _without_selected(measured: Measurements, study: StudySettings) -> Measurements:
    """Return the trials on which claims about a single axis may rest: limits, rules, the batch law, scaling and remedies.

    Fresh seeds go to settings that did well in the search, partly by luck. Mixed with it they would bias every comparison, and their number
    is not the planned one, on which p-values rest. Learning trials that the model chose would bias them too: the soonest one seen is no
    answer. The joint answer alone uses both. FPS that the model chose to measure stay, because they vary too little for that.

    Memory, time and failures of a trial do not depend on why it was chosen: those parts of the verdict have all trials. So has the gradient
    noise scale: it describes each point alone, and trials are chosen by what they cost, not by their gradients.
    """
    if not study.joint:
        return measured

    def supports_axis_claims(record: Record) -> bool:
        joint = study.joint.get(record.request.kind)
        if joint is None:
            return True
        return not record.request.confirms and not (joint.replaces_series and record.request.kind == "learning")

    return Measurements(
        [record for record in measured.records if supports_axis_claims(record)],
        filtered(measured.throughput, supports_axis_claims),
        filtered(measured.learning, supports_axis_claims),
    )


def _crashed(records: Sequence[Record]) -> list[Crashed]:
    """Return the sizes that crashed in each arm, by the line that says why."""
    by_line: dict[tuple[str, str], set[int]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        if record.outcome.status == "crashed":
            by_line.setdefault((record.request.arm, record.outcome.reason or ""), set()).add(record.request.num_envs)
    return [Crashed(arm=arm, num_envs=sorted(sizes), line=line) for (arm, line), sizes in by_line.items()]


def _broken(records: Sequence[Record]) -> list[Broken]:
    """Return the first failure for each arm and tensor, in the order of trial numbers."""
    by_tensor: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        failure = record.outcome.failure
        if record.outcome.status in BROKE and failure is not None and failure.tensor is not None:
            by_tensor.setdefault((record.request.arm, failure.tensor), []).append(record)
    return [_broken_at(arm, tensor, trials) for (arm, tensor), trials in by_tensor.items()]


def _broken_at(arm: str, tensor: str, trials: Sequence[Record]) -> Broken:
    """Return the failure of trials that broke at one tensor, as the first of them tells it."""
    first = trials[0]
    failure = first.outcome.failure
    assert failure is not None, "it names the tensor"
    return Broken(
        arm=arm,
        tensor=tensor,
        trials=[record.request.number for record in trials],
        reason=first.outcome.reason or "",
        dump=f"trials/{first.request.number:04d}/{failure.dump}" if failure.dump else None,
        hints=failure.hints,
    )
