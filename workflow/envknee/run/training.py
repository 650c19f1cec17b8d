"""A trial, or the trials of a block one after the other, in this process: it runs a trainer with a meter on a device.

Input: request.json in a trial's folder. Output: metrics.jsonl, environment.json and outcome.json beside it, and then the files of
`envknee.measure.keepsakes`. Each of several ranks has its own process and outcome (rank-N.json). A bad result (memory, NaN, divergence,
a spent budget) is an outcome with that status and exit 0 (a rank among several: `ranks.BROKEN`, which ends the others). Any other error
ends with a traceback and no outcome.
"""

import ctypes
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import torch

from envknee import trainers
from envknee.machine import environment
from envknee.machine.processes import age_s
from envknee.measure import keepsakes, ranks, validity
from envknee.measure.meter import Meter
from envknee.measure.out_of_memory import is_out_of_memory, requested_gb
from envknee.measure.ranks import Ranks
from envknee.measure.rows import TrialDone
from envknee.measure.shared import SharedProcess
from envknee.record.schema import Environment, Failure, Outcome, Request
from envknee.record.status import CRASHED, TRAINED
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, turns
from envknee.run.container import enter
from envknee.run.ends import outcome_of
from envknee.run.kernel_cache import OneCompiles, remove_headers
from envknee.run.resources import gpus_here
from envknee.study.errors import ToMend, TryAgain, UserError
from envknee.study.files import sha256_of
from envknee.study.paths import TrialFolder
from envknee.tasks.kernels import compile_side_by_side, file_of_lean_kernels, imported
from envknee.trainers.common import determinism, metered

TOO_SMALL = "Kernel size can't be greater than actual input size"
"""PyTorch's error for images that are too small for a network, whichever library makes it. It comes before the first step, so
`envknee.run.prepare` meets it."""


def run(trial: TrialFolder, this: Ranks, shared: SharedProcess | None = None) -> tuple[Outcome, Meter]:
    """Run the trial of the request in `trial`, as rank `this`; return how it ended, and its meter.

    In a block, the process is `shared` by its trials.

    Raises:
        ToMend: when the request cannot be run at all (no GPU, unknown task, wrong override, images too small).
        UserError: in another runtime, or after a pause.
    """
    is_first = shared is None or shared.measured == 0
    started = time.monotonic() - (age_s() if is_first else 0.0)  # imports take seconds, in which the device is held
    files = TrialFiles(trial)
    request = files.read_request()
    enter.check_runtime(request.runtime)
    device = environment.choose_device(gpus_here(request), this.local_rank)
    gpu = environment.gpu_of(device)
    if shared is not None:
        shared.begin(device, gpu, request.point)
    if request.deterministic:
        determinism.require(device)
    machine = environment.observe(device, request.memory.memory_cap_gb)
    if this.rank == 0:
        files.write_environment(machine)
    kernels = OneCompiles(kernels_needed(request, machine))
    used_gb = environment.use(device, gpu)
    before_gb = shared.before_gb if shared else used_gb
    meter = Meter(
        request, trial, device, gpu, on_first_step=kernels.done, ranks=this, began_s=started, before_gb=before_gb
    )
    try:
        meter.begin("configuration")
        trainer = trainers.load(request.trainer)
        config = trainer.resolve(request, device, this.rank)
        modules = imported(config.env)
        if not gc.get_freeze_count():  # later trials of a block import nothing more
            gc.freeze()  # `envknee.run.process` switched it off for the imports, and here come the last big ones: they stay
        gc.enable()
        meter.begin("kernels")
        if this.rank == 0:  # one wait is enough: ranks meet in their first step
            kernels.wait()
            if kernels.is_compiling:
                compile_side_by_side(modules, device)
        with metered.explaining_errors(meter):
            trainer.train(config, meter)
        raise RuntimeError("the trainer returned before the meter ended the trial")
    except TrialDone as done:
        # `done` itself has a traceback that keeps the simulation alive.
        end = TrialDone(done.status, done.reason, done.failure)
    except UserError as error:
        # Trainers and tasks say what is wrong with a study: no other attempt would go better.
        raise error if isinstance(error, TryAgain) else ToMend(str(error)) from error
    except Exception as error:
        if TOO_SMALL in str(error):
            raise ToMend(
                f"trainer: {request.trainer}: images are too small for the convolutions of its network ({error}). Make them larger"
                " (task.overrides, such as env.scene.tiled_camera.width and height), or use a trainer with a smaller network"
            ) from error
        if not is_out_of_memory(error):
            raise
        failure = Failure(iteration=meter.iterations, tensor=meter.stage, requested_gb=requested_gb(str(error)))
        cap_gb = request.memory.memory_cap_gb
        capped = "" if cap_gb is None or "memory_cap_gb" in str(error) else f", memory_cap_gb is {cap_gb:g}"
        end = TrialDone("oom", f"memory ran out ({meter.stage}{capped}): {str(error).splitlines()[0]}", failure)
    finally:
        meter.close()
    if end.status in TRAINED and (wrong := _wrong(trial, meter)):
        end = TrialDone("invalid", "; ".join(wrong), validity.FAILURE)
    collectors = [] if end.status in CRASHED else meter.collectors
    learner_memory = meter.device_use.learner_memory
    outcome = outcome_of(
        trial,
        started,
        status=end.status,
        reason=end.reason,
        failure=end.failure,
        environment=machine,
        setup_s=sum(meter.startup_s.model_dump().values()) if meter.startup_s else None,
        num_mini_batches=meter.learner.num_mini_batches,
        rollout_gb=meter.rollout_gb,
        startup_s=meter.startup_s,
        memory_map=meter.memory.map(),
        micro_batches=meter.micro_batches,
        learner_device=environment.observe(str(learner_memory.device)).device if learner_memory else None,
        learner_memory_map=learner_memory.map() if learner_memory else None,
        warnings=list(meter.warnings),
        ranks=[rank.model_copy(update={"status": end.status}) for rank in collectors] or None,
        parameters_sha256=determinism.digest(meter.learner.state()) if request.deterministic and meter.rows else None,
        shared=shared.state() if shared else None,
    )
    return outcome, meter


def _wrong(trial: TrialFolder, meter: Meter) -> list[str]:
    """Return why the simulation of a trial that trained to its end was wrong."""
    ctypes.CDLL(None).fflush(None)  # kernels print into the C library's buffer
    printed = trial.log.read_text(encoding="utf-8", errors="replace").splitlines() if trial.log.exists() else []
    lengths = [row.episode_length_mean for row in meter.rows if not row.warmup]
    wrong = validity.sentences(validity.matches(printed, validity.patterns({})))
    reasons = (validity.at_once(lengths), validity.frozen(meter.learner.rollout_observations()), _apart(meter))
    return wrong + [why for why in reasons if why]


def _apart(meter: Meter) -> str | None:
    """Return why ranks did not train together. All of them call it: they end at the same iteration."""
    parameters = {name: value for name, value in meter.learner.state().items() if isinstance(value, torch.nn.Parameter)}
    if meter.ranks.world_size == 1 or not parameters:
        return None
    return validity.apart(meter.ranks.gather(determinism.digest(parameters)))


def measure_one(trial: TrialFolder) -> NoReturn:
    """Measure one trial, and end this process."""
    _run_and_keep(trial, Ranks.here())
    _leave(0)


def measure_block(meeting: Path) -> NoReturn:
    """Measure the trials that the launcher names in `meeting`, until one must be this process's last, and end it.

    Ranks all stop at the same trial.
    """
    this = Ranks.here()
    shared = SharedProcess(this.world_size)
    for turn in turns.named(meeting):
        trial = TrialFolder(turn.trial)
        turns.write_to(trial.log)
        os.environ[attempts.TOLD] = str(turn.attempt)
        outcome, meter = _run_and_keep(trial, this, shared)
        request = meter.request
        meter.release()
        del meter
        remove_headers()  # the launcher ends this process without a word, once no trial is left
        why = next(filter(None, this.gather(shared.end(request, outcome))), "")
        if this.rank == 0:
            turns.end(meeting, turn, why)
        if why:
            break
    _leave(0)


def _run_and_keep(trial: TrialFolder, this: Ranks, shared: SharedProcess | None = None) -> tuple[Outcome, Meter]:
    """Run a trial; write its outcome, and then the files of `keepsakes`. A rank whose trial broke ends here, and so ends the others."""
    outcome, meter = run(trial, this, shared)
    attempts.check_newest(trial)
    files = TrialFiles(trial)
    if this.world_size == 1:
        files.write_outcome(outcome)
    else:
        files.write_rank_outcome(this.rank, outcome)
    if this.rank == 0:
        keepsakes.leave(
            trial, meter.request, outcome.status, meter.learner.rollout_observations(), meter.learner.export_policy
        )
    if this.world_size > 1 and outcome.status in CRASHED:
        _leave(ranks.BROKEN)
    return outcome, meter


def kernels_needed(request: Request, machine: Environment) -> dict[str, Any]:
    """Return everything that a trial's Warp kernels depend on: device, versions, task and its settings, but no size."""
    compilers = ("warp-lang", "newton", "mujoco-warp", "isaaclab")
    return {
        "device": machine.device.compute_capability or machine.cpu_model,
        "packages": {name: machine.packages.get(name) for name in compilers},
        "task": [request.task_id, request.asset, request.asset_root, request.overrides],
        "lean": sha256_of(file_of_lean_kernels()) if request.observations == "lean" else None,
        "frontend": request.frontend,
        "deterministic": request.deterministic and machine.device.type == "cuda",
    }


def _leave(status: int) -> NoReturn:
    """End this process without Isaac Lab's and Warp's own shutdown, which may hang or crash after the result is safe."""
    remove_headers()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
