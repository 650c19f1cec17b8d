"""A function of tensors that stay where they are, as one CUDA graph. Knows torch, and nothing of Isaac Lab."""

from collections.abc import Callable

import torch


class Captured:
    """Does what a function does, on a GPU by replaying its kernels with one launch: the CPU is what a short step waits for.

    The function takes and returns nothing. It reads and writes tensors that are never made anew, and waits for nothing. Random
    numbers come from PyTorch's generator of the device, which goes on as it would without a graph: PyTorch registers it with
    each capture, and every replay draws further on.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, warm_ups: int = 1) -> None:
        """Take a function that is called as it is on a CPU, and on a GPU the first `warm_ups` times."""
        self._function = function
        self._is_cuda = device.type == "cuda"
        self._warm_ups = warm_ups
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do it."""
        if not self._is_cuda or self._warm_ups > 0:
            self._warm_ups -= 1
            self._function()
            return
        if self._graph is None:
            self._graph = capture(self._function)
        self._graph.replay()


def capture(function: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Return the graph of a function, without doing it.

    As `torch.cuda.graph` does it, but for its waiting for the GPU and emptying PyTorch's cache, which would show in what is measured.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # Other threads go on meanwhile: one of them may watch the memory.
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            function()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph
