"""A function of tensors that stay where they are, as one CUDA graph. Knows torch, and nothing of Isaac Lab."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import torch


class Captured:
    """Does what a function does, on a GPU by replaying its kernels with one launch: the CPU is what a short step waits for.

    The function takes and returns nothing. It reads and writes tensors that are never made anew, and waits for nothing. Random
    numbers come from PyTorch's generator of the device, which goes on as it would without a graph: PyTorch registers it with
    each capture, and every replay draws further on.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, name: str, pool: Any = None) -> None:
        """Take a function that is called as it is on a CPU, and on a GPU the first time, or where it waits for the GPU after all.

        Args:
            function: what is done; to be done again after an error of its own
            device: where its tensors are
            name: what it is called in the log, should it not be captured
            pool: memory that graphs share (`torch.cuda.graph_pool_handle`), which are replayed in turns, in the order of their capture
        """
        self._pool = pool
        self._function = function
        self._name = name
        self._is_captured = device.type == "cuda"
        self._is_warm = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do it."""
        if not self._is_captured:
            self._function()
        elif not self._is_warm:
            self._is_warm = True
            self._warm_up()
        else:
            if self._graph is None:
                self._graph = capture(self._function, self._pool)
            self._graph.replay()

    def _warm_up(self) -> None:
        """Do it for the first time, and find out whether anything in it waits for the GPU: a capture that fails cannot be mended."""
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            self._function()
            return
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            reason = str(error).splitlines()[0]
        finally:
            torch.cuda.set_sync_debug_mode(before)
        self._is_captured = False
        print(f"envknee: {self._name} is not captured, and slower: {reason}", file=sys.stderr, flush=True)
        self._function()


@cache
def stream_of(device_index: int) -> torch.cuda.Stream:
    """Return the stream on which all graphs of a GPU are captured: cuBLAS keeps a workspace of 34 MB for each stream that it has seen."""
    return torch.cuda.Stream(device_index)


def capture(function: Callable[[], None], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Return the graph of a function, without doing it; its memory comes from `pool`, or is its own.

    As `torch.cuda.graph` does it, but for its waiting for the GPU and emptying PyTorch's cache, which would show in what is measured.
    """
    graph, stream = torch.cuda.CUDAGraph(), stream_of(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # Other threads go on meanwhile: one of them may watch the memory.
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            function()
        except BaseException:
            with suppress(
                RuntimeError
            ):  # which says only that the capture failed, and not why: memory may have run out
                graph.capture_end()
            raise
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph
