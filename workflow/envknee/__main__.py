"""`envknee COMMAND ...`, or `python -m envknee COMMAND ...`."""

import gc
import importlib
import sys

from envknee import commands
from envknee.study.errors import EXIT_USER_ERROR, UserError, run_command, tell


def main() -> None:
    """Run the command that is named first, with the arguments behind it."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        run_command(lambda: print(commands.usage(), end=""))
    try:
        command = commands.find(name)
    except UserError as error:
        tell(error)
        sys.exit(EXIT_USER_ERROR)
    del sys.argv[1]
    # Isaac Lab and MLflow make a million objects that stay: looking for garbage among them took a fifth of a start's CPU time.
    gc.set_threshold(100_000)
    run_command(importlib.import_module(command.module).main, f"envknee {name}")


if __name__ == "__main__":
    main()
