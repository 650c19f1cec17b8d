"""What `envknee knee` prints last: what its time left open, the answer in a sentence, and the command to train with.

Input: the study's folder after a sweep. Output: lines; with `--time`, verdict and report of what was measured.
"""

import subprocess
import sys
import textwrap
from shutil import get_terminal_size

from envknee.decide.read import load_study
from envknee.decide.verdict_file import read_verdict
from envknee.record.read import load_records, without_skipped
from envknee.run import deadline, knee_alone
from envknee.run.card import study_card
from envknee.run.pool import Pool
from envknee.run.work import remake_records
from envknee.study import space
from envknee.study.errors import UserError, printable
from envknee.study.paths import StudyFolder
from envknee.verdict.foresight import next_gain
from envknee.verdict.lead import lead_of
from envknee.verdict.probes import knee_ahead
from envknee.verdict.schema.card import Card
from envknee.verdict.schema.foresight import Foresight, KneeForesight
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import by_series
from envknee.verdict.throughput import measured_fps
from envknee.words.answer import answer
from envknee.words.card import command_line
from envknee.words.knee import not_begun, time_is_over, too_short
from envknee.words.lead import lead_sentence
from envknee.words.progress import predicted

AFTER_TIME = ("verdict", "figures", "report")
"""What a sweep does after its last trial."""


MOST_WIDTH = 100


def close(
    folder: StudyFolder, status: int, given_time: str | None, command: str, search: knee_alone.Search | None = None
) -> int:
    """Print the end of a search whose sweep ended with `status`, and return the exit status.

    `given_time` is --time as typed, and `command` is what the user typed. `search` is the search whose trials may have run side by side
    on one machine.

    Raises:
        UserError: when the time had no room for a doubling.
    """
    over = deadline.noted(folder) if given_time is not None and status else None
    if over is not None and given_time is not None:
        _close_in_time(folder, over, given_time, command)
    elif status:
        return status
    verdict = read_verdict(folder)
    card = study_card(load_study(folder), verdict, load_records(folder))
    if over is None:
        beside = _neighbours(search, card)
        _print_sentence(verdict, card)
        if beside is not None:
            _print_wrapped(beside)
    _print_command(card)
    return 0


def _close_in_time(folder: StudyFolder, over: deadline.TimeOver, given_time: str, command: str) -> None:
    """Decide from what was measured, and print the answer below the command that goes on."""
    _remake_records(folder)
    sizes = {record.request.num_envs for record in without_skipped(load_records(folder)) if record.fps_total}
    if len(sizes) < 2:
        raise UserError(too_short(given_time, over.expected_s, len(sizes)))
    for name in AFTER_TIME:
        _run(name, folder)
    _print_wrapped(time_is_over(given_time, not_begun(over.num_envs, over.expected_s, over.left_s)))
    print(f"  {printable(command)}", flush=True)
    if (seen := _foresight(folder)) is not None:
        _print_wrapped(f"Not measured, {predicted(seen)}.")
    sys.stdout.flush()
    _run("summary", folder)  # its last line is the answer


def _foresight(folder: StudyFolder) -> Foresight | KneeForesight | None:
    """Return the predicted knee of two sizes, or gain of the next doubling; None with several horizons or batch sizes."""
    timed = [record for record in load_records(folder) if record.request.kind == "throughput" and record.fps_total]
    series = by_series(timed, "throughput")
    if len(series) != 1:
        return None
    (by_size,) = series.values()
    fps = {size: measured_fps(records) for size, records in by_size.items()}
    measured = {size: values for size, values in fps.items() if values}
    return knee_ahead(measured, load_study(folder).decide.delta) or next_gain(measured)


def _run(name: str, folder: StudyFolder) -> None:
    subprocess.run([sys.executable, "-m", "envknee", name, str(folder.root)], check=True)


def _remake_records(folder: StudyFolder) -> None:
    """Write the records that Snakemake has removed because their pool is not complete: their measurements are whole."""
    study = load_study(folder)
    for slots in space.pools(space.plan(study)):
        pool = Pool(study, folder, slots[0].number)
        with pool.locked():
            remake_records(pool, None)


def _neighbours(search: knee_alone.Search | None, card: Card) -> str | None:
    """Measure what trials side by side cost each other at the size to train with, and return it; None without any."""
    settings = (entry.setting for entry in card.entries if entry.kind == "throughput" and entry.setting is not None)
    setting = next(settings, None)
    return None if search is None or setting is None else knee_alone.say(search, setting.num_envs)


def _print_sentence(verdict: Verdict, card: Card) -> None:
    """Print the answer once more: Snakemake's last words stand below the summary."""
    answers = {arm.arm: answer(arm, verdict.rules) for arm in verdict.arms}
    _print_wrapped(lead_sentence(lead_of(verdict, card), answers))


def _print_command(card: Card) -> None:
    """Print the command to train with on a line of its own, to copy; nothing without a setting."""
    lines = (
        command_line(entry.command) for entry in card.entries if entry.command is not None and entry.setting is not None
    )
    if line := next(filter(None, lines), None):
        print(f"  {printable(line)}")


def _print_wrapped(text: str) -> None:
    width = min(get_terminal_size().columns, MOST_WIDTH)
    print(textwrap.fill(printable(text), width, break_on_hyphens=False, break_long_words=False))
