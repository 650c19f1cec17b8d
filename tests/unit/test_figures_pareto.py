"""Time to target against memory: the front, censored runs, and numbers."""

from collections.abc import Sequence
from dataclasses import replace

from drawn import judged, marks, texts
from envknee.record.schema import Status
from envknee.show.figures.pareto import draw_pareto, pareto_front
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from records import GPU, Trial, a_study, a_trial, known, learning_trials


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
    """Return the first line of each numbered point's key."""
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
