"""Which points are legal, and the plan: what a number is before any point is chosen."""

import itertools

import pytest
from envknee.base.point import Point, rollout_size
from envknee.decide.settings import settings_of
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.study.model import Study
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import told

sizes = st.lists(st.integers(1, 96), min_size=1, max_size=5, unique=True)


def throughput(**changes: object) -> dict[str, object]:
    return {"num_envs": [16, 32], "horizon": [8, 16], "batch_size": [128, 256], "repeats": 2} | changes


def study(**sections: object) -> Study:
    return parse_study({"study": "s", "throughput": throughput(), **sections})


def test_an_arm_that_compiles_its_networks_has_a_process_for_each_trial() -> None:
    """PyTorch compiles for the sizes that a process sees first."""
    compiled = {"agent.torch_compile_mode": "default"}
    arms = {"plain": {}, "compiled": {"overrides": compiled}}
    planned = space.plan(study(arms=arms, throughput=throughput(block="all")))
    assert {slot.arm for slot in planned if slot.block is None} == {"compiled"}
    assert {slot.arm for slot in planned if slot.block is not None} == {"plain"}
    by_task = study(
        arms={"plain": {}, "eager": {"overrides": {"agent.torch_compile_mode": None}}}, task={"overrides": compiled}
    )
    assert not by_task.shares_processes("plain") and by_task.shares_processes("eager")


def test_mini_batches_are_the_rollout_over_the_batch_without_a_remainder() -> None:
    # 512 environments x 64 steps = 32768 transitions; 32768 / 2048 = 16
    assert rollout_size(512, 64) == 32768
    assert space.num_mini_batches(512, 64, 2048) == 16
    assert space.num_mini_batches(3, 5, 15) == 1
    for batch_size in (256, 100):  # larger than the rollout; 128 / 100 is no whole number
        with pytest.raises(ValueError, match=f"batch_size {batch_size} does not divide num_envs 16 x horizon 8 = 128"):
            space.num_mini_batches(16, 8, batch_size)


def test_every_rank_brings_an_equal_part_of_the_batch() -> None:
    # 2 ranks of 512 x 64 collect 65536 transitions; in steps of 2048, 1024 from each rank
    assert space.num_mini_batches(512, 64, 2048, world_size=2) == 32
    assert space.num_mini_batches(16, 8, 256, world_size=2) == 1
    assert space.is_legal(Point(16, 8, 256), {2}) and not space.is_legal(Point(16, 8, 256), {1, 2})
    with pytest.raises(ValueError, match="batch_size 128 does not divide num_envs 16 x horizon 24 x 3 ranks = 1152"):
        space.num_mini_batches(16, 24, 128, world_size=3)


def test_a_batch_that_no_number_of_ranks_shares_is_told_before_anything_starts() -> None:
    arms = {"one": {"gpus": 1}, "three": {"gpus": 3}}
    with pytest.raises(UserError, match=r"batch_size \[128, 256\] must divide .* x ranks \(also with \[3\]\)"):
        space.plan(study(arms=arms, throughput=throughput(batch_size=[128, 256])))
    with pytest.raises(UserError, match="no point is legal"):
        space.plan(study(arms={"three": {"gpus": 3}}, throughput=throughput(batch_size=[128, 256])))


def test_a_batch_from_a_replay_buffer_need_not_divide_a_rollout() -> None:
    sizes = throughput(num_envs=[16], horizon=[8], batch_size=[100, 256], repeats=1)
    alone = study(arms={"sac": {"trainer": "skrl_sac"}}, throughput=sizes)
    assert len(space.plan(alone)) == 2
    # Beside an arm that cuts rollouts all run the points that are legal for that one.
    with pytest.raises(UserError, match="no point is legal"):
        space.plan(study(arms={"sac": {"trainer": "skrl_sac"}, "ppo": {}}, throughput=sizes))
    with pytest.raises(UserError, match="draws its batches from a replay buffer"):
        rule = {"rule": "fixed_batch", "num_envs": 16}
        study(arms={"sac": {"trainer": "skrl_sac", "scaling": rule}}, throughput=sizes)
    with pytest.raises(UserError, match="fills its replay buffer and learns nothing"):
        study(arms={"sac": {"trainer": "skrl_sac"}}, throughput=sizes | {"warmup_iterations": 0})


@settings(max_examples=60, deadline=None)
@given(num_envs=sizes, horizon=sizes, batch_size=sizes)
def test_legal_points_are_all_that_split_into_mini_batches(
    num_envs: list[int], horizon: list[int], batch_size: list[int]
) -> None:
    data = throughput(num_envs=num_envs, horizon=horizon, batch_size=batch_size)
    sweep = parse_study({"study": "s", "throughput": data}).sections["throughput"]
    expected = []
    for envs, steps, batch in itertools.product(sorted(num_envs), sorted(horizon), sorted(batch_size)):
        try:
            space.num_mini_batches(envs, steps, batch)
        except ValueError:
            continue
        expected.append(Point(envs, steps, batch))
    assert space.legal_points(sweep) == expected


def test_the_library_batch_makes_every_pair_legal() -> None:
    sweep = study(throughput=throughput(batch_size="library", num_envs=[5, 7], horizon=[3])).sections["throughput"]
    assert space.legal_points(sweep) == [Point(5, 3, None), Point(7, 3, None)]


@pytest.mark.parametrize(("points", "asked"), [(None, 7), (3, 3), (7, 7), (100, 7)])
def test_points_asked_is_what_the_study_says_and_no_more_than_there_are(points: int | None, asked: int) -> None:
    # 16 x 8 = 128 takes 128 only; 16 x 16, 32 x 8 and 32 x 16 take both: 1 + 2 + 2 + 2 = 7
    sweep = study(throughput=throughput(points=points)).sections["throughput"]
    assert space.points_asked(sweep, {1}) == asked


def test_the_plan_is_throughput_first_arms_in_turns_and_blocks_one_after_the_other() -> None:
    learning = throughput(num_envs=[16], horizon=[8], batch_size="library", repeats=1, target_reward=1, budget_s=9)
    plan = space.plan(study(throughput=throughput(points=2), learning=learning, arms={"b": {}, "a": {}}))
    assert [slot.number for slot in plan] == list(range(10))
    trials = [*(("throughput", index // 2, index % 2) for index in range(4)), ("learning", 0, 0)]
    assert [(slot.kind, slot.repeat, slot.chunk) for slot in plan[::2]] == trials
    assert [(slot.kind, slot.repeat, slot.chunk) for slot in plan[1::2]] == trials
    assert [slot.arm for slot in plan] == ["a", "b"] * 5


def test_the_plan_does_not_depend_on_the_order_in_which_arms_are_listed() -> None:
    assert space.plan(study(arms={"stock": {}, "lean": {}})) == space.plan(study(arms={"lean": {}, "stock": {}}))


@pytest.mark.parametrize("kind", ["throughput", "learning"])
def test_a_section_without_a_legal_point_says_so_with_the_sizes_and_the_way_out(kind: str) -> None:
    section = {"num_envs": [16, 20], "horizon": [8], "batch_size": [256, 1000]}
    if kind == "learning":
        section |= {"target_reward": 1, "budget_s": 5}
    remedy = "The smallest rollout is 128 transitions: lower batch_size to divide it."
    study = parse_study({"study": "s", kind: section})
    message = told(lambda: space.plan(study), "num_envs [16, 20] and horizon [8]", remedy)
    assert message.startswith(f"{kind}: no point is legal. batch_size [256, 1000] must divide num_envs x horizon")


LEARNING = throughput(target_reward=0.0, budget_s=9.0)
ONE_EACH = {"fast": {"measures": "learning"}, "slow": {"measures": "throughput"}, "whole": {}}


def test_an_arm_has_trials_of_the_section_that_it_measures() -> None:
    both = study(learning=LEARNING, arms=ONE_EACH)
    slots = space.plan(both)
    found = {kind: {slot.arm for slot in slots if slot.kind == kind} for kind in both.sections}
    assert found == {"throughput": {"slow", "whole"}, "learning": {"fast", "whole"}}
    joint = {"sampler": "profile", "trials": 3, "confirm": {"settings": 2, "seeds": 3}}
    searched = study(throughput=throughput(**joint), learning=LEARNING | joint, arms=ONE_EACH)
    found = {kind: {slot.arm for slot in space.plan(searched) if slot.kind == kind} for kind in searched.sections}
    assert found == {"throughput": {"slow", "whole"}, "learning": {"fast", "whole"}}
    assert {arm: [*settings_of(searched).joint_of(arm)] for arm in ONE_EACH} == {
        "fast": ["learning"], "slow": ["throughput"], "whole": ["throughput", "learning"]
    }  # fmt: skip


def test_sections_and_what_arms_measure_agree() -> None:
    told(
        lambda: study(arms={"fast": {"measures": "learning"}, "whole": {}}),
        "arm 'fast': measures 'learning', and the study has no such section",
    )
    told(
        lambda: study(learning=LEARNING, arms={"slow": {"measures": "throughput"}}),
        "learning: no arm is left, because each `measures` another section",
    )
