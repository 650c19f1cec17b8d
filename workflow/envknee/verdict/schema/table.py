"""The verdict over a user's own table (`envknee limits`), as frozen models."""

from envknee.record.schema import Frozen
from envknee.verdict.schema.headline import NextMeasurement
from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.throughput import ThroughputLimit

SCHEMA_VERSION = 2


class Step(Frozen):
    """Gain of FPS from one num_envs to a larger one, per doubling: 0.25 is 25%."""

    num_envs: int
    to_num_envs: int
    gain: float
    gain_lower: float
    """Two-sided interval, with the assumed noise."""
    gain_upper: float


class Estimate(Frozen):
    """The best estimate of a throughput limit."""

    num_envs: int | None
    """The smallest measured num_envs from which a doubling gains less than delta; None: it still gains at the largest."""
    lowest: int | None
    """Smallest num_envs that the limit may have, with the assumed noise."""
    highest: int | None
    """Largest num_envs that the limit may have; None: no upper end."""
    by_law: float | None
    """The limit by the law t0 + c N; None if no law fits."""
    steps: list[Step]
    dips: list[int]
    """num_envs with FPS below both neighbours'."""
    jumps: list[int]
    """num_envs from which FPS gain more than in the step before, by more than noise, after a step below delta."""
    falls_beyond: int | None
    """The num_envs with the largest FPS, if FPS fall beyond it by more than the assumed noise and stay lower."""
    assumed_cv: float | None
    """The coefficient of variation of FPS between processes that the user gave; None: that of published GPU studies."""

    @property
    def step(self) -> Step | None:
        """The step from `num_envs`; None without an estimate."""
        return next((step for step in self.steps if step.num_envs == self.num_envs), None)


class SeriesVerdict(Frozen):
    """The verdict on one series: rows with the same horizon and batch size."""

    throughput: ThroughputLimit
    estimate: Estimate | None
    """The best estimate, if too few repeats leave the limit undecided."""
    learning: LearningLimit | None
    """None without rows on learning."""
    measure_next: NextMeasurement | None
    """The rows that would decide an open threshold; None if it is reached."""


class ColumnRead(Frozen):
    """A column that goes by another name, or has another unit."""

    heading: str
    column: str
    """The column that it is read as."""
    factor: float
    """From its unit to the column's."""


class ColumnNotRead(Frozen):
    """A column that is not read."""

    heading: str
    nearest: str | None
    """The absent column with the most similar name; None if none is similar."""


class NotMeasured(Frozen):
    """Rows that say of learning neither the seconds to the target nor the budget."""

    rows: int
    num_envs: list[int]


class MissedPeak(Frozen):
    """The peak that the memory model misses most."""

    num_envs: int
    share: float
    """Distance between the model and the peak, as a share of the peak."""


class TableVerdict(Frozen):
    """The verdict over a table."""

    schema_version: int = SCHEMA_VERSION
    source: str
    rows: int
    columns: list[str]
    delta: float
    confidence: float
    memory_margin: float
    series: list[SeriesVerdict]
    memory: MemoryLimit | None
    """None without any vram_gb."""
    missed_peak: MissedPeak | None
    """None if the memory model is near every peak."""
    columns_read: list[ColumnRead]
    """Columns that go by another name or unit."""
    columns_not_read: list[ColumnNotRead]
    fps_step: float | None
    """The step to which all FPS are rounded, if it is coarse enough to hide noise between repeats."""
    not_measured: NotMeasured | None
    """Rows without an answer on learning, in a table where others have one."""

    @property
    def has_horizon(self) -> bool:
        """Whether the table has a column for the horizon; without it, an iteration counts as one step."""
        return "horizon" in self.columns
