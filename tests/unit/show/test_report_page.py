"""The report: one file, whole offline, with a link to what is there and none to what is not."""

import base64
import hashlib
import json
import re
import urllib.parse
from pathlib import Path

import pytest
from drawn import with_verdict
from envknee.decide.study import decide
from envknee.show import report
from envknee.show.figures import draw
from envknee.study.errors import UserError
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import Broken
from published import verdict_of
from records import GPU, a_study, a_trial, fps_trials, learning_trials, records_of, write_study


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    odd = a_trial(1024, number=15, status="oom", device=GPU).ended(reason="<script>alert(1)</script> & more")
    trials = [*fps_trials({16: [1.0, 2.0], 32: [2.0, 3.0]}, device=GPU), odd]
    made = write_study(tmp_path / "demo", a_study(), trials)
    made.trial(0).log.write_text("words")
    draw.draw_all(with_verdict(made))
    return made


def test_an_arm_of_which_no_seed_arrived_is_not_told_to_run_any_size(tmp_path: Path):
    made = write_study(tmp_path / "late", a_study(), learning_trials({16: [None], 32: [None]}, device=GPU))
    draw.draw_all(with_verdict(made))
    page = report.write(made).read_text(encoding="utf-8")
    assert ": no seed arrived (horizon" in page and "run no" not in page


def without_programs(page: str) -> str:
    """Return a page without the text of its scripts, which are files of this project; their data stays."""
    return re.sub(r"<script>.*?</script>", "<script></script>", page, flags=re.DOTALL)


def links(page: str) -> dict[str, list[tuple[str, str]]]:
    """Return trial -> (word, address) of its row."""
    rows = re.findall(r'<tr class="\w+" id="trial-(\d+)">(.*?)</tr>', page)
    return {
        number: [(word, address) for address, word in re.findall(r'<a href="([^"]+)" rel="noreferrer">(\w+)</a>', row)]
        for number, row in rows
    }


def test_it_stands_alone_and_says_what_was_found(folder: StudyFolder):
    page = without_programs(report.write(folder).read_text(encoding="utf-8"))
    # Nothing is fetched: no script, no style sheet, no picture that is not in it.
    assert not re.findall(r"<(?:link|iframe)\b|<script[^>]* src=", page)
    assert {address[:26] for address in re.findall(r'src="([^"]+)"', page)} == {"data:image/svg+xml;base64,"}
    # No trial tells its phases: a sentence says so.
    assert len(re.findall("<img ", page)) == len(list(folder.figures.glob("*.svg"))) - 1
    assert "<p>Phases: nothing to show. No throughput trial tells its phases.</p>" in page
    assert "5 of 15 trials done: 4 measured, 1 out of memory" in page
    assert '<td class="s" data-head="status">out of memory</td><td class="n" data-head="FPS total"></td>' in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    anchors, targets = set(re.findall(r'href="#([^"]+)"', page)), set(re.findall(r'id="([^"]+)"', page))
    # A study without learning trials has no section for them.
    assert anchors == {"answer", "details", "thresholds", "trials"} <= targets
    assert 'name="viewport"' in page and "@media print" in page
    assert "System Message" not in page  # what docutils writes where a caption is not well formed


def test_it_opens_with_the_answer_and_one_figure_and_folds_explanations(folder: StudyFolder):
    page = report.write(folder).read_text(encoding="utf-8")
    opening, _, rest = page.partition('<section id="details">')
    assert "<dt>stock: run 32 environments (horizon 8, batch 128): 2 FPS (100% of the best)</dt>" in opening
    assert "<dd>Threshold: undecided (" in opening and "<dd>Next: Measure" in opening
    assert re.findall('<figure id="([^"]+)"', opening) == ["throughput"]
    assert re.findall('<figure id="([^"]+)"', rest) == ["memory", "phases"]
    # What explains, and every table, is folded; nothing is open from the start.
    assert "<details open" not in page and page.count("<details") == page.count("</details>")
    unfolded = re.sub("<details.*?</details>", "", page, flags=re.DOTALL)
    assert "Small marks are single repeats" in page and "Small marks are single repeats" not in unfolded
    assert "<table" in page and "<table" not in unfolded


def test_several_gpus_open_with_what_each_runs_and_what_they_gain_together():
    study = a_study(arms={"one": {"gpus": 1}, "two": {"gpus": 2}})
    trials = [
        *fps_trials({32: [100.0] * 3}, arm="one", gpus=1, device=GPU),
        *fps_trials({32: [190.0] * 3}, arm="two", gpus=2, device=GPU, first=20),
    ]
    figures = {"throughput.svg": b"<svg/>"}
    page = report.page(decide(records_of(trials), study), [], figures)
    opening = page.partition('<section id="details">')[0]
    assert "<dt>two: run 32 environments per GPU (horizon 8, batch 128): 190 FPS (100% of the best)</dt>" in opening
    gain = "2 GPUs give 1.90 times one GPU&#39;s FPS at 32 environments each"
    assert f"<strong>two</strong>: {gain}" in opening


def test_a_study_that_only_learns_opens_with_the_cost_of_its_target():
    trials = learning_trials({16: [20.0, 20.1, 20.2], 32: [25.0, 25.2, 25.4]})
    verdict = decide(records_of(trials), a_study())
    figures = {f"{name}.svg": b"<svg/>" for name in ("memory", "learning", "target")}
    opening = report.page(verdict, [], figures).partition('<section id="details">')[0]
    assert "run 16 environments (horizon 8, batch 128): target in 20.1 s" in opening
    assert "<dd>Doubling 16 takes 25.4% longer (at least 2" in opening
    assert re.findall('<figure id="([^"]+)"', opening) == ["target"]


def test_trials_lead_to_their_files_and_to_their_runs(folder: StudyFolder):
    page = report.write(folder).read_text(encoding="utf-8")
    assert links(page)["0000"] == [
        ("record", "trials/0000/record.json"), ("rows", "trials/0000/metrics.jsonl"), ("log", "trials/0000/trial.log"),
    ]  # fmt: skip
    assert links(page)["0015"] == [("record", "trials/0015/record.json")]
    assert all((folder.root / address).exists() for own in links(page).values() for _, address in own)
    published = {
        "tracking_uri": "https://runs.example/",
        "experiment_id": "7",
        "content_sha256": {"trials/0001": "0"},
        "more": 1,
    }
    folder.published.write_text(json.dumps(published))
    page = report.write(folder).read_text(encoding="utf-8")
    word, address = links(page)["0001"][-1]
    assert word == "MLflow" and address.startswith("https://runs.example/#/experiments/7/runs?searchFilter=")
    assert urllib.parse.unquote(address).endswith('tags.`envknee.key` = "trials/0001"')
    assert "MLflow" not in dict(links(page)["0000"])
    folder.published.write_text(json.dumps(published | {"tracking_uri": "sqlite:////results/mlflow.db"}))
    assert links(report.write(folder).read_text())["0001"][-1][1].startswith("http://127.0.0.1:5000/#/experiments/7/")


def test_cards_are_one_table_with_a_column_for_each_arm_or_series():
    def cards(name: str) -> tuple[list[str], str]:
        """Return the header of the table of cards, and its row for 24 GB."""
        text = report.page(verdict_of(name), [], {})
        (table,) = re.findall("<table>\n<thead><tr><th>card</th>.*?</table>", text, re.DOTALL)
        header, *rows = [
            re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)
        ]
        return header[1:], next(" | ".join(row[1:]) for row in rows if row[0].startswith("24 GB"))

    series, fitting = cards("cartpole-stock-lean")
    assert series == ["lean", "stock"]  # the line below the title says what both share
    assert re.fullmatch(r"19,\d{3} \(.*\) \| 2,5\d\d \(.*\)", fitting)
    series, fitting = cards("cartpole-one-gpu-full")  # one arm, three horizons
    assert series == [f"horizon {horizon}, library batch" for horizon in (16, 32, 64)]
    assert fitting.count("|") == 2


def test_a_figure_says_its_finding_to_those_who_do_not_see_it_and_one_without_data_is_a_sentence(folder: StudyFolder):
    page = report.write(folder).read_text(encoding="utf-8")
    alts = re.findall(r'<img alt="([^"]*)"', page)
    assert alts[0] == "2 FPS with 32 environments; 1,024 do not fit (horizon 8, batch 128)" and len(set(alts)) == len(
        alts
    )
    svg = b"<svg><title>Memory: nothing to show. No trial lived.</title></svg>"
    empty = report.page(decide([], a_study()), [], {"memory.svg": svg})
    assert "<img" not in empty and "<p>Memory: nothing to show. No trial lived.</p>" in empty


def test_what_is_missing_is_named_with_what_writes_it(folder: StudyFolder):
    (folder.figures / "memory.svg").unlink()
    with pytest.raises(UserError, match=r"memory.svg does not exist. .*envknee figures"):
        report.write(folder)


ATTACKS = (
    "<script>alert(1)</script><img src=https://evil.example/x.png onerror=alert(1)>",
    ".. include:: /etc/passwd",
    ".. image:: https://evil.example/x.png",
    ".. raw:: html\n\n   <b>raw</b>",
    "`x <javascript:alert(1)>`_ and :raw-html:`<i>`",
    "{{ 7 * 191 }} {% include 'page.html' %}",
    "\x1b]8;;https://evil.example\x07link\x1b[2J \N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
    "see https://docs.example/a?b=1&c=2, or javascript:alert(1)",
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_that_files_say_becomes_part_of_the_page(attack: str):
    records = records_of([a_trial(16), a_trial(32, number=1, status="nan").ended(reason=attack)])
    verdict = decide(records, a_study())
    broken = Broken(arm=attack, tensor="x", trials=[0], reason=attack, dump=attack, hints=[attack])
    arms = [arm.model_copy(update={"arm": attack, "hardware": [attack]}) for arm in verdict.arms]
    changed = {"study": attack, "task_id": attack, "drill": attack, "arms": arms, "broken": [broken]}
    trials = [(record, {}) for record in records]
    harmless = without_programs(report.page(verdict, trials[:-1], {}))
    page = without_programs(report.page(verdict.model_copy(update=changed), trials, {}))
    assert set(re.findall(r"<(\w+)", page)) <= set(re.findall(r"<(\w+)", harmless)) | {"code", "div", "strong"}
    assert page.count("<script") == harmless.count("<script")
    # An address is a link only where a reader sees the same address, and nothing is loaded from anywhere.
    links = re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', page)
    outside = [link for link in links if not re.fullmatch(r"#\w+|verdict\.json|records\.csv", link[0])]
    assert all(address == text and address.startswith("https://") for address, text in outside)
    assert len(outside) == attack.count("https://") and page.count("href=") == len(links)
    assert not re.search(r"<[^>]*src=", page) and "default-src 'none'" in page
    assert "root:" not in page and "1337" not in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", page)


def test_an_address_of_a_store_that_is_no_web_page_is_no_link():
    for uri in ("javascript:alert(1)//", "file:///etc/passwd", "postgresql://me@db/runs"):
        published = report.Published(tracking_uri=uri, experiment_id='7" onclick="x', content_sha256={})
        address = report.run_address(published, "trials/0001")
        assert address.startswith("http://127.0.0.1:5000/#/experiments/7%22%20onclick%3D%22x/runs?")


def test_a_picture_of_megabytes_is_shown_as_png(folder: StudyFolder, monkeypatch: pytest.MonkeyPatch):
    alone = report.page_of(folder)
    assert alone.count("data:image/png") == 0
    monkeypatch.setattr(report, "LARGEST_SVG", (folder.figures / "memory.svg").stat().st_size - 1)
    larger = [path for path in folder.figures.glob("*.svg") if path.stat().st_size > report.LARGEST_SVG]
    page = report.page_of(folder)
    assert page.count('src="data:image/png;base64,') == len(larger) > 0
    assert re.findall(r'<img alt="([^"]*)"', page) == re.findall(r'<img alt="([^"]*)"', alone)


def test_headings_are_in_order_and_the_page_says_when_and_on_what_it_was_measured(folder: StudyFolder):
    page = report.write(folder).read_text(encoding="utf-8")
    levels = [int(level) for level in re.findall(r"<h(\d)", without_programs(page))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert re.search(r"measured on \d{4}-\d\d-\d\d, commit \w+", page)
    facts = dict(re.findall(r"<dt>([\w ]+)</dt><dd>(.*?)</dd>", page))
    assert GPU.name in facts["hardware"] and "Python " in facts["versions"] and "torch " in facts["versions"]


def test_the_policy_names_each_script_by_its_hash(folder: StudyFolder):
    page = report.write(folder).read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    [allowed] = re.findall(r"script-src ([^;]*);", page)
    assert allowed.split() == [f"'sha256-{digest}'" for digest in hashes] and len(scripts) == 4
