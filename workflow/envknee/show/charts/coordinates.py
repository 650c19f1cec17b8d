"""Every trial of a joint search as a line over all axes, and how much each axis matters."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.show.charts.maps import shades
from envknee.show.charts.model import Bar, Coordinates, Search, SearchedTrial
from envknee.show.evidence import Evidence
from envknee.show.figures.answers import Answered, answered, names, reach
from envknee.show.figures.coordinates import WORST, searched
from envknee.verdict.joint.importance import importance_of
from envknee.verdict.schema.study import Verdict
from envknee.words.charts import importance_lines


def chart_coordinates(verdict: Verdict, records: Sequence[Record]) -> Coordinates | None:
    """Return the lines of every search; None without a trial."""
    shown = [own for own in answered(Evidence(verdict, records, lambda _: [])) if searched(own)]
    if not shown:
        return None
    return Coordinates(
        searches=[_search(own, name or own.arm.arm) for own, name in zip(shown, names(shown), strict=True)],
        shades=shades(),
        worst=reach([[cost.cost for _, cost in searched(own)] for own in shown], WORST),
    )


def _search(own: Answered, name: str) -> Search:
    trials = searched(own)
    least = min(cost.cost for _, cost in trials)
    # With the library's own batch there is no such axis.
    has_batch = all(record.request.batch_size for record, _ in trials)
    shape = own.answer.shape
    return Search(
        name=name,
        arm=own.arm.arm,
        axes=["num_envs", "horizon", *(["batch size"] if has_batch else []), "FPS" if own.is_fps else "seconds"],
        trials=[
            SearchedTrial(
                (*_axes(record, has_batch), own.value(cost.cost)), cost.cost / least, record.request.number,
                cost.is_censored,
            )
            for record, cost in trials
        ],
        bars=[
            Bar(name=found.axis, times=found.times, said=importance_lines(*found))
            for found in (importance_of(shape) if shape is not None else [])
        ],
    )  # fmt: skip


def _axes(record: Record, has_batch: bool) -> tuple[float, ...]:
    request = record.request
    axes = (request.num_envs, request.horizon)
    return (*axes, request.batch_size or 0) if has_batch else axes
