"""A pipeline of two sides: one device simulates and acts, while another learns from the rollout before.

Input: a learner and rollouts of TorchRL's (`torchrl_learner`, `torchrl_rollouts`). Output: rows and stop signals through the meter.

Both sides meet after each rollout, so that the weights that acted are never older than `sync_every` updates, and the same
request collects the same. Which of them is in the background makes no difference to the GPUs; it is the learner, so that
simulation, Warp's streams and the meter stay in the main thread, as in every other trial.
"""

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from envknee.machine import environment
from envknee.measure.memory import MemoryWatch
from envknee.measure.meter import Meter
from envknee.record.schema import Pipeline
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.rollouts import Rollouts


def device_of_learner(meter: Meter, device: str) -> torch.device:
    """Return the second GPU, or where there is none the simulation's own device, which the trial's record then says."""
    if device != "cpu" and torch.cuda.device_count() > 1:
        second = torch.device("cuda:1")
        meter.learner_memory = MemoryWatch(second, environment.gpu_of(str(second)))
        torch.zeros(1, device=second)
        meter.learner_memory.environment_made()  # nothing is simulated there: a CUDA context
        return second
    meter.warnings.append(
        f"strategy: async2 had one device ({device}) for both sides: simulation and learning share it, in two threads."
        " Two GPUs (gpus: 2) are what it is made for"
    )
    print(f"envknee: {meter.warnings[-1]}", flush=True)
    return torch.device(device)


def tell_memory(meter: Meter, learner: Learner, rollouts: Rollouts, acting: Iterable[torch.Tensor]) -> None:
    """Tell the meter what each side holds: the learner the rollouts and its networks, the other a copy of those (`acting`)."""
    copies = list(acting)
    if meter.learner_memory is None:
        meter.memory.learner_made(rollouts.stored_bytes(), lambda: [*copies, *learner.tensors()])
    else:
        meter.memory.learner_made(0, lambda: copies)
        meter.learner_memory.learner_made(rollouts.stored_bytes(), learner.tensors)


def pipeline(learner: Learner, rollouts: Rollouts, meter: Meter) -> None:
    """Collect each rollout while the one before is learned from; the first iteration only fills the pipeline."""
    sync_every = meter.request.sync_every
    separate_streams(learner.device, meter.device)
    last: Any = None
    last_acted, acting, updates = 0, 0, 0
    """Updates behind the weights that collected `last`, behind those that act now, and all so far."""
    with ThreadPoolExecutor(1, "learner", lambda: use(learner.device)) as background:
        while True:
            update = background.submit(timed, learner, last, meter.learner_memory) if last is not None else None
            meter.learned_from = meter.rollout_observations if last is not None else {}
            meter.rollout_observations = rollouts.next_observations()
            rollout = rollouts.collect()
            action_std = rollout["scale"].mean().item()  # waits for the last copy to the learner's device, too
            losses, side = finish(update, updates - last_acted, meter)
            updates += update is not None
            last, last_acted = rollout, acting
            if update is not None and updates % sync_every == 0:
                with meter.timeline.phase("learning"):
                    hand_over(learner, rollouts)
                acting = updates
            # This waits for the weights to have arrived, too: the next update writes those that they were copied from.
            meter.end_iteration(losses, learner.learning_rate, action_std, pipeline=side)


def finish(
    update: "Future[tuple[dict[str, float], float]] | None", staleness: int, meter: Meter
) -> tuple[dict[str, float], Pipeline]:
    """Wait for an update, if there is one, and return its losses and its side of the row."""
    with meter.timeline.phase("learning"):
        losses, learner_s = update.result() if update is not None else ({}, None)
    memory = None if meter.learner_memory is None else meter.learner_memory.use()
    return losses, Pipeline(staleness=None if update is None else staleness, learner_s=learner_s, memory=memory)


def timed(learner: Learner, rollout: Any, memory: MemoryWatch | None) -> tuple[dict[str, float], float]:
    """Return an update's losses, and its seconds until they were there."""
    began = time.perf_counter()
    if memory is not None:
        memory.learning_begins()
    losses = learner.update(rollout)
    if memory is not None:
        memory.learning_ended()
    return losses, time.perf_counter() - began


def hand_over(learner: Learner, rollouts: Rollouts) -> None:
    """Let the weights that were learned act."""
    for learned, acting in ((learner.actor, rollouts.actor), (learner.critic, rollouts.critic)):
        acting.load_state_dict(learned.state_dict())


def use(device: torch.device) -> None:
    """Let this thread's work without a device of its own go to `device`."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def separate_streams(learner: torch.device, simulation: torch.device) -> None:
    """Let what the main thread copies to the learner's GPU not queue up behind the kernels of the learning there.

    A copy between GPUs waits for the current streams of both, and so would the simulation wait for it.
    """
    if learner != simulation:
        torch.cuda.set_stream(torch.cuda.Stream(learner))
        torch.cuda.set_device(simulation)
