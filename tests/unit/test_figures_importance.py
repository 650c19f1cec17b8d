"""Importances and slices: which size decides, and what cannot tell."""

import pytest
from drawn import marks, texts
from envknee import outputs
from envknee.figures import draw_importance, svg_of
from envknee.figures.importance import importances, slices_of
from envknee.limits.verdict import decide
from records import GPU, Trial, a_study, a_trial, records_of

LEARNING = {"num_envs": [16, 32, 64], "horizon": [8, 16], "batch_size": 128, "target_reward": 4.0, "budget_s": 60.0}
TWO = {
    "throughput": {"num_envs": [16, 32, 64, 128], "horizon": [8, 16], "batch_size": 128, "repeats": 2},
    "learning": LEARNING,
}


def swept(repeats: int, horizon_matters: bool = False) -> list[Trial]:
    """Return throughput trials whose FPS follows from one size alone."""
    points = [(n, t, r) for n in (16, 32, 64, 128) for t in (8, 16) for r in range(repeats)]
    return [
        a_trial(
            n,
            number=i,
            horizon=t,
            repeat=r,
            fps=(1000.0 * t if horizon_matters else 100.0 * n) + i * 7 % 11,
            device=GPU,
        )
        for i, (n, t, r) in enumerate(points)
    ]


@pytest.mark.parametrize("horizon_matters", [False, True])
def test_the_size_that_decides_has_the_importance(horizon_matters: bool):
    found = importances(a_study(**TWO), "throughput", records_of(swept(3, horizon_matters)))
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["horizon" if horizon_matters else "num_envs"] > 0.7


def test_few_trials_have_no_importance_and_one_size_is_no_question():
    study = a_study(**TWO)
    assert importances(study, "throughput", records_of(swept(1))) == {}
    (row,) = slices_of(study, records_of(swept(1)))
    assert (list(row.sizes), row.importances) == (["num_envs", "horizon"], {})
    assert slices_of(study, records_of([t for t in swept(2) if t.request.horizon == 8])) == []


def test_each_size_has_a_panel_with_every_trial_and_those_without_a_value():
    study = a_study(**TWO)
    trials = [
        *swept(2),
        a_trial(128, number=90, horizon=16, status="oom", device=GPU),
        *(
            a_trial(n, number=91 + n, kind="learning", horizon=t, seconds=s, device=GPU)
            for n, t, s in ((16, 8, 30.0), (32, 16, None))
        ),
    ]
    records = records_of(trials)
    figure = draw_importance(decide(records, study), study, records)
    envs, horizon, learning, _ = figure.axes
    assert len(marks(envs, "o")) == len(marks(horizon, "o")) == 16
    assert marks(envs, "X") == [(128.0, 0.0)] and marks(horizon, "X") == [(16.0, 0.0)]
    assert marks(learning, "o") == [(16.0, 30.0)] and marks(learning, "^") == [(32.0, 60.0)]
    words = texts(figure)
    assert "(17 throughput trials)" in words
    assert "did not fit the memory" in words and "no importance from fewer\nthan 10 trials" in words
    assert svg_of(figure) == svg_of(draw_importance(decide(records, study), study, records))


def test_nothing_to_show_is_said_and_which_studies_have_it_is_known_before():
    study = a_study()
    assert "nothing to show" in texts(draw_importance(decide([], study), study, []))
    assert outputs.IMPORTANCE not in outputs.figures_of(study)
    assert outputs.IMPORTANCE in outputs.figures_of(a_study(**TWO))
    assert all(outputs.section_of(name) for name in outputs.figures_of(a_study(**TWO)))
