"""Memory limit: the model recovers what made the data, and says what it cannot know."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from envknee.ask.refusals import KnownMemory
from envknee.base.point import Point, batch_transitions
from envknee.record.reasons import PredictedTooLarge, RolloutTooLarge
from envknee.study.model import Decide
from envknee.verdict import memory_limit, memory_model, memory_sample
from envknee.verdict.memory_sample import Sample
from envknee.verdict.schema.memory import TERMS, MemoryLimit, MemoryWall
from envknee.verdict.series import Series
from envknee.words.memory import memory_notes, memory_statement, memory_title
from records import CPU, GPU, Trial, a_trial, known, records_of

from benchmarks.prove import BASE_GB, PER_BATCH_GB, PER_ENV_GB, PER_TRANSITION_GB, peak_gb

TRUTH = pytest.approx(dict(zip(TERMS, (BASE_GB, PER_ENV_GB, PER_TRANSITION_GB, PER_BATCH_GB), strict=True)))


def grid(
    sizes: Sequence[int] = (64, 128, 256),
    horizons: Sequence[int] = (8, 16),
    batches: Sequence[int | None] = (128, 256),
    noise_gb: float = 0.0,
    repeats: int = 2,
    seed: int = 1,
    gpus: int = 1,
) -> list[Trial]:
    """Return trials on H100s whose peaks follow the model; each GPU holds its part of the batch alone."""
    generator = np.random.default_rng(seed)
    points = [(n, t, b, r) for n in sizes for t in horizons for b in batches for r in range(repeats)]
    return [
        a_trial(
            n, number=i, repeat=r, horizon=t, batch_size=b, device=GPU, gpus=gpus,
            memory_gb=peak_gb(n, t, b / gpus if b else n * t / 16) + noise_gb * generator.standard_normal(),
        )
        for i, (n, t, b, r) in enumerate(points)
    ]  # fmt: skip


def analyse(trials: list[Trial], **settings: Any) -> MemoryLimit:
    return known(memory_limit.analyse(records_of(trials), Decide(**settings)))


def wall_of(limit: MemoryLimit, horizon: int, batch_size: int | None) -> MemoryWall:
    return known(limit.wall(Series("", horizon, batch_size)))


def fits(horizon: int, batch: float = 0.0, batch_per_env: float = 0.0, share: float = 0.95) -> float:
    """Return the environments that fit a share of 85 GB, less base and batch, by what each takes with its transitions."""
    per_env = PER_ENV_GB + horizon * PER_TRANSITION_GB + batch_per_env * PER_BATCH_GB
    return (share * 85.0 - BASE_GB - batch * PER_BATCH_GB) / per_env


def test_model_recovers_what_made_the_data_and_says_how_far_it_reaches():
    limit = analyse(grid())
    assert limit.terms_gb == TRUTH
    assert (limit.quantity, limit.trials) == ("device memory used", 24)
    assert limit.largest_error_gb == pytest.approx(0, abs=1e-9)
    assert limit.peak_gb(512, 16, 256.0) == pytest.approx(peak_gb(512, 16, 256.0))
    assert (limit.lacks, limit.sizes, limit.points, limit.unknowns) == (None, 3, 12, 4)
    assert known(limit.tightest).is_far_beyond and known(limit.tightest).extrapolation == pytest.approx(56, abs=0.5)


def test_largest_num_envs_by_hand():
    wall = wall_of(analyse(grid(), memory_margin=0.10), 16, 256)
    expected = int(fits(16, batch=256, share=0.9))
    assert (wall.largest_num_envs, wall.largest_fitted) == (expected, 256)
    assert (wall.smallest_failed, wall.contradicted) == (None, False)
    assert wall.extrapolation == pytest.approx(expected / 256)


def test_batch_of_the_library_follows_num_envs():
    limit = analyse(grid(batches=(None,)))
    # With 16 mini-batches the batch is a sixteenth of the rollout: one term holds both.
    assert set(limit.terms_gb) == {"base", "per_environment", "per_transition"}
    assert limit.terms_gb["per_transition"] == pytest.approx(PER_TRANSITION_GB + PER_BATCH_GB / 16)
    assert batch_transitions(64, 16, None, 16) == 64.0
    assert (batch_transitions(64, 16, 128, 8), batch_transitions(64, 16, None, None)) == (128.0, 0.0)


def test_library_and_fixed_batches_together():
    limit = analyse(grid(batches=(128, None)))
    assert limit.terms_gb["per_batch_transition"] == pytest.approx(PER_BATCH_GB)
    assert wall_of(limit, 8, None).largest_num_envs == int(fits(8, batch_per_env=8 / 16))


def test_one_horizon_cannot_tell_the_rollout_apart_but_still_predicts():
    limit = analyse(grid(horizons=(8,), batches=(128,)))
    assert limit.terms_gb["per_environment"] == pytest.approx(PER_ENV_GB + 8 * PER_TRANSITION_GB)
    assert (limit.horizons, "per_transition" in limit.terms_gb) == ([8], False)
    assert wall_of(limit, 8, 128).largest_num_envs == pytest.approx(fits(8, batch=128), abs=1)


def test_a_replay_buffer_is_no_part_of_what_grows():
    # 40 GB of replay and 10 MB per environment; noise that goes with the horizon would pass for a rollout's part.
    trials = [
        a_trial(n, number=n + t, horizon=t, device=GPU, memory_gb=40.0 + 0.01 * n + 0.002 * t, trainer="skrl_sac")
        for n in (64, 128, 256)
        for t in (8, 16)
    ]
    limit = analyse(trials)
    assert set(limit.terms_gb) == {"base", "per_environment"}
    assert limit.terms_gb["base"] == pytest.approx(40.0, abs=0.05)
    assert limit.keeps_replay
    assert wall_of(limit, 16, 128).largest_num_envs == pytest.approx((0.95 * 85.0 - 40.0) / 0.01, rel=0.01)
    as_rollouts = [trial.asked(trainer="skrl") for trial in trials]
    assert "per_transition" in analyse(as_rollouts).terms_gb


def test_a_replay_buffer_is_not_taken_for_a_rollout_that_would_not_fit():
    trial = a_trial(64, horizon=8, device=GPU, memory_gb=45.0, trainer="skrl_sac").ended(rollout_gb=40.0)
    record, as_rollout = trial.record, trial.asked(trainer="skrl").record
    large = Point(1024, 8, 128)
    assert KnownMemory.of("stock", [record]).refusal(large) is None
    refusal = KnownMemory.of("stock", [as_rollout]).refusal(large)
    assert isinstance(refusal, RolloutTooLarge)
    assert (refusal.num_envs, refusal.horizon, refusal.needed_gb) == (1024, 8, 640.0)


def test_too_few_points_are_not_identifiable():
    limit = analyse(grid(sizes=(64,)))
    assert (limit.identifiable, limit.terms_gb, limit.largest_error_gb) == (False, {}, None)
    assert (limit.lacks, limit.sizes) == ("sizes", 1)
    assert limit.walls[0].largest_num_envs is None
    assert limit.peak_gb(64, 8, 128.0) is None


def test_a_program_that_takes_no_memory_of_its_gpu_has_no_model():
    """As a command on the CPU that was given a GPU: relative errors of zero are none."""
    trials = [a_trial(size, number=place, device=GPU, memory_gb=0.0) for place, size in enumerate((64, 128, 256) * 3)]
    limit = analyse(trials)
    assert (limit.identifiable, limit.trials) == (False, 0)
    assert limit.walls[0].largest_fitted == 256


@pytest.mark.parametrize("repeats", [1, 5])
def test_as_many_points_as_unknowns_have_no_interval_however_often_they_were_repeated(repeats: int):
    limit = analyse(grid(sizes=(64, 8192), horizons=(8,), batches=(128,), repeats=repeats, noise_gb=0.01))
    assert (
        limit.identifiable
        and limit.walls[0].largest_num_envs_lower is None
        and limit.cards[0].largest_num_envs_lower is None
    )
    assert (limit.lacks, limit.points, limit.unknowns) == (None, 2, 2)


def test_what_the_model_misses_widens_the_interval_though_repeats_agree():
    # An allocator that takes 2 GB more from 256 environments on, the same in every repeat.
    bent = {64: 3.0, 128: 4.0, 256: 8.0, 512: 12.0}
    straight = {64: 3.0, 128: 4.0, 256: 6.0, 512: 10.0}
    widths = []
    for peaks in (bent, straight):
        each = enumerate([*peaks.items()] * 3)
        (wall,) = analyse([a_trial(n, number=i, repeat=i % 3, memory_gb=gb, device=GPU) for i, (n, gb) in each]).walls
        widths.append(wall.largest_num_envs_upper - wall.largest_num_envs_lower)
        # Beyond what was measured each environment takes 1/64 GB, beside 2 GB or, bent, 4.
        fits = (0.95 * 85.0 - 2.0 - 2.0 * (peaks is bent)) / (8 / 512)
        assert wall.largest_num_envs_lower <= fits <= wall.largest_num_envs_upper
    assert widths[1] <= 2 < 1000 < widths[0]


def test_noise_of_repeats_widens_the_interval_though_their_means_fit():
    walls = []
    for noise_gb in (0.0, 0.5):
        trials = [
            a_trial(n, number=i, repeat=i % 2, memory_gb=2.0 + n / 64 + (noise_gb if i % 2 else -noise_gb), device=GPU)
            for i, n in enumerate([64, 64, 128, 128, 256, 256])
        ]
        walls += analyse(trials).walls
    exact, noisy = walls
    # One more trial may be 0.5 GB off by itself, which 32 environments take.
    assert exact.largest_num_envs_upper - exact.largest_num_envs_lower <= 2
    assert noisy.largest_num_envs_upper - noisy.largest_num_envs_lower > 64


def test_what_learned_in_parts_is_no_evidence_of_what_whole_trials_take():
    whole = grid(horizons=(8,), batches=(None,))
    large = [a_trial(n, number=50 + n, horizon=8, batch_size=None, memory_gb=84.0, device=GPU) for n in (512, 1024)]
    parts = [trial.ended(micro_batches=4) for trial in large]
    alone, both = analyse(whole), analyse([*whole, *parts])
    assert (both.terms_gb, both.trials, both.cards) == (alone.terms_gb, alone.trials, alone.cards)
    assert (alone.trials_in_parts, both.trials_in_parts) == (0, 2)
    assert (alone.walls[0].largest_fitted, both.walls[0].largest_fitted) == (256, 1024)
    samples = [memory_sample.sample_of(trial.record) for trial in parts]
    assert memory_model.predict(samples, Point(64, 8, None), 85.0, 1) is None


def test_what_a_point_takes_the_second_time_in_a_process_does_not_count():
    first = grid()
    again = [trial.asked(again=True) for trial in grid(noise_gb=0.5, seed=2)]
    assert analyse(first + again) == analyse(first) and analyse(again).trials != analyse(first).trials


def test_two_sizes_refuse_nothing_by_themselves_and_what_one_trial_showed():
    fitted = [a_trial(n, number=i, memory_gb=n / 16, device=GPU).record for i, n in enumerate([64, 64, 256, 256])]
    point = Point(4096, 8, 128)
    assert KnownMemory.of("stock", fitted).refusal(point) is None
    failed = a_trial(4096, number=8, status="oom", device=GPU).record
    refusal = KnownMemory.of("stock", [*fitted, failed]).refusal(point)
    assert isinstance(refusal, PredictedTooLarge) and refusal.trials == 4
    # A failure at a larger point says nothing of this one.
    larger = a_trial(8192, number=8, status="oom", device=GPU).record
    assert KnownMemory.of("stock", [*fitted, larger]).refusal(point) is None
    third = a_trial(128, number=8, memory_gb=8.0, device=GPU).record
    refusal = KnownMemory.of("stock", [*fitted, third]).refusal(point)
    assert isinstance(refusal, PredictedTooLarge) and refusal.trials == 5


def test_nothing_shrinks_with_more_environments():
    peaks = {16: 1.2, 32: 1.1, 64: 1.0, 128: 1.1}
    limit = analyse([a_trial(n, number=n, memory_gb=gb) for n, gb in peaks.items()])
    assert limit.terms_gb["per_environment"] == 0.0
    assert limit.walls[0].largest_num_envs is None
    assert limit.tightest is None and limit.lacks is None


def test_out_of_memory_is_listed_and_its_peak_not_fitted():
    short = a_trial(256, number=90, horizon=16, status="oom", device=GPU)
    # A trial that ran out of memory in its second iteration has a peak, cut short.
    cut = Trial(short.request, a_trial(256, memory_gb=3.0, device=GPU).rows[:1], short.outcome)
    refused = a_trial(4096, number=91, horizon=16, status="refused")
    limit = analyse([*grid(batches=(128,)), cut, refused])
    assert limit.terms_gb["per_environment"] == pytest.approx(PER_ENV_GB)
    wall = wall_of(limit, 16, 128)
    assert (wall.smallest_failed, wall.out_of_memory, wall.contradicted) == (256, [256], True)


def test_all_out_of_memory():
    limit = analyse([a_trial(64, status="oom", device=GPU), a_trial(128, number=1, status="refused")])
    assert (limit.identifiable, limit.trials, limit.device_memory_gb) == (False, 0, 85.0)
    assert (limit.lacks, limit.sizes, limit.points, limit.unknowns, limit.smallest_failed) == ("sizes", 0, 0, 0, 64)


def test_a_cpu_is_labelled_as_what_it_is():
    limit = analyse([a_trial(n, number=n, memory_gb=1.0 + 0.01 * n, device=CPU) for n in (16, 32, 64)])
    assert limit.quantity == "resident set of the process"
    assert (limit.device_memory_gb, limit.device_kinds) == (25.3, 1)


def test_every_kind_of_trial_counts():
    trials = [*grid(batches=(128,)), a_trial(64, number=99, kind="learning", memory_gb=peak_gb(64, 8, 128), device=GPU)]
    assert analyse(trials).trials == 13


def test_of_several_gpus_each_holds_its_part_of_the_batch():
    limit = analyse(grid(gpus=2, batches=(128, 256, None)))
    assert limit.terms_gb == TRUTH
    assert (limit.world_size, limit.device_memory_gb) == (2, 85.0)
    assert wall_of(limit, 16, 256).largest_num_envs == int(fits(16, batch=128))
    assert wall_of(limit, 8, None).largest_num_envs == int(fits(8, batch_per_env=8 / 16))
    assert limit.ranks == (2, "GPU")
    assert batch_transitions(64, 16, 128, 16, 2) == 64.0
    assert batch_transitions(64, 16, None, 16, 2) == 64.0


def test_ranks_on_a_cpu_share_its_memory():
    trials = [a_trial(n, number=n, memory_gb=1.0 + 0.05 * n, gpus=0, cpu_ranks=2) for n in (16, 32, 64)]
    limit = analyse(trials, memory_margin=0.0)
    assert limit.device_memory_gb == pytest.approx(25.3 / 2)
    assert wall_of(limit, 8, 128).largest_num_envs == pytest.approx((25.3 / 2 - 1.0) / 0.05, abs=1)
    assert limit.ranks == (2, "rank")


def line(peaks: dict[int, float], repeats: int = 1, **fields: Any) -> list[Trial]:
    """Return trials at one horizon and batch size, with the peak of each num_envs."""
    each = [(n, gb) for n, gb in peaks.items() for _ in range(repeats)]
    return [a_trial(n, number=i, repeat=i, memory_gb=gb, **{"device": GPU, **fields}) for i, (n, gb) in enumerate(each)]


OTHER_GPU = GPU.model_copy(update={"name": "NVIDIA H200", "memory_gb": 150.0})
ON_RANKS: dict[str, Any] = {"gpus": 0, "cpu_ranks": 2, "device": CPU}


@pytest.mark.parametrize(
    ("trials", "said", "notes"),
    [
        (grid(), "far from binding: 95% of the GPU's 85.0 GB would take about 56 times the largest num_envs measured", []),
        (grid(sizes=(64,)), "not identifiable: 1 different num_envs measured, 2 are needed", []),
        (
            [a_trial(64, status="oom", device=GPU)],
            "not identifiable: 0 different num_envs measured, 2 are needed; the smallest that did not fit: 64",
            [],
        ),
        (
            line({16: 1.2, 32: 1.1, 64: 1.0, 128: 1.1}),
            "memory does not grow with num_envs at the points measured (95% of the GPU's 85.0 GB available)",
            ["one horizon (8)"],
        ),
        (
            line({1024: 10.0, 4096: 40.0}),
            "predicted: up to 8,268 environments fit 95% of the GPU's 85.0 GB at horizon 8, batch 128 (no interval: 2 points for"
            " 2 unknowns; measure another num_envs)",
            ["one horizon (8): the rollout's part is within per_environment"],
        ),
        (
            line({1024: 20.0, 2048: 40.0, 4096: 80.0}, repeats=2),
            "predicted: up to 4,134 environments fit 95% of the GPU's 85.0 GB at horizon 8, batch 128 (estimate 4,134, 95% interval",
            ["one horizon (8)"],
        ),
        (
            line({1024: 21.0, 2048: 39.0, 4096: 80.0}),
            "measured: up to 4,096 environments fit 95% of the GPU's 85.0 GB at horizon 8, batch 128 (estimate 4,1",
            ["one horizon (8)"],
        ),
        (
            line({16: 4.0, 32: 6.0, 64: 10.0, 128: 18.0}, **ON_RANKS),
            "up to 80 environments per rank fit 95% of each rank's 12.7 GB at horizon 8, batch 128 (estimate ",
            ["2 ranks share the host's memory: 12.7 GB for each", "one horizon (8)"],
        ),
        (
            [*line({1024: 10.0, 2048: 20.0, 4096: 40.0}), a_trial(8192, number=9, status="oom", device=GPU)],
            "predicted: up to 8,268 environments fit 95% of the GPU's 85.0 GB at horizon 8, batch 128 (estimate ",
            ["one horizon (8)", "a trial at or below a predicted largest num_envs did not fit: trust the trial"],
        ),
        (
            [*line({1024: 10.0, 2048: 20.0}), *line({4096: 40.0}, device=OTHER_GPU)],
            "predicted: up to ",
            ["2 kinds of device: the smallest memory is taken", "one horizon (8)"],
        ),
        (
            [*line({1024: 10.0, 4096: 40.0}), *(t.ended(micro_batches=4) for t in line({8192: 80.0}))],
            "predicted: up to ",
            ["1 trial learned in parts, to fit what there was: not in the model", "one horizon (8)"],
        ),
        (
            line({1024: 10.0, 2048: 20.0, 4096: 40.0}, trainer="skrl_sac"),
            "predicted: up to ",
            ["the replay buffer is within base: it is as large whatever num_envs and horizon are"],
        ),
    ],
)  # fmt: skip
def test_what_is_said(trials: list[Trial], said: str, notes: list[str]):
    limit = analyse(trials)
    assert memory_statement(limit).startswith(said)
    failed = limit.smallest_failed
    assert failed is None or memory_statement(limit).endswith(f"; the smallest that did not fit: {failed:,}")
    found = memory_notes(limit)
    assert len(found) == len(notes)
    assert all(note.startswith(beginning) for note, beginning in zip(found, notes, strict=True))
    # A title is the beginning, without what is in parentheses and behind them.
    assert memory_statement(limit).startswith(memory_title(limit)) and "(" not in memory_title(limit)


def test_a_setting_that_a_reader_does_not_know_is_not_named():
    limit = analyse(line({1024: 10.0, 4096: 40.0}))
    assert " GB at horizon 8 (no interval" in memory_statement(limit, ["horizon"])
    assert " GB (no interval" in memory_statement(limit, ["num_envs"])
    assert memory_notes(limit, ["num_envs"]) == []


@pytest.mark.parametrize(("room_gb", "least"), [(8.0, 0.93), (150.0, 0.85)])
def test_intervals_span_both_kinds_of_errors_where_few_points_leave_open_which_it_is(room_gb: float, least: float):
    """Five points, each 2% off: where absolute errors looked likelier by chance, intervals at the largest covered 36%, and 78% in all."""
    generator = np.random.default_rng(1)
    sizes, per_env, covered, studies = (1024, 2048, 4096, 8192, 16384), 0.0085, 0, 200
    for _ in range(studies):
        samples = [
            Sample(
                num_envs=n,
                horizon=32,
                batch_size=None,
                mini_batches=16,
                status="ok",
                peak_gb=(1.0 + per_env * n) * noise,
            )
            for n, noise in zip(sizes, (1.0 + 0.02 * generator.standard_normal(5)).tolist(), strict=True)
        ]
        met = (0.95 * room_gb / (1.0 + 0.02 * generator.standard_normal()) - 1.0) / per_env
        wall = wall_of(memory_limit.limit_of(samples, room_gb, Decide()), 32, None)
        covered += wall.largest_num_envs_lower <= met <= wall.largest_num_envs_upper + 1
    assert covered >= least * studies
