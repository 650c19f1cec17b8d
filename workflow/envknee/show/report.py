"""The report of a study: one HTML file with all figures in it, readable offline.

Input: results/<study>/ with records, verdict.json, figures and, if it was published, published.json; templates and captions in
workflow/report. Output: results/<study>/report.html. It links to the files of each trial and, once published, to its run in MLflow.
Text from files is escaped. The page may not load anything, and runs its own scripts alone (`scripts`). Without scripts it has static
pictures and the first trials.

    envknee report results/<study>
"""

import argparse
import base64
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
from docutils.core import publish_parts
from markupsafe import Markup
from pydantic import BaseModel

from envknee.decide.read import load_study
from envknee.record.packed import study_folder
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.record.status import SUCCEEDED
from envknee.run.answers import keep_answers
from envknee.run.card import study_card
from envknee.show.about import UNKNOWN, about
from envknee.show.charts.registry import charts_of
from envknee.show.evidence import Evidence, read_evidence
from envknee.show.figures import registry
from envknee.show.figures.finding import NOTHING, finding_of
from envknee.show.page_data import page_data
from envknee.show.scripts import policy, report_scripts
from envknee.show.trials import COLUMNS, cells_of
from envknee.study.errors import UserError, printable
from envknee.study.files import read_model, write_atomically
from envknee.study.model import Study
from envknee.study.paths import PROJECT, StudyFolder
from envknee.verdict.card import card_of
from envknee.verdict.lead import in_order
from envknee.verdict.schema.card import Card
from envknee.verdict.schema.study import Verdict
from envknee.words import study as study_words
from envknee.words import tables
from envknee.words.answer import answer
from envknee.words.card import card_parts
from envknee.words.cards import cards_table
from envknee.words.gpu_peaks import gpu_peaks_table
from envknee.words.sentences import sentences
from envknee.words.statements import METHODS, statement

TEMPLATES = PROJECT / "workflow/report"

LOCAL_UI = "http://127.0.0.1:5000"
"""Address of `make ui` for a store that is a file or a database."""

STATIC_TRIALS = 500
"""Rows of the table for readers without scripts. Scripts show every trial."""

LARGEST_SVG = 300_000
"""Bytes from which a picture is shown as PNG: with thousands of trials an SVG has megabytes of marks."""

FILES = {"record": "record.json", "rows": "metrics.jsonl", "log": "trial.log"}
"""Files that a trial links to, if they exist."""


class Published(BaseModel):
    """The part of published.json that leads to runs."""

    tracking_uri: str
    experiment_id: str
    content_sha256: dict[str, str]


def page(
    verdict: Verdict,
    trials: Sequence[tuple[Record, dict[str, str]]],
    figures: dict[str, bytes],
    card: Card | None = None,
    so_far: str | None = None,
) -> str:
    """Return the report. `trials` come with their links (text → address); `figures` are files by name: SVGs, and PNGs to show instead.

    `card` is that of the study with its records; without it, that of the verdict alone. `so_far` says of what time
    the report of a sweep is that has not ended: such a report has interactive charts, without a picture of each.
    """
    verdict = in_order(verdict)
    records = [record for record, _ in trials]
    charts = charts_of(verdict, records)
    if so_far is None:
        charts = {name: chart for name, chart in charts.items() if f"{name}.svg" in figures}
    shown = [
        entry for entry in registry.FIGURES if entry.svg in figures or (so_far is not None and entry.name in charts)
    ]
    # A figure that is kept with the measurements shows the answer best.
    drawn = [entry for entry in shown if NOTHING not in finding_of(figures.get(entry.svg, b""))]
    first = next((entry for entry in drawn if entry.is_kept), next(iter(drawn), None))
    sections: dict[str, list[dict[str, Any]]] = {}
    for entry in shown:
        if entry is not first:
            sections.setdefault(entry.section[2:], []).append(_figure(entry, figures))
    scripts = report_scripts(with_charts=bool(charts))
    return template("page.html").render(
        policy=policy(scripts),
        scripts=scripts,
        data=page_data(trials, charts),
        charts=charts,
        so_far=so_far,
        about={name: said for name, said in about(records).items() if said != UNKNOWN} if records else {},
        verdict=verdict,
        card=card_parts(card or card_of(verdict)),
        study_words=study_words,
        tables=tables,
        answer=answer,
        statement=statement,
        methods=METHODS,
        sentences=sentences(verdict),
        cards=cards_table(verdict),
        gpu_peaks=gpu_peaks_table(verdict),
        first=first and _figure(first, figures),
        sections=sections,
        columns=COLUMNS,
        trials=[(record, cells_of(record), links) for record, links in trials[:STATIC_TRIALS]],
        all_trials=len(trials),
        succeeded=SUCCEEDED,
        trials_caption=_caption("trials.rst")[1],
    )


def template(name: str) -> jinja2.Template:
    """Return a page's template, which escapes every text and shows characters that a terminal would obey."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, finalize=_plain
    )
    templates.filters["linked"] = linked
    return templates.get_template(name)


def _figure(entry: registry.Entry, figures: dict[str, bytes]) -> dict[str, Any]:
    """Return a figure for the template. One that is not drawn yet has no data."""
    heading, caption = _caption(entry.caption)
    svg = figures.get(entry.svg, b"")
    found = finding_of(svg) or heading
    kind, picture = ("png", figures[entry.png]) if entry.png in figures else ("svg+xml", svg)
    return {
        "name": entry.name, "heading": heading, "caption": caption, "finding": found,
        "is_empty": NOTHING in found, "kind": kind, "data": base64.b64encode(picture).decode(),
    }  # fmt: skip


def _caption(name: str) -> tuple[str, Markup]:
    """Return the heading of a caption, its first paragraph, and the rest."""
    heading, _, rest = (TEMPLATES / name).read_text(encoding="utf-8").partition("\n\n")
    parts = publish_parts(
        rest,
        writer="html5",
        settings_overrides={
            "file_insertion_enabled": False, "raw_enabled": False, "report_level": 5, "_disable_config": True,
        },
    )  # fmt: skip
    return " ".join(heading.split()).strip("*"), Markup(parts.get("fragment", ""))  # noqa: S704 - made by docutils from a file of this project


def _plain(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def linked(text: str) -> Markup:
    """Return escaped text in which http and https addresses are links."""
    address = Markup('<a href="{0}" rel="noreferrer">{0}</a>')
    parts = re.split(r"(https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)])", printable(text))
    return Markup("").join(address.format(part) if place % 2 else part for place, part in enumerate(parts))


def links_of(record: Record, folder: StudyFolder, published: Published | None) -> dict[str, str]:
    """Return a trial's links: its files, relative to the report, and its run."""
    key = f"trials/{record.request.number:04d}"  # its folder, and the key of its run
    links = {word: f"{key}/{name}" for word, name in FILES.items() if (folder.root / key / name).exists()}
    if published is not None and key in published.content_sha256:
        links["MLflow"] = run_address(published, key)
    return links


def run_address(published: Published, key: str) -> str:
    """Return the page that finds a run by its key: publishing a run again changes its ID."""
    is_server = urlsplit(published.tracking_uri).scheme in ("http", "https")
    server = published.tracking_uri.rstrip("/") if is_server else LOCAL_UI
    wanted = quote(f'tags.`envknee.key` = "{key}"', safe="")
    return f"{server}/#/experiments/{quote(published.experiment_id, safe='')}/runs?searchFilter={wanted}"


def page_of(folder: StudyFolder, *, with_runs: bool = True, evidence: Evidence | None = None) -> str:
    """Return the report of a study, of its `evidence` if that was read before. Without runs it holds no tracking address.

    Raises:
        UserError: when the verdict or a figure is missing, or a file was changed after its measurement.
    """
    evidence = evidence or read_evidence(folder)
    asked = load_study(folder)
    figures: dict[str, bytes] = {}
    for entry in registry.figures_of(asked):
        figures[entry.svg] = _drawn(folder, entry.svg)
        if len(figures[entry.svg]) > LARGEST_SVG:
            figures[entry.png] = _drawn(folder, entry.png)
    published = None
    if with_runs and folder.published.exists():
        published = read_model(folder.published, Published, "`make publish` writes it.")
    trials = [(record, links_of(record, folder, published)) for record in evidence.records]
    card = study_card(asked, evidence.verdict, evidence.records)
    return page(evidence.verdict, trials, figures, card)


def _drawn(folder: StudyFolder, name: str) -> bytes:
    """Return the file of a figure."""
    path = folder.figures / name
    if not path.exists():
        raise UserError(f"{path} does not exist. Draw it with `envknee figures {folder.root}`.")
    return path.read_bytes()


def write(folder: StudyFolder, evidence: Evidence | None = None) -> Path:
    """Write the report of a study (see `page_of`) and return its path."""
    write_atomically(folder.report, page_of(folder, evidence=evidence))
    return folder.report


def page_so_far(folder: StudyFolder, study: Study, verdict: Verdict, records: Sequence[Record]) -> str:
    """Return the report of a sweep that goes on. It has no pictures, which take a second each, and no verdict.json beside it."""
    measured = without_skipped(records)
    trials = [(record, links_of(record, folder, None)) for record in measured]
    said = (
        f"As of {time.strftime('%d %b %Y, %H:%M:%S')}. While the sweep runs, it writes this page again: load it for more."
        " Pictures come at the end."
    )
    return page(verdict, trials, {}, study_card(study, verdict, measured), said)


def main() -> None:
    """Write the report of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    folder = study_folder(parser.parse_args().folder)
    evidence = read_evidence(folder)
    print(write(folder, evidence))
    # Published and unpacked studies were measured elsewhere, perhaps by somebody else.
    if not folder.archive.exists() and not folder.is_received:
        keep_answers(evidence.verdict, evidence.records)
