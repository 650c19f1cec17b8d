"""`envknee presets`: the programs whose flags and logs are known."""

import argparse

from envknee.study import presets
from envknee.study.errors import UserError
from envknee.trainers.command.presets import names


def main() -> None:
    """List the presets of foreign commands, or print one."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", nargs="?", help="print this one, to be copied and changed")
    name = parser.parse_args().name
    if name is None:
        width = max(map(len, names()))
        for preset in names():
            print(f"{preset:<{width}}  {presets.read(preset).about}")
        return
    try:
        presets.read(name)
    except ValueError as error:
        raise UserError(str(error)) from error
    print(presets.path_of(name).read_text(encoding="utf-8"), end="")
