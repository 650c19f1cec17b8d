"""All limits of a study, with one recommendation per arm. Pure.

Input: the records of a study and its settings. Output: a `Verdict`.
"""

from collections import Counter
from collections.abc import Sequence

from envknee.record.read import without_skipped
from envknee.record.schema import Failure, Record
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
from envknee.verdict.joint.answer import answer
from envknee.verdict.measurements import Measurements, measurements_of, only
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.study import ArmVerdict, Broken, Crashed, Verdict
from envknee.verdict.series import Ranks
from envknee.verdict.settings import StudySettings


def decide(records: Sequence[Record], study: StudySettings) -> Verdict:
    """Return the verdict of a study. Pure: the same records give the same verdict."""
    statuses = Counter(record.outcome.status for record in records)
    records = without_skipped(records)
    measured = measurements_of(records)
    series = _as_series(measured, study)
    scalings = gpu_scaling.analyse(series, study.arms, study.decide, study.looks["throughput"])
    joint = {arm: _joint(arm, measured, study) for arm in study.arms}
    arms = [_arm(arm, measured.of_arm(arm), series.of_arm(arm), scalings, joint[arm], study) for arm in study.arms]
    limits = {arm.arm: arm.memory for arm in arms if arm.memory is not None}
    return Verdict(
        study=study.study,
        task_id=study.task_id,
        trials_measured=len(records),
        trials_planned=study.trials_planned - statuses["skipped"],
        statuses=dict(sorted(statuses.items())),
        delta=study.decide.delta,
        delta_learning=study.decide.delta_learning,
        confidence=study.decide.confidence,
        memory_margin=study.decide.memory_margin,
        arms=arms,
        scaling=scalings,
        spending=spending.analyse(records, study.arms),
        remedies=remedies.analyse(series, study.arms, limits, study.decide, study.looks["throughput"]),
        rules=scaling_rules.analyse(series, [limit for arm in arms for limit in arm.learning]),
        drill=study.drill,
        broken=_broken(records),
        crashed=_crashed(records),
    )


def _arm(
    arm: str,
    measured: Measurements,
    series: Measurements,
    scalings: Sequence[Scaling],
    joint: Sequence[JointAnswer],
    study: StudySettings,
) -> ArmVerdict:
    settings, records = study.decide, measured.records
    ranks = Ranks.of(study.arms[arm])
    learned = learning.analyse(series, settings, study.looks["learning"])
    decided = ArmVerdict(
        arm=arm,
        world_size=ranks.world_size,
        rank_word=ranks.word,
        hardware=hardware(records),
        trials=len(records),
        throughput=throughput.analyse(series, settings, study.looks["throughput"]),
        learning=learned,
        joint=list(joint),
        memory=memory_limit.analyse(records, settings),
        gpu_peaks=gpu_peaks.analyse(records),
        phases=phase_law.analyse(measured, settings),
        noise_scales=noise_scale.analyse(records, ranks, settings),
        batch=batch.analyse(series.records, settings),
        machines=machines.analyse(measured, learned),
        warnings=sorted({warning for record in records for warning in record.outcome.warnings}),
    )
    if any(found.kind == "throughput" and found.replaces_series for found in decided.joint):
        return decided  # its recommendation would be the best FPS seen, and the joint answer has a better one
    return decided.model_copy(update={"headline": headline(decided, series, scalings, study)})


def _joint(arm: str, measured: Measurements, study: StudySettings) -> list[JointAnswer]:
    """Return the joint answers of an arm."""
    records, world_size = measured.of_arm(arm).records, study.arms[arm].world_size
    leader = study.arms[arm].learns_like
    of_leader = [] if leader is None else measured.of_arm(leader).records
    return [
        answer(arm, kind, records, joint, study.decide, world_size, of_leader)
        for kind, joint in study.joint_of(arm).items()
    ]


def _as_series(measured: Measurements, study: StudySettings) -> Measurements:
    """Return the trials on which claims about a single axis may rest: limits, rules, the batch law, scaling and remedies.

    Settings have fresh seeds because their search looked good. Such a setting was partly lucky there, so that its fresh seeds together with
    its others would pass for a gain or a loss against settings without any; and the number of its seeds is not the planned one, on which
    p-values rest. The joint answer alone uses them. Learning trials of a search by the model were chosen so, too: the soonest one seen is
    no answer. FPS vary so little that their series stay.

    What a trial takes of memory and time, or breaks, does not depend on why it was chosen: those parts of the verdict have all trials.
    """
    if not study.joint:
        return measured

    def counts(record: Record) -> bool:
        joint = study.joint.get(record.request.kind)
        if joint is None:
            return True
        return not record.request.confirms and not (joint.replaces_series and record.request.kind == "learning")

    return Measurements(
        list(filter(counts, measured.records)), only(measured.throughput, counts), only(measured.learning, counts)
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
    by_tensor: dict[tuple[str, str], tuple[Failure, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        failure = record.outcome.failure
        if record.outcome.status in BROKE and failure is not None and failure.tensor is not None:
            by_tensor.setdefault((record.request.arm, failure.tensor), (failure, []))[1].append(record)
    return [
        Broken(
            arm=arm,
            tensor=tensor,
            trials=[record.request.number for record in trials],
            reason=trials[0].outcome.reason or "",
            dump=f"trials/{trials[0].request.number:04d}/{first.dump}" if first.dump else None,
            hints=first.hints,
        )
        for (arm, tensor), (first, trials) in by_tensor.items()
    ]
