"""Figures of learning: what the target costs by num_envs and by memory, and by the batch size."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from batch_data import SIZES, needed, three, trials_of
from drawn import judged, marks, texts
from envknee.record.schema import Status
from envknee.show.figures.batch import draw_batch
from envknee.show.figures.pareto import draw_pareto, pareto_front
from envknee.show.figures.target import draw_target
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from records import GPU, Device, Trial, a_study, a_trial, known, learning_trials


def trials(seconds: Mapping[int, Sequence[float | None]], device: Device = GPU, **fields: Any) -> list[Trial]:
    return learning_trials(seconds, device=device, **fields)


def test_seconds_and_gpu_seconds_stand_beside_each_other_with_every_seed():
    seconds = {32: [40.0, 41.0, 42.0], 64: [20.0, 21.0, 22.0]}
    figure = draw_target(judged(trials(seconds, gpus=2)))
    left, right = figure.axes
    assert sorted(marks(left, "o")) == sorted(
        [(32.0, 41.0), (64.0, 21.0), *((float(n), value) for n, values in seconds.items() for value in values)]
    )
    assert [y for _, y in marks(right, "o")] == [2 * y for _, y in marks(left, "o")], "two GPUs"
    assert (left.get_ylabel(), right.get_ylabel()) == (
        "Wall seconds of training to the target",
        "GPU-seconds to the target",
    )
    assert left.get_yscale() == right.get_yscale() == "log"
    assert "6 of 6 trials got there" in texts(figure)


def test_a_censored_seed_and_its_mean_are_open_triangles_at_their_bounds():
    figure = draw_target(judged(trials({32: [50.0, None], 64: [20.0, 21.0]})))
    open_ones = [line for line in figure.axes[0].lines if line.get_marker() == "^"]
    assert len(open_ones) == 2 and all(line.get_markerfacecolor() == "white" for line in open_ones)
    assert max(y for _, y in marks(figure.axes[0], "^")) == 60.0, "the budget"
    assert "did not reach" in texts(figure) and "3 of 4 trials got there" in texts(figure)


def test_the_title_says_of_which_series_a_threshold_is_where_there_are_several():
    flat = {32: [20.0, 20.1, 20.2], 64: [25.0, 25.2, 25.4]}
    assert "Doubling saves less than 25% of the time from 32 on;" in texts(draw_target(judged(trials(flat))))
    steep = trials({32: [19.0, 19.1, 19.2], 64: [9.0, 9.1, 9.2]}, first=20, horizon=16)
    both = " ".join(texts(draw_target(judged([*trials(flat), *steep]))).split())
    assert "from 32 (horizon 8, batch 128) on; 12 of 12" in both


def points(*places: tuple[int, float, Sequence[float | None]], first: int = 0, arm: str = "stock") -> list[Trial]:
    """Return learning trials: (num_envs, GB, seconds to target of each seed, None for a budget of 60 s spent)."""
    return [
        trial
        for i, (num_envs, memory_gb, seconds) in enumerate(places)
        for trial in learning_trials(
            {num_envs: seconds}, first=first + 10 * i, memory_gb=memory_gb, device=GPU, arm=arm
        )
    ]


def labels_of(figure: Figure) -> list[str]:
    legend = known(figure.axes[0].get_legend())
    lines = [text.get_text().split("\n")[0] for text in legend.get_texts()]
    return [line for line in lines if line[0].isdigit() and ": " in line]


def test_the_front_is_what_nothing_beats_in_both():
    assert pareto_front([(1, 9), (2, 5), (3, 5), (3, 7), (4, 1), (5, 2)]) == [(1, 9), (2, 5), (4, 1)]
    assert pareto_front([(1, 1), (1, 2), (1, 1)]) == [(1, 1)]
    assert pareto_front([]) == []


def test_points_on_the_front_are_filled_and_the_others_hollow():
    figure = draw_pareto(judged(points((32, 2.0, [30.0, 31.0]), (64, 4.0, [20.0, 21.0]), (128, 8.0, [25.0, 26.0]))))
    (axes,) = figure.axes
    assert marks(axes, "o") == [(2.0, 30.5), (4.0, 20.5), (8.0, 25.5)]
    fills = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
    assert [fill == "white" for fill in fills] == [False, False, True]
    (front,) = [line for line in axes.lines if line.get_linewidth() == 1.2]
    corners = list(zip(front.get_xdata(), front.get_ydata(), strict=True))  # pyright: ignore
    assert front.get_drawstyle() == "steps-post" and corners == [(2.0, 30.5), (4.0, 20.5), (axes.get_xlim()[1], 20.5)]
    assert labels_of(figure) == ["1: 32/8/128", "2: 64/8/128"]
    assert "2: 64/8/128\n20.5 s, 4.00 GB" in texts(figure)
    words = texts(figure).replace("\n", " ")
    assert "Soonest: 64/8/128, 20.5 s with 4.00 GB Least memory: 32/8/128, 30.5 s with 2.00 GB" in words


def test_a_point_where_some_seeds_had_no_memory_is_told_apart():
    trials = points((32, 2.0, [30.0, 31.0]), (64, 4.0, [20.0, 21.0]))
    oom = a_trial(64, number=99, repeat=2, kind="learning", status="oom", device=GPU)
    assert "2: 64/8/128*" in labels_of(draw_pareto(judged([*trials, oom])))
    assert "some trials there ran out" in texts(draw_pareto(judged([*trials, oom])))
    assert "*" not in texts(draw_pareto(judged(trials)))


def test_a_point_with_a_censored_run_is_an_open_arrow_at_its_mean_and_not_on_the_front():
    figure = draw_pareto(judged(points((32, 2.0, [30.0, None]), (64, 4.0, [40.0, 41.0]))))
    (axes,) = figure.axes
    assert marks(axes, "^") == [(2.0, 45.0)], "the budget is 60 s"
    (arrow,) = [line for line in axes.lines if line.get_marker() == "^"]
    assert arrow.get_markerfacecolor() == "white"
    assert marks(axes, "o") == [(4.0, 40.5)]
    assert "64/8/128 is soonest and needs the least memory" in texts(figure) and "did not reach" in texts(figure)
    assert any(isinstance(text, Annotation) and text.arrow_patch is not None for text in axes.texts)


def test_a_run_that_broke_counts_with_its_budget_and_one_without_memory_not_at_all():
    """As in the learning limit: what became NaN would never have arrived, and out of memory is no cost and no peak."""

    def ended(status: Status, memory_gb: float, number: int) -> Trial:
        trial = a_trial(32, number=number, kind="learning", memory_gb=memory_gb, device=GPU, repeat=number)
        return replace(trial.ended(status=status), rows=trial.rows[:4])

    trials = [*points((32, 2.0, [30.0])), ended("nan", 2.0, 1), ended("oom", 5.0, 2)]
    assert marks(draw_pareto(judged(trials)).axes[0], "^") == [(2.0, 45.0)]


def test_nothing_but_censored_runs_has_no_front():
    figure = draw_pareto(judged(points((32, 2.0, [None, None]))))
    assert "No point reached the target with every seed" in texts(figure)
    assert not [line for line in figure.axes[0].lines if line.get_linewidth() == 1.2]


def test_the_librarys_batch_and_out_of_memory():
    trials = [
        *learning_trials({32: [9.0]}, batch_size=None, memory_gb=2.0, device=GPU),
        a_trial(4096, number=9, kind="learning", status="oom", device=GPU),
    ]
    assert labels_of(draw_pareto(judged(trials))) == ["1: 32/8/lib"]
    assert "No learning trial lived long enough" in texts(draw_pareto(judged(trials[1:])))
    assert "No learning trial has run yet." in texts(draw_pareto(judged([])))


def test_arms_have_a_mark_each_and_the_title_says_whose_point_it_is():
    study = a_study(arms={"stock": {}, "lean": {}})
    trials = [*points((32, 2.0, [30.0])), *points((32, 1.0, [10.0]), first=50, arm="lean")]
    figure = draw_pareto(judged(trials, study))
    assert marks(figure.axes[0], "s") == [(1.0, 10.0)]
    words = texts(figure).replace("\n", " ")
    assert "lean: 32/8/128 is soonest and needs the least memory: 10.0 s with 1.00 GB" in words


def test_the_legend_numbers_eight_points_of_the_front_at_most():
    figure = draw_pareto(judged(points(*((16 * (i + 1), 1.0 + i, [60.0 - 4 * i]) for i in range(10)))))
    (axes,) = figure.axes
    numbers = [text.get_text() for text in axes.texts]
    assert numbers == [label.partition(":")[0] for label in labels_of(figure)] == [str(n) for n in range(1, 9)]


def the_curve(axes: Axes) -> Line2D:
    (curve,) = [line for line in axes.lines if len(line.get_xdata()) > 2]  # pyright: ignore[reportArgumentType]
    return curve


def test_steps_and_frames_of_every_batch_size_and_the_law_through_them():
    evidence = judged(trials_of({size: [needed(size)] * 3 for size in SIZES}))
    figure = draw_batch(evidence)
    upper, lower = figure.axes
    assert marks(lower, "o") == [(float(size), pytest.approx(needed(size))) for size in SIZES]
    assert marks(upper, "o") == [(float(size), pytest.approx(needed(size) / size)) for size in SIZES]
    (law,) = evidence.verdict.arms[0].batch
    curve = the_curve(lower)
    for x, y in zip(curve.get_xdata(), curve.get_ydata(), strict=True):  # pyright: ignore[reportArgumentType]
        assert y == pytest.approx(law.e_min_frames + law.s_min * x)
    assert "Critical batch size: 600 transitions per optimizer step" in texts(figure)


def test_b_noise_is_a_line_and_its_interval_a_bar():
    evidence = judged(trials_of(three()))
    (law,) = evidence.verdict.arms[0].batch
    for axes in draw_batch(evidence).axes:
        (line,) = [line for line in axes.lines if line.get_linewidth() == 1.0]
        assert set(map(float, line.get_xdata())) == {law.b_noise}  # pyright: ignore[reportArgumentType]
        (bar,) = [line for line in axes.lines if line.get_linewidth() == 4.0]
        assert list(map(float, bar.get_xdata())) == [law.b_noise_lower, law.b_noise_upper]  # pyright: ignore[reportArgumentType]


def test_a_censored_batch_size_is_an_open_arrow():
    figure = draw_batch(judged(trials_of({**three(), 4096: [None] * 3}, spent=needed(4096))))
    ((size, steps),) = marks(figure.axes[0], "^")
    assert (size, steps) == (4096.0, pytest.approx(needed(4096) / 4096, rel=0.01))
    assert "a lower bound, not fitted" in texts(figure)


def test_an_open_interval_ends_at_the_panel():
    evidence = judged(trials_of({size: [30_000, 31_000, 29_000] for size in SIZES}))
    figure = draw_batch(evidence)
    right = figure.axes[0].get_xlim()[1]
    for line in figure.axes[0].lines:
        assert max(map(float, line.get_xdata())) <= right  # pyright: ignore[reportArgumentType]


def test_a_law_that_is_not_used_is_faint_and_without_b_noise():
    evidence = judged(trials_of({128: [20_000] * 3, 256: [60_000] * 3, 512: [20_000] * 3, 1024: [60_000] * 3}))
    figure = draw_batch(evidence)
    curve = the_curve(figure.axes[0])
    assert curve.get_alpha() == 0.4
    assert not [line for line in figure.axes[0].lines if line.get_linewidth() in (1.0, 4.0)]
    assert "not used" in texts(figure)
