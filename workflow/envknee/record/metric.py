"""What a figure of a row is, declared with its field.

A new figure of each rank is one field of `schema.Load`, and a line where it is measured (`measure.load`, for what NVML tells):

    gpu_temperature_c: Annotated[float | None, Metric("largest", system="gpu_{gpu}_temperature_c", recorded=True)] = Field(
        default=None, exclude_if=lambda value: value is None
    )

Rows of earlier versions lack it, and stay the same byte for byte because it is written only where it was measured.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel


@dataclass(frozen=True)
class Metric:
    """How a figure of a row comes about and where it is shown. The unit is the end of its name; MLflow draws its curve by that name."""

    ranks: Literal["mean", "sum", "largest", "first", "derived"]
    """How the ranks' figures make the row's. largest: the slowest rank's seconds, the fullest one's memory. derived: from others."""
    recorded: bool = False
    """Whether record.json has median and quartiles over the timed iterations, and records.csv the median."""
    system: str | None = None
    """Name on MLflow's page "System metrics", where a process's add up over ranks; with {gpu} in it, a figure of each rank's GPU."""


def metrics_of(model: type[BaseModel]) -> dict[str, Metric]:
    """Return the metrics that a model declares, by the names of their fields."""
    return {
        name: metric
        for name, field in model.model_fields.items()
        for metric in field.metadata
        if isinstance(metric, Metric)
    }
