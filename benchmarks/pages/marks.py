"""Marks in a page, and what stands between them. Pure.

<!-- numbers: NAME -->      on a line of its own: a table or a list
<!-- /numbers -->

take <!-- numbers: NAME -->1,024<!-- /numbers --> of them      in a sentence: a value
"""

import re
from collections.abc import Callable, Mapping

from envknee.study.errors import UserError, nearest

Blocks = Mapping[str, Callable[[], str]]
"""By name, what returns the text between the marks."""

MARKED = re.compile(r"(<!-- numbers: (\S+) -->)(.*?)(<!-- /numbers -->)", re.DOTALL)
MARK = re.compile(r"<!-- /?numbers\b[^>]*-->")


def names_in(page: str) -> list[str]:
    """Return the names of a page's marks, in their order."""
    return [marked[2] for marked in MARKED.finditer(page)]


def filled(page: str, blocks: Blocks, where: str) -> str:
    """Return a page with the text between its marks written anew.

    Raises:
        UserError: when a mark has no other end, or names no block. It names the page, `where`.
    """
    for marked in MARKED.finditer(page):
        if MARK.search(marked[3]):
            raise UserError(
                f"{where}: {marked[1]} has no <!-- /numbers --> before the next mark. Write one behind its text."
            )
    alone = MARK.search(MARKED.sub("", page))
    if alone:
        raise UserError(
            f"{where}: {alone[0]} stands alone. Expected: <!-- numbers: NAME -->, text, <!-- /numbers -->. Add the other one."
        )

    def written(marked: re.Match[str]) -> str:
        begin, name, before, end = marked.groups()
        if name not in blocks:
            raise UserError(
                f"{where}: no numbers are called {name!r}{nearest(name, blocks)}. Expected one of: {', '.join(sorted(blocks))}."
            )
        text = blocks[name]().strip("\n")
        is_block = before.startswith("\n")
        return f"{begin}\n\n{text}\n\n{end}" if is_block else f"{begin}{text}{end}"

    return MARKED.sub(written, page)
