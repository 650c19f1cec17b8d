"""`deterministic: true`: the same request gives the same training, bit for bit, on the same kind of machine.

Input: a device, and tensors. Output: PyTorch's and Warp's settings, and a digest of what was learned.

On a CPU nothing else is needed than these settings, seeds, and one thread (`processes.environment_of`): Warp runs a kernel there
as one loop, atomics in order, and Isaac Lab seeds every generator from the trial's seed (Warp 1.17, codegen.py:
`for (size_t task_index = 0; ...)`; it is PyTorch that shares sums out to threads). On a GPU Warp sorts what its atomics add
(DeterministicMode.RUN_TO_RUN, which Newton hands on to MuJoCo-Warp), cuBLAS gets a fixed workspace, and PyTorch takes its
deterministic kernels where it has them and warns in the trial's log where it has none. What differs all the same
`python -m envknee.repeats` measures. Another kind of CPU or GPU, or other versions, round differently. A trial that is ended by the
clock (`budget_s`) may have more iterations or fewer; those that both have are the same.
"""

import hashlib
from collections.abc import Mapping

import torch
import warp


def require(device: str) -> None:
    """Let PyTorch and Warp repeat themselves from here on; `device` is 'cpu' or 'cuda:0'.

    To be called before Warp's modules are made, and again once Isaac Lab has seeded its generators, which turns cuDNN's
    benchmark on (isaaclab.utils.seed.configure_seed, 3.0.0): it times kernels, and takes another one next time.
    """
    # Without a deterministic kernel the CPU stops: there the promise is kept. On a GPU the log tells.
    torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if device != "cpu":  # there it would change nothing, and have every kernel compiled once more
        warp.config.deterministic = warp.DeterministicMode.RUN_TO_RUN


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return a sha256 over names, types, shapes and bits of tensors."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        own = tensor.detach().cpu().contiguous()
        sha256.update(f"{name} {own.dtype} {tuple(own.shape)}\n".encode())
        sha256.update(own.reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha256.hexdigest()
