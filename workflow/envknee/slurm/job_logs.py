"""Logs of jobs. SLURM opens them as the user, on the node: a job whose log cannot be opened dies at once, and nothing says why.

Input: a study's folder. Output: the folder for these logs in it.
"""

from pathlib import Path

from envknee.study.files import check_writable, make_folder
from envknee.study.paths import StudyFolder


def prepare(folder: StudyFolder) -> Path:
    """Make the folder for what a study's jobs print, and return its whole path.

    Raises:
        UserError: names a folder in which this user cannot make files.
    """
    logs = folder.job_logs.absolute()
    make_folder(logs)
    check_writable([logs, *sorted(path for path in logs.rglob("*") if path.is_dir())])
    return logs
