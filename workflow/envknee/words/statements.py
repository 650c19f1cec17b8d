"""Which function says a part of a verdict in a sentence, which says its notes, and how a part is decided. Pure."""

from collections.abc import Callable
from typing import Any

from envknee.record.schema import Frozen
from envknee.verdict.schema.batch import BatchLaw, PointNoise
from envknee.verdict.schema.learning import LearningLimit, RuleLimit, Rules
from envknee.verdict.schema.levers import Remedies, Remedy
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.scaling import Scaling, ScalingPoint
from envknee.verdict.schema.study import ArmVerdict, Spending
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words import batch, headline, joint, learning, memory, phases, remedies, rules, scaling, throughput
from envknee.words.machines import arm_notes
from envknee.words.spending import spending_statement

STATEMENTS: dict[type, Callable[[Any], str]] = {
    ThroughputLimit: throughput.throughput_statement,
    LearningLimit: learning.learning_statement,
    RuleLimit: rules.rule_statement,
    Rules: rules.rules_statement,
    Spending: spending_statement,
    MemoryLimit: memory.memory_statement,
    PhaseLaws: phases.phase_statement,
    BatchLaw: batch.batch_statement,
    PointNoise: batch.noise_statement,
    Scaling: scaling.scaling_statement,
    ScalingPoint: scaling.point_statement,
    Remedies: remedies.remedies_statement,
    Remedy: remedies.remedy_statement,
}
"""Model -> its sentence."""

NOTES: dict[type, Callable[[Any], list[str]]] = {
    ArmVerdict: arm_notes,
    ThroughputLimit: throughput.throughput_notes,
    LearningLimit: learning.learning_notes,
    MemoryLimit: memory.memory_notes,
    PhaseLaws: phases.phase_notes,
    BatchLaw: batch.batch_notes,
    Scaling: scaling.scaling_notes,
    Remedies: remedies.remedies_notes,
}
"""Model -> its notes, a sentence each."""

METHODS = {
    "Recommendation": headline.METHOD,
    "Joint answer": joint.METHOD,
    "Throughput": throughput.METHOD,
    "Law of FPS": throughput.LAW_METHOD,
    "Learning": learning.METHOD,
    "Rules": rules.METHOD,
    "Phases": phases.METHOD,
    "Critical batch size": batch.METHOD,
    "Gradient noise scale": batch.NOISE_METHOD,
    "Scaling efficiency": scaling.METHOD,
    "Memory": memory.METHOD,
    "Remedies": remedies.METHOD,
}
"""How each part of a verdict is decided."""


def statement(part: Frozen) -> str:
    """Return a part of a verdict in a sentence."""
    return STATEMENTS[type(part)](part)


def notes(part: Frozen) -> list[str]:
    """Return the notes on a part of a verdict, a sentence each; a part of another kind has none."""
    say = NOTES.get(type(part))
    return [] if say is None else say(part)
