"""Replays a function on fixed tensors as one CUDA graph."""

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import torch


class Captured:
    """Calls a function; on a GPU replays its kernels with one launch, because launches from the CPU limit a short step.

    The function takes and returns nothing, reads and writes the same tensors in every call, and never waits for the GPU. Random
    numbers come from PyTorch's generator of the device and continue as without a graph: PyTorch registers the generator with each
    capture, and every replay advances it.
    """

    def __init__(
        self,
        function: Callable[[], None],
        device: torch.device,
        name: str,
        pool: Any = None,
        before_capture: Callable[[], None] | None = None,
    ) -> None:
        """Prepare a function on tensors of `device`, with a name for the log if it cannot be captured.

        It runs without a graph on a CPU, in its first call, and if it waits for the GPU: the first call then repeats it. `pool` is memory
        shared by several graphs (`torch.cuda.graph_pool_handle`), which must be replayed in the order of their capture. `before_capture` is
        called once, after the first call.
        """
        self._pool, self._before_capture = pool, before_capture
        self._function = function
        self._name = name
        self._run = self._warm_up if device.type == "cuda" else function

    def __call__(self) -> None:
        """Run the function; the second call on a GPU captures it."""
        self._run()

    def _warm_up(self) -> None:
        """Run the function for the first time, and find out whether it waits for the GPU: a failed capture cannot be repaired."""
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            self._function()
            self._run = self._capture
            return
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            reason = str(error).splitlines()[0]
        finally:
            torch.cuda.set_sync_debug_mode(before)
        self._run = self._function
        print(f"leanframes: {self._name} is not captured, and slower: {reason}", file=sys.stderr, flush=True)
        self._function()

    def _capture(self) -> None:
        if self._before_capture is not None:
            self._before_capture()
        self._run = capture(self._function, self._pool).replay
        self._run()


@cache
def stream_of(device_index: int) -> torch.cuda.Stream:
    """Return the one stream on which all graphs of a GPU are captured: cuBLAS keeps a workspace of 34 MB per stream."""
    return torch.cuda.Stream(device_index)


@cache
def branch_of(device_index: int) -> torch.cuda.Stream:
    """Return the stream of a GPU on which the other branch of a captured graph runs (`beside`)."""
    return torch.cuda.Stream(device_index)


def beside(branch: Callable[[], torch.Tensor], rest: Callable[[], None], read: Iterable[torch.Tensor]) -> torch.Tensor:
    """Run `branch` on a stream of its own while `rest` runs, and return its tensor once both are done. Only while a graph is captured.

    Their kernels become parallel parts of the graph, and so do those of their backward passes. Small kernels leave most of a GPU idle.
    `read` are the tensors that the branch reads: their memory is not used again before it has.
    """
    device_index = torch.cuda.current_device()
    trunk, other = torch.cuda.current_stream(), branch_of(device_index)
    other.wait_stream(trunk)
    with torch.cuda.stream(other):
        result = branch()
    rest()
    trunk.wait_stream(other)
    for tensor in read:
        tensor.record_stream(other)
    result.record_stream(trunk)
    return result


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Keep Python from collecting garbage while a graph is captured.

    Graphs and arrays of an earlier learner may be in the garbage, and CUDA breaks a capture off when they are freed meanwhile. Isaac Lab
    3.0.0's `NewtonQueries` does the same.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def capture(function: Callable[[], None], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Return the graph of a function without running its kernels. Its memory comes from `pool`; None: from a pool of its own.

    Unlike `torch.cuda.graph` it neither waits for the GPU nor empties PyTorch's cache: both would distort measurements.
    """
    graph, stream = torch.cuda.CUDAGraph(), stream_of(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with without_garbage_collection(), torch.cuda.stream(stream):
        # Other threads may call CUDA meanwhile, for example to watch the memory.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            function()
        except BaseException:
            with suppress(RuntimeError):  # says that the capture failed, but not why: memory may have run out
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph
