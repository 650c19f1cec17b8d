"""What MkDocs adds to the pages of docs/: pages and files that lie elsewhere, and what is generated from the code.

In:   README.md and other pages at the top, results-published/, the code's own descriptions
Out:  files of the site; nothing is written into docs/. Of links that leave docs/ the targets come along.
"""

import ast
import contextlib
import csv
import html
import importlib
import inspect
import io
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
TOP = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "AGENTS.md": "AGENTS.md",
    "SECURITY.md": "SECURITY.md",
}
"""Pages at the top of the project, and what they are called in the site."""

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_startup(**_: Any) -> None:
    """Let the project's own modules be imported. MkDocs takes back what this file changes while it is loaded."""
    sys.path[:0] = [path for path in (str(ROOT / "workflow"), str(ROOT)) if path not in sys.path]


# --- Pages and files that lie elsewhere --------------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the top, and every file and folder that a link names."""
    for name, uri in TOP.items():
        head = "---\nhide: [navigation]\n---\n" if uri == "index.md" else ""  # it has no pages beside it
        files.append(File.generated(config, uri, content=head + in_the_site(ROOT / name)))
    for folder in sorted((ROOT / "results-published").iterdir()):
        for file in [folder] if folder.is_file() else sorted(path for path in folder.iterdir() if path.is_file()):
            add(files, config, file)
    files.append(File.generated(config, "results-published/README.md", content=list_of_studies()))
    for page in [*ROOT.glob("docs/*.md"), *(ROOT / name for name in TOP)]:
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve()
            if path.is_file() and path.is_relative_to(ROOT) and path.parent != ROOT / "docs" and path.name not in TOP:
                add(files, config, path)
    for name, schema in json_schemas().items():
        files.append(File.generated(config, f"schemas/{name}.json", content=schema))
    files.append(File.generated(config, "llms.txt", content=list_for_models(config)))
    return files


def add(files: Files, config: MkDocsConfig, path: Path) -> None:
    """Add a file of the project under its own path."""
    uri = path.relative_to(ROOT).as_posix()
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=str(path)))


def in_the_site(page: Path) -> str:
    """Return a page's text with its links as the site has them: docs/ is the site's top, the project around it lies in it."""

    def moved(link: re.Match[str]) -> str:
        path, anchor = (page.parent / link[1]).resolve(), link[2] or ""
        if not path.is_relative_to(ROOT):
            return link[0]
        place = path.relative_to(ROOT).as_posix()
        place = TOP.get(place, place.removeprefix("docs/"))
        return f"{place}/README.md{anchor}" if path.is_dir() else f"{place}{anchor}"

    return LINK.sub(moved, page.read_text(encoding="utf-8"))


def list_for_models(config: MkDocsConfig) -> str:
    """Return llms.txt: every page of the navigation with its first sentence, as language models look for it (llmstxt.org)."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for entry in config.nav or []:
        ((section, pages),) = entry.items()
        lines += ["", f"## {section}", ""]
        for page in [{section: pages}] if isinstance(pages, str) else pages:
            uri = page if isinstance(page, str) else next(iter(page.values()))
            if (source := source_of(uri)) is not None:
                text = source.read_text(encoding="utf-8")
                title = next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))
                lines.append(f"- [{title}]({uri.removesuffix('.md')}.html): {first_sentence(text)}")
    schemas = [f"- [Schema of `envknee {name} --json`](schemas/{name}.json)" for name in json_schemas()]
    return "\n".join([*lines, "", "## Optional", "", *schemas, ""])


def source_of(uri: str) -> Path | None:
    """Return the file of a page in the site; None for one that is generated."""
    source = next((ROOT / name for name, place in TOP.items() if place == uri), ROOT / "docs" / uri)
    return source if source.is_file() else None


def first_sentence(text: str) -> str:
    """Return the first sentence of a page's first paragraph, without links and marks."""
    paragraphs = re.split(r"\n\s*\n", text)
    prose = next((own for own in paragraphs if re.match(r"(?!```|\* )[A-Za-z*`]", own)), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split())).replace("**", "")
    return re.split(r"(?<=[.?]) (?=[A-Z`])", plain)[0].rstrip(":")


def list_of_studies() -> str:
    """Return the page that lists the published studies."""
    names = sorted(path.name for path in (ROOT / "results-published").iterdir() if path.is_dir())
    lines = "\n".join(f"- [{name}]({name}/README.md)" for name in names)
    return (
        f"# Published studies\n\nWhat was measured on GPUs. [Results](../results.md) says what it means.\n\n{lines}\n"
    )


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put links and generated parts into a page of docs/."""
    source = ROOT / "docs" / page.file.src_uri
    if source.is_file():
        markdown = in_the_site(source)
    return re.sub(r"<!-- generated: (\w+) -->", lambda mark: GENERATED[mark[1]](), markdown)


# --- What is generated -------------------------------------------------------------------------------------------------


def cell(text: str) -> str:
    """Return a text for a table's cell."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def study_keys() -> str:
    """Return a section for each part of a study file, with every key, from its JSON schema."""
    from envknee.study.schema import study_schema

    schema = study_schema()
    parts = [section("The study", schema, schema["description"])]
    for name, place in PLACES.items():
        part = schema["$defs"][name]
        parts.append(section(f"`{place}`", part, part.get("description", "")))
    assert set(PLACES) == set(schema["$defs"]), "docs/hooks.py: PLACES names each part of a study file"
    return "\n\n".join(parts)


PLACES = {
    "Task": "task", "Inject": "task.inject", "Arm": "arms.NAME", "Memory": "arms.NAME.memory", "Scaling": "arms.NAME.scaling",
    "Command": "arms.NAME.command", "Rows": "arms.NAME.command.rows", "Throughput": "throughput", "Learning": "learning",
    "Adaptive": "throughput.adaptive, learning.adaptive", "UntilDecided": "throughput.until_decided, learning.until_decided",
    "Confirm": "throughput.confirm, learning.confirm",
    "Decide": "decide", "Tracking": "tracking", "Replay": "replay", "Raise": "raised", "Doublings": "{from: ..., to: ...}",
}  # fmt: skip
"""Where in a study file each part of its schema stands."""


def section(heading: str, part: dict[str, Any], about: str) -> str:
    """Return one part of a study file: what it is, then a row for each key."""
    required = part.get("required", [])
    rows = [
        (
            f"`{key}`",
            cell(kind_of(field)),
            "required" if key in required else default_of(field),
            cell(field.get("description", "")),
        )
        for key, field in part["properties"].items()
    ]
    return f"## {heading}\n\n{cell(about)}\n\n{table(('key', 'value', 'default', 'meaning'), rows)}"


def default_of(field: dict[str, Any]) -> str:
    """Return a key's default if it is a plain value; a part's own defaults stand in its section."""
    if "default" not in field or isinstance(field["default"], dict):
        return ""
    return f"`{cell(json.dumps(field['default'], ensure_ascii=False))}`"


def kind_of(field: dict[str, Any]) -> str:
    """Return in words what a key takes."""
    if "$ref" in field:
        return f"see {PLACES[field['$ref'].rpartition('/')[2]]}"
    if "anyOf" in field or "oneOf" in field:
        return " or ".join(dict.fromkeys(kind_of(choice) for choice in field.get("anyOf") or field["oneOf"]))
    if "enum" in field:
        return ", ".join(str(value) for value in field["enum"])
    if "const" in field:
        return str(field["const"])
    if field.get("type") == "array":
        return f"list of {kind_of(field.get('items', {}))}" if field.get("items") else "list"
    if field.get("type") == "object":
        return "mapping"
    words = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ", ".join(f"{sign} {field[name]:g}" for name, sign in words.items() if name in field)
    return " ".join(part for part in (field.get("type", "any value"), bounds) if part)


def commands() -> str:
    """Return the `--help` of every command, and the targets of make."""
    from envknee.commands import BENCHMARKS, listed

    targets = re.findall(r"^([a-z-]+):.*?## (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    parts = ["## make\n", table(("target", "what it does"), [(f"`make {name}`", cell(does)) for name, does in targets])]
    for name, command in listed().items():
        does = command.does[0].upper() + command.does[1:]
        where = " It runs only in a checkout." if name in BENCHMARKS else ""
        parts.append(f"\n## envknee {name}\n\n{cell(does)}.{where}\n\n```text\n{help_of(name, command.module)}\n```")
    return "\n".join(parts)


def help_of(name: str, module: str) -> str:
    """Return what `envknee NAME --help` prints."""
    printed, argv, columns = io.StringIO(), sys.argv, os.environ.get("COLUMNS")
    sys.argv, os.environ["COLUMNS"] = [f"envknee {name}", "--help"], "96"
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            importlib.import_module(module).main()
    finally:
        sys.argv = argv
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    assert printed.getvalue().startswith("usage: "), f"envknee {name} --help printed no usage"
    return printed.getvalue().strip()


def files_of_a_study() -> str:
    """Return a table of the files of a study and of a trial."""
    rows = []
    for folder, where in (("StudyFolder", ""), ("TrialFolder", "trials/0007/")):
        for node, after in itertools.pairwise(dict(classes("study/paths.py"))[folder].body):
            match node, after:
                case ast.Assign(value=ast.Call(args=[ast.Constant(name)])), ast.Expr(value=ast.Constant(does)):
                    rows.append((f"`{where}{name}`", cell(str(does))))
    return table(("file", "what it holds"), rows)


def classes(module: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes of a module of envknee."""
    tree = ast.parse((ROOT / "workflow/envknee" / module).read_text(encoding="utf-8"))
    yield from ((node.name, node) for node in tree.body if isinstance(node, ast.ClassDef))


def fields_of(module: str, name: str) -> dict[str, tuple[str, str]]:
    """Return by field its type and the words behind it in the code, those of base classes first."""
    from envknee.study.schema import field_docstrings

    model = getattr(importlib.import_module(f"envknee.{module.removesuffix('.py').replace('/', '.')}"), name)
    ours = [part for part in reversed(model.__mro__) if part.__module__.startswith("envknee.")]
    body = [node for part in ours for node in ast.parse(inspect.getsource(part)).body[0].body]  # type: ignore[attr-defined]
    words = field_docstrings(model)
    found: dict[str, tuple[str, str]] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind = node.annotation
            if isinstance(kind, ast.Subscript) and isinstance(kind.value, ast.Name) and kind.value.id == "Annotated":
                kind = kind.slice.elts[0] if isinstance(kind.slice, ast.Tuple) else kind.slice
            found[node.target.id] = ast.unparse(kind), words.get(node.target.id, "")
    return found


def fields(*of: tuple[str, str, str]) -> str:
    """Return a section with a table for each class: heading, module, name."""
    parts = []
    for heading, module, name in of:
        rows = [
            (f"`{field}`", f"`{cell(kind)}`", cell(words)) for field, (kind, words) in fields_of(module, name).items()
        ]
        about = cell(ast.get_docstring(dict(classes(module))[name]) or "")
        parts.append(f"### {heading}\n\n{about}\n\n{table(('field', 'type', 'meaning'), rows)}")
    return "\n\n".join(parts)


def trial_fields() -> str:
    """Return every field of a trial's files."""
    schema = "record/schema.py"
    return fields(
        ("request.json", schema, "Request"), ("metrics.jsonl, each line", schema, "Row"), ("outcome.json", schema, "Outcome"),
        ("cost.json", schema, "Cost"), ("record.json", schema, "Record"), ("A median with quartiles", schema, "Spread"),
        ("startup_s", schema, "StartUp"), ("memory_map", schema, "MemoryMap"), ("failure", schema, "Failure"),
    )  # fmt: skip


def verdict_fields() -> str:
    """Return the fields of verdict.json down to the headline of an arm."""
    schema = "verdict/schema/study.py"
    return fields(
        ("verdict.json", schema, "Verdict"),
        ("arms", schema, "ArmVerdict"),
        ("arms, headline", "verdict/schema/headline.py", "Headline"),
    )


def json_schemas() -> dict[str, str]:
    """Return by command the JSON schema of what it prints with --json."""
    from envknee.json_schemas import answering, schema_of

    return {name: f"{json.dumps(schema_of(name), indent=2, ensure_ascii=False)}\n" for name in answering()}


def json_commands() -> str:
    """Return a table of the commands that print JSON, each with its schema."""
    from envknee.commands import COMMANDS

    rows = [
        (f"`envknee {name} --json`", cell(COMMANDS[name].does), f"[{name}.json](schemas/{name}.json)")
        for name in json_schemas()
    ]
    return table(("command", "what it does", "schema"), rows)


def best_fields() -> str:
    """Return every field of what `envknee best --json` prints."""
    rows = [
        (f"`{field}`", f"`{cell(kind)}`", cell(words))
        for field, (kind, words) in fields_of("verdict/schema/best.py", "Best").items()
        if field != "schema_version"
    ]
    return table(("field", "type", "meaning"), rows)


def csv_columns() -> str:
    """Return every column of records.csv, with what the files of a trial say of it."""
    from envknee.decide.records_csv import CSV_COLUMNS

    known: dict[str, tuple[str, str]] = {}
    for name in ("Request", "Row", "Device", "Environment", "Outcome", "Record"):
        known |= {
            field: said for field, said in fields_of("record/schema.py", name).items() if said[1] or field not in known
        }
    return table(("column", "meaning"), [(f"`{name}`", cell(known.get(name, ("", ""))[1])) for name in CSV_COLUMNS])


def licences() -> str:
    """Return the packages of the lock files, with their licences."""
    with (ROOT / "containers/licences.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    heads = ("package", "version", "licence", "lists")
    return table(heads, [tuple(cell(row[head]) for head in heads) for row in rows])


GENERATED = {
    "study_keys": study_keys, "commands": commands, "files_of_a_study": files_of_a_study, "trial_fields": trial_fields,
    "verdict_fields": verdict_fields, "csv_columns": csv_columns, "licences": licences,
    "json_commands": json_commands, "best_fields": best_fields,
}  # fmt: skip
"""By the name in a page's mark, what stands there in the site."""
