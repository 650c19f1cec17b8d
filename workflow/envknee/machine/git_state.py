"""The commit of the running code.

Input: this package's checkout, or ENVKNEE_GIT_COMMIT. Output: commit, whether files were changed, branch.
"""

import os
import shutil
import subprocess
from pathlib import Path

TOLD = "ENVKNEE_GIT_COMMIT"


def git_state() -> tuple[str | None, bool | None, str | None]:
    """Return (commit, whether tracked files differ from it, branch) of this package's checkout, or three times None.

    In a container, or on a node without the history, ENVKNEE_GIT_COMMIT holds the commit, such as `4816d1b-dirty`.
    """
    given = os.environ.get(TOLD)
    if given:
        return given.removesuffix("-dirty"), given.endswith("-dirty"), None
    git = shutil.which("git")
    if git is None:
        return None, None, None
    asked = (["rev-parse", "HEAD"], ["status", "--porcelain", "-uno"], ["rev-parse", "--abbrev-ref", "HEAD"])
    answers = [
        subprocess.run([git, "-C", str(Path(__file__).parent), *words], capture_output=True, text=True, check=False)
        for words in asked
    ]
    if any(answer.returncode for answer in answers):
        return None, None, None
    commit, status, branch = (answer.stdout.strip() for answer in answers)
    return commit, bool(status), branch


def as_told() -> dict[str, str]:
    """Return the variable with this checkout's commit, for processes without git; empty without a commit."""
    commit, dirty, _ = git_state()
    return {TOLD: f"{commit}-dirty" if dirty else commit} if commit else {}
