"""The numbers of README.md and docs/*.md are those of the records (benchmarks/pages)."""

import re
import shutil
from pathlib import Path

import pytest
from envknee.study.errors import UserError
from programs import python, succeeded
from published import ROOT
from records import known

from benchmarks.pages.command import BLOCKS, MODULES, difference, outdated, pages
from benchmarks.pages.marks import filled, names_in


def test_every_page_says_what_the_records_say():
    """`make numbers` writes them."""
    differences = [difference(page.name, before, after) for page, before, after in outdated(ROOT)]
    assert not differences, "\n".join(differences)


def test_every_block_has_a_name_of_its_own_and_stands_in_a_page():
    assert len(BLOCKS) == sum(len(module.BLOCKS) for module in MODULES)
    assert {name for page in pages(ROOT) for name in names_in(page.read_text(encoding="utf-8"))} == set(BLOCKS)


@pytest.mark.parametrize(("name", "block"), [("README.md", "lean-frames"), ("docs/faq.md", "fits-24-gb")])
def test_a_number_changed_by_hand_is_shown_and_written_back(name: str, block: str, tmp_path: Path):
    """One in a table, and one in a sentence."""
    (tmp_path / "docs").mkdir()
    for path in {"README.md", name}:  # not all pages, whose numbers take seconds
        shutil.copy(ROOT / path, tmp_path / path)
    page, right = tmp_path / name, (ROOT / name).read_text(encoding="utf-8")
    begin = right.index(f"<!-- numbers: {block} -->")
    number = known(re.compile(r"\d+,\d{3}").search(right, begin))
    by_hand = f"{number[0][:-1]}{(int(number[0][-1]) + 1) % 10}"
    changed = f"{right[: number.start()]}{by_hand}{right[number.end() :]}"
    page.write_text(changed, encoding="utf-8")

    variables = {"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = ("-m", "envknee", "numbers", "--root", str(tmp_path))
    checked = python(*command, "--check", cwd=tmp_path, env=variables)
    lines = checked.stdout.splitlines()
    (removed,) = (line for line in lines if line.startswith("-") and not line.startswith("---"))
    (added,) = (line for line in lines if line.startswith("+") and not line.startswith("+++"))
    assert checked.returncode == 1
    assert by_hand in removed and number[0] in added
    assert page.read_text(encoding="utf-8") == changed, "a check writes nothing"

    assert name in succeeded(python(*command, cwd=tmp_path, env=variables))
    assert page.read_text(encoding="utf-8") == right


def test_text_outside_marks_stays_as_it_is():
    page = "a 1\n<!-- numbers: two -->\nold\n<!-- /numbers -->\nb <!-- numbers: two -->old<!-- /numbers --> 3\n"
    written = "a 1\n<!-- numbers: two -->\n\n2\n\n<!-- /numbers -->\nb <!-- numbers: two -->2<!-- /numbers --> 3\n"
    assert filled(page, {"two": lambda: "2"}, "page.md") == written
    assert filled(written, {"two": lambda: "2"}, "page.md") == written


@pytest.mark.parametrize(
    ("page", "named"),
    [
        ("<!-- numbers: tow -->1<!-- /numbers -->", "'tow'"),
        ("<!-- numbers: two -->1", "<!-- numbers: two -->"),
        ("1<!-- /numbers -->", "<!-- /numbers -->"),
        ("<!-- numbers: two -->1 <!-- numbers: two -->1<!-- /numbers -->", "<!-- numbers: two -->"),
        ("<!-- numbers two -->1<!-- /numbers -->", "<!-- numbers two -->"),
    ],
    ids=["unknown", "no end", "no begin", "one in another", "no colon"],
)
def test_a_wrong_mark_is_refused_by_name(page: str, named: str):
    with pytest.raises(UserError) as refusal:
        filled(page, {"two": lambda: "2"}, "docs/page.md")
    assert named in str(refusal.value) and "docs/page.md" in str(refusal.value)
