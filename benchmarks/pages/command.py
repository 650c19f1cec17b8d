"""Write the numbers of README.md and docs/*.md from results-published, or check that they are written.

make numbers                   write
make numbers ARGS=--check      write nothing; show what would change, and end with 1
"""

import argparse
import difflib
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically

from benchmarks.pages import (
    blocks,
    default_study,
    faq,
    joint,
    lean,
    learning_rules,
    measuring,
    readme,
    results,
    scaling,
    tasks,
    trainers,
    tutorial,
    two_cameras,
    two_probes,
    verdicts,
)
from benchmarks.pages.marks import filled
from benchmarks.pages.published import ROOT

MODULES = (
    readme, tutorial, faq, results, lean, measuring, learning_rules, blocks, two_cameras, trainers, tasks, verdicts, scaling,
    two_probes, joint, default_study,
)  # fmt: skip

BLOCKS = dict(chain.from_iterable(module.BLOCKS.items() for module in MODULES))
"""By name in a mark, what writes the text there."""


def pages(root: Path) -> list[Path]:
    """Return the pages that may have marks."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def outdated(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield each page that is not what the records say: its path, its text, and what it has to be."""
    for page in pages(root):
        before = page.read_text(encoding="utf-8")
        after = filled(before, BLOCKS, page.relative_to(root).as_posix())
        if after != before:
            yield page, before, after


def difference(name: str, before: str, after: str) -> str:
    """Return a unified diff of a page without lines around each change."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, f"{name}, from the records", n=0
    )
    return "".join(lines)


def main() -> int:
    """Write the numbers of README.md and docs/*.md from results-published."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; show what would change, and end with 1 if anything would"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the folder with README.md and docs/ (this checkout)")
    arguments = parser.parse_args()
    root: Path = arguments.root
    if not (root / "README.md").is_file():
        raise UserError(f"--root is {root}: expected a folder with README.md and docs/. Name a checkout of envknee.")
    changed = list(outdated(root))
    if not arguments.check:
        for page, _, after in changed:
            write_atomically(page, after)
            print(f"envknee: wrote {page.relative_to(root)}")
        return 0
    for page, before, after in changed:
        sys.stdout.write(difference(page.relative_to(root).as_posix(), before, after))
    if changed:
        print(
            "envknee: pages differ from the records. `make numbers` writes them; text between marks is not written by hand."
        )
    return int(bool(changed))


if __name__ == "__main__":
    run_command(main)
