"""The report in a real browser: charts, the table of trials, colours, a narrow screen, and nothing that a file could smuggle in."""

import json
from pathlib import Path
from typing import Any

import pytest
from browser import drive
from drawn import judged
from envknee.record.schema import Record
from envknee.run.card import study_card
from envknee.show import report
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas, registry
from envknee.study.model import Study
from envknee.verdict.schema.study import Verdict
from joint_study import handed_study, handed_trials
from needs import need
from records import GPU, a_study, fps_trials, learning_trials

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"

DRAWN = """
const charts = [...doc.querySelectorAll(".chart")];
await until(() => charts.every((own) => own.closest("figure").classList.contains("live")));
"""
"""Waits until every chart is there."""


def write_page(path: Path, evidence: Evidence, study: Study, *figures: str, hostile: str = "") -> Path:
    """Write the report with some figures. The arm `hostile` is renamed to markup in all that files say."""
    drawn = [own for own in registry.FIGURES if own.name in figures]
    svgs = {own.svg: canvas.saved(own.draw(evidence), "svg") for own in drawn}

    def renamed(text: str) -> str:
        return text.replace(json.dumps(hostile), json.dumps(HOSTILE))

    verdict = Verdict.model_validate_json(renamed(evidence.verdict.model_dump_json()))
    records = [Record.model_validate_json(renamed(record.model_dump_json())) for record in evidence.records]
    trials = [(record, {"log": f"trials/{record.request.number:04d}/trial.log"}) for record in records]
    card = study_card(study, evidence.verdict, evidence.records)
    path.write_text(report.page(verdict, trials, svgs, card), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def two_arms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("chromium")
    fps = {size: [100.0 * size + n for n in range(30)] for size in (16, 32)}
    trials = [
        *fps_trials(fps, device=GPU, arm="stock"),
        *fps_trials(fps, device=GPU, arm="other", first=60),
        *learning_trials({16: [20.0, None, 21.0], 32: [25.0, 25.2, 25.4]}, device=GPU, arm="stock", first=120),
    ]
    study = a_study(arms={"stock": {}, "other": {}})
    path = tmp_path_factory.mktemp("two") / "report.html"
    return write_page(path, judged(trials, study), study, "throughput", "target", "memory", hostile="other")


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("chromium")
    study = handed_study("lean")
    evidence = judged(handed_trials("lean"), study)
    return write_page(tmp_path_factory.mktemp("joint") / "report.html", evidence, study, "maps", "coordinates")


def test_charts_take_the_place_of_pictures_and_load_nothing(two_arms: Path, tmp_path: Path):
    found = drive(two_arms, DRAWN + """
        const images = [...doc.querySelectorAll("figure img")].map((image) => image.getClientRects().length);
        doc.querySelector("#throughput button.still").click();
        const canvases = (own) => [own.dataset.chart, own.querySelectorAll("canvas").length];
        return {
          errors, images, again: doc.querySelector("#throughput img").getClientRects().length,
          charts: Object.fromEntries([...doc.querySelectorAll(".chart")].map(canvases)),
          loaded: page.performance.getEntriesByType("resource").map((own) => own.name).filter((name) => !name.startsWith("data:")),
        };""", tmp_path)  # fmt: skip
    assert found["errors"] == [] and found["loaded"] == []
    # FPS and their gains; seconds and frames. The button brought the first picture back, and its charts stay behind it.
    assert found["charts"] == {"throughput": 2, "memory": 1, "target": 2}
    assert found["images"] == [0, 0, 0] and found["again"] == 1


def test_no_other_script_runs_and_text_of_files_stays_text(two_arms: Path, tmp_path: Path):
    injected = two_arms.with_name("injected.html")
    injected.write_text(
        two_arms.read_text(encoding="utf-8").replace("</main>", "</main><script>document.title = 'owned'</script>"), encoding="utf-8"
    )  # fmt: skip
    found = drive(injected, DRAWN + """
        const panel = doc.querySelector("#throughput .panel");
        const chart = page.echarts.getInstanceByDom(panel);
        const isMarks = (own) => own.name?.includes("onerror") && own.type === "line" && own.symbolSize === 10;
        const at = chart.getOption().series.findIndex(isMarks);
        chart.dispatchAction({ type: "showTip", seriesIndex: at, dataIndex: 0 });
        await until(() => panel.querySelector(".tip"));
        const images = doc.querySelectorAll(".tip img, td img, label img").length;
        return { title: doc.title, said: panel.querySelector(".tip").textContent, images };
        """, tmp_path)  # fmt: skip
    assert "owned" not in found["title"] and found["images"] == 0
    assert HOSTILE in found["said"] and "16 environments" in found["said"] and "30 repeats" in found["said"]


def test_arms_are_switched_off_in_charts_and_in_the_table(two_arms: Path, tmp_path: Path):
    found = drive(two_arms, DRAWN + """
        const chart = () => page.echarts.getInstanceByDom(doc.querySelector("#throughput .panel"));
        const names = () => [...new Set(chart().getOption().series.map((own) => own.name))];
        const before = names(), shown = doc.querySelector("#shown").textContent;
        doc.querySelector("#arms input[value=stock]").click();
        return { before: before.length, after: names(), shown, left: doc.querySelector("#shown").textContent, errors };
        """, tmp_path)  # fmt: skip
    assert found["shown"] == "1 to 100 of 126" and found["left"] == "1 to 60 of 60 (126 in all)"
    assert found["before"] > len(found["after"]) and any("onerror" in str(name) for name in found["after"])
    assert not any(str(name).startswith("stock") for name in found["after"]) and found["errors"] == []


def test_trials_are_sorted_by_number_filtered_turned_over_and_found(two_arms: Path, tmp_path: Path):
    found = drive(two_arms, """
        const numbers = () => [...doc.querySelectorAll(".trials tbody tr")].map((row) => Number(row.cells[0].textContent));
        const fps = () => [...doc.querySelectorAll(".trials tbody tr")].map((row) => row.cells[8].textContent);
        const act = (id, value, event) => { const own = doc.getElementById(id); own.value = value; own.dispatchEvent(new Event(event)); };
        const out = {};
        doc.getElementById("all-trials").open = true;
        doc.getElementById("after").click(); out.second = numbers();
        const head = doc.querySelectorAll(".trials thead th")[8];
        head.querySelector("button").click(); out.ascending = fps(); out.aria = head.getAttribute("aria-sort");
        head.querySelector("button").click(); out.descending = fps().slice(0, 2);
        act("status", "budget spent first", "change"); out.spent = numbers(); act("status", "", "change");
        act("filter", "stock learning 32", "input"); out.filtered = numbers().sort(); act("filter", "", "input");
        page.dispatchEvent(new Event("beforeprint")); out.printed = numbers().length; page.dispatchEvent(new Event("afterprint"));
        page.goToTrial(125); out.place = doc.getElementById("trial-0125").className;
        out.link = doc.querySelector("#trial-0125 a").getAttribute("href");
        return out;""", tmp_path)  # fmt: skip
    assert found["second"] == list(range(100, 126))
    values = [float(cell.replace(",", "")) for cell in found["ascending"]]
    assert values == sorted(values) and values[0] < 1000 < values[-1] and found["aria"] == "ascending"
    assert found["descending"] == ["3,229", "3,229"]
    assert found["spent"] == [121] and found["filtered"] == [123, 124, 125]
    assert found["printed"] == 126 and found["place"] == "good found" and found["link"] == "trials/0125/trial.log"


def test_a_click_on_a_trial_of_a_chart_leads_to_its_row(two_arms: Path, tmp_path: Path):
    found = drive(two_arms, DRAWN + """
        const chart = page.echarts.getInstanceByDom(doc.querySelector("#throughput .panel"));
        const data = chart.getOption().series.find((own) => own.type === "scatter").data[7];
        chart.trigger("click", { data });
        return { trial: data.trial, row: doc.querySelector("tr.found").id, open: doc.getElementById("all-trials").open };
        """, tmp_path)  # fmt: skip
    assert found == {"trial": 7, "row": "trial-0007", "open": True}


def test_a_command_is_copied_or_where_that_is_forbidden_selected(two_arms: Path, tmp_path: Path):
    found = drive(two_arms, """
        const button = doc.querySelector(".card button.copy"), command = doc.querySelector(".card pre").textContent;
        page.navigator.clipboard.writeText = () => Promise.reject(new Error("forbidden"));
        button.click();
        await until(() => button.textContent !== "Copy");
        const out = { command, said: button.textContent, selected: page.getSelection().toString() };
        page.navigator.clipboard.writeText = async (text) => { out.copied = text; };
        await until(() => button.textContent === "Copy");
        button.click();
        await until(() => button.textContent === "Copied");
        return out;""", tmp_path)  # fmt: skip
    assert "train" in found["command"] and found["copied"] == found["command"]
    assert found["selected"].split() == found["command"].split() and found["said"] == "Selected: press Ctrl-C"


WIDTHS = """
doc.querySelectorAll("details").forEach((own) => { own.open = true; });
page.scrollTo(1000, 0);
return { errors, scrolled: page.scrollX, screen: page.innerWidth };
"""


@pytest.mark.parametrize("kind", ["two_arms", "joint"])
def test_a_narrow_screen_never_scrolls_sideways(kind: str, request: pytest.FixtureRequest, tmp_path: Path):
    found = drive(request.getfixturevalue(kind), DRAWN + WIDTHS, tmp_path, width=420)
    assert found == {"errors": [], "scrolled": 0, "screen": 420}


def test_dark_and_light_are_chosen_and_charts_follow(two_arms: Path, tmp_path: Path):
    found = drive(two_arms, DRAWN + """
        const choose = (value) => { const own = doc.getElementById("theme"); own.value = value; own.dispatchEvent(new Event("change")); };
        const seen = () => {
          const chart = page.echarts.getInstanceByDom(doc.querySelector("#throughput .panel")).getOption();
          return [page.getComputedStyle(doc.body).backgroundColor, chart.backgroundColor, chart.textStyle.color];
        };
        choose("dark"); const dark = seen(); choose("light");
        return { dark, light: seen() };""", tmp_path)  # fmt: skip
    assert found["dark"] == ["rgb(21, 24, 28)", "rgb(21, 24, 28)", "rgb(228, 230, 232)"]
    assert found["light"] == ["rgb(255, 255, 255)", "rgb(255, 255, 255)", "rgb(34, 34, 34)"]


def test_maps_are_cut_along_any_axis_and_axes_have_their_importance(joint: Path, tmp_path: Path):
    found: dict[str, Any] = drive(joint, DRAWN + """
        const panels = () => doc.querySelectorAll("#maps .panel").length;
        const choose = (place, value) => {
          const own = doc.querySelectorAll("#maps select")[place]; own.value = value; own.dispatchEvent(new Event("change"));
        };
        const out = { horizon: panels() };
        choose(0, "num_envs"); out.num_envs = panels();
        choose(0, "batch_size"); out.batch_size = panels();
        choose(1, "interval"); out.said = doc.querySelector("#maps").textContent;
        const data = (own) => page.echarts.getInstanceByDom(own).getOption().series[0].data;
        const [lines, bars] = [...doc.querySelectorAll("#coordinates .panel")].map(data);
        const dashed = lines.filter((own) => own.lineStyle.type === "dashed").length;
        return { ...out, bars: bars.length, lines: lines.length, dashed, errors };
        """, tmp_path)  # fmt: skip
    assert (found["horizon"], found["num_envs"], found["batch_size"]) == (4, 5, 6)
    assert "known exactly" in found["said"] and "may be the best" in found["said"]
    assert found["lines"] == 64 and found["dashed"] == 7 and found["errors"] == []
    assert found["bars"] == 3
