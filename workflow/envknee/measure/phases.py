"""Measures the time of an iteration by phase: a time stamp at each change of phase, read once at the iteration's end."""

import inspect
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch

from envknee.record.schema import PHASES, Phase
from envknee.study.value_types import PhaseSwitch

FINE_PHASES = frozenset({"physics", "render", "observation"})
"""Phases inside an environment step: marked in sampled steps only."""

PHASES_BETWEEN = frozenset({"inference", "storage"})
"""Phases between environment steps: marked before the first step, and around sampled ones. With few environments each mark costs time."""

ENV_STEP = "env_step"
"""Time of an environment step outside the fine phases: actions, rewards, resets. Counted as `other`."""

SAMPLED_STEPS = 4
"""At least so many environment steps of a rollout are sampled, with what lies before them. They are evenly spread, and shift by one each
iteration. In a shorter rollout all are."""


@dataclass(frozen=True)
class IterationTimes:
    """Seconds of one iteration on the device's clock."""

    env_step_s: float
    collect_s: float
    """From the first storage or inference to the learning after the last environment step, without learning between steps."""
    learn_s: float
    phases_s: dict[Phase, float] | None
    """They add up to the time from the first mark to the last. None without sampled steps."""


class WallClock:
    """Clock of a CPU, where a call returns when its work is done. Its stamps are seconds."""

    def stamp(self) -> float:
        """Return the time now."""
        return time.perf_counter()

    def wait_for(self, stamp: float) -> None:
        """Wait until the device has done the work before a stamp: on a CPU it has."""

    def seconds(self, stamps: list[float]) -> list[float]:
        """Return the seconds between successive stamps."""
        return [end - begin for begin, end in pairwise(stamps)]


class CudaClock:
    """CUDA events on PyTorch's stream as stamps. Recording an event neither waits for the GPU nor makes it wait.

    Events also cover Warp's work: Warp's own stream is a blocking one, so events on PyTorch's default stream are ordered after its
    work (CUDA C++ Programming Guide, "Default Stream"). Resolution: about 0.5 microseconds (cudaEventElapsedTime).
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.current_stream(device)
        self._pool: list[torch.cuda.Event] = []

    def stamp(self) -> torch.cuda.Event:
        """Record an event."""
        event = self._pool.pop() if self._pool else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def wait_for(self, stamp: torch.cuda.Event) -> None:
        """Wait for an event."""
        stamp.synchronize()

    def seconds(self, stamps: list[torch.cuda.Event]) -> list[float]:
        """Return the seconds between successive events, which are all reached, and free them for reuse."""
        seconds = [begin.elapsed_time(end) / 1e3 for begin, end in pairwise(stamps)]
        self._pool.extend(stamps)
        return seconds


class _Mark(NamedTuple):
    """A change of phase."""

    phase: str
    """The phase that begins."""
    is_sampled: bool
    """Whether it belongs to a sampled environment step."""
    stamp: Any
    """The moment, as the clock has it."""


class Timeline:
    """Assigns every moment of an iteration to exactly one phase: the innermost open one, else `other`.

    So phases add up to the time from the first mark to the last, on the device's clock. `iteration_s` of the row is an independent
    check on the host's clock.
    """

    def __init__(self, device: torch.device, switch: PhaseSwitch, horizon: int) -> None:
        """Use CUDA events on a GPU, else the wall clock; with `switch` off no step is sampled. `horizon` is the length of a rollout."""
        self._clock: Any = CudaClock(device) if device.type == "cuda" else WallClock()
        self._switch: PhaseSwitch = switch
        self._every = max(1, horizon // SAMPLED_STEPS)
        self._open = ["other"]
        self._marks: list[_Mark] = []
        self.ended_at_s = 0.0
        """The host's clock (`time.perf_counter`) when all work of the newest whole iteration was done."""
        self._iteration = 0
        self._step = 0
        self._wrapped: list[Callable[[], None]] = []
        """Functions that undo each `wrap`."""

    def start(self) -> None:
        """Begin an iteration now, and drop the time since the previous one: this process was starting, or waiting for others."""
        self._marks, self._step = [], 0
        self._mark()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Assign the time inside to phase `name`, without the time of phases opened inside.

        `ENV_STEP` counts it as an environment step, and resolves it into fine phases if it is sampled.
        """
        is_marked = self._begin(name)
        try:
            yield
        finally:
            self._end(is_marked)

    def wrap(self, owner: Any, method: str, phase: Phase) -> None:
        """Make each call of `owner.method` a phase, by replacing the method (as isaaclab.benchmark does with `env.step`)."""
        original: Callable[..., Any] = getattr(owner, method)

        @wraps(original)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            is_marked = self._begin(phase)  # several times a step: a context manager would cost as much again
            try:
                return original(*arguments, **keywords)
            finally:
                self._end(is_marked)

        before, has_own = inspect.getattr_static(owner, method), method in vars(owner)
        setattr(owner, method, staticmethod(timed) if isinstance(before, staticmethod) else timed)
        self._wrapped.append(lambda: setattr(owner, method, before) if has_own else delattr(owner, method))

    def release(self) -> None:
        """Restore all methods replaced by `wrap`: their classes serve the process's next trial."""
        for undo in reversed(self._wrapped):
            undo()
        self._wrapped.clear()

    def end_iteration(self) -> Callable[[], IterationTimes]:
        """Wait for the device, begin the next iteration, and return what reads the seconds of the one that ended.

        Reading some 200 CUDA events takes a millisecond or two, in which the GPU need not wait.
        """
        self._mark()
        self._clock.wait_for(self._marks[-1].stamp)
        self.ended_at_s = time.perf_counter()
        marks = self._marks
        self._iteration += 1
        self.start()

        def times() -> IterationTimes:
            seconds = self._clock.seconds([mark.stamp for mark in marks])
            return iteration_times([(mark.phase, mark.is_sampled) for mark in marks], seconds)

        return times

    def _begin(self, name: str) -> bool:
        """Begin a phase; return whether it is measured."""
        if name in FINE_PHASES and not (ENV_STEP in self._open and self._is_sampled):
            return False
        if name in PHASES_BETWEEN and self._step and not self._is_sampled:
            return False
        self._open.append(name)
        self._mark()
        return True

    def _end(self, is_marked: bool) -> None:
        """End the innermost phase, if it is measured."""
        if is_marked:
            if self._open.pop() == ENV_STEP:
                self._step += 1
            self._mark()

    @property
    def _is_sampled(self) -> bool:
        """Whether the current or next environment step is sampled."""
        return self._switch == "sampled" and self._step % self._every == self._iteration % self._every

    def _mark(self) -> None:
        self._marks.append(_Mark(self._open[-1], self._is_sampled, self._clock.stamp()))


def iteration_times(marks: list[tuple[str, bool]], seconds: list[float]) -> IterationTimes:
    """Add up the phases of an iteration.

    Args:
        marks: at each change, the phase that begins and whether it belongs to a sampled environment step
        seconds: seconds between successive marks, one fewer than marks

    Phases inside environment steps, and those between them, are scaled from the sampled steps to all. Without sampled steps `phases_s`
    is None.
    """
    all_steps = _Sums()
    sampled_steps = _Sums()
    for (phase, is_sampled), part, duration_s in zip(marks, _parts(marks), seconds, strict=False):
        row_phase = "other" if phase == ENV_STEP else phase
        all_steps.of(part)[row_phase] += duration_s
        if is_sampled:
            sampled_steps.of(part)[row_phase] += duration_s
    env_step_s = sum(all_steps.in_steps.values())
    between_s = sum(all_steps.between_steps.values())
    phases_s = None
    if sampled_steps.in_steps:
        scaled = defaultdict(float, all_steps.elsewhere)
        _add_scaled(scaled, sampled_steps.in_steps, env_step_s)
        _add_scaled(scaled, sampled_steps.between_steps or all_steps.between_steps, between_s)
        phases_s = {phase: scaled[phase] for phase in PHASES}
    return IterationTimes(env_step_s, env_step_s + between_s, all_steps.elsewhere["learning"], phases_s)


PartOfIteration = Literal["in_steps", "between_steps", "elsewhere"]
"""Where in an iteration a moment lies: in an environment step, between two while collecting, or elsewhere."""


@dataclass
class _Sums:
    """Seconds by phase, for each part of an iteration."""

    in_steps: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    between_steps: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    elsewhere: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def of(self, part: PartOfIteration) -> defaultdict[str, float]:
        """Return the seconds by phase of one part."""
        return getattr(self, part)


def _parts(marks: Sequence[tuple[str, bool]]) -> Iterator[PartOfIteration]:
    """Yield the part of the iteration that begins at each mark."""
    names = [ENV_STEP if phase in FINE_PHASES else phase for phase, _ in marks]
    last_step = max((place for place, name in enumerate(names) if name == ENV_STEP), default=0)
    collecting = range(_first(names, {"storage", "inference", ENV_STEP}), _first(names, {"learning"}, after=last_step))
    for place, name in enumerate(names):
        if name == ENV_STEP:
            yield "in_steps"
        elif place in collecting and name != "learning":
            yield "between_steps"
        else:
            yield "elsewhere"


def _add_scaled(sums: defaultdict[str, float], parts: Mapping[str, float], whole_s: float) -> None:
    """Add phases to `sums`, scaled so that they take `whole_s` seconds together."""
    parts_s = sum(parts.values())
    for phase, part_s in parts.items():
        sums[phase] += part_s * whole_s / parts_s


def _first(names: Sequence[str], wanted: set[str], after: int = 0) -> int:
    """Return the index of the first wanted name from `after` on, or `len(names)`."""
    return next((place for place in range(after, len(names)) if names[place] in wanted), len(names))
