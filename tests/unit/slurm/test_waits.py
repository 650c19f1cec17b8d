"""Why jobs wait, and how a sweep ends its jobs. The lines are those of squeue 22.05."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from envknee.slurm import executor, facts, waits
from envknee.study.errors import UserError

DRAINED = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], None),
        (["None|N/A"], None),
        (
            ["Resources|2026-11-30T04:19:25"],
            "1 job waits: the nodes that fit are in use (Resources). SLURM expects a start by 2026-11-30 04:19",
        ),
        (
            ["Resources|2026-11-30T04:19:25", "Priority|2026-11-29T05:00:00", "Priority|N/A"],
            "3 jobs wait: the nodes that fit are in use (Resources). SLURM expects a start by 2026-11-29 05:00",
        ),
        (["Priority|N/A", "Priority|N/A"], "2 jobs wait: other jobs come first (Priority)"),
        ([f"{DRAINED}|N/A"], f"1 job waits: the nodes that fit are down, drained or reserved ({DRAINED})"),
        (["QOSMaxGRESPerUser|N/A"], "1 job waits: a limit of your quality of service (QOSMaxGRESPerUser)"),
        (["AssocGrpBillingMinutes|N/A"], "1 job waits: a limit of your account (AssocGrpBillingMinutes)"),
        (["Something new|N/A"], "1 job waits: Something new"),
    ],
)  # fmt: skip
def test_a_reason_of_squeue_is_a_sentence(lines: list[str], said: str | None):
    assert waits.sentence(lines) == said


def test_why_jobs_wait_is_told_once_and_when_it_changes(monkeypatch: pytest.MonkeyPatch):
    told, answer = list[str](), [""]

    def ask(command: Sequence[str]) -> str:
        assert "--name=envknee_1" in command
        if answer[0] == "away":
            raise UserError("the controller is away")
        return answer[0]

    monkeypatch.setattr(facts, "ask", ask)
    watch = waits.Watch("envknee_1", told.append)
    for text in (
        "",
        "None|N/A\n",
        "Resources|N/A\n",
        "Resources|N/A\nPriority|N/A\n",
        "away",
        f"{DRAINED}|N/A\n",
        "",
        f"{DRAINED}|N/A\n",
    ):
        answer[0] = text
        watch.look()
    assert [line.partition(" (")[0] for line in told] == [
        "1 job waits: the nodes that fit are in use",
        "1 job waits: the nodes that fit are down, drained or reserved",
        "1 job waits: the nodes that fit are down, drained or reserved",  # after a while in which none waited
    ]


class AnExecutor:
    """The parts of the plugin's executor that are replaced."""

    def __init__(self) -> None:
        self.run_uuid, self.slurm_logdir, self.wait = "envknee_1", Path(), True
        self.next_seconds_between_status_checks = 180.0
        self.sleep: Any = None
        self.cancelled = list[Any]()
        self.cancel_jobs: Any = self.cancelled.extend
        self._job_submission_executor = ThreadPoolExecutor(1)


def test_a_sweep_that_ends_waits_for_no_look_at_its_jobs(tmp_path: Path):
    here = AnExecutor()
    executor.adapt(here, tmp_path, print)
    assert here.slurm_logdir == tmp_path

    async def end_while_it_sleeps() -> float:
        sleeping, began_s = asyncio.create_task(here.sleep()), time.monotonic()
        await asyncio.sleep(0.1)
        here.wait = False
        await sleeping
        return time.monotonic() - began_s

    assert asyncio.run(end_while_it_sleeps()) < 30


def test_all_jobs_of_a_sweep_are_cancelled_also_those_that_the_executor_does_not_know_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked, told = list[Sequence[str]](), list[str]()

    def ask(command: Sequence[str]) -> str:
        asked.append(command)
        return "7\n8\n" if command[0] == "squeue" else ""

    monkeypatch.setattr(facts, "ask", ask)
    here = AnExecutor()
    executor.adapt(here, tmp_path, told.append)
    here.cancel_jobs([])
    assert told == ["cancelling 2 jobs; what is recorded stays"]
    assert asked[-1][0] == "scancel" and "--name=envknee_1" in asked[-1]
    assert here.cancelled == []
    with pytest.raises(RuntimeError, match="shutdown"):
        here._job_submission_executor.submit(print)

    def away(command: Sequence[str]) -> str:
        raise UserError("the controller is away")

    monkeypatch.setattr(facts, "ask", away)
    here.cancel_jobs(["7"])
    assert "scancel --name=envknee_1" in told[-1] and here.cancelled == ["7"]
