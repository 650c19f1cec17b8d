"""Recognizes out of memory, NaN, divergence and an invalid simulation in the output of a foreign command. Pure."""

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from envknee.measure import validity
from envknee.measure.rows import TrialDone
from envknee.record.schema import Failure
from envknee.trainers.command import bounded, telling
from envknee.trainers.command.scan import Scan

OUT_OF_MEMORY = (
    r"OutOfMemory(?:Error|Exception)",
    r"RESOURCE_EXHAUSTED",
    r"ERROR_OUT_OF_(?:DEVICE|HOST|POOL)_MEMORY",
    r"ErrorOutOf(?:Device|Host)Memory",
    r"CUDA_ERROR_OUT_OF_MEMORY",
    r"cudaErrorMemoryAllocation",
    r"ALLOC_FAILED",
    r"PxgCudaDeviceMemoryAllocator",
    r"MemoryError\b",
    r"std::bad_alloc",
    r"\b(?:can't|cannot|could not|unable to|failed to|fail to) allocate\b",
    r"\ballocation failed\b",
    r"\bout of (?:\w+ )?memory\b",
)
"""Patterns of messages of PyTorch, Warp, CUDA, JAX (XLA), Vulkan, PhysX, MuJoCo, NumPy, Python and C++."""

NOT_OUT_OF_MEMORY = re.compile(
    r"not a failure|not an error|harmless|will (?:be )?retr(?:y|ied)|retrying|falling back|fall back"
    r"|\b(?:if|when|unless|avoid|avoids|avoiding|prevent|prevents|may|might|can|could run|reduce|risk of|in case of|without|lower|no)\b"
    r"[^.:]{0,40}\bout of (?:\w+ )?memory"
    r"|out of (?:\w+ )?memory[^.]{0,40}(?:, (?:try|lower|reduce|consider|use)\b.*\bif\b|\brecovered\b)"
    r"|^\s*(?:\[(?:info|debug|hint|tip)\]|info\b|hint\b|tip\b|usage:|#)"
    r"|\b(?:error|result|code)\s*[=:]?\s*(?:700|701|716|717|718|719)\b|illegal (?:memory access|address)"
    r"|--[\w-]*(?:oom|out-of-memory)|0 out of memory|stack overflow|^[\d :.-]*: I ",
    re.IGNORECASE,
)
"""A line that only mentions memory, an allocation that its program survives (XLA tries less, and says so as information), one that fails
because of an earlier crash, or a stack of a fixed size that is full."""

COMPILING = re.compile(
    r"\bcompil(?:e|es|ed|ing|ation)\b|\bnvcc\b|\bninja\b|\bjit(?:ting)?\b|Building extension|^Module \S+ \w+ load|autotun|XLA|cudagraph",
    re.IGNORECASE,
)
"""Lines of Warp, PyTorch's extensions and compiler, Triton and XLA while they compile."""

NOT_A_NUMBER = re.compile(
    r"\(?(?:NaN|inf(?:inite)?)\)? (?:values? )?(?:detected|found|encountered)|(?:loss|value|action)s? (?:is|are|became) (?:nan|inf)"
    r"|\b(?:contains?|found|has|have|produced|returned) (?:nan|inf(?:inite)?)(?: values?)?\b"
    r"|contains either `inf`, `nan`|\bis non-?finite\b|FloatingPointError: invalid value"
    r"|expects all elements of std >= 0\.0|satisfy the constraint .* but found invalid values|invalid values:\s*tensor\(.*nan",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of the guards in Isaac Lab, RSL-RL, mjlab and Stable-Baselines3, of PyTorch's samplers and gradients when a policy has become
NaN, and of NumPy and JAX where they are told to look for it."""

DIVERGED_ABOVE = 1e10
"""Training does not recover from a loss of this size. The limit is higher than for envknee's own trainers (1e6): a value loss is a squared
return, and many programs do not scale returns, which reach thousands."""

Needles = Mapping[str, Sequence[str]]

NEEDLES_OF_MEMORY: Needles = {
    "memory": (
        "out of", "outof", "out_of", "devicememoryallocator", "memoryerror", "memoryallocation",
        "allocate memory", "device memory", "host memory", "gpu memory", "hostmemory", "devicememory",
    ),
    "alloc": ("to allocate", "not allocate", "allocation failed", "alloc_failed", "bad_alloc"),
    "exhausted": ("resource_exhausted",),
}  # fmt: skip
NEEDLES_OF_NAN: Needles = {
    **{
        verb: tuple(
            f"{figure} {values}{verb}"
            for figure in ("nan", "nan)", "inf", "inf)", "infinite")
            for values in ("", "value ", "values ")
        )
        for verb in ("detected", "found", "encountered")
    },
    **{
        figure: tuple(
            f"{verb} {figure}"
            for verb in ("is", "are", "contain", "contains", "found", "became", "has", "have", "produced", "returned")
        )
        for figure in ("nan", "inf")
    },
    "elements of std": ("elements of std",),
    "contains either": ("contains either",),
    "finite": ("is non-finite", "is nonfinite"),
    "floatingpointerror": ("floatingpointerror: invalid",),
    "invalid values": ("found invalid values", "invalid values:"),
}
NEEDLES_OF_SIMULATION: Needles = {
    "overflow": ("please increase", "max overflow", "buffer overflow"),
    "exceeded": ("capacity exceeded",),
    "collisionstacksize": ("collisionstacksize",),
    "memoryconfig": ("memoryconfig",),
    "arena memory": ("arena memory is full", "insufficient arena memory"),
}
NEEDLES_OF_ROOT: Needles = {
    "illegal": ("illegal memory access", "illegal address"),
    "700": (
        *(f"{word}{sign}700" for word in ("error", "result", "code") for sign in (" ", ": ", "=", " = ")),
        "fail!",
        "failed!",
    ),
    "failed": ("cuevent", "custream", "culaunch", "cumemcpy", "memcpy failed"),
    "launch": ("fail to launch", "unspecified launch failure"),
    "assert": ("device-side assert", "thread: ["),
}
"""Lower-case texts: a line that a pattern of ours matches has a key and one of its texts. Looking for them in a block of lines is far
faster than the patterns are. Programs print some of the keys all the time, and hardly ever one of the texts."""


class Output:
    """The lines of a program's output that matter."""

    def __init__(self, oom: Sequence[str], invalid: Mapping[str, str]) -> None:
        """Begin with no lines; `oom` and `invalid` are a study's own patterns."""
        self._oom = re.compile("|".join(OUT_OF_MEMORY), re.IGNORECASE)
        self._oom_of_study = re.compile("|".join(oom), re.IGNORECASE) if oom else None
        self._invalid = validity.patterns(invalid)
        self._of_study = Scan([re.compile(text, re.IGNORECASE) for text in (*oom, *invalid)])
        self._newest = deque[str](maxlen=telling.NEWEST_LINES)
        self._is_gpu_broken = False
        self.oom_line: str | None = None
        self.nan_line: str | None = None
        self.invalid_lines: dict[str, str] = {}
        """Kinds of invalid simulation, each with the first line that reports it."""

    def take(self, lines: str) -> None:
        """Add lines, with line feeds between them."""
        newest = lines.rsplit("\n", telling.NEWEST_LINES)[-telling.NEWEST_LINES :]
        self._newest.extend(line for line in newest if line.strip())
        for line in self._of_study.matching(lines):
            for judge, _ in self._judges():
                judge(line)
        lower = lines.lower()
        judges = [(judge, needles) for judge, needles in self._judges() if _has(lower, needles)]
        if not judges:
            return
        for line in lines.split("\n"):
            lower = line.lower()
            for judge, needles in judges:
                if _has(lower, needles):
                    judge(line)

    def _judges(self) -> list[tuple[Callable[[str], None], Needles]]:
        """Return what is still to be found, with the texts that each kind of line has."""
        judges: list[tuple[Callable[[str], None], Needles]] = [(self._judge_simulation, NEEDLES_OF_SIMULATION)]
        if self.oom_line is None:
            judges.append((self._judge_root, NEEDLES_OF_ROOT))
            judges.append((self._judge_memory, NEEDLES_OF_MEMORY))
        if self.nan_line is None:
            judges.append((self._judge_nan, NEEDLES_OF_NAN))
        return judges

    def _judge_root(self, line: str) -> None:
        if telling.ROOT.search(line):
            self._is_gpu_broken = True

    def _judge_memory(self, line: str) -> None:
        """Look for an allocation that failed. After a crash of the GPU every allocation fails, which says nothing of memory."""
        of_study = self._oom_of_study is not None and self._oom_of_study.search(line) is not None
        is_own = self._oom.search(line) is not None and NOT_OUT_OF_MEMORY.search(line) is None
        known = is_own and not self._is_gpu_broken
        if self.oom_line is None and (of_study or known):
            self.oom_line = bounded.shown(line)

    def _judge_nan(self, line: str) -> None:
        if self.nan_line is None and NOT_A_NUMBER.search(line):
            self.nan_line = bounded.shown(line)

    def _judge_simulation(self, line: str) -> None:
        unseen = {pattern: meaning for pattern, meaning in self._invalid.items() if meaning not in self.invalid_lines}
        for meaning, first in validity.matches([line], unseen).items():
            self.invalid_lines = self.invalid_lines | {meaning: bounded.shown(first)}

    def is_compiling(self) -> bool:
        """Tell whether one of the newest lines says that kernels are compiled or loaded."""
        return says_compiling(self.newest)

    @property
    def newest(self) -> list[str]:
        """The newest lines that are not empty."""
        return list(self._newest)

    @property
    def error_line(self) -> str | None:
        """The newest line that says why the program broke; None without one that names an error."""
        line = telling.line_of(self.newest)
        return None if line is None else bounded.shown(line)

    def last_error(self) -> str:
        """Return the line that says why the program broke, else one that complains, else the newest line."""
        newest = self.newest or ["it printed nothing"]
        return self.error_line or bounded.shown(telling.complaint_of(newest) or newest[-1])


def says_compiling(newest: Sequence[str]) -> bool:
    """Tell whether one of the newest lines that a program printed says that kernels are compiled or loaded."""
    return any(COMPILING.search(line) for line in newest[-5:])


def _has(lower: str, needles: Needles) -> bool:
    """Tell whether a text has one of the needles."""
    return any(key in lower and any(text in lower for text in texts) for key, texts in needles.items())


def check_figures(figures: Mapping[str, float | None], iteration: int) -> None:
    """Raise a TrialDone for the first of `rewards` and `losses/NAME` that is not finite or diverged in this iteration."""
    for name, value in figures.items():
        name = bounded.shown(name)
        if value is not None and not math.isfinite(value):
            raise TrialDone("nan", f"{name} became {value}", Failure(iteration=iteration, tensor=name))
        if value is not None and name.startswith("losses/") and abs(value) > DIVERGED_ABOVE:
            reason = f"{name} grew to {value:.3g}, past {DIVERGED_ABOVE:.0e}"
            raise TrialDone("diverged", reason, Failure(iteration=iteration, tensor=name))
