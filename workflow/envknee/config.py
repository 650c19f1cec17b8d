"""A study file, parsed once into frozen models; errors name the key, the value and what is legal.

Input: a YAML file such as `config/config.yaml`. Output: a `Study`.

    python -m envknee.config FILE            check a study file and print its name
    python -m envknee.config --schema        print the JSON schema (kept in workflow/schemas/study.schema.json)
"""

import argparse
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator

from envknee.errors import UserError, nearest, run_command

STUDY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")

OVERRIDE_EXPECTED = "expected true, false, a finite number, a text, null, or a list of these"


def _number(value: Any) -> Any:
    """Read 3e-4 as the number that its writer meant: YAML 1.1 (PyYAML, also inside Snakemake) takes it for a string."""
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def _override(value: Any) -> Any:
    """Check here what the union would report once per branch."""
    if isinstance(value, list):
        if any(item is None or isinstance(item, list) for item in value):
            raise ValueError(OVERRIDE_EXPECTED)
        return [_override(item) for item in value]
    value = _number(value)
    if not isinstance(value, bool | int | float | str | None) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise ValueError(OVERRIDE_EXPECTED)
    return value


OverrideValue = bool | int | float | str | None | list[bool | int | float | str]
Overrides = dict[str, Annotated[OverrideValue, BeforeValidator(_override)]]
"""Hydra-style: `env.scene.tiled_camera.width: 64`. Checked against the real configuration before anything starts."""

Kind = Literal["throughput", "learning"]

PhaseSwitch = Literal["off", "sampled", "alternate"]

Observations = Literal["stock", "per_frame", "lean"]

Strategy = Literal["in_turns", "async2", "ray"]

Runtime = Literal["host", "apptainer", "docker"]

Architecture = Literal[75, 80, 86, 87, 89, 90, 100, 103, 120, 121]
"""What both PyTorch's CUDA build and Warp's compiler know."""


class Strict(BaseModel):
    """A frozen model without room for unknown keys, silent conversions, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _study_name(name: Any) -> Any:
    if not isinstance(name, str) or not STUDY_NAME.fullmatch(name):
        raise ValueError(
            "a study's name becomes a folder: expected 1 to 64 lower-case letters, digits, '-' and '_',"
            " starting with a letter or digit"
        )
    return name


def _gpus(value: Any) -> Any:
    if value != "auto" and (type(value) is not int or value < 0):
        raise ValueError("expected 'auto', 0 (the CPU) or a number of GPUs")
    return value


def _phases(value: Any) -> Any:
    return "off" if value is False else value  # YAML 1.1 reads off as false


def _sizes(value: Any) -> Any:
    """Expand `{from: 16, to: 256}` to 16, 32, ..., 256; sort a list; take one number as a list of one."""
    if type(value) is int:
        value = [value]
    if isinstance(value, dict) and set(value) == {"from", "to"}:
        first, last = value["from"], value["to"]
        if type(first) is not int or type(last) is not int or not 1 <= first <= last:
            raise ValueError("expected whole numbers with 1 <= from <= to")
        value = [first * 2**doublings for doublings in range((last // first).bit_length())]
    if not isinstance(value, list | tuple) or not value or any(type(size) is not int for size in value):
        raise ValueError("expected a list of whole numbers, or {from: A, to: B} for A, 2A, 4A, ... up to B")
    if min(value) < 1:
        raise ValueError(f"expected whole numbers of at least 1, found {min(value)}")
    if len(set(value)) != len(value):
        raise ValueError("the same value stands there twice")
    return tuple(sorted(value))


def _batch_sizes(value: Any) -> Any:
    if isinstance(value, str) and value != "library":
        raise ValueError("expected 'library', a list of whole numbers, or {from: A, to: B}")
    return value if value == "library" else _sizes(value)


SIZE_SCHEMA = {"type": "integer", "minimum": 1}
SIZES_SCHEMA = {
    "anyOf": [
        {"type": "array", "items": SIZE_SCHEMA, "minItems": 1, "uniqueItems": True},
        SIZE_SCHEMA,
        {
            "type": "object",
            "properties": {"from": SIZE_SCHEMA, "to": SIZE_SCHEMA},
            "required": ["from", "to"],
            "additionalProperties": False,
        },
    ]
}
"""What `_sizes` takes, for editors that complete study files."""
BATCH_SIZES_SCHEMA = {"anyOf": [{"const": "library"}, *SIZES_SCHEMA["anyOf"]]}

Positive = Annotated[int, Field(ge=1)]
Sizes = Annotated[tuple[int, ...], BeforeValidator(_sizes), WithJsonSchema(SIZES_SCHEMA)]
BatchSizes = Annotated[
    Literal["library"] | tuple[int, ...], BeforeValidator(_batch_sizes), WithJsonSchema(BATCH_SIZES_SCHEMA)
]
Number = Annotated[float, BeforeValidator(_number)]
Seconds = Annotated[float, Field(gt=0), BeforeValidator(_number)]


GPUS_SCHEMA = {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 0}]}
Gpus = Annotated[Literal["auto"] | int, BeforeValidator(_gpus), WithJsonSchema(GPUS_SCHEMA)]


class Inject(Strict):
    """A drill of what a study says when its simulation breaks. Nothing that comes of it is a result."""

    kind: Literal["huge_actions", "invalid_reset"] = Field(
        description="'huge_actions': actions far beyond what a robot can do, past the limits of its joints; 'invalid_reset': an"
        " episode that ends and begins anew with joints that are nowhere (NaN).",
    )
    at_step: Annotated[int, Field(ge=0)] = Field(default=0, description="Environment step of the training, from 0 on.")
    envs: Positive = Field(default=1, description="In how many environments: 0, 1, ...")

    @property
    def warning(self) -> str:
        """What stands before everything that such a trial or study shows."""
        what = f"{self.kind} at step {self.at_step} in {self.envs} environment{'s' if self.envs > 1 else ''}"
        return f"DRILL, NO RESULT ({what}, on purpose)"


class Task(Strict):
    """What is simulated."""

    id: str = Field(
        default="Isaac-Cartpole-Camera-Direct",
        description="A registered Isaac Lab task, with cameras or without, that Newton simulates (and renders).",
    )
    asset: str = Field(
        default="local",
        description="'local': files of this machine alone, the cart-pole and the ground that ship with envknee and those that"
        " overrides name (env.scene.robot.spawn.usd_path); a path: another USD file of the cart-pole; 'nucleus': what"
        " the task itself names, from NVIDIA's server.",
    )
    overrides: Overrides = Field(
        default={}, description="Fields of the environment (env.*) or agent (agent.*) to set, and `presets`."
    )
    inject: Inject | None = Field(
        default=None,
        description="Break the simulation on purpose, to see the diagnosis. Nothing that comes of it is a result.",
        exclude_if=lambda value: value is None,
    )


SHORT_TASKS = {"cartpole_dual_camera": "Envknee-Cartpole-Dual-Camera-Direct"}
"""What envknee's own tasks are called for short."""


def _task(value: Any) -> Any:
    """Take `task: NAME` for `task: {id: NAME}`, and a short name for the registered one."""
    plain = {"id": value} if isinstance(value, str) else value
    if isinstance(plain, dict) and isinstance(plain.get("id"), str):
        plain = plain | {"id": SHORT_TASKS.get(plain["id"], plain["id"])}
    return plain


class Memory(Strict):
    """How an arm deals with memory."""

    expandable_segments: bool = Field(
        default=False,
        description="PyTorch's allocator grows segments instead of adding some (PYTORCH_CUDA_ALLOC_CONF).",
    )
    mixed_precision: bool = Field(default=False, description="Learn in bfloat16 (RSL-RL's use_mixed_precision).")
    on_oom: Literal["record", "retry_accumulate"] = Field(
        default="record",
        description="Out of memory while learning: 'record' ends the trial; 'retry_accumulate' halves the micro-batch and"
        " adds up gradients, for the same optimizer step.",
    )
    memory_cap_gb: Annotated[float, Field(gt=0), BeforeValidator(_number)] | None = Field(
        default=None, description="Let the device be as small as this: what needs more is out of memory."
    )
    clear_cache_every: Positive | None = Field(
        default=None,
        description="After every so many iterations give back to the GPU what PyTorch keeps for later (torch.cuda.empty_cache).",
        exclude_if=lambda value: value is None,
    )


class Arm(Strict):
    """One thing under test. Thresholds belong to an arm; two arms are what a reader compares."""

    trainer: Literal["rsl_rl", "rl_games", "skrl", "sb3", "torchrl"] = Field(
        default="rsl_rl", description="Which library learns."
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
    deterministic: bool = Field(
        default=False,
        description="The same request gives the same training, bit for bit: slower, and on a CPU with one thread.",
        exclude_if=lambda value: not value,
    )
    strategy: Strategy = Field(
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
    def _pipeline_is_whole(self) -> "Arm":
        if self.strategy == "in_turns":
            if self.sync_every != 1:
                raise ValueError(
                    f"sync_every {self.sync_every} is for strategy: async2; in turns each update acts at once"
                )
            return self
        if self.trainer != "torchrl":
            raise ValueError(f"strategy {self.strategy} is for trainer: torchrl, and the trainer is {self.trainer}")
        if self.strategy == "ray":
            if self.nodes > 1:
                raise ValueError(
                    f"nodes {self.nodes} is for ranks; with strategy ray the cluster that RAY_ADDRESS names has the machines,"
                    " and gpus (or cpu_ranks) counts collectors on all of them"
                )
            if self.sync_every != 1:
                raise ValueError(
                    f"sync_every {self.sync_every} is for strategy: async2; with ray each update acts at once"
                )
            return self
        if self.gpus not in ("auto", 0, 1, 2) or self.cpu_ranks > 1 or self.nodes > 1:
            raise ValueError(
                f"strategy {self.strategy} has one side that simulates and one that learns: gpus: auto, 2, 1 or 0 of one"
                f" machine, and no ranks (got gpus {self.gpus}, cpu_ranks {self.cpu_ranks}, nodes {self.nodes})"
            )
        return self

    @property
    def world_size(self) -> int:
        """Ranks that train together, each with num_envs environments of its own."""
        return world_size(self.gpus, self.cpu_ranks, self.nodes, self.strategy)


def world_size(gpus: Literal["auto"] | int, cpu_ranks: int, nodes: int = 1, strategy: Strategy = "in_turns") -> int:
    """Return how many ranks train together: on each node one per GPU, or as many as its CPU is to have.

    A pipeline is one rank, whose environments all lie on its first GPU. With strategy: ray these are collectors, which share one
    learner.
    """
    if strategy == "async2":
        return 1
    return nodes * (cpu_ranks if gpus == 0 else 1 if gpus == "auto" else gpus)


class Adaptive(Strict):
    """When `sampler: adaptive` has seen enough.

    Its own delta and confidence: those of `decide` may be changed after the measurement, and requests may not.
    """

    delta: Annotated[float, Field(gt=0, lt=1), BeforeValidator(_number)] = Field(
        default=0.10, description="Stop where two successive doublings are shown to gain less than this."
    )
    confidence: Annotated[float, Field(ge=0.5, lt=1), BeforeValidator(_number)] = Field(
        default=0.95, description="Of what is shown."
    )
    within: Annotated[float, Field(ge=1), BeforeValidator(_number)] = Field(
        default=2.0, description="Learning: stop as well where the threshold's interval spans at most this factor."
    )
    probes: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="When all is decided, at most this many trials of each horizon and batch size between the largest num_envs"
        " that fitted the memory and the smallest that did not.",
    )
    trials: Positive | None = Field(
        default=None, description="At most this many trials; without it, half of all points with all their repeats."
    )


class Sweep(Strict):
    """The points of one kind of trial, and how they are picked."""

    num_envs: Sizes = Field(description="Environments simulated side by side, on each GPU.")
    horizon: Sizes = Field(description="Environment steps per rollout (num_steps_per_env in RSL-RL).")
    batch_size: BatchSizes = Field(
        description="Transitions in one optimizer step, all GPUs together; 'library' keeps the task's own number of mini-batches, "
        "so that the batch grows with num_envs.",
    )
    sampler: Literal["tpe", "gp", "sobol", "grid", "random", "adaptive"] = Field(
        default="grid",
        description="Who picks the points: Optuna's tpe or gp after a Sobol start, a fixed design, or 'adaptive': only those"
        " doublings that decide the verdict, until it is decided.",
    )
    adaptive: Adaptive = Field(
        default=Adaptive(),
        description="With sampler: adaptive, when to stop.",
        exclude_if=lambda value: value == Adaptive(),
    )
    points: Positive | None = Field(default=None, description="How many different points; without it every legal one.")
    repeats: Positive = Field(description="How often each point runs, each time in a fresh process with its own seed.")
    warmup_iterations: Annotated[int, Field(ge=0)] = Field(
        default=1, description="First iterations left out of the FPS figures."
    )
    limit_s: Seconds = Field(
        description="A trial still running after this many seconds is stopped and recorded as 'timeout'."
    )

    @model_validator(mode="after")
    def _adaptive_finds_its_points(self) -> "Sweep":
        if self.sampler != "adaptive" and self.adaptive != Adaptive():
            raise ValueError(f"'adaptive' is for sampler: adaptive, and the sampler is {self.sampler}")
        if self.sampler == "adaptive" and self.points is not None:
            raise ValueError(
                f"points {self.points}: sampler adaptive finds its points itself; adaptive.trials limits how many trials it takes"
            )
        if self.sampler == "adaptive" and self.repeats < 2:
            raise ValueError(f"repeats {self.repeats}: sampler adaptive needs at least 2 of a point to decide anything")
        return self


class Throughput(Sweep):
    """Throughput trials: a few warm-up iterations, then a few timed ones. They answer FPS and memory."""

    repeats: Positive = 3
    iterations: Positive = Field(default=5, description="Timed iterations after the warm-up.")
    limit_s: Seconds = 600.0


class Learning(Sweep):
    """Learning trials: train until the target reward or a budget. They answer seconds and frames to target."""

    repeats: Positive = 2
    target_reward: Number = Field(description="Mean episode reward at which the trial is done.")
    target_episodes: Positive = Field(
        default=40, description="The reward is averaged over at least this many finished episodes."
    )
    budget_s: Seconds = Field(description="Seconds of training after which the trial ends as 'timeout' (censored).")
    limit_s: Seconds = 3600.0

    @model_validator(mode="after")
    def _limit_leaves_room(self) -> "Learning":
        if self.limit_s <= self.budget_s:
            raise ValueError(
                f"limit_s {self.limit_s:g} would stop every trial before its budget_s {self.budget_s:g} is spent:"
                " leave a minute or more for the start"
            )
        return self


class Decide(Strict):
    """How records become a verdict. May be changed at any time: nothing is measured again."""

    delta: Annotated[float, Field(gt=0, lt=1), BeforeValidator(_number)] = Field(
        default=0.10, description="A doubling that gains less than this has stopped paying."
    )
    confidence: Annotated[float, Field(ge=0.5, lt=1), BeforeValidator(_number)] = Field(
        default=0.95, description="Of every interval and of each one-sided bound."
    )
    memory_margin: Annotated[float, Field(ge=0, lt=1), BeforeValidator(_number)] = Field(
        default=0.05, description="Share of the memory to keep free."
    )
    baseline: str | None = Field(
        default=None,
        description="An arm: each other one is judged by what it buys beside this, in environments that fit and in FPS.",
        exclude_if=lambda value: value is None,
    )


class Tracking(Strict):
    """Where runs are logged. May be changed at any time."""

    uri: str | None = Field(
        default=None,
        description="An MLflow tracking URI; without it MLFLOW_TRACKING_URI, else sqlite:///results/mlflow.db.",
    )

    @property
    def may_hold_password(self) -> bool:
        """Whether the URI has a part for user and password, or options."""
        return self.uri is not None and ("@" in self.uri or "?" in self.uri)

    @property
    def digest(self) -> str | None:
        """Changes when the URI does, and tells nothing of a password in it."""
        return None if self.uri is None else hashlib.sha256(self.uri.encode()).hexdigest()


class Replay(Strict):
    """Which recorded requests a study runs again, in place of asking for its own. Written by `envknee.replay`."""

    of: str = Field(description="The study that they were recorded in.")
    trials: Positive = Field(description="How many there are: trials 0, 1, ... of that study.")
    requests_sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Of replayed.jsonl in the results' folder.")


class Study(Strict):
    """One study: everything it produces is under results/<study>/."""

    study: Annotated[str, BeforeValidator(_study_name)] = Field(
        description="Name of the study and of its folder.", json_schema_extra={"pattern": f"^{STUDY_NAME.pattern}$"}
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=1, description="Every other seed is derived from this one.")
    window: Positive = Field(default=2, description="Request n is asked knowing the records up to n - window.")
    slots: Positive = Field(
        default=1, description="Trials that run side by side (locally: at most one per GPU, one on a CPU)."
    )
    phases: Annotated[PhaseSwitch, BeforeValidator(_phases)] = Field(
        default="sampled",
        description="Resolve one environment step in four into physics, render and observation; 'off': none; 'alternate':"
        " in every other iteration, to see what resolving costs.",
    )
    # What is new since the first results is left out of study.json where it has its default: those stay as they are.
    runtime: Runtime = Field(
        default="host",
        description="Where trials run: 'host' in this Python, 'apptainer' or 'docker' (or Podman) in an image.",
        exclude_if=lambda value: value == "host",
    )
    image: str | None = Field(
        default=None,
        min_length=1,
        description="With runtime: apptainer a file, an image that is already built; without it containers/isaaclab.sif"
        " is built. With runtime: docker the name of an image that docker or podman has.",
        exclude_if=lambda value: value is None,
    )
    architectures: list[Architecture] | None = Field(
        default=None,
        description="GPUs that the image gets kernels for when it is built, such as 90 for sm_90 (H100); without it 80, 86,"
        " 89, 90, 100 and 120, and none for an image without CUDA. Others compile them in each trial.",
        exclude_if=lambda value: value is None,
    )
    replay: Replay | None = Field(
        default=None,
        description="Run the requests of another study again. `make replay STUDY=results/x` writes this.",
        exclude_if=lambda value: value is None,
    )
    task: Annotated[Task, BeforeValidator(_task, json_schema_input_type=str | Task)] = Task()
    arms: dict[str, Arm] = Field(default={"stock": Arm()}, min_length=1)
    throughput: Throughput | None = None
    learning: Learning | None = None
    decide: Decide = Decide()
    tracking: Tracking = Tracking()

    @model_validator(mode="after")
    def _something_to_do(self) -> "Study":
        if self.throughput is None and self.learning is None:
            raise ValueError("a study needs a 'throughput' or a 'learning' section, or both")
        if self.image is not None and self.runtime == "host":
            raise ValueError(f"image {self.image!r} is for runtime: apptainer or docker, and the runtime is host")
        if self.architectures is not None and (self.runtime != "apptainer" or self.image is not None):
            raise ValueError("architectures are for the image that is built with runtime: apptainer and no `image:`")
        if self.decide.baseline is not None and self.decide.baseline not in self.arms:
            raise ValueError(
                f"decide.baseline {self.decide.baseline!r} is no arm of this study{nearest(self.decide.baseline, self.arms)}."
                f" Arms: {', '.join(self.arms)}"
            )
        for name, arm in self.arms.items():
            if not STUDY_NAME.fullmatch(name):
                raise ValueError(
                    f"arm {name!r}: expected 1 to 64 lower-case letters, digits, '-' and '_', starting with a letter or digit"
                )
            if arm.strategy == "ray" and self.runtime != "host":
                raise ValueError(
                    f"arm {name!r}: strategy ray is for runtime: host; images have no Ray (got {self.runtime})"
                )
            if arm.nodes > 1 and self.runtime == "docker":
                raise ValueError(
                    f"arm {name!r}: nodes {arm.nodes} is for runtime: host or apptainer; a container of Docker's has no network"
                )
        return self

    def sweep(self, kind: Kind) -> Sweep | None:
        """Return the section of one kind of trial, or None when the study has none."""
        return self.throughput if kind == "throughput" else self.learning

    @property
    def world_sizes(self) -> frozenset[int]:
        """Ranks per trial, over all arms: a point must be legal for each."""
        return frozenset(arm.world_size for arm in self.arms.values())

    def measured_part(self) -> dict[str, Any]:
        """Return the part of the study that decides what is measured: a results folder belongs to exactly one."""
        return self.model_dump(mode="json", exclude={"decide", "tracking", "slots", "image", "architectures"})

    def shareable(self) -> "Study":
        """Return the study without its tracking store, whose address may hold a password: for copies that leave this machine."""
        return self.model_copy(update={"tracking": Tracking()})


def parse(data: Any, source: str = "the study") -> Study:
    """Return the study described by plain data.

    Raises:
        UserError: names each wrong key with its value, what was expected, and the nearest legal key.
    """
    if not isinstance(data, dict):
        raise UserError(f"{source}: expected keys and values (study: ..., throughput: ...), got {type(data).__name__}")
    try:
        return Study.model_validate(data)
    except ValidationError as error:
        problems = "\n".join(f"  {_explain(problem)}" for problem in error.errors())
        raise UserError(
            f"{source} is not a legal study:\n{problems}\nEvery key is explained in config/config.yaml."
        ) from error


class OneOfEach(yaml.SafeLoader):
    """YAML in which no key may stand twice: PyYAML would take the last one silently."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Read one mapping, before aliases are merged into it."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value} stands there twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return node


def load(path: Path) -> Study:
    """Read a study file: YAML, or the JSON of a results folder.

    Raises:
        UserError: when the file is missing, is not YAML (with line and column), or is not a legal study.
    """
    form = "JSON" if path.suffix == ".json" else "YAML"
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if form == "JSON" else yaml.load(text, OneOfEach)  # noqa: S506  # a SafeLoader
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist. Name a study file, for example CONFIG=config/config.yaml") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(
            f"{path} is not {form}: {error}\nMend it there: config/config.yaml shows how a study looks."
        ) from error
    return parse(data, str(path))


def json_schema() -> str:
    """Return the JSON schema of a study file, as kept in workflow/schemas/."""
    return json.dumps(Study.model_json_schema(), indent=2, ensure_ascii=False) + "\n"


def _explain(problem: Any) -> str:
    """Turn one of pydantic's errors into a line: the key, what is wrong, what is legal."""
    location = [str(part) for part in problem["loc"]]
    key = ".".join(location)
    if problem["type"] == "extra_forbidden":
        legal = _legal_keys(location[:-1])
        return f"{key}: unknown key{nearest(location[-1], legal)}. Legal here: {', '.join(sorted(legal))}"
    if problem["type"] == "missing":
        return f"{key}: this key is needed, and is not there"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if problem["type"] == "model_type":
        message = f"expected keys with values: {', '.join(_legal_keys(location))}"
    elif problem["type"] == "too_short":
        message = "expected at least one"
    # What a whole section does wrong names its values itself.
    is_section = location in (["throughput"], ["learning"]) or (len(location) == 2 and location[0] == "arms")
    of_a_section = problem["type"] == "value_error" and isinstance(problem["input"], dict) and is_section
    value = f" (got {problem['input']!r})" if location and not of_a_section else ""
    return f"{key or 'study'}: {message}{value}"


def _legal_keys(location: list[str]) -> list[str]:
    """Return the keys that are legal at a place in the study."""
    model: type[BaseModel] = Study
    sections: dict[str, type[BaseModel]] = {
        "task": Task, "throughput": Throughput, "learning": Learning, "decide": Decide, "tracking": Tracking,
        "replay": Replay,
    }  # fmt: skip
    parts: dict[str, type[BaseModel]] = {"inject": Inject, "memory": Memory, "adaptive": Adaptive}
    if location:
        # An arm may be called like a part: its own parts stand one place further on.
        within = location[2:] if location[0] == "arms" else location[1:]
        model = parts[within[0]] if within else sections.get(location[0], Arm)
    return list(model.model_fields)


def main() -> None:
    """Check a study file, or print the schema."""
    parser = argparse.ArgumentParser(description="Check a study file before anything starts.")
    parser.add_argument("file", nargs="?", type=Path, help="a study file, such as config/config.yaml")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of a study file and stop")
    arguments = parser.parse_args()
    if arguments.schema:
        print(json_schema(), end="")
    elif arguments.file:
        print(load(arguments.file).study)
    else:
        parser.error("name a study file, or --schema")


if __name__ == "__main__":
    run_command(main)
