"""What reading costs a foreign program that prints much: its output to /dev/null, through a pipe to `cat`, and read as a trial reads it.

Input: how many megabytes. Output: a table in the terminal: seconds of the three, in turns, and ratios of reading to both others.

    PYTHONPATH=workflow python -m benchmarks.bench_printed --megabytes 286

The program prints as fast as it can, in the ways that hurt most: short lines, one line of everything, lines with words that errors have.
A program that trains prints a millionth of that.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from envknee.run.printed import BoundedLog, Reader
from envknee.trainers.command import ends, sources
from rich.console import Console
from rich.table import Table

ROUNDS = 3

BY_PRINT = """
import sys
for _ in range(int(sys.argv[1]) * 1_000_000 // {size}):
    print({line!r})
"""
IN_BLOCKS = """
import sys
block = ({line!r} + "\\n") * 2_000
for _ in range(int(sys.argv[1]) * 1_000_000 // len(block)):
    sys.stdout.write(block)
"""
ONE_LINE = """
import sys
for _ in range(int(sys.argv[1])):
    sys.stdout.write("x" * 1_000_000)
"""

SHORT, NAMED = "step 12345 of nothing", "some memory was found by worker 7"
PROGRAMS = {
    "print() of short lines": BY_PRINT.format(line=SHORT, size=len(SHORT) + 1),
    "blocks of short lines": IN_BLOCKS.format(line=SHORT),
    "blocks of lines with words of errors": IN_BLOCKS.format(line=NAMED),
    "one line": ONE_LINE,
}
PATTERN = re.compile(r"iteration (?P<step>\d+)/\d+: (?P<fps>[\d,.]+) steps")


def alone_s(program: str, megabytes: int) -> float:
    """Return the seconds of a program whose output goes to /dev/null."""
    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, str(megabytes)], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began_s


def piped_s(program: str, megabytes: int, log: Path) -> float:
    """Return the seconds of a program whose output goes through a pipe into a file: what any reading takes."""
    began_s = time.perf_counter()
    with (
        log.open("wb") as file,
        subprocess.Popen([sys.executable, "-c", program, str(megabytes)], stdout=subprocess.PIPE) as process,
        subprocess.Popen(["cat"], stdin=process.stdout, stdout=file),
    ):
        process.wait()
        return time.perf_counter() - began_s


def read_s(program: str, megabytes: int, log: Path) -> float:
    """Return the seconds of a program whose output is read as a trial's is, with a pattern for its rows."""
    output, rows = ends.Output([], {}), sources.Printed([PATTERN])

    def take(lines: str) -> None:
        output.take(lines)
        rows.take(time.monotonic(), lines)

    began_s = time.perf_counter()
    with (
        log.open("wb") as file,
        subprocess.Popen([sys.executable, "-c", program, str(megabytes)], stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None, "it prints into a pipe"
        reader = Reader(process.stdout.fileno(), BoundedLog(file), take)
        process.wait()
        spent_s = time.perf_counter() - began_s
        reader.wait(600.0)
    return spent_s


def in_turns(program: str, megabytes: int, folder: Path) -> list[tuple[float, float, float]]:
    """Return the seconds of a program in each round: alone, piped and read."""
    log = folder / "trial.log"
    return [
        (alone_s(program, megabytes), piped_s(program, megabytes, log), read_s(program, megabytes, log))
        for _ in range(ROUNDS)
    ]


def main() -> None:
    """Print what reading costs a program that prints much."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--megabytes", type=int, default=286, help="how much it prints (default: %(default)s)")
    given = parser.parse_args()
    title = f"{given.megabytes} MB, medians of {ROUNDS}"
    table = Table("the program prints", "/dev/null", "cat", "read", "read / /dev/null", "read / cat", title=title)
    with tempfile.TemporaryDirectory(prefix="envknee-printed-") as folder:
        for name, program in PROGRAMS.items():
            rounds = in_turns(program, given.megabytes, Path(folder))
            seconds = [f"{statistics.median(way):.2f} s" for way in zip(*rounds, strict=True)]
            to_null = statistics.median(read / alone for alone, _, read in rounds)
            to_cat = statistics.median(read / piped for _, piped, read in rounds)
            table.add_row(name, *seconds, f"{to_null:.2f}", f"{to_cat:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
