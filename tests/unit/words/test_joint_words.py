"""The joint answer in words: a golden text for each state, and what terminal, report and MLflow say of a study."""

from pathlib import Path
from typing import Any

import markupsafe
import pytest
import yaml
from asked import measured, play
from drawn import with_verdict
from envknee.ask.plan import plan_of
from envknee.decide.settings import settings_of
from envknee.decide.study import decide
from envknee.decide.verdict_file import read_verdict
from envknee.record.read import load_records
from envknee.record.schema import Request
from envknee.show import report, terminal
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.joint import (
    ConfirmedSetting,
    JointAnswer,
    LikelySetting,
    MiniBatches,
    OnCards,
    ProfileValue,
)
from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.study import ArmVerdict
from envknee.verdict.series import Ranks
from envknee.words.answer import answer, answers_table
from envknee.words.cards import cards_table
from envknee.words.joint import (
    card_lines,
    joint_evidence,
    joint_lines,
    joint_next,
    joint_notes,
    joint_statement,
    likely_lines,
    profile_lines,
)
from envknee.words.plan import plan_lines
from envknee.words.progress import trial_words
from envknee.words.runs import arm_description
from joint_answers import SETTINGS, a_setting, a_threshold, an_answer
from joint_study import a_study, learned
from places import ROOT
from programs import run_main
from records import GPU, Trial, write_study

ONE, TWO = Ranks(1, "GPU"), Ranks(2, "GPU")


UNKNOWN: dict[str, Any] = {
    "soonest": None, "fewest_environments": None, "least_memory": None, "fewest_gpu_seconds": None, "thresholds": []
}  # fmt: skip


def test_a_confirmed_answer_tells_the_result_first():
    found = an_answer()
    assert joint_statement(found, ONE) == (
        "soonest: 512 environments, horizon 32, batch 1,024: 6.0 s (99% interval 4.8 to 7.5, 8 fresh seeds)"
    )
    assert joint_evidence(found) == [
        "the best one of all 100 settings with a chance of 34%, by the model",
        "not shown slower: 256 × 32 × 512 (1 of 2 others)",
        "num_envs threshold 256: doubling saves under 25% at the best horizon and batch (99% level)",
        "cheapest by environments and memory: 256 × 32 × 512, at most 20.0% slower",
        "cheapest by GPU-seconds: 512 × 32 × 1,024, at most 12.0% slower",
        "horizon threshold 16: doubling saves under 25% at the best num_envs and batch (99% level)",
        "mini-batches per epoch: 8 to 16; others of 1 to 32 are over 25% slower, by the model",
    ]
    assert joint_notes(found) == [
        "chance of error at most 5% for all claims of the study together; 1.25% for each of the interval, the comparisons with the best,"
        " the threshold of num_envs and the threshold of horizon"
    ]
    assert joint_next(found) == "This answers the question for the listed values."


def test_the_table_of_answers_and_cards_names_one_setting_for_each_arm(
    tmp_path: Path, trials: tuple[Study, list[Trial]]
):
    folder = a_folder(tmp_path, trials)
    verdict, arm = read_verdict(folder, load_records(folder)), arm_of(folder)
    [setting] = [own for own in joint_of(folder).confirmed[:1]]
    card = CardPrediction(
        card="8 GB", memory_gb=8.0, horizon=setting.horizon, batch_size=setting.batch_size, largest_num_envs=700,
        largest_num_envs_lower=None, largest_num_envs_upper=None,
    )  # fmt: skip
    assert arm.memory is not None
    memory = arm.memory.model_copy(update={"cards": [card, card.model_copy(update={"horizon": 999})]})
    two = [
        arm.model_copy(update={"arm": name, "memory": memory, "world_size": size})
        for name, size in (("one", 1), ("two", 2))
    ]
    both = verdict.model_copy(update={"arms": two})
    assert cards_table(both).columns == (
        "card", *(f"{name}: horizon {setting.horizon}, batch {setting.batch_size:,}" for name in ("one", "two"))
    )  # fmt: skip
    table = answers_table(both, two)
    assert table.columns[1] == "num_envs × horizon × batch"
    rest = f"{setting.horizon} × {setting.batch_size:,}"
    assert [row[1] for row in table.rows] == [f"{setting.num_envs} × {rest}", f"{setting.num_envs} per GPU × {rest}"]


def test_environments_count_per_gpu_where_several_train_together():
    assert "512 environments per GPU, horizon 32" in joint_statement(an_answer(), TWO)


def test_fps_are_told_as_frames_per_second_and_share_the_chance_of_error():
    settings = [a_setting(2048, 16, 4096, 1 / 50_000, most_slower=0.0), a_setting(512, 16, None, 1 / 40_000)]
    found = an_answer(
        kind="throughput", delta=0.1, confirmed=settings, error_of_kind=0.025, error_of_claim=0.005, least_memory=0,
        fewest_environments=0, thresholds=[a_threshold(state="still pays", threshold=None, tested=[512, 1024, 2048])],
        claims=3, mini_batches=[],
    )  # fmt: skip
    assert joint_statement(found, ONE) == (
        "most FPS: 2,048 environments, horizon 16, batch 4,096: 50,000 FPS (99.5% interval 40,000 to 62,500, 8 fresh repeats)"
    )
    assert joint_evidence(found)[2:] == [
        "num_envs threshold over 2,048: the last doubling gains at least 10% (99.5% level)",
        "cheapest by environments, memory and GPU-seconds: 2,048 × 16 × 4,096, shown to be the best",
    ]
    assert ("setting", "512 × 16: 40,000 FPS (99.5% interval 32,000 to 50,000, 8 fresh repeats); the best one has at most 12.0%"
            " more FPS; 3.00 GB") in joint_lines(found, ONE)  # fmt: skip
    assert "together, 2.5% for FPS; 0.833% for each of the interval, " in joint_notes(found)[-1]
    assert joint_next(found) == "List larger values of what still pays, in a study of another name."
    assert not any("s per frame" in said or " 0.0 s" in said for _, said in joint_lines(found, ONE))


def test_where_none_is_shown_at_most_delta_slower_that_is_said():
    found = an_answer(fewest_environments=None, least_memory=None, fewest_gpu_seconds=None)
    assert "no setting is shown to be at most 25% slower than the best one" in joint_evidence(found)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([], []),  # nor that none is shown at most 25% slower
        ([SETTINGS[2]], ["shown slower: every other setting with fresh seeds (1)"]),
        ([SETTINGS[1]], ["not shown slower: 256 × 32 × 512"]),
        ([SETTINGS[1]] * 5, ["not shown slower: all 5 others with fresh seeds"]),
        (
            [*[SETTINGS[1]] * 4, SETTINGS[2]],
            ["not shown slower: 256 × 32 × 512, 256 × 32 × 512, 256 × 32 × 512 and 1 more (4 of 5 others)"],
        ),
    ],
)
def test_settings_that_are_not_shown_slower(others: list[ConfirmedSetting], words: list[str]):
    found = an_answer(confirmed=[SETTINGS[0], *others], fewest_environments=0, least_memory=0)
    assert [said for said in joint_evidence(found) if "shown slower" in said] == words


def test_an_undecided_threshold_says_what_is_missing_and_how_many_seeds_to_add():
    undecided = a_threshold(state="undecided", threshold=None, by_model=None)
    found = an_answer(thresholds=[undecided, a_threshold("horizon", state="undecided", threshold=None, tested=[16])])
    assert [said for said in joint_evidence(found) if "threshold" in said] == [
        "num_envs threshold undecided: fresh seeds name 128, the model names none",
        "horizon threshold undecided: fewer than two values have a good setting with fresh seeds",
    ]
    assert joint_next(found) == "Raise `more_repeats` by 5: it adds fresh seeds to every confirmed setting."


def test_seeds_are_as_many_as_a_threshold_needs_and_none_where_they_would_hardly_decide():
    near = {"state": "undecided", "threshold": None, "by_fresh": None, "by_model": None}
    far = a_threshold(**near, more_seeds=31)
    assert "Raise `more_repeats` by 31:" in joint_next(an_answer(thresholds=[far, a_threshold("horizon")]))
    too_near = an_answer(thresholds=[a_threshold(**near), a_threshold("horizon")])
    assert joint_next(too_near).startswith("More seeds would hardly decide") and too_near.more_seeds is None
    both = an_answer(thresholds=[a_threshold(**near), a_threshold("horizon", **near, more_seeds=3)])
    assert "by 5:" in joint_next(both)  # the next look
    nothing_named = an_answer(thresholds=[a_threshold(**near)], soonest=None)
    assert "by 5:" in joint_next(nothing_named)


def test_a_rough_surface_is_said_and_withholds_the_model():
    settings = [setting.model_copy(update={"chance": None}) for setting in SETTINGS]
    undecided = a_threshold(state="undecided", threshold=None, by_model=None)
    found = an_answer(is_rough=True, amplitude=0.4, confirmed=settings, thresholds=[undecided], mini_batches=[])
    evidence = joint_evidence(found)
    assert "rough surface: neighbours differ by about 40%; the model's intervals are withheld" in evidence
    assert "num_envs threshold undecided: fresh seeds name 128, the model is withheld" in evidence
    assert not any("by the model" in said for said in evidence)
    assert joint_next(found) == "List more values between the tested ones: the model then has nearer neighbours."


@pytest.mark.parametrize(
    ("changes", "statement", "step"),
    [
        (
            {"state": "searched", "confirmed": [], "fresh_planned": 0},
            "nothing is claimed yet: no fresh seeds are planned (`confirm`), and only they carry claims",
            "Run the study under another name with `confirm: {settings: 6, seeds: 8}`: fresh seeds carry the claims.",
        ),
        (
            {"state": "searched", "confirmed": [], "fresh_planned": 0, "search_left": 12},
            "nothing is claimed yet: 12 trials of the search left, and no fresh seeds are planned (`confirm`), and only they carry"
            " claims",
            "Run the sweep to its end.",
        ),
        (
            {"state": "confirming", "search_left": 24, "fresh_ended": 0, "confirmed": []},
            "nothing is claimed yet: 24 trials of the search and 24 fresh seeds are left",
            "Run the sweep to its end.",
        ),
        (
            {"state": "confirming", "fresh_ended": 7},
            "nothing is claimed yet: 7 of 24 fresh seeds have ended",
            "Run the sweep to its end.",
        ),
        (
            {"state": "no data", "search_trials": 0, "confirmed": []},
            "nothing is claimed: no trial has told a cost yet",
            "Look at the log of a trial: trials/0000/trial.log.",
        ),
    ],
)  # fmt: skip
def test_before_all_fresh_seeds_have_ended_nothing_is_claimed(changes: dict[str, Any], statement: str, step: str):
    found = an_answer(**UNKNOWN | changes)
    assert joint_statement(found, ONE) == statement
    assert joint_evidence(found) == []
    assert joint_next(found) == step
    assert not any(name == "setting" for name, _ in joint_lines(found, ONE))


def test_a_target_that_no_seed_reaches_is_said_with_the_next_step():
    missed = [a_setting(512, 32, 1024, None, reached=0, most_slower=None)]
    found = an_answer(**UNKNOWN, confirmed=missed, censored=64)
    assert joint_statement(found, ONE) == "no setting is named: no fresh seed reached the target"
    assert joint_evidence(found) == ["no trial reached the target: 64 search trials and 8 fresh seeds ended before"]
    assert joint_next(found) == "Lower target_reward or raise budget_s, and run the study under another name."
    searching = an_answer(**UNKNOWN | {"state": "confirming", "confirmed": [], "search_trials": 9, "censored": 9})
    assert joint_evidence(searching) == ["no trial reached the target: 9 search trials ended before"]


def test_notes_tell_censored_lost_and_unequal_seeds():
    settings = [
        a_setting(512, 32, 1024, 6.0, reached=7),
        a_setting(256, 32, 512, 6.4, seeds=6, reached=6, lost=2),
        a_setting(128, 16, 512, None, reached=0, most_slower=None, may_be_best=False),
        a_setting(128, 32, 512, None, seeds=4, reached=3, most_slower=None),
    ]
    found = an_answer(confirmed=settings, censored=5, spreads_differ=True)
    assert joint_notes(found)[:-1] == [
        "5 of 64 search trials did not reach the target: they count as lower bounds",
        "512 × 32 × 1,024: 1 of 8 seeds did not reach the target",
        "256 × 32 × 512: 2 of 8 trials did not run, so it is not recommended",
        "128 × 32 × 512: 1 of 4 seeds did not reach the target",
        "seeds of some settings vary more than those of others: these have wider intervals",
    ]
    lines = [said for name, said in joint_lines(found, ONE) if name == "setting"]
    assert lines[2:] == [
        "128 × 16 × 512: none of 8 fresh seeds reached the target; shown slower than another one; 3.00 GB",
        "128 × 32 × 512: 3 of 4 fresh seeds reached the target; 3.00 GB",
    ]


def test_smaller_cards_have_answers_of_their_own():
    fitting = OnCards(
        cards=["8 GB (RTX 4060)", "12 GB (RTX 4070)"], fitting=[1, 2], soonest=1, fewest_environments=2, least_memory=2,
        fewest_gpu_seconds=1,
    )  # fmt: skip
    none = OnCards(cards=["8 GB (RTX 4060)"], fitting=[2], soonest=None, fewest_environments=None, least_memory=None)
    assert card_lines(an_answer(on_cards=[fitting, none])) == [
        "8 GB (RTX 4060), 12 GB (RTX 4070): of 2 confirmed settings that fit, soonest is 256 × 32 × 512, 6.4 s (99% interval 5.1 to 8.0,"
        " 8 fresh seeds); cheapest by environments and memory, at most 25% slower: 128 × 16 × 512; cheapest by GPU-seconds, at most 25%"
        " slower: 256 × 32 × 512",
        "8 GB (RTX 4060): of 1 confirmed setting that fit, none can be compared",
    ]


def test_what_the_model_says_is_called_the_models():
    costs = {"cost": 6.0, "cost_lower": 5.0, "cost_upper": 7.0}
    likely = [LikelySetting(num_envs=512, horizon=16, batch_size=n, chance=0.2, **costs) for n in (1, 2, 3, 4)]
    assert likely_lines(an_answer(likely=likely)) == [
        "4 settings of 100 hold the best one with a chance of 95%: the likeliest 512 × 16 × 1 (20%), 512 × 16 × 2 (20%), 512 × 16 × 3"
        " (20%)"
    ]
    profile = [ProfileValue(value=512, num_envs=512, horizon=16, batch_size=4, **costs)]
    assert profile_lines("learning", a_threshold(profile=profile)) == [
        "num_envs 512: 6.0 s (5.0 to 7.0), by the model, best at 512 × 16 × 4"
    ]
    withheld = [ProfileValue(value=512, num_envs=512, horizon=16, batch_size=4, **dict.fromkeys(costs))]
    assert "cost withheld (rough surface)" in profile_lines("learning", a_threshold(profile=withheld))[0]


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ((1, 2, 4, 8, 16, 32), "none of 1 to 32 is over 25% slower, by the model"),
        ((8,), "8; others of 1 to 32 are over 25% slower, by the model"),
    ],
)
def test_mini_batches_are_a_range(kept: tuple[int, ...], words: str):
    own = [
        MiniBatches(value=value, cost=7.0, cost_lower=6.0, cost_upper=8.0, not_slower=value in kept)
        for value in (1, 2, 4, 8, 16, 32)
    ]
    assert joint_evidence(an_answer(mini_batches=own))[-1] == f"mini-batches per epoch: {words}"


# A whole study

SMALL: dict[str, Any] = {
    "num_envs": [128, 256, 512], "horizon": [16, 32], "batch_size": [512, 1024], "trials": 12,
    "confirm": {"settings": 4, "seeds": 4},
}  # fmt: skip


@pytest.fixture(scope="module")
def trials() -> tuple[Study, list[Trial]]:
    study, made = a_study(**SMALL), dict[int, Trial]()

    def measure(request: Request) -> Trial:
        made[request.number] = learned(request)
        return made[request.number]

    play(study, measure)
    return study, [made[number] for number in sorted(made)]


def a_folder(tmp_path: Path, trials: tuple[Study, list[Trial]], count: int | None = None) -> StudyFolder:
    study, made = trials
    return with_verdict(write_study(tmp_path / "joint", study, made[:count]))


def summary(folder: StudyFolder, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    run_main(terminal.main, *options, folder.root)
    return capsys.readouterr().out


def arm_of(folder: StudyFolder) -> ArmVerdict:
    [arm] = read_verdict(folder, load_records(folder)).arms
    return arm


def joint_of(folder: StudyFolder) -> JointAnswer:
    [found] = arm_of(folder).joint
    return found


def test_summary_of_a_whole_study_answers_with_the_joint_answer(
    tmp_path: Path, trials: tuple[Study, list[Trial]], capsys: pytest.CaptureFixture[str]
):
    folder = a_folder(tmp_path, trials)
    text = summary(folder, capsys)
    assert "nothing ran to its end" not in text
    found = joint_of(folder)
    assert found.soonest is not None
    soonest = found.confirmed[found.soonest]
    row = next(line for line in text.splitlines() if "target in" in line)
    assert row.startswith(
        f"run      stock: {soonest.num_envs} environments, horizon {soonest.horizon}, batch {soonest.batch_size:,}: target in "
    )
    assert f"target in {soonest.cost:.1f} s (" in row
    answer = [line for line in text.splitlines() if not line.startswith("decide   ")]
    assert len(answer) <= terminal.most_lines(80)
    assert [line for line in answer if line.endswith("…")] == []
    every = summary(folder, capsys, "--all")
    assert "  joint       soonest: " in every and "chance of error at most 5%" in " ".join(every.split())
    names = {line[2:13].strip() for line in every.splitlines() if line.startswith("  ")}
    assert names.isdisjoint({"learning", "batch", "headline"}), "no claim about a single axis"


@pytest.mark.parametrize(
    ("count", "words"),
    [(5, "7 trials of the search and 16 fresh seeds are left"), (12 + 9, "9 of 16 fresh seeds have ended")],
)
def test_summary_while_seeds_are_left_claims_nothing(
    count: int, words: str, tmp_path: Path, trials: tuple[Study, list[Trial]], capsys: pytest.CaptureFixture[str]
):
    text = summary(a_folder(tmp_path, trials, count), capsys)
    assert "no claim yet" in text and words in text
    assert "target in" not in text, "the best one seen is never told"


def test_report_and_mlflow_say_the_same(tmp_path: Path, trials: tuple[Study, list[Trial]]):
    folder = a_folder(tmp_path, trials)
    found = joint_of(folder)
    description = arm_description(arm_of(folder), "28 of 28", {"target_reached": 28}, None)
    assert description.startswith(f"**{joint_statement(found, ONE)}**\n\n* ")
    page = report.page(read_verdict(folder, load_records(folder)), [], {})
    for said in (joint_statement(found, ONE), *joint_evidence(found), joint_next(found)):
        assert markupsafe.escape(said) in page


def test_progress_marks_fresh_seeds(trials: tuple[Study, list[Trial]]):
    _, made = trials
    assert "fresh" not in trial_words(made[0].request)
    assert trial_words(made[-1].request).endswith(" · fresh")


def test_the_example_of_the_page_is_a_study():
    page = (ROOT / "docs" / "joint.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    study = parse_study(yaml.safe_load(example))
    joint = settings_of(study).joint["learning"]
    assert (len(joint.settings), joint.search_trials, joint.confirmed, joint.seeds) == (100, 64, 6, 8)
    assert not any("tell little" in line for line in plan_lines(plan_of(study)))


def test_the_example_of_arms_that_learn_alike_is_a_study_with_the_rest_of_the_first_one():
    page = (ROOT / "docs" / "joint.md").read_text(encoding="utf-8")
    whole, rounds, arms = (yaml.safe_load(block.split("```")[0]) for block in page.split("```yaml\n")[1:4])
    study = parse_study(whole | arms)
    of_rounds = parse_study(whole | arms | {"throughput": arms["throughput"] | rounds["throughput"]})
    assert settings_of(of_rounds).joint_of("lean")["throughput"].one_process
    assert study.searching("learning") == ["lean"] and study.followers("lean", "learning") == ["stock"]
    assert [settings_of(study).joint_of(arm)["learning"].confirmed for arm in ("lean", "stock")] == [12, 6]


def test_summary_of_a_study_of_which_one_kind_is_searched_together_answers_for_the_other_kind_too():
    section = {"num_envs": {"from": 128, "to": 1024}, "horizon": 8, "batch_size": 512, "repeats": 3}
    study = a_study(trials=20, confirm={"settings": 4, "seeds": 3}).model_dump(mode="json", exclude_defaults=True)
    study = parse_study(study | {"throughput": section})
    fps = {128: 100.0, 256: 190.0, 512: 195.0, 1024: 197.0}

    def measure(request: Request) -> Trial:
        if request.kind == "learning":
            return learned(request)
        return measured(request, fps=fps[request.num_envs] * (1 + 0.001 * (request.seed % 7)), device=GPU)

    _, records = play(study, measure)
    [arm] = decide(list(records.values()), study).arms
    found = answer(arm, None)
    assert found.gives.startswith("target in ")
    assert found.evidence[1] == (
        "FPS: 256 environments give 191 FPS (96% of the best) at horizon 8, batch 512; threshold 256"
    )
