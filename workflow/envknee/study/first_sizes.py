"""Sizes that a first study of a task measures: they depend on the task and on the device. Pure.

Input: what the task brings as registered, and the memory of the GPU. Output: num_envs, horizon and batch size.
"""

from dataclasses import dataclass

from envknee.study.value_types import OverrideValue

FLOAT_BYTES = 4
"""A frame is stored as float32."""

CHANNELS = 3

GB = 1e9


@dataclass(frozen=True)
class OwnSettings:
    """What a registered task brings."""

    task: str
    """As the user named it: a registered name, MODULE:TASK or a short name."""
    trainer: str
    """The library whose agent the study starts from."""
    trainers: tuple[str, ...]
    """Every library that the task registers an agent for."""
    presets: str | None
    """Presets that the task needs without Isaac Sim; None: its default runs."""
    files: tuple[str, ...]
    """Files of NVIDIA's asset server that envknee lacks."""
    num_envs: int
    """Environments, as registered."""
    horizon: int
    """Environment steps per rollout of the agent."""
    fields: dict[str, OverrideValue]
    """Other values as registered, by the name under which `overrides` changes them."""
    frame_pixels: int
    """Pixels of one environment's observation, over all cameras and stacked frames; 0 without cameras."""

    @property
    def has_cameras(self) -> bool:
        """Whether the policy sees images."""
        return self.frame_pixels > 0


@dataclass(frozen=True)
class FirstSizes:
    """Sizes of a first study."""

    least: int
    """Smallest num_envs, a power of two."""
    most: int
    """Largest num_envs, a power of two."""
    horizon: int
    batch_size: int | str
    """Transitions of an optimizer step, or 'library'."""


LEAST_ON_GPU, MOST_ON_GPU = 64, 65_536
"""Bounds of num_envs on a GPU."""

DOUBLINGS = 5
"""Of num_envs on a GPU: six sizes."""

PIXELS_ON_CPU = 1_200_000
"""Pixels of all environments that a CPU renders in one step of the largest size: 64 times two frames of 96 x 96. A repeat takes about a
minute on two cores."""

MOST_ON_CPU, DOUBLINGS_ON_CPU = 1024, 3
"""The largest num_envs on a CPU, and how many doublings lead to it."""

HORIZON_ON_CPU = 16
"""The largest horizon on a CPU, so that an iteration ends within seconds."""

FIXED_BATCH = frozenset({"rl_games"})
"""Trainers whose batch size is always stated."""

MINI_BATCHES = 4
"""Of the smallest size, where a batch size is stated."""


def sizes_of(own: OwnSettings, gpu_gb: float | None) -> FirstSizes:
    """Return the sizes of a task's first study on a GPU with so much memory (10^9 bytes), or on the CPU (None)."""
    horizon = own.horizon if gpu_gb is not None else min(own.horizon, HORIZON_ON_CPU)
    if gpu_gb is None:
        most = _most_on_cpu(own)
        least = most >> DOUBLINGS_ON_CPU
    else:
        most = _most_on_gpu(own, horizon, gpu_gb)
        least = max(LEAST_ON_GPU, most >> DOUBLINGS)
    batch_size: int | str = "library"
    if own.trainer in FIXED_BATCH:
        batch_size = least * horizon // MINI_BATCHES
    return FirstSizes(least, most, horizon, batch_size)


def _most_on_cpu(own: OwnSettings) -> int:
    """Return the largest num_envs on a CPU: with cameras so many that a step renders at most `PIXELS_ON_CPU`."""
    if not own.has_cameras:
        return MOST_ON_CPU
    fitting = max(PIXELS_ON_CPU // own.frame_pixels, 2**DOUBLINGS_ON_CPU)
    return min(1 << (fitting.bit_length() - 1), MOST_ON_CPU)


def _most_on_gpu(own: OwnSettings, horizon: int, gpu_gb: float) -> int:
    """Return the largest num_envs on a GPU.

    With cameras the rollout's frames fill the memory, and the largest size is the first one that cannot fit: the study shows the memory's
    limit, too. Without cameras it is eight times the task's own.
    """
    if not own.has_cameras:
        return _bounded(8 * own.num_envs)
    rollout_bytes = own.frame_pixels * CHANNELS * FLOAT_BYTES * horizon
    return _bounded(int(gpu_gb * GB / rollout_bytes))


def _bounded(num_envs: int) -> int:
    """Return the first power of two that is not less, within the bounds of a GPU."""
    power = 1 << max(num_envs - 1, 1).bit_length()
    return min(max(power, 2 * LEAST_ON_GPU), MOST_ON_GPU)
