"""How a figure of a row is combined over ranks and shown. Each field declares its own.

A new figure of each rank is one field of `schema.Load`, and a line where it is measured (`measure.load` for NVML's figures):

    gpu_temperature_c: Annotated[float | None, Metric("largest", system="gpu_{gpu}_temperature_c", recorded=True)] = newer(None)

With `newer`, rows without it stay the same, byte for byte: those of earlier versions, too.
"""

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
