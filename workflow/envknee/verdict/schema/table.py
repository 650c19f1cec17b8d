"""The verdict over a user's own table (`envknee limits`), as frozen models."""

from typing import Literal

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


class Rounded(Frozen):
    """A size whose rounding alone leaves it open whether a doubling pays."""

    num_envs: int
    share: float
    """Half of the rounding step, as a share of its FPS."""
    largest_share: float
    """The same of the smallest FPS."""


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
    is_near: bool = False
    """Whether the largest size still pays, by less than half of delta more than delta, and within noise."""
    flat_from: int | None = None
    """The num_envs from which FPS neither rise nor fall by half of delta a doubling, after a fall."""
    superlinear: list[int] = []
    """num_envs from which a doubling gains more than twice the FPS can: something else differs."""
    rounded: Rounded | None = None
    """The rounding that leaves the estimate undecided."""
    assumed_cv: float | None
    """The coefficient of variation of FPS between processes that the user gave; None: that of published GPU studies."""

    @property
    def step(self) -> Step | None:
        """The step from `num_envs`; None without an estimate."""
        return next((step for step in self.steps if step.num_envs == self.num_envs), None)


class MissedPeak(Frozen):
    """The peak that the memory model misses most."""

    num_envs: int
    share: float
    """Distance between the model and the peak, as a share of the peak."""


class SeriesVerdict(Frozen):
    """The verdict on one series: rows with the same horizon, batch size, GPUs and values of other columns."""

    labels: tuple[tuple[str, str], ...] = ()
    """Columns in which the series of the table differ, with this one's values."""
    gpus: int = 1
    memory: MemoryLimit | None = None
    """Of rows with the same GPUs and labels; None without any vram_gb."""
    missed_peak: MissedPeak | None = None
    """None if the memory model is near every peak."""
    host_memory: MemoryLimit | None = None
    """None without any ram_gb."""

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


class Remark(Frozen):
    """What was read in another way than it stands in the file.

    values_are_fps      the sizes stand in the headings, and nothing names the values
    per_env             `heading` is FPS of one environment; `other` is the total, which counts
    fps_left_out        `heading` counts as FPS, and the columns `others` do not
    no_measurement      the rows at `lines` (of `other`: line or record) say that they failed
    total_envs          num_envs grows with gpus: it is that of all GPUs
    batch_follows       batch_size is a share of num_envs in every row
    relative            FPS follow from iterations of an unknown horizon: their ratios hold
    differs_everywhere  the setting `heading` has another value in every row, and parts no series
    """

    kind: Literal[
        "values_are_fps", "per_env", "fps_left_out", "no_measurement", "total_envs", "batch_follows", "relative",
        "differs_everywhere",
    ]  # fmt: skip
    heading: str | None = None
    other: str | None = None
    others: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()


class SizeRatio(Frozen):
    """FPS of one series as a multiple of another's, at one size."""

    num_envs: int
    ratio: float
    ratio_lower: float
    ratio_upper: float
    repeats: int
    """The fewer of both."""

    @property
    def state(self) -> Literal["slower", "faster", "not told apart"]:
        """Whether the interval lies on one side of 1."""
        if self.ratio_upper < 1.0:
            return "slower"
        return "faster" if self.ratio_lower > 1.0 else "not told apart"


class Beside(Frozen):
    """Two series side by side."""

    first: str
    second: str
    """Names: the ratios are FPS of the second over those of the first."""
    sizes: list[SizeRatio]
    only_first: list[int]
    only_second: list[int]
    """Sizes that one of them lacks."""
    failed_first: list[int] = []
    failed_second: list[int] = []
    """Sizes that did not fit there."""


class GpuEfficiency(Frozen):
    """FPS of several GPUs over those of as many single steps of `GpuScaling.base_gpus`, at one size on each."""

    gpus: int
    num_envs: int
    efficiency: float
    efficiency_lower: float
    efficiency_upper: float


class GpuScaling(Frozen):
    """What more GPUs bring, at equal num_envs on each."""

    labels: tuple[tuple[str, str], ...]
    base_gpus: int
    points: list[GpuEfficiency]


class Pair(Frozen):
    """Two tables side by side (`envknee limits A B`)."""

    schema_version: int = SCHEMA_VERSION
    first: str
    second: str
    confidence: float
    beside: list[Beside]


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
    """That of all series; None where they differ in GPUs or labels, and have their own, and without any vram_gb."""
    missed_peak: MissedPeak | None
    """None if the memory model is near every peak."""
    scaling: list[GpuScaling] = []
    """For tables with several numbers of GPUs."""
    beside: list[Beside] = []
    """Tables, or columns of FPS, of one file: each beside the first."""
    no_curve: tuple[str, ...] = ()
    """Columns that differ wherever num_envs does: no two sizes can be compared."""
    remarks: list[Remark] = []
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


TableAnswer = TableVerdict | Pair
"""What `envknee limits` prints as JSON: of one table, or of two."""
