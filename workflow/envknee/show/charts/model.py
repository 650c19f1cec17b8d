"""What a chart is, as frozen models: numbers, names and finished sentences. workflow/report/script/charts.js reads their JSON."""

from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

Fill = Literal["full", "half", "none"]
"""How much of a mark is filled."""


class Part(BaseModel):
    """A frozen part of a chart."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TrialMark(NamedTuple):
    """One trial. Its row in the table of trials says the rest."""

    x: float
    y: float
    number: int
    """Of the trial."""
    is_bound: bool
    """Whether the true value is larger: the trial did not reach its target."""


class Mark(Part):
    """A value over several trials."""

    x: float
    y: float
    low: float | None
    """Two-sided interval; None without one."""
    high: float | None
    is_bound: bool = False
    """Whether the true value is larger."""
    fill: Fill = "full"
    said: list[str]
    """Lines to show when a reader points at it."""


class Line(Part):
    """A series of values."""

    name: str
    """In the legend."""
    arm: str
    colour: str
    symbol: str
    marks: list[Mark] = []
    trials: list[TrialMark] = []
    law: list[tuple[float, float]] = []
    """A fitted curve."""
    joins: bool = True
    """Whether a line joins its marks."""


class Level(Part):
    """A straight line across a panel, with its name."""

    value: float
    label: str
    colour: str | None = None
    arm: str | None = None
    """The arm with which it goes; None: it stays."""


class Panel(Part):
    """Values against num_envs."""

    x_label: str
    y_label: str
    y_scale: Literal["log", "linear", "share"]
    """share: linear, in percent."""
    lines: list[Line]
    at_x: list[Level] = []
    at_y: list[Level] = []


class Curves(Part):
    """Panels below each other."""

    kind: Literal["curves"] = "curves"
    panels: list[Panel]


class Cell(Part):
    """A setting of a map."""

    num_envs: int
    horizon: int
    batch_size: int
    """0: the library's own."""
    value: float
    """Expected seconds, or FPS."""
    low: float | None
    """The model's interval; None if unknown."""
    high: float | None
    cost_times: float
    """Its cost over the least one."""
    times_either_way: float | None
    """Half the width of the interval, as a factor; None if unknown."""
    tried: int
    """Trials there."""
    missed: int
    """Those of them that did not reach the target."""
    may_be_best: bool
    """By the model: it belongs to the fewest settings that hold the best one with the study's confidence."""
    not_slower: bool
    """By fresh seeds alone: no other confirmed setting is shown to cost less."""
    said: list[str]


class Surface(Part):
    """The maps of one answer."""

    name: str
    arm: str
    quantity: str
    note: str = ""
    """What a reader must know of it: that it is a plan."""
    cells: list[Cell]


class Maps(Part):
    """A map of each answer."""

    kind: Literal["maps"] = "maps"
    surfaces: list[Surface]
    shades: list[str]
    """Colours from the least cost to `worst` times it and more."""
    worst: float
    outlined: str
    """What an outline means."""


class SearchedTrial(NamedTuple):
    """A line over all axes."""

    values: tuple[float, ...]
    """In the order of the axes."""
    cost_times: float
    """Its cost over the least one."""
    number: int
    """Of the trial."""
    is_bound: bool


class Bar(Part):
    """How much an axis matters."""

    name: str
    times: float
    said: list[str]


class Search(Part):
    """Every trial of one joint search."""

    name: str
    arm: str
    axes: list[str]
    """The last one is the cost."""
    trials: list[SearchedTrial]
    bars: list[Bar]
    """The most important axis first; empty without a model."""


class Coordinates(Part):
    """Parallel coordinates of each search."""

    kind: Literal["coordinates"] = "coordinates"
    searches: list[Search]
    shades: list[str]
    worst: float


Chart = Curves | Maps | Coordinates
