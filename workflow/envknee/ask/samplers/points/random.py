"""Points drawn at random without replacement, the same for all arms."""

from functools import partial

from envknee.ask.samplers.points import grid

order = partial(grid.order, sampler="random")
