"""Prints the names of those of some commands that explain themselves, in one process: each would import the same."""

import contextlib
import io
import sys

from envknee.__main__ import main

for name in sys.argv[1:]:
    printed, sys.argv = io.StringIO(), ["envknee", name, "--help"]
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main()
    if printed.getvalue().startswith(f"usage: envknee {name} "):
        print(name)
