"""A collector in a process of Ray: TorchRL's Collector with its own simulation and its own meter.

Upstream: TorchRL 0.14.1 (collectors/_single.py).
"""

import copy
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from isaaclab_rl.torchrl import IsaacLabTorchRLWrapper, TorchRlPpoCfg
from torchrl.collectors import Collector

from envknee.machine import environment
from envknee.machine.processes import die_with_parent
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.measure.ranks import Ranks
from envknee.measure.rows import Collected, TrialDone
from envknee.record.schema import RankResult, Request
from envknee.study.paths import TrialFolder
from envknee.trainers import TrialConfig, load
from envknee.trainers.common import metered
from envknee.trainers.torchrl.networks import make_networks
from envknee.trainers.torchrl.rollouts import Rollouts


def gpus_of_collector(request: Request) -> Literal["auto", 0, 1]:
    """Return how many GPUs a collector of this trial has: Ray gives each one of its own, whatever the number of collectors."""
    return request.gpus if request.gpus in ("auto", 0) else 1


class RemoteCollector(Collector):
    """A collector whose rollouts also hold the value after each step (see `Rollouts`).

    It creates the networks, because their shapes follow from the environment's observations. The learner gets copies (`made`).
    """

    def __init__(
        self,
        create_env_fn: Callable[[TrialConfig, Meter], IsaacLabTorchRLWrapper],
        *,
        request: str,
        trial: str,
        worker_idx: int,
        **_fixed: Any,
    ) -> None:
        """Start the simulation of `request` (JSON) with `rollouts.make_environment`, in collector `worker_idx` (0, 1, ...).

        `trial` is the path of the trial's folder. Other arguments of `RayCollector` (frames, devices, exploration) are ignored, because
        the request decides them.

        Raises:
            UserError: when the request asks for GPUs and Ray gave this collector none, or one that cannot be used.
        """
        die_with_parent()
        parsed = Request.model_validate_json(request)
        device = environment.choose_device(gpus_of_collector(parsed))
        gpu = environment.gpu_of(device)
        before_gb = environment.use(device, gpu)
        self._number = worker_idx
        ranks = Ranks(worker_idx, parsed.world_size)
        self.meter = Meter(
            parsed, TrialFolder(Path(trial)), device, gpu, ranks=ranks, writes=False, before_gb=before_gb
        )
        self.meter.begin("configuration")
        config = load(parsed.trainer).resolve(parsed, device, worker_idx)
        self.meter.begin("kernels")
        cfg: TorchRlPpoCfg = config.agent
        env = create_env_fn(config, self.meter)
        torch.manual_seed(cfg.seed)
        self._actor, self._critic = make_networks(env, cfg)
        self._rollouts = Rollouts(
            env, self._actor, self._critic, cfg, self.meter, torch.device(device), make_collector=self._set_up
        )
        learner = LearnerDescription(
            state=lambda: metered.state_of({"actor": self._actor, "critic": self._critic}),
            num_mini_batches=cfg.num_mini_batches,
            rollout_observations=self._rollouts.observations,
            stored_bytes=self._rollouts.stored.bytes(),
        )
        self.meter.start_training(learner)

    def __repr__(self) -> str:
        """Return Ray's prefix for each line that this process prints. TorchRL's own `repr` prints all networks."""
        return f"collector {self._number}"

    def __bool__(self) -> bool:
        """Return True. Ray calls `bool` before it passes on an exception, and would fail on TorchRL's infinite `__len__`."""
        return True

    def _set_up(self, *arguments: Any, **keywords: Any) -> "RemoteCollector":
        super().__init__(*arguments, worker_idx=self._number, **keywords)
        return self

    def next(self) -> Any:
        """Collect a rollout and return it [horizon, num_envs] on the CPU.

        Raises:
            TrialDone: when the simulation broke; names the collector.
        """
        self.meter.timeline.start()
        try:
            with metered.explaining_errors(self.meter):
                rollout = self._rollouts.collect()
        except TrialDone as done:
            raise TrialDone(done.status, f"collector {self._number}: {done.reason}", done.failure) from done
        self._collected = self.meter.end_rollout()
        return rollout.cpu()

    def collected(self) -> Collected:
        """Return the timing of the newest rollout, and the episodes that ended in it."""
        return self._collected

    def about(self) -> RankResult:
        """Return this collector's host, device and start-up times."""
        return RankResult(
            rank=self._number,
            status="ok",
            device=environment.observe(str(self.meter.device)).device,
            startup_s=self.meter.startup_s,
            memory_map=None,
            micro_batches=None,
            host=socket.gethostname(),
        )

    def made(self) -> tuple[Any, Any, list[str], Any]:
        """Return copies of (actor, critic), the observation groups' names, and a zeroed step [1, num_envs] of a rollout, on the CPU."""
        actor, critic = (copy.deepcopy(network).cpu() for network in (self._actor, self._critic))
        step: Any = torch.zeros_like(self._rollouts.stored[:1])
        return actor, critic, list(self._rollouts.observations()), step.cpu()

    def act_with(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Load the learner's parameters and buffers, by their names in `Learner.state`."""
        torch.nn.ModuleDict({"actor": self._actor, "critic": self._critic}).load_state_dict(weights)
