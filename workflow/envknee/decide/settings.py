"""The plain settings of a study, from which its verdict follows. Pure."""

from typing import Any

from pydantic_core import to_jsonable_python

from envknee.base.fields import KINDS
from envknee.study import space
from envknee.study.arm import Arm
from envknee.study.model import Study
from envknee.study.sweep import Sweep
from envknee.verdict.rule.schedule import EVERY_REPEAT, ONCE, Schedule, as_planned
from envknee.verdict.settings import ArmSettings, JointSettings, StudySettings


def settings_of(study: Study) -> StudySettings:
    """Return what the verdict of a study depends on beside its records."""
    return StudySettings(
        study=study.study,
        task_id=study.task.id,
        trials_planned=len(space.plan(study)),
        settings=study.decide,
        arms={name: arm_settings(arm) for name, arm in study.arms.items()},
        schedules={kind: schedule_of(study.sections[kind]) if kind in study.sections else ONCE for kind in KINDS},
        joint={kind: joint for kind, sweep in study.sections.items() if (joint := _joint(sweep, study))},
        drill=study.task.inject.warning if study.task.inject else None,
    )


def schedule_of(sweep: Sweep) -> Schedule:
    """Return after which repeats a section may be looked at: after every one if what was measured may end it, else as planned."""
    may_stop = (
        sweep.until_decided is not None
        or sweep.time_limit_s is not None
        or sweep.chooses_trials
        or getattr(sweep, "skip_decided", False)
    )
    return EVERY_REPEAT if may_stop else as_planned(sweep.repeats)


def _joint(sweep: Sweep, study: Study) -> JointSettings | None:
    """Return the settings of a section with a joint answer; None for another one."""
    if not sweep.is_joint and sweep.confirm is None:
        return None
    stage = sweep.confirm
    searched = sweep.search_trials
    if not sweep.is_joint:
        searched = space.points_asked(sweep, study.world_sizes) * sweep.repeats
    return JointSettings(
        settings=space.legal_points(sweep, study.world_sizes),
        seeds=None if stage is None else stage.seeds,
        replaces_series=sweep.is_joint,
        search_trials=searched,
        error_share=1.0 / max(1, sum(section.confirm is not None for section in study.sections.values())),
        confirmed=0 if stage is None else stage.settings,
        one_process=stage is not None and stage.one_process,
    )


def arm_settings(arm: Arm) -> ArmSettings:
    """Return the settings of an arm, with those of its sections by dotted name; values are as in JSON."""
    values: dict[str, Any] = {name: to_jsonable_python(value) for name, value in arm}
    overrides, memory, learns_like = values.pop("overrides"), values.pop("memory"), values.pop("learns_like")
    measures = values.pop("measures")
    of_memory = {f"memory.{name}": value for name, value in memory.items()}
    return ArmSettings(
        world_size=arm.world_size,
        values={**values, **of_memory, **overrides},
        learns_like=learns_like,
        measures=measures,
    )
