"""What runs in one of Ray's processes: TorchRL's Collector with a simulation of its own, and a meter of its own.

Input: a request, the number of the collector, weights. Output: rollouts [horizon, num_envs] and what they took, to
`torchrl_ray` in the trial's process. Upstream: TorchRL 0.14.1 (collectors/_single.py).
"""

import copy
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from isaaclab_rl.torchrl import IsaacLabTorchRLWrapper, TorchRlPpoCfg
from torchrl.collectors import Collector

from envknee.machine import environment
from envknee.machine.processes import die_with_parent
from envknee.measure.meter import Meter, TrialDone
from envknee.measure.ranks import Ranks
from envknee.measure.rows import Collected
from envknee.record.schema import RankResult, Request
from envknee.study.paths import TrialFolder
from envknee.trainers import TrialConfig, load
from envknee.trainers.common import metered
from envknee.trainers.torchrl.networks import make_networks
from envknee.trainers.torchrl.rollouts import Rollouts


class RemoteCollector(Collector):
    """A collector whose rollouts hold, beside TorchRL's own, the values after each step (see `Rollouts`).

    The networks are made where the environment is, as they follow from its observations; the learner asks for them.
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
        """Start the simulation.

        Args:
            create_env_fn: `torchrl_rollouts.make_environment`
            request: the trial's, as JSON
            trial: the path of its folder
            worker_idx: the collector's number, 0, 1, ...
            _fixed: what `RayCollector` says besides (frames, devices, exploration), which the request says already
        """
        die_with_parent()
        asked = Request.model_validate_json(request)
        device = "cuda:0" if os.environ.get("CUDA_VISIBLE_DEVICES") and torch.cuda.is_available() else "cpu"
        environment.use(device)
        self._number = worker_idx
        self.meter = Meter(
            asked,
            TrialFolder(Path(trial)),
            device,
            environment.gpu_of(device),
            ranks=Ranks(worker_idx, asked.world_size),
            writes=False,
        )
        self.meter.begin("configuration")
        config = load(asked.trainer).resolve(asked, device, worker_idx)
        self.meter.begin("kernels")
        cfg: TorchRlPpoCfg = config.agent
        env = create_env_fn(config, self.meter)
        torch.manual_seed(cfg.seed)
        self._actor, self._critic = make_networks(env, cfg)
        self._rollouts = Rollouts(
            env, self._actor, self._critic, cfg, self.meter, torch.device(device), make_collector=self._set_up
        )
        self.meter.learned = lambda: metered.learned({"actor": self._actor, "critic": self._critic})
        self.meter.memory.learner_made(self._rollouts.stored_bytes(), lambda: self.meter.learned().values())
        self.meter.begin("first_step")
        self.meter.start_training(cfg.num_mini_batches, self._rollouts.next_observations())

    def __repr__(self) -> str:
        """Return what Ray puts before each line that this process prints; TorchRL's has a page of networks."""
        return f"collector {self._number}"

    def __bool__(self) -> bool:
        """Return True. Ray asks that before it hands on an exception, and TorchRL's `__len__` is infinite, which is no length."""
        return True

    def _set_up(self, *arguments: Any, **keywords: Any) -> "RemoteCollector":
        super().__init__(*arguments, worker_idx=self._number, **keywords)
        return self

    def next(self) -> Any:
        """Collect a rollout, and return it [horizon, num_envs] on the CPU.

        Raises:
            TrialDone: when the simulation broke; it says in which collector.
        """
        self.meter.timeline.begin_again()
        try:
            with metered.explaining_errors(self.meter):
                rollout = self._rollouts.collect()
        except TrialDone as done:
            raise TrialDone(done.status, f"collector {self._number}: {done.reason}", done.failure) from done
        self._collected = self.meter.end_rollout()
        return rollout.cpu()

    def collected(self) -> Collected:
        """Return what the newest rollout took, and which episodes ended in it."""
        return self._collected

    def about(self) -> RankResult:
        """Return where this collector runs, and how long it took to start."""
        return RankResult(
            rank=self._number,
            status="ok",
            device=environment.observe(str(self.meter.device)).device,
            startup_s=self.meter.startup_s,
            memory_map=None,
            micro_batches=None,
            host=socket.gethostname(),
        )

    def networks(self) -> tuple[Any, Any]:
        """Return (actor, critic), as they are here, on the CPU."""
        return copy.deepcopy(self._actor).cpu(), copy.deepcopy(self._critic).cpu()

    def groups(self) -> list[str]:
        """Return the names of the observation groups."""
        return list(self._rollouts.next_observations())

    def empty_step(self) -> Any:
        """Return room for a step [1, num_envs] of what the rollouts hold."""
        return self._rollouts.empty_step()

    def act_with(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Act with the learner's parameters and buffers, by the names that `Learner.learned` has for them."""
        for name, network in {"actor": self._actor, "critic": self._critic}.items():
            prefix = f"{name}."
            network.load_state_dict(
                {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
            )
