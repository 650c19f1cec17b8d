"""Settings in which two arms differ. Pure."""

from collections.abc import Sequence
from typing import Any

from envknee.study.model import Arm


def differences(arm: Arm, baseline: Arm) -> dict[str, Any]:
    """Return the settings in which an arm differs from the baseline: name -> the arm's value; None for a missing override."""
    own, other = _settings(arm), _settings(baseline)
    return {name: own.get(name) for name in {**other, **own} if own.get(name) != other.get(name)}


def _settings(arm: Arm) -> dict[str, Any]:
    """Return all settings of an arm by dotted name."""
    plain = dict(arm)
    overrides, memory = plain.pop("overrides"), plain.pop("memory")
    return {**plain, **{f"memory.{name}": value for name, value in dict(memory).items()}, **overrides}


def one_setting(difference: str) -> str:
    """Return the setting of a difference. Width and height are one setting."""
    name = difference.partition(":")[0]
    return name.rpartition(".")[0] if name.endswith((".width", ".height")) else name


def is_same_task(names: Sequence[str]) -> bool:
    """Tell whether settings of these names leave task and agent unchanged."""
    return not any(name == "presets" or name.startswith(("env.", "agent.")) for name in names)
