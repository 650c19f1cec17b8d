"""A page as a headless Chromium shows it."""

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from needs import chromium, need
from records import known

FRAME = """<!DOCTYPE html><html><body style="margin: 0"><iframe width="%d" height="900" style="border: 0"></iframe><output></output><script>
const frame = document.querySelector("iframe");
const until = async (isTrue) => { while (!isTrue()) await new Promise((again) => setTimeout(again, 20)); };
const act = async (page, doc, errors) => { %s };
frame.onload = async () => {
  const page = frame.contentWindow, errors = [];
  page.addEventListener("error", (event) => errors.push(event.message));
  page.document.addEventListener("securitypolicyviolation", (event) => errors.push(event.violatedDirective + " " + event.blockedURI));
  let found;
  try { found = await act(page, page.document, errors); } catch (error) { found = { broke: String(error) }; }
  document.querySelector("output").textContent = JSON.stringify(found);
};
frame.src = "%s";
</script></body></html>
"""
"""A frame as wide as a screen, and a script that acts in it."""


def browse(address: str, where: Path, screenshot: Path | None = None) -> str:
    """Return the document that Chromium makes of a page once its scripts have run, or take a picture of it."""
    return _chromium(address, where, "--dump-dom" if screenshot is None else f"--screenshot={screenshot}")


def drive(page: Path, script: str, where: Path, width: int = 1280) -> Any:
    """Return what a script finds in a page of a file, on a screen of so many pixels.

    The script is the body of an async function of `page` (its window), `doc` (its document) and `errors` (messages of scripts that broke
    or were not let run). It may wait with `await until(() => ...)`.
    """
    frame = where / "frame.html"
    frame.write_text(FRAME % (width, script, page.resolve().as_uri()), encoding="utf-8")
    # Two files are of two origins otherwise, and the script could not look into the page.
    shown = _chromium(frame.as_uri(), where, "--dump-dom", "--allow-file-access-from-files")
    found = re.search(r"<output>(.*?)</output>", shown, re.DOTALL)
    assert found is not None and found[1], "the script came to no end"
    answer = json.loads(html.unescape(found[1]))
    assert not (isinstance(answer, dict) and "broke" in answer), answer
    return answer


def _chromium(address: str, where: Path, *options: str) -> str:
    need("chromium")
    command = [
        known(chromium()), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        f"--user-data-dir={where / 'chromium'}", "--window-size=1600,2400", "--virtual-time-budget=120000", *options, address,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
