"""Terminal, report and MLflow open with the same card: of published studies, of a joint one, and of what could go wrong on it."""

import html
import io
import re
from pathlib import Path

import joint_study
import pytest
from drawn import with_verdict
from envknee.decide.read import load_measured
from envknee.decide.study import decide
from envknee.decide.verdict_file import read_verdict
from envknee.record.packed import study_folder
from envknee.run.card import study_card
from envknee.show import report, terminal
from envknee.study.paths import StudyFolder
from envknee.tracking.arms import describe_study, description_of
from envknee.verdict.card import card_of
from envknee.verdict.schema.card import TrainingCommand
from envknee.words.card import Part, card_parts
from envknee.words.statuses import STATUS_WORDS
from published import PUBLISHED, verdict_of
from records import LEARNING, a_study, fps_trials, known, learning_trials, records_of, write_study
from rich.console import Console


def parts_of(folder: StudyFolder) -> list[Part]:
    study, records = load_measured(folder)
    return card_parts(study_card(study, read_verdict(folder, records), records))


def squeezed(text: str) -> str:
    """Return text with single spaces, so that wrapped lines compare."""
    return " ".join(text.split())


def on_terminal(folder: StudyFolder, width: int = 80) -> str:
    study, records = load_measured(folder)
    verdict, stream = read_verdict(folder, records), io.StringIO()
    console = Console(file=stream, width=width, markup=False, highlight=False)
    terminal.print_answer(verdict, folder, console, study_card(study, verdict, records))
    return stream.getvalue()


def in_report(folder: StudyFolder) -> str:
    """Return the text of a report's card."""
    study, records = load_measured(folder)
    verdict = read_verdict(folder, records)
    page = report.page(verdict, [], {}, study_card(study, verdict, records))
    section = page.split('<section id="answer">')[1].split('<dl class="answer">')[0]
    return html.unescape(re.sub(r"<[^>]+>", " ", section))


def check_that_all_open_with_it(folder: StudyFolder) -> list[Part]:
    parts = parts_of(folder)
    expected = [
        squeezed(" ".join([part.heading, *(f"{name} {text}" for name, text in part.lines), f"train {part.command}" * bool(part.command)]))
        for part in parts
    ]  # fmt: skip
    whole = " ".join(expected)
    assert squeezed(in_report(folder)) == whole.strip()
    shown = squeezed(on_terminal(folder))
    assert whole.strip() in shown and shown.index(expected[0]) < 250, "behind the title alone"
    described = description_of(folder)
    for marks in (r"\*\*", r"(?m)^\* (\w+):", "```sh|```"):
        described = re.sub(marks, lambda match: match[1] if match.lastindex else " ", described)
    plain = squeezed(described)
    commands = [part.command for part in parts if part.command]
    without_train = whole
    for command in commands:
        without_train = without_train.replace(f"train {command}", command)
    assert plain.startswith(squeezed(without_train))
    return parts


@pytest.mark.parametrize(
    "name",
    ["cartpole-stock-lean-decided", "cartpole-stock-lean-warp-learning", "cartpole-one-gpu-decided", "quick-fps",
     "cartpole-off-policy", "cartpole-two-gpu-pipeline"],
)  # fmt: skip
def test_all_surfaces_open_with_the_same_card(name: str):
    parts = check_that_all_open_with_it(study_folder(PUBLISHED[name].root))
    assert [part.heading.partition(":")[0] for part in parts] == ["Learn soonest", "Most FPS"]


def test_a_joint_study_opens_with_its_confirmed_setting(tmp_path: Path):
    study = joint_study.a_study(trials=24, confirm={"settings": 3, "seeds": 3})
    folder = with_verdict(write_study(tmp_path / "s", study, joint_study.measured_trials(study)))
    learn, fps = check_that_all_open_with_it(folder)
    (found,) = read_verdict(folder).arms[0].joint
    best = found.confirmed[known(found.soonest)]
    lines = dict(learn.lines)
    assert lines["run"].startswith(
        f"stock: {best.num_envs:,} environments, horizon {best.horizon}, batch {best.batch_size:,}: target"
    )
    assert re.match(r"(decided|still pays|undecided): num_envs threshold ", lines["state"])
    assert f"--num_envs {best.num_envs} " in known(learn.command)
    assert f"agent.num_steps_per_env={best.horizon} " in known(learn.command)
    assert fps.heading == "Most FPS: not measured (no throughput trials)"


def test_each_arm_of_mlflow_opens_with_its_own_card():
    folder = study_folder(PUBLISHED["cartpole-stock-lean-warp-learning"].root)
    study, _ = load_measured(folder)
    notes = {arm.tags["arm"]: arm.tags["mlflow.note.content"] for arm, _ in describe_study(study, folder)}
    assert notes["stock"].startswith(
        "**Learn soonest**\n\n* run: stock: 1,024 environments, horizon 32, batch 8,192: target in 61."
    )
    assert "lean-warp learns in 0.18 of stock's time (0.16 to 0.21)" in notes["lean-warp"]
    assert (
        "stock learns in 5.4" in notes["stock"]
        and "times" not in notes["stock"].split("lean-warp's time")[0].split("against")[-1]
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_descriptions_in_mlflow_have_no_raw_status(name: str):
    folder = study_folder(PUBLISHED[name].root)
    study, _ = load_measured(folder)
    for arm, _ in describe_study(study, folder):
        counts = re.search(r"trials have finished: (.*)\.", arm.tags["mlflow.note.content"])
        words = {re.sub(r"^\d+ ", "", part) for part in known(counts)[1].split(", ")}
        assert words <= set(STATUS_WORDS.values()) and words
        assert "still_pays" not in arm.tags["mlflow.note.content"]


def test_a_composed_setting_says_that_no_trial_ran_it():
    name = "cartpole-one-gpu-decided"
    (_, fps) = card_parts(card_of(verdict_of(name)))
    said = "Composed, no trial ran it: from times at horizon 16 (at most 0.7% off where measured, too)"
    assert dict(fps.lines)["run"].endswith(said)
    assert squeezed(on_terminal(study_folder(PUBLISHED[name].root))).endswith(
        "(95% of the best; composed, no trial ran it)."
    )
    assert "composed, no trial ran it" in description_of(study_folder(PUBLISHED[name].root))
    assert "omposed" not in str(card_parts(card_of(verdict_of("quick-fps"))))


def test_trials_beside_load_are_told_on_the_card():
    (_, fps) = card_parts(card_of(verdict_of("quick-fps")))
    assert dict(fps.lines)["load"] == "During 6 of 13 trials others took over half a core more than during the calmest."


@pytest.mark.parametrize(
    ("seconds", "state"),
    [
        ({16: [20.0, 20.1, 20.2], 32: [25.0, 25.2, 25.4]}, "decided: threshold 16 (16 alone); doubling 16 takes"),
        ({16: [20.0] * 3, 32: [10.0] * 3}, "still pays at 32: doubling 16 saves 50.0% of the time"),
        ({16: [20.0, 30.0, 25.0], 32: [19.0, 27.0, 22.0]}, "undecided: doubling 16 saves "),
        ({16: [20.0, 21.0, 22.0]}, "undecided: one point (16 environments): a doubling needs two"),
    ],
)
def test_a_state_has_its_word_and_its_reason(seconds: dict[int, list[float | None]], state: str):
    verdict = decide(records_of(learning_trials(seconds)), a_study(throughput=None, learning=LEARNING))
    learn, _ = card_parts(card_of(verdict))
    assert dict(learn.lines)["state"].startswith(state)
    if state.startswith("undecided: doubling"):
        assert re.search(r"To decide: about \d+ more seeds? of each point$", dict(learn.lines)["state"])


def test_an_open_study_says_how_long_deciding_takes(tmp_path: Path):
    study = a_study(throughput=None, learning=LEARNING | {"repeats": 3})
    trials = learning_trials({16: [20.0, 30.0, 25.0], 32: [19.0, 27.0, 22.0]})
    learn, _ = parts_of(with_verdict(write_study(tmp_path / "demo", study, trials)))
    assert re.search(r"more seeds? of each point \(about \d+ (s|min|h)\)$", dict(learn.lines)["state"])


def test_no_seed_that_arrived_is_told_and_has_no_command():
    verdict = decide(
        records_of(learning_trials({16: [None] * 3, 32: [None] * 3})), a_study(throughput=None, learning=LEARNING)
    )
    learn, _ = card_parts(card_of(verdict))
    assert dict(learn.lines)["run"] == "stock: no seed arrived" and learn.command is None


def test_a_command_can_be_pasted_whatever_its_words_hold():
    verdict = decide(records_of(fps_trials({32: [100.0, 101.0, 102.0]})), a_study())
    command = TrainingCommand(
        argv=["python", "my train.py", "--name=a'b", "x;y"], env={"A": "1 2"}, lacks=["deterministic: true"]
    )
    _, fps = card_parts(card_of(verdict, command_of=lambda _arm, _setting: command))
    assert fps.command == """A='1 2' python 'my train.py' '--name=a'"'"'b' 'x;y'"""
    assert ("lacks", "the command has no `deterministic: true`") in fps.lines
    none = TrainingCommand(argv=[], lacks=["trainer: torchrl"])
    _, fps = card_parts(card_of(verdict, command_of=lambda _arm, _setting: none))
    assert fps.command is None and "`trainer: torchrl`" in dict(fps.lines)["lacks"]
    stream = io.StringIO()
    console = Console(file=stream, width=80, markup=False, highlight=False)
    card = card_of(verdict, command_of=lambda _arm, _setting: TrainingCommand(argv=["train", *["--long-flag"] * 20]))
    terminal.print_answer(verdict, StudyFolder(Path("results/demo")), console, card)
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith("train ")]
    assert line.count("--long-flag") == 20, "a command is one line, to be copied"
