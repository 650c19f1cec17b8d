"""What a study would measure, and which gains it could show, before anything runs.

Input: a study, and earlier results beside it. Output: a `StudyPlan`. `envknee plan my.yaml`, a dry run and the start of a sweep print
its lines.
"""

import argparse
import shutil
import socket
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from envknee.ask.expected_time import expected_time
from envknee.ask.power import of_study
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.machine.gpus import visible_uuids
from envknee.record.schema import Record
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, read_model
from envknee.study.load import read_study
from envknee.study.model import Arm, Study, Sweep
from envknee.study.paths import StudyFolder
from envknee.verdict import noise
from envknee.verdict.schema.plan import (
    DevicesOfWorkers,
    IllegalPoints,
    Place,
    RulePlan,
    RulePoint,
    SectionPlan,
    StudyPlan,
)
from envknee.verdict.series import by_series
from envknee.verdict.throughput import measured_fps
from envknee.words.plan import plan_lines


class Elsewhere(NamedTuple):
    """Where trials run if not on this machine."""

    devices: int
    """GPUs, or CPUs as one each, that a sweep may use at once."""
    place: Place


def plan_of(
    study: Study,
    earlier: Sequence[Record] = (),
    on_cpu: bool = False,
    visible_gpus: int = 1,
    elsewhere: Elsewhere | None = None,
) -> StudyPlan:
    """Return what a study measures, kind by kind, how long that takes, and its statistical power. Pure.

    Trials run on this machine, or on the devices `elsewhere`. `earlier` are records of this machine's earlier studies. If they hold
    no repeats, the noise is that of the published studies. An arm with `gpus: auto` takes as many of `visible_gpus` as its strategy
    uses, or on a CPU none.
    """
    slots = space.plan(study)
    has_doubling = study.throughput is None or len(study.throughput.num_envs) > 1
    gpus_here = 0 if on_cpu else visible_gpus
    power = None
    if has_doubling:
        fps = [measured_fps(own) for sizes in by_series(earlier, "throughput").values() for own in sizes.values()]
        power = of_study(study, not on_cpu, noise.measured_cv(fps))
    return StudyPlan(
        study=study.study,
        task=study.task.id,
        changed=study.task.overrides,
        trials=len(slots),
        arms=sorted(study.arms),
        sections=[
            _section(kind, sweep, [slot for slot in slots if slot.kind == kind], study, gpus_here, elsewhere)
            for kind, sweep in study.sections.items()
        ],
        has_doubling=has_doubling,
        power=power,
        time=expected_time(study, slots, earlier, gpus_here),
    )


def _section(
    kind: Kind, sweep: Sweep, slots: Sequence[space.Slot], study: Study, gpus_here: int, elsewhere: Elsewhere | None
) -> SectionPlan:
    num_envs, horizons, _ = space.axes(sweep)
    arms = study.arms_of(kind)
    legal = space.legal_points(sweep, study.world_sizes)
    return SectionPlan(
        kind=kind,
        arms=arms,
        trials=len(slots),
        points=space.points_asked(sweep, study.world_sizes),
        repeats=sweep.repeats if sweep.chooses_trials or sweep.confirm else sweep.all_repeats,
        chooses_trials=sweep.chooses_trials,
        sampler=sweep.sampler,
        measured_again=sum(slot.again for slot in slots),
        again_in_first_repeat=bool(sweep.time_limit_s),
        num_envs=list(num_envs),
        horizon=list(horizons),
        batch_size=None if sweep.batch_size == "library" else list(sweep.batch_size),
        rules=[_rule(name, study.arms[name], sweep, study) for name in arms if study.arms[name].scaling is not None],
        illegal=_illegal(sweep, study),
        search_trials=sweep.search_trials if sweep.is_joint else None,
        few_for_model=sweep.is_joint and len(legal) < space.trend_terms(legal),
        confirmed=None if sweep.confirm is None else sweep.confirm.settings,
        fresh_seeds=None if sweep.confirm is None else sweep.confirm.seeds + sweep.more_repeats,
        learns_like={arm: leader for arm in arms if (leader := study.leader(arm, kind)) is not None},
        workers=sweep.workers,
        too_few_devices=_too_few_devices(sweep, study, gpus_here, elsewhere),
    )


def _too_few_devices(
    sweep: Sweep, study: Study, gpus_here: int, elsewhere: Elsewhere | None
) -> DevicesOfWorkers | None:
    """Return the devices of a section's workers and of the place where they run if it has too few for all of them; else None.

    A study on GPUs is not compared with a machine that has none, such as a login node.
    """
    needs_gpus = any(arm.gpus not in (0, "auto") for arm in study.arms.values())
    if sweep.workers is None or (elsewhere is None and needs_gpus and not gpus_here):
        return None
    devices = DevicesOfWorkers(each=study.worker_devices, here=max(1, gpus_here))
    if elsewhere is not None:
        devices = DevicesOfWorkers(each=study.worker_devices, here=elsewhere.devices, place=elsewhere.place)
    return devices if sweep.workers * devices.each > devices.here else None


def _illegal(sweep: Sweep, study: Study) -> IllegalPoints | None:
    listed = space.listed_points(sweep)
    illegal = [point for point in listed if not space.is_legal(point, study.world_sizes)]
    if not illegal:
        return None
    return IllegalPoints(points=illegal, listed=len(listed), several_ranks=study.world_sizes != {1})


def _rule(name: str, arm: Arm, sweep: Sweep, study: Study) -> RulePlan:
    """Return the values that an arm's scaling rule gives at each point."""
    assert arm.scaling is not None, "only arms with a rule"
    points = [_rule_point(arm, point) for point in space.legal_points(sweep, study.world_sizes)]
    return RulePlan(arm=name, rule=arm.scaling.rule, num_envs=arm.scaling.num_envs, points=points)


def _rule_point(arm: Arm, point: Point) -> RulePoint:
    run = space.as_run(arm, point)
    assert run.batch_size is not None, "a rule starts from a batch size"
    return RulePoint(
        num_envs=point.num_envs,
        horizon=run.horizon,
        batch_size=run.batch_size,
        num_mini_batches=space.num_mini_batches(point.num_envs, run.horizon, run.batch_size, arm.world_size),
        learning_rate=run.learning_rate,
        epochs=run.epochs,
    )


def plan_here(study: Study, results: Path, elsewhere: Elsewhere | None = None) -> StudyPlan:
    """Return the plan of a study on this machine, or with its trials `elsewhere`, with the noise of earlier studies in `results`."""
    gpus: list[str] = []
    if any(arm.gpus != 0 for arm in study.arms.values()):
        with suppress(UserError):  # trials report what is wrong with a driver
            gpus = visible_uuids()
    earlier = earlier_records(results, study, gpus)
    return plan_of(study, earlier, on_cpu=not gpus, visible_gpus=len(gpus), elsewhere=elsewhere)


def lines_here(study: Study, results: Path, elsewhere: Elsewhere | None = None) -> list[str]:
    """Return `plan_here` in sentences."""
    return plan_lines(plan_here(study, results, elsewhere))


def earlier_records(results: Path, study: Study, gpus: Sequence[str]) -> list[Record]:
    """Return records of the same task on one of `gpus` (without GPUs: on this CPU), from the earlier study that has most of them.

    Their only use is to tell how large the noise is. So studies that cannot be read are skipped, and records are read as they are: to
    compute each again from its rows would take most of the time.
    """
    best = list[Record]()
    for path in sorted(results.glob("*/study.json")):
        with suppress(UserError):
            if read_study(path).task.id == study.task.id:
                here = [record for record in _as_they_are(StudyFolder(path.parent)) if _ran_here(record, gpus)]
                best = max(best, here, key=len)
    return best


def _as_they_are(folder: StudyFolder) -> list[Record]:
    return [read_model(path, Record, "Run that trial again.") for path in folder.trial_files("record.json")]


def _ran_here(record: Record, gpus: Sequence[str]) -> bool:
    if gpus:
        return any(str(gpu.uuid) in uuid for gpu in record.outcome.gpus for uuid in gpus)
    environment = record.outcome.environment
    return environment is not None and environment.device.type == "cpu" and environment.host == socket.gethostname()


def main() -> None:
    """Print what a study would measure, and which gains it could show."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("study", type=Path, help="a study file, such as config/config.yaml")
    parser.add_argument("--results", type=Path, default=Path("results"), help="earlier studies (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    arguments = parser.parse_args()
    plan = plan_here(read_study(arguments.study), arguments.results)
    if arguments.json:
        print(canonical_json(plan), end="")
        return
    for line in plan_lines(plan):
        print(_fitted(line))


def _fitted(line: str) -> str:
    """Return a line as a terminal has room for it, wrapped at words; whoever reads a pipe gets it whole."""
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
