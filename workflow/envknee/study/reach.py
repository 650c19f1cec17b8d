"""What a study would run, read or contact outside envknee. Pure.

Input: a study. Output: a `Reach` for each field that does more than choose a number or a word. A user who receives a study from
somebody else decides on this list (`envknee.after.archive`).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from envknee.study.model import Study
from envknee.study.rules import OverrideValue

WORD = re.compile(r"[\w,+-]*", re.ASCII)
"""A text that names nothing outside: `adaptive`, `newton_mjwarp`. Any other text may be code: RSL-RL and Isaac Lab import names
with a dot or a colon; skrl and Stable-Baselines3 evaluate expressions."""

INSTALLED = re.compile(r"package:\w+(/(?!\.\.?/)[\w.-]+)+", re.ASCII)
"""A file inside an installed package."""

FILE = re.compile(r"[/~$\\]|\.(usd[acz]?|urdf|xml|obj|stl|pt|pth|onnx|ya?ml|json|npz?)$", re.ASCII)


class Reach(NamedTuple):
    """A field through which a study reaches outside."""

    does: Literal["runs", "reads", "contacts"]
    field: str
    value: str

    def __str__(self) -> str:
        """Return a line for a person, without control characters."""
        return f"{self.does} {self.value!r} ({repr(self.field)[1:-1]})"


def reach_of(study: Study) -> Iterator[Reach]:
    """Yield everything that a study would run, read and contact, in the order of its fields."""
    task = study.task
    if not WORD.fullmatch(task.id):
        yield Reach("runs", "task.id", task.id)
    if task.asset == "nucleus":
        yield Reach("contacts", "task.asset", "NVIDIA's asset server")
    elif task.asset != "local":
        yield Reach("contacts" if "://" in task.asset else "reads", "task.asset", task.asset)
    if task.asset_root is not None:
        yield Reach("reads", "task.asset_root", task.asset_root)
    yield from _of_overrides("task.overrides", task.overrides)
    for name, arm in study.arms.items():
        if arm.command is not None:
            yield Reach("runs", f"arms.{name}.command", " ".join(arm.command.texts))
        yield from _of_overrides(f"arms.{name}.overrides", arm.overrides)
    if study.image is not None:
        yield Reach("runs", "image", study.image)
    if study.tracking.uri is not None:
        yield Reach("contacts", "tracking.uri", study.tracking.uri)


def _of_overrides(where: str, overrides: Mapping[str, OverrideValue]) -> Iterator[Reach]:
    for name, value in overrides.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not WORD.fullmatch(text) and not INSTALLED.fullmatch(text):
                does = "contacts" if "://" in text else "reads" if FILE.search(text) else "runs"
                yield Reach(does, f"{where}.{name}", text)
