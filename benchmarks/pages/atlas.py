"""docs/atlas.md: what was found for tasks of other programs (results-published/atlas)."""

from functools import cache

from envknee.record.schema import Environment
from envknee.words.intervals import threshold_interval

from benchmarks.atlas import kept
from benchmarks.atlas.kept import Measured
from benchmarks.atlas.listed import Atlas, read_atlas
from benchmarks.pages.cells import change, table

HEADS = (
    "task", "program", "GPU", "knee", "FPS there", "GB there", "gain to there", "gain beyond", "seconds", "GPU-hours", "trials",
)  # fmt: skip


@cache
def found() -> list[Measured]:
    """Return every kept task that was measured, read once."""
    return kept.measured()


def tasks() -> str:
    """Return a row for each task: the knee, what it gives, and what finding it cost."""
    return table(HEADS, [row(measured, read_atlas()) for measured in found()])


def row(measured: Measured, atlas: Atlas) -> tuple[str, ...]:
    """Return the cells of one task. What was not measured is a dash."""
    search, limit, headline = measured.search, measured.arm.recommended, measured.arm.headline
    program = atlas.program_of(search.task)
    name = f"[`{search.task}`](../results-published/atlas/{search.task}): {atlas.tasks[search.task].about}"
    cost = (f"{search.seconds:,.0f}", gpu_hours(measured), f"{len(measured.records)}")
    first = (name, f"{program.about} {program.version}", ", ".join(measured.arm.hardware))
    if limit is None or headline is None:
        return (*first, "–", "–", "–", "–", "–", *cost)
    size = headline.num_envs
    before = next((gain for gain in limit.gains if gain.doubled == size), None)
    beyond = next((gain for gain in limit.gains if gain.num_envs == size), None)
    return (
        *first,
        knee(measured),
        f"{headline.fps:,.0f}",
        memory(measured, size),
        "–" if before is None else change(before),
        "–" if beyond is None else change(beyond),
        *cost,
    )


def knee(measured: Measured) -> str:
    """Return the knee with its interval, or what is known of it."""
    limit = measured.arm.recommended
    assert limit is not None, "the row has a headline"
    interval = threshold_interval(limit)
    if limit.threshold_num_envs is not None:
        return f"{limit.threshold_num_envs:,} ({interval})"
    return f"{limit.state} ({interval})"


def memory(measured: Measured, num_envs: int) -> str:
    """Return the largest peak of a size's trials, in GB."""
    peaks = [
        record.memory_peak_gb
        for record in measured.records
        if record.request.num_envs == num_envs and record.memory_peak_gb is not None
    ]
    return f"{max(peaks):.2f}" if peaks else "–"


def gpu_hours(measured: Measured) -> str:
    """Return the GPU-hours of all trials, start-up and attempts without a result included."""
    hours = [record.gpu_hours for record in measured.records if record.gpu_hours is not None]
    lost = sum(record.lost_gpu_hours for record in measured.records)
    return f"{sum(hours) + lost:.2f}" if any(hours) else "–"


def commands() -> str:
    """Return the command that repeats each search, and the versions and commits that measured it."""
    rows = [(f"`{own.search.task}`", f"`{own.search.typed}`", versions(own), commits(own)) for own in found()]
    return table(("task", "command", "versions, as recorded", "envknee"), rows)


def machines(measured: Measured) -> list[Environment]:
    """Return what each trial ran on."""
    return [record.outcome.environment for record in measured.records if record.outcome.environment is not None]


def versions(measured: Measured) -> str:
    """Return the packages of the program that its trials recorded."""
    return (
        ", ".join(sorted({f"{name} {own}" for machine in machines(measured) for name, own in machine.packages.items()}))
        or "–"
    )


def commits(measured: Measured) -> str:
    """Return the commits that measured a task."""
    return ", ".join(sorted({machine.git_commit[:10] for machine in machines(measured) if machine.git_commit})) or "–"


def seconds_to_target() -> str:
    """Return for each task that learned to a reward its soonest size and batch."""
    rows = []
    for measured in found():
        if (soonest := measured.arm.soonest) is None:
            continue
        limit, point = soonest
        seconds = point.seconds_to_target
        assert seconds is not None, "the soonest point reached the target"
        batch = "the program's own" if limit.batch_size is None else f"{limit.batch_size:,}"
        rewards = {own.request.target_reward for own in measured.records} - {None}
        reward = ", ".join(f"{own:g}" for own in rewards)
        rows.append((f"`{measured.search.task}`", reward, f"{point.num_envs:,}", batch, f"{seconds.value:.1f}"))
    return table(("task", "reward", "num_envs", "batch size", "seconds"), rows)


def not_run() -> str:
    """Return the tasks of which nothing was measured, with the reason."""
    ended = {search.task: search.reason or "its time was over" for search in kept.without_verdict()}
    rows = [(f"`{task}`", reason.replace("|", "\\|")) for task, reason in (read_atlas().left_out() | ended).items()]
    return table(("task", "why"), rows)


def decided() -> str:
    """Return how many tasks have a knee: `9 of 12`."""
    limits = [measured.arm.recommended for measured in found()]
    reached = sum(limit is not None and limit.threshold_num_envs is not None for limit in limits)
    return f"{reached} of {len(limits)}"


def cut_off() -> str:
    """Return the cut-off of all tasks."""
    return ", ".join(sorted({f"{own.verdict.delta:.0%}" for own in found()}))


BLOCKS = {
    "atlas": tasks,
    "atlas-commands": commands,
    "atlas-learning": seconds_to_target,
    "atlas-not-run": not_run,
    "atlas-decided": decided,
    "atlas-cut-off": cut_off,
}
