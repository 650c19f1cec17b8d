"""Two tables side by side, and several GPUs beside one, in sentences. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from envknee.verdict.schema.table import Beside, GpuScaling, Pair, SizeRatio
from envknee.words.numbers import listed, percent

Line = tuple[str, str]
"""A name and a text."""


class RatioRow(NamedTuple):
    """What a table shows of one size; cells are text."""

    size: str
    ratio: str
    interval: str
    remark: str


def beside_statement(beside: Beside) -> str:
    """Return which sizes got slower and which faster, in a sentence."""
    if not beside.sizes:
        return f"{beside.first} and {beside.second} have no size in common"
    said = []
    for state in ("slower", "faster", "not told apart"):
        sizes = [size for size in beside.sizes if size.state == state]
        if sizes:
            said.append(f"{state} at {listed(size.num_envs for size in sizes)} environments ({_range(sizes)})")
    return f"{beside.second} against {beside.first}: {'; '.join(said)}"


def _range(sizes: Sequence[SizeRatio]) -> str:
    ratios = [size.ratio for size in sizes]
    ends = dict.fromkeys(f"{ratio:.3g}" for ratio in (min(ratios), max(ratios)))
    return f"{' to '.join(ends)} times the FPS"


def ratio_rows(beside: Beside) -> list[RatioRow]:
    """Return a row for every size that one of both has."""
    rows = {
        size.num_envs: RatioRow(
            f"{size.num_envs:,}", f"{size.ratio:.3g}", f"{size.ratio_lower:.3g} to {size.ratio_upper:.3g}",
            "" if size.state == "not told apart" else size.state,
        )
        for size in beside.sizes
    }  # fmt: skip
    for name, sizes in ((beside.first, beside.only_first), (beside.second, beside.only_second)):
        rows |= {size: RatioRow(f"{size:,}", "", "", f"in {name} alone") for size in sizes}
    for name, sizes in ((beside.first, beside.failed_first), (beside.second, beside.failed_second)):
        rows |= {size: RatioRow(f"{size:,}", "", "", f"did not fit in {name}") for size in sizes}
    return [row for _, row in sorted(rows.items())]


def beside_notes(beside: Beside) -> list[str]:
    """Return how far the ratios can be trusted."""
    if any(size.repeats < 2 for size in beside.sizes):
        return ["one repeat per size: intervals assume the noise of published GPU studies"]
    return []


def pair_lines(pair: Pair) -> list[Line]:
    """Return the answer about two tables: one line for each series that both have."""
    return [("throughput", beside_statement(beside)) for beside in pair.beside]


def scaling_statement(scaling: GpuScaling) -> str:
    """Return the efficiency of every number of GPUs, in a sentence."""
    by_gpus: dict[int, list[float]] = {}
    for point in scaling.points:
        by_gpus.setdefault(point.gpus, []).append(point.efficiency)
    shares = []
    for gpus, efficiencies in by_gpus.items():
        ends = dict.fromkeys(percent(share, 0) for share in (min(efficiencies), max(efficiencies)))
        shares.append(f"{gpus} GPUs {' to '.join(ends)}")
    sizes = listed(sorted({point.num_envs for point in scaling.points}))
    base = "one GPU's" if scaling.base_gpus == 1 else f"{scaling.base_gpus} GPUs'"
    return f"efficiency of {', '.join(shares)} of {base} FPS each, with {sizes} environments on each"
