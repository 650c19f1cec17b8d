"""With this folder on PYTHONPATH `isaaclab train` takes the kernels that trials compiled, which are without gradients.

It would compile all again, for a minute, and its training asks for no gradient of a kernel.
"""

import warp

warp.config.enable_backward = False
