"""The verdict over a person's own measurements, from any simulator.

python -m envknee.limits fps.csv                      a table, the threshold, and what other methods say
python -m envknee.limits fps.csv --device-gb 80       and how many environments fit that memory
python -m envknee.limits fps.csv --json               all of it as JSON
"""

import argparse
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from envknee.config import Decide
from envknee.errors import UserError, run_command
from envknee.files import canonical_json
from envknee.limits.table import COLUMNS, LARGEST, OUT_OF_MEMORY, Table, decode, parse
from envknee.limits.table_summary import print_table_verdict
from envknee.limits.table_verdict import decide

COLUMN_HELP = "\n".join(
    f"  {column.name:<18} {'required' if column.required else 'optional'}  {column.meaning}" for column in COLUMNS
)

EPILOG = f"""columns:
{COLUMN_HELP}

A header and a row per measurement, in any order, separated by commas, UTF-8; lines that start with # are comments.
A doubling is compared where both N and 2N were measured, with any N. Repeats of a point need the column repeat; without
it every point has one, and one repeat never reaches a threshold: nothing tells its gain from noise.

Out of memory: write {OUT_OF_MEMORY} for fps. Censoring: where a training ended before it reached the target, leave
seconds_to_target empty and give its budget_s; with both empty, learning counts as not measured in that row.

example:
  num_envs,fps,repeat,vram_gb
  1024,39100,0,10.3
  1024,39400,1,10.3
  2048,49500,0,18.4
  2048,49900,1,18.4
"""


def read_table(path: Path) -> Table:
    """Read a CSV file.

    Raises:
        UserError: when it cannot be read, or is no such table.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror or error}. Expected a CSV file with the columns num_envs and fps;"
            " `python -m envknee.limits --help` shows one."
        ) from error
    return parse(decode(data, str(path)), str(path))


def settings_of(arguments: argparse.Namespace) -> Decide:
    """Return how to decide.

    Raises:
        UserError: when an option is out of its range.
    """
    given = {name: getattr(arguments, name) for name in Decide.model_fields if hasattr(arguments, name)}
    try:
        return Decide(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise UserError(
            f"--{name.replace('_', '-')} is {first['input']}: {first['msg']}."
            f" Give a share such as {Decide.model_fields[name].default:g}."
        ) from error


def main() -> None:
    """Print where doubling num_envs stops paying, from a CSV file with any simulator's measurements."""
    parser = argparse.ArgumentParser(
        description=main.__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Decide()
    parser.add_argument("table", type=Path, help="a CSV file with the columns num_envs and fps, and others below")
    parser.add_argument(
        "--delta", type=float, default=default.delta, help="a doubling that gains less has stopped paying (%(default)s)"
    )
    parser.add_argument(
        "--confidence", type=float, default=default.confidence, help="of every interval and bound (%(default)s)"
    )
    parser.add_argument("--device-gb", type=float, help="memory of the GPU, GB (1e9 bytes), to see how many fit")
    parser.add_argument(
        "--memory-margin", type=float, default=default.memory_margin, help="share of it to keep free (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    arguments = parser.parse_args()
    if arguments.device_gb is not None and not 0.0 < arguments.device_gb <= LARGEST:
        raise UserError(f"--device-gb is {arguments.device_gb:g}: expected GB above 0, such as 80.")
    verdict = decide(read_table(arguments.table), arguments.table.name, settings_of(arguments), arguments.device_gb)
    if arguments.json:
        print(canonical_json(verdict), end="")
    else:
        print_table_verdict(verdict, Console(markup=False, highlight=False, emoji=False))


if __name__ == "__main__":
    run_command(main)
