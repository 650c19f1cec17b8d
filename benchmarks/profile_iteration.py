"""Where an iteration's time goes on a GPU: kernels of each environment step and mini-batch, gaps between them, and occupancy.

Input: the file of a request, as a trial of envknee has it. Output: a JSON file, and a table in the terminal.

    python -m benchmarks.profile_iteration results/STUDY/trials/0000/request.json --output profile.json

The loop is RSL-RL's own (`benchmarks/bare_loop.py`). After the warm-up of the request PyTorch's profiler records one iteration. Being
recorded slows the host, so that gaps are upper bounds; `iteration_s` is that of iterations that were not recorded, and kernels take as long
as ever. A window ends with the last of its kernels.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from envknee.machine import environment
from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically
from rich.console import Console
from rich.table import Table

from benchmarks.bare_loop import request_of, runner_of

COLLECT, LEARN = "envknee: collect", "envknee: learn"
"""How the two windows of an iteration are marked in the trace."""

NAMED = 12
"""Kernels that are listed by name, those that take most time."""


class Launch(NamedTuple):
    """A kernel, or a copy on the GPU."""

    name: str
    start_us: float
    duration_us: float
    occupancy: float | None
    """Share of the GPU's warps that it can keep, as CUPTI estimates; None of a copy."""


def launches_in(events: Iterable[Mapping[str, Any]]) -> list[Launch]:
    """Return what ran on the GPU, from the events of a trace in Chrome's format, in the order of its start."""
    launches = []
    for event in events:
        if event.get("cat") in {"kernel", "gpu_memcpy", "gpu_memset"}:
            percent = event.get("args", {}).get("est. achieved occupancy %")
            occupancy = None if percent is None else float(percent) / 100.0
            launches.append(Launch(event["name"], float(event["ts"]), float(event["dur"]), occupancy))
    return sorted(launches, key=lambda own: own.start_us)


def window_of(events: Iterable[Mapping[str, Any]], name: str) -> tuple[float, float]:
    """Return start and end of a marked part on the host's clock, in microseconds.

    Raises:
        UserError: when the trace does not have it exactly once.
    """
    found = [event for event in events if event.get("cat") == "user_annotation" and event.get("name") == name]
    if len(found) != 1:
        raise UserError(f"the trace has {name!r} {len(found)} times, and once was expected")
    start = float(found[0]["ts"])
    return start, start + float(found[0]["dur"])


def busy_us(launches: Sequence[Launch]) -> float:
    """Return for how many microseconds at least one of these ran; they stand in the order of their start."""
    busy, until = 0.0, float("-inf")
    for own in launches:
        end = own.start_us + own.duration_us
        busy += max(0.0, end - max(until, own.start_us))
        until = max(until, end)
    return busy


def summary(launches: Sequence[Launch], wall_us: float, parts: int) -> dict[str, Any]:
    """Return what a window's kernels say of each of its equal parts: environment steps, or mini-batches.

    Times are microseconds of one part; `occupancy` is the mean over kernels by their time.
    """
    by_name: defaultdict[str, list[Launch]] = defaultdict(list)
    for own in launches:
        by_name[own.name].append(own)
    longest = sorted(by_name.items(), key=lambda item: sum(own.duration_us for own in item[1]), reverse=True)
    known = [own for own in launches if own.occupancy is not None]
    weight = sum(own.duration_us for own in known)
    busy = busy_us(launches)
    return {
        "parts": parts,
        "wall_us": wall_us / parts,
        "busy_us": busy / parts,
        "idle_share": 1.0 - busy / wall_us,
        "kernels": len(launches) / parts,
        "median_kernel_us": median(own.duration_us for own in launches) if launches else None,
        "occupancy": sum(own.duration_us * (own.occupancy or 0.0) for own in known) / weight if weight else None,
        "longest": [
            {
                "name": name[:120],
                "launches": len(own) / parts,
                "us": sum(launch.duration_us for launch in own) / parts,
            }
            for name, own in longest[:NAMED]
        ],
    }


def profiled(runner: Any, agent: Any, warmup: int, timed: int) -> tuple[list[dict[str, Any]], list[float]]:
    """Train; return the events of one recorded iteration, and the seconds of the iterations before it that were not recorded."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    update, began, seconds = runner.alg.update, time.perf_counter(), []
    recorder, collecting = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), ExitStack()
    last = warmup + timed

    def update_and_record() -> dict[str, float]:
        nonlocal began
        torch.cuda.synchronize()
        if len(seconds) == last:
            collecting.close()
            with record_function(LEARN):
                losses = update()
                torch.cuda.synchronize()
            recorder.stop()
            return losses
        losses = update()
        torch.cuda.synchronize()
        now = time.perf_counter()
        seconds.append(now - began)
        began = now
        if len(seconds) == last:
            recorder.start()
            collecting.enter_context(record_function(COLLECT))
        return losses

    runner.alg.update = update_and_record
    runner.learn(last + 1, init_at_random_ep_len=agent.init_at_random_ep_len)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        recorder.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    return trace["traceEvents"], seconds[warmup:last]


def show(console: Console, found: Mapping[str, Any]) -> None:
    """Print both windows side by side, and the kernels that take most time in each."""
    table = Table("", "environment step", "mini-batch", box=None)
    rows = (
        ("wall, us", "wall_us", "{:,.0f}"),
        ("GPU busy, us", "busy_us", "{:,.0f}"),
        ("GPU idle", "idle_share", "{:.0%}"),
        ("kernels", "kernels", "{:,.0f}"),
        ("median kernel, us", "median_kernel_us", "{:.1f}"),
        ("occupancy", "occupancy", "{:.0%}"),
    )
    for label, key, form in rows:
        values = (found[window][key] for window in ("collect", "learn"))
        table.add_row(label, *("-" if value is None else form.format(value) for value in values))
    console.print(table)
    for window in ("collect", "learn"):
        for kernel in found[window]["longest"]:
            console.print(
                f"{window}: {kernel['us']:8.1f} us in {kernel['launches']:6.1f} launches  {kernel['name'][:80]}"
            )


def main() -> None:
    """Record one iteration of a request's training on a GPU."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "request", type=Path, help="the file of a request, such as results/STUDY/trials/0000/request.json"
    )
    parser.add_argument("--output", type=Path, default=Path("profile.json"), help="(default: profile.json)")
    parser.add_argument("--timed", type=int, default=8, help="iterations that are timed and not recorded (8)")
    arguments = parser.parse_args()
    request = request_of(arguments.request)
    runner, agent = runner_of(request)
    if runner.device == "cpu":
        raise UserError("a profile is of kernels of a GPU, and this machine has none. Run it on one")
    events, seconds = profiled(runner, agent, request.warmup_iterations, arguments.timed)
    launches = launches_in(events)
    mini_batches = agent.algorithm.num_learning_epochs * agent.algorithm.num_mini_batches
    found: dict[str, Any] = {
        "request": request.model_dump(mode="json"),
        "environment": environment.observe(str(runner.device)).model_dump(mode="json"),
        "iteration_s": median(seconds),
        "fps_total": request.num_envs * request.horizon / median(seconds),
    }
    for key, name, parts in (("collect", COLLECT, request.horizon), ("learn", LEARN, mini_batches)):
        start, end = window_of(events, name)
        inside = [own for own in launches if start <= own.start_us < end]
        found[key] = summary(inside, end - start, parts)
    write_atomically(arguments.output, json.dumps(found, indent=1) + "\n")
    show(Console(), found)


if __name__ == "__main__":
    run_command(main)
