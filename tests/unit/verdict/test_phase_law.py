"""The law of every phase: what made the data comes back, who sets the knee, and what is too uncertain to say."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from envknee.record.schema import Phase
from envknee.study.files import canonical_json
from envknee.study.model import Decide
from envknee.verdict import phase_law, throughput
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule import affine
from envknee.verdict.schema.phases import PhaseLaws
from envknee.words.phases import phase_notes, phase_statement
from phase_data import LAWS, SIZES, Laws, at
from records import GPU, Trial, a_trial, fps_trials, phase_trials, records_of

STUDIES = 250


def of_laws(laws: Laws = LAWS, repeats: int = 1, **fields: Any) -> list[Trial]:
    return phase_trials({n: [at(n, laws)] * repeats for n in SIZES}, **fields)


def analyse(trials: list[Trial], **settings: Any) -> PhaseLaws:
    (laws,) = phase_law.analyse(measurements_of(records_of(trials)), Decide(**settings))
    return laws


def test_laws_recover_what_made_the_data_and_add_up_to_the_iteration():
    trials = of_laws(repeats=2, horizon=16)
    laws = analyse(trials)
    assert [law.phase for law in laws.laws] == list(LAWS)
    for law in laws.laws:
        assert (law.t0_s, law.s_per_env) == (pytest.approx(LAWS[law.phase][0]), pytest.approx(LAWS[law.phase][1]))
        assert law.used and law.largest_relative_error == pytest.approx(0.0, abs=1e-9)
    (limit,) = throughput.analyse(measurements_of(records_of(trials)), Decide())
    assert limit.law is not None
    assert sum(law.t0_s for law in laws.laws) == pytest.approx(limit.law.t0_s)
    assert sum(law.s_per_env for law in laws.laws) == pytest.approx(limit.law.s_per_env)
    assert laws.asymptote_fps == pytest.approx(limit.law.asymptote_fps) == pytest.approx(16 / 12e-5)
    assert [point.share_of_total for point in laws.points] == pytest.approx([1.0] * 5)


def test_the_phase_with_the_largest_slope_sets_the_knee_and_that_with_the_largest_t0_is_waited_for():
    laws = analyse(of_laws(repeats=2))
    assert (laws.sets_the_knee, laws.few_wait_for) == ("learning", "physics")
    learning, physics = laws.law("learning"), laws.law("physics")
    assert learning.share_of_slope == pytest.approx(0.5) and physics.share_of_t0 == pytest.approx(80 / 237)
    assert learning.largest_slope_certainty == physics.largest_t0_certainty == 1.0
    assert (learning.largest_t0_certainty, physics.largest_slope_certainty) == (0.0, 0.0)
    assert phase_statement(laws) == (
        "learning takes 50% of each added environment's time, render 17% (over 99% certain); what few environments wait for:"
        " physics, 34% of the 237 ms that do not grow with num_envs (over 99% certain)"
    )
    assert phase_notes(laws) == []


def test_shares_at_each_point_are_of_the_measured_iteration():
    laws = analyse(phase_trials({n: [at(n)] for n in (64, 128, 1024)}))
    whole = sum(at(1024).values())
    assert laws.points[-1].shares == pytest.approx({phase: value / whole for phase, value in at(1024).items()})
    assert [point.num_envs for point in laws.points] == [64, 128, 1024]


def test_two_equal_phases_leave_it_open_which_is_the_larger():
    equal: Laws = {"render": (0.01, 1e-4), "learning": (0.01, 1e-4)}
    generator = np.random.default_rng(1)
    noisy = {n: [_noisy(equal, n, 0.02, generator) for _ in range(3)] for n in SIZES}
    laws = analyse(phase_trials(noisy))
    certainty = [laws.law("render").largest_slope_certainty, laws.law("learning").largest_slope_certainty]
    assert sum(certainty) == pytest.approx(1.0)
    assert max(certainty) < 0.99
    assert f"({max(certainty):.0%} certain)" in phase_statement(laws)


def test_fewer_than_three_sizes_show_shares_and_no_law():
    laws = analyse(phase_trials({64: [at(64)], 1024: [at(1024)]}))
    assert (laws.laws, laws.sets_the_knee, laws.few_wait_for, laws.asymptote_fps) == ([], None, None, None)
    assert phase_statement(laws).startswith("at 1,024 environments learning takes 31% of an iteration, physics 24%")
    assert "needs 3 different num_envs, and phases are known at 64, 1,024" in phase_statement(laws)


def test_a_law_that_misses_is_shown_but_not_used():
    # Learning jumps as a cache would let it: no straight line meets it.
    bent = {n: [at(n, {**LAWS, "learning": (0.5 if n in (128, 512) else 0.05, 0.0)})] * 2 for n in SIZES}
    laws = analyse(phase_trials(bent))
    learning = laws.law("learning")
    assert not learning.used and learning.largest_relative_error > affine.ERROR_LIMIT
    assert laws.law("render").used
    # What it takes at most leaves room for any answer.
    assert (laws.sets_the_knee, laws.few_wait_for) == (None, "physics")
    assert "no law is close enough" in phase_statement(laws)
    assert phase_notes(laws)[0].startswith("laws that miss a point by more than 10%, shown but not used: learning (")


def test_a_small_phase_without_a_law_does_not_keep_the_large_ones_from_being_named():
    bent = {n: [at(n, {**LAWS, "storage": (0.002 if n in (128, 512) else 0.0005, 0.0)})] * 2 for n in SIZES}
    laws = analyse(phase_trials(bent))
    assert not laws.law("storage").used
    assert (laws.sets_the_knee, laws.few_wait_for) == ("learning", "physics")


def test_trials_without_phases_have_no_laws_and_are_counted_beside_others():
    assert (
        phase_law.analyse(measurements_of(records_of(fps_trials({64: [100.0], 128: [190.0], 256: [300.0]}))), Decide())
        == []
    )
    mixed = [*of_laws(), *fps_trials({64: [400.0]}, first=20)]
    assert phase_notes(analyse(mixed)) == ["5 of 6 timed trials tell their phases"]


def test_failed_and_learning_trials_take_no_part():
    others = [
        a_trial(64, number=20, status="nan", phases_s=at(4096)),
        a_trial(64, number=21, kind="learning", seconds=9.0, phases_s=at(4096)),
        a_trial(2048, number=22, status="oom"),
    ]
    assert analyse([*of_laws(), *others]) == analyse(of_laws())


def test_a_phase_that_never_takes_time_has_no_law_and_one_that_sometimes_does_is_not_used():
    laws = analyse(of_laws({**LAWS, "render": (0.0, 0.0)}))
    assert "render" not in [law.phase for law in laws.laws] and laws.points[0].seconds["render"] == 0.0
    rare = analyse(phase_trials({n: [at(n, {**LAWS, "render": (0.01 if n == 256 else 0.0, 0.0)})] for n in SIZES}))
    assert not rare.law("render").used
    canonical_json(rare)


def test_nothing_grows_with_num_envs():
    laws = analyse(of_laws({"physics": (0.1, 0.0), "learning": (0.2, 0.0)}, repeats=2))
    assert laws.few_wait_for == "learning"
    assert laws.asymptote_fps is None or laws.asymptote_fps > 1e12


def test_several_gpus_count_fps_of_all_and_seconds_of_one():
    trials = of_laws(gpus=2, device=GPU)
    laws = analyse(trials)
    assert laws.world_size == 2
    assert laws.law("learning").s_per_env == pytest.approx(6e-5)
    assert laws.asymptote_fps == pytest.approx(2 * 8 / 12e-5)
    assert [point.share_of_total for point in laws.points] == pytest.approx([1.0] * 5)
    (limit,) = throughput.analyse(measurements_of(records_of(trials)), Decide())
    assert limit.law is not None and limit.law.asymptote_fps == pytest.approx(laws.asymptote_fps)


def test_time_that_fps_are_not_counted_with_is_said():
    slow = [a_trial(n, number=i, fps=2 * n * 8 / sum(at(n).values()), phases_s=at(n)) for i, n in enumerate(SIZES)]
    assert "the phases add up to 200% of the time that FPS are counted with" in phase_notes(analyse(slow))[0]


def _noisy(laws: Laws, num_envs: int, noise: float, generator: np.random.Generator) -> dict[Phase, float]:
    """Return seconds by phase with a deviation that all phases of a trial share, and one of each its own."""
    shared = generator.standard_normal()
    return {
        phase: value * math.exp(noise * (0.6 * shared + 0.8 * generator.standard_normal()))
        for phase, value in at(num_envs, laws).items()
    }


@pytest.mark.parametrize(("repeats", "sizes"), [(1, 7), (3, 5)])
def test_intervals_cover_and_the_certain_are_right(repeats: int, sizes: int):
    generator = np.random.default_rng(11)
    where = [32 * 2**i for i in range(sizes)]
    covered = Counter[tuple[Phase, str]]()
    sure = wrong = 0
    # Render is nearly as costly as learning: a rule that is too sure would be caught.
    close: Laws = {**LAWS, "render": (0.010, 5.8e-5)}
    fixed, slope = map(sum, zip(*close.values(), strict=True))
    for _ in range(STUDIES):
        seconds = {n: [_noisy(close, n, 0.03, generator) for _ in range(repeats)] for n in where}
        laws = phase_law.fit(seconds, 0.95)
        for law in laws:
            t0, c = close[law.phase]
            covered[law.phase, "t0"] += law.share_of_t0_lower <= t0 / fixed <= law.share_of_t0_upper
            covered[law.phase, "c"] += law.share_of_slope_lower <= c / slope <= law.share_of_slope_upper
        first = max(laws, key=lambda law: law.s_per_env)
        if first.largest_slope_certainty >= 0.95:
            sure += 1
            wrong += first.phase != "learning"
    assert len(covered) == 2 * len(LAWS)
    for kind in ("t0", "c"):
        # All phases together; each of them may miss by what chance does in so many studies (three standard deviations).
        counts = [count for (_, of), count in covered.items() if of == kind]
        assert sum(counts) >= 0.93 * STUDIES * len(counts), covered
        assert min(counts) >= (0.93 - 3 * math.sqrt(0.93 * 0.07 / STUDIES)) * STUDIES, covered
    assert wrong <= 0.05 * STUDIES, (sure, wrong)
    assert sure < STUDIES, "such a small difference cannot always be certain"
