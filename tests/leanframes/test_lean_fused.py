"""Convolutions that read bytes give what PyTorch's give for normalized images, and its gradients: on an NVIDIA GPU."""

import pytest
import torch
from torch import nn

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


BFLOAT16 = 2**-9
"""How far from a number its nearest in bfloat16 may be."""


@pytest.mark.parametrize(
    ("height", "width", "channels", "sizes", "fused"),
    [
        (96, 96, 6, [(8, 5, 2), (16, 3, 2), (16, 3, 2)], 3),
        (82, 84, 3, [(24, 8, 4), (24, 4, 2), (8, 3, 1)], 3),
        (64, 48, 12, [(20, 4, 2), (32, 3, 2)], 1),  # 20 channels are no multiple of 8
        (128, 128, 8, [(16, 4, 2), (16, 3, 2)], 2),  # what `first_layer` computes, as the first and these
        (64, 64, 4, [(32, 7, 2), (8, 3, 2)], 2),
        (40, 112, 2, [(24, 3, 2), (8, 3, 2)], 2),
    ],
)
@pytest.mark.parametrize("activation", [nn.ReLU, nn.ELU])
def test_activations_and_gradients_are_as_close_as_bfloat16_is(height, width, channels, sizes, fused, activation):
    from leanframes import fused as module

    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    layers, inputs = [], channels
    for outputs, kernel, stride in sizes:
        layers += [nn.Conv2d(inputs, outputs, kernel, stride), activation()]
        inputs = outputs
    network = nn.Sequential(*layers, nn.Flatten()).cuda()
    for layer in layers[::2]:
        layer.weight.data = layer.weight.data.bfloat16().float()  # what is left is rounding on the way
    frames = torch.randint(0, 256, (50, height, width), dtype=torch.uint8, device="cuda:0")
    sums, planes = frames.long().sum((1, 2)), torch.randint(0, 50, (300, channels), device="cuda:0")

    images = frames[planes].float() / 255 - (sums[planes] / (255.0 * height * width)).float()[:, :, None, None]
    expected, parameters = network(images), list(network.parameters())
    slope = torch.randn_like(expected)
    slopes = torch.autograd.grad(expected, parameters, slope)
    with torch.autocast("cuda", torch.bfloat16):
        usual = network(images)
    usual_slopes = torch.autograd.grad(usual, parameters, slope.bfloat16())

    first, others = module.layers_of(network, height, width)
    assert len(first) == fused and isinstance(others[-1], nn.Flatten)

    def followed(activations: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return nn.Sequential(*others)(activations)

    activations = module.convolve(frames, sums, planes, first)
    with torch.no_grad():
        again = module.convolve(frames, sums, planes, first, module.pack(first, height, width))
    assert activations.dtype == torch.float32 and torch.equal(again, activations)
    activations = followed(activations)
    # Rounding elsewhere than cuDNN's kernels do: gradients were up to 12% further away on an H200, and of 8 biases, to which
    # rounding is kind or not, 0.4% from what they are.
    assert apart(activations, expected) < 1.25 * apart(usual, expected) < 0.02
    given = slope.bfloat16().to(activations.dtype)
    fused_slopes = torch.autograd.grad(activations, parameters, given, retain_graph=True)
    for ours, usual_slope, exact in zip(fused_slopes, usual_slopes, slopes, strict=True):
        assert ours.dtype == torch.float32
        usually = apart(usual_slope, exact)
        assert apart(ours, exact) < max(1.25 * usually, 3 * BFLOAT16) and usually < 0.15
    own = parameters[: 2 * fused]  # those of PyTorch's layers need not repeat themselves
    for _ in range(20):  # where a kernel's loads overtook each other, one of three gradients differed
        repeated = followed(module.convolve(frames, sums, planes, first))
        for slope, again in zip(fused_slopes, torch.autograd.grad(repeated, own, given), strict=False):
            assert torch.equal(slope, again)
    # Gradients took the place of activations.
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(activations, parameters, given)


def apart(left: torch.Tensor, right: torch.Tensor) -> float:
    return ((left.float() - right.float()).norm() / right.norm()).item()


@pytest.mark.parametrize("count", [1, 7, 2000])
def test_the_first_layer_is_computed_in_cuda_where_it_can_be_and_repeats_itself(count: int):
    from leanframes import first_layer, fused

    torch.manual_seed(1)
    layer = fused.Layer(torch.randn(8, 6, 5, 5, device="cuda"), torch.randn(8, device="cuda"), 2, False)
    frames = torch.randint(0, 256, (90, 96, 96), dtype=torch.uint8, device="cuda")
    planes = torch.randint(0, 90, (count, 6), device="cuda")
    kernels = first_layer.kernels_for(96, 96, layer.weight, layer.stride, layer.is_elu)
    shape = first_layer.Shape(6, 96, 96, 8, 5, 5)
    assert (kernels is None) == (first_layer.why_not(shape, 2, torch.cuda.get_device_capability()) is not None)
    if kernels is None:
        pytest.skip("this GPU has no bulk copies to shared memory")

    images, weight = frames[planes].double() / 255, layer.weight.double().requires_grad_()
    shift = torch.randn(count, 8, device="cuda")
    before = nn.functional.conv2d(images, weight, None, 2) + shift.double()[:, :, None, None]
    out = kernels.forward(frames, planes, layer.weight, shift)
    assert apart(out.permute(0, 3, 1, 2).double(), before.clamp(min=0)) < 4e-3
    grad = torch.randn(count, 46, 46, 8, device="cuda").bfloat16()
    (exact,) = torch.autograd.grad(before, weight, grad.permute(0, 3, 1, 2).double())
    parts, sums = kernels.gradients(frames, planes, grad)
    places = fused._places_in(shape.layout, layer.weight.shape, layer.weight.device)
    slopes = fused.add_up(parts, places, layer.weight.numel(), 1 / 255).view_as(layer.weight)
    assert apart(slopes.double(), exact) < 1e-4
    assert apart(sums.double(), grad.double().sum((1, 2))) < 1e-5
    again = kernels.gradients(frames, planes, grad)
    assert torch.equal(again[0], parts) and torch.equal(again[1], sums)
    assert torch.equal(kernels.forward(frames, planes, layer.weight, shift), out)
