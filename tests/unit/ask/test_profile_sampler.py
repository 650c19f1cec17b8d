"""`sampler: profile`: what it asks is legal, the same in any process, and near the best of all three axes at once."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from asked import ENVIRONMENT, any_outcome, digest, measured, play
from envknee.ask.ask import ask, ask_again
from envknee.ask.plan import plan_of
from envknee.ask.samplers._ranks import Ranks
from envknee.ask.samplers.points import sobol
from envknee.ask.samplers.trials._profile_sampler import CENSORED, ProfileSampler
from envknee.base.fields import Kind
from envknee.record.reasons import SamplerDone
from envknee.record.schema import Request
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.verdict.joint import surface
from envknee.verdict.joint.observed import trials_of
from envknee.verdict.joint.profile import best_by
from envknee.verdict.joint.thompson import OF_PROFILE, OVERALL, next_place, startup_of
from envknee.words.plan import plan_lines
from joint_data import SETTINGS
from joint_study import AXES, a_study, learned, log_seconds, replay_study, timed
from places import PROGRAMS
from programs import python
from records import Trial


@pytest.mark.parametrize(("kind", "measure"), [("learning", learned), ("throughput", timed)])
def test_the_models_pick_after_the_search_is_near_the_best(kind: Kind, measure: Callable[[Request], Trial]):
    study = a_study(kind, window=4)
    requests, known = play(study, measure)
    assert ask_again(study, requests, known) == requests
    assert space.legal_points(study.sections[kind]) == SETTINGS
    trials = trials_of(list(known.values()), SETTINGS, kind)
    assert len(trials.log_costs) == 40
    picked = SETTINGS[int(surface.fit(SETTINGS, trials).mean.argmin())]
    assert log_seconds(picked) < min(map(log_seconds, SETTINGS)) + math.log(1.1)
    # The draws gather where the cost is low: most of them within 30% of the best.
    late = [log_seconds(request.point) for request in requests[-12:]]
    assert np.median(late) < min(map(log_seconds, SETTINGS)) + math.log(1.3)


def test_a_setting_that_is_tried_again_has_another_repeat_and_another_seed():
    requests, _ = play(a_study(num_envs=[128, 256], horizon=[8], batch_size=[512, 1024], trials=12), learned)
    assert len({request.seed for request in requests}) == len(requests)
    for point, count in Counter(request.point for request in requests).items():
        assert sorted(request.repeat for request in requests if request.point == point) == list(range(count))


@pytest.mark.parametrize(("window", "start"), [(1, 20), (4, 23)])
def test_sobol_points_come_until_half_the_trials_or_24_have_results(window: int, start: int):
    study = a_study(window=window)
    asked = [request.point for request in play(study, learned, until=start + 6)[0]]
    assert asked[:start] == sobol.order(study, "learning")[:start]
    assert asked != sobol.order(study, "learning")[: start + 6]
    assert (startup_of(1), startup_of(9), startup_of(64), startup_of(256)) == (1, 4, 24, 24)


@pytest.mark.parametrize("kind", ["throughput", "learning"])
@pytest.mark.parametrize("window", [1, 5])
def test_every_request_is_legal_whatever_happens(kind: Kind, window: int):
    arms = {"stock": {}, "lean": {}}
    study = a_study(kind, window, arms, num_envs=[16, 32, 64], batch_size=[128, 256], trials=14)
    requests, known = play(study, any_outcome)
    assert len(requests) == 28
    assert ask_again(study, requests, known) == requests
    legal = set(space.legal_points(study.sections[kind]))
    for arm in arms:
        own = [request for request in requests if request.arm == arm]
        assert {request.point for request in own} <= legal
        unfit = [r for r in own if known[r.number].outcome.status in ("oom", "refused") and r.skip is None]
        later = [r for r in own if unfit and r.number >= unfit[0].number + window * len(arms) and r.skip is None]
        assert unfit == [] or all(r.point != unfit[0].point for r in later)


def test_a_search_without_a_setting_that_fits_ends():
    study = a_study(num_envs=[16, 32], horizon=[8], batch_size=[128], trials=6)
    requests, _ = play(study, lambda request: measured(request, status="skipped" if request.skip else "oom"))
    assert [request.skip for request in requests[2:]] == [SamplerDone()] * 4


def test_nothing_but_the_visible_past_has_a_say():
    study = a_study(window=3, trials=30, num_envs=[256, 512])
    requests, known = play(study, learned)
    for number in (17, 29):
        visible = {n: record for n, record in known.items() if n <= number - 3}
        lies = {n: measured(requests[n], seconds=0.1).record for n in known if n not in visible}
        assert ask(study, number, requests[:number], visible) == requests[number]
        assert ask(study, number, requests[:number], visible | lies) == requests[number]


def test_other_processes_hash_seeds_and_thread_counts_ask_the_same():
    answers = set()
    for hash_seed, threads in (("0", "1"), ("12345", "4")):
        variables = {"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        answers.add(python(PROGRAMS / "ask_again.py", "profile", env=ENVIRONMENT | variables).stdout)
    assert answers == {f"profile {digest(replay_study())}\n"}


# In Optuna


def test_it_works_in_any_study_of_optuna():
    ranks = Ranks(a_study().sections["learning"])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="minimize")
    for number in range(16):
        study.sampler = ProfileSampler(ranks, SETTINGS, SETTINGS, SETTINGS[::9], 8, number)
        trial = study.ask(ranks.distributions)
        seconds = math.exp(log_seconds(ranks.point(trial.params)))
        trial.set_user_attr(CENSORED, seconds > 30.0)
        study.tell(trial, min(seconds, 30.0))
    assert [ranks.point(trial.params) for trial in study.trials[:8]] == SETTINGS[::9][:8]
    late = [math.log(trial.values[0]) for trial in study.trials[8:]]
    assert np.median(late) < min(map(log_seconds, SETTINGS)) + math.log(1.5)
    with pytest.raises(ValueError, match="parameter 'gpus' is none of num_envs, horizon, batch_size"):
        study.ask(ranks.distributions).suggest_int("gpus", 1, 2)


def test_four_trials_try_the_best_of_a_draw_and_five_the_best_of_a_num_envs():
    size = len(SETTINGS)
    # No two settings are alike, and draws hardly differ.
    costs = np.array([log_seconds(setting) + 0.001 * place for place, setting in enumerate(SETTINGS)])
    known = surface.Surface(SETTINGS, costs, 1e-12 * np.eye(size), 0.05, 0.2)
    everything = range(size)
    tried = [SETTINGS[next_place(known, everything, turn, turn)] for turn in range(OVERALL + OF_PROFILE)]
    best = SETTINGS[int(costs.argmin())]
    assert tried[:OVERALL] == [best] * OVERALL
    assert [setting.num_envs for setting in tried[OVERALL:]] == [128, 256, 512, 1024, 2048]
    best_of_each = best_by(costs, SETTINGS, lambda setting: setting.num_envs)
    assert tried[OVERALL:] == [SETTINGS[place] for place in best_of_each.values()]
    # With two num_envs left the five take turns, and go on where the round before ended.
    few = [place for place in everything if SETTINGS[place].num_envs in (256, 512)]
    turns = [*range(OVERALL, OVERALL + OF_PROFILE), 2 * OVERALL + OF_PROFILE]
    assert [SETTINGS[next_place(known, few, turn, 0)].num_envs for turn in turns] == [256, 512, 256, 512, 256, 512]


# The study file


@pytest.mark.parametrize("sampler", ["grid", "random", "sobol", "tpe", "gp", "profile"])
@pytest.mark.parametrize("kind", ["throughput", "learning"])
def test_every_sampler_takes_lists_for_all_three_axes(sampler: str, kind: Kind):
    trials = {"trials": 12} if sampler == "profile" else {"points": 12, "trials": None, "repeats": 1}
    study = a_study(kind, sampler=sampler, **trials)
    requests, _ = play(study, learned if kind == "learning" else timed)
    assert len(requests) == 12
    assert all(len({getattr(request, axis) for request in requests}) > 1 for axis in AXES)


def test_the_plan_tells_trials_and_how_many_points_are_legal():
    first, section, illegal, *_ = plan_lines(plan_of(a_study(arms={"stock": {}, "lean": {}})))
    assert first.startswith("Study s: 80 trials at most")
    assert section.startswith("learning: 80 trials = 40 among 100 points × 2 arms (lean, stock) (sampler profile);")
    assert illegal.startswith(
        "learning: 20 of 120 points are not measured, because batch_size must divide num_envs x horizon"
    )


def test_a_study_file_comes_back_as_it_was_written():
    study = a_study()
    assert parse_study(study.model_dump(mode="json")) == study
    assert '"trials": 40' in canonical_json(study)
    assert a_study(trials=None).sections["learning"].search_trials == 64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sampler": "tpe"}, "trials 40 is for sampler: profile, and the sampler is tpe. Take trials out"),
        ({"trials": 0}, "trials: expected greater than or equal to 1"),
        ({"points": 9}, "points 9: sampler profile chooses points and repeats itself, and stops after `trials`"),
        ({"more_repeats": 2}, "more_repeats 2: sampler profile chooses"),
        ({"adaptive": {"trials": 3}}, "'adaptive' is for sampler: adaptive, and the sampler is profile"),
        ({"block": "all"}, "block is for samplers whose points are known beforehand"),
        ({"trials": 200_000}, "arms x trials make 200,000 trials, and 100,000 are the most"),
    ],
)
def test_what_does_not_fit_together_is_told(changes: dict[str, Any], words: str):
    with pytest.raises(UserError, match=words):
        a_study(**changes)


def test_few_legal_points_are_told_with_how_to_have_more():
    few: dict[str, Any] = {"num_envs": [100, 128], "horizon": [7, 8], "batch_size": [1024, 700, 512]}
    lines = plan_lines(plan_of(a_study(**few)))
    assert any(line.startswith("learning: 9 of 12 points are not measured") for line in lines)
    (said,) = [line for line in lines if "for one model over all axes" in line]
    assert said.startswith("learning: 3 legal points for") and "List more num_envs" in said
    assert not any("for one model" in line for line in plan_lines(plan_of(a_study())))
    # Nine points on two axes: a trend of six terms.
    two_axes: dict[str, Any] = {"num_envs": [32, 64, 128], "horizon": [16], "batch_size": [128, 256, 512]}
    assert not any("for one model" in line for line in plan_lines(plan_of(a_study(**two_axes))))
    assert not any(
        "for one model" in line for line in plan_lines(plan_of(a_study(**few, sampler="sobol", trials=None, points=3)))
    )
    with pytest.raises(
        UserError, match="learning: 1 of 4 listed points is legal, and sampler: profile chooses among several"
    ):
        space.plan(a_study(num_envs=[128, 256], horizon=[8], batch_size=[1000, 2048]))


def test_axes_without_a_legal_point_and_with_too_many_are_told():
    with pytest.raises(UserError, match=r"learning: no point is legal. batch_size \[100\] must divide"):
        space.plan(a_study(batch_size=[100]))
    many = a_study(num_envs=list(range(16, 16 * 60, 16)), horizon=list(range(1, 60)), batch_size=[1])
    with pytest.raises(UserError, match="learning: 3,481 points are legal, and 2,000 are the most that one model has"):
        space.plan(many)
