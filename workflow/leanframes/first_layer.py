"""The first convolution of a camera network, on uint8 frames, in CUDA C++ compiled by PyTorch's NVRTC.

It replaces the Triton kernels of `fused` if `why_not` returns None. It takes 0.26 (forward) and 0.21 (weights) of their time, which is
1.3 and 1.8 times the time to move its bytes (H100, 8,192 images, `benchmarks/bench_first_layer.py`). first_layer.cu explains the kernels.

Arithmetic: bytes are exact. Forward rounds weights to float16, which is closer than bfloat16. The weights' gradient multiplies bytes and
gradients in bfloat16. Both accumulate in float32. The same inputs give the same bits.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

SOURCE = Path(__file__).with_name("first_layer.cu")

ROWS = 12
"""Output rows of a band: 6, 8 and 16 were slower on an H200 (96 x 96 pixels, 6 planes)."""

LEAST_CAPABILITY = (9, 0)
"""First compute capability with bulk copies to shared memory."""

SHARED_BYTES = 227 * 1024
"""Dynamic shared memory of a multiprocessor of compute capability 9.0, for all its blocks (CUDA C++ Programming Guide)."""

MOST_WARPS = 8

MOST_THREADS = (768, 576)
"""Most threads of a multiprocessor, forward and weights: more would leave fewer than the 80 and 95 registers that a thread takes."""


class Shape(NamedTuple):
    """Sizes for which kernels are compiled."""

    planes: int
    """Channels of an image."""
    height: int
    width: int
    outputs: int
    kernel_height: int
    kernel_width: int

    @property
    def rows(self) -> int:
        """Rows of the output."""
        return (self.height - self.kernel_height) // 2 + 1

    @property
    def columns(self) -> int:
        """Columns of the output."""
        return (self.width - self.kernel_width) // 2 + 1

    @property
    def taps(self) -> tuple[int, int]:
        """Rows and columns of the folded kernel."""
        return (self.kernel_height + 1) // 2, (self.kernel_width + 1) // 2

    @property
    def tiles(self) -> int:
        """Number of tiles of 16 output columns."""
        return -(-self.columns // 16)

    @property
    def groups(self) -> int:
        """Groups of warps that share a band's rows."""
        return max(1, MOST_WARPS // self.tiles)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.tiles * self.groups

    @property
    def depth(self) -> int:
        """Numbers in a folded row of taps, padded to a multiple of 16."""
        return -(-self.taps[1] * 4 * self.planes // 16) * 16

    def layout(self, weight: torch.Tensor) -> torch.Tensor:
        """Return a weight [o, c, kh, kw] as the weights' kernel writes it, with zeros: [rows of folded taps, depth, o]."""
        rows, columns = self.taps
        whole = functional.pad(weight, (0, 2 * columns - self.kernel_width, 0, 2 * rows - self.kernel_height))
        folded = whole.view(self.outputs, self.planes, rows, 2, columns, 2).permute(2, 4, 1, 3, 5, 0)
        folded = folded.reshape(rows, columns * 4 * self.planes, self.outputs)
        return functional.pad(folded, (0, 0, 0, self.depth - folded.shape[1]))

    @property
    def shared_bytes(self) -> tuple[int, int]:
        """Bytes of shared memory of a block, in the forward kernel and in the weights' kernel."""
        folded_rows, channels = ROWS + self.taps[0] - 1, 4 * self.planes
        raw = self.planes * 2 * folded_rows * self.width + self.planes // 2 * 16
        folded = folded_rows * (self.width // 2 + 1) * channels * 2 + self.depth * 2 + 16 * channels * 2
        return raw + folded, raw + folded + 2 * ROWS * self.columns * self.outputs * 2

    @property
    def blocks(self) -> tuple[int, int]:
        """Blocks of a multiprocessor, in the forward kernel and in the weights' kernel; fewer blocks leave a thread more registers."""
        forward, weights = (SHARED_BYTES // (shared + 1024) for shared in self.shared_bytes)
        return min(forward, MOST_THREADS[0] // self.threads), min(weights, MOST_THREADS[1] // self.threads)


def why_not(shape: Shape, stride: int, capability: tuple[int, int]) -> str | None:
    """Return why these kernels cannot compute a layer on a GPU of this compute capability, or None if they can. Pure."""
    if capability < LEAST_CAPABILITY:
        return f"the GPU has compute capability {capability[0]}.{capability[1]}, and bulk copies came with 9.0"
    if stride != 2:
        return f"stride {stride}: only 2 is implemented"
    if shape.planes % 2 or shape.outputs % 8 or shape.width % 16 or shape.height % 2:
        return f"{shape}: planes must be even, outputs a multiple of 8, the width of 16, the height even"
    if shape.tiles > MOST_WARPS or min(shape.rows, shape.columns) < 1:
        return f"{shape}: more than {MOST_WARPS * 16} output columns, or none"
    if min(shape.blocks) < 1:
        return f"{shape}: a band of rows takes {max(shape.shared_bytes) // 1024} KB of shared memory, beyond 226 KB"
    return None


class Kernels(NamedTuple):
    """The compiled kernels of one shape on one GPU."""

    shape: Shape
    forward_kernel: Any
    weights_kernel: Any
    multiprocessors: int

    def forward(
        self, frames: torch.Tensor, planes: torch.Tensor, weight: torch.Tensor, shift: torch.Tensor
    ) -> torch.Tensor:
        """Return the activations [b, oh, ow, o] in bfloat16.

        Args:
            frames: [p, h, w], uint8, contiguous
            planes: indices of the planes that are the channels of each image [b, c], int64
            weight: [o, c, kh, kw], float32, for inputs of bytes / 255
            shift: added before the activation [b, o], float32
        """
        shape, planes = self.shape, planes.contiguous()
        out = torch.empty(
            len(planes), shape.rows, shape.columns, shape.outputs, dtype=torch.bfloat16, device=frames.device
        )
        arguments = [frames, planes, weight.contiguous(), shift.contiguous(), out, len(planes)]
        self._launch(self.forward_kernel, 0, arguments)
        return out

    def gradients(
        self, frames: torch.Tensor, planes: torch.Tensor, grad: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return parts [blocks, ...] that add up to the weights' gradient for inputs of bytes, and each image's sum of `grad` [b, o].

        Both are float32; the parts are in the layout of `Shape.layout`.

        Args:
            frames: as for `forward`
            planes: as for `forward`
            grad: gradient of the activations times the activation's slope [b, oh, ow, o], bfloat16
        """
        shape, planes = self.shape, planes.contiguous()
        rows, outputs = shape.taps[0], shape.outputs
        partial = torch.empty(self.multiprocessors * shape.blocks[1], rows, shape.depth, outputs, device=grad.device)
        sums = torch.empty(len(planes), outputs, device=grad.device)
        self._launch(self.weights_kernel, 1, [frames, planes, grad.contiguous(), partial, sums, len(planes)])
        return partial, sums

    def _launch(self, kernel: Any, number: int, arguments: list[Any]) -> None:
        shape = self.shape
        grid = (self.multiprocessors * shape.blocks[number], shape.outputs // 8, 1)
        kernel(grid=grid, block=(shape.threads, 1, 1), args=arguments, shared_mem=shape.shared_bytes[number])


def kernels_for(height: int, width: int, weight: torch.Tensor, stride: int, is_elu: bool) -> Kernels | None:
    """Return the kernels for a layer [o, c, kh, kw] on frames of this size, on the weight's GPU, or None if they cannot compute it."""
    outputs, planes, kernel_height, kernel_width = weight.shape
    shape = Shape(planes, height, width, outputs, kernel_height, kernel_width)
    return _compiled(shape, stride, is_elu, weight.device.index)


@lru_cache
def _compiled(shape: Shape, stride: int, is_elu: bool, device: int) -> Kernels | None:
    """Compile the kernels, once per process and shape: about a second."""
    if why_not(shape, stride, torch.cuda.get_device_capability(device)) is not None:
        return None
    sizes = {
        "C": shape.planes, "H": shape.height, "W": shape.width, "O": shape.outputs, "KH": shape.kernel_height,
        "KW": shape.kernel_width, "ELU": int(is_elu), "R": ROWS, "GROUPS": shape.groups,
        "FORWARD_BLOCKS": shape.blocks[0], "WEIGHTS_BLOCKS": shape.blocks[1],
    }  # fmt: skip
    source = "".join(f"#define {name} {value}\n" for name, value in sizes.items()) + SOURCE.read_text(encoding="utf-8")
    with torch.cuda.device(device):
        major, minor = torch.cuda.get_device_capability(device)
        forward, weights = (
            torch.cuda._compile_kernel(source, name, compute_capability=f"{major}{minor}")
            for name in ("forward", "weights")
        )
        for kernel, shared in zip((forward, weights), shape.shared_bytes, strict=True):
            kernel.set_shared_memory_config(shared)
    return Kernels(shape, forward, weights, torch.cuda.get_device_properties(device).multi_processor_count)
