"""`strategy: async2`: one device collects a rollout while another learns from the rollout before.

Both sides synchronize after each rollout. So the acting weights are never older than `sync_every` updates, and the same request
collects the same data. The learner runs in the background thread: simulation, Warp's streams and the meter stay in the main thread, as in
every other trial.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from envknee.machine import environment
from envknee.measure.memory import MemoryWatch
from envknee.measure.meter import Meter
from envknee.record.schema import Pipeline
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.rollouts import Rollouts


def device_of_learner(meter: Meter, device: str) -> torch.device:
    """Return the second GPU; without one, return the simulation's device and add a warning to the trial's record."""
    if device != "cpu" and torch.cuda.device_count() > 1 and (gpu := environment.gpu_of("cuda:1")):
        second = torch.device("cuda:1")
        memory = meter.device_use.add_learner_gpu(second, before_gb=gpu.used_gb())
        torch.zeros(1, device=second)
        memory.environment_made()  # this GPU holds only a CUDA context, no simulation
        return second
    warning = (
        f"strategy: async2 had one device ({device}) for both sides: simulation and learning share it, in two threads."
        " Two GPUs (gpus: 2) are what it is made for"
    )
    meter.warn(warning)
    print(f"envknee: {warning}", flush=True)
    return torch.device(device)


def report_memory(meter: Meter, learner: Learner, rollouts: Rollouts) -> None:
    """Report each side's tensors to the meter: rollouts and networks on the learner, copies for acting on the simulation's device."""
    copies = [*rollouts.actor.parameters(), *rollouts.critic.parameters()]
    learner_memory = meter.device_use.learner_memory
    if learner_memory is None:
        meter.memory.learner_made(rollouts.stored.bytes(), lambda: [*copies, *learner.tensors()])
    else:
        meter.memory.learner_made(0, lambda: copies)
        learner_memory.learner_made(rollouts.stored.bytes(), learner.tensors)


def pipeline(learner: Learner, rollouts: Rollouts, meter: Meter) -> None:
    """Collect each rollout while the learner uses the rollout before. The first iteration only fills the pipeline."""
    sync_every, learner_memory = meter.request.sync_every, meter.device_use.learner_memory
    if learner.device != meter.device:
        # A copy between GPUs waits for the current streams of both: on the learner's GPU it shall not wait for learning kernels.
        torch.cuda.set_stream(torch.cuda.Stream(learner.device))
        torch.cuda.set_device(meter.device)
    last: Any = None
    last_acted, acting, updates = 0, 0, 0
    """Numbers of updates: of the weights that collected `last`, of the acting weights, and in total."""
    set_device: Any = torch.cuda.set_device if learner.device.type == "cuda" else None
    with ThreadPoolExecutor(1, "learner", set_device, (learner.device,)) as background:
        while True:
            update = background.submit(timed, learner, last, learner_memory) if last is not None else None
            rollout = rollouts.collect()
            action_std = rollout["scale"].mean().item()  # also waits for the last copy to the learner's device
            with meter.timeline.phase("learning"):
                losses, learner_s = update.result() if update is not None else ({}, None)
            side = Pipeline(
                staleness=None if update is None else updates - last_acted,
                learner_s=learner_s,
                memory=None if learner_memory is None else learner_memory.use(),
            )
            updates += update is not None
            last, last_acted = rollout, acting
            if update is not None and updates % sync_every == 0:
                with meter.timeline.phase("learning"):
                    rollouts.actor.load_state_dict(learner.actor.state_dict())
                    rollouts.critic.load_state_dict(learner.critic.state_dict())
                acting = updates
            # This also waits until the weights are copied: the next update overwrites their source.
            meter.end_iteration(losses, learner.learning_rate, action_std, pipeline=side)


def timed(learner: Learner, rollout: Any, memory: MemoryWatch | None) -> tuple[dict[str, float], float]:
    """Update the learner; return (losses, duration [s])."""
    began = time.perf_counter()
    if memory is not None:
        memory.learning_begins()
    losses = learner.update(rollout)
    if memory is not None:
        memory.learning_ended()
    return losses, time.perf_counter() - began
