"""Findings on levers in a sentence. Pure."""

from collections.abc import Sequence

from envknee.verdict.schema.levers import Change, Compared, Finding, Lever
from envknee.words.numbers import percent, span

STARTS: dict[Finding, str] = {
    "supported": "The data support",
    "not supported": "not",
    "not shown": "undecided:",
    "not measured": "not measured:",
}

TO_MEASURE = {
    "longer horizon": "measure two horizons at the same num_envs",
    "larger batch": "measure two batch sizes at the same num_envs",
    "more GPUs": "add an arm that differs in `gpus` alone",
}
"""What to measure for a finding on each lever."""


def levers_sentence(levers: Sequence[Lever]) -> str:
    """Return one sentence: the levers that are supported, not supported, and not measured."""
    parts = []
    for verdict, start in STARTS.items():
        names = [
            lever.name if verdict == "not measured" else f"{lever.name} ({lever_evidence(lever)})"
            for lever in levers
            if lever.verdict == verdict
        ]
        if names:
            parts.append(f"{start} {' and '.join(names)}")
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def lever_evidence(lever: Lever) -> str:
    """Return the measured numbers, or what to measure."""
    each = " each" if lever.name == "more GPUs" else ""
    found = []
    if lever.fps is not None and lever.fps_at is not None:
        found.append(f"{_compared(lever.fps_at)}{each}: {_change(lever.fps, 'FPS')}")
    if lever.seconds_to_target is not None and lever.seconds_at is not None:
        found.append(f"{_compared(lever.seconds_at)}{each}: {_change(lever.seconds_to_target, 'seconds to target')}")
    return ", ".join(found) or TO_MEASURE[lever.name]


def _compared(points: Compared) -> str:
    return f"{points.before:,} to {points.after:,} at {points.num_envs:,} environments"


def _change(change: Change, of: str) -> str:
    return f"{_signed(change.value)} {of}, {span(change.lower, change.upper, _signed) or 'one repeat'}"


def _signed(share: float) -> str:
    return f"over +{percent(10.0, 0)}" if share > 10.0 else f"{share:+.0%}"
