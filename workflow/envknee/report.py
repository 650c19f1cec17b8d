"""The report of a study for a person: one HTML file with all figures in it, readable offline, on a phone and on paper.

Input: results/<study>/ with records, verdict.json, figures and, where it was published, published.json; captions and the page's
template in workflow/report. Output: results/<study>/report.html. Links lead to the files beside it and to each trial's run in MLflow.

    python -m envknee.report results/<study>
"""

import argparse
import base64
import html
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
from docutils.core import publish_parts
from pydantic import BaseModel

from envknee import outputs
from envknee.errors import UserError, run_command
from envknee.figures.canvas import task_and_hardware
from envknee.figures.table import summary, table
from envknee.files import StudyFolder, read_model, write_atomically
from envknee.limits.verdict import Verdict, load_study
from envknee.record import Record, load_records, without_skipped

TEMPLATES = Path(__file__).parents[1] / "report"

LOCAL_UI = "http://127.0.0.1:5000"
"""Where `make ui` opens a store that is a file or a database."""

FILES = {"record": "record.json", "rows": "metrics.jsonl", "log": "trial.log"}
"""What a trial links to, where it is there."""


class Published(BaseModel):
    """What of published.json leads to a run."""

    tracking_uri: str
    experiment_id: str
    content_sha256: dict[str, str]


def page(verdict: Verdict, records: Sequence[Record], figures: dict[str, bytes], links: Callable[[Record], Any]) -> str:
    """Return the report.

    Args:
        verdict: of the study
        records: of its trials
        figures: SVG by name, in the order in which `outputs` lists them
        links: (word, address) pairs of a trial
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
    )
    # As Snakemake's own report would have it.
    context = {"snakemake": {"config": {"verdict": verdict.model_dump(mode="json")}}}

    def html_of(name: str) -> str:
        parts = publish_parts(
            templates.get_template(name).render(context),
            writer="html5",
            settings_overrides={"file_insertion_enabled": False, "raw_enabled": False, "report_level": 5},
        )
        return parts.get("fragment", "")

    sections = []
    for section, names in outputs.SECTIONS.items():
        shown = []
        for name in names:
            if name in figures:
                heading, caption = _heading_and_rest(html_of(outputs.caption_of(name)))
                data = base64.b64encode(figures[name]).decode()
                shown.append({"name": name.removesuffix(".svg"), "heading": heading, "caption": caption, "data": data})
        if shown:
            sections.append({"name": section, "anchor": section.partition(" ")[2].lower(), "figures": shown})
    return templates.get_template("page.html").render(
        verdict=verdict,
        hardware=task_and_hardware(verdict),
        overview=html_of("workflow.rst"),
        sections=sections,
        summary=summary(verdict),
        table=table(records, links),
        table_caption=html_of("trials.rst"),
    )


def _heading_and_rest(caption: str) -> tuple[str, str]:
    """Return the first paragraph of a caption as plain text, and the HTML that follows it."""
    first, _, rest = caption.partition("</p>")
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", first)).split()), rest


def links_of(folder: StudyFolder, published: Published | None) -> Callable[[Record], list[tuple[str, str]]]:
    """Return what gives a trial's links: its files, from the report's own folder, and its run."""

    def links(record: Record) -> list[tuple[str, str]]:
        trial = folder.trial(record.request.number).root
        where = trial.relative_to(folder.root).as_posix()
        found = [(word, f"{where}/{name}") for word, name in FILES.items() if (trial / name).exists()]
        key = f"trials/{record.request.number:04d}"
        if published is not None and key in published.content_sha256:
            found.append(("MLflow", run_address(published, key)))
        return found

    return links


def run_address(published: Published, key: str) -> str:
    """Return the page that finds a run by its key: the run's own identity changes when it is published anew."""
    is_server = urlsplit(published.tracking_uri).scheme in ("http", "https")
    server = published.tracking_uri.rstrip("/") if is_server else LOCAL_UI
    wanted = quote(f'tags.`envknee.key` = "{key}"', safe="")
    return f"{server}/#/experiments/{published.experiment_id}/runs?searchFilter={wanted}"


def write(folder: StudyFolder) -> Path:
    """Write the report of a study.

    Raises:
        UserError: when the verdict or a figure is missing, or a file was changed after its measurement.
    """
    again = f"`python -m envknee.limits.verdict {folder.root}` and `python -m envknee.figures {folder.root}` write what is missing."
    verdict = read_model(folder.verdict, Verdict, again)
    names = [name for name in outputs.figures_of(load_study(folder)) if name.endswith(".svg")]
    missing = [name for name in names if not (folder.figures / name).exists()]
    if missing:
        raise UserError(f"{folder.figures / missing[0]} does not exist. {again}")
    figures = {name: (folder.figures / name).read_bytes() for name in names}
    published = (
        read_model(folder.published, Published, "`make publish` writes it.") if folder.published.exists() else None
    )
    records = without_skipped(load_records(folder))
    write_atomically(folder.report, page(verdict, records, figures, links_of(folder, published)))
    return folder.report


def main() -> None:
    """Write the report of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    print(write(StudyFolder(parser.parse_args().folder)))


if __name__ == "__main__":
    run_command(main)
