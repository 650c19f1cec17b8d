"""The page of a history: one HTML file, readable offline.

Input: a history; the template workflow/report/history.html. Output: the page's text, which loads and runs nothing.
"""

from envknee.after.history import figure
from envknee.show.page import drawn
from envknee.show.report import template
from envknee.show.scripts import policy
from envknee.verdict.schema.history import History
from envknee.words import history as words


def page(history: History) -> str:
    """Return the page: what was found, the figure, and each machine's versions."""
    return template("history.html").render(
        policy=policy([]), words=words, history=history, figure=drawn(figure.draw(history))
    )
