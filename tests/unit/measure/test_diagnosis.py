"""What broke first is named, with its place and what was good before it; tensors are real, the simulation is not needed."""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy
import pytest
import torch
from envknee.measure import diagnosis
from envknee.measure.diagnosis import GUIDE, hints
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.measure.phases import ENV_STEP
from envknee.measure.rows import TrialDone
from envknee.measure.watch import EXPLODED_ABOVE, KEPT_BYTES, LOOK_EVERY, ORDER, Watch
from envknee.study.paths import TrialFolder
from envknee.study.task import Inject
from records import a_trial, known
from torch.utils._python_dispatch import TorchDispatchMode

NUM_ENVS = 4


@pytest.fixture(params=[0, KEPT_BYTES], ids=["looks often", "looks once"])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envknee.measure.watch.KEPT_BYTES", request.param)


def a_watch() -> Watch:
    return Watch(NUM_ENVS, torch.device("cpu"))


def a_meter(
    folder: Path,
    stored: dict[str, torch.Tensor],
    learner_fields: Mapping[str, Any] = MappingProxyType({}),
    **changes: Any,
) -> Meter:
    """Return a meter in training, whose trainer stores a rollout's observations [horizon, NUM_ENVS, ...]."""
    request = a_trial(NUM_ENVS, horizon=len(stored["policy"]), batch_size=None, kind="throughput").request
    meter = Meter(request.model_copy(update=changes), TrialFolder(folder), "cpu")
    learner = LearnerDescription(num_mini_batches=1, rollout_observations=lambda: stored, **learner_fields)
    meter.start_training(learner)
    return meter


def step_with_images(meter: Meter) -> None:
    with meter.timeline.phase(ENV_STEP):
        images = torch.zeros(NUM_ENVS, 3, 4, 4)
    meter.end_step({"policy": images}, torch.zeros(NUM_ENVS), torch.zeros(NUM_ENVS))


def step(
    watch: Watch,
    number: int,
    actions: float = 0.5,
    joints: float = 0.0,
    poses: float = 0.0,
    reset: float = 0.0,
    observations: float = 0.0,
    rewards: float = 0.0,
) -> None:
    """Note a step whose tensors are `number` everywhere, but for what is added to them in environment 2."""

    def tensor(*shape: int, plus: float = 0.0) -> torch.Tensor:
        values = torch.full((NUM_ENVS, *shape), float(number))
        values[2] += plus
        return values

    before = {
        "joint_state/robot": [torch.full((NUM_ENVS, 1), -1.0), torch.full((NUM_ENVS, 1), -1.0)],
        "body_pose/robot": [torch.full((NUM_ENVS, 3, 7), -1.0)],
    }
    watch.note_actions(torch.full((NUM_ENVS, 1), actions), lambda: before)
    positions, velocities = tensor(1), tensor(1, plus=joints)
    watch.note_state({"joint_state/robot": [positions, velocities], "body_pose/robot": [tensor(3, 7, plus=poses)]})
    joints_after_reset = {"joint_state_after_reset/robot": [positions, tensor(1, plus=reset)]}
    watch.describe_task(watch.settings, lambda: joints_after_reset)
    watch.end_step({"observations/policy": tensor(5, plus=observations), "rewards": tensor(plus=rewards)})


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 2 * EXPLODED_ABOVE])
@pytest.mark.parametrize(
    ("where", "named"),
    [
        ({"joints", "poses", "observations", "rewards"}, "joint_state/robot"),
        ({"poses", "rewards"}, "body_pose/robot"),
        ({"reset", "observations"}, "joint_state_after_reset/robot"),
        ({"observations", "rewards"}, "observations/policy"),
        ({"rewards"}, "rewards"),
    ],
)
@pytest.mark.parametrize("before", [1, LOOK_EVERY - 1, LOOK_EVERY, 2 * LOOK_EVERY + 3])
def test_of_what_broke_in_a_step_the_cause_is_named(before, bad, where, named):
    watch = a_watch()
    for number in range(before):
        step(watch, number)
    broken: dict[str, Any] = dict.fromkeys(where, bad)
    step(watch, before, **broken)
    step(watch, before + 1, joints=math.nan, poses=math.nan, observations=math.nan, rewards=math.nan)
    name, at, indices = known(watch.first_broken())
    assert (name, at, indices.tolist()) == (named, before, [2])


def test_a_rollout_in_which_nothing_broke_is_whole_and_the_next_one_begins_anew():
    watch = a_watch()
    for number in range(3):
        step(watch, number, actions=1e30)  # what huge actions lead to tells whether they are too large
    assert watch.first_broken() is None
    watch.begin_rollout()
    step(watch, 0, rewards=math.nan)
    assert known(watch.first_broken())[:2] == ("rewards", 0)


def test_broken_actions_come_before_what_they_broke_even_in_a_step_without_an_end():
    watch = a_watch()
    step(watch, 0)
    watch.note_actions(torch.full((NUM_ENVS, 1), math.nan), dict)
    broken_joints = [torch.full((NUM_ENVS, 1), math.nan)] * 2
    watch.note_state({"joint_state/robot": broken_joints, "body_pose/robot": [torch.zeros(NUM_ENVS, 3, 7)]})
    cause = watch.first_broken()
    assert cause is not None and cause[:2] == ("actions", 1) and len(cause[2]) == NUM_ENVS


def test_broken_actions_of_a_step_without_a_state_are_found_and_the_last_good_state_stays():
    watch = a_watch()
    step(watch, 3)
    watch.note_actions(torch.full((NUM_ENVS, 1), math.inf), dict)
    assert known(watch.first_broken())[:2] == ("actions", 1)
    assert watch.last_good(torch.tensor([2]))["last_good/joint_state/robot"].tolist() == [[3.0, 3.0]]


@pytest.mark.usefixtures("looks")
@pytest.mark.parametrize("more", [0, LOOK_EVERY - 3, LOOK_EVERY - 2, LOOK_EVERY])
def test_the_last_good_state_and_the_actions_that_came_after_it_are_dumped(tmp_path, more):
    watch = a_watch()
    watch.describe_task({"env.sim.dt": 0.01}, dict)
    for _ in range(more):
        step(watch, 3)
    step(watch, 0)
    step(watch, 7)
    step(watch, 8, actions=500.0, joints=math.nan)
    step(watch, 9, actions=0.1)  # reset meanwhile: neither state nor actions are those before the break
    path = tmp_path / "dump.npz"
    broken = known(watch.first_broken())
    reason, failure = diagnosis.of_rollout(
        watch, broken, 3, lambda at: {"rewards": torch.full((NUM_ENVS,), float(at))}, path
    )
    assert "joint_state/robot became NaN or infinite" in reason and "after actions of up to 500" in reason
    assert f"in 1 of 4 environments at iteration 3, step {more + 2}" in reason
    assert (failure.tensor, failure.step) == ("joint_state/robot", more + 2)
    assert (failure.env_indices, failure.dump) == ([2], "dump.npz")
    assert "up to 500" in failure.hints[0]
    assert any("env.sim.dt (now 0.01" in hint for hint in failure.hints)
    assert failure.hints.index(GUIDE) > 0
    with numpy.load(path, allow_pickle=False) as dump:
        good = {"last_good/joint_state/robot", "last_good/body_pose/robot"}
        assert set(dump) == {*good, "actions", "rewards", "env_indices"}
        numpy.testing.assert_equal(dump["last_good/joint_state/robot"], [[7.0, 7.0]])
        numpy.testing.assert_equal(dump["last_good/body_pose/robot"], numpy.full((1, 3, 7), 7.0))
        numpy.testing.assert_equal(dump["actions"], [[500.0]])
        numpy.testing.assert_equal(dump["rewards"], [more + 2.0])


def test_what_breaks_in_the_very_first_step_has_the_state_before_it():
    watch = a_watch()
    step(watch, 0, joints=math.inf)
    good = watch.last_good(torch.tensor([2]))
    assert good["last_good/joint_state/robot"].tolist() == [[-1.0, -1.0]]


def test_every_kind_of_break_has_hints_that_end_in_the_guide():
    kinds = [f"{kind}/x" for kind in ORDER] + ["losses/value", "action_std", "parameters/actor.0.weight"]
    for kind in kinds:
        advice = hints(kind, {}, 1.0)
        assert len(advice) > 1 and GUIDE in advice


def test_networks_that_give_broken_actions_are_the_cause_and_a_drill_says_that_it_is_one(tmp_path):
    stored = {"policy": torch.zeros(1, NUM_ENVS, 5)}
    weight = torch.nn.Parameter(torch.tensor([1.0, math.nan]))
    state = {"actor.normalizer.count": torch.tensor(2_000_000), "actor.weight": weight}
    meter = a_meter(tmp_path, stored, {"state": lambda: state})
    meter.watch.note_actions(torch.full((NUM_ENVS, 1), math.nan), dict)
    with pytest.raises(TrialDone, match=r"^parameters/actor.weight became nan .*: actions became NaN") as done:
        meter.end_step({"policy": torch.zeros(NUM_ENVS, 5)}, torch.zeros(NUM_ENVS), torch.zeros(NUM_ENVS))
    assert done.value.status == "nan"
    meter = a_meter(tmp_path, stored, inject=Inject(kind="huge_actions"))
    words = r"^DRILL, NO RESULT \(huge_actions at step 0 in 1 environment, on purpose\): rewards"
    with pytest.raises(TrialDone, match=words):
        meter.end_step({}, torch.full((NUM_ENVS,), math.nan), torch.zeros(NUM_ENVS))


def test_an_image_that_breaks_learning_is_found_among_those_that_the_trainer_kept(tmp_path):
    kept = torch.zeros(5, NUM_ENVS, 3, 4, 4)
    meter = a_meter(tmp_path, {"policy": kept, "uint8": kept.to(torch.uint8)})
    kept[3, 1, 2, 3, 3] = math.inf  # seen before step 3: what step 2 gave
    for _ in kept:
        step_with_images(meter)
    words = r"^observations/policy became NaN .* in 1 of 4 environments at iteration 0, step 2"
    with pytest.raises(TrialDone, match=words) as done:
        meter.end_iteration({"value": math.nan}, learning_rate=1e-3, action_std=1.0)
    assert done.value.failure is not None and done.value.failure.env_indices == [1]


def test_of_a_pipeline_the_rollout_that_was_learned_from_is_looked_at_too(tmp_path):
    learned, collected = torch.zeros(2, 2, NUM_ENVS, 3, 4, 4)
    meter = a_meter(tmp_path, {"policy": collected}, {"previous_observations": lambda: {"policy": learned}})
    step_with_images(meter)
    step_with_images(meter)
    meter.end_iteration({"value": 0.0}, learning_rate=1e-3, action_std=1.0)
    step_with_images(meter)
    step_with_images(meter)
    learned[1, 2] = math.nan  # seen before step 1: what step 0 gave, an iteration ago
    words = r"^observations/policy became .* in 1 of 4 environments at iteration 0, step 0"
    with pytest.raises(TrialDone, match=words):
        meter.end_iteration({"value": math.nan}, learning_rate=1e-3, action_std=1.0)
    dumped = numpy.load(tmp_path / "nan_dump.npz")
    assert numpy.isnan(dumped["observations/policy"]).all() and dumped["env_indices"].tolist() == [2]


def test_a_loss_that_breaks_without_a_broken_rollout_is_what_is_named(tmp_path):
    meter = a_meter(tmp_path, {"policy": torch.zeros(1, NUM_ENVS, 3, 4, 4)})
    step_with_images(meter)
    with pytest.raises(TrialDone, match=r"^losses/value became nan"):
        meter.end_iteration({"value": math.nan}, learning_rate=1e-3, action_std=1.0)


@pytest.mark.parametrize("broke_before", [False, True])
def test_a_rollout_that_is_checked_after_learning_names_what_broke_first(tmp_path, broke_before):
    request = a_trial(NUM_ENVS, horizon=1, batch_size=None, kind="throughput").request
    meter = Meter(request, TrialFolder(tmp_path), "cpu")
    weight = torch.nn.Parameter(torch.ones(2))
    learner = LearnerDescription(
        state=lambda: {"actor.weight": weight}, num_mini_batches=1, calls_while_gpu_learns=True
    )
    meter.start_training(learner)

    def learn(action: float, after: float) -> None:
        meter.watch.note_actions(torch.full((NUM_ENVS, 1), action), dict)
        meter.watch.note_state({"joint_state/robot": [torch.zeros(NUM_ENVS, 2)]})
        with meter.timeline.phase(ENV_STEP):
            rewards = torch.zeros(NUM_ENVS)
        meter.end_step({}, rewards, torch.zeros(NUM_ENVS))
        weight.data.fill_(after)
        meter.while_gpu_learns()
        meter.end_iteration({"value": 1.0}, learning_rate=1e-3, action_std=1.0)

    learn(1.0, after=math.nan if broke_before else 1.0)
    with pytest.raises(TrialDone) as done:
        learn(math.nan, after=math.nan)
    named = "parameters/actor.weight became nan at iteration 1" if broke_before else "actions became NaN"
    assert done.value.status == "nan" and str(done.value).startswith(named)
    assert (tmp_path / "nan_dump.npz").exists()


class Kernels(TorchDispatchMode):
    """Counts the operations that would each start a kernel on a GPU."""

    NO_KERNELS = ("detach", "view", "unsqueeze", "select", "slice", "unbind", "expand", "_unsafe_view", "scalar_tensor")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1]
        self.names += [] if name in self.NO_KERNELS else [name]
        return func(*args, **(kwargs or {}))


def test_a_step_starts_few_kernels(tmp_path):
    # With few environments the CPU, which starts each kernel in some 5 us, is what a GPU waits for: a step takes it about 4 ms.
    horizon = 2 * LOOK_EVERY
    meter = a_meter(tmp_path, {"policy": torch.zeros(horizon, NUM_ENVS, 3, 4, 4)})
    joints = {"joint_state/robot": [torch.zeros(NUM_ENVS, 2), torch.zeros(NUM_ENVS, 2)]}
    state = joints | {"body_pose/robot": [torch.zeros(NUM_ENVS, 2, 7)]}
    seen = {"policy": torch.zeros(NUM_ENVS, 3, 4, 4), "critic": torch.zeros(NUM_ENVS, 4)}
    actions, rewards, dones = torch.zeros(NUM_ENVS, 1), torch.zeros(NUM_ENVS), torch.zeros(NUM_ENVS, dtype=torch.bool)
    meter.watch.describe_task({}, lambda: {"joint_state_after_reset/robot": joints["joint_state/robot"]})
    with Kernels() as kernels:
        for _ in range(horizon):
            meter.watch.note_actions(actions, lambda: state)
            meter.watch.note_state(state)
            meter.end_step(seen, rewards, dones)
    assert len(kernels.names) / horizon <= 5, Counter(kernels.names)
