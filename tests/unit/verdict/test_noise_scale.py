"""The gradient noise scale comes out of gradients whose noise is known."""

from dataclasses import replace

import numpy as np
import pytest
from envknee.record.schema import GradientSquares
from envknee.study.model import Decide
from envknee.verdict.noise_scale import analyse, noise_scale
from envknee.verdict.series import Ranks
from envknee.words.batch import noise_statement
from records import a_trial

DIMENSIONS = 400


def iterations(
    scale: float, count: int, seed: int, ranks: int = 4, rank_batch: int = 256, steps: int = 16
) -> list[GradientSquares]:
    """Draw gradients with tr(Sigma) / |G|^2 = `scale`, |G| = 1, and square them as a trial does."""
    random = np.random.default_rng(seed)
    truth = np.zeros(DIMENSIONS)
    truth[0] = 1.0
    deviation = np.sqrt(scale / DIMENSIONS / rank_batch)
    own = truth + deviation * random.standard_normal((count, steps, ranks, DIMENSIONS))
    squares = (own**2).sum(axis=3).mean(axis=(1, 2)), (own.mean(axis=2) ** 2).sum(axis=2).mean(axis=1)
    return [
        GradientSquares(rank_batch=rank_batch, batch=ranks * rank_batch, rank_mean=mean, shared=shared)
        for mean, shared in zip(*map(np.ndarray.tolist, squares), strict=True)
    ]


@pytest.mark.parametrize("scale", [50.0, 1_000.0, 20_000.0])
def test_a_known_scale_is_found(scale: float):
    estimate = noise_scale(iterations(scale, 100, seed=1), 0.95)
    assert estimate.transitions == pytest.approx(scale, rel=0.1)


@pytest.mark.parametrize(
    ("count", "scale", "steps"), [(3, 500.0, 16), (5, 500.0, 16), (5, 2_000.0, 2), (10, 2_000.0, 4)]
)
def test_the_interval_covers_the_truth_as_often_as_it_says(count: int, scale: float, steps: int):
    covered = bounded = 0
    for seed in range(400):
        estimate = noise_scale(iterations(scale, count, seed, steps=steps), 0.95)
        lower, upper = estimate.lower or 0.0, estimate.upper or np.inf
        covered += lower <= scale <= upper
        bounded += estimate.upper is not None and lower > 0.0
    assert 0.92 <= covered / 400 <= 0.98  # the share of 400 has a standard error of 1.1%
    assert bounded / 400 > (0.9 if steps > 2 else 0.4), "an interval of everything would cover, too"


def test_two_samples_have_no_interval_and_three_have():
    draws = iterations(500.0, 3, seed=1)
    two, three = noise_scale(draws[:2], 0.95), noise_scale(draws, 0.95)
    assert (two.lower, two.upper) == (None, None) and two.transitions is not None
    assert three.lower < three.transitions < three.upper


def test_an_interval_by_hand():
    # Batches of 1 and 2: |G|^2 = 2 shared - own and tr(Sigma) = 2 (own - shared). Signals 9, 10, 11, noise 20 each: at the ends of
    # r the mean of 20 - r signal, 20 - 10 r, is t = 4.3027 times its standard error, r / sqrt(3), from 0.
    squares = [GradientSquares(rank_batch=1, batch=2, rank_mean=20.0 + s, shared=10.0 + s) for s in (9.0, 10.0, 11.0)]
    estimate = noise_scale(squares, 0.95)
    error = 4.302653 / 3**0.5
    assert estimate.transitions == pytest.approx(2.0)
    assert (estimate.lower, estimate.upper) == (pytest.approx(20 / (10 + error)), pytest.approx(20 / (10 - error)))


def test_noise_without_a_gradient_has_no_end_and_ranks_that_agree_have_no_noise():
    pure_noise = [GradientSquares(rank_batch=10, batch=20, rank_mean=2.0, shared=0.9)] * 3
    estimate = noise_scale(pure_noise, 0.95)
    assert (estimate.transitions, estimate.upper) == (None, None)
    estimate = noise_scale([GradientSquares(rank_batch=10, batch=20, rank_mean=1.5, shared=1.5)], 0.95)
    assert (estimate.transitions, estimate.lower, estimate.upper) == (0.0, None, None)


def test_learning_trials_of_several_ranks_tell_it_point_by_point():
    records = []
    for number, (num_envs, scale) in enumerate([(64, 500.0)] * 3 + [(128, 5_000.0)] * 3):
        trial = a_trial(num_envs, number=number, kind="learning", cpu_ranks=4, repeat=number % 3, seconds=20.0)
        pairs = zip(trial.rows, iterations(scale, len(trial.rows), seed=number), strict=True)
        rows = [row.model_copy(update={"gradients": gradients}) for row, gradients in pairs]
        records.append(replace(trial, rows=rows).record)
    alone = a_trial(256, number=9, kind="learning", seconds=20.0).record
    points = analyse([*records, alone], Ranks(2, "GPU"), Decide())
    assert [(noise.num_envs, noise.scale.samples) for noise in points] == [(64, 3), (128, 3)]
    for noise, scale in zip(points, (500.0, 5_000.0), strict=True):
        assert noise.scale.transitions == pytest.approx(scale, rel=0.25)
        assert f"gradient noise scale {noise.scale.transitions:,.0f} transitions (" in noise_statement(noise)
        assert noise_statement(noise).endswith(
            f") at {noise.num_envs} environments per GPU, horizon 8, batch 128, 3 trials"
        )
