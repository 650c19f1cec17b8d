"""`envknee COMMAND ...`, or `python -m envknee COMMAND ...`."""

import gc
import importlib
import sys

from envknee.commands import COMMANDS, usage
from envknee.study.errors import EXIT_USER_ERROR, nearest, run_command, tell


def main() -> None:
    """Run the command that is named first, with the arguments behind it."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        run_command(lambda: print(usage(), end=""))
    if name not in COMMANDS:
        tell(f"no command {name!r}{nearest(name, COMMANDS)}. `envknee --help` lists them.")
        sys.exit(EXIT_USER_ERROR)
    command = COMMANDS[name]
    command.let_python_find_it()
    del sys.argv[1]
    # Isaac Lab and MLflow make a million objects that stay: looking for garbage among them took a fifth of a start's CPU time.
    gc.set_threshold(100_000)
    run_command(importlib.import_module(command.module).main, f"envknee {name}")


if __name__ == "__main__":
    main()
