"""What a study would measure, and which gains it could show, before anything runs.

Input: a study, and earlier results beside it. Output: a few lines. `envknee plan my.yaml`, a dry run and the start of a sweep print
them.
"""

import argparse
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from envknee.ask.power import of_study
from envknee.machine.gpus import visible_uuids
from envknee.record.schema import Record
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.load import read_study
from envknee.study.model import Arm, Study, Sweep
from envknee.study.paths import StudyFolder
from envknee.verdict import noise
from envknee.verdict.series import by_series
from envknee.verdict.throughput import measured_fps
from envknee.words.numbers import counted, listed


def lines_of(study: Study, earlier: Sequence[Record] = (), on_cpu: bool = False) -> list[str]:
    """Return what a study measures, kind by kind, and its statistical power. Pure.

    `earlier` are records of this machine's earlier studies. If they hold no repeats, the noise is that of the published studies.
    """
    slots = space.plan(study)
    lines = [f"Study {study.study}: {counted(len(slots), 'trial')} at most, {_arms(study)}"]
    for kind, sweep in study.sections.items():
        own = [slot for slot in slots if slot.kind == kind]
        again = sum(slot.again for slot in own)
        alone = " (in the first repeat alone, with time_limit_s)" if sweep.time_limit_s else ""
        once_more = f" + {counted(again, 'first point')} once more, which show drift{alone}" if again else ""
        lines.append(f"{kind}: {counted(len(own), 'trial')} = {_points(study, sweep)}{once_more}; {_sizes(sweep)}")
        lines += [line for name in sorted(study.arms) for line in _derived(name, study.arms[name], sweep, study)]
    lines += space.left_out(study)
    if study.throughput is not None and len(study.throughput.num_envs) < 2:
        lines.append("Power: one num_envs is no doubling; list at least two, such as {from: 512, to: 4096}")
        return lines
    fps = [measured_fps(own) for sizes in by_series(earlier, "throughput").values() for own in sizes.values()]
    power = of_study(study, not on_cpu, noise.measured_cv(fps))
    return lines if power is None else [*lines, power]


def _points(study: Study, sweep: Sweep) -> str:
    points = space.points_asked(sweep, study.world_sizes)
    repeats = f"up to {sweep.repeats} repeats" if sweep.chooses_trials else counted(sweep.all_repeats, "repeat")
    return f"{counted(points, 'point')} × {repeats} × {_arms(study)} (sampler {sweep.sampler})"


def _arms(study: Study) -> str:
    return f"{counted(len(study.arms), 'arm')} ({', '.join(sorted(study.arms))})"


def _sizes(sweep: Sweep) -> str:
    batch = sweep.batch_size if sweep.batch_size == "library" else listed(sweep.batch_size)
    return f"num_envs {listed(sweep.num_envs)}; horizon {listed(sweep.horizon)}; batch_size {batch}"


def _derived(name: str, arm: Arm, sweep: Sweep, study: Study) -> list[str]:
    """Return the values that an arm's scaling rule gives at each point, a line each; none without a rule."""
    if arm.scaling is None:
        return []
    lines = [f"  arm {name}, rule {arm.scaling.rule} from {arm.scaling.num_envs:,} environments:"]
    for point in space.legal_points(sweep, study.world_sizes):
        run = space.as_run(arm, point)
        assert run.batch_size is not None, "a rule starts from a batch size"
        count = space.num_mini_batches(point.num_envs, run.horizon, run.batch_size, arm.world_size)
        rate = "the task's own" if run.learning_rate is None else f"{run.learning_rate:.4g}"
        epochs = "the task's own" if run.epochs is None else f"{run.epochs}"
        lines.append(
            f"    {point.num_envs:>6,} environments: horizon {run.horizon}, batch {run.batch_size:,},"
            f" {count} mini-batch{'' if count == 1 else 'es'}, learning rate {rate}, epochs {epochs}"
        )
    return lines


def lines_here(study: Study, results: Path) -> list[str]:
    """Return the plan of a study on this machine, with the noise of earlier studies in `results`."""
    gpus: list[str] = []
    if any(arm.gpus != 0 for arm in study.arms.values()):
        with suppress(UserError):  # trials report what is wrong with a driver
            gpus = visible_uuids()
    return lines_of(study, earlier_records(results, study, gpus), on_cpu=not gpus)


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
    arguments = parser.parse_args()
    study = read_study(arguments.study)
    print("\n".join(lines_here(study, arguments.results)))
