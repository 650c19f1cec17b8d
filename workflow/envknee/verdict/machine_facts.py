"""What trials ran on: hardware, commits, images and versions, each value once. Pure."""

from collections.abc import Sequence
from typing import Any

from envknee.record.schema import Record
from envknee.verdict.hardware import hardware


def machine_facts(records: Sequence[Record]) -> dict[str, list[str | None]]:
    """Return hardware, commits and versions of packages by name, each value once; None where a trial has none."""
    machines = [record.outcome.environment for record in records if record.outcome.environment]
    on_gpus = [machine for machine in machines if machine.device.type == "cuda"]  # else the hardware is the CPU
    packages = sorted({name for machine in machines for name in machine.packages})
    values: dict[str, list[Any]] = {
        "hardware": hardware(records),
        "host CPU": [f"{machine.cpu_model} ({machine.cpu_cores} cores)" for machine in on_gpus],
        "commit": [machine.git_commit and machine.git_commit[:10] for machine in machines],
        "image": [machine.image and _short_hash(machine.image.content_sha256) for machine in machines],
        "driver": [machine.device.driver for machine in machines],
    }
    values |= {name: [machine.packages.get(name) for machine in machines] for name in packages}
    return {name: each_once(own) for name, own in values.items()}


def each_once(values: Sequence[Any]) -> list[str | None]:
    """Return each value as text, in alphabetical order, then None if it is among them. A list of None alone is empty."""
    known = sorted({_text(value) for value in values if value is not None})
    if not known:
        return []
    return [*known, None] if any(value is None for value in values) else [*known]


def _short_hash(sha256: str) -> str:
    return sha256.removeprefix("sha256:")[:12]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
