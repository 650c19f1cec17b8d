"""The adaptive sampler runs what decides the verdict and no more, and is as right as the whole grid."""

import math
import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from asked import dice, measured
from asked import play as asked_in_turn
from envknee.ask.ask import ask_again
from envknee.decide.study import decide
from envknee.record.reasons import Searched, SearchedSeries
from envknee.record.schema import Record, Request
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from envknee.words.throughput import throughput_statement
from programs import run_main
from published import PUBLISHED
from records import GPU, Trial

from benchmarks import economy_replay

SIZES = {"from": 64, "to": 16384}


def a_study(window: int = 1, **changes: Any) -> Study:
    sweep = {"num_envs": SIZES, "horizon": [32], "batch_size": "library", "sampler": "adaptive", "repeats": 5}
    return parse_study({"study": "s", "ask_version": ASK_VERSION, "window": window, "throughput": sweep | changes})


def play(study: Study, measure: Callable[[Request], Trial]) -> tuple[list[Request], dict[int, Record]]:
    requests, known = asked_in_turn(study, measure)
    assert ask_again(study, requests, known) == requests
    return requests, known


def card(half: float, noise: float = 0.01, most_gb: float = math.inf) -> Callable[[Request], Trial]:
    """Return trials whose FPS saturate, half of the most at `half` environments, on a card of `most_gb`."""

    def measure(request: Request) -> Trial:
        deviation = noise * dice(request.seed, request.arm).gauss(0, 1)
        fps = 60_000 * request.num_envs / (request.num_envs + half) * math.exp(deviation)
        memory_gb = 1 + 2.5e-4 * request.num_envs * request.horizon
        fits = memory_gb <= most_gb
        return measured(request, status=None if fits else "oom", fps=fps, memory_gb=memory_gb, device=GPU)

    return measure


def ran(requests: list[Request]) -> list[Request]:
    return [request for request in requests if request.skip is None]


@pytest.mark.parametrize("window", [1, 3])
def test_a_clear_knee_takes_a_fraction_of_the_grid_and_the_rest_is_skipped(window):
    study = a_study(window, adaptive={"trials": 40})
    requests, known = play(study, card(60))
    verdict = decide(list(known.values()), study)
    (limit,) = verdict.arms[0].throughput
    assert (limit.state, limit.threshold_num_envs) == ("reached", 512)  # the first that gains well below a tenth
    trials = ran(requests)
    assert sum(not request.confirms for request in trials) <= 0.6 * 45
    # Looked at with 3 or 5 repeats alone; then three fresh ones of either end, which alone tell the gain.
    assert Counter(request.num_envs for request in trials if request.confirms) == {512: 3, 1024: 3}
    doubling = next(gain for gain in limit.gains if gain.num_envs == 512)
    fresh = {
        size: [math.log(record.fps_total.median) for record in known.values()
               if record.request.confirms and record.request.num_envs == size and record.fps_total]
        for size in (512, 1024)
    }  # fmt: skip
    assert (doubling.fresh, doubling.repeats) == (True, 3)
    assert math.log1p(doubling.gain) == pytest.approx(statistics.fmean(fresh[1024]) - statistics.fmean(fresh[512]))
    assert "3 fresh repeats; shown by all repeats" in throughput_statement(limit)
    assert max(request.num_envs for request in trials) <= 4096, "nothing beyond what decides"
    assert (verdict.trials_measured, verdict.trials_planned) == (len(trials), len(trials))
    assert verdict.statuses == {"ok": len(trials), "skipped": len(requests) - len(trials)}
    decided = SearchedSeries(horizon=32, batch_size=None, end="stopped_paying", num_envs=(512, 1024))
    assert requests[-1].skip == Searched(series=(decided,))


def test_repeats_of_a_point_are_counted_and_have_seeds_of_their_own():
    requests, _ = play(a_study(), card(300, noise=0.03))
    seen: Counter[int] = Counter()
    for request in ran(requests):
        assert request.repeat == seen[request.num_envs] < 5 + 3
        seen[request.num_envs] += 1
    assert len({request.seed for request in ran(requests)}) == len(ran(requests))


def test_a_later_series_starts_where_the_one_before_ended():
    requests, known = play(a_study(horizon=[16, 32, 64]), card(60))
    by_horizon = Counter(request.horizon for request in ran(requests))
    assert set(by_horizon) == {16, 32, 64}
    second = [request.num_envs for request in ran(requests) if request.horizon == 32]
    assert 256 <= second[0] <= 1024, "no scouts"
    verdict = decide(list(known.values()), a_study(horizon=[16, 32, 64]))
    assert {limit.state for limit in verdict.arms[0].throughput} == {"reached"}


@pytest.mark.parametrize(("most_gb", "largest"), [(85.0, 8192), (40.0, 4096)])
def test_where_doubling_pays_to_the_end_of_memory_that_is_shown_and_nothing_else_is_run(most_gb, largest):
    requests, known = play(a_study(), card(1e6, most_gb=most_gb))
    (limit,) = decide(list(known.values()), a_study()).arms[0].throughput
    assert (limit.threshold_num_envs, limit.largest_num_envs) == (None, largest)
    assert Counter(record.outcome.status for record in known.values())["oom"] <= 2
    assert len(ran(requests)) <= 8
    decided = SearchedSeries(horizon=32, batch_size=None, end="still_pays", num_envs=(largest // 2,))
    assert requests[-1].skip == Searched(series=(decided,))


@pytest.mark.parametrize(("most_gb", "wall"), [(85.0, 10_500), (50.0, 6_125)])
def test_probes_close_in_on_the_wall(most_gb, wall):
    study = a_study(adaptive={"probes": 4, "trials": 40})  # enough for all four
    requests, known = play(study, card(60, most_gb=most_gb))
    probes = [r for r in ran(requests) if r.num_envs & (r.num_envs - 1)]
    assert 2 <= len(probes) <= 4
    assert all(r.num_envs % 32 == 0 for r in probes), "whole warps"
    status = {r.num_envs: known[r.number].outcome.status for r in ran(requests)}
    fitted = max(size for size, how in status.items() if how == "ok")
    failed = min(size for size, how in status.items() if how == "oom")
    assert fitted <= wall < failed
    # Where the card is what it says, two trials 5% to either side; where something else holds memory, halves.
    assert failed / fitted < (1.12 if most_gb == 85.0 else 1.4)


def test_arms_decide_each_for_itself():
    study = parse_study(a_study().model_dump(mode="json") | {"arms": {"fast": {}, "slow": {}}})

    requests, _ = play(study, lambda request: card(60 if request.arm == "fast" else 1500)(request))
    largest = {arm: max(r.num_envs for r in ran(requests) if r.arm == arm) for arm in ("fast", "slow")}
    assert largest["fast"] < largest["slow"]


def test_learning_stops_when_its_threshold_is_known_within_a_doubling():
    section = {
        "num_envs": {"from": 64, "to": 2048}, "horizon": 16, "batch_size": 256, "sampler": "adaptive", "repeats": 6,
        "target_reward": 4.0, "target_episodes": 10, "budget_s": 100,
    }  # fmt: skip
    study = parse_study({"study": "s", "ask_version": ASK_VERSION, "learning": section})
    seconds = {64: 80.0, 128: 40.0, 256: 20.0, 512: 19.8, 1024: 19.7, 2048: 19.6}

    def measure(request: Request) -> Trial:
        return measured(request, seconds=seconds[request.num_envs] * math.exp(0.02 * dice(request.seed).gauss(0, 1)))

    requests, known = play(study, measure)
    (limit,) = decide(list(known.values()), study).arms[0].learning
    assert (limit.state, limit.threshold_num_envs) == ("reached", 256)
    assert len(ran(requests)) <= 36 / 2


def test_a_trial_that_tells_nothing_is_not_asked_for_ever():
    requests, known = play(a_study(), lambda request: measured(request, status="nan", device=GPU))
    assert max(Counter(r.num_envs for r in ran(requests)).values()) <= 5
    assert decide(list(known.values()), a_study()).arms[0].headline is None


def test_the_trials_are_limited_and_a_request_is_the_same_bytes_again():
    study = a_study(adaptive={"trials": 7})
    requests, _ = play(study, card(60))
    assert len(requests) == 7
    assert '"skip"' not in canonical_json(requests[0]), "requests of other samplers stay what they were"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": 3}, "points 3: sampler adaptive chooses points and repeats itself"),
        ({"repeats": 2}, "repeats 2: sampler adaptive needs at least 3"),
        (
            {"sampler": "grid", "adaptive": {"trials": 3}},
            "'adaptive' is for sampler: adaptive, and the sampler is grid",
        ),
        ({"adaptive": {"within": 0.5}}, "within: expected greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be_meant(changes, message):
    with pytest.raises(UserError, match=message):
        a_study(**changes)


def a_grid(half: float, repeats: int = 5) -> tuple[Study, list[Record]]:
    study = a_study(sampler="grid", repeats=repeats)
    _, known = play(study, card(half))
    return study, list(known.values())


def answers(study: Study, records: list[Record]) -> economy_replay.Answers:
    return economy_replay.answers_of(study, "throughput", records)


def test_a_grid_asked_again_gives_the_same_verdict_for_less():
    study, records = a_grid(60)
    replays = {
        sampler: economy_replay.replay(study, "throughput", answers(study, records), sampler)
        for sampler in economy_replay.SAMPLERS
    }
    assert len({tuple(replayed.thresholds.values()) for replayed in replays.values()}) == 1
    assert replays["grid"].trials == replays["tpe"].trials == 45
    assert replays["adaptive"].device_s < 0.5 * replays["grid"].device_s
    assert replays["adaptive"].device_s <= replays["tpe"].settled_s


def test_repeats_that_were_not_measured_are_drawn_from_the_noise_of_those_that_were():
    study, records = a_grid(60, repeats=3)
    measured = answers(study, records)
    drawn = economy_replay.with_drawn(measured, 60, seed=1)
    assert drawn == economy_replay.with_drawn(measured, 60, seed=1) != economy_replay.with_drawn(measured, 60, seed=2)
    apart = [[], []]
    for place, known in measured.items():
        assert drawn[place][:3] == known
        for values, some in zip(apart, (known, drawn[place][3:]), strict=True):
            logs = [math.log(record.fps_total.median) for record in some if record.fps_total is not None]
            values.append(statistics.stdev(logs))
    # The noise of all points, pooled: as large as what each point's own repeats say on average.
    assert statistics.fmean(apart[1]) == pytest.approx(statistics.fmean(apart[0]), rel=0.25)
    five = economy_replay.with_drawn(measured, 5, seed=1)
    assert economy_replay.replay(study, "throughput", five, "grid").trials == 5 * len(measured)


def test_a_grid_with_too_few_repeats_cannot_be_asked_again_or_is_told_to_be_drawn():
    study, records = a_grid(60, repeats=1)
    with pytest.raises(UserError, match="has 1 record.*Finish the study first"):
        answers(study, records)
    with pytest.raises(UserError, match="has no learning trials"):
        economy_replay.answers_of(study, "learning", records)
    words = "has 2 repeats of a point, and sampler: adaptive decides nothing before 3.*--repeats 5"
    with pytest.raises(UserError, match=words):
        run_main(economy_replay.main, PUBLISHED["cartpole-one-gpu-full"].root)


def test_a_column_names_its_arm_where_there_are_several(capsys):
    run_main(economy_replay.main, PUBLISHED["cartpole-stock-lean"].root)
    (heading,) = (line for line in capsys.readouterr().out.splitlines() if "stock" in line and "cartpole" not in line)
    assert "lean" in heading


ASCENDING = {"ascending": True}


def first_of_each(requests: list[Request]) -> list[int]:
    """Return the sizes in the order in which each was first asked for."""
    return list(dict.fromkeys(request.num_envs for request in ran(requests)))


@pytest.mark.parametrize("window", [1, 3])
def test_an_ascending_search_climbs_until_two_doublings_gain_little_and_then_decides(window: int):
    study = a_study(window, num_envs={"from": 16, "to": 2**17}, repeats=8, adaptive=ASCENDING)
    requests, known = play(study, card(40))
    climbed = first_of_each(requests)
    # From 256 on doublings gain 7%, then 4%. In a window of three, two larger sizes are under way when that is known.
    assert climbed == [16 * 2**step for step in range(7 if window == 1 else 9)]
    assert [request.num_envs for request in ran(requests)][: len(climbed)] == climbed, (
        "one trial each before any repeat"
    )
    (limit,) = decide(list(known.values()), study).arms[0].throughput
    assert (limit.state, limit.threshold_num_envs) == ("reached", 256)


def test_an_ascending_search_climbs_to_the_end_of_memory_and_no_further():
    study = a_study(num_envs={"from": 16, "to": 2**17}, repeats=8, adaptive=ASCENDING)
    requests, known = play(study, card(1e6, most_gb=40.0))
    assert max(first_of_each(requests)) <= 8192
    assert Counter(record.outcome.status for record in known.values())["oom"] <= 1
    (limit,) = decide(list(known.values()), study).arms[0].throughput
    assert (limit.state, limit.largest_num_envs) == ("still pays", 4096)


def test_an_ascending_search_goes_on_where_one_trial_was_unlucky():
    def unlucky(request: Request) -> Trial:
        slow = {64: 0.5, 128: 0.25}.get(request.num_envs, 1.0) if request.repeat == 0 else 1.0
        return measured(request, fps=1000.0 * slow * request.num_envs / (request.num_envs + 600), device=GPU)

    study = a_study(num_envs={"from": 16, "to": 2**17}, repeats=8, adaptive=ASCENDING | {"trials": 100})
    requests, _ = play(study, unlucky)
    assert max(first_of_each(requests)) >= 4096


@pytest.mark.parametrize("status", ["crashed", "timeout", "nan"])
def test_a_size_that_breaks_ends_the_climb_and_what_is_below_is_decided(status: str):
    def breaks(request: Request) -> Trial:
        if request.num_envs >= 256:
            return measured(request, status=status, device=GPU)
        return card(1e6)(request)

    study = a_study(num_envs={"from": 16, "to": 2**17}, repeats=8, adaptive=ASCENDING)
    requests, known = play(study, breaks)
    assert Counter(request.num_envs for request in ran(requests))[256] == 1
    assert first_of_each(requests) == [16, 32, 64, 128, 256]
    (limit,) = decide(list(known.values()), study).arms[0].throughput
    assert limit.largest_num_envs == 128


def test_a_program_that_breaks_at_once_is_started_once():
    requests, _ = play(a_study(adaptive=ASCENDING), lambda request: measured(request, status="crashed", device=GPU))
    assert len(ran(requests)) == 1
