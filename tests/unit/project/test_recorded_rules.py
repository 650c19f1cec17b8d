"""The study of learning rules (results-published/cartpole-learning-rules): what docs/learning-rules.md says in words."""

from envknee.verdict.schema.learning import RulePoint
from envknee.words.states import gain_evidence
from published import records_of, uuid_of, verdict_of
from records import known

from benchmarks.pages.learning_rules import BASE, STUDY, apart, cases, losses, point_at, rules


def of(arm: str, num_envs: int) -> RulePoint:
    return point_at(next(rule for rule in rules().rules if rule.arm == arm), num_envs)


def test_at_the_base_all_rules_are_the_same_training():
    by_seed: dict[int, set[int | None]] = {}
    for record in records_of(STUDY):
        if record.request.num_envs == BASE:
            by_seed.setdefault(record.request.repeat, set()).add(record.frames_to_target)
    assert len(by_seed) == 5 and all(len(found) == 1 and None not in found for found in by_seed.values())


def test_no_rule_moved_the_limit_and_all_share_sizes():
    found = rules()
    assert found.has_moved is False and len({uuid_of(record) for record in records_of(STUDY)} - {None}) == 5
    soonest = {rule.arm: rule.soonest_num_envs for rule in found.rules}
    assert soonest == {"fixed_batch": 1024, "fixed_frames": 1024, "library": 256, "sqrt_lr": 1024}
    lowest = max(known(rule.soonest_lowest) for rule in found.rules)
    highest = min(known(rule.soonest_highest) for rule in found.rules)
    assert (lowest, highest) == (512, 2048)


def test_which_limit_is_met_first():
    own = {place: loss.limit for place, loss in losses().items()}
    for rule in rules().rules:
        assert own[rule.arm, known(rule.soonest_num_envs)] in (rule.limit, "both")
    few = [(arm, size) for arm in ("fixed_batch", "fixed_frames") for size in (256, 512)]
    assert {own[place] for place in few} == {"simulator"}
    assert {own["library", size] for size in (256, 512, 1024, 2048)} == {"PPO"} and own["library", 4096] == "rule"
    assert [own["sqrt_lr", size] for size in (256, 512)] == ["PPO", "both"]
    rising = [of("library", size).frames_to_target for size in (256, 512, 1024)]
    assert apart(rising[0], rising[1]) and apart(rising[1], rising[2])
    for size in (256, 512):
        frames = {rule.arm: known(of(rule.arm, size).frames_to_target).value for rule in rules().rules}
        assert frames["library"] < frames["sqrt_lr"] < min(frames["fixed_batch"], frames["fixed_frames"])


def test_one_seed_of_library_spent_its_budget():
    (slow,) = (record for record in records_of(STUDY) if record.outcome.status == "timeout")
    assert (slow.request.arm, slow.request.num_envs, slow.request.budget_s) == ("library", 8192, 120.0)


def test_where_rules_differ():
    found = {case[:4] for case in cases() if case.is_apart}
    many = {(4096, "fixed_batch", "library"), (8192, "fixed_batch", "library"), (8192, "library", "sqrt_lr")}
    assert {case for case in found if case[0] != 256} == {
        (*pair, what) for pair in many for what in ("seconds", "environment steps")
    }
    assert {case[3] for case in found if case[0] == 256} == {"environment steps"}
    root, library = known(of("sqrt_lr", 8192).seconds_to_target), known(of("library", 8192).seconds_to_target)
    assert library.lower_bound and 1 < library.value / known(root.interval_upper) < 1.05
    few = [of(arm, 256).batch_size for arm in ("library", "sqrt_lr", "fixed_batch", "fixed_frames")]
    assert few == [2048, 2048, 8192, 8192]


def test_a_doubling_that_may_save_something_after_all_says_what_the_bound_is_of():
    """Not `takes 13.8% longer (at most 21.1%, ...)`: the bound is of a saving."""
    said = {arm.arm: gain_evidence(arm.learning[0])[0] for arm in verdict_of(STUDY).arms}
    longer = "doubling 2,048 takes 13.8% longer (saves at most 21.1%, 5 seeds; pays from 25%"
    assert said["fixed_batch"].startswith(longer)
