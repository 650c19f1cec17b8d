"""Tables as people have them: Markdown, tabs, Isaac Lab's training bundles, and columns by their common names. Pure.

Input: the text of a file. Output: the same as CSV, a line for a line, so that messages name the right one; and for a header, which column
each is, by which factor its numbers are to be multiplied, and a sentence about each that was understood by another name.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from envknee.study.errors import UserError

ALIASES: Mapping[str, tuple[str, ...]] = {
    "num_envs": (
        "envs", "n_envs", "nenvs", "num envs", "environments", "num_environments", "number of envs", "number of environments",
        "# envs", "#envs", "parallel envs", "parallel environments", "batch of envs",
    ),
    "fps": (
        "total_fps", "fps_total", "total fps", "fps total", "mean_fps", "mean fps", "frames/s", "frames per second", "steps/s", "steps/sec",
        "steps per second", "env steps/s", "sps", "throughput",
    ),
    "vram_gb": ("vram", "gpu memory", "gpu_memory", "gpu mem", "gpu_mem", "memory", "peak memory", "peak vram", "vram peak"),
}  # fmt: skip
"""Column -> other names of it, in lower case and without a unit."""

FACTORS: Mapping[str, Mapping[str, Decimal]] = {
    "num_envs": {"": Decimal(1), "k": Decimal(1000)},
    "fps": {
        "": Decimal(1), "1/s": Decimal(1), "steps/s": Decimal(1), "frames/s": Decimal(1), "hz": Decimal(1),
        "k": Decimal(1000), "m": Decimal(10**6), "million": Decimal(10**6),
    },
    "vram_gb": {
        "gb": Decimal(1), "mb": Decimal("1e-3"), "gib": Decimal(2**30).scaleb(-9), "mib": Decimal(2**20).scaleb(-9),
    },
}  # fmt: skip
"""Column -> unit in the header -> factor to the column's own unit."""

UNIT = re.compile(r"^(?P<name>.*?)\s*[(\[](?P<unit>[^)\]]*)[)\]]\s*$")
SUFFIX = re.compile(r"^(?P<name>.*?)[_ ](?P<unit>gib|mib|gb|mb)$")


class Understood(NamedTuple):
    """What a header says."""

    names: list[str]
    """By the names that are read, where they are known; in lower case."""
    factors: list[Decimal]
    said: tuple[str, ...]
    """A sentence about each column that goes by another name or unit."""


def as_csv(text: str, source: str) -> str:
    """Return `text` as CSV, a line for a line; CSV comes back as it is.

    Raises:
        UserError: when it is JSON, and not training bundles.
    """
    if text.lstrip("\ufeff \n\t").startswith(("{", "[")):
        return _of_bundles(text, source)
    lines = text.splitlines()
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    if first.lstrip().startswith("|"):
        return "\n".join(_of_markdown(line) for line in lines)
    if "\t" in first:
        return "\n".join(line if line.lstrip().startswith("#") else _line(line.split("\t")) for line in lines)
    return text


def understand(header: Sequence[str], known: Sequence[str]) -> Understood:
    """Return which columns these are.

    Args:
        header: as it stands in the file
        known: names of columns that are read; one that stands there by its own name goes before any other name of it
    """
    names = [given.lower() for given in header]
    factors = [Decimal(1)] * len(names)
    said = []
    for place, given in enumerate(header):
        if names[place] in known or not given:
            continue
        name, factor = _column_of(given)
        if name is not None and name not in names:
            names[place], factors[place] = name, factor
            times = "" if factor == 1 else f" x {factor.normalize():,f}"
            said.append(f"column {given!r} is read as {name}{times}")
    return Understood(names, factors, tuple(said))


def scaled(cell: str, factor: Decimal) -> str:
    """Return a cell in its column's own unit; what is no number stays as it is, to be named in an error."""
    try:
        return cell if factor == 1 else format(Decimal(cell) * factor, "f")
    except ArithmeticError:
        return cell


def _column_of(given: str) -> tuple[str | None, Decimal]:
    plain = given.lower().strip()
    match = UNIT.match(plain) or SUFFIX.match(plain)
    name, unit = (match["name"].strip(), match["unit"].strip()) if match else (plain, "")
    for column, others in ALIASES.items():
        if name in (column, *others) or name == column.removesuffix("_gb"):
            return (column, FACTORS[column][unit]) if unit in FACTORS[column] else (None, Decimal(1))
    return None, Decimal(1)


def _of_markdown(line: str) -> str:
    stripped = line.strip()
    if not stripped.startswith("|") or re.fullmatch(r"[|:\- ]+", stripped):
        return ""
    cells = [cell.strip().strip("*`") for cell in stripped.strip("|").split("|")]
    # In a Markdown table a comma within digits separates thousands.
    return _line([re.sub(r"(?<=\d),(?=\d{3}\b)", "", cell) for cell in cells])


def _line(cells: Sequence[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(cells)
    return stream.getvalue()


def _of_bundles(text: str, source: str) -> str:
    """Return one or several of Isaac Lab's training bundles (isaaclab.benchmark) as CSV, repeats numbered as they come."""
    try:
        plain = json.loads(text)
        bundles: list[dict[str, Any]] = plain if isinstance(plain, list) else [plain]
        rows = [(int(bundle["run"]["num_envs"]), float(bundle["runtime"]["total_fps"]["mean"])) for bundle in bundles]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{source} is JSON, and no training bundle of Isaac Lab ({error!r} is missing or wrong). Expected one, or a list of them,"
            " with run.num_envs and runtime.total_fps.mean; or a table."
        ) from error
    seen: Counter[int] = Counter()
    lines = ["num_envs,repeat,fps"]
    for num_envs, fps in rows:
        lines.append(f"{num_envs},{seen[num_envs]},{fps!r}")
        seen[num_envs] += 1
    return "\n".join(lines)
