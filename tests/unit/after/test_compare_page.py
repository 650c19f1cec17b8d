"""The page of a comparison: one file with the answer first, every ratio, and who each side is; it loads and runs nothing."""

import base64
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from envknee.after.compare import print as compare
from envknee.study.errors import EXIT_UNDECIDED, EXIT_WORSE, UserError
from programs import run_main
from records import GPU, Trial, a_study, a_trial, fps_trials, learning_trials, write_study

FPS = {16: [100.0, 101.0, 102.0], 32: [190.0, 192.0, 191.0], 64: [300.0, 303.0, 301.0]}


def times(factor: float) -> list[Trial]:
    return fps_trials({n: [fps * factor for fps in own] for n, own in FPS.items()}, device=GPU)


def folders(root: Path, *sides: Sequence[Trial]) -> list[Path]:
    return [write_study(root / name, a_study(), own).root for name, own in zip("ab", sides, strict=True)]


def page_of(root: Path, a: Sequence[Trial], b: Sequence[Trial], status: int) -> str:
    """Return the text of the page of two studies; the command must end with `status`."""
    file = root / "found.html"
    assert run_main(compare.main, *folders(root, a, b), "--html", file, "--output", root / "found.json") == status
    return html.unescape(file.read_text(encoding="utf-8"))


def test_it_opens_with_the_answer_and_has_every_ratio_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = page_of(tmp_path, times(1.0), times(0.9), EXIT_WORSE)
    said = capsys.readouterr().out
    (found,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["overall"]
    for ratio in found["overall"]:
        assert f"{ratio['ratio']:.3f}" in page and f"{ratio['ratio']:.3f}" in said
    assert "<h2>Regression: B's total throughput is 0.900 times A's (95% interval" in page
    assert page.index("beyond 5%: FPS, total: -10.0%") < page.index('<table class="ratios">')
    for line in said.splitlines():
        if line.startswith((" worse", "better", "REGRESSION")):
            assert line.removeprefix("REGRESSION").strip() in page
    assert f"{tmp_path / 'found.html'}: written" in said


def test_it_stands_alone_with_headings_in_order(tmp_path: Path):
    page = page_of(tmp_path, times(1.0), times(1.0), 0)
    assert not re.findall(r"<(?:script|link|iframe)\b|https?://(?!www\.w3\.org)", page)
    assert "default-src 'none'" in page
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert "<h2>Pass: B's total throughput is 1.000 times A's" in page


def alt_texts(page: str) -> list[str]:
    return re.findall(r'<img alt="([^"]+)" src="data:image/svg\+xml;base64,', page)


def svgs(page: str) -> list[str]:
    return [base64.b64decode(data).decode() for data in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)]


def test_the_ratios_are_a_figure_with_a_finding_and_a_row_for_each_measure_and_point(tmp_path: Path):
    page = page_of(tmp_path, times(1.0), times(0.9), EXIT_WORSE)
    assert alt_texts(page)[0].startswith("B's total throughput is 0.900 times A's (95% interval")
    ratios = svgs(page)[0]
    for text in ("FPS, total", "peak memory", "start-up", "64 × 8 × 128 (throughput)", "B is shown worse"):
        assert f">{text}<" in ratios
    assert "<script" not in ratios


def test_curves_of_both_sides_lie_over_each_other(tmp_path: Path):
    learned = {32: [1.0, 2.0, 1.5], 64: [1.2, 1.4, 1.6]}
    a, b = ([*times(f), *learning_trials(learned, first=20, device=GPU)] for f in (1.0, 0.9))
    page = page_of(tmp_path, a, b, EXIT_WORSE)
    _, fps, seconds = alt_texts(page)
    assert fps == "B's total throughput is shown better at 0 of 3 common points, worse at 3"
    assert seconds == "B's time to target is shown better at 0 of 2 common points, worse at none"
    for svg in svgs(page)[1:]:
        assert ">A<" in svg and ">B<" in svg


def test_a_curve_that_one_side_alone_has_is_not_drawn(tmp_path: Path):
    learned = learning_trials({32: [1.0, 2.0]}, first=20, device=GPU)
    page = page_of(tmp_path, [*times(1.0), *learned], times(1.0), 0)
    assert len(alt_texts(page)) == 2
    assert f"only {tmp_path / 'a'}: learning, 32 environments" in page


def test_it_says_who_each_side_is(tmp_path: Path):
    page = page_of(tmp_path, times(1.0), times(1.0), 0)
    rows = dict(re.findall(r'<tr><th scope="row">([^<]+)</th><td>([^<]+)</td>', page))
    assert rows["trials"] == "9" and re.fullmatch(r"\d{4}-\d\d-\d\d", rows["measured on"])
    assert GPU.name in rows["hardware"] and "Python " in rows["versions"] and "commit" in rows


def test_points_of_one_side_and_trials_that_failed_are_named(tmp_path: Path):
    a = learning_trials({16: [1.0, 2.0], 32: [1.0, 1.5], 64: [1.0], 128: [1.0], 256: [1.0]})
    b = learning_trials({16: [1.0, None]})
    page = page_of(tmp_path, a, b, EXIT_WORSE)
    assert "and 2 more</li>" in page
    for num_envs in (32, 64, 128, 256):  # every one, behind the line that names two
        assert f"<li>only {tmp_path / 'a'}: learning, {num_envs} environments" in page
    assert "2 of 2 target_reached, then 1 of 2 (1 timeout)" in page


def test_a_page_of_several_arms_opens_with_the_answer_of_each(tmp_path: Path):
    study = a_study(arms={"stock": {}, "other": {}})
    a, b = (
        write_study(tmp_path / name, study, [*times(1.0), *fps_trials({16: own}, first=20, arm="other", device=GPU)])
        for name, own in (("a", [100.0, 101.0]), ("b", [50.0, 50.5]))
    )
    file = tmp_path / "found.html"
    assert run_main(compare.main, a.root, b.root, "--html", file) == EXIT_WORSE
    page = file.read_text(encoding="utf-8")
    links = re.findall(r'<a href="#([^"]+)">(\w+): ', page)
    assert links == [("part-1", "Regression"), ("part-2", "Pass")]
    assert all(f'<section id="{part}">' in page for part, _ in links)


def test_one_pair_has_a_mark_of_its_own_and_no_claim(tmp_path: Path):
    trials = fps_trials({16: [100.0], 32: [190.0, 192.0]}, device=GPU)
    ratios = svgs(page_of(tmp_path, trials, trials, 0))[0]
    assert ">one pair: no interval<" in ratios and ">no difference is shown<" in ratios


def test_a_page_without_any_ratio_says_so(tmp_path: Path):
    page = page_of(tmp_path, fps_trials({16: [100.0]}), [a_trial(16, status="oom")], EXIT_WORSE)
    assert "<h2>Regression: no pair of trials counts for a ratio</h2>" in page and "then 0 of 1 (1 oom)" in page
    assert alt_texts(page) == []


def test_names_from_files_are_escaped(tmp_path: Path):
    arm = "<script>alert(1)</script>"
    trials = [*fps_trials({16: [1.0]}), *fps_trials({16: [1.0]}, first=1, arm="other")]
    folder = write_study(tmp_path / arm.replace("/", "_"), a_study(), trials).root
    file = tmp_path / "found.html"
    # One pair shows no noise.
    assert run_main(compare.main, f"{folder}:stock", f"{folder}:stock", "--html", file) == EXIT_UNDECIDED
    page = file.read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("file", "said"),
    [(".", r"is a folder. Name a file in it"), ("missing/found.html", r"missing does not exist. Make it")],
)
def test_a_place_for_no_file_is_refused_before_anything_is_read(tmp_path: Path, file: str, said: str):
    with pytest.raises(UserError, match=said):
        run_main(compare.main, tmp_path / "none", tmp_path / "none", "--html", tmp_path / file)


def test_a_side_without_records_is_refused_and_no_page_is_written(tmp_path: Path):
    a, b = folders(tmp_path, times(1.0), [])
    with pytest.raises(UserError, match=r"b holds no finished trial. Run the sweep first"):
        run_main(compare.main, a, b, "--html", tmp_path / "found.html")
    assert not (tmp_path / "found.html").exists()


def test_more_than_two_sides_are_sent_to_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run_main(compare.main, "results/a", "results/b", "results/c")
    assert "For more: envknee history results/a results/b results/c" in capsys.readouterr().err
