"""Types of the values in a study file, with their error messages."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from envknee.study.paths import RECEIVED

STUDY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")

OVERRIDE_EXPECTED = "expected true, false, a finite number, a text, null, or a list of these"


class Strict(BaseModel):
    """A frozen model without room for unknown keys, silent conversions, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong with values that are legal one by one: the first is told."""
        yield from ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problem := next(self._problems(), None):
            raise ValueError(problem)
        return self


def number(value: Any) -> Any:
    """Read 3e-4 as a number: YAML 1.1 (PyYAML, also inside Snakemake) reads it as a string."""
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def _override(value: Any) -> Any:
    """Check a value here: pydantic's union would report one error for each of its branches."""
    if isinstance(value, list):
        if any(item is None or isinstance(item, list) for item in value):
            raise ValueError(OVERRIDE_EXPECTED)
        return [_override(item) for item in value]
    value = number(value)
    if not isinstance(value, bool | int | float | str | None) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise ValueError(OVERRIDE_EXPECTED)
    return value


OverrideValue = bool | int | float | str | None | list[bool | int | float | str]
Overrides = dict[str, Annotated[OverrideValue, BeforeValidator(_override)]]
"""Hydra-style: `env.scene.tiled_camera.width: 64`. Checked against the real configuration before anything starts."""


FIXED_DESIGNS = ("grid", "random", "sobol")
"""Point samplers that use no results. Their points are known beforehand, so one process can measure several."""

PhaseSwitch = Literal["off", "sampled"]

Observations = Literal["stock", "per_frame", "lean"]

Frontend = Literal["torch", "warp"]

Runtime = Literal["host", "apptainer", "docker"]

Architecture = Literal[75, 80, 86, 87, 89, 90, 100, 103, 120, 121]
"""Compute capabilities that both PyTorch's CUDA build and Warp's compiler support."""

RESERVED = (RECEIVED, "mlartifacts", "slurm-logs")
"""Folders in results/ that belong to no study: unpacked archives, MLflow's files, logs of SLURM's jobs."""


def study_name(name: Any) -> Any:
    """Check the name of a study, which is also its folder's."""
    if not isinstance(name, str) or not STUDY_NAME.fullmatch(name):
        raise ValueError(
            "a study's name becomes a folder: expected 1 to 64 lower-case letters, digits, '-' and '_',"
            " starting with a letter or digit"
        )
    if name in RESERVED:
        raise ValueError(f"results/{name} is a folder of envknee's own: choose another name")
    return name


def _gpus(value: Any) -> Any:
    if value != "auto" and (type(value) is not int or value < 0):
        raise ValueError("expected 'auto', 0 (the CPU) or a number of GPUs")
    return value


def phase_switch(value: Any) -> Any:
    """Read `phases: off`, which YAML 1.1 reads as false."""
    return "off" if value is False else value


LARGEST = 10**12
"""Most environments, steps or transitions. Far larger numbers overflow floats."""


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
    if max(value) > LARGEST:
        raise ValueError(f"expected whole numbers of at most {LARGEST:,}")
    if len(set(value)) != len(value):
        raise ValueError("the same value stands there twice")
    return tuple(sorted(value))


def _batch_sizes(value: Any) -> Any:
    if isinstance(value, str) and value != "library":
        raise ValueError("expected 'library', a list of whole numbers, or {from: A, to: B}")
    return value if value == "library" else _sizes(value)


Size = Annotated[int, Field(ge=1, le=LARGEST)]


class Doublings(Strict):
    """Doublings from one size to another: `{from: 16, to: 64}` is `[16, 32, 64]`."""

    first: Size = Field(alias="from")
    last: Size = Field(alias="to")


Written = Annotated[list[Size], Field(min_length=1, json_schema_extra={"uniqueItems": True})] | Size | Doublings
"""What `_sizes` takes, in the JSON schema for editors that complete study files."""

ASK_VERSION = 3
"""Version of the rules by which new studies ask for trials (`envknee.ask.versions`)."""


def _known_ask_version(version: int) -> int:
    if version > ASK_VERSION:
        raise ValueError(
            f"ask_version {version} comes from a later envknee; this one knows 1 to {ASK_VERSION}. Use an envknee that knows it"
        )
    return version


AskVersion = Annotated[int, Field(ge=1), AfterValidator(_known_ask_version)]

Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Sizes = Annotated[tuple[int, ...], BeforeValidator(_sizes, json_schema_input_type=Written)]
BatchSizes = Annotated[
    Literal["library"] | tuple[int, ...],
    BeforeValidator(_batch_sizes, json_schema_input_type=Literal["library"] | Written),
]
Number = Annotated[float, BeforeValidator(number)]
PositiveNumber = Annotated[float, Field(gt=0), BeforeValidator(number)]
Seconds = PositiveNumber
Share = Annotated[float, Field(gt=0, lt=1), BeforeValidator(number)]
Confidence = Annotated[float, Field(ge=0.5, lt=1), BeforeValidator(number)]
Gpus = Annotated[Literal["auto"] | int, BeforeValidator(_gpus, json_schema_input_type=Literal["auto"] | NotNegative)]
