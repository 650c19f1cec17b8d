"""The joint answer as maps: every legal setting with its expected cost, the model's interval, and what was measured there."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.show.charts.model import Cell, Maps, Surface
from envknee.show.evidence import Evidence
from envknee.show.figures.answers import Answered, answered, names, reach, with_shape
from envknee.show.figures.maps import WORST
from envknee.show.figures.style import shade
from envknee.verdict.schema.joint import ConfirmedSetting, ExpectedSetting, JointShape, LikelySetting, Setting
from envknee.verdict.schema.study import Verdict
from envknee.words.charts import cell_lines
from envknee.words.joint_costs import cost_words, interval_words
from envknee.words.likeness import plan_words

STEPS = 9
"""Colours of a scale; those between are mixed."""


class _Known(NamedTuple):
    """What is known of a setting."""

    likely: LikelySetting | None
    confirmed: ConfirmedSetting | None
    tried: Sequence[bool]
    """Whether each trial there missed its target."""


def chart_maps(verdict: Verdict, records: Sequence[Record]) -> Maps | None:
    """Return the maps of every answer with a model; None without one."""
    told = with_shape(answered(Evidence(verdict, records, lambda _: [])))
    if not told:
        return None
    name_of = names([own for own, _ in told])
    confidence = told[0][0].answer.confidence
    return Maps(
        surfaces=[
            Surface(
                name=name or own.arm.arm, arm=own.arm.arm, quantity=own.quantity, note=_note(own), cells=_cells(own, shape)
            )
            for name, (own, shape) in zip(name_of, told, strict=True)
        ],
        shades=shades(),
        worst=reach([[at.cost for at in shape.expected] for _, shape in told], WORST),
        outlined=f"may be the best, by the model: together they hold the best setting with {confidence:.0%}",
    )  # fmt: skip


def shades() -> list[str]:
    """Return colours from the least cost to the largest."""
    return [shade(place / (STEPS - 1)) for place in range(STEPS)]


def _cells(own: Answered, shape: JointShape) -> list[Cell]:
    likely = {_point(setting): setting for setting in own.likely}
    confirmed = {_point(setting): setting for setting in own.answer.confirmed}
    ran: dict[Point, list[bool]] = defaultdict(list)
    for record, cost in own.trials:
        ran[record.request.point].append(cost.is_censored)
    least = min(at.cost for at in shape.expected)
    return [
        _cell(own, at, at.cost / least, _Known(likely.get(point), confirmed.get(point), ran.get(point, [])))
        for at in shape.expected
        for point in [_point(at)]
    ]


def _cell(own: Answered, at: ExpectedSetting, cost_times: float, known: _Known) -> Cell:
    kind, (likely, confirmed, tried) = own.answer.kind, known
    low = high = None
    interval = ""
    if at.cost_lower is not None and at.cost_upper is not None:
        low, high = own.ends(at.cost_lower, at.cost_upper)
        interval = interval_words(kind, at.cost_lower, at.cost_upper)
    return Cell(
        num_envs=at.num_envs, horizon=at.horizon, batch_size=at.batch_size or 0, value=own.value(at.cost),
        low=low, high=high, cost_times=cost_times, times_either_way=at.times_either_way, tried=len(tried),
        missed=sum(tried), may_be_best=likely is not None, not_slower=confirmed is not None and confirmed.may_be_best,
        said=cell_lines(at, (cost_words(kind, at.cost), interval), likely, confirmed, tried, own.plan is not None),
    )  # fmt: skip


def _note(own: Answered) -> str:
    if own.plan is None:
        return ""
    said = plan_words(own.plan, own.answer.likeness, "marked settings have its own fresh seeds")
    return f"{said[:1].upper()}{said[1:]}."


def _point(setting: Setting) -> Point:
    return Point(setting.num_envs, setting.horizon, setting.batch_size)
