"""`strategy: ray`: collectors in processes of Ray, each with its own simulation, for one learner.

Upstream: TorchRL 0.14.1 (collectors/distributed/ray.py), Ray 2.60.0.

TorchRL's `RayCollector` starts the collectors (`RemoteCollector`) and gathers their rollouts synchronously. Two of its features are not
used:

* weight synchronization: `RayWeightSyncScheme` opens a TCP store on every address of the machine. Weights go through Ray's object store
  instead, with `RayCollector.map_fn`.
* `total_frames=-1`, meant as "for ever": it yields nothing (`collected_frames < total_frames`).
"""

import logging
import os
import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDict

from envknee.base.point import rollout_size
from envknee.measure.meter import Meter
from envknee.measure.out_of_memory import own_errors_of_ray
from envknee.measure.rows import Collected
from envknee.record.schema import Pipeline, RankResult, Request
from envknee.study.errors import TryAgain, UserError
from envknee.study.strategies import RAY_ADDRESS, joins_cluster
from envknee.trainers.torchrl.async2 import timed
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.remote import RemoteCollector
from envknee.trainers.torchrl.rollouts import make_environment

ANSWER_S = 10.0
"""Timeout for a connection to a cluster's head."""


@contextmanager
def collectors(meter: Meter) -> Iterator["GatheredRollouts"]:
    """Run collectors within this context, in the cluster at RAY_ADDRESS or in the trial's own Ray.

    Raises:
        UserError: when the cluster cannot be joined or has too few GPUs or cores, or the trial's own Ray would listen to other machines.
    """
    import ray
    from torchrl.collectors.distributed import RayCollector

    request = meter.request
    count, on_gpus = request.world_size, meter.device.type == "cuda"
    each = {"num_cpus": 1, "num_gpus": 1 if on_gpus else 0}
    try:
        start_ray(request, count, on_gpus)
        # Both warn about the weight synchronization, which is not used.
        warnings.filterwarnings("ignore", message="RayCollector iteration started before weight")
        warnings.filterwarnings("ignore", message=".*non-nn.Module.*")
        with own_errors_of_ray():
            gathering = RayCollector(
                [make_environment] * count,
                collector_class=RemoteCollector,  # type: ignore[reportArgumentType]  # a class of collectors, as documented
                collector_kwargs=[
                    {"request": request.model_dump_json(), "trial": str(meter.trial.root.resolve())}
                    for _ in range(count)
                ],
                remote_configs=each,
                frames_per_batch=rollout_size(request.num_envs, request.horizon) * count,
                total_frames=sys.maxsize,
                sync=True,
                weight_sync_schemes={},
            )
            yield GatheredRollouts(gathering, meter)
    finally:
        # Ends the collectors and the trial's own Ray; other jobs of a cluster go on.
        ray.shutdown()


def start_ray(request: Request, count: int, on_gpus: bool) -> None:
    """Join the cluster at RAY_ADDRESS, or start a Ray for `count` collectors of this trial that no other machine can reach.

    With `on_gpus` a Ray of the trial's own gives each collector one of the GPUs in CUDA_VISIBLE_DEVICES, before its process imports
    anything of CUDA.

    Raises:
        UserError: when the cluster cannot be joined or has too few GPUs or cores, or the trial's own Ray would listen to other machines.
    """
    import ray

    if joins_cluster(request.strategy, os.environ):
        address = os.environ[RAY_ADDRESS]
        check_answers(address)
        try:
            ray.init(address=address, logging_level=logging.WARNING)
        except ConnectionError as error:
            raise UserError(
                f"{RAY_ADDRESS}={address}: the cluster refused this trial ({error}); its messages are above. If it needs a token,"
                " set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH), as on its other machines"
            ) from error
        available = ray.cluster_resources()
        for name, wanted in (("GPU", count * on_gpus), ("CPU", count)):
            if available.get(name, 0) < wanted:
                raise UserError(
                    f"strategy: ray asks for {wanted} {name}s, one for each collector, and the cluster at {RAY_ADDRESS}={address}"
                    f" has {available.get(name, 0):g}. Lower gpus (cpu_ranks), or add machines to it"
                )
        return
    ray.init(
        address="local",
        num_cpus=count,
        num_gpus=count if on_gpus else 0,
        include_dashboard=False,
        logging_level=logging.WARNING,
    )
    address = ray.util.get_node_ip_address()
    if address not in ("127.0.0.1", "::1"):
        raise UserError(
            f"strategy: ray: Ray {ray.__version__} listens on {address}, and 127.0.0.1 was expected. Start trials with"
            " envknee.run.launch, which sets this, and install the versions of containers/requirements-ray.lock"
        )


def check_answers(address: str) -> None:
    """Check that a cluster's head accepts connections; Ray itself would try for ever.

    Raises:
        TryAgain: when the address is invalid or does not answer.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise TryAgain(
            f"{RAY_ADDRESS}={address}: expected HOST:PORT of the head of a Ray cluster, and it gives no answer ({error})."
            " `ray start --head` prints it; without the variable a trial starts a Ray of its own on this machine"
        ) from error


class GatheredRollouts:
    """The rollouts of all collectors, joined in one storage on the learner's device."""

    def __init__(self, gathering: Any, meter: Meter) -> None:
        """Take a `RayCollector` of `RemoteCollector`s, wait until all of them simulate, and begin the meter's stage `learner`."""
        self._gathering, self._meter = gathering, meter
        self._rollouts = iter(gathering)
        actors, critics, groups, steps = zip(*gathering.map_fn("made"), strict=True)
        meter.begin("learner")
        self.actor, self.critic, self._groups = actors[0].to(meter.device), critics[0].to(meter.device), groups[0]
        whole: Any = torch.cat(steps, dim=1)
        self.stored: TensorDict = whole.expand(meter.request.horizon, *whole.shape[1:]).clone().to(meter.device)
        """The storage [horizon, collectors * num_envs]."""
        self.collected: list[Collected] = []
        """Each collector's report on the newest rollout."""

    def collect(self) -> Any:
        """Collect on all collectors; return their rollouts [horizon, collectors * num_envs], overwritten by the next call."""
        with self._meter.timeline.phase("storage"):
            together = next(self._rollouts)  # [collectors, horizon, num_envs]
            self.collected = self._gathering.map_fn("collected")
            # One collector after the other: to bring all into the storage's order first would copy them once more on the host.
            for number, rollout in enumerate(together):
                first = number * rollout.shape[1]
                self.stored[:, first : first + rollout.shape[1]].copy_(rollout)
        if self._meter.stage == "first_step":
            self._about: Sequence[RankResult] = self._gathering.map_fn("about")  # now with start-up times
        results = [
            about.model_copy(update={"memory_map": rollout.memory_map})
            for about, rollout in zip(self._about, self.collected, strict=True)
        ]
        self._meter.rollouts_gathered(results)
        return self.stored

    def hand_over(self, learner: Learner) -> None:
        """Send the learner's weights to all collectors."""
        import ray

        weights = {name: tensor.detach().cpu() for name, tensor in learner.state().items()}
        reference = ray.put(weights)  # stored once, for all collectors
        self._gathering.map_fn("act_with", [(reference,)] * self._gathering.num_collectors)

    def observations(self) -> dict[str, torch.Tensor]:
        """Return, by group, the newest rollout's observations [horizon, collectors * num_envs, ...]."""
        return {group: self.stored[group] for group in self._groups}


def in_turns(learner: Learner, rollouts: GatheredRollouts, meter: Meter) -> None:
    """Repeat: gather rollouts, learn from them, send the weights to the collectors."""
    while True:
        rollout = rollouts.collect()
        with meter.timeline.phase("learning"):
            losses, learner_s = timed(learner, rollout, memory=None)
            rollouts.hand_over(learner)
        action_std = rollout["scale"].mean().item()
        pipeline = Pipeline(staleness=0, learner_s=learner_s, memory=meter.memory.use())
        meter.end_iteration(losses, learner.learning_rate, action_std, pipeline=pipeline, collected=rollouts.collected)
