"""The summary in the terminal: what it says, at any width, without colours in a pipe, and without what could steer a terminal."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from drawn import with_verdict
from envknee.decide.study import decide
from envknee.show import report, short, terminal
from envknee.study import space
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict.card import card_of
from envknee.verdict.lead import in_order
from envknee.verdict.schema.study import Broken, Verdict
from envknee.words.answer import answers_table
from envknee.words.cards import cards_table
from envknee.words.study import progress, trials_done
from programs import run_main
from published import PUBLISHED, verdict_of
from records import GPU, PLATEAU, Trial, a_study, a_trial, fps_trials, learning_trials, records_of, write_study
from rich.console import Console

DEMO = StudyFolder(Path("results/demo"))


def said_by(
    show: Callable[[Verdict, StudyFolder, Console], None], verdict: Verdict, folder: StudyFolder, width: int,
    on_terminal: bool = False,
) -> str:  # fmt: skip
    """Return what `show` prints on a terminal without colours, or in a pipe."""
    stream, colours = io.StringIO(), {"force_terminal": True, "color_system": None} if on_terminal else {}
    show(verdict, folder, Console(file=stream, width=width, markup=False, highlight=False, **colours))
    return stream.getvalue()


def printed(trials: list[Trial], width: int = 120, folder: StudyFolder = DEMO, study: Study | None = None) -> str:
    return said_by(terminal.print_summary, decide(records_of(trials), study or a_study()), folder, width)


def row_of(text: str, arm: str = "stock") -> list[str]:
    """Return the cells of an arm's row, without empty ones."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"{arm}  ")]
    return re.split(r"\s{2,}", row.strip())


def test_everything_that_a_verdict_says_stands_in_its_order():
    text = printed([*fps_trials(PLATEAU), *learning_trials({32: [12.0, 13.0], 64: [None, 11.0]}, first=20)], width=300)
    assert row_of(text) == ["stock", "32", "191 FPS (98%)", "32", "throughput"]
    lines = text.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    first = [names.index(name) for name in ("headline", "next", "throughput", "learning", "memory", "cost")]
    assert first == sorted(first)
    (throughput,) = [line for line in lines if line.startswith("  throughput  reached at 32")]
    assert throughput.endswith("(horizon 8, batch 128)")
    assert any(line.startswith("  note        of 4 trials 1 spent the budget first") for line in lines)


def test_several_gpus_count_environments_per_gpu_and_show_their_efficiency():
    study = a_study(arms={"one": {"gpus": 1}, "two": {"gpus": 2}, "lean": {"gpus": 2, "overrides": {"agent.x": 1}}})
    trials = [
        *fps_trials(PLATEAU, arm="one", gpus=1, device=GPU),
        *fps_trials({n: [1.9 * fps for fps in values] for n, values in PLATEAU.items()}, arm="two", gpus=2, device=GPU,
                    slowdown=(1.0, 1.25), first=20),
        *learning_trials({32: [12.0]}, arm="two", gpus=2, device=GPU, first=40),
    ]  # fmt: skip
    text = printed(trials, width=250, study=study)
    assert "two on 2 x NVIDIA H100 80GB HBM3 (85.0 GB each)" in text
    assert row_of(text, "two") == ["two", "32 per GPU", "363 FPS (98%)", "32", "throughput"]
    assert "  scaling     2 GPUs give 1.90 times one GPU's FPS at 64 environments each, horizon 8, batch 128" in text
    assert "  scaling     no efficiency: no arm of the study is this one on one GPU" in text


@pytest.mark.parametrize(
    ("seconds", "row", "line"),
    [
        ({16: [20.0], 32: [10.0]}, "32  target in 10.0 s  undecided (2 more seeds)", "undecided up to 32 environments"),
        (
            {16: [20.0, 21.0, 22.0]},
            "16  target in 21.0 s  undecided (no doubling measured)",
            "undecided up to 16 environments: no doubling to compare; 3 of 3 trials reached the target",
        ),
        ({16: [20.0] * 3, 32: [10.0] * 3}, "32  target in 10.0 s  over 32", "still pays at 32 environments"),
        (
            {16: [20.0, 20.1, 20.2], 32: [25.0, 25.2, 25.4]},
            "16  target in 20.1 s  16  learning",
            "reached at 16 environments",
        ),
        (
            {16: [None] * 3, 32: [None] * 3},
            "no seed arrived  undecided (too few seeds arrived)",
            "undecided up to 32 environments",
        ),
    ],
)
def test_a_learning_threshold_is_in_the_table_and_an_open_one_says_why(
    seconds: dict[int, list[float | None]], row: str, line: str
):
    text = printed(learning_trials(seconds), width=200)
    assert "  ".join(row_of(text)).startswith(f"stock  {row}")
    assert f"\n  learning    {line}" in text


def test_trials_without_memory_are_no_points_and_no_seeds():
    assert "nothing ran to its end" in printed([a_trial(64, status="oom")])
    text = printed([a_trial(64, kind="learning", status="oom")])
    assert "nothing ran to its end" in text and "  learning    no data: no learning trial ran" in text


def test_a_learning_threshold_of_several_series_says_of_which_it_is():
    flat = learning_trials({16: [20.0, 20.1, 20.2], 32: [25.0, 25.2, 25.4]}, horizon=4)
    steep = learning_trials({16: [19.0, 19.1, 19.2], 32: [9.0, 9.1, 9.2]}, first=20)
    assert row_of(printed([*flat, *steep], width=200))[1:4] == [
        "32, horizon 8, batch 128",
        "target in 9.1 s",
        "16 at horizon 4, batch 128",
    ]


def test_nothing_that_files_say_can_steer_the_terminal():
    attack = "\x1b[2J\x1b]0;owned\x07 [red]x[/red] \N{RIGHT-TO-LEFT OVERRIDE}gpj\r\nend"
    evil = a_trial(64, status="nan")
    verdict = decide([evil.record], a_study())
    arms = [arm.model_copy(update={"arm": attack, "hardware": [attack], "warnings": [attack]}) for arm in verdict.arms]
    broken = Broken(arm=attack, tensor="x", trials=[0], reason=attack, dump=None, hints=[attack])
    changed = {"study": attack, "drill": attack, "arms": arms, "broken": [broken]}
    verdict = verdict.model_copy(update=changed)
    shows = terminal.print_summary, terminal.print_answer
    text = "".join(said_by(show, verdict, DEMO, 200, on_terminal=True) for show in shows)
    assert text.count("[red]x[/red]") > 8
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_but_a_path_is_wider_than_the_terminal(width: int):
    trials = [*fps_trials(PLATEAU, device=GPU), *learning_trials({32: [12.0] * 3, 64: [11.0] * 3}, first=20)]
    long = StudyFolder(Path("results") / ("a" * 150))
    lines = printed(trials, width, long).splitlines()
    paths = [line for line in lines if "results/" in line]
    assert [line.split()[1] for line in paths] == [str(long.report), str(long.verdict), str(long.records_csv)]
    assert max(len(line) for line in lines if line not in paths) <= width


def answered(name: str, width: int = 100) -> list[str]:
    shown = StudyFolder(Path("results") / name)
    return said_by(terminal.print_answer, verdict_of(name), shown, width, on_terminal=True).splitlines()


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_answer_of_a_published_study_is_its_card_and_as_many_whole_sentences_as_a_screen_has_room_for(
    name: str, width: int
):
    lines, text = answered(name, width), " ".join(" ".join(answered(name, width)).split())
    verdict, width = verdict_of(name), min(width, 100)
    card = short.card_lines(card_of(in_order(verdict)), width)
    title = len(short._title(verdict, width))
    assert lines[title : title + len(card)] == card, "the whole card comes first"
    assert len(lines) <= max(terminal.most_lines(width), title + len(card) + short.LEAST_TABLE + 6)
    assert terminal.most_lines(width) <= 25
    assert max(len(line) for line in lines if "results/" not in line) <= width
    assert lines[0].startswith(verdict.study) and "…" not in text and "not reached" not in text
    last = text.split(f"more envknee summary --all results/{name} ")[1]
    assert last.endswith(".") and last.count(". ") == 0, "one sentence"
    whole = " ".join(own.text for own in short._every_sentence(verdict, verdict.arms))
    for line in lines[title + len(card) :]:
        if line[:9].strip() in ("why", "next", "advice", "scaling"):
            assert line[0] != " " and line[8] == " "
    below = " ".join(" ".join(lines[title + len(card) :]).split(" report ")[0].split())
    starts = re.split(r" (?:why|next|advice|scaling) ", f" {below}")[1:]
    assert all(any(own in whole for own in (start, start.split(": ", 1)[-1])) for start in starts)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_last_line_names_the_arm_that_comes_first(name: str):
    lines, verdict = answered(name), in_order(verdict_of(name))
    last = " ".join(lines).split(f"results/{name} ")[-1]
    first = verdict.arms[0].arm
    # Of arms that are asked different questions it says what to run with each.
    assert last.startswith((f"{first} ", f"{first}: run ") if len(verdict.arms) > 1 else "Run ")
    if len(verdict.arms) > 1:
        shown = [arm for line in lines if (arm := line.split("  ")[0]) in {own.arm for own in verdict.arms}]
        left_out = len(verdict.arms) - len(shown)
        assert [arm.arm for arm in verdict.arms][: len(shown)] == shown and len(shown) >= min(len(verdict.arms), 4)
        assert any(line.startswith(f"and {left_out} more arm") for line in lines) == (left_out > 0)


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_word_of_every_table_stays_whole(name: str, width: int):
    verdict = verdict_of(name)
    lines = said_by(terminal.print_summary, verdict, StudyFolder(Path("results") / name), width).splitlines()
    assert max(len(line) for line in lines if "results/" not in line) <= width
    words, text = set(" ".join(lines).replace("\n", " ").split()), "\n".join(lines)
    for table in (answers_table(verdict, verdict.arms), cards_table(verdict)):
        shown = (table.columns, *table.rows) if table.rows else ()
        assert {word for row in shown for cell in row for word in cell.split()} <= {
            word.rstrip(":") for word in words
        } | words
    assert "…" not in text
    for status in set(verdict.statuses) - {"crashed", "diverged", "refused"}:
        assert not re.search(rf"\b{status}\b", text), "no raw status"


@pytest.mark.parametrize("name", PUBLISHED)
def test_counts_of_trials_agree(name: str):
    verdict, study = verdict_of(name), read_study(PUBLISHED[name].study)
    measured, not_needed = verdict.trials_measured, verdict.trials_not_needed
    assert measured + verdict.trials_left + not_needed == len(space.plan(study))
    assert sum(verdict.statuses_of_measured.values()) == measured
    done = trials_done(verdict)
    assert f" {done.partition(',')[0]} · " in " ".join(answered(name, 200)) and progress(verdict).startswith(
        f"{done}: "
    )
    assert done in terminal.where(PUBLISHED[name]) and done in report.page(verdict, [], {})
    assert f"* trials: {done}: " in (PUBLISHED[name].root / "README.md").read_text(encoding="utf-8")


def test_the_answer_is_what_to_run_why_and_what_next():
    lines = answered("cartpole-stock-lean", 100)
    rows = {line.split()[0]: re.split(r"\s{2,}", line) for line in lines if "  " in line}
    assert rows["stock"] == ["stock", "8,192", "62,324 FPS (95%)", "8,192 (2,048 to 8,192)", "throughput"]
    assert rows["lean"][3:] == ["undecided (84 more repeats)", "nothing yet"]
    assert any(
        line.startswith("state    undecided: doubling 8,192 gains 11.1% (8.9% to 13.2%, 5 repeats") for line in lines
    )
    wide = " ".join(answered("cartpole-one-gpu-learning"))
    assert "doubling 1,024 takes 54.4% longer (at least 24.0%, 3 seeds; pays from 25% saved)" in " ".join(wide.split())


def test_an_undecided_answer_says_what_would_decide_it():
    apart = "\n".join(answered("cartpole-one-gpu-full"))
    assert "state    undecided (no machine ran both sizes): doubling 8,192 gains 4.4%" in apart
    assert "of each point" not in apart, "repeats do not help there"
    near = "\n".join(answered("cartpole-two-gpu-pipeline"))
    assert "undecided (too near the cut-off)" in near
    assert "undecided (1 more repeat)" in near


def test_command_in_a_pipe_has_no_colours(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    folder = with_verdict(write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU)))
    run_main(terminal.main, folder.root)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert f"report   {folder.report}  (not written yet)\nmore     envknee summary --all {folder.root}\n" in text
    assert text.endswith("\nRun 32 environments (horizon 8, batch 128): 191 FPS (98% of the best).\n")
    run_main(terminal.main, "--all", folder.root)
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert f"report   {folder.report}  (not written yet)\nverdict  {folder.verdict}\n" in text


def test_where_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU))
    run_main(terminal.main, "--where", folder.root)
    every_run = f"`envknee publish --ui --config {folder.study}` shows every run"
    said = f"study demo: 9 of 15 trials done; no report yet in {folder.root}, {every_run}\n"
    assert capsys.readouterr().out == said
    folder.report.write_text("")
    assert f"report {folder.report}, {every_run}" in terminal.where(folder)
    folder.study.unlink()  # a dry-run measured nothing
    assert terminal.where(folder) == f"nothing is measured yet; results will be in {folder.root}"


def test_many_arms_of_several_gpus_leave_the_answer_on_a_screen():
    arms = {"one": {"gpus": 1}, **{f"on-{gpus}": {"gpus": gpus} for gpus in range(2, 14)}}
    trials = [
        trial
        for place, (arm, section) in enumerate(arms.items())
        for trial in fps_trials(
            {32: [100.0, 101.0]}, arm=arm, gpus=section["gpus"], device=GPU, first=10 * place, batch_size=None
        )
    ]
    sizes = {"num_envs": 32, "horizon": 8, "batch_size": "library", "repeats": 2}
    verdict = decide(records_of(trials), a_study(arms=arms, throughput=sizes))
    lines = said_by(terminal.print_answer, verdict, DEMO, 100).splitlines()
    card = short.card_lines(card_of(verdict), 100)
    assert len(verdict.scaling) == 12 and len(lines) <= len(card) + short.LEAST_TABLE + 12
    (more,) = [re.fullmatch(r"and (\d+) more arms?", line) for line in lines if line.startswith("and ")]
    assert more and sum(bool(re.match(r"(one|on-\d+)  ", line)) for line in lines) == 13 - int(more[1])
