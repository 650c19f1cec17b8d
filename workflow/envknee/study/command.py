"""A foreign command: the program of an arm with `trainer: command`, and how its log is read. Pure, except that presets are files."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from envknee.base.fields import newer
from envknee.study import presets
from envknee.study.errors import nearest
from envknee.study.value_types import Positive, Seconds, Strict

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")
"""`{num_envs}`. Doubled braces stand for single ones; any other brace is kept, as in JSON."""

PLACEHOLDERS = {
    "num_envs": "environments on each GPU",
    "num_envs_total": "environments on all GPUs together",
    "horizon": "environment steps per rollout",
    "rollout": "transitions of one rollout on each GPU: num_envs x horizon",
    "batch_size": "transitions in one optimizer step, all GPUs together",
    "batch_envs": "batch_size / horizon",
    "num_mini_batches": "optimizer steps per epoch",
    "iterations": "rollouts to run",
    "evaluations": "iterations + 1",
    "frames": "transitions to run: iterations x rollout x gpus",
    "seed": "the trial's seed",
    "gpus": "GPUs that the command may use, 0 on a CPU",
    "ranks": "processes that each collect num_envs environments (`ranks`)",
    "device": "'cuda:0', or 'cpu'",
    "gpu_ids": "'all', or 'None' on a CPU (mjlab's words)",
    "run_dir": "the folder that the command runs in",
    "learning_rate": "what the arm's scaling rule makes of scaling.learning_rate",
    "epochs": "passes over a rollout, by the arm's scaling rule",
}
"""Placeholders in arguments and environment variables, and their values."""

OF_A_BATCH = frozenset({"batch_size", "batch_envs", "num_mini_batches"})
"""Placeholders without a value under `batch_size: library`."""

OF_A_RULE = frozenset({"learning_rate", "epochs"})
"""Placeholders whose values only a scaling rule that states them gives."""

Told = Literal[
    "fps", "fps_env_step", "fps_env_step_inference", "env_step_s", "collect_s", "learn_s",
    "reward", "episode_length", "learning_rate", "action_std",
]  # fmt: skip
"""Quantities that a program may log in each iteration. Seconds are per iteration."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error
    return text


def placeholders(texts: Iterable[str]) -> set[str]:
    """Return the names in braces in `texts`."""
    return {match[1] for text in texts for match in PLACEHOLDER.finditer(text) if match[1]}


HERE, ELSEWHERE = "here", "elsewhere"
"""Validation contexts: a study file of the user's own, whose presets may be files; a study that others may have made, for which no file is
read. Requests and records have no context, and no preset's file either."""

Pattern = Annotated[str, AfterValidator(_pattern)]
Names = Annotated[
    list[str], BeforeValidator(lambda words: [words] if isinstance(words, str) else words), Field(min_length=1)
]


class Rows(Strict):
    """Source of the rows of a foreign command."""

    source: Literal["tensorboard", "jsonl", "csv", "regex"]
    """TensorBoard's events, a file of JSON lines, a CSV file, or the command's output."""
    path: str = Field(default="**/events.out.tfevents.*", min_length=1)
    """The file, or a pattern of files, below the command's working folder."""
    patterns: list[Pattern] = []
    """With source: regex, expressions with named groups (step, time, fps, reward, ...). The first one begins a row."""
    step: Literal["iterations", "frames", "env_steps"]
    """Unit of the log's steps: rollouts, transitions of all environments, or steps of each environment."""
    step_name: str = "step"
    """With jsonl and csv, the field that holds the step."""
    time_name: str | None = None
    """With jsonl and csv, the field with the time in seconds; without it, the time at which the line appears."""
    row: Names | None = None
    """With tensorboard, the tag that appears once per row; without it, the first of `names` in the log."""
    names: dict[Told, Names] = {}
    """The log's names for fps, collect_s, learn_s, reward, ...; of several names, the first in the log counts."""
    losses: dict[str, str] = {}
    """Losses to watch for NaN and divergence: a short name, and the log's name."""
    reward_is: Literal["average", "episode"] = "average"
    """Whether the reward is the program's running average, or the return of a single episode."""

    def _problems(self) -> Iterator[str]:
        if (self.source == "regex") != bool(self.patterns):
            yield "patterns are for source: regex, which needs at least one"
        groups = {group for pattern in self.patterns for group in re.compile(pattern).groupindex}
        legal = {"step", "time", *get_args(Told), *self.losses}
        for group in sorted(groups - legal):
            yield f"the group {group!r} of a pattern has no meaning{nearest(group, legal)}. Legal: {', '.join(sorted(legal))}"
        if self.source == "regex" and not re.compile(self.patterns[0]).groupindex.keys() & legal:
            yield "the first pattern needs a named group, such as (?P<step>[0-9]+)"
        if self.source == "tensorboard" and not (self.row or self.names):
            yield "source: tensorboard needs `names` or `row`: tags of which one comes with each row"
        yield from _problems_with_path(self.path)
        if self.source in ("jsonl", "csv") and self.path == Rows.model_fields["path"].default:
            yield f"source: {self.source} needs `path`, the file below the folder that the command runs in"

    def tells(self, what: Told) -> bool:
        """Tell whether the log holds a quantity, according to this section."""
        return what in self.names or any(what in re.compile(pattern).groupindex for pattern in self.patterns)


def _problems_with_path(path: str) -> Iterator[str]:
    """Yield why the rows' files would not be this trial's own: another folder may hold rows of an earlier run."""
    parts = path.split("/")
    if path.startswith(("/", "~")) or ".." in parts:
        yield (
            f"rows.path {path!r} leaves the folder that the command runs in, where rows of another run may lie. Expected a file below it,"
            " such as log.jsonl or logs/**/log.jsonl. Let the program write there ({run_dir} in argv is that folder)"
        )
    if "\0" in path or any("**" in part and part != "**" for part in parts):
        yield f"rows.path {path!r} is no pattern of files. Expected one such as log.jsonl or logs/**/log.jsonl"


class Command(Strict):
    """A program of somebody else's, measured unchanged."""

    preset: str | None = None
    """A preset (`envknee presets`), which supplies the keys that are not set here."""
    argv: Annotated[list[str], Field(min_length=1)]
    """The program and its arguments, without a shell. {num_envs} and the like are filled in."""
    arguments: list[str] = []
    """Arguments after argv, usually from the preset."""
    batch_arguments: list[str] = []
    """More arguments, omitted with batch_size: library."""
    env: dict[str, str] = {}
    """Environment variables; they may hold placeholders."""
    ranks: Positive | None = newer(None)
    """Processes that train together, each with num_envs environments of its own; without it, one for each GPU. 1: one process uses all
    GPUs. With gpus: 0, ranks on the CPU."""
    rows: Rows
    oom: list[Pattern] = []
    """Further texts in the output that mean out of memory."""
    invalid: dict[Pattern, str] = {}
    """Texts in the output that mean a fast but wrong simulation, each with its meaning."""
    first_row_s: Seconds = 900.0
    """The trial is ended if it has no row after this many seconds."""
    hang_s: Seconds = 60.0
    """The command counts as hanging, and is ended, without a row for this long and for ten median intervals."""
    learning_iterations: Positive = 100_000
    """{iterations} of a learning trial, so many that its target or budget ends it first."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, value: Any, info: ValidationInfo) -> Any:
        """Fill in the preset's values. Results hold the whole command, so a later change of the preset changes nothing.

        The path of a preset's copy is dropped: on another machine that file is missing or different.
        """
        name = value.get("preset") if isinstance(value, dict) else None
        if not isinstance(name, str):
            return value
        if presets.is_file(name):
            if info.context != HERE:
                raise ValueError(
                    f"preset {name!r} is the path of a file, and results and archives hold the preset's values instead. Expected one of"
                    f" envknee's presets ({', '.join(presets.names())}), or none"
                )
            value = value | {"preset": None}
        filled = presets.read(name).command
        if "rows" in value and "rows" in filled and isinstance(value["rows"], dict):
            return filled | value | {"rows": filled["rows"] | value["rows"]}
        return filled | value

    def _problems(self) -> Iterator[str]:
        if any("\0" in text for text in (*self.texts, *self.env)):
            yield "a NUL character stands in argv, arguments or env, and no program can be given one. Take it out"
        for name in self.env:
            if not name or "=" in name:
                yield f"env: {name!r} is no name of a variable. Expected one such as OMP_NUM_THREADS"
        for name in sorted(placeholders(self.texts) - PLACEHOLDERS.keys()):
            yield (
                f"{{{name}}} is no placeholder{nearest(name, PLACEHOLDERS)}. Legal: {', '.join(PLACEHOLDERS)}. Write {{{{{name}}}}} for"
                " the braces themselves"
            )

    @property
    def texts(self) -> list[str]:
        """Everything in which placeholders are filled."""
        return [*self.argv, *self.arguments, *self.batch_arguments, *self.env.values()]

    @property
    def of_a_rule(self) -> set[str]:
        """Placeholders of this command with a value under a scaling rule alone."""
        return set(placeholders(self.texts) & OF_A_RULE)

    @property
    def needs_batch_size(self) -> list[str]:
        """Placeholders of this command without a value under `batch_size: library`."""
        return sorted(placeholders([*self.argv, *self.arguments, *self.env.values()]) & OF_A_BATCH)
