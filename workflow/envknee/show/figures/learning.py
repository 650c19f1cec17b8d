"""Mean episode reward of every learning trial: against environment steps, against wall seconds."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from envknee.record.build import reward_averages
from envknee.record.schema import Record, Row
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, DASHES, INK, STATUS_MARKERS, Look, look_at, size_colours
from envknee.verdict.schema.learning import best_of
from envknee.verdict.schema.study import Verdict
from envknee.words.learning import seconds_told
from envknee.words.numbers import shown_batch
from envknee.words.ranks import each
from envknee.words.statuses import STATUS_WORDS
from envknee.words.study import reached

MOST_CURVES = 8
"""Settings in one pair of panels. With more, each arm has its own pair; with more in one arm, each horizon or batch size of it."""

Curve = tuple[Record, list[tuple[Row, float]]]
"""A trial, and its rows with their mean reward."""


class _Point(NamedTuple):
    """One setting of one arm: its trials are seeds."""

    arm: str
    horizon: int
    batch_size: int | None
    num_envs: int


def draw_learning(evidence: Evidence) -> Figure:
    """Return the mean episode reward of every learning trial against environment steps and against wall seconds."""
    verdict = evidence.verdict
    learned = [record for record in evidence.records if record.request.kind == "learning"]
    curves = [(record, curve) for record in learned if (curve := _curve(record, evidence.rows(record)))]
    unseen = len(learned) - len(curves)
    if not curves:
        why = f"None of {unseen} learning trials finished enough episodes for a mean."
        return canvas.in_words("Learning", why if unseen else "No learning trial has run yet.", verdict)
    groups = _groups(sorted({_point(record) for record, _ in curves}, key=_order))
    rows = len(groups)
    figure, panels = canvas.panels(
        _learning_title(verdict), verdict, height=5.0 if rows == 1 else 1.5 + 2.7 * rows, ratios=(1.0,) * rows, columns=2,
        gaps=(0.42, 0.45),
    )  # fmt: skip
    colours = size_colours(learned)
    for place, points in enumerate(groups):
        pair = panels[2 * place], panels[2 * place + 1]
        looks = _looks(points, colours, verdict)
        _pair(pair, [curve for curve in curves if _point(curve[0]) in looks], looks)
        if rows > 1:
            pair[0].set_title(_shared(points), loc="left", fontsize=10, pad=5)
        keys = [canvas.line_key(look.label, look.colour, 2, linestyle=look.dashes) for look in looks.values()]
        canvas.legend(pair[1], [*keys, *(_keys(curves, unseen) if place == 0 else [])])
    _same_ends(panels)
    episodes = sorted({record.request.target_episodes or 1 for record, _ in curves})
    for axes in panels[::2]:
        axes.set_ylabel("Mean episode reward" if rows > 1 else f"Mean episode reward\n{_over(episodes)}")
    panels[-2].set_xlabel("Environment steps, all environments together")
    panels[-1].set_xlabel("Wall seconds of training" + (f"\n(reward {_over(episodes)})" if rows > 1 else ""))
    return figure


def _point(record: Record) -> _Point:
    request = record.request
    return _Point(request.arm, request.horizon, request.batch_size, request.num_envs)


def _order(point: _Point) -> tuple[str, int, int, int]:
    return point.arm, point.num_envs, point.horizon, point.batch_size or 0


def _groups(points: Sequence[_Point]) -> list[list[_Point]]:
    """Return the points of each pair of panels."""
    groups = [list(points)]
    for parts in range(1, len(_Point._fields)):
        split: list[list[_Point]] = []
        for group in groups:
            if len(group) <= MOST_CURVES:
                split.append(group)
            else:
                first = dict.fromkeys(point[:parts] for point in group)
                split += [[point for point in group if point[:parts] == own] for own in first]
        groups = split
    return groups


def _looks(points: Sequence[_Point], colours: dict[int, str], verdict: Verdict) -> dict[_Point, Look]:
    """Return a look for each point: a colour for each num_envs, and dashes where points share one; a colour each if all do."""
    ranks = {arm.arm: arm.ranks for arm in verdict.arms}
    sizes = [point.num_envs for point in points]
    looks = {}
    for place, point in enumerate(points):
        words = [f"{point.num_envs:,} envs{each(ranks[point.arm])}", *_differing(point, points)]
        look = look_at(place, "\n".join(textwrap.wrap(", ".join(words), 30)))
        if len(set(sizes)) > 1:
            turn = sizes[:place].count(point.num_envs)
            look = replace(look, colour=colours[point.num_envs], dashes=DASHES[turn % len(DASHES)])
        looks[point] = look
    return looks


def _differing(point: _Point, points: Sequence[_Point]) -> list[str]:
    """Return in words in what a point differs from others of its panels, besides num_envs."""
    said = [point.arm, f"horizon {point.horizon}", shown_batch(point.batch_size)]
    return [word for part, word in enumerate(said) if len({other[part] for other in points}) > 1]


def _shared(points: Sequence[_Point]) -> str:
    """Return in words what all points of a pair of panels have in common."""
    arm, horizon, batch_size, _ = points[0]
    said = [f"{arm}:", f"horizon {horizon},", shown_batch(batch_size)]
    return " ".join(word for part, word in enumerate(said) if len({point[part] for point in points}) == 1).strip(":,")


def _over(episodes: Sequence[int]) -> str:
    return f"over at least {' or '.join(map(str, episodes))} episodes"


def _pair(pair: tuple[Axes, Axes], curves: Sequence[Curve], looks: dict[_Point, Look]) -> None:
    """Draw curves against environment steps, and against seconds."""
    for axes, quantity in zip(pair, ("frames", "wall_s"), strict=True):
        for record, curve in curves:
            look, status = looks[_point(record)], record.outcome.status
            x, reward = [getattr(row, quantity) for row, _ in curve], [reward for _, reward in curve]
            axes.plot(x, reward, color=look.colour, linestyle=look.dashes, linewidth=1.4, alpha=0.85)
            axes.plot(
                x[-1], reward[-1], STATUS_MARKERS[status], color=look.colour, markersize=6.5,
                markerfacecolor=look.colour if status == "target_reached" else "white", clip_on=False, zorder=4,
            )  # fmt: skip
        for target in _targets(curves):
            axes.axhline(target, color=INK, linewidth=1.0, linestyle=DASHED)


def _same_ends(panels: Sequence[Axes]) -> None:
    """Give all panels one axis of reward, numbered to the left, once all curves are drawn."""
    ends = [end for axes in panels for end in axes.get_ylim()]
    for place, axes in enumerate(panels):
        axes.set_ylim(min(ends), max(ends))
        axes.set_xlim(left=0)
        axes.tick_params(labelleft=place % 2 == 0)


def _targets(curves: Sequence[Curve]) -> list[float]:
    return sorted({r.request.target_reward for r, _ in curves if r.request.target_reward is not None})


def _keys(curves: Sequence[Curve], unseen: int) -> list[Line2D]:
    """Return keys that all panels share."""
    keys = [canvas.line_key(f"target {target:g}", INK, linestyle=DASHED) for target in _targets(curves)]
    for status in sorted({record.outcome.status for record, _ in curves}):
        label = f"ends: {STATUS_WORDS[status]}"
        keys.append(canvas.key(label, STATUS_MARKERS[status], hollow=status != "target_reached"))
    if unseen:
        keys.append(canvas.note(f"not shown: {unseen} that finished\ntoo few episodes"))
    return keys


def _curve(record: Record, rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Return the rows of a learning trial with their mean reward, from the iteration on by which enough episodes had ended."""
    averages = reward_averages(rows, record.request.target_episodes or 1)
    return [(row, reward) for row, reward in zip(rows, averages, strict=True) if reward is not None]


def _learning_title(verdict: Verdict) -> str:
    bests = [(arm.ranks, found[1]) for arm in verdict.arms if (found := best_of(arm.learning))]
    title = f"{reached(limit for arm in verdict.arms for limit in arm.learning)} reached the target"
    if bests:
        ranks, best = min(bests, key=lambda ranked: ranked[1].order)
        title += f", soonest {best.num_envs:,} environments{each(ranks)} in {seconds_told(best)}"
    return title
