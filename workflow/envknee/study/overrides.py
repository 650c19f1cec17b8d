"""Set fields of an environment's or agent's configuration by their dotted names.

Input: a configuration object (nested attributes or dictionaries) and `{"scene.tiled_camera.width": 64}`.
Output: the same object, changed in place. Does not import Isaac Lab.
"""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from envknee.study.errors import UserError, nearest
from envknee.study.value_types import EXPONENT, Overrides, OverrideValue


def split_by_root(overrides: Overrides, roots: Iterable[str]) -> dict[str, Overrides]:
    """Sort overrides by their first word: {"env.seed": 1} becomes {"env": {"seed": 1}, "agent": {}}.

    Raises:
        UserError: when a name starts with none of `roots`.
    """
    sorted_overrides: dict[str, Overrides] = {root: {} for root in roots}
    for name, value in overrides.items():
        root, _, rest = name.partition(".")
        if root not in sorted_overrides or not rest:
            legal = " or ".join(f"'{legal_root}.'" for legal_root in sorted_overrides)
            raise UserError(
                f"override {name}: {value!r}: the name must start with {legal}{nearest(root, sorted_overrides)}"
            )
        sorted_overrides[root][rest] = value
    return sorted_overrides


def apply_overrides(config: Any, overrides: Overrides, root: str, decided: Iterable[str] = ()) -> None:
    """Set each named field of `config`. Errors name the configuration as `root` ('env' or 'agent').

    Fields that a request decides (`decided`) are not overridden: the record would not describe the trial that ran.

    Raises:
        UserError: names the first override of such a field, its value, and the study's keys to use instead; or the first part of the path
            that is no field and the nearest field, or the expected type.
    """
    if overridden := sorted(set(decided) & overrides.keys()):
        name = overridden[0]
        raise UserError(
            f"override {root}.{name}: {overrides[name]!r}: a trial's sizes, seed and device are the study's"
            " (num_envs, horizon, batch_size, seed, gpus). Take the override out"
        )
    for name, value in overrides.items():
        *parents, field = name.split(".")
        holder, path = config, root
        for parent in parents:
            holder, path = _get(holder, parent, f"{root}.{name}", path), f"{path}.{parent}"
        current = _get(holder, field, f"{root}.{name}", path)
        converted = _converted(value, current, f"{root}.{name}")
        if isinstance(holder, dict):
            holder[field] = converted
        else:
            setattr(holder, field, converted)


def _get(holder: Any, field: str, name: str, path: str) -> Any:
    attributes = getattr(holder, "__dict__", {})
    public = {key: value for key, value in attributes.items() if not key.startswith("_")}
    fields = holder if isinstance(holder, dict) else public
    if field not in fields:
        raise UserError(
            f"override {name} names no field: {path} has no '{field}'{nearest(field, fields)}."
            f" Fields there: {', '.join(sorted(map(str, fields))) or 'none'}"
        )
    return fields[field]


def _converted(value: OverrideValue, current: Any, name: str) -> Any:
    """Return `value` in the type of the field's `current` value: 1 becomes 1.0, a list a tuple. None fits everywhere."""
    if current is None or current is dataclasses.MISSING or value is None:
        return value
    if isinstance(current, str) and EXPONENT.fullmatch(current):
        current = float(current)  # PyYAML reads 1e-4 in a task's own YAML as text
    if isinstance(current, float) and type(value) is int:
        return float(value)
    if isinstance(current, tuple) and isinstance(value, list):
        return tuple(value)
    # bool is a subclass of int: `seed: true` is a mistake, not seed 1.
    if isinstance(value, bool) is isinstance(current, bool) and isinstance(value, type(current)):
        return value
    raise UserError(
        f"override {name}: {value!r} is {type(value).__name__}, and {type(current).__name__} was expected (now {current!r})"
    )


def hydra(value: OverrideValue) -> str:
    """Return a value in Hydra's syntax: JSON, but strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)
