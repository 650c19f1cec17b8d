"""The first layer of the camera cart-pole's network on an NVIDIA GPU: CUDA C++ beside Triton, in turns, and the floor of its bytes.

    python benchmarks/bench_first_layer.py [IMAGES]

Prints milliseconds (median of 7, smallest and largest), both errors against float64 over 512 images, and how long it takes to
move the bytes that each direction must move, at the rate of a copy that was measured beside them.
"""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

import torch
from leanframes import first_layer, fused

IMAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 8192
FEW, STEPS, ENVS = 512, 33, 1024


def milliseconds(call: Callable[[], object], times: int = 10) -> float:
    """Return how long a call keeps the GPU, a mean of `times` in a row."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    call()
    start.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / times


def apart(have: torch.Tensor, want: torch.Tensor) -> float:
    """Return the relative error, by norms."""
    return ((have.double() - want.double()).norm() / want.double().norm()).item()


def main() -> None:
    """Check both against float64, then time them in turns."""
    torch.manual_seed(0)
    frames = torch.randint(0, 256, (STEPS * ENVS * 3, 96, 96), dtype=torch.uint8, device="cuda")
    step, env = (torch.randint(low, high, (IMAGES,), device="cuda") for low, high in ((1, STEPS), (0, ENVS)))
    rgb = torch.arange(3, device="cuda")
    planes = torch.cat([((step - age) * ENVS + env)[:, None] * 3 + rgb for age in (1, 0)], 1)
    convolution = torch.nn.Conv2d(6, 8, 5, 2).cuda()
    assert convolution.bias is not None
    layer = fused.Layer(convolution.weight.detach(), convolution.bias.detach(), 2, False)
    packed = fused.Packed(fused.weight_for_triton(layer), layer.bias)
    sums = frames.view(len(frames), -1).sum(1, dtype=torch.int64)
    means, shift = fused.means_and_shifts(frames, sums, planes, layer)
    grad = (torch.randn(IMAGES, 46, 46, 8, device="cuda") * 1e-4).bfloat16()
    assert first_layer.kernels_for(96, 96, layer.weight, 2, False), "this GPU has no bulk copies to shared memory"

    def cuda_forward(count: int = IMAGES) -> torch.Tensor:
        return fused.forward_of_bytes(frames, shift[:count], planes[:count], layer, packed)

    def cuda_weights(count: int = IMAGES) -> torch.Tensor:
        return fused.gradients_of_bytes(frames, means[:count], planes[:count], grad[:count], layer)[0]

    def triton_forward(count: int = IMAGES) -> torch.Tensor:
        return fused.forward_of_bytes_in_triton(frames, shift[:count], planes[:count].contiguous(), layer, packed)

    def triton_weights(count: int = IMAGES) -> torch.Tensor:
        planes_of, means_of = planes[:count].contiguous(), means[:count]
        return fused.gradients_of_bytes_in_triton(frames, means_of, planes_of, grad[:count].contiguous(), layer)[0]

    images = frames[planes[:FEW]].double() / 255.0
    weight = layer.weight.double().requires_grad_()
    exact = torch.nn.functional.conv2d(images - images.mean((2, 3), keepdim=True), weight, layer.bias.double(), 2)
    exact.backward(grad[:FEW].double().permute(0, 3, 1, 2))
    activations, gradient = exact.detach().clamp(min=0).permute(0, 2, 3, 1), weight.grad
    assert gradient is not None
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {IMAGES:,} images of 6 x 96 x 96 bytes")
    for name, forward, weights in (("CUDA", cuda_forward, cuda_weights), ("Triton", triton_forward, triton_weights)):
        errors = apart(forward(FEW), activations), apart(weights(FEW), gradient)
        print(f"{name:8s} error against float64: forward {errors[0]:.1e}, weights {errors[1]:.1e}")

    buffer = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    calls: dict[str, Callable[[], object]] = {
        "CUDA forward": cuda_forward,
        "Triton forward": triton_forward,
        "CUDA weights": cuda_weights,
        "Triton weights": triton_weights,
        "copy of 512 MiB": lambda: buffer[: 2**29].copy_(buffer[2**29 :]),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(7):
        for name, call in calls.items():
            times[name].append(milliseconds(call))
    rate = 2**30 / statistics.median(times["copy of 512 MiB"]) * 1e3  # bytes per second, read and written
    floor = IMAGES * (6 * 96 * 96 + 46 * 46 * 8 * 2) / rate * 1e3
    for name, values in times.items():
        middle = statistics.median(values)
        times_floor = "" if name.startswith("copy") else f", {middle / floor:.2f} times the floor"
        print(f"{name:16s} {middle:7.3f} ms ({min(values):.3f} to {max(values):.3f}){times_floor}")
    print(f"floor            {floor:7.3f} ms: what one direction moves, at {rate / 1e12:.2f} TB/s")


if __name__ == "__main__":
    main()
