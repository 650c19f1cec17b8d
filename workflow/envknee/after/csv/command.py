"""A verdict over a user's own measurements, from any simulator: the command `envknee limits`."""

import argparse
import sys
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from envknee.after.csv.rows import COLUMNS, OUT_OF_MEMORY
from envknee.after.csv.table import Choice, Table, parse
from envknee.after.csv.terminal import print_pair, print_table_verdict
from envknee.after.csv.verdict import Options, compare, decide
from envknee.study.errors import UserError
from envknee.study.files import canonical_json

OPTIONS = {name: field for name, field in Options.model_fields.items() if name != "baseline"}

COLUMN_HELP = "\n".join(
    f"  {name:<18} {'required' if column.is_required() else 'optional'}  {column.description}"
    for name, column in COLUMNS.items()
)

EPILOG = f"""columns:
{COLUMN_HELP}

A header and a row per measurement, in any order; lines that start with # are comments. CSV, TSV, columns of spaces, Markdown,
HTML and reStructuredText with prose around, sizes in the headings, JSON records, JSON lines and Isaac Lab's training bundles are read, and
common names such as total_fps, "FPS (k)", s/iter or "VRAM (MiB)". Rows that differ in another column, such as gpu or task, are
series of their own.
Without repeats you get an estimate, from any ratio of sizes. A limit is "reached" by three repeats of N and 2N: number them in repeat.

Out of memory: write {OUT_OF_MEMORY} for fps. Censoring: where a training ended before it reached the target, leave
seconds_to_target empty and give its budget_s; with both empty, learning counts as not measured in that row.

example:
  num_envs,fps,repeat,vram_gb
  1024,39100,0,10.3
  1024,39400,1,10.3
  2048,49500,0,18.4
  2048,49900,1,18.4
"""


MOST_BYTES = 10_000_000
"""Largest file: as many rows as a table may have, with 500 bytes each."""


def read_table(path: Path, choice: Choice | None = None) -> Table:
    """Read a CSV file; `-` is standard input.

    Raises:
        UserError: when it cannot be read, is too large, is not UTF-8, or is not such a table.
    """
    source = "standard input" if str(path) == "-" else str(path)
    try:
        data = _beginning_of(path)
        if len(data) > MOST_BYTES:
            raise UserError(
                f"{source} has more than {MOST_BYTES:,} bytes, the most that a table may have. Keep the rows and columns of the"
                " measurement alone."
            )
        text = data.decode("utf-8-sig")  # without the byte order mark that spreadsheets write
        if "\0" in text:
            raise ValueError("it holds NUL bytes")
    except (OSError, ValueError) as error:
        raise UserError(
            f"{source} cannot be read: {getattr(error, 'strerror', None) or error}. Expected a table with the columns num_envs and"
            " fps, as UTF-8 text; `envknee limits --help` shows one."
        ) from error
    return parse(text, source, choice)


def _beginning_of(path: Path) -> bytes:
    """Return at most one byte more than a table may have: a device has no end."""
    if str(path) == "-":
        return sys.stdin.buffer.read(MOST_BYTES + 1)
    with path.open("rb") as stream:
        return stream.read(MOST_BYTES + 1)


def main() -> None:
    """Print where doubling num_envs stops paying, from a CSV file with any simulator's measurements."""
    parser = argparse.ArgumentParser(
        description=main.__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "table", type=Path, help="a table with the columns num_envs and fps, and others below; - for standard input"
    )
    parser.add_argument(
        "second", type=Path, nargs="?", metavar="TABLE", help="another one: its FPS over those of the first"
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="only rows with this value; may be given again",
    )
    parser.add_argument(
        "--fps", action="append", default=[], metavar="COLUMN", help="the column of FPS that counts; may be given again"
    )
    for name, option in OPTIONS.items():
        usual = "" if option.default is None else f" Default: {option.default:g}."
        words = f"--{name.replace('_', '-')}"
        parser.add_argument(words, type=float, default=option.default, help=f"{option.description}{usual}")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw FPS, the law and the limit: .svg, .png or .pdf")
    parser.add_argument("--json", action="store_true", help="print all of it as JSON")
    arguments = parser.parse_args()
    if arguments.plot is not None and arguments.plot.suffix not in (".svg", ".png", ".pdf"):
        raise UserError(f"--plot is {arguments.plot}: expected a name that ends in .svg, .png or .pdf.")
    choice = Choice(tuple(_condition(text) for text in arguments.where), tuple(arguments.fps))
    source = "standard input" if str(arguments.table) == "-" else arguments.table.name
    table = read_table(arguments.table, choice)
    try:
        options = Options(**{name: getattr(arguments, name) for name in OPTIONS})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        such = OPTIONS[name].default or (OPTIONS[name].examples or [])[0]
        raise UserError(
            f"--{name.replace('_', '-')} is {first['input']:g}: {first['msg']}. Give a number such as {such:g}."
        ) from error
    console = Console(markup=False, highlight=False, emoji=False)
    if arguments.second is not None:
        names = (source, arguments.second.name)
        if names[0] == names[1]:
            names = (str(arguments.table), str(arguments.second))
        pair = compare(table, read_table(arguments.second, choice), names, options)
        if arguments.json:
            print(canonical_json(pair), end="")
        else:
            print_pair(pair, console)
        return
    verdict = decide(table, source, options)
    if arguments.plot is not None:
        from envknee.after.csv.plot import plot  # matplotlib takes a second to import

        plot(verdict, arguments.plot)
    if arguments.json:
        print(canonical_json(verdict), end="")
    else:
        print_table_verdict(verdict, console)


def _condition(text: str) -> tuple[str, str]:
    """Return the column and the value of `--where`."""
    column, sign, value = text.partition("=")
    if not sign or not column.strip():
        raise UserError(f"--where is {text!r}: expected COLUMN=VALUE, such as --where GPU=A100.")
    return column.strip(), value
