"""Figures of the joint answer: each draws the numbers of the verdict and every trial, on the handed data and on small studies of FPS."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from asked import dice, measured, play
from drawn import judged, marks, texts
from envknee.record.schema import Record
from envknee.show.charts.maps import chart_maps
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas, registry
from envknee.show.figures.coordinates import draw_coordinates
from envknee.show.figures.forest import draw_forest
from envknee.show.figures.maps import draw_maps
from envknee.show.figures.profile import draw_profile
from envknee.show.figures.regret import draw_regret
from envknee.show.figures.split import draw_split
from envknee.show.figures.valley import draw_valley
from envknee.show.report import page
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.verdict.joint.frames import frames_at
from envknee.verdict.joint.importance import importance_of
from envknee.verdict.joint.posterior import Trials, posterior
from envknee.verdict.joint.prior import prior_of
from envknee.verdict.joint.regret import regret_of, steps_of
from envknee.verdict.joint.surface import fit
from envknee.verdict.schema.joint import JointAnswer, JointShape, Setting
from joint_data import SETTINGS, handed
from joint_study import a_study, handed_study, handed_trials, learned, log_seconds, timed
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from published import PUBLISHED
from records import GPU, Trial, a_trial, known
from transfer_study import SLOW, transfer_study
from transfer_study import trial as transfer_trial

NAMES = ["forest", "profile", "valley", "maps", "split", "coordinates", "regret"]


@pytest.fixture(scope="module")
def lean() -> Evidence:
    return judged(handed_trials("lean"), handed_study("lean"))


def played(measure: Any, kind: Any, **changes: Any) -> Evidence:
    study = a_study(kind, **changes)
    trials = dict[int, Trial]()

    def kept(request: Any) -> Trial:
        return trials.setdefault(request.number, measure(request))

    play(study, kept)
    return judged(list(trials.values()), study)


@pytest.fixture(scope="module")
def fps() -> Evidence:
    return played(
        timed, "throughput", num_envs=[256, 512, 1024], horizon=[16, 32], batch_size=[1024, 4096], trials=16,
        confirm={"settings": 3, "seeds": 3},
    )  # fmt: skip


@pytest.fixture(scope="module")
def rough() -> Evidence:
    def far(request: Any) -> Trial:
        deviation = 0.8 * dice(request.point).gauss(0, 1) + 0.02 * dice(request.seed).gauss(0, 1)
        return measured(request, seconds=min(math.exp(log_seconds(request.point) + deviation), 29.0), device=GPU)

    changes: dict[str, Any] = {"num_envs": [256, 512], "trials": 60, "confirm": {"settings": 3, "seeds": 3}}
    return played(far, "learning", **changes)


@pytest.fixture(scope="module")
def searched() -> Evidence:
    return played(learned, "learning", trials=12, num_envs=[256, 512], confirm=None)


def answer_of(evidence: Evidence) -> JointAnswer:
    [arm] = evidence.verdict.arms
    [found] = arm.joint
    return found


def shape_of(evidence: Evidence) -> JointShape:
    return known(answer_of(evidence).shape)


def costs_of(evidence: Evidence, confirms: bool) -> list[tuple[Record, float]]:
    """Return seconds, or the budget, of each learning trial."""
    own = [record for record in evidence.records if record.request.confirms == confirms]
    return [(record, record.seconds_to_target or record.train_s) for record in own]


def name_of(setting: Setting) -> str:
    return f"{setting.num_envs:,} × {setting.horizon} × {setting.batch_size:,}"


def ys(axes: Axes, marker: str) -> list[float]:
    return [y for _, y in marks(axes, marker)]


# Numbers behind them


def test_the_pick_is_judged_after_half_octaves_of_trials_and_after_all():
    assert steps_of(64) == [4, 6, 8, 11, 16, 23, 32, 45, 64]
    assert steps_of(20) == [4, 6, 8, 11, 16, 20]
    assert (steps_of(1), steps_of(3), steps_of(4)) == ([1], [3], [4])


def test_regret_is_the_mean_loss_of_what_the_first_trials_pick():
    searched, every = handed("search"), handed("search", "fresh")
    surface = fit(SETTINGS, every)
    draws = surface.draws(4000, 0)
    covariance = prior_of(SETTINGS).covariance(surface.amplitude)
    found = regret_of(surface, draws, searched, 0.95)
    assert [step.trials for step in found] == steps_of(64)
    for step in (found[2], found[-1]):
        first = slice(0, step.trials)
        trials = Trials(searched.places[first], searched.log_costs[first], searched.is_censored[first])
        pick = int(posterior(covariance, trials, surface.noise).mean.argmin())
        assert vars(SETTINGS[pick]).items() <= step.model_dump().items()
        losses = np.exp(draws[:, pick] - draws.min(axis=1)) - 1.0
        assert step.regret == pytest.approx(losses.mean())
        assert (losses <= step.regret_upper).mean() == pytest.approx(0.95, abs=0.001)
    assert found[-1].regret < found[0].regret / 3
    surely = replace(surface, covariance=np.zeros_like(surface.covariance))
    picked = regret_of(surely, surely.draws(10, 0), every, 0.95)[-1]
    assert (picked.regret, picked.regret_upper) == pytest.approx((0.0, 0.0), abs=1e-3)


def test_frames_and_seconds_per_frame_are_found_and_a_missed_target_bounds_the_frames_alone():
    def frames(num_envs: int) -> float:
        return 2_000.0 * num_envs**0.8

    def record(number: int, num_envs: int, seconds: float | None) -> Record:
        # A trial ends at its budget of 60 s with the frames that it has by then, at 500 frames a second.
        count = round(frames(num_envs) if seconds is not None else 60.0 * 500.0)
        trial = a_trial(
            num_envs, number=number, kind="learning", seconds=seconds, horizon=8, batch_size=64, frames=count
        )
        return trial.record

    records = [record(n, 2**power, frames(2**power) / 500.0) for n, power in enumerate((3, 3, 4, 4, 5, 5))]
    found = frames_at([record.request.point for record in records[::2]], records, 0.95)
    for at in found:
        assert at.frames == pytest.approx(frames(at.num_envs), rel=0.03)
        assert at.seconds_per_frame == pytest.approx(1 / 500.0, rel=0.02)
        assert at.frames_lower < frames(at.num_envs) < at.frames_upper
    missed = [*records, *(record(number, 64, None) for number in (6, 7, 8))]
    (beyond,) = frames_at([missed[-1].request.point], missed, 0.95)
    assert beyond.frames > 30_000 and beyond.seconds_per_frame == pytest.approx(1 / 500.0, rel=0.05)
    assert frames_at([records[0].request.point], [], 0.95) == []


def test_a_verdict_has_every_setting_and_the_profiles_of_axes_with_several_values(lean: Evidence, fps: Evidence):
    shape = shape_of(lean)
    assert [(at.num_envs, at.horizon, at.batch_size) for at in shape.expected] == [
        tuple(vars(own).values()) for own in SETTINGS
    ]
    assert [profile.axis for profile in shape.profiles] == ["num_envs", "horizon"]
    assert [at.num_envs for at in shape.frames] == [128, 256, 512, 1024, 2048]
    for profile in shape.profiles:
        for point in profile.values:
            same = [at.cost for at in shape.expected if getattr(at, profile.axis) == point.value]
            assert known(point.cost) == pytest.approx(min(same), rel=0.05)
            at = next(at for at in shape.expected if name_of(at) == name_of(point))
            assert at.cost == min(same)
    assert shape_of(fps).frames == []
    one = played(timed, "throughput", num_envs=[256, 512], horizon=[16], batch_size=[1024], trials=6, confirm=None)
    assert [profile.axis for profile in shape_of(one).profiles] == ["num_envs"]
    assert "Environments" in texts(draw_profile(one)) and "horizon)" not in texts(draw_profile(one))


# Figures


def test_profile_draws_the_model_its_band_the_best_settings_and_the_cut_off(lean: Evidence):
    figure = draw_profile(lean)
    answer, shape = answer_of(lean), shape_of(lean)
    for axes, profile in zip(figure.axes, shape.profiles, strict=True):
        costs = [known(point.cost) for point in profile.values]
        assert marks(axes, "o") == list(zip((point.value for point in profile.values), costs, strict=True))
        assert ys(axes, "_") == pytest.approx([(1.0 - answer.delta) * cost for cost in costs[:-1]])
        band = {float(y) for _, y in axes.collections[0].get_paths()[0].vertices}  # pyright: ignore
        assert band == {end for point in profile.values for end in (known(point.cost_lower), known(point.cost_upper))}
        said = [text.get_text() for text in axes.texts]
        for point in profile.values:
            other = f"T {point.horizon}" if profile.axis == "num_envs" else f"N {point.num_envs:,}"
            assert f"{other}\nB {point.batch_size:,}" in said
        best = {name_of(point) for point in profile.values}
        fresh = [setting.cost for setting in answer.confirmed if name_of(setting) in best]
        assert sorted(ys(axes, "s")) == sorted(map(known, fresh)) and fresh
    assert "Wall seconds to the target" in texts(figure)


def test_profile_of_fps_points_up_and_has_its_threshold(fps: Evidence):
    figure, answer = draw_profile(fps), answer_of(fps)
    envs = answer.thresholds[0]
    assert envs.state == "reached"
    axes = figure.axes[0]
    values = [1.0 / known(point.cost) for point in shape_of(fps).profiles[0].values]
    assert ys(axes, "o") == pytest.approx(values)
    assert ys(axes, "_") == pytest.approx([1.1 * value for value in values[:-1]])
    assert f"threshold {envs.threshold:,}" in texts(figure)
    assert f"Doubling gains less than 10% from {envs.threshold:,} environments on" in texts(figure)
    assert "gets up to the bar" in texts(figure)


def test_valley_marks_every_trial_by_its_mini_batches_and_missed_targets_apart(lean: Evidence):
    figure, answer = draw_valley(lean), answer_of(lean)
    (axes,) = figure.axes
    trials = [*costs_of(lean, confirms=False), *costs_of(lean, confirms=True)]
    arrived = [(record, cost) for record, cost in trials if record.seconds_to_target is not None]
    drawn = marks(axes, "o")
    assert len(drawn) == len(arrived)
    for (x, y), (record, cost) in zip(drawn, arrived, strict=True):
        point = record.request.point
        assert (round(math.log2(x)), y) == (math.log2(point.rollout / known(point.batch_size)), cost)
    assert ys(axes, "^") == [25.0] * (len(trials) - len(arrived)) and len(arrived) < len(trials)
    assert marks(axes, "D") == [(own.value, own.cost) for own in answer.mini_batches]
    filled = [line.get_markerfacecolor() != "white" for line in axes.lines if line.get_marker() == "D"]
    assert filled == [own.not_slower for own in answer.mini_batches]
    near = [own.value for own in answer.mini_batches if own.not_slower]
    assert f"{near[0]} to {near[-1]} mini-batches are not shown to be 25% worse" in texts(figure)


def cells(figure: Figure, filled: bool) -> int:
    return sum(isinstance(p, Rectangle) and p.get_fill() == filled for axes in figure.axes for p in axes.patches)


def test_maps_have_a_cell_for_each_setting_and_outline_those_that_may_be_the_best(lean: Evidence):
    figure, answer, shape = draw_maps(lean), answer_of(lean), shape_of(lean)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Horizon 8",
        "Horizon 16",
        "Horizon 32",
        "Horizon 64",
    ]
    assert cells(figure, filled=True) == len(SETTINGS)
    assert cells(figure, filled=False) == len(answer.likely)
    for axes, horizon in zip(figure.axes, (8, 16, 32, 64), strict=True):
        expected = [at for at in shape.expected if at.horizon == horizon]
        off = [known(at.times_either_way) for at in expected]
        assert all(1.0 < times < 3.0 for times in off)
        assert [text.get_text() for text in axes.texts] == [
            said for at, times in zip(expected, off, strict=True) for said in (f"{at.cost:.1f}", f"×/÷{times:.2f}")
        ]
    missed = {record.request.point for record, _ in costs_of(lean, confirms=False) if record.seconds_to_target is None}
    assert sum(len(marks(axes, "^")) for axes in figure.axes) == len(missed)
    tried = {record.request.point for record in lean.records}
    assert sum(len(marks(axes, "o")) for axes in figure.axes) == len(tried)
    assert f"{len(answer.likely)} settings may be the best" in texts(figure)
    assert "white: not legal" in texts(figure)


def test_a_map_of_many_values_has_no_numbers(fps: Evidence):
    sizes = [2**power for power in range(4, 14)]
    figure = draw_maps(
        played(timed, "throughput", num_envs=sizes, horizon=[16], batch_size=[64, 128], trials=20, confirm=None)
    )
    assert not [text for axes in figure.axes for text in axes.texts]
    assert "white: not legal" not in texts(draw_maps(fps))


def test_forest_has_a_row_for_each_confirmed_setting_with_its_seeds_and_the_cut_off(lean: Evidence):
    figure, answer = draw_forest(lean), answer_of(lean)
    (axes,) = figure.axes
    assert marks(axes, "D") == [(setting.cost, float(place)) for place, setting in enumerate(answer.confirmed)]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(map(name_of, answer.confirmed))
    seeds = [cost for _, cost in costs_of(lean, confirms=True)]
    assert sorted(x for x, _ in marks(axes, "o")) == sorted(seeds) and len(seeds) == 72
    best = answer.confirmed[known(answer.soonest)]
    (cut_off,) = [line for line in axes.lines if line.get_linewidth() == 1.0]
    assert set(map(float, cut_off.get_xdata())) == {known(best.cost) * 1.25}  # pyright: ignore[reportArgumentType]
    assert f"Soonest: {name_of(best)}, {best.cost:.1f} s" in texts(figure)
    filled = [line.get_markerfacecolor() != "white" for line in axes.lines if line.get_marker() == "D"]
    assert filled == [setting.may_be_best for setting in answer.confirmed]


def test_an_interval_is_drawn_to_a_factor_of_three_at_most(lean: Evidence):
    (axes,) = draw_forest(lean).axes
    answer = answer_of(lean)
    bars = [line for line in axes.lines if line.get_linewidth() == 1.8]
    for bar, setting in zip(bars, answer.confirmed, strict=True):
        cost, lower, upper = known(setting.cost), known(setting.cost_lower), known(setting.cost_upper)
        drawn = max(lower, cost / canvas.WIDEST), min(upper, cost * canvas.WIDEST)
        assert list(map(float, bar.get_xdata())) == pytest.approx(drawn)  # pyright: ignore[reportArgumentType]


def test_forest_of_fps_says_what_is_shown(fps: Evidence):
    figure, answer = draw_forest(fps), answer_of(fps)
    best = answer.confirmed[known(answer.soonest)]
    assert f"Most FPS: {name_of(best)}, {1.0 / known(best.cost):,.0f} FPS" in texts(figure)
    assert "fewest environments" in texts(figure) and "worse" in texts(figure)
    assert [x for x, _ in marks(figure.axes[0], "D")] == [1.0 / known(setting.cost) for setting in answer.confirmed]


def test_forest_before_the_planned_seeds_have_ended_names_nothing(lean: Evidence):
    some = [trial for trial in handed_trials("lean") if trial.request.repeat != 67]
    figure = draw_forest(judged(some, handed_study("lean")))
    assert "Fresh seeds are under way: no setting is named yet" in texts(figure)
    assert "intervals follow once" in texts(figure) and len(marks(figure.axes[0], "o")) == 54


def test_split_shows_seconds_frames_and_seconds_per_frame(lean: Evidence):
    shape = shape_of(lean)
    seconds, frames, speeds = draw_split(lean).axes
    assert ys(seconds, "o") == [known(point.cost) for point in shape.profiles[0].values]
    assert marks(frames, "o") == [(at.num_envs, at.frames) for at in shape.frames]
    assert ys(speeds, "o") == pytest.approx([1e6 * at.seconds_per_frame for at in shape.frames])
    assert "From 128 to 2,048 environments" in texts(draw_split(lean))


def test_arms_share_the_panels_of_split_and_regret_and_have_their_own_elsewhere():
    trials = [*handed_trials("one"), *handed_trials("two", first=200)]
    evidence = judged(trials, handed_study("one", "two"))
    for draw, count in (
        (draw_split, 3),
        (draw_regret, 1),
        (draw_forest, 2),
        (draw_valley, 2),
        (draw_profile, 4),
        (draw_maps, 8),
    ):
        figure = draw(evidence)
        assert len(figure.axes) == count
        assert "one: " in texts(figure) and "two: " in texts(figure)
    assert ys(draw_regret(evidence).axes[0], "s") == ys(draw_regret(evidence).axes[0], "o")


def test_regret_shows_each_step_its_bound_and_the_picks(lean: Evidence):
    figure, steps = draw_regret(lean), shape_of(lean).regret
    (axes,) = figure.axes
    assert marks(axes, "o") == [(step.trials, step.regret) for step in steps]
    (bound,) = [line for line in axes.lines if line.get_linewidth() == 1.0 and len(line.get_xdata()) == len(steps)]  # pyright: ignore
    assert list(bound.get_ydata()) == [step.regret_upper for step in steps]  # pyright: ignore[reportArgumentType]
    assert f"{steps[0].trials} trials: {name_of(steps[0])}" in texts(figure)
    said = texts(figure).replace("\n", " ")
    assert f"After 64 trials the pick is expected to lose {steps[-1].regret:.1%}" in said and "cut-off 25%" in said


def test_coordinates_have_a_line_for_each_trial_of_the_search_the_best_on_top(lean: Evidence):
    figure = draw_coordinates(lean)
    (axes,) = figure.axes
    lines = [line for line in axes.lines if len(line.get_xdata()) == 4]  # pyright: ignore[reportArgumentType]
    costs = sorted((cost for _, cost in costs_of(lean, confirms=False)), reverse=True)
    heights = [float(line.get_ydata()[-1]) for line in lines]  # pyright: ignore
    span = math.log(costs[0] / costs[-1])
    assert heights == pytest.approx([math.log(cost / costs[-1]) / span for cost in costs])
    dashed = [line for line in lines if line.get_linestyle() != "-"]
    assert len(dashed) == sum(record.seconds_to_target is None for record, _ in costs_of(lean, confirms=False))
    matters = {found.axis: f"{found.axis}\n{found.times:.2f} times" for found in importance_of(shape_of(lean))}
    named = [matters["num_envs"], matters["horizon"], matters["batch size"], "seconds"]
    assert [label.get_text() for label in axes.get_xticklabels()] == named


def test_a_rough_surface_shows_trials_and_fresh_seeds_and_withholds_the_model(rough: Evidence):
    assert answer_of(rough).is_rough and answer_of(rough).shape is None
    for draw in (draw_profile, draw_maps, draw_split, draw_regret):
        assert "nothing to show" in texts(draw(rough)) and "The surface is rough" in texts(draw(rough))
    assert "the model is withheld" in texts(draw_valley(rough)) and len(marks(draw_valley(rough).axes[0], "o")) == 69
    assert len(marks(draw_forest(rough).axes[0], "D")) == 3
    assert "60 trials of the search" in texts(draw_coordinates(rough))


def test_a_search_without_a_confirming_stage_has_a_profile_and_says_what_it_lacks(searched: Evidence):
    assert "there is no confirming stage" in texts(draw_profile(searched))
    assert marks(draw_profile(searched).axes[0], "s") == []
    assert "No fresh seed has run yet." in texts(draw_forest(searched))


def test_one_num_envs_and_one_horizon_have_no_profile_and_no_split():
    one: dict[str, Any] = {"num_envs": [256], "horizon": [16], "batch_size": [512, 1024], "trials": 4}
    evidence = played(learned, "learning", confirm={"settings": 2, "seeds": 3}, **one)
    assert "num_envs and horizon have one value each." in texts(draw_profile(evidence))
    assert "num_envs has one value." in texts(draw_split(evidence))
    assert cells(draw_maps(evidence), filled=True) == 2
    assert len(marks(draw_forest(evidence).axes[0], "D")) == 2


def test_a_target_that_no_seed_reaches_leaves_bounds_alone():
    def never(request: Any) -> Trial:
        return measured(request, seconds=None, device=GPU)

    small: dict[str, Any] = {"num_envs": [256, 512], "trials": 12, "confirm": {"settings": 3, "seeds": 3}}
    evidence = played(never, "learning", **small)
    (forest,), (valley,) = draw_forest(evidence).axes, draw_valley(evidence).axes
    assert marks(forest, "D") == [] and [x for x, _ in marks(forest, ">")] == [30.0] * 9
    assert "No setting can be named: too few fresh seeds" in texts(draw_forest(evidence))
    assert marks(valley, "o") == [] and ys(valley, "^") == [30.0] * 21
    assert "12 trials of the search, of which 12 did not reach the target" in texts(draw_coordinates(evidence))


def test_the_librarys_own_batch_has_no_valley_and_no_axis():
    evidence = played(learned_by_library, "learning", num_envs=[256, 512], batch_size="library", trials=8, confirm=None)
    assert "The batch is the library's own" in texts(draw_valley(evidence))
    (axes,) = draw_coordinates(evidence).axes
    names = [label.get_text().partition("\n")[0] for label in axes.get_xticklabels()]
    assert names == ["num_envs", "horizon", "seconds"]
    assert "B lib" in texts(draw_profile(evidence))


def learned_by_library(request: Any) -> Trial:
    return measured(
        request, seconds=20.0 * 256 / request.num_envs * (1.0 + 0.1 * dice(request.seed).random()), device=GPU
    )


def numbers_of(axis: Axis) -> list[Text]:
    """Return the numbers of an axis that are within the panel."""
    lower, upper = sorted(map(float, axis.get_view_interval()))
    return [tick.label1 for tick in axis.get_major_ticks() if lower <= tick.get_loc() <= upper]


def test_no_words_leave_the_figure_or_lie_on_the_legend(lean: Evidence, fps: Evidence, rough: Evidence):
    for evidence, entry in product((lean, fps, rough), entries(True)):
        figure = entry.draw(evidence)
        FigureCanvasAgg(figure).draw()
        box = figure.bbox
        for axes in (axes for axes in figure.axes if axes.axison):
            keys = known(axes.get_legend()).get_texts() if axes.get_legend() else []
            said = [*axes.texts, *keys, *numbers_of(axes.xaxis), *numbers_of(axes.yaxis)]
            for text in (text for text in said if text.get_text()):
                at = text.get_window_extent()
                is_inside = box.x0 <= at.x0 and at.x1 <= box.x1 + 2 and box.y0 <= at.y0 and at.y1 <= box.y1
                assert is_inside, f"{entry.name}: {text.get_text()!r} leaves the figure"
            for text, other in product(axes.texts, keys):
                touches = text.get_text() and text.get_window_extent().overlaps(other.get_window_extent())
                assert not touches, f"{entry.name}: {text.get_text()!r} lies on the legend"


# An arm whose search was another arm's


@pytest.fixture(scope="module", params=[1.0, 1.5])
def planned(request: pytest.FixtureRequest) -> Evidence:
    study = transfer_study(learning__confirm={"settings": 4, "seeds": 8})
    trials = dict[int, Trial]()

    def kept(asked: Any) -> Trial:
        return trials.setdefault(asked.number, transfer_trial(asked, request.param, noise=0.08))

    play(study, kept)
    return judged(list(trials.values()), study)


def test_a_plan_is_drawn_dashed_with_its_fresh_seeds_and_is_said_to_be_no_claim(planned: Evidence):
    [slow] = [arm.joint for arm in planned.verdict.arms if arm.arm == SLOW]
    answer = next(own for own in slow if own.kind == "learning")
    plan, likeness = known(answer.plan), known(answer.likeness)
    shape = known(plan.shape)
    verb = "learns like lean" if likeness.state == "shown" else "does not learn like lean"
    for draw in (draw_profile, draw_valley, draw_maps, draw_split):
        said = " ".join(texts(draw(planned)).split())
        assert "planned from lean's environment steps, no claim: " in said and verb in said
    measured = sorted(known(setting.cost) for setting in answer.confirmed)
    profile = draw_profile(planned).axes[-2]
    costs = [known(point.cost) for point in shape.profiles[0].values]
    assert ys(profile, "o") == costs and sorted(ys(profile, "s")) == measured
    assert ys(profile, "_") == [], "a plan has no cut-off"
    seconds_of = {name_of(at): at.cost for at in shape.expected}
    assert costs == [seconds_of[name_of(point)] for point in shape.profiles[0].values], "of that very setting"
    valley = draw_valley(planned).axes[-1]
    assert marks(valley, "D") == [(own.value, own.cost) for own in plan.mini_batches]
    assert sorted(ys(valley, "s")) == measured and len(ys(valley, "o")) == 32
    cells_said = [text.get_text() for axes in draw_maps(planned).axes[-2:] for text in axes.texts]
    assert sorted(text for text in cells_said if "seeds" in text) == sorted(f"seeds {cost:.1f}" for cost in measured)
    assert sorted(ys(draw_split(planned).axes[0], "s")) == measured


def test_the_interactive_map_of_a_plan_says_that_it_is_one(planned: Evidence):
    surface = known(chart_maps(planned.verdict, planned.records)).surfaces[-1]
    assert surface.arm == SLOW and surface.note.startswith("Planned from lean's environment steps, no claim")
    assert all("by the plan" in cell.said[1] for cell in surface.cells)
    assert sum("by its fresh seeds" in line for cell in surface.cells for line in cell.said) == 4


# Where they belong


def entries(together: bool, study: Study | None = None) -> Sequence[registry.Entry]:
    every = registry.FIGURES if study is None else registry.figures_of(study)
    return [entry for entry in every if (entry.section == registry.TOGETHER) == together]


def test_a_joint_section_has_these_and_none_of_single_axes():
    assert [entry.name for entry in registry.figures_of(handed_study("lean"))] == list(NAMES)
    of_fps = [entry.name for entry in entries(True, a_study("throughput", confirm=None))]
    assert of_fps == [name for name in NAMES if name not in ("forest", "split")]


def test_only_studies_with_a_joint_answer_have_them():
    studies = [read_study(folder.study) for folder in PUBLISHED.values()]
    joint = [any(section.is_joint for section in study.sections.values()) for study in studies]
    assert {*joint} == {True, False}
    assert [bool(entries(True, study)) for study in studies] == joint


def test_the_report_shows_them_first(fps: Evidence):
    figures = {entry.svg: canvas.saved(entry.draw(fps), "svg") for entry in entries(True) if entry.name != "split"}
    html = page(fps.verdict, [(record, {}) for record in fps.records], figures)
    assert "All axes together" in html
    headings = [
        "Confirmed settings",
        "Where more stops paying",
        "The number of mini-batches",
        "Maps of the expected cost",
    ]
    places = [html.index(heading) for heading in headings]
    assert places == sorted(places)
