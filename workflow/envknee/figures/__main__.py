"""Run the command of `envknee.figures`."""

from envknee.errors import run_command
from envknee.figures import main

run_command(main)
