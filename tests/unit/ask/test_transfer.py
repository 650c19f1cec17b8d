"""`learns_like`: what a study may name, which trials it plans, and that they follow from what the window shows."""

import math
from pathlib import Path
from typing import Any

import pytest
from asked import measured, play
from envknee.ask.ask import ask, ask_again, write_request
from envknee.ask.journal import read_request
from envknee.ask.plan import plan_of
from envknee.base.point import Point
from envknee.decide.study import decide
from envknee.record.reasons import SamplerDone
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.verdict.joint.transfer import transferred
from envknee.words.plan import plan_lines
from records import write_study, write_trial
from transfer_study import FAST, SLOW, SMALL, fps_of, frames_of, transfer_data, transfer_study, trial

Played = tuple[Study, list[Request], dict[int, Record]]


@pytest.fixture(scope="module")
def played() -> Played:
    study = transfer_study()
    return study, *play(study, trial)


def fresh_of(requests: list[Request], arm: str, round_: int = 14) -> list[Request]:
    """Return the requests of a round of an arm's fresh seeds that run; 14 is the first one."""
    own = [request for request in requests if request.confirms and request.arm == arm and request.repeat == round_]
    return [request for request in own if request.skip is None]


def points_of(requests: list[Request]) -> set[Point]:
    return {request.point for request in requests}


def test_the_slow_arm_has_no_search_and_the_fast_one_fresh_seeds_at_its_settings_too(played: Played):
    study, requests, known = played
    assert ask_again(study, requests, known) == requests
    searched = [request for request in requests if request.kind == "learning" and not request.confirms]
    assert {request.arm for request in searched} == {FAST} and len(searched) == 14
    slow, fast = (points_of(fresh_of(requests, arm)) for arm in (SLOW, FAST))
    assert len(slow) == 4 and slow <= fast and 4 <= len(fast) <= 8
    assert {point.num_envs for point in slow} == {128, 256, 512, 1024}
    for later in range(15, 18):
        assert [points_of(fresh_of(requests, arm, later)) for arm in (SLOW, FAST)] == [slow, fast]
    skipped = [request for request in requests if request.confirms and request.skip is not None]
    assert {request.arm for request in skipped} <= {FAST}
    assert [request.skip for request in skipped] == [SamplerDone()] * (4 * (8 - len(fast)))


def test_the_fast_arm_may_leave_out_fps_because_only_its_steps_plan():
    """As config/studies/joint-stock.yaml does."""
    study = transfer_study(arms__lean__measures="learning")
    requests, known = play(study, trial)
    assert {request.arm for request in requests if request.kind == "throughput"} == {SLOW}
    slow, fast = (points_of(fresh_of(requests, arm)) for arm in (SLOW, FAST))
    assert len(slow) == 4 and slow <= fast
    (answer,) = [joint for arm in decide(list(known.values()), study).arms for joint in arm.joint if joint.learns_like]
    assert answer.likeness is not None and answer.likeness.ratio is not None and answer.plan is not None
    assert answer.soonest is not None


def test_a_sweep_that_asks_from_files_asks_the_same(played: Played, tmp_path: Path):
    study, requests, _ = played
    folder = write_study(tmp_path / "s", study, [])
    for number, request in enumerate(requests):
        write_request(study, folder, number)
        assert read_request(folder.trial(number)) == request
        write_trial(folder.trial(number), trial(request))


def test_its_settings_are_good_for_its_own_fps(played: Played):
    _, requests, _ = played
    seconds = {point: frames_of(point) / fps_of(SLOW, point) for point in points_of(requests)}
    least = min(seconds.values())
    chosen = sorted(seconds[point] for point in points_of(fresh_of(requests, SLOW)))
    assert chosen[0] < 1.1 * least, "the best one is among them"
    best = {
        arm: min(points_of(fresh_of(requests, arm)), key=lambda point: frames_of(point) / fps_of(arm, point))
        for arm in (SLOW, FAST)
    }
    assert best[SLOW].num_envs < best[FAST].num_envs, "its FPS saturate sooner"


def test_seconds_are_the_other_arm_s_frames_over_its_own_fps(played: Played):
    _, requests, known = played
    settings = space.legal_points(transfer_study().sections["learning"], {1})
    learned = [known[r.number] for r in requests if (r.arm, r.kind) == (FAST, "learning") and r.skip is None]
    timed = [known[r.number] for r in requests if (r.arm, r.kind) == (SLOW, "throughput")]
    surface = transferred(settings, learned, timed)
    assert surface is not None
    place = settings.index(Point(512, 32, 1024))
    truth = frames_of(settings[place]) / fps_of(SLOW, settings[place])
    assert surface.mean[place] == pytest.approx(math.log(truth), abs=0.15)
    assert transferred(settings, [], timed) is None and transferred(settings, learned, []) is None


def test_no_fresh_seed_has_a_say_in_the_plan(played: Played):
    study, requests, known = played
    first = next(request.number for request in requests if request.confirms)
    lies = {n: measured(requests[n], seconds=0.5, frames=9).record for n in range(first, len(requests))}
    for number in (first, first + 1, first + 9, len(requests) - 1):
        assert ask(study, number, requests[:number], known | lies) == requests[number]


def test_what_does_not_fit_the_slow_arm_is_not_planned_for_it():
    def on_a_small_card(request: Request):
        too_large = request.arm == SLOW and request.num_envs > 256
        return measured(request, status="oom") if too_large and request.skip is None else trial(request)

    grid = SMALL | {"sampler": "grid", "repeats": 1}
    study = transfer_study(throughput=grid, learning__confirm={"settings": 4, "seeds": 3})
    requests, _ = play(study, on_a_small_card)
    assert {point.num_envs for point in points_of(fresh_of(requests, SLOW))} == {128, 256}
    assert 1024 in {point.num_envs for point in points_of(fresh_of(requests, FAST))}


def test_without_fps_of_its_own_nothing_is_planned():
    def crashes(request: Request):
        return measured(request, status="crashed") if request.arm == SLOW and request.skip is None else trial(request)

    requests, _ = play(transfer_study(learning__confirm={"settings": 4, "seeds": 3}), crashes)
    assert fresh_of(requests, SLOW) == []
    assert len(fresh_of(requests, FAST)) == 4


def test_more_repeats_are_further_seeds_of_the_same_settings(played: Played):
    study, requests, known = played
    longer = transfer_study(learning__more_repeats=1)
    assert space.plan(longer)[: len(requests)] == space.plan(study)
    requests = [*requests]
    for number in range(len(requests), len(space.plan(longer))):
        requests.append(ask(longer, number, requests, known))
    for arm in (SLOW, FAST):
        assert points_of(fresh_of(requests, arm, 18)) == points_of(fresh_of(requests, arm))


def test_the_plan_tells_which_arm_is_searched():
    line = next(line for line in plan_lines(plan_of(transfer_study())) if line.startswith("learning"))
    assert line.startswith(
        "learning: 62 trials = 14 among 24 points × 1 arm (lean) (sampler profile) + 4 settings × 4 fresh seeds × 2 arms (lean, stock)"
        " + those of stock with lean;"
    ), line


def test_a_search_that_repeats_no_size_is_told_no_power_of_repeats():
    plan = plan_of(transfer_study())
    assert plan.power is None and not any(line.startswith("Power") for line in plan_lines(plan))


def test_it_comes_back_from_a_file_and_is_part_of_what_is_measured():
    study = transfer_study()
    assert parse_study(study.model_dump(mode="json")) == study
    assert study.measured_part()["arms"][SLOW]["learns_like"] == FAST
    assert "learns_like" not in study.measured_part()["arms"][FAST]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms__stock__learns_like": "leen"}, "arm 'stock': learns_like 'leen' is no arm of this study .*lean.*Arms: lean, stock"),
        ({"arms__stock__learns_like": "stock"}, "arm 'stock': learns_like 'stock' is this arm itself"),
        (
            {"arms__lean__learns_like": "stock"},
            "arm 'lean': learns_like 'stock' has no search of its own, because it learns like 'lean'",
        ),
        ({"arms__stock__gpus": 2, "learning__num_envs": [128, 256, 512]}, "it trains on 1 ranks together, and this arm on 2"),
        (
            {"arms__stock__scaling": {"rule": "sqrt_lr", "num_envs": 512, "learning_rate": 3e-4}},
            "the arms have different `scaling`",
        ),
        ({"arms__stock__trainer": "skrl_sac"}, "its trainer is rsl_rl, and this arm's is skrl_sac"),
        ({"learning": None}, "needs a learning section with `sampler: profile` and `confirm`"),
        ({"learning__confirm": None}, "needs a learning section with `sampler: profile` and `confirm`"),
        (
            {"learning__sampler": "grid", "learning__trials": None},
            "needs a learning section with `sampler: profile` and `confirm`",
        ),
        ({"learning__confirm": {"settings": 3}}, "takes 4 settings or more, and confirm.settings is 3. Confirm 4 or more"),
        ({"arms__stock__measures": "learning"}, "needs this arm's own FPS and fresh seeds, and measures is 'learning'"),
        ({"arms__lean__measures": "throughput"}, "needs the search of that arm, which measures throughput alone"),
        ({"throughput": None}, "this arm's seconds follow from its own FPS. Add a throughput section"),
        ({"throughput__num_envs": [128, 512]}, "throughput.num_envs does not reach from the smallest learning.num_envs"),
        ({"throughput__batch_size": "library"}, "throughput.batch_size does not reach from the smallest"),
    ],
)  # fmt: skip
def test_what_cannot_learn_alike_is_told_when_the_study_is_read(changes: dict[str, Any], words: str):
    with pytest.raises(UserError, match=words):
        transfer_study(**changes)


def test_a_command_has_a_task_and_a_target_of_its_own():
    command = {"preset": "mjlab", "argv": ["train"]}
    data = transfer_data()
    data["arms"][SLOW] |= {"trainer": "command", "command": command}
    with pytest.raises(UserError, match="one of the arms is a foreign command, whose task and target are its own"):
        parse_study(data)


def test_fps_need_not_be_listed_at_the_same_values():
    wider = SMALL | {"num_envs": [64, 1024], "sampler": "grid"}
    assert transfer_study(throughput=wider).throughput is not None
