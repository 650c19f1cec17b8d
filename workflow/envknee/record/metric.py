"""How a figure of a row is combined over ranks and shown. Each field declares its own (docs/extending.md has an example)."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel


@dataclass(frozen=True)
class Metric:
    """How a figure of a row is made and shown. Its name ends with the unit, and is also the name of its curve in MLflow."""

    ranks: Literal["mean", "sum", "largest", "first", "derived"]
    """How the ranks' figures combine. largest: the slowest rank's seconds, or the most memory. derived: computed from other figures."""
    recorded: bool = False
    """Whether record.json has median and quartiles over the timed iterations, and records.csv the median."""
    system: str | None = None
    """Name on MLflow's page "System metrics", with the sum over ranks. A name with {gpu} stands for one figure per GPU."""


def metrics_of(model: type[BaseModel]) -> dict[str, Metric]:
    """Return the metrics that a model declares, by the names of their fields."""
    return {
        name: metric
        for name, field in model.model_fields.items()
        for metric in field.metadata
        if isinstance(metric, Metric)
    }
