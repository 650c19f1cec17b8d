"""The content of one MLflow run, within MLflow's limits on names and values. Pure, except that artifacts are read."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from envknee.study.files import sha256_of

LONGEST_VALUE = 6000
"""Most characters of a parameter in MLflow's API (mlflow.utils.validation)."""


class Metric(NamedTuple):
    """One value of a curve."""

    key: str
    value: float
    timestamp_ms: int
    step: int


@dataclass(frozen=True)
class Run:
    """The content of an MLflow run, from a study's files."""

    key: str
    name: str
    started_ms: int
    status: Literal["RUNNING", "FINISHED", "FAILED"]
    params: dict[str, str]
    tags: dict[str, str]
    ended_ms: int = 0
    metrics: Sequence[Metric] = ()
    artifacts: Mapping[str, Path | str] = field(default_factory=dict)
    """Path in the run → file or text."""
    attempt: str | None = None
    """ID of the attempt, which is not part of the content. A live run of the same attempt becomes this run."""

    def content_sha256(self) -> str:
        """Return the sha256 of everything that is logged, including the bytes of the artifacts."""
        content = {
            "name": self.name, "started_ms": self.started_ms, "ended_ms": self.ended_ms, "status": self.status,
            "params": self.params, "tags": self.tags, "metrics": [tuple(metric) for metric in self.metrics],
            "artifacts": {path: sha256_of(content) for path, content in self.artifacts.items()},
        }  # fmt: skip
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return sha256_of(text)


def metrics_of(values: Mapping[str, Any], timestamp_ms: int, step: int) -> list[Metric]:
    """Return one value of each curve, without None."""
    return [
        Metric(_legal(name), float(value), timestamp_ms, step) for name, value in values.items() if value is not None
    ]


def texts_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters or tags as texts within MLflow's limits, without None."""
    texts = {}
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        if value is not None and text:
            texts[_legal(name)] = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
    return texts


def _legal(name: str) -> str:
    """Return a name in which characters that MLflow refuses (such as '+' and brackets) are replaced."""
    return re.sub(r"[^/\w.\- ]", "_", name)[:250]
