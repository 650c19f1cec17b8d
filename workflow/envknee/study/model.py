"""A study as frozen models: what is measured, in which arms, and how it is decided."""

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from envknee.base.fields import KINDS, Kind, newer
from envknee.study import transfer
from envknee.study.arm import Arm
from envknee.study.command import Command
from envknee.study.errors import nearest
from envknee.study.files import sha256_of
from envknee.study.strategies import STRATEGIES
from envknee.study.sweep import Learning, Sweep, Throughput
from envknee.study.task import Task, task_of
from envknee.study.value_types import (
    STUDY_NAME,
    Architecture,
    AskVersion,
    Confidence,
    NotNegative,
    PhaseSwitch,
    Positive,
    Runtime,
    Share,
    Strict,
    number,
    phase_switch,
    study_name,
)


class Decide(Strict):
    """How records become a verdict. May be changed at any time: nothing is measured again."""

    delta: Share = 0.10
    """A doubling that gains less than this no longer pays."""
    delta_learning: Share = 0.25
    """The same for seconds to the target. A tenth would take 26 to 37 seeds to decide, a quarter 5 to 7."""
    confidence: Confidence = 0.95
    """Confidence of every interval and one-sided bound."""
    memory_margin: Annotated[float, Field(ge=0, lt=1), BeforeValidator(number)] = 0.05
    """Share of the memory to keep free."""
    baseline: str | None = newer(None)
    """An arm with which the others are compared, in environments that fit and in FPS."""


class Tracking(Strict):
    """Where runs are logged. May be changed at any time."""

    uri: str | None = None
    """An MLflow tracking URI; without it MLFLOW_TRACKING_URI, else sqlite:///results/mlflow.db."""

    @property
    def may_hold_password(self) -> bool:
        """Whether the URI has a part for user and password, or options."""
        return self.uri is not None and ("@" in self.uri or "?" in self.uri)

    @property
    def digest(self) -> str | None:
        """Hash of the URI, which reveals no password in it."""
        return None if self.uri is None else sha256_of(self.uri)


class Replay(Strict):
    """Recorded requests that a study runs again, in place of its own. Written by `envknee.after.replay`."""

    of: str
    """The study in which they were recorded."""
    trials: Positive
    """Number of requests: trials 0, 1, ... of that study."""
    requests_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Hash of replayed.jsonl in the results folder."""


class Raise(Strict):
    """Further repeats of one section, which were asked for at once. Written by a sweep."""

    section: Kind
    repeats: Positive


COMPILES = "agent.torch_compile_mode"
"""The override by which RSL-RL compiles the networks with PyTorch; null: it does not."""

MOST_TRIALS = 100_000
"""Largest study: 20 days of trials that take 20 s each."""


class Study(Strict):
    """One study. Everything that it produces is under results/<study>/."""

    study: Annotated[str, BeforeValidator(study_name)] = Field(json_schema_extra={"pattern": f"^{STUDY_NAME.pattern}$"})
    """Name of the study and of its folder."""
    seed: NotNegative = 1
    """Every other seed is derived from this one."""
    window: Positive = 2
    """Request n may use the records of trials up to n - window."""
    slots: Positive = 1
    """Trials that run at the same time (locally: at most one per GPU, or one on a CPU)."""
    phases: Annotated[PhaseSwitch, BeforeValidator(phase_switch)] = "sampled"
    """Resolve four environment steps of each rollout, and what lies before them, into phases; 'off': none."""
    runtime: Runtime = newer("host")
    """Where trials run: 'host' in this Python, 'apptainer' or 'docker' (or Podman) in an image."""
    image: str | None = newer(None, min_length=1)
    """With runtime: apptainer, the file of an existing image; without it, containers/isaaclab.sif is built. With runtime: docker, the name
    of an image that docker or podman has."""
    architectures: list[Architecture] | None = newer(None)
    """GPU architectures whose kernels are compiled into the image, such as 90 for sm_90 (H100); without it 80, 86, 89, 90, 100 and 120, or
    none for an image without CUDA. Other GPUs compile them in each trial."""
    replay: Replay | None = newer(None)
    """Run the requests of another study again. `make replay STUDY=results/x` writes this."""
    raised: list[Raise] = newer([])
    """Further repeats in the order in which more_repeats were raised. A sweep writes this."""
    ask_version: AskVersion = newer(1)
    """Version of the rules by which trials are asked. A sweep writes the newest one into a new folder, and an existing folder keeps its
    own."""
    task: Annotated[Task, BeforeValidator(task_of, json_schema_input_type=str | Task)] = Task()
    arms: dict[str, Arm] = Field(default={"stock": Arm()}, min_length=1)
    throughput: Throughput | None = None
    learning: Learning | None = None
    decide: Decide = Decide()
    tracking: Tracking = Tracking()

    @model_validator(mode="before")
    @classmethod
    def _of_commands_alone(cls, value: Any) -> Any:
        """If every arm is a foreign command, the defaults are no phases and `task: foreign`, not Isaac Lab's."""
        arms = value.get("arms") if isinstance(value, dict) else None
        sections = list(arms.values()) if isinstance(arms, dict) else []
        if sections and all(isinstance(arm, dict) and arm.get("trainer") == "command" for arm in sections):
            return {"phases": "off", "task": "foreign"} | value
        return value

    def _problems(self) -> Iterator[str]:
        if self.throughput is None and self.learning is None:
            yield "a study needs a 'throughput' or a 'learning' section, or both"
        for kind, sweep in self.sections.items():
            batches = 1 if sweep.batch_size == "library" else len(sweep.batch_size)
            trials = len(self.arms_of(kind)) * len(sweep.num_envs) * len(sweep.horizon) * batches * sweep.all_repeats
            if trials > MOST_TRIALS:
                yield f"arms x num_envs x horizon x batch_size x repeats make up to {trials:,} trials, and {MOST_TRIALS:,} are the most"
            if sweep.is_joint and (searched := len(self.searching(kind)) * sweep.search_trials) > MOST_TRIALS:
                yield f"arms x trials make {searched:,} trials, and {MOST_TRIALS:,} are the most"
            if sweep.confirm is not None:
                settings = sum(
                    sweep.confirm.settings * (1 + len(self.followers(arm, kind))) for arm in self.arms_of(kind)
                )
                fresh = settings * (sweep.confirm.seeds + sweep.more_repeats)
                if fresh > MOST_TRIALS:
                    yield f"arms x confirm.settings x seeds make {fresh:,} trials, and {MOST_TRIALS:,} are the most"
        for kind, sweep in self.sections.items():
            yield from self._problems_of_workers(kind, sweep)
            if not self.arms_of(kind):
                yield f"{kind}: no arm is left, because each `measures` another section. Take the section or one `measures` out"
        for name, arm in self.arms.items():
            if arm.measures is not None and arm.measures not in self.sections:
                yield f"arm {name!r}: measures {arm.measures!r}, and the study has no such section. Add it, or take the key out"
        if self.image is not None and self.runtime == "host":
            yield f"image {self.image!r} is for runtime: apptainer or docker, and the runtime is host"
        if self.image is not None and self.image.startswith("-"):
            yield f"image {self.image!r} is no image: docker and apptainer would read it as an option. Expected a name or a file"
        if self.image is None and self.runtime == "docker":
            yield "runtime: docker needs `image:`, the name of an image; the first lines of containers/Dockerfile say how to build one"
        if self.architectures is not None and (self.runtime != "apptainer" or self.image is not None):
            yield "architectures are for the image that is built with runtime: apptainer and no `image:`"
        if self.decide.baseline is not None and self.decide.baseline not in self.arms:
            yield (
                f"decide.baseline {self.decide.baseline!r} is no arm of this study{nearest(self.decide.baseline, self.arms)}."
                f" Arms: {', '.join(self.arms)}"
            )
        if self.phases != "off" and all(arm.command is not None for arm in self.arms.values()):
            yield f"phases {self.phases!r}: a foreign command is not looked into, so that it has no phases. Take the key out"
        for name, arm in self.arms.items():
            if not STUDY_NAME.fullmatch(name):
                yield f"arm {name!r}: expected 1 to 64 lower-case letters, digits, '-' and '_', starting with a letter or digit"
            problems = itertools.chain(self._problems_with(arm), self._problems_with_command(arm.command))
            yield from (f"arm {name!r}: {problem}" for problem in problems)
        for name in self.arms:
            problems = transfer.problems(name, self.arms, self.throughput, self.learning)
            yield from (f"arm {name!r}: {problem}" for problem in problems)

    def _problems_of_workers(self, kind: Kind, sweep: Sweep) -> Iterator[str]:
        if sweep.workers is None:
            return
        if self.window < sweep.workers:
            yield (
                f"{kind}.workers {sweep.workers} measure at the same time, and window {self.window} lets {self.window} do so: the others"
                f" would always wait. Set window: {sweep.workers} or more"
            )
        if any(arm.nodes > 1 for arm in self.arms.values()):
            yield f"{kind}.workers {sweep.workers}: a worker measures on one machine, and an arm has several nodes. Take workers out"
        devices = {name: (arm.gpus, STRATEGIES[arm.strategy].gpus_of_auto) for name, arm in sorted(self.arms.items())}
        first, *others = devices
        for other in others:
            if devices[other] != devices[first]:
                yield (
                    f"{kind}.workers {sweep.workers}: a worker keeps its devices from its first trial to its last, and arms {first!r} and"
                    f" {other!r} differ in theirs (gpus {devices[first][0]} and {devices[other][0]}). Put them into studies of their own"
                )
                return

    def _problems_with(self, arm: Arm) -> Iterator[str]:
        if STRATEGIES[arm.strategy].cluster and self.runtime != "host":
            yield f"strategy {arm.strategy} is for runtime: host; images have no Ray (got {self.runtime})"
        if arm.nodes > 1 and self.runtime == "docker":
            yield f"nodes {arm.nodes} is for runtime: host or apptainer; a container of Docker's has no network"
        if arm.is_off_policy and self.throughput is not None and not self.throughput.warmup_iterations:
            yield (
                f"the first iteration of trainer: {arm.trainer} fills its replay buffer and learns nothing, and"
                " throughput.warmup_iterations 0 would time it. Set 1 or more"
            )
        composes = self.throughput is not None and self.throughput.compose_horizons
        if composes and (arm.scaling or arm.is_off_policy or not self._can_share(arm)):
            yield (
                "compose_horizons is for arms that collect and then learn, in one process per rank of one machine: no off-policy trainer,"
                " scaling, command, compiled networks, or several nodes. Take compose_horizons out, or put the arm into another study"
            )
        for sweep in self.sections.values() if arm.scaling else ():
            if sweep.batch_size == "library":
                yield (
                    "a rule starts from a stated batch_size, and batch_size is library. Name the batch size at scaling.num_envs; rule:"
                    " library then keeps the number of mini-batches"
                )
            if sweep.adaptive.probes:
                yield f"adaptive.probes {sweep.adaptive.probes} is for arms without scaling"
        if arm.scaling and arm.scaling.rule == "fixed_frames" and self.throughput is not None:
            yield (
                "rule fixed_frames changes the horizon with num_envs, and throughput limits are those of one horizon. Put the"
                " throughput section into a study of its own"
            )

    def _problems_with_command(self, command: Command | None) -> Iterator[str]:
        if command is None:
            return
        if self.task.overrides or self.task.inject is not None:
            yield "task.overrides and task.inject do not reach a foreign command. Write them into its argv"
        if self.learning is not None and not command.rows.tells("reward"):
            yield (
                "a learning study needs the reward, and command.rows.names has none. Add `reward: NAME`, or take the learning section out"
            )
        for sweep in self.sections.values():
            if sweep.batch_size == "library" and command.needs_batch_size:
                yield (
                    f"{{{command.needs_batch_size[0]}}} has no value with batch_size: library. Move it to command.batch_arguments, or name"
                    " batch sizes"
                )
        if self.runtime != "host":
            yield (
                f"trainer: command is for runtime: host (got {self.runtime}). An image of your own is part of the command:"
                " argv: [apptainer, exec, --nv, my.sif, python, train.py]"
            )

    @property
    def sections(self) -> dict[Kind, Sweep]:
        """The sections of this study, by kind of trial."""
        return {kind: sweep for kind in KINDS if (sweep := getattr(self, kind)) is not None}

    def arms_of(self, kind: Kind) -> list[str]:
        """Return the arms that a section measures, by name."""
        return [name for name, arm in sorted(self.arms.items()) if arm.measures in (None, kind)]

    def leader(self, arm: str, kind: Kind) -> str | None:
        """Return the arm whose search stands in for that of an arm (`learns_like`); None if it has its own."""
        return self.arms[arm].learns_like if kind == "learning" else None

    def followers(self, arm: str, kind: Kind) -> list[str]:
        """Return the arms for which the search of an arm stands in, by name."""
        return [own for own in self.arms_of(kind) if self.leader(own, kind) == arm]

    def searching(self, kind: Kind) -> list[str]:
        """Return the arms with a search of their own, by name."""
        return [arm for arm in self.arms_of(kind) if self.leader(arm, kind) is None]

    def shares_processes(self, arm: str) -> bool:
        """Whether one process for each rank can measure several trials of an arm.

        Not if PyTorch compiles the networks: it does so for the sizes that it sees first, and later ones get slower code.
        """
        return self._can_share(self.arms[arm])

    def _can_share(self, arm: Arm) -> bool:
        overrides = {**self.task.overrides, **arm.overrides}
        return arm.can_share and overrides.get(COMPILES) is None

    @property
    def world_sizes(self) -> frozenset[int]:
        """Ranks per trial, over all arms that cut a rollout as listed into batches: a point must be legal for each."""
        arms = [arm for arm in self.arms.values() if arm.scaling is None and not arm.is_off_policy]
        return frozenset(arm.world_size for arm in arms)

    @property
    def worker_devices(self) -> int:
        """Devices that one worker keeps: the GPUs of a trial (`auto` takes one), or one for the CPU; the most of any arm."""
        return max(1 if arm.gpus == "auto" else max(1, arm.gpus) for arm in self.arms.values())

    def measured_part(self) -> dict[str, Any]:
        """Return the part of the study that decides what is measured; it must stay the same in a results folder.

        `more_repeats` is not in it, because it only adds trials after the others, nor is `raised`, which is their order. Of `workers` it
        says whether there are any: another machine may have more devices or fewer.
        """
        left_out: dict[str, Any] = {kind: {"more_repeats"} for kind in self.sections}
        left_out |= dict.fromkeys(("decide", "tracking", "slots", "image", "architectures", "raised"), True)
        measured = self.model_dump(mode="json", exclude=left_out)
        for kind, sweep in self.sections.items():
            if sweep.workers is not None:
                measured[kind]["workers"] = 1
        return measured

    def shareable(self) -> "Study":
        """Return the study for copies that leave this machine: without the tracking address, which may hold a password."""
        return self.model_copy(update={"tracking": Tracking()})
