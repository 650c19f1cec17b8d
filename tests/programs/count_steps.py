"""A trial's process that writes a byte to FILE for each step of an optimizer: TRIAL FILE.

PyTorch calls a hook after each step of any optimizer, whoever makes it; a trial ends without leaving room for a last word.
"""

import sys
from pathlib import Path

from envknee.run import process
from torch.optim.optimizer import register_optimizer_step_post_hook

counted = Path(sys.argv.pop()).open("ab", buffering=0)  # noqa: SIM115  open until the process ends


def count(*_):
    counted.write(b".")


register_optimizer_step_post_hook(count)
process.main()
