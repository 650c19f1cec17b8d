"""Files that ship with envknee, so that nothing is downloaded from NVIDIA's asset server."""

from pathlib import Path

CARTPOLE_USD = Path(__file__).with_name("cartpole.usda")
"""The cart-pole."""

GROUND_USD = Path(__file__).with_name("ground.usda")
"""An infinite plane. It replaces NVIDIA's, whose looks no policy sees."""
