"""The phase figure: what each bar is made of, that every series has a row, and what it says where little is known."""

import pytest
from drawn import judged, texts
from envknee.record.schema import PHASES, Phase
from envknee.show.figures.phases import draw_phases
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from records import GPU, Trial, a_study, a_trial, phase_trials
from test_limits_phase_law import LAWS, SIZES, at


def bars(axes: Axes) -> dict[str, list[float]]:
    """Return the heights of the bars of each phase, in the order of num_envs."""
    stacks = [container for container in axes.containers if isinstance(container, BarContainer)]
    return {
        phase: [float(bar.get_height()) for bar in stack.patches] for phase, stack in zip(PHASES, stacks, strict=True)
    }


def test_bars_are_microseconds_per_frame_and_shares_of_an_iteration():
    evidence = judged(phase_trials({n: [at(n)] * 2 for n in (256, 512, 1024)}, horizon=16))
    left, right = draw_phases(evidence).axes
    for phase in PHASES:
        expected = [1e6 * at(n)[phase] / (16 * n) for n in (256, 512, 1024)]
        assert bars(left)[phase] == pytest.approx(expected)
        assert bars(right)[phase] == pytest.approx([at(n)[phase] / sum(at(n).values()) for n in (256, 512, 1024)])
    assert [sum(column) for column in zip(*bars(right).values(), strict=True)] == pytest.approx([1.0] * 3)


def test_the_title_names_the_phase_that_sets_the_knee_and_the_line_is_its_limit():
    evidence = judged(phase_trials({n: [at(n)] * 2 for n in SIZES}))
    figure = draw_phases(evidence)
    words = " ".join(texts(figure).split())
    assert words.startswith("Learning takes 50% ") and "of each added environment's time, " in words
    assert "limit of many num_envs" in texts(figure)
    (line,) = figure.axes[0].lines
    assert list(map(float, line.get_ydata())) == pytest.approx([1e6 * 12e-5 / 8] * 2)  # pyright: ignore[reportArgumentType]


def test_bars_far_above_the_others_are_cut_off_with_their_height():
    evidence = judged(phase_trials({n: [at(n)] for n in (64, 128, 4096)}))
    figure = draw_phases(evidence)
    left = figure.axes[0]
    heights = [1e6 * sum(at(n).values()) / (8 * n) for n in (64, 128, 4096)]
    assert left.get_ylim()[1] == pytest.approx(1.06 * 6 * heights[-1])
    assert [text.get_text() for text in left.texts] == [f"{heights[0]:.0f}", f"{heights[1]:.0f}"]
    assert "bars cut off" in texts(figure)


def test_each_series_has_a_row_and_each_arms_fastest_comes_first():
    study = a_study(arms={"stock": {}, "lean": {}})
    slow: dict[Phase, tuple[float, float]] = {phase: (2 * t0, 2 * c) for phase, (t0, c) in LAWS.items()}
    trials: list[Trial] = []
    for i, (arm, horizon) in enumerate([("stock", 8), ("stock", 16), ("lean", 8)]):
        laws = slow if (arm, horizon) == ("stock", 8) else LAWS
        trials += phase_trials({n: [at(n, laws)] for n in SIZES}, arm=arm, horizon=horizon, first=20 * i)
    figure = draw_phases(judged(trials, study))
    rows = [axes.get_title(loc="left") for axes in figure.axes[::2]]
    assert rows == ["stock: horizon 16, batch 128", "lean: horizon 8, batch 128", "stock: horizon 8, batch 128"]
    assert texts(figure).startswith("stock: learning takes 50% ") and "\nlean: learning takes 50% " in texts(figure)


def test_several_ranks_count_frames_of_all():
    sizes = (256, 512, 1024)
    trials = [
        a_trial(n, number=i, gpus=2, device=GPU, fps=2 * n * 8 / sum(at(n).values()), phases_s=at(n))
        for i, n in enumerate(sizes)
    ]
    figure = draw_phases(judged(trials, a_study(arms={"stock": {"gpus": 2}})))
    assert bars(figure.axes[0])["learning"] == pytest.approx([1e6 * at(n)["learning"] / (2 * 8 * n) for n in sizes])
    assert "on each GPU" in texts(figure)
