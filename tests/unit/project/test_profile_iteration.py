"""What a trace of the profiler says of an iteration's kernels."""

from typing import Any

import pytest
from envknee.study.errors import UserError

from benchmarks.profile_iteration import Launch, busy_us, launches_in, summary, window_of


def kernel(name: str, start: float, duration: float, occupancy: float | None = 50.0) -> dict[str, Any]:
    """Return an event of a kernel as PyTorch's traces have it."""
    args = {} if occupancy is None else {"est. achieved occupancy %": occupancy}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start, "dur": duration, "args": args}


def test_kernels_and_copies_stand_in_the_order_of_their_start():
    host = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0.0, "dur": 9.0}
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 1.0, "dur": 2.0}
    found = launches_in([kernel("b", 5.0, 1.0), host, copy])
    assert found == [Launch("Memcpy DtoD", 1.0, 2.0, None), Launch("b", 5.0, 1.0, 0.5)]


def test_kernels_side_by_side_count_once_as_busy():
    launches = [
        Launch("a", 0.0, 4.0, 1.0),
        Launch("b", 1.0, 2.0, 1.0),
        Launch("c", 3.0, 3.0, 1.0),
        Launch("d", 10.0, 1.0, 1.0),
    ]
    assert busy_us(launches) == 7.0


def test_a_window_is_told_by_its_equal_parts():
    launches = [Launch("small", 0.0, 1.0, 0.25), Launch("small", 2.0, 1.0, 0.25), Launch("large", 4.0, 6.0, 1.0)]
    found = summary(launches, wall_us=20.0, parts=2)
    assert (found["wall_us"], found["busy_us"], found["kernels"], found["median_kernel_us"]) == (10.0, 4.0, 1.5, 1.0)
    assert found["idle_share"] == pytest.approx(0.6)
    assert found["occupancy"] == pytest.approx((0.25 + 0.25 + 6.0) / 8.0)
    assert [(own["name"], own["launches"], own["us"]) for own in found["longest"]] == [
        ("large", 0.5, 3.0),
        ("small", 1.0, 1.0),
    ]
    assert summary([], wall_us=20.0, parts=2)["median_kernel_us"] is None


def test_a_part_that_was_not_marked_once_is_told():
    mark = {"ph": "X", "cat": "user_annotation", "name": "envknee: learn", "ts": 3.0, "dur": 4.0}
    assert window_of([mark], "envknee: learn") == (3.0, 7.0)
    with pytest.raises(UserError, match="has 'envknee: collect' 0 times"):
        window_of([mark], "envknee: collect")
