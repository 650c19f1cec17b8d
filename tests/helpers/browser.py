"""A page as a headless Chromium shows it."""

import subprocess
from pathlib import Path

from needs import chromium, need
from records import known


def browse(address: str, where: Path, screenshot: Path | None = None) -> str:
    """Return the document that Chromium makes of a page once its scripts have run, or take a picture of it."""
    need("chromium")
    command = [
        known(chromium()), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        f"--user-data-dir={where / 'chromium'}", "--window-size=1600,2400", "--virtual-time-budget=120000",
        "--dump-dom" if screenshot is None else f"--screenshot={screenshot}", address,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
