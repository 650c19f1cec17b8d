"""What two runs of the same trials differ in, from when on and by how much; and the settings of deterministic trials."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from envknee.after import repeats
from envknee.ask import ask
from envknee.base.point import Point
from envknee.run import resources
from envknee.study import space
from envknee.study.errors import UserError
from envknee.trainers.common import determinism
from programs import run_main
from records import a_study, a_trial, learning_trials, write_study


def test_the_first_iteration_and_what_differs_most_are_named(tmp_path: Path):
    trials = learning_trials({16: [10.0, 11.0], 32: [12.0]})
    louder = trials[1].with_rows(5, losses={"value": 0.1001}, action_std=1.5)
    others = [trials[0], louder, trials[2].with_rows(9, reward_mean=2.0)]
    a, b = (write_study(tmp_path / name, a_study(), own) for name, own in (("a", trials), ("b", others)))
    compared = repeats.compare(a, b)
    found = [(repeat.first_different, repeat.quantity) for repeat in compared]
    assert found == [(None, None), (5, "action_std"), (9, "reward_mean")]
    assert compared[1].by == pytest.approx(1 / 3)
    (line,) = repeats.lines(compared)
    assert line.startswith("stock, learning: 1 of 3 trials the same bit for bit (72 iterations)")
    assert "in iteration 5 of trial 0001: action_std by 3.3e-01 of its size; rewards end up to 50.0% apart" in line


def test_wall_clocks_are_left_out_and_parameters_decide(tmp_path: Path, capsys):
    trial = a_trial(16)
    slower = trial.with_rows(wall_s=1e3, fps_total=1.0)
    folders = [
        write_study(tmp_path / name, a_study(), [measured.ended(parameters_sha256=digest)])
        for name, measured, digest in (("a", trial, "x"), ("b", slower, "x"), ("c", trial, "y"))
    ]
    differ = "all rows are the same, and parameters in the end are not"
    for other, status, words in ((1, 0, "1 of 1 trials"), (2, 1, differ)):
        assert run_main(repeats.main, folders[0].root, folders[other].root) == status
        assert words in capsys.readouterr().out
    # One that was ended by the clock earlier: what both have is the same, and parameters say nothing.
    late = replace(trial.ended(status="timeout", parameters_sha256="z"), rows=trial.rows[:3])
    shorter = write_study(tmp_path / "d", a_study(), [late])
    (repeat,) = repeats.compare(folders[0], shorter)
    assert repeat.is_same and repeat.iterations == 3 and repeat.same_parameters is None


def test_trials_that_ended_differently_are_not_the_same(tmp_path: Path):
    trials = [a_trial(16), a_trial(32, number=1)]
    broken = trials[1].ended(status="diverged")
    for name, other, words in (
        ("rows", replace(broken, rows=broken.rows[:2]), "ok after 4 iterations, then diverged after 2 iterations"),
        ("none", replace(broken, rows=[]), "ok after 4 iterations, then diverged after 0 iterations"),
    ):
        a, b = (
            write_study(tmp_path / name / side, a_study(), [trials[0], second])
            for side, second in (("a", trials[1]), ("b", other))
        )
        compared = repeats.compare(a, b)
        assert [repeat.is_same for repeat in compared] == [True, False]
        (line,) = repeats.lines(compared)
        assert "1 of 2 trials the same bit for bit" in line and f"trial 0001 ended as {words}" in line


def test_a_value_that_one_side_alone_has_differs():
    row = a_trial(16).rows[0]
    first, quantity, by = repeats.compare_rows([row], [row.model_copy(update={"losses": {}})])
    assert (first, quantity, by) == (0, "losses/value", math.inf)


def test_nothing_in_common_is_an_error(tmp_path: Path):
    a, b = (write_study(tmp_path / name, a_study(), [a_trial(n)]) for name, n in (("a", 16), ("b", 32)))
    with pytest.raises(UserError, match="have no trial in common: the same point, repeat and seed. `make replay"):
        repeats.compare(a, b)


def test_an_arm_says_whether_it_is_deterministic_and_its_processes_know():
    sizes = {"num_envs": 4, "horizon": 4, "batch_size": 16}
    study = a_study(arms={"d": {"gpus": 0, "deterministic": True}}, throughput=sizes)
    request = ask.request_for(study, space.plan(study)[0], Point(4, 4, 16), None)
    assert request.deterministic and '"deterministic":true' in request.model_dump_json()
    variables = resources.environment_of(request)
    assert (variables["OMP_NUM_THREADS"], variables["PYTHONHASHSEED"]) == ("1", "0")
    assert variables["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_a_digest_sees_every_bit_name_and_shape():
    state = {"b": torch.tensor([1.0, 2.0]), "a": torch.tensor(3)}
    same = {"a": torch.tensor(3), "b": torch.tensor([[1.0, 2.0]])[0]}
    assert determinism.digest(state) == determinism.digest(same)
    for other in (
        {**state, "a": torch.tensor(3, dtype=torch.int32)},
        {**state, "b": torch.tensor([1.0, 2.0 + 2.4e-7])},
        {**state, "b": torch.tensor([[1.0, 2.0]])},
        {"c": state["b"], "a": state["a"]},
    ):
        assert determinism.digest(other) != determinism.digest(state)
