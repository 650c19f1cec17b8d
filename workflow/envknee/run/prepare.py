"""Checks a study before its first trial, and compiles kernels before anything is timed.

Input: a study's folder with study.json. Output: resolved.yaml (every field of each arm's environment and agent), and a tiny real trial
per arm under prepare/. Its first run on a machine compiles Warp's kernels, which takes about a minute.
"""

import argparse
import enum
import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from envknee import trainers
from envknee.ask import ask
from envknee.machine import environment, scratch
from envknee.machine.gpus import visible_uuids
from envknee.record.schema import Request
from envknee.record.trial_files import TrialFiles
from envknee.run import claim, launch, mend
from envknee.slurm import node
from envknee.study.errors import ToMend, UserError
from envknee.study.files import write_atomically
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot, legal_points, plan
from envknee.trainers.command import program


def resolve_arms(study: Study) -> dict[str, Any]:
    """Return {arm: {"device": ..., "env": {...}, "agent": {...}}}, resolved at the smallest point of the study.

    Raises:
        ToMend: for the first thing that is wrong with a sampler, the device, task, asset, an override or a batch size.
    """
    plan(study)
    _check_samplers(study)
    resolved = {}
    for arm in study.arms:
        try:
            smallest = smallest_requests(study, arm)
            if study.arms[arm].command is not None:
                resolved[arm] = _resolved_command(smallest[0])
                continue
            device = environment.choose_device(study.arms[arm].gpus)
            trainer = trainers.load(study.arms[arm].trainer)
            configs = [trainer.resolve(request, device) for request in smallest]
        except UserError as error:
            raise ToMend(f"arms.{arm}: {error}") from error
        resolved[arm] = {"device": device, "env": _plain(configs[0].env), "agent": _plain(configs[0].agent)}
    return resolved


def _check_samplers(study: Study) -> None:
    """Raise ToMend for `gp` without PyTorch: it is loaded only after the Sobol start, when trials were measured."""
    for kind, sweep in study.sections.items():
        if sweep.sampler == "gp" and importlib.util.find_spec("torch") is None:
            raise ToMend(
                f"{kind}.sampler: gp needs the package torch, which is not installed here. Install it (pip install torch), or use"
                " sampler: tpe"
            )


def _resolved_command(request: Request) -> dict[str, Any]:
    """Return a foreign command at the smallest point. Raises UserError if its program is not on this machine."""
    wanted = 1 if request.gpus == "auto" else request.gpus
    run_dir, gpus = Path("run"), min(wanted, len(visible_uuids()))
    argv = program.arguments(request, run_dir, gpus)
    return {
        "command": program.located(argv, program.users_path(os.environ), Path.cwd()),
        "env": program.variables(request, run_dir, gpus),
    }


def smallest_requests(study: Study, arm: str) -> list[Request]:
    """Return a request at the smallest legal point of each kind of trial."""
    requests = []
    for kind, sweep in study.sections.items():
        points = legal_points(sweep, study.world_sizes)
        smallest = min(points, key=lambda point: (point.num_envs * point.horizon, point))
        slot = Slot(number=0, arm=arm, kind=kind, repeat=0)
        requests.append(ask.request_for(study, slot, smallest, refusal=None))
    return requests


def _plain(value: Any) -> Any:
    """Return a configuration as data for YAML. Other objects become their text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, int | float | None):
        return value
    if isinstance(value, str) or callable(value) or not hasattr(value, "__dict__"):
        return str(value)
    return {key: _plain(item) for key, item in vars(value).items() if not key.startswith("_")}


def warm_up_request(study: Study, arm: str) -> Request:
    """Return one iteration at the arm's smallest point, which is timed for no longer than that, on one node."""
    request = smallest_requests(study, arm)[0]
    # With several nodes, prepare one of them: all compile the same kernels.
    batch_size = None if request.batch_size is None else request.batch_size // request.nodes
    return request.model_copy(
        update={
            "kind": "throughput",
            "warmup_iterations": 0,
            "iterations": 1,
            "least_timed_s": 0.0,
            "timed_share": None,
            "limit_s": 1800.0,
            "nodes": 1,
            "batch_size": batch_size,
            "inject": None,
        }
    )


def warm_up(study: Study, folder: StudyFolder, image: Path | None = None) -> None:
    """Run one iteration of each arm's smallest point, as a trial of its own (in `image`, if the study has one).

    Raises:
        UserError: when it does not end well, because then no trial of that arm would; a ToMend, if it would not at another try.
    """
    for arm in study.arms:
        trial = TrialFolder(folder.root / "prepare" / arm)
        shutil.rmtree(trial.root, ignore_errors=True)
        trial.root.mkdir(parents=True, exist_ok=True)  # a network disk keeps files that somebody reads
        request = warm_up_request(study, arm)
        TrialFiles(trial).write_request(request)
        first = "its program runs once before it is timed"
        if request.trainer != "command":
            first = "the first run on a machine compiles kernels, about a minute"
        print(f"preparing {arm}: {first}", file=sys.stderr, flush=True)
        started = time.monotonic()
        record = launch.launch(trial, image)
        if record.outcome.status != "ok":
            raise ToMend(
                f"arms.{arm}: its smallest trial ended with {record.outcome.status}: {record.outcome.reason}. See {trial.log}"
            )
        machine = record.outcome.environment
        assert machine is not None, "a trial that ran says where"
        print(f"prepared {arm} on {machine.device.name} in {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    """Check everything that can be wrong with a study, and compile its kernels."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the study's folder with study.json, such as results/cartpole-cpu")
    parser.add_argument("image", type=Path, nargs="?", help="the image that trials run in, with runtime: apptainer")
    parser.add_argument("--log", type=Path, help="the rule's log, beside which an error that has to be mended is left")
    arguments = parser.parse_args()
    try:
        prepare(StudyFolder(arguments.folder), arguments.image)
    except ToMend as error:
        mend.note(arguments.log, error)
        raise


def prepare(folder: StudyFolder, image: Path | None) -> None:
    """Check a study's arms on this machine, run the smallest trial of each, and write resolved.yaml.

    Raises:
        UserError: as `resolve_arms` and `warm_up` do.
    """
    scratch.use_named_folder()
    print(node.described(), flush=True)
    if warning := node.missing_gpus():
        print(f"warning: {warning}", flush=True)
    study = read_study(folder.study)
    resolved = resolve_arms(study)
    prepared = TrialFolder(folder.root / "prepare")
    prepared.root.mkdir(exist_ok=True)
    with claim.only_launcher_of(prepared):  # the preparation of a killed sweep may still run
        warm_up(study, folder, image)
    write_atomically(folder.resolved, yaml.safe_dump(resolved, sort_keys=True, allow_unicode=True))
