"""An arm that should learn like another one, in words: a golden text for each state."""

from typing import Any

import pytest
from envknee.verdict.schema.joint import JointAnswer, Likeness, SettingRatio
from envknee.verdict.series import Ranks
from envknee.words.joint import joint_evidence, joint_lines, joint_next, joint_notes, joint_statement
from joint_answers import an_answer

ONE = Ranks(1, "GPU")

AT = [
    SettingRatio(
        num_envs=size, horizon=32, batch_size=2048, ratio=ratio, ratio_lower=ratio - 0.2, ratio_upper=ratio + 0.2
    )
    for size, ratio in ((256, 0.9), (512, 1.0), (1024, 1.2), (2048, 1.0))
]


def an_arm(state: Any, at: list[SettingRatio] = AT, **changes: Any) -> JointAnswer:
    values: dict[str, Any] = {
        "arm": "lean", "state": state, "margin": 0.15, "least_settings": 4, "error": 0.0133, "ratio": 1.02, "ratio_lower": 0.95,
        "ratio_upper": 1.09, "at": at,
    }  # fmt: skip
    likeness = Likeness(**values | changes)
    return an_answer(arm="stock", learns_like="lean", likeness=likeness, claims=3, thresholds=[], search_trials=0)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (an_arm("shown"), "learns like lean: 1.02 × its environment steps (97.34% interval 0.95 to 1.09) at 4 settings"),
        (
            an_arm("not shown", ratio_upper=1.18),
            "not shown to learn like lean: 1.02 × its environment steps (97.34% interval 0.95 to 1.18) at 4 settings",
        ),
        (
            an_arm("differs", ratio=1.4, ratio_lower=1.2, ratio_upper=1.6),
            "does not learn like lean: 1.40 × its environment steps (97.34% interval 1.20 to 1.60) at 4 settings",
        ),
        (an_arm("varies"), "does not learn like lean everywhere: 0.90 to 1.20 × its environment steps"),
        (
            an_arm("too few settings", AT[:3]),
            "not shown to learn like lean: 3 settings to compare, and 4 are needed; 1.02 × its environment steps (97.34% interval 0.95"
            " to 1.09)",
        ),
        (
            an_arm("too few settings", [], ratio=None, ratio_lower=None, ratio_upper=None),
            "not shown to learn like lean: 0 settings to compare, and 4 are needed",
        ),
        (
            an_arm("seeds missed the target", AT[:3]),
            "not shown to learn like lean: seeds of it, or of this arm, missed the target; 1.02 × its environment steps (97.34%"
            " interval 0.95 to 1.09)",
        ),
        (
            an_answer(learns_like="lean", thresholds=[]),
            "not shown to learn like lean yet: fresh seeds of that arm are left",
        ),
    ],
)  # fmt: skip
def test_likeness_in_a_sentence_beside_the_arm_s_own_result(found: JointAnswer, line: str):
    assert joint_evidence(found)[0] == line
    assert joint_statement(found, ONE).startswith("soonest: 512 environments"), "its own seeds carry that"


def test_each_setting_is_listed_with_its_ratio():
    lines = [said for name, said in joint_lines(an_arm("shown"), ONE) if name == "steps"]
    assert lines[0] == "256 × 32 × 2,048: 0.90 × the environment steps of lean (97.34% interval 0.70 to 1.10)"
    assert len(lines) == 4


def test_what_the_comparison_takes_and_what_follows():
    required = "two arms learn alike if the interval of the ratio lies within 0.85 to 1.15, at 4 settings or more that do not differ in it"
    shown, refused = joint_notes(an_arm("shown")), joint_notes(an_arm("differs"))
    assert shown[:2] == [
        required,
        "chances are by the environment steps of lean and this arm's own FPS; thresholds take a search of its own",
    ]
    assert refused[:2] == [
        required,
        "nothing is said of settings without fresh seeds: the search of lean only chose those that have them",
    ]
    assert shown[2] == (
        "chance of error at most 5% for all claims of the study together; 1.67% for each of the interval, the comparisons with the best"
        " and the comparison with lean"
    )


@pytest.mark.parametrize(
    ("state", "step"),
    [
        ("shown", "This answers the question for the listed values."),
        ("not shown", "Raise `more_repeats` by 5: more seeds may show that both arms learn alike."),
        ("differs", "Give it a search: take `learns_like` out, in a study of another name."),
        ("varies", "Give it a search: take `learns_like` out, in a study of another name."),
        ("too few settings", "Give it a search: take `learns_like` out, in a study of another name."),
    ],
)
def test_the_next_step(state: str, step: str):
    assert joint_next(an_arm(state)) == step


def test_before_its_first_seed_the_other_arm_s_search_is_awaited():
    found = an_answer(
        state="confirming", learns_like="lean", search_trials=0, fresh_ended=0, confirmed=[], soonest=None
    )
    assert (
        joint_statement(found, ONE) == "nothing is claimed yet: 24 fresh seeds are left, which the search of lean plans"
    )
    assert joint_next(found) == "Run the sweep to its end."


def test_a_target_that_no_fresh_seed_reached_is_told():
    [setting] = an_answer().confirmed[:1]
    missed = setting.model_copy(update={"reached": 0, "cost": None, "cost_lower": None, "cost_upper": None})
    found = an_arm("too few settings", []).model_copy(update={"confirmed": [missed], "soonest": None})
    assert "no trial reached the target: 8 fresh seeds ended before" in joint_evidence(found)
    assert joint_next(found).startswith("Lower target_reward or raise budget_s")
