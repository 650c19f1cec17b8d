"""What a study would run, read, write or contact outside envknee. Pure.

Input: a study. Output: a `Reach` for each field that does more than choose a number or a word. A user who receives a study from
somebody else decides on this list (`envknee.after.archive`).

`FIELDS` classifies every field of a study, one by one. A field without a class makes `reach_of` fail, and a test.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from envknee.study.command import Command
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.value_types import OverrideValue

WORD = re.compile(r"[\w,+-]*", re.ASCII)
"""A text that names nothing outside: `adaptive`, `newton_mjwarp`. Any other text may be code: RSL-RL and Isaac Lab import names
with a dot or a colon; skrl and Stable-Baselines3 evaluate expressions."""

INSTALLED = re.compile(r"package:\w+(/(?!\.\.?/)[\w.-]+)+", re.ASCII)
"""A file inside an installed package."""

FILE = re.compile(r"[/~$\\]|\.(usd[acz]?|urdf|xml|obj|stl|pt|pth|onnx|ya?ml|json|npz?)$", re.ASCII)

OF_A_FILE = re.compile(r"path|file|folder|checkpoint|dir(_|$|ectory)|ur[il](_|$)", re.ASCII)
"""The last word of an override whose value names a file, even if that is a plain word such as `id_rsa`."""

FILE_OF_A_COMMAND = re.compile(r"/|\\|^~|^\.\.?$|^[\w-]*(\.[\w-]+)*\.[A-Za-z]\w{0,9}$")
"""A word of a command that may name a file: `train.py`, `lib/evil.so`, `~`."""


class Reach(NamedTuple):
    """A field through which a study reaches outside."""

    does: Literal["runs", "reads", "writes", "contacts"]
    field: str
    value: str
    is_command: bool = False
    """Whether the value is a command line, as a shell would show it."""

    def __str__(self) -> str:
        """Return a line for a person, without control characters."""
        return f"{self.does} {self.value if self.is_command else repr(self.value)} ({repr(self.field)[1:-1]})"


Place = tuple[str, Any, BaseModel]
"""Where a value stands, the value, and the section that holds it."""


def _nowhere(_: Place) -> Iterator[Reach]:
    yield from ()


def _plain(place: Place) -> Iterator[Reach]:
    """A number, a switch, or one of a list of words."""
    return _nowhere(place)


def _label(place: Place) -> Iterator[Reach]:
    """A text that is only compared with others, or shown."""
    return _nowhere(place)


def _checked(place: Place) -> Iterator[Reach]:
    """A text that the model refuses where it leads outside."""
    return _nowhere(place)


def _in_command_line(place: Place) -> Iterator[Reach]:
    """A part of the command line that `argv` lists whole."""
    return _nowhere(place)


def _task(place: Place) -> Iterator[Reach]:
    field, value, _ = place
    if not WORD.fullmatch(value):
        yield Reach("runs", field, value)


def _asset(place: Place) -> Iterator[Reach]:
    field, value, _ = place
    if value == "nucleus":
        yield Reach("contacts", field, "NVIDIA's asset server")
    elif value != "local":
        yield Reach("contacts" if "://" in value else "reads", field, value)


def _read(place: Place) -> Iterator[Reach]:
    field, value, _ = place
    yield Reach("reads", field, value)


def _image(place: Place) -> Iterator[Reach]:
    field, value, _ = place
    yield Reach("runs", field, value)
    if "://" in value:
        yield Reach("contacts", field, value)


def _store(place: Place) -> Iterator[Reach]:
    field, value, _ = place
    yield Reach("writes" if value.startswith("sqlite") else "contacts", field, value)


def _overrides(place: Place) -> Iterator[Reach]:
    where, overrides, _ = place
    for name, value in overrides.items():
        for text in value if isinstance(value, list) else [value]:
            if does := does_of_override(name, text):
                yield Reach(does, f"{where}.{name}", str(text))


def does_of_override(name: str, value: OverrideValue) -> Literal["runs", "reads", "contacts"] | None:
    """Return what an override may do besides choosing a number or a word; None if nothing."""
    if not isinstance(value, str) or INSTALLED.fullmatch(value):
        return None
    if "://" in value:
        return "contacts"
    names_file = bool(value) and OF_A_FILE.search(name.rpartition(".")[2])
    if names_file or (FILE.search(value) and not WORD.fullmatch(value)):
        return "reads"
    return None if WORD.fullmatch(value) else "runs"


def _command(place: Place) -> Iterator[Reach]:
    """List the whole command as a shell would show it, then each file and each address in it."""
    command = place[2]
    assert isinstance(command, Command), "argv is a command's"
    where = place[0].removesuffix(".argv")
    yield Reach("runs", where, command_line(command), is_command=True)
    listed = [(f"{where}.argv", word) for word in (*command.argv, *command.arguments, *command.batch_arguments)]
    listed += [(f"{where}.env.{name}", value) for name, value in command.env.items()]
    for field, word in listed:
        yield from _of_word(field, word)


def _of_word(field: str, word: str) -> Iterator[Reach]:
    """Yield the file or address that a word of a command names, alone or behind its flag (`--config=x.yaml`)."""
    name, _, value = word.partition("=")
    text = value if value and re.fullmatch(r"[-+\w.]+", name) else word
    if "://" in text:
        yield Reach("contacts", field, text)
    elif FILE_OF_A_COMMAND.search(text):
        yield Reach("reads", field, text)


def command_line(command: Command) -> str:
    """Return a command with its variables and all its arguments, as a shell would show them in one line. Placeholders stay."""
    variables = [f"{name}={value}" for name, value in command.env.items()]
    words = [*command.argv, *command.arguments, *command.batch_arguments]
    if variables:
        words = ["env", *variables, *words]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """Return a word as a shell would quote it. Characters that cannot be seen are escaped in bash's $'...'."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode()
        for character in escaped
    )
    return f"$'{shown}'"


FIELDS: Mapping[str, Callable[[Place], Iterator[Reach]]] = {
    "study": _checked,
    "ask_version": _plain,
    "seed": _plain,
    "window": _plain,
    "slots": _plain,
    "phases": _plain,
    "runtime": _plain,
    "image": _image,
    "architectures": _plain,
    "replay.of": _label,
    "replay.trials": _plain,
    "replay.requests_sha256": _checked,
    "raised.*.section": _plain,
    "raised.*.repeats": _plain,
    "task.id": _task,
    "task.asset": _asset,
    "task.asset_root": _read,
    "task.overrides": _overrides,
    "task.inject.kind": _plain,
    "task.inject.at_step": _plain,
    "task.inject.envs": _plain,
    "arms.*.trainer": _plain,
    "arms.*.command.preset": _checked,  # a name; a path is refused in a study from elsewhere
    "arms.*.command.argv": _command,
    "arms.*.command.arguments": _in_command_line,
    "arms.*.command.batch_arguments": _in_command_line,
    "arms.*.command.env": _in_command_line,
    "arms.*.command.rows.source": _plain,
    "arms.*.command.rows.path": _checked,  # below the command's own folder
    "arms.*.command.rows.patterns": _label,
    "arms.*.command.rows.step": _plain,
    "arms.*.command.rows.step_name": _label,
    "arms.*.command.rows.time_name": _label,
    "arms.*.command.rows.row": _label,
    "arms.*.command.rows.names": _label,
    "arms.*.command.rows.losses": _label,
    "arms.*.command.rows.reward_is": _plain,
    "arms.*.command.ranks": _plain,
    "arms.*.command.oom": _label,
    "arms.*.command.invalid": _label,
    "arms.*.command.first_row_s": _plain,
    "arms.*.command.hang_s": _plain,
    "arms.*.command.learning_iterations": _plain,
    "arms.*.gpus": _plain,
    "arms.*.cpu_ranks": _plain,
    "arms.*.nodes": _plain,
    "arms.*.observations": _plain,
    "arms.*.frontend": _plain,
    "arms.*.deterministic": _plain,
    "arms.*.strategy": _plain,
    "arms.*.sync_every": _plain,
    "arms.*.staggered": _plain,
    "arms.*.memory": _plain,  # numbers and switches, one for each remedy
    "arms.*.scaling.rule": _plain,
    "arms.*.scaling.num_envs": _plain,
    "arms.*.scaling.learning_rate": _plain,
    "arms.*.scaling.epochs": _plain,
    "arms.*.learns_like": _label,
    "arms.*.measures": _plain,
    "arms.*.overrides": _overrides,
    "throughput": _plain,  # numbers, switches and names of samplers
    "learning": _plain,
    "decide.delta": _plain,
    "decide.delta_learning": _plain,
    "decide.confidence": _plain,
    "decide.memory_margin": _plain,
    "decide.baseline": _label,
    "tracking.uri": _store,
}
"""What each field may do. A section stands for its fields if all of them are `_plain`."""

PLAIN, LABELS = _plain, _label


def fields_of(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the key and the type of every field below a section, except of sections that `FIELDS` classifies as a whole."""
    for name, field in model.model_fields.items():
        key = f"{before}{name}"
        inner = _model_in(field.annotation)
        if inner is None or key in FIELDS:
            yield key, field
        else:
            yield from fields_of(inner, f"{key}.*." if _is_many(field.annotation) else f"{key}.")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _is_many(annotation: Any) -> bool:
    return get_origin(annotation) in (dict, list) or any(map(_is_many, get_args(annotation)))


def reach_of(study: Study) -> Iterator[Reach]:
    """Yield everything that a study would run, read, write and contact, in the order of its fields.

    Raises:
        UserError: when a field has no class in `FIELDS`.
    """
    return _of_section(study, "", "")


def _of_section(section: BaseModel, key: str, where: str) -> Iterator[Reach]:
    """Yield the reach of a section. `key` is its place in `FIELDS`, with `*` for a name; `where` has the name."""
    for name in type(section).model_fields:
        value, inner, place = getattr(section, name), f"{key}{name}", f"{where}{name}"
        if value is None:
            continue
        if inner in FIELDS:
            yield from FIELDS[inner]((place, value, section))
        elif isinstance(value, BaseModel):
            yield from _of_section(value, f"{inner}.", f"{place}.")
        elif isinstance(value, Mapping) and all(isinstance(item, BaseModel) for item in value.values()):
            for label, item in value.items():
                yield from _of_section(item, f"{inner}.*.", f"{place}.{label}.")
        elif isinstance(value, list) and all(isinstance(item, BaseModel) for item in value):
            for number, item in enumerate(value):
                yield from _of_section(item, f"{inner}.*.", f"{place}.{number}.")
        else:
            raise UserError(
                f"{place}: nobody has said whether this field may run, read or contact anything, so it is refused."
                " Give it a class in study/reach.py"
            )
