"""The meter counts episodes, times steps, and ends a trial where it should; tensors are real, the simulation is not needed."""

import csv
import gc
import io
import math
import time
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy
import pytest
import torch
from envknee.decide.records_csv import records_csv
from envknee.measure.episodes import Episodes
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.measure.phases import ENV_STEP
from envknee.measure.rows import Collected, Part, TrialDone, whole_row
from envknee.record.build import reward_average
from envknee.record.metric import metrics_of
from envknee.record.read import read_rows
from envknee.record.schema import PHASES, Load, MemoryUse, Pipeline, RankRow, Record, Row, Spread
from envknee.study.paths import TrialFolder
from records import a_trial, known

NUM_ENVS, HORIZON = 4, 3

CALLS = {"calls_while_gpu_learns": True}
"""A learner that calls the meter while the GPU learns."""


def a_meter(tmp_path, learner_fields: Mapping[str, Any] = MappingProxyType({}), **changes) -> Meter:
    request = a_trial(NUM_ENVS, horizon=HORIZON, batch_size=None, kind=changes.pop("kind", "throughput")).request
    tmp_path.mkdir(exist_ok=True)
    meter = Meter(request.model_copy(update=changes), TrialFolder(tmp_path), "cpu")
    stored = {"policy": torch.zeros(HORIZON, NUM_ENVS, 2, 2)}
    learner = LearnerDescription(num_mini_batches=2, rollout_observations=lambda: stored, **learner_fields)
    meter.start_training(learner)
    return meter


def step(
    meter: Meter, rewards: list[float] | None = None, dones: list[int] | None = None, observation: float = 0.5
) -> None:
    """Do what a trainer does in a step: infer, let the environment step, tell the meter, store."""
    with meter.timeline.phase("inference"):
        time.sleep(0.002)
    with meter.timeline.phase(ENV_STEP):
        observations = torch.full((NUM_ENVS, 2, 2), observation)
        time.sleep(0.002)
    slot = meter.checks.steps + 1
    meter.end_step(
        {"policy": observations}, torch.tensor(rewards or [1.0] * NUM_ENVS), torch.tensor(dones or [0] * NUM_ENVS)
    )
    if slot < HORIZON:
        meter.learner.rollout_observations()["policy"][slot] = observations


def a_rollout(meter: Meter) -> None:
    for _ in range(HORIZON):
        step(meter)


def end_iteration(meter: Meter, **losses: float) -> None:
    with meter.timeline.phase("learning"):
        time.sleep(0.002)
    meter.end_iteration(losses=losses or {"value": 0.5}, learning_rate=1e-3, action_std=1.0)


def test_on_a_gpu_a_row_is_written_once_the_next_step_has_begun_or_breaks(tmp_path):
    meter = a_meter(tmp_path / "whole", iterations=2, warmup_iterations=0)
    meter.row_log.device = torch.device("cuda")  # as the log of rows sees it; all else is on the CPU
    a_rollout(meter)
    end_iteration(meter)
    assert (meter.rows, meter.iterations, meter.trial.metrics.read_text()) == ([], 1, "")
    for _ in range(HORIZON):
        step(meter)
        assert len(meter.rows) == meter.iterations == len(read_rows(meter.trial)) == 1
    end_iteration(meter)
    assert (len(meter.rows), meter.iterations) == (1, 2)
    with pytest.raises(TrialDone, match="^ok$"):
        step(meter)
    assert len(read_rows(meter.trial)) == 2
    assert [row.frames for row in meter.rows] == [NUM_ENVS * HORIZON, 2 * NUM_ENVS * HORIZON]
    meter = a_meter(tmp_path / "broken", iterations=2, warmup_iterations=0)
    meter.row_log.device = torch.device("cuda")
    a_rollout(meter)
    end_iteration(meter)
    meter.close()
    assert len(read_rows(meter.trial)) == 1


def test_a_row_that_cannot_end_its_trial_is_written_while_the_gpu_learns(tmp_path):
    def collect(meter: Meter, written: int) -> None:
        for _ in range(HORIZON):
            step(meter, dones=[1] * NUM_ENVS)
            assert len(meter.rows) == written

    meter = a_meter(tmp_path, CALLS, iterations=2, warmup_iterations=1)
    meter.row_log.device = torch.device("cuda")
    collect(meter, 0)
    for written in (0, 1):
        meter.while_gpu_learns()
        assert len(meter.rows) == len(read_rows(meter.trial)) == written
        end_iteration(meter)
        collect(meter, written)
    meter.while_gpu_learns()
    end_iteration(meter)
    with pytest.raises(TrialDone, match="ok"):  # the last one is not learned again for
        step(meter)
    assert [(row.iteration, row.episodes) for row in meter.rows] == [(0, 8), (1, 12), (2, 12)]
    early = a_meter(tmp_path / "early", CALLS, iterations=9, warmup_iterations=0, precision=0.01)
    early.row_log.device = torch.device("cuda")
    collect(early, 0)
    end_iteration(early)
    collect(early, 1)


@pytest.mark.alone  # its limit is far below a second: what else runs would slow it
def test_a_trial_on_a_gpu_is_timed_for_as_long_as_its_request_says(tmp_path):
    def timed_s(meter: Meter) -> float:
        with pytest.raises(TrialDone, match="ok"):
            while True:
                a_rollout(meter)
                end_iteration(meter)
                meter.row_log.write()
        return sum(row.iteration_s or 0.0 for row in meter.rows if not row.warmup)

    wanted = {"iterations": 2, "warmup_iterations": 1, "least_timed_s": 0.15}
    for place, precision in enumerate((None, 0.9)):
        meter = a_meter(tmp_path / f"gpu{place}", precision=precision, **wanted)
        meter.row_log.device = torch.device("cuda")
        assert timed_s(meter) >= 0.15
        assert timed_s_before_last(meter) < 0.15, "and no longer"
    on_cpu = a_meter(tmp_path / "cpu", **wanted)
    timed_s(on_cpu)
    assert len(on_cpu.rows) == 1 + 2


def timed_s_before_last(meter: Meter) -> float:
    return sum(row.iteration_s or 0.0 for row in meter.rows[:-1] if not row.warmup)


def test_a_parameter_without_numbers_cannot_break(tmp_path):
    parameters = {name: torch.nn.Parameter(torch.ones(size)) for name, size in {"weight": 2, "nothing": 0}.items()}
    learner = CALLS | {"state": lambda: parameters}
    meter = a_meter(tmp_path, learner, iterations=1, warmup_iterations=0)
    a_rollout(meter)
    meter.while_gpu_learns()
    meter.checks.check_parameters("for the test")
    with pytest.raises(TrialDone, match="ok"):
        end_iteration(meter)
    assert float(meter.checks._largest_parameters[-1]) == 1.0


def test_a_released_meter_holds_nothing_of_the_simulation(tmp_path):
    class Simulation:
        def act(self) -> dict:
            return {}

    simulation = Simulation()
    ended, gone = [], weakref.ref(simulation)
    learner = {"state": simulation.act, "stored_bytes": 8, "export_policy": lambda _, of=simulation: print(of)}
    meter = a_meter(tmp_path, learner)
    meter.watch.describe_task({}, simulation.act)
    meter.close_at_release(lambda of=simulation: ended.append(type(of)))
    del simulation, learner
    meter.release()
    gc.collect()
    assert ended == [Simulation] and gone() is None


def test_episodes_are_counted_as_one_by_one_whatever_the_rollouts():
    generator = torch.Generator().manual_seed(3)
    for horizon in (1, 2, 7):
        episodes = Episodes(NUM_ENVS, torch.device("cpu"))
        returns, lengths, whole = [0.0] * NUM_ENVS, [0] * NUM_ENVS, [False] * NUM_ENVS
        for _ in range(9):
            expected = [0.0, 0.0, 0]
            for _ in range(horizon):
                rewards = torch.randn(NUM_ENVS, generator=generator)
                terminated = (torch.rand(NUM_ENVS, generator=generator) < 0.2).float()
                truncated = torch.rand(NUM_ENVS, generator=generator) < 0.1
                dones = terminated.bool() | truncated
                episodes.note(rewards, terminated, truncated)
                for env in range(NUM_ENVS):
                    returns[env] += float(rewards[env])
                    lengths[env] += 1
                    if dones[env]:
                        if whole[env]:
                            expected = [expected[0] + returns[env], expected[1] + lengths[env], expected[2] + 1]
                        returns[env], lengths[env], whole[env] = 0.0, 0, True
            assert episodes.take().tolist() == pytest.approx(expected)
        assert episodes.take().tolist() == [0, 0, 0]


def test_only_whole_episodes_count_and_only_where_they_ended(tmp_path):
    meter = a_meter(tmp_path)
    step(meter, dones=[1, 0, 0, 0])  # environment 0 starts its first whole episode; what it ended had begun before
    step(meter, rewards=[2.0, 9.0, 9.0, 9.0])
    step(meter, rewards=[3.0, 9.0, 9.0, 9.0], dones=[1, 1, 0, 0])  # only environment 0's was whole: 2 + 3
    end_iteration(meter)
    step(meter, dones=[0, 1, 0, 0])  # environment 1 began after its first end: one step, reward 1
    for _ in range(2):
        step(meter)
    end_iteration(meter)
    first, second = meter.rows
    assert (first.episodes, first.reward_mean, first.episode_length_mean) == (1, 5.0, 2.0)
    assert (second.episodes, second.reward_mean, second.episode_length_mean) == (1, 1.0, 1.0)


def test_a_row_holds_the_three_kinds_of_fps(tmp_path):
    meter = a_meter(tmp_path)
    a_rollout(meter)
    end_iteration(meter)
    (row,) = meter.rows
    assert row.frames == NUM_ENVS * HORIZON
    assert row.fps_env_step == pytest.approx(12 / row.env_step_s)
    assert row.fps_env_step_inference == pytest.approx(12 / row.collect_s)
    assert row.fps_total == pytest.approx(12 / (row.collect_s + row.learn_s))
    # Three steps of 2 ms, as much inference, and 2 ms of learning: sleeping takes longer, never less.
    assert row.env_step_s >= 0.006 and row.collect_s >= row.env_step_s + 0.006 and row.learn_s >= 0.002
    assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03)
    assert row.memory.peak_rss_gb >= row.memory.rss_gb * 0.9 > 0.05
    assert read_rows(meter.trial) == [row]  # flushed as it happened


def test_a_slow_driver_between_two_iterations_is_in_one_of_them_by_both_clocks(tmp_path, monkeypatch):
    meter = a_meter(tmp_path)
    asked = meter.memory.learning_ended
    monkeypatch.setattr(meter.memory, "learning_ended", lambda: (time.sleep(0.05), asked()))
    for _ in range(3):
        a_rollout(meter)
        end_iteration(meter)
    for row in meter.rows:
        assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03, abs=0.01)


def test_what_collectors_tell_and_what_the_learner_waits_for_add_up_to_a_row(tmp_path):
    learner = a_meter(tmp_path / "learner", strategy="ray", gpus=0, cpu_ranks=2)
    collectors = [a_meter(tmp_path / name) for name in ("one", "two")]
    time.sleep(0.05)  # before the rollout: nobody's
    began = time.perf_counter()
    for meter in collectors:
        meter.timeline.start()
    with learner.timeline.phase("storage"):
        for reward, meter in zip((2.0, 5.0), collectors, strict=True):
            step(meter, dones=[1] * NUM_ENVS)
            step(meter, rewards=[reward] * NUM_ENVS, dones=[1, 0, 0, 0] if meter is collectors[0] else [1] * NUM_ENVS)
            step(meter)
        collected = [meter.end_rollout() for meter in collectors]
        took_s = time.perf_counter() - began
    learner.rollouts_gathered()
    with learner.timeline.phase("learning"):
        time.sleep(0.02)
    learner.end_iteration({"value": 0.5}, learning_rate=1e-3, action_std=1.0, collected=collected)
    (row,) = learner.rows
    assert row.frames == 2 * NUM_ENVS * HORIZON
    assert (row.episodes, row.reward_mean) == (5, (2.0 + 4 * 5.0) / 5)  # of all episodes, not of both means
    assert row.ranks is not None and [rank.episodes for rank in row.ranks] == [1, 4]
    rollouts_s = [sum(known(rank.phases_s).values()) for rank in collected]
    assert all(0 < rollout_s <= took_s for rollout_s in rollouts_s)
    for rank, rollout_s, part in zip(collected, rollouts_s, row.ranks, strict=True):
        assert part.phases_s is not None and rank.phases_s is not None
        assert sum(part.phases_s.values()) == pytest.approx(row.iteration_s, rel=0.03, abs=0.005)
        assert part.phases_s["inference"] == rank.phases_s["inference"] > 0
        # Each waited for the other.
        assert part.phases_s["storage"] == pytest.approx(row.collect_s - rollout_s)
        assert part.phases_s["learning"] == row.learn_s >= 0.02
    assert row.env_step_s == max(rank.env_step_s for rank in collected)


def test_a_throughput_trial_ends_after_its_timed_iterations(tmp_path):
    meter = a_meter(tmp_path, warmup_iterations=1, iterations=2)
    for _ in range(2):
        step(meter)
        end_iteration(meter)
    step(meter)
    with pytest.raises(TrialDone, match="^ok$"):
        end_iteration(meter)
    assert [row.warmup for row in meter.rows] == [True, False, False]


def test_a_learning_trial_ends_at_its_target_or_its_budget(tmp_path):
    meter = a_meter(tmp_path, kind="learning", target_reward=2.0, target_episodes=4, budget_s=1000.0)
    step(meter, dones=[1, 1, 1, 1])
    step(meter, rewards=[3.0] * 4, dones=[1, 1, 1, 0])  # three episodes of 3: not yet the four asked for
    end_iteration(meter)
    step(meter, dones=[0, 0, 0, 1])  # the fourth: 3 + 1
    with pytest.raises(TrialDone, match="^target_reached$"):
        end_iteration(meter)

    late = a_meter(tmp_path, kind="learning", target_reward=2.0, target_episodes=4, budget_s=1e-6)
    step(late)
    with pytest.raises(TrialDone, match="were spent below reward 2") as done:
        end_iteration(late)
    assert done.value.status == "timeout"


def test_the_average_takes_whole_iterations_until_enough_episodes(tmp_path):
    meter = a_meter(tmp_path, iterations=99)
    for rewards in ([0.0] * 4, [10.0] * 4, [1.0] * 4):
        step(meter, rewards=rewards, dones=[1, 1, 1, 1])
        end_iteration(meter)
    # The first iteration ended only unfinished business; then 4 episodes of 10 and 4 of 1.
    assert reward_average(meter.rows, 1) == 1.0
    assert reward_average(meter.rows, 5) == pytest.approx((4 * 1 + 4 * 10) / 8)
    assert reward_average(meter.rows, 9) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", range(HORIZON))
def test_a_bad_reward_names_its_environment_at_the_end_of_the_rollout(tmp_path, bad, at):
    meter = a_meter(tmp_path)
    with pytest.raises(TrialDone, match=rf"in 1 of 4 environments at iteration 0, step {at}$") as done:
        for now in range(HORIZON):
            step(meter, rewards=[1.0, 1.0, bad if now == at else 1.0, 1.0], observation=float(now))
    assert meter.checks.steps == HORIZON
    assert done.value.status == "nan"
    failure = known(done.value.failure)
    assert (failure.tensor, failure.env_indices, failure.iteration) == ("rewards", [2], 0)
    with numpy.load(tmp_path / failure.dump) as dump:
        assert dump["env_indices"].tolist() == [2]
        numpy.testing.assert_equal(dump["observations/policy"], numpy.full((1, 2, 2), float(at)))
        if at == HORIZON - 1:
            numpy.testing.assert_equal(dump["rewards"], numpy.array([bad], dtype=numpy.float32))


def test_a_trainer_that_fails_inside_a_rollout_can_ask_whether_it_broke(tmp_path):
    meter = a_meter(tmp_path)
    step(meter)
    meter.checks.check_rollout()
    step(meter, rewards=[math.nan] * 4)
    with pytest.raises(TrialDone, match="rewards became NaN"):
        meter.checks.check_rollout()


def test_the_stages_of_the_start_add_up(tmp_path):
    meter = a_meter(tmp_path)
    for stage in ("configuration", "kernels", "environment", "learner", "first_step"):
        assert meter.startup_s is None
        meter.begin(stage)
        time.sleep(0.002)
    step(meter)
    assert meter.startup_s is not None and meter.stage == "rollout"
    assert min(meter.startup_s.model_dump().values()) >= 0.002


@pytest.mark.parametrize(("loss", "status"), [(math.nan, "nan"), (math.inf, "nan"), (1e9, "diverged")])
def test_a_bad_loss_ends_the_trial(tmp_path, loss, status):
    meter = a_meter(tmp_path)
    step(meter)
    with pytest.raises(TrialDone) as done:
        end_iteration(meter, value=loss)
    assert done.value.status == status
    assert known(done.value.failure).tensor == "losses/value"
    assert meter.rows == []  # a row of NaN would not be JSON


def test_every_figure_of_a_row_says_how_the_ranks_make_it():
    of_one_process = {"gpus_percent"}
    not_figures = {"iteration", "warmup", "frames", "ranks", "gradients", "pipeline"} | of_one_process
    assert Row.model_fields.keys() - metrics_of(Row).keys() == not_figures
    assert set(Load.model_fields) <= set(RankRow.model_fields) & set(Collected.model_fields)


def test_a_row_of_two_ranks_is_made_as_its_figures_are_declared():
    def a_part(rank: int, env_step_s: float, memory_gb: float, **load: Any) -> Part:
        memory = MemoryUse(rss_gb=memory_gb, peak_rss_gb=4.0 - memory_gb)
        return Part(
            rank=rank, iteration_s=env_step_s + 1, env_step_s=env_step_s, collect_s=env_step_s, learn_s=1.0, episodes=rank,
            phases_s=dict.fromkeys(PHASES, env_step_s) if rank else None, memory=memory, **load,
            wall_s=9.0 + rank, unix_time_s=99.0, return_sum=5.0 * rank, length_sum=7.0 * rank, gradient_squares=None,
            losses={"value": 1.0 + rank}, learning_rate=0.1, action_std=1.0 - rank / 2,
        )  # fmt: skip

    request = a_trial(NUM_ENVS, horizon=HORIZON).request
    parts = [a_part(0, 2.0, 1.0, cpu_percent=100.0, gpu_power_w=300.0), a_part(1, 3.0, 2.0, cpu_percent=50.0)]
    row = whole_row(parts, [], 2, request)
    assert (row.frames, row.wall_s, row.iteration_s, row.env_step_s, row.learn_s) == (24, 9.0, 4.0, 3.0, 1.0)
    assert (row.cpu_percent, row.gpu_percent, row.gpu_power_w) == (75.0, None, 300.0)
    assert (row.memory.rss_gb, row.memory.peak_rss_gb, row.memory.device_used_gb) == (2.0, 3.0, None)
    assert row.phases_s == dict.fromkeys(PHASES, 3.0)
    assert (row.losses, row.learning_rate, row.action_std) == ({"value": 1.5}, 0.1, 1.0)
    assert (row.episodes, row.reward_mean, row.episode_length_mean) == (1, 5.0, 7.0)
    learner = MemoryUse(rss_gb=0.5, peak_rss_gb=0.5, device_used_gb=30.0)
    pipeline = Pipeline(staleness=1, learner_s=1.0, memory=learner)
    pipelined = [part.model_copy(update={"pipeline": pipeline}) for part in parts]
    fuller = whole_row(pipelined, [row], 2, request).memory
    assert (fuller.rss_gb, fuller.device_used_gb) == (2.0, 30.0)


def test_a_figure_that_a_record_has_no_field_for_is_a_column_where_it_was_measured():
    old, new = a_trial(16).record, a_trial(32, number=1).record
    warm = Spread(median=61.0, lower_quartile=60.0, upper_quartile=62.0, iterations=3)
    new = new.model_copy(update={"metrics": {"gpu_temperature_c": warm}})
    assert "metrics" not in old.model_dump() and Record.model_validate_json(new.model_dump_json()) == new
    assert "gpu_temperature_c" not in records_csv([old])
    lines = list(csv.DictReader(io.StringIO(records_csv([old, new]))))
    assert [line["gpu_temperature_c"] for line in lines] == ["", "61.0"]
    assert [line["fps_total"] for line in lines] == [str(r.fps_total.median) for r in (old, new) if r.fps_total]
