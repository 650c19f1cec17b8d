"""The scripts of a page, and the policy that lets a browser run these alone. Nothing comes from a network.

In: workflow/report/script, and the library of charts in workflow/report/vendor. Out: their text, with a hash of each.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from envknee.study.paths import PROJECT

LIBRARY = "vendor/echarts/echarts.min.js"


class Script(NamedTuple):
    """A script inside a page."""

    text: Markup
    sha256: str
    """Of exactly this text, as a policy names it: base64."""


def report_scripts(with_charts: bool) -> list[Script]:
    """Return the scripts of the report, in their order. A page without charts does without the library."""
    names = ["script/page.js", "script/trials.js"]
    return [_script(name) for name in ([LIBRARY, *names, "script/charts.js"] if with_charts else names)]


def policy(scripts: Sequence[Script]) -> Markup:
    """Return the content security policy of a page, for an attribute: it loads nothing, and runs these scripts alone."""
    hashes = " ".join(f"'sha256-{script.sha256}'" for script in scripts)
    allowed = f" script-src {hashes};" if scripts else ""
    text = f"default-src 'none';{allowed} img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return Markup(text)  # noqa: S704 - words of this file, and hashes


def _script(name: str) -> Script:
    text = (PROJECT / "workflow/report" / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), digest)  # noqa: S704 - files of this project
