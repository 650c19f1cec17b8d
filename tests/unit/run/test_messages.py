"""What a sweep's terminal shows of Snakemake's messages, and what it does at its end."""

import io
import logging
import os
from pathlib import Path
from typing import Any

from envknee.run import mend, sweep_end
from envknee.run.messages import BetweenTrials, DryRun, FailedJobs
from envknee.study.errors import EXIT_TO_MEND, EXIT_USER_ERROR, ToMend, UserError
from envknee.study.paths import StudyFolder
from snakemake_interface_logger_plugins.common import LogEvent


def a_message(text: str, **more: Any) -> logging.LogRecord:
    record = logging.LogRecord("snakemake", logging.INFO, "", 0, text, None, None)
    record.__dict__.update(more)
    return record


def test_lines_between_trials_are_left_out_and_errors_only_at_the_end_of_an_allocation():
    for is_closing in (False, True):
        shown = BetweenTrials(lambda is_closing=is_closing: is_closing)
        assert not shown.filter(a_message("Select jobs to execute..."))
        assert shown.filter(a_message("Trying to restart job 7.")) != is_closing
        assert shown.filter(a_message("MissingInputException in rule trial"))


def test_a_failed_job_says_why_in_one_line():
    stream = io.StringIO()
    handler = FailedJobs(stream)
    failed = a_message("", event=LogEvent.JOB_ERROR, rule_name="trial", rule_msg="sbatch: error: no account\nmore")
    unchanged = dict(failed.__dict__)
    for record in (failed, a_message("", event=LogEvent.JOB_ERROR, rule_msg=None), a_message("other", rule_msg="x")):
        handler.emit(record)
    assert stream.getvalue() == "envknee: a job of 'trial' failed: sbatch: error: no account\n"
    assert failed.__dict__ == unchanged


def of_a_job(logs: list[Path]) -> logging.LogRecord:
    """Return what Snakemake 9.27.1 and the SLURM executor 2.8.0 send of a job that failed."""
    said = (
        "SLURM-job '7' failed, SLURM status is: 'FAILED'. Reason: Unknown.For further error details see the cluster/cloud log"
        " and the log files of the involved rule(s)."
    )
    return a_message("", event=LogEvent.JOB_ERROR, rule_name="trial", jobid=4, rule_msg=said, log=[*map(str, logs)])


def test_a_failed_job_of_a_cluster_names_the_logs_that_exist(tmp_path: Path):
    stream = io.StringIO()
    there = tmp_path / "7.log"
    there.touch()
    FailedJobs(stream).emit(of_a_job([tmp_path / "trial-0000.log", there]))
    said = f"envknee: a job of 'trial' failed: SLURM-job '7' failed, SLURM status is: 'FAILED'. Reason: Unknown. See {there}\n"
    assert stream.getvalue() == said


def test_what_has_to_be_mended_is_told_in_the_jobs_own_words_and_is_not_tried_again(tmp_path: Path):
    stream, given_up = io.StringIO(), list[int]()
    handlers = [FailedJobs(stream), mend.NotAgain(given_up.append)]
    log = tmp_path / "trial-0000.log"

    def fail() -> str:
        stream.truncate(0)
        for handler in handlers:
            handler.emit(of_a_job([log, tmp_path / "7.log"]))
        return stream.getvalue()

    assert mend.status_of([ToMend("gpus: 1 was asked for"), UserError("a driver hangs")], log) == EXIT_USER_ERROR
    assert "SLURM-job '7' failed" in fail() and given_up == []
    assert mend.status_of([ToMend("gpus: 1 was asked for")], log) == EXIT_TO_MEND
    assert "is not tried again before you mend this: gpus: 1 was asked for\n" in fail() and given_up == [4]
    mend.forget(tmp_path)
    assert "SLURM-job '7' failed" in fail() and given_up == [4], "a sweep looks at its own errors only"


def test_a_dry_run_prints_the_plan_and_the_table_once():
    for is_dry_run, lines in ((True, ["the plan", "Job stats: 3", "Job stats: 4"]), (False, [])):
        stream = io.StringIO()
        handler = DryRun(lambda is_dry_run=is_dry_run: is_dry_run, lambda tell: tell("the plan"), stream)
        for table in ("Job stats: 3", "Job stats: 3", "Job stats: 4"):
            handler.emit(a_message(table, event=LogEvent.RUN_INFO))
        handler.emit(a_message("other"))
        assert stream.getvalue().splitlines() == lines


def test_a_whole_study_is_summed_up_and_its_report_gets_links_to_runs_that_came_later(tmp_path: Path):
    folder = StudyFolder(tmp_path)
    record = folder.trial(0).record
    record.parent.mkdir(parents=True)
    for path in (record, folder.verdict, folder.report):
        assert sweep_end.commands(folder, [record]) == []
        path.write_text("{}")
    assert sweep_end.commands(folder, [record]) == ["summary"]
    folder.published.write_text("{}")
    for path, seconds in ((folder.report, 100), (folder.published, 200)):
        os.utime(path, (seconds, seconds))
    assert sweep_end.commands(folder, [record]) == ["report", "summary"]
    os.utime(folder.report, (300, 300))
    assert sweep_end.commands(folder, [record]) == ["summary"]
    assert sweep_end.commands(folder, [record, folder.trial(1).record]) == []


def test_a_record_that_is_missing_at_the_end_is_named(tmp_path: Path):
    records = [StudyFolder(tmp_path).trial(number).record for number in range(2)]
    records[0].parent.mkdir(parents=True)
    records[0].write_text("{}")
    assert "1 of 2 trials were not measured: 0001." in (sweep_end.why_incomplete(records) or "")
    assert sweep_end.why_incomplete(records[:1]) is None
