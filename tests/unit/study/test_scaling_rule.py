"""What rules make of a point, by hand; what is refused; and that records, series and verdicts need no rule to be read."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import asked
import numpy as np
import pytest
from drawn import judged, marks, texts, with_verdict
from envknee.after.replay import verify
from envknee.ask import economy
from envknee.ask import plan as planning
from envknee.ask.refusals import KnownMemory
from envknee.base.point import Point
from envknee.decide.study import decide
from envknee.record.reasons import ShownSlower
from envknee.record.schema import Request
from envknee.show import report
from envknee.show.figures import draw, registry
from envknee.show.figures.rules import draw_rules
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.scaling_rule import Scaled, Scaling, scaled
from envknee.study.value_types import ASK_VERSION
from envknee.verdict.learning_cost import Seeds, cost
from envknee.verdict.schema.plan import RulePoint
from envknee.words.learning import learning_statement
from envknee.words.rules import rule_statement, rules_statement
from envknee.words.sentences import sentences
from envknee.words.tables import rules_table
from records import GPU, Trial, a_trial, known, write_study


def a_rule(rule: str, num_envs: int = 1024, **base: Any) -> Scaling:
    return Scaling.model_validate({"rule": rule, "num_envs": num_envs, "learning_rate": 3e-4, "epochs": 4} | base)


def a_study(rules: dict[str, Any], **learning: Any) -> Study:
    """Return a study with an arm of the name of each rule: from 64 environments, horizon 16, batch 256."""
    base = {"num_envs": 64, "learning_rate": 1e-3, "epochs": 4}
    arms = {name: {"gpus": 1, "scaling": base | {"rule": rule}} for name, rule in rules.items()}
    points = {"num_envs": [32, 64, 128, 256], "horizon": 16, "batch_size": 256, "repeats": 4}
    target = {"target_reward": 100, "target_episodes": 10, "budget_s": 50}
    plain = {"study": "rules", "ask_version": ASK_VERSION, "arms": arms}
    return parse_study(plain | {"learning": points | target | learning})


@pytest.mark.parametrize(
    ("rule", "smaller", "larger"),
    [
        # From 1,024 environments x 32 steps in batches of 8,192 (four), to a quarter and four times the environments.
        ("library", Scaled(32, 2048, 3e-4, 4), Scaled(32, 32768, 3e-4, 4)),
        ("fixed_batch", Scaled(32, 8192, 3e-4, 4), Scaled(32, 8192, 3e-4, 4)),
        # 1 batch in 16 epochs, or 16 batches in one: 16 steps, as 4 batches in 4 epochs
        ("fixed_updates", Scaled(32, 8192, 3e-4, 16), Scaled(32, 8192, 3e-4, 1)),
        ("sqrt_lr", Scaled(32, 2048, 1.5e-4, 4), Scaled(32, 32768, 6e-4, 4)),
        ("linear_lr", Scaled(32, 2048, 0.75e-4, 4), Scaled(32, 32768, 12e-4, 4)),
        ("fixed_frames", Scaled(128, 8192, 3e-4, 4), Scaled(8, 8192, 3e-4, 4)),
    ],
)
def test_values_of_each_rule_by_hand(rule: str, smaller: Scaled, larger: Scaled) -> None:
    for num_envs, expected in ((256, smaller), (1024, Scaled(32, 8192, 3e-4, 4)), (4096, larger)):
        actual = scaled(a_rule(rule), num_envs, 32, 8192)
        assert actual.learning_rate == pytest.approx(expected.learning_rate)
        assert actual == replace(expected, learning_rate=actual.learning_rate)


def test_a_batch_of_several_ranks_comes_in_equal_parts() -> None:
    # 2 ranks of 4 x 6 transitions, batches of 16 (8 from each) at 4 environments; of 12 from each at 6: 36 = 3 x 12
    assert scaled(a_rule("library", 4), 6, 6, 16, world_size=2).batch_size == 24
    with pytest.raises(ValueError, match="batch_size would be 7.5"):
        scaled(a_rule("library", 4), 6, 6, 5, world_size=2)


@pytest.mark.parametrize(
    ("rule", "num_envs", "horizon", "batch_size", "message"),
    [
        ("fixed_batch", 96, 16, 1024, "batch_size 1024 does not divide num_envs 96 x horizon 16.*nearest legal num_envs is 64"),
        ("fixed_frames", 48, 16, 64, "horizon would be 21.3333.*nearest legal num_envs is 32"),
        ("fixed_updates", 512, 16, 64, "epochs would be 0.5.*nearest legal num_envs is 256"),
        ("library", 32, 16, 100, "The base itself is not legal: the nearest legal batch_size there is 128"),
        ("sqrt_lr", 65, 16, 96, r"batch_size would be 97\.5.*The base itself is not legal: .* batch_size there is 64"),
    ],
)  # fmt: skip
def test_what_is_not_legal_is_told_with_the_nearest_that_is(rule, num_envs, horizon, batch_size, message) -> None:
    with pytest.raises(ValueError, match=message):
        scaled(a_rule(rule, 64), num_envs, horizon, batch_size)


def test_a_study_names_the_arm_before_anything_runs() -> None:
    study = a_study({"slow": "fixed_frames"}, num_envs=[48, 64])
    words = r"arms\.slow\.scaling: rule fixed_frames from 64 environments.*horizon would be"
    with pytest.raises(UserError, match=words):
        space.plan(study)


@pytest.mark.parametrize(
    ("arm", "changes", "message"),
    [
        ({"rule": "sqrt_lr", "num_envs": 64}, {}, "rule sqrt_lr starts from a stated learning_rate"),
        ({"rule": "fixed_updates", "num_envs": 64}, {}, "rule fixed_updates starts from a stated epochs"),
        ({"rule": "square_root", "num_envs": 64}, {}, "arms.one.scaling.rule: expected 'library', 'fixed_batch'"),
        ({"rule": "library", "num_env": 64}, {}, "num_env: unknown key"),
        ({"rule": "library", "num_envs": 64}, {"batch_size": "library"}, "a rule starts from a stated batch_size"),
        ({"rule": "fixed_frames", "num_envs": 64}, {"batch_size": 64}, "fixed_frames changes the horizon"),
    ],
)
def test_a_rule_that_a_study_cannot_have_is_told(arm: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    points = {"num_envs": [64], "horizon": 16, "batch_size": 256} | changes
    with pytest.raises(UserError, match=message):
        parse_study({"study": "s", "arms": {"one": {"scaling": arm}}, "throughput": points})


def test_requests_hold_what_follows_and_where_it_came_from() -> None:
    study = a_study({"sqrt": "sqrt_lr", "frames": "fixed_frames"})
    requests = [trial.request for trial in measured(study, jittered)]
    sqrt = next(r for r in requests if (r.arm, r.num_envs) == ("sqrt", 256))
    assert (sqrt.horizon, sqrt.batch_size, sqrt.learning_rate, sqrt.epochs) == (16, 1024, 2e-3, 4)
    frames = next(r for r in requests if (r.arm, r.num_envs) == ("frames", 256))
    assert (frames.horizon, frames.batch_size, frames.learning_rate) == (4, 256, 1e-3)
    assert sqrt.point == frames.point == Point(256, 16, 256)
    assert sqrt.seed == frames.seed  # compared pair by pair
    assert "scaled_from" in json.loads(canonical_json(sqrt))


def test_a_rules_batch_may_be_larger_than_the_smallest_rollout_listed() -> None:
    # 32 x 16 = 512 transitions, and the base's batch is 1,024; at 32 environments the rule makes it 512.
    study = a_study({"library": "library"}, batch_size=1024)
    points = space.legal_points(known(study.learning), study.world_sizes)
    assert [point.num_envs for point in points] == [32, 64, 128, 256]


def test_the_plan_has_derived_values() -> None:
    plan = planning.plan_of(a_study({"linear": "linear_lr"}))
    ((rule,),) = [section.rules for section in plan.sections]
    assert (rule.arm, rule.rule, rule.num_envs) == ("linear", "linear_lr", 64)
    largest = RulePoint(num_envs=256, horizon=16, batch_size=1024, num_mini_batches=4, learning_rate=0.004, epochs=4)
    assert rule.points[-1] == largest


def test_memory_is_refused_by_what_would_run() -> None:
    # Horizon 16 at 256 environments would not fit; fixed_frames makes that 4 steps, which do.
    study = a_study({"frames": "fixed_frames"})
    arm = study.arms["frames"]
    record = a_trial(64, horizon=16, batch_size=256, device=GPU).record
    record = record.model_copy(update={"rollout_gb": 40.0})
    as_listed = KnownMemory.of(record.request.arm, [record])
    assert as_listed.refusal(Point(256, 16, 256)) is not None
    assert KnownMemory.of(record.request.arm, [record], arm).refusal(Point(256, 16, 256)) is None


def measured(study: Study, seconds: Any) -> list[Trial]:
    """Return a trial of each request; `seconds(request)` to the target, None where it is not reached."""

    def measure(request: Request) -> Trial:
        return asked.measured(request, seconds=seconds(request))

    return list(map(measure, asked.play(study, measure)[0]))


def jittered(request: Request) -> float:
    return 1.0 + 0.01 * (request.seed % 7)


def times(seconds: float | None, request: Request) -> float | None:
    """Return the seconds of a trial, jittered; None stays None: no seed reaches the target."""
    return None if seconds is None else seconds * jittered(request)


def test_a_rule_that_changes_batch_and_horizon_is_one_series(tmp_path) -> None:
    study = a_study({"frames": "fixed_frames", "sqrt": "sqrt_lr"})
    # fixed_frames is soonest at 64, sqrt_lr at 256
    slow = {"frames": {32: 20.0, 64: 10.0, 128: 20.0, 256: 40.0}, "sqrt": {32: 40.0, 64: 30.0, 128: 20.0, 256: 10.0}}
    trials = measured(study, lambda r: slow[r.arm][r.num_envs] * jittered(r))
    verdict = decide([trial.record for trial in trials], study)
    for arm in verdict.arms:
        (limit,) = arm.learning
        assert [point.num_envs for point in limit.points] == [32, 64, 128, 256]
        assert limit.scaled_from is not None and f"under rule {limit.scaled_from.rule} from 64" in learning_statement(
            limit
        )
    assert verdict.rules is not None
    assert {rule.arm: rule.soonest_num_envs for rule in verdict.rules.rules} == {"frames": 64, "sqrt": 256}
    assert verdict.rules.has_moved is True
    assert "moves with the rule" in rules_statement(verdict.rules)
    rows = rules_table(verdict.rules).rows
    assert [row[:5] for row in rows if row[1] == "256"] == [
        ("frames", "256", "4", "256", "0.001"),
        ("sqrt", "256", "16", "1,024", "0.002"),
    ]
    names = [entry.name for entry in registry.figures_of(study)]
    assert "rules" in names


def test_report_figure_and_terminal_set_rules_side_by_side(tmp_path: Path) -> None:
    study = a_study({"frames": "fixed_frames", "sqrt": "sqrt_lr"})
    slow = {"frames": {32: 20.0, 64: 10.0, 128: 20.0, 256: None}, "sqrt": {32: 40.0, 64: 30.0, 128: 20.0, 256: 10.0}}
    trials = measured(study, lambda r: times(slow[r.arm][r.num_envs], r))
    evidence = judged(trials, study)
    figure = draw_rules(evidence)
    seconds, frames, speeds = figure.axes
    assert "moves with the rule" in texts(figure)
    assert [axes.get_ylabel().split("\n")[0] for axes in figure.axes] == [
        "Wall seconds",
        "Environment steps",
        "Seconds per million",
    ]
    # Two lines; the size that frames does not reach is an open triangle at its budget, and has a speed all the same.
    assert len(marks(seconds, "^")) == len(marks(frames, "^")) == 1
    assert [y for _, y in marks(seconds, "^")] == [50.0]
    assert len(marks(speeds, "o")) + len(marks(speeds, "s")) == 8
    assert "horizon 16, batch 256 at 64 environments" in texts(figure)  # what both share is the base
    folder = with_verdict(write_study(tmp_path / "rules", study, trials))
    draw.draw_all(folder)
    page = report.write(folder).read_text(encoding="utf-8")
    assert "Rules side by side" in page
    assert "<li>Rules: sqrt: sqrt_lr from 64 environments: soonest at 256" in page
    (_, lines) = sentences(evidence.verdict)[-1]
    assert any("The limit moves with the rule" in said for _, said in lines)


def test_limits_that_overlap_have_not_moved() -> None:
    study = a_study({"a": "library", "b": "fixed_batch"})
    trials = measured(study, lambda r: (10.0 if r.num_envs >= 64 else 30.0) * jittered(r))
    verdict = decide([trial.record for trial in trials], study)
    assert verdict.rules is not None and verdict.rules.has_moved is False
    assert "No rule is shown to move the limit" in rules_statement(verdict.rules)


def test_which_limit_is_named() -> None:
    study = a_study({"one": "library"})
    trials = measured(study, lambda r: {32: 20.0, 64: 10.0, 128: 20.0, 256: None}[r.num_envs])
    (rule,) = known(decide([trial.record for trial in trials], study).rules).rules
    soonest, later = (next(p for p in rule.points if p.num_envs == size) for size in (64, 128))
    assert soonest.frames_to_target and later.frames_to_target
    assert rule.frames_ratio == pytest.approx(later.frames_to_target.value / soonest.frames_to_target.value)
    # The larger loss names the limit: frames against 1, seconds per frame against a half.
    expected = "PPO" if rule.frames_ratio > 2 * rule.seconds_per_frame_ratio else "simulator"
    assert rule.limit == expected
    assert (rule.next_num_envs, rule.ideal_seconds_per_frame_ratio) == (128, 0.5)
    lost = measured(study, lambda r: {32: 20.0, 64: 10.0, 128: None, 256: None}[r.num_envs])
    (rule,) = decide([trial.record for trial in lost], study).rules.rules  # type: ignore[union-attr]
    assert rule.limit == "rule" and "The rule is the limit: at 128, 0 of 4 trials" in rule_statement(rule)


def test_a_study_without_rules_says_nothing_of_them() -> None:
    learning = {"num_envs": [64], "horizon": 16, "batch_size": 256, "target_reward": 1, "budget_s": 9}
    study = parse_study({"study": "s", "learning": learning})
    verdict = decide([], study)
    assert verdict.rules is None
    assert "rules" not in json.loads(canonical_json(verdict))
    assert "rules" not in [entry.name for entry in registry.figures_of(study)]


def test_sizes_that_are_shown_slower_get_no_more_seeds(tmp_path) -> None:
    study = a_study({"a": "library", "b": "fixed_batch"}, skip_decided=True, repeats=5)
    slow = {32: 40.0, 64: 10.0, 128: 10.2, 256: None}
    trials = measured(study, lambda r: times(slow[r.num_envs], r))
    skipped = {(t.request.num_envs, t.request.repeat) for t in trials if t.request.skip}
    assert {repeat for _, repeat in skipped} == {3, 4}  # never before three seeds
    assert {num_envs for num_envs, _ in skipped} == {32, 256}
    reason = next(t.request.skip for t in trials if t.request.skip and t.request.num_envs == 32)
    assert isinstance(reason, ShownSlower) and reason.seeds == 3 and reason.least_s > reason.most_s
    # The same requests again, from the same records.
    again = write_study(tmp_path, study, trials)
    count, differences = verify(again)
    assert (count, differences) == (len(trials), [])


def test_a_size_with_some_seeds_at_the_target_is_not_given_up() -> None:
    study = a_study({"a": "library"})

    def seconds(request: Request) -> float | None:
        if request.num_envs == 64:
            return 10.0 * jittered(request)
        return None if request.repeat else 30.0

    trials = measured(study, seconds)
    records = [trial.record for trial in trials]
    assert economy.shown_slower("a", Point(128, 16, 256), records) is None
    assert economy.shown_slower("a", Point(64, 16, 256), records) is None


def test_equal_sizes_are_seldom_given_up() -> None:
    """Two sizes of the same log-normal seconds, three seeds each, spread 20%: below one in twenty is given up."""
    generator = np.random.default_rng(1)
    apart = 0
    for _ in range(1000):
        first, second = np.exp(0.2 * generator.standard_normal((2, 3)))
        lower, upper = cost(Seeds(tuple(first)), 0.95).interval_lower, cost(Seeds(tuple(second)), 0.95).interval_upper
        apart += lower > upper
    assert apart < 50


def test_skipping_is_for_samplers_of_points() -> None:
    with pytest.raises(UserError, match="skip_decided is for samplers that choose points"):
        a_study({"a": "library"}, skip_decided=True, sampler="adaptive")
