"""An arm: the trainer, devices and memory under test."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, create_model

from envknee import trainers
from envknee.base.fields import Kind, newer
from envknee.study import remedies
from envknee.study.choices import OneOf
from envknee.study.command import OF_A_RULE, Command
from envknee.study.scaling_rule import Scaling
from envknee.study.strategies import STRATEGIES, StrategyName
from envknee.study.value_types import Frontend, Gpus, Observations, Overrides, Positive, Strict

REMEDIES: Any = {name: (remedy.type, remedy.field) for name, remedy in remedies.remedies().items()}
WITH_REMEDIES: Any = create_model("WithRemedies", __base__=Strict, **REMEDIES)


class Memory(WITH_REMEDIES):
    """How an arm deals with memory."""


OFF_POLICY = frozenset({"skrl_sac"})
"""Trainers that learn from a replay buffer. Nobody else asks for a trainer's name: what trainers can do stands here."""

SHARES_PROCESSES_OF_RANKS = frozenset({"rsl_rl"})
"""Trainers whose processes of several ranks can measure one trial after another."""

EXPORTS_POLICY = frozenset({"rsl_rl"})
"""Trainers that leave the policy of a learning trial."""


class Setup(BaseModel):
    """The part of an arm that each of its requests takes over unchanged."""

    trainer: Annotated[str, OneOf(trainers.names())] = "rsl_rl"
    """The training library; 'command': a program of your own."""
    command: Command | None = newer(None)
    """With trainer: command, the program to measure and the source of its rows (docs/commands.md)."""
    gpus: Gpus = "auto"
    """'auto': one GPU if there is any, else the CPU; 0: the CPU; k: k GPUs of one machine, a rank on each."""
    cpu_ranks: Positive = 1
    """With gpus: 0, ranks that train together on the CPU: a rehearsal of several GPUs."""
    nodes: Positive = newer(1)
    """Machines of a SLURM cluster that train together, each with the arm's number of GPUs (or cpu_ranks)."""
    observations: Observations = newer("stock")
    """How camera frames become observations. 'stock': as in Isaac Lab; 'lean': uint8 until the network reads them, each frame stored once;
    'per_frame': each frame normalized to float32 and then stacked, as in an earlier Isaac Lab."""
    frontend: Frontend = newer("torch")
    """Isaac Lab's frontend that steps environments: 'torch', or 'warp': steps without PyTorch's kernels, captured on a GPU, and resets
    without waiting. Only for tasks with a Warp version."""
    deterministic: bool = newer(False)
    """The same request gives the same training, bit for bit. Slower, and with one thread on a CPU."""
    strategy: StrategyName = newer("in_turns")
    """'in_turns': a rollout, then learning. 'async2' (trainer: torchrl): one GPU collects the next rollout while another learns from the
    last one; gpus: auto takes two GPUs if available, else one device for both. 'ray' (trainer: torchrl): Ray's processes collect rollouts,
    one per GPU (or cpu_ranks), and the trial's own process learns."""
    sync_every: Positive = newer(1)
    """With strategy: async2, copy the learned weights to the acting policy after this many updates."""
    staggered: bool | None = newer(None)
    """true: first episodes start at different steps; false: all at step 0. Without it, the library decides: RSL-RL spreads them, and so
    does TorchRL with a configuration that comes from RSL-RL's; the others do not."""
    memory: Memory = Memory()

    @property
    def world_size(self) -> int:
        """Ranks that train together, each with num_envs environments of its own: on each node one per GPU, or `cpu_ranks`.

        With strategy: ray, these are collectors that share one learner. A foreign command may say how many it has.
        """
        if self.command is not None and self.command.ranks is not None:
            return self.command.ranks
        if STRATEGIES[self.strategy].is_one_rank:
            return 1
        if self.gpus == 0:
            return self.nodes * self.cpu_ranks
        return self.nodes * (1 if self.gpus == "auto" else self.gpus)

    @property
    def can_share(self) -> bool:
        """Whether one process for each rank can measure several trials.

        All must be on one machine, and collect and learn in turns. A foreign command starts a program for each.
        """
        together = self.world_size == 1 or (self.trainer in SHARES_PROCESSES_OF_RANKS and self.nodes == 1)
        return together and self.strategy == "in_turns" and self.command is None

    @property
    def is_off_policy(self) -> bool:
        """Whether batches are drawn from a replay buffer: they need not divide a rollout, and it has one size at all points."""
        return self.trainer in OFF_POLICY

    @property
    def exports_policy(self) -> bool:
        """Whether a learning trial leaves its policy."""
        return self.trainer in EXPORTS_POLICY


class Arm(Setup, Strict):
    """One thing under test. Thresholds belong to an arm; a comparison is between two arms."""

    scaling: Scaling | None = newer(None)
    """Rule and base point by which other settings change with num_envs (docs/learning-rules.md). Without it, none change."""
    learns_like: str | None = newer(None)
    """Another arm of the study that should need as many environment steps: its search stands in for that of this arm (docs/joint.md).
    Without it, this arm has a search of its own."""
    measures: Kind | None = newer(None)
    """The one section that measures this arm: 'throughput' or 'learning'. Without it, both do."""
    overrides: Overrides = {}
    """Like the task's overrides, for this arm only, and with priority."""

    def _problems(self) -> Iterator[str]:
        if self.cpu_ranks > 1 and self.gpus != 0:
            yield f"cpu_ranks {self.cpu_ranks} is for gpus: 0; on GPUs there is a rank for each (gpus: k)"
        if self.nodes > 1 and self.gpus == "auto":
            yield f"nodes {self.nodes} needs a definite number of GPUs on each: gpus: 1 or more, or 0 for the CPU"
        if (self.trainer == "command") != (self.command is not None):
            yield "trainer: command and the section `command:` belong together: one of them is missing"
        if self.command is not None:
            yield from self._problems_with(self.command)
        strategy = STRATEGIES[self.strategy]
        if strategy.trainer not in (None, self.trainer):
            yield f"strategy {self.strategy} is for trainer: {strategy.trainer}, and the trainer is {self.trainer}"
        if strategy.cluster and self.nodes > 1:
            yield (
                f"nodes {self.nodes} is for ranks; with strategy {self.strategy} the cluster that {strategy.cluster} names has the"
                " machines, and gpus (or cpu_ranks) counts collectors on all of them"
            )
        if self.sync_every != 1 and not strategy.is_one_rank:
            yield f"sync_every {self.sync_every} is for strategy: async2; with {self.strategy} each update acts at once"
        if strategy.is_one_rank and (self.gpus not in ("auto", 0, 1, 2) or self.cpu_ranks > 1 or self.nodes > 1):
            yield (
                f"strategy {self.strategy} has one side that simulates and one that learns: gpus: auto, 2, 1 or 0 of one"
                f" machine, and no ranks (got gpus {self.gpus}, cpu_ranks {self.cpu_ranks}, nodes {self.nodes})"
            )
        if self.scaling is not None and self.is_off_policy:
            yield (
                f"scaling: rule {self.scaling.rule} says how a rollout is cut into batches, and trainer: {self.trainer} draws its batches"
                " from a replay buffer. Take scaling out of this arm"
            )

    def _problems_with(self, command: Command) -> Iterator[str]:
        for key in ("observations", "deterministic", "memory", "overrides", "strategy", "cpu_ranks", "nodes"):
            if getattr(self, key) != Arm.model_fields[key].default:
                yield (
                    f"{key} is not for trainer: command: the program runs unchanged, on one machine. Take {key} out of this arm,"
                    " and set what the program has of its own in `command.argv` and `command.env`"
                )
        stated = {name for name in OF_A_RULE if self.scaling is not None and getattr(self.scaling, name) is not None}
        for name in sorted(stated - command.of_a_rule):
            yield (
                f"scaling.{name} does not reach this command, which would keep its own: {{{name}}} is in none of its arguments."
                f" Add an argument such as `--{name.replace('_', '-')}={{{name}}}` to command.argv, as the program calls it"
            )
        for name in sorted(command.of_a_rule - stated):
            yield f"{{{name}}} has no value: only a scaling rule gives it one. Add scaling.{name}, or write the number into command.argv"
