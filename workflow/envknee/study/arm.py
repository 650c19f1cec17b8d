"""An arm: the trainer, devices and memory under test."""

from typing import Annotated, Any

from pydantic import Field, create_model, model_validator

from envknee.study import remedies
from envknee.study.choices import NameIn
from envknee.study.command import Command
from envknee.study.off_policy import OFF_POLICY
from envknee.study.rules import Frontend, Gpus, Observations, Overrides, Positive, Strict
from envknee.study.scaling_rule import Scaling
from envknee.study.strategies import StrategyName, unfit, world_size

WITH_REMEDIES: Any = create_model("WithRemedies", __base__=Strict, **remedies.fields())


class Memory(WITH_REMEDIES):
    """How an arm deals with memory."""


class Arm(Strict):
    """One thing under test. Thresholds belong to an arm; two arms are what a reader compares."""

    trainer: Annotated[str, NameIn("trainers")] = Field(
        default="rsl_rl", description="Which library learns; 'command': a program of your own."
    )
    command: Command | None = Field(
        default=None,
        description="With trainer: command, the program to measure and where its rows come from (docs/commands.md).",
        exclude_if=lambda value: value is None,
    )
    gpus: Gpus = Field(
        default="auto",
        description="'auto': one GPU if there is any, else the CPU; 0: the CPU; k: k GPUs of one machine, a rank on each.",
    )
    cpu_ranks: Positive = Field(
        default=1, description="With gpus: 0, ranks that train together on the CPU: a rehearsal of several GPUs."
    )
    nodes: Positive = Field(
        default=1,
        description="Machines of a SLURM cluster that train together, each with as many GPUs (or cpu_ranks) as stand here.",
        exclude_if=lambda value: value == 1,
    )
    observations: Observations = Field(
        default="stock",
        description="How camera frames become observations: Isaac Lab's own way; 'lean': uint8 until the network reads them,"
        " each kept once; or 'per_frame': each normalized to float32 and stacked then, as an earlier Isaac Lab did.",
        exclude_if=lambda value: value == "stock",
    )
    frontend: Frontend = Field(
        default="torch",
        description="Which of Isaac Lab's frontends steps environments: 'torch', or 'warp': a step without PyTorch's kernels,"
        " captured on a GPU, whose resets wait for nothing; for tasks that have a Warp twin.",
        exclude_if=lambda value: value == "torch",
    )
    deterministic: bool = Field(
        default=False,
        description="The same request gives the same training, bit for bit: slower, and on a CPU with one thread.",
        exclude_if=lambda value: not value,
    )
    strategy: StrategyName = Field(
        default="in_turns",
        description="'in_turns': a rollout, then learning; 'async2' (trainer: torchrl): the next rollout is collected on one GPU"
        " while another learns from the last. gpus: auto takes two if they are there, else one device for both. 'ray' (trainer:"
        " torchrl): collectors in processes of Ray gather rollouts, one per GPU (or cpu_ranks), and the trial's own learns.",
        exclude_if=lambda value: value == "in_turns",
    )
    sync_every: Positive = Field(
        default=1,
        description="With strategy: async2, updates after which the weights that act become those that were learned.",
        exclude_if=lambda value: value == 1,
    )
    scaling: Scaling | None = Field(
        default=None,
        description="What else changes with num_envs: a rule and its base point (docs/learning-rules.md). Without it nothing does.",
        exclude_if=lambda value: value is None,
    )
    staggered: bool | None = Field(
        default=None,
        description="true: the first episodes start spread over their length; false: all at their beginning. Without it as the"
        " library does: RSL-RL and TorchRL spread them, the others do not.",
        exclude_if=lambda value: value is None,
    )
    overrides: Overrides = Field(default={}, description="Like the task's overrides, for this arm alone; these win.")
    memory: Memory = Memory()

    @model_validator(mode="after")
    def _ranks_have_a_device(self) -> "Arm":
        if self.cpu_ranks > 1 and self.gpus != 0:
            raise ValueError(f"cpu_ranks {self.cpu_ranks} is for gpus: 0; on GPUs there is a rank for each (gpus: k)")
        if self.nodes > 1 and self.gpus == "auto":
            raise ValueError(
                f"nodes {self.nodes} needs a definite number of GPUs on each: gpus: 1 or more, or 0 for the CPU"
            )
        return self

    @model_validator(mode="after")
    def _command_is_whole(self) -> "Arm":
        if (self.trainer == "command") != (self.command is not None):
            raise ValueError("trainer: command and the section `command:` belong together: one of them is missing")
        if self.command is None:
            return self
        cannot = {
            "observations": (self.observations != "stock", "it would change the program's own environment"),
            "deterministic": (self.deterministic, "set the program's own flag in `command.argv`"),
            "memory": (
                self.memory != Memory(),
                "set the program's own flags in `command.argv`, variables in `command.env`",
            ),
            "overrides": (bool(self.overrides), "write them into `command.argv`"),
            "strategy": (self.strategy != "in_turns", "the program decides how it collects and learns"),
            "cpu_ranks": (self.cpu_ranks != 1, "the program starts its own processes"),
            "nodes": (self.nodes != 1, "a command runs on one machine"),
        }
        for key, (is_asked, reason) in cannot.items():
            if is_asked:
                raise ValueError(f"{key} is not for trainer: command: {reason}. Take {key} out of this arm")
        return self

    @model_validator(mode="after")
    def _strategy_fits(self) -> "Arm":
        reason = unfit(self.strategy, self.trainer, self.gpus, self.cpu_ranks, self.nodes, self.sync_every)
        if reason:
            raise ValueError(reason)
        return self

    @model_validator(mode="after")
    def _rules_are_for_rollouts(self) -> "Arm":
        if self.scaling is not None and self.trainer in OFF_POLICY:
            raise ValueError(
                f"scaling: rule {self.scaling.rule} says how a rollout is cut into batches, and trainer: {self.trainer} draws its batches"
                " from a replay buffer. Take scaling out of this arm"
            )
        return self

    @property
    def world_size(self) -> int:
        """Ranks that train together, each with num_envs environments of its own."""
        return world_size(self.gpus, self.cpu_ranks, self.nodes, self.strategy)
