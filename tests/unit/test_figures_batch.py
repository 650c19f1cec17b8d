"""The batch figure: steps and frames of every batch size, the law, B_noise with its interval, and bounds."""

import pytest
from drawn import judged, marks, texts
from envknee.show.figures.batch import draw_batch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from test_limits_batch import SIZES, needed, three, trials_of


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
