"""`memory_cap_gb`: emulate a smaller device. `envknee.measure.memory` enforces it."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from envknee.study.remedies import Remedy
from envknee.study.value_types import number

REMEDY = Remedy(
    type=Annotated[float | None, Field(gt=0), BeforeValidator(number)],
    field=Field(default=None, description="Limit the memory of the device: a trial that needs more is out of memory."),
)
