"""Critical batch size: what made the data comes back with its interval, and censored runs are bounds, not points."""

import math

import numpy as np
import pytest
from batch_data import B_NOISE, E_MIN, SIZES, needed, three, trials_of
from envknee.study.files import canonical_json
from envknee.study.model import Decide
from envknee.verdict import batch
from envknee.verdict.schema.batch import BatchLaw
from envknee.words.batch import batch_notes, batch_statement
from records import GPU, Trial, a_trial, learning_trials, records_of

STUDIES = 500


def analyse(trials: list[Trial]) -> BatchLaw:
    (law,) = batch.analyse(records_of(trials), Decide())
    return law


def test_the_law_recovers_what_made_the_data():
    law = analyse(trials_of({size: [needed(size)] * 3 for size in SIZES}))
    assert (law.state, law.num_envs, law.horizon, law.used) == ("fitted", 256, 16, True)
    assert law.b_noise == pytest.approx(B_NOISE, rel=1e-3)
    assert law.e_min_frames == pytest.approx(E_MIN, rel=1e-3)
    assert law.s_min == pytest.approx(E_MIN / B_NOISE, rel=1e-3)
    # McCandlish et al., equation 2.11: (S / S_min - 1) (E / E_min - 1) = 1 at every batch size.
    for point in law.points:
        frames = point.frames_to_target.value
        steps = frames / point.batch_size
        assert (steps / law.s_min - 1.0) * (frames / law.e_min_frames - 1.0) == pytest.approx(1.0, rel=0.01)


def test_seeds_give_an_interval_and_one_seed_gives_none():
    law = analyse(trials_of(three()))
    assert law.b_noise_lower < B_NOISE < law.b_noise_upper
    interval = f"{law.b_noise_lower:,.0f} to {law.b_noise_upper:,.0f}"
    assert f"B_noise {law.b_noise:,.0f} transitions ({interval})" in batch_statement(law)
    assert "5 batch sizes, 3 seeds or more each; 256 environments, horizon 16" in batch_statement(law)
    single = analyse(trials_of({size: [needed(size)] for size in SIZES}))
    assert single.b_noise == pytest.approx(B_NOISE, rel=1e-3)
    assert (single.b_noise_lower, single.b_noise_upper) == (None, None)
    assert "(no interval)" in batch_statement(single) and "5 batch sizes, 1 seed or more each" in batch_statement(
        single
    )


def test_fewer_seeds_widen_the_interval():
    def width(trials: list[Trial]) -> float:
        law = analyse(trials)
        return math.log(law.b_noise_upper / law.b_noise_lower)

    factors = (0.9, 1.1, 0.95, 1.05, 0.9, 1.1)
    many = {size: [needed(size, factor) for factor in factors] for size in SIZES}
    few = {size: values[:2] for size, values in many.items()}
    assert width(trials_of(few)) > 1.5 * width(trials_of(many))


def test_a_censored_batch_size_is_a_bound_and_no_point_of_the_fit():
    complete = analyse(trials_of(three()))
    law = analyse(trials_of({**three(), 4096: [needed(4096), None, needed(4096)]}, spent=needed(4096)))
    assert (law.b_noise, law.b_noise_lower) == (complete.b_noise, complete.b_noise_lower)
    last = law.points[-1]
    assert (last.batch_size, last.seeds, last.reached, last.frames_to_target.lower_bound) == (4096, 3, 2, True)
    assert law.used
    assert any("left out of the fit" in note and "4,096 (2 of 3)" in note for note in batch_notes(law))


def test_the_statement_speaks_of_the_batch_sizes_that_were_fitted():
    level = {size: [30_000] * 3 for size in SIZES}
    law = analyse(trials_of({**level, 4096: [None] * 2}))
    assert law.used and law.b_noise is None
    said = "optimizer steps fall in proportion to the batch up to 2,048: B_noise lies beyond it (5 batch sizes, 3 seeds or more each"
    assert batch_statement(law).startswith(said)
    bent = analyse(trials_of({**three(), 4096: [None] * 2}))
    assert "at batch 2,048 environment steps are" in batch_statement(
        bent
    ) and "(5 batch sizes, 3 seeds or more each" in batch_statement(bent)


def test_a_bound_above_what_the_law_expects_contradicts_it():
    law = analyse(trials_of({**three(), 4096: [None] * 3}, spent=3 * needed(4096)))
    assert not law.used and batch_statement(law).startswith("not used: ")
    assert "at batch 4,096 the law expects" in batch_notes(law)[-1]


def test_a_law_that_misses_is_shown_but_not_used():
    humped = {128: 20_000, 256: 60_000, 512: 20_000, 1024: 60_000}
    law = analyse(trials_of({size: [value] * 3 for size, value in humped.items()}))
    assert law.largest_relative_error is not None and law.largest_relative_error > 0.10
    assert not law.used and "more than 10%" in batch_notes(law)[-1]


def test_noise_of_the_seeds_is_no_miss():
    wide = {size: [needed(size, f * (1.2 if size == 512 else 1.0)) for f in (0.7, 1.0, 1.4)] for size in SIZES}
    law = analyse(trials_of(wide))
    assert law.largest_relative_error is not None and law.largest_relative_error > 0.10
    assert law.used


def test_two_batch_sizes_say_what_to_measure():
    law = analyse(trials_of(three([256, 512])))
    assert (law.state, law.b_noise, law.s_min, law.used) == ("too few batch sizes", None, None, False)
    assert batch_statement(law) == (
        "batch 256, 512 alone: for B_noise measure 1 more batch size, such as 2,048, at one num_envs and horizon, with 3 seeds"
        " each that reach the target"
    )
    said = "no batch size at which every seed reached the target: for B_noise measure 3 more"
    assert batch_statement(analyse(trials_of({256: [None], 512: [None]}))).startswith(said)


def test_batch_sizes_are_compared_at_the_same_num_envs_and_horizon_where_that_is_possible():
    other = trials_of({256: [90_000] * 3}, num_envs=64, first=50)
    law = analyse([*trials_of(three()), *other])
    assert (law.num_envs, law.horizon) == (256, 16)
    assert law.b_noise == analyse(trials_of(three())).b_noise
    both = batch.analyse(records_of([*trials_of(three()), *trials_of(three(), num_envs=512, first=50)]), Decide())
    assert [law.num_envs for law in both] == [256, 512]


def test_otherwise_they_are_pooled_and_that_is_said():
    trials = [
        trial
        for i, (size, num_envs) in enumerate(zip(SIZES, (64, 64, 256, 256, 512), strict=True))
        for trial in trials_of({size: three()[size]}, num_envs=num_envs, first=10 * i)
    ]
    law = analyse(trials)
    assert (law.num_envs, law.horizon, law.state) == (None, None, "fitted")
    assert batch_notes(law)[0].startswith("pooled over 64, 256, 512 environments and horizon 16")
    assert "all num_envs and horizons pooled" in batch_statement(law)


def test_frames_that_do_not_grow_leave_b_noise_open():
    law = analyse(trials_of({size: [30_000, 31_000, 29_000] for size in SIZES}))
    assert law.b_noise_upper is None
    canonical_json(law)


def test_the_librarys_batch_counts_as_what_it_was():
    law = analyse(learning_trials({n: [20.0] * 3 for n in (64, 128, 256)}, batch_size=None, horizon=16))
    assert [point.batch_size for point in law.points] == [64, 128, 256]
    assert "the library's own batch counts" in batch_notes(law)[-1]


def test_batches_of_several_gpus_are_those_of_all():
    law = analyse(trials_of(three(), gpus=2, device=GPU))
    assert [point.batch_size for point in law.points] == SIZES
    assert "256 environments per GPU" in batch_statement(law)


def test_throughput_and_infeasible_trials_and_batches_from_a_replay_buffer_take_no_part():
    failed = a_trial(256, number=91, kind="learning", batch_size=64, status="oom")
    more = [a_trial(256, number=90, batch_size=64), failed]
    assert analyse([*trials_of(three()), *more]) == analyse(trials_of(three()))
    for others in (more, trials_of(three(), trainer="skrl_sac")):
        assert batch.analyse(records_of(others), Decide()) == []


@pytest.mark.parametrize(("seeds", "noise"), [(3, 0.10), (5, 0.15)])
def test_intervals_of_b_noise_cover(seeds: int, noise: float):
    generator = np.random.default_rng(13)
    covered = 0
    for _ in range(STUDIES):
        frames = {
            size: [E_MIN * (1.0 + size / B_NOISE) * math.exp(noise * z) for z in generator.standard_normal(seeds)]
            for size in SIZES
        }
        line = batch.fit(frames, 0.95)
        lower, upper = batch.affine.interval(line.ratio_draws, 0.95)
        covered += lower <= B_NOISE <= (math.inf if upper is None else upper)
    assert covered >= 0.93 * STUDIES
