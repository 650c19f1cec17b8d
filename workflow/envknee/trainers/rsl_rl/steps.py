"""Which steps the lean learner takes beyond keeping frames as uint8: each a switch of its own, measured alone.

`python benchmarks/bench_learner.py` measures them on any device. Gains below are of an update's time at 4,096 environments x 32 steps of
96 x 96 pixels on an H200, lean without steps being 1 (0.88 of stock); docs/lean.md has the table.
"""

from dataclasses import dataclass, fields
from typing import Any

from envknee.study.errors import UserError, nearest

FUSED_IMAGES_AT_ONCE = 3072
"""Enough to keep a GPU's kernels busy. A mini-batch of 8,192 then goes in three parts. Acting in parts saves nothing: its activations lie
where the next step's observations will."""


@dataclass(frozen=True)
class LearnerSteps:
    """What `LeanPPO` and `LeanCNNModel` do; as fields of an arm: `overrides: {agent.algorithm.steps.fused: false}`."""

    channels_last: bool | None = None
    """PyTorch's convolutions take images whose channels are neighbours in memory: for networks that `fused` does not take. Equal
    within float error. Takes 0.78 of the time. None: on a GPU where `fused` is off and `LeanCNNModel`s alone read images."""

    fused: bool | None = None
    """Convolutions by `envknee.lean.fused`, which read the rollout's bytes, in bfloat16, also when acting.
    With `fused_adam` an update takes 0.33 of stock's time on an H100. None: on an NVIDIA GPU, where the network allows it."""

    fused_adam: bool | None = None
    """The optimizer's step in one kernel (PyTorch's `fused`). Equal within float error. Beside the others it takes
    0.93 of their time. None: where `fused` is on."""

    rate_on_device: bool = True
    """An adaptive learning rate is computed on the device: the CPU never waits within an update. Equal to the bit."""

    images_at_once: int | None = None
    """So many transitions go through the convolutions at a time in learning: less memory, more kernels. Unless `fused`, so they do through
    all else, and when acting, and gradients add up to a mini-batch's. Equal within float error. None: all of an environment step, or of
    a mini-batch; where `fused` is on, `FUSED_IMAGES_AT_ONCE`."""

    cuda_graph: bool | None = None
    """A mini-batch's whole step is captured once and replayed: launches take longer than fused kernels. CUDA only; the same kernels, what
    ranks tell each other (NCCL) included. Beside `fused`, on an H100, it takes 0.56 of the time. None: where that is on and mini-batches
    are whole."""

    captured_acting: bool | None = None
    """Acting and storing are a captured graph each, in all steps of a rollout but the first: launches take longer than such kernels,
    and drawing an action never waits for the GPU. The same actions, to the bit where kernels are the same. On a CPU the same calls,
    uncaptured. None: where `cuda_graph` is on and the policy can. In one run on an H100 with a slow host a rollout of
    32 steps then took 0.62 of the time at 1,024 environments, and 0.81 at 4,096."""

    @classmethod
    def of(cls, values: "dict[str, Any] | LearnerSteps | None") -> "LearnerSteps":
        """Return the steps that a configuration names; what it leaves out is as by default.

        Raises:
            UserError: names a switch that is not there, or a value that is not legal.
        """
        if isinstance(values, LearnerSteps):
            return values
        named = dict(values or {})
        legal = {field.name: field.default for field in fields(cls)}
        for name, value in named.items():
            if name not in legal:
                raise UserError(f"steps: {name} is no step{nearest(name, legal)}. There are: {', '.join(legal)}")
            if name == "images_at_once":
                if value is not None and (type(value) is not int or value < 1):
                    raise UserError(f"steps.images_at_once: {value!r} is neither a whole number from 1 on nor null")
            elif not isinstance(value, bool) and not (value is None and legal[name] is None):
                raise UserError(f"steps.{name}: {value!r} is neither true nor false")
        return cls(**named)
