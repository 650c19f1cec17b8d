"""With this folder on PYTHONPATH `isaaclab train` takes the kernels that trials compiled, which are without gradients.

It would compile all again, for a minute, and its training asks for no gradient of a kernel. And Python looks less often for garbage
among what is imported and stays, as in a trial.
"""

import gc

import warp

gc.set_threshold(100_000)
warp.config.enable_backward = False
