"""The documentation as a site: `make docs` builds it strictly, and what is generated names every key, command and column."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from browser import browse
from envknee import commands
from envknee.decide.records_csv import CSV_COLUMNS
from envknee.json_schemas import answering, schema_of
from envknee.record.schema import Record, Request, Row
from envknee.study.paths import In, StudyFolder, TrialFolder
from envknee.study.schema import study_schema
from envknee.verdict.schema.best import Best
from needs import need
from places import ROOT
from programs import python, refused, succeeded

need("mkdocs")


def build(project: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build without a network: proxies lead nowhere. A warning, such as a dead link or anchor, is an error (mkdocs.yml: strict)."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    variables = os.environ | nowhere | {"NO_MKDOCS_2_WARNING": "1"}
    return python("-m", "mkdocs", "build", "--site-dir", site, cwd=project, env=variables)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    succeeded(build(ROOT, folder))
    return folder


def codes_of(page: Path) -> set[str]:
    return {unescape(code) for code in re.findall(r"<td><code>([^<]+)</code>", page.read_text(encoding="utf-8"))}


def test_every_key_of_a_study_is_in_the_reference(site: Path):
    schema = study_schema()
    keys = {key for part in (schema, *schema["$defs"].values()) for key in part["properties"]}
    assert keys <= codes_of(site / "configuration.html")


def test_every_command_and_target_is_in_the_reference_with_its_help(site: Path):
    text = unescape(re.sub(r"<[^>]+>", "", (site / "cli.html").read_text(encoding="utf-8")))
    for name in commands.listed():
        assert f"usage: envknee {name} [" in text or f"usage: envknee {name} " in text, name
    for target in re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE):
        assert f"make {target}" in text


def test_every_column_field_and_file_of_a_study_is_in_the_reference(site: Path):
    fields = {*CSV_COLUMNS, *Request.model_fields, *Row.model_fields, *Record.model_fields}
    files = {file.name for file in vars(StudyFolder).values() if isinstance(file, In)}
    files |= {f"trials/0007/{file.name}" for file in vars(TrialFolder).values() if isinstance(file, In)}
    assert fields | files <= codes_of(site / "files.html")


def test_models_find_every_page_and_every_schema(site: Path):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\(([^)]+)\): \S", text)) | set(re.findall(r"\]\((schemas/[^)]+)\)$", text, re.MULTILINE))
    written = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"index", "AGENTS", "CHANGELOG", "CONTRIBUTING"}
    assert {f"{page}.html" for page in written} <= named and all((site / place).is_file() for place in named)
    for name in answering():
        assert json.loads((site / f"schemas/{name}.json").read_text(encoding="utf-8")) == schema_of(name)
    assert set(Best.model_fields) - {"schema_version"} <= codes_of(site / "json.html")


def test_every_page_is_there_and_loads_nothing_from_elsewhere(site: Path):
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} | {"index", "CHANGELOG", "CONTRIBUTING", "SECURITY"}
    assert pages <= {page.stem for page in site.glob("*.html")}
    for page in site.rglob("*.html"):
        loads = r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^\s>]*"
        assert re.findall(loads, page.read_text(encoding="utf-8")) == [], page


def test_the_search_finds_pages_in_the_files_as_built(site: Path, tmp_path: Path):
    page = browse(f"{(site / 'index.html').as_uri()}?q=PostgreSQL", tmp_path)
    found = re.findall(r'href="[^"]*/([\w-]+)\.html[^"]*" class="md-search-result__link"', page)
    assert "tracking" in found, found


def test_a_dead_link_fails_the_build(tmp_path: Path):
    """In a copy, so that strictness is known to be on."""
    for path in ROOT.iterdir():
        if path.name != "docs" and not path.name.startswith("."):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "docs/cli.md").write_text("# Commands\n")  # asking each for its help takes 20 s
    (tmp_path / "README.md").unlink()
    for page, link in {"docs/faq.md": "tutorial.md#no-such-heading", "README.md": "docs/faq.md#nor-this"}.items():
        (tmp_path / page).write_text((ROOT / page).read_text() + f"\n[nowhere]({link})\n")
    refused(build(tmp_path, tmp_path / "site"), "no-such-heading", "nor-this")
