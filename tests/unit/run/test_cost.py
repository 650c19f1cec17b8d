"""What a trial took: energy between two readings, the times of its job, sums per arm."""

import json
import time
from pathlib import Path

import pytest
from envknee.decide.study import decide
from envknee.machine import processes
from envknee.record.build import build_record
from envknee.record.schema import Cost, Lost, Record, SlurmJob
from envknee.run import attempts, cost
from envknee.run.cost import parse_job, slurm_job, spent_j
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, write_atomically
from envknee.study.paths import TrialFolder
from envknee.verdict import spending
from envknee.words.spending import spending_statement
from records import GPU, a_study, a_trial, known, records_of

JOB = (
    "JobId=7 JobName=x UserId=a(1) JobState=RUNNING SubmitTime=2026-11-21T10:00:00 EligibleTime=2026-11-21T10:00:00"
    " StartTime=2026-11-21T10:01:30 Partition=gpu NodeList=n1 Comment=rule_trial_wildcards_0007"
)


def test_a_job_tells_when_it_was_submitted_and_started(monkeypatch: pytest.MonkeyPatch):
    job = parse_job("7", JOB)
    assert (job.partition, job.nodes) == ("gpu", "n1")
    assert job.started_unix_s - job.submitted_unix_s == 90
    assert parse_job("7", JOB.replace("2026-11-21T10:01:30", "Unknown")).started_unix_s is None
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert slurm_job() is None
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("PATH", "/nowhere")
    assert slurm_job() == SlurmJob(job_id="7")


def test_a_job_that_a_person_sweeps_in_is_no_trials_own():
    job = parse_job("7", JOB.replace("rule_trial_wildcards_0007", "mine"), "7.batch|1000")
    assert job == SlurmJob(job_id="7", partition="gpu", nodes="n1")


def test_trials_of_a_blocks_job_share_what_it_waited_and_took(monkeypatch: pytest.MonkeyPatch):
    block = JOB.replace("rule_trial_wildcards_0007", "rule_block_0007")
    assert parse_job("7", block) == parse_job("7", JOB)
    now, steps = parse_job("7", block).started_unix_s or 0.0, iter((1000, 1600, None, 2500))
    monkeypatch.setattr(cost, "slurm_job", lambda: parse_job("7", block, f"7.batch|{next(steps)}"))
    job = cost.Costs([], now + 20)
    job.start()  # breaks without a result
    first, *others = [job.start()() for _ in range(4)]
    assert first.slurm is not None and first.slurm.submitted_unix_s == now - 90
    assert first.held_s == pytest.approx(20, abs=1)  # from the job's start to the block's
    assert [other.held_s for other in others] == pytest.approx([0, 0, 0], abs=1)
    assert all(other.slurm == SlurmJob(job_id="7", partition="gpu", nodes="n1", energy_j=energy_j)
               for other, energy_j in zip(others, (600.0, None, 900.0), strict=True))  # fmt: skip
    assert first.slurm.energy_j == 1000.0
    assert [with_cost(trial).queue_wait_s for trial in (first, *others)] == [90.0, None, None, None]


def test_slurms_joules_are_those_of_the_largest_step():
    # What sstat of SLURM 22.05 says: two nodes with a sensor that counts 100 W, the batch step on the first and one step on both.
    assert parse_job("2", JOB, "2.batch|800\n2.0|1600\n").energy_j == 1600.0
    # Nodes without a sensor, a job that has just ended, a value that SLURM has not got, an older sstat's.
    for steps in ("1.batch|0\n1.0|0\n", "", "1.batch|18446744073709551614\n", "1.batch|\n", "1.batch|1K\n"):
        assert parse_job("1", JOB, steps).energy_j is None


def test_energy_is_what_all_counters_grew_by():
    assert spent_j([100.0, 5.0], [150.0, 25.0]) == 70.0
    assert spent_j([], []) is None  # the CPU
    assert spent_j([100.0, None], [150.0, 5.0]) is None  # a part is no sum


def with_cost(cost: Cost | None, number: int = 0) -> Record:
    trial = a_trial(16, number=number, device=GPU, gpus=1)
    return build_record(trial.request, trial.rows, trial.outcome, cost)


def test_a_record_tells_gpu_hours_energy_and_waiting_and_an_older_one_its_processs_own_time():
    slurm = SlurmJob(job_id="7", submitted_unix_s=1000.0, started_unix_s=1090.0)
    record = with_cost(Cost(gpus=2, held_s=1800.0, energy_j=7.2e5, slurm=slurm))
    assert (record.gpu_hours, record.energy_j, record.queue_wait_s) == (1.0, 7.2e5, 90.0)
    alone = with_cost(Cost(gpus=1, held_s=3600.0, energy_j=None, slurm=SlurmJob(job_id="8")))
    assert (alone.gpu_hours, alone.energy_j, alone.queue_wait_s) == (1.0, None, None)
    older = with_cost(None)
    assert older.gpu_hours == older.outcome.total_s / 3600 > 0
    assert older.energy_j is None and older.queue_wait_s is None


def test_attempts_that_left_no_result_are_counted_at_the_one_that_did(tmp_path: Path):
    trial = TrialFolder(tmp_path)
    with pytest.raises(ZeroDivisionError), attempts.counted(trial) as (lost, _):
        assert lost == Lost()
        raise ZeroDivisionError
    written = json.loads(trial.attempts.read_text())
    trial.attempts.write_text(json.dumps(written | {"lived_s": 90.0}))  # killed: its last sign of life stays
    with attempts.counted(trial) as (lost, _):
        pass  # the machine is lost at once
    with attempts.counted(trial) as (lost, alive):
        alive()
        assert lost.attempts == 2 and lost.held_s == pytest.approx(90, abs=1)
        trial.outcome.write_text("{}")
    assert not trial.attempts.exists()


@pytest.mark.parametrize("jump_s", [-3600.0, 365 * 86400.0])
def test_a_clock_that_is_set_meanwhile_changes_no_duration(tmp_path: Path, monkeypatch, jump_s: float):
    now, began_s, trial = time.time(), time.monotonic(), TrialFolder(tmp_path)
    with attempts.counted(trial):
        spent = cost.Costs([]).start()
        monkeypatch.setattr(time, "time", lambda: now + jump_s)
        assert 0 <= spent().held_s <= time.monotonic() - began_s
    assert 0 <= json.loads(trial.attempts.read_text())["lived_s"] <= time.monotonic() - began_s
    assert 0 < processes.age_s() < time.clock_gettime(time.CLOCK_BOOTTIME), "this machine is older"


def test_an_attempt_that_comes_back_late_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """SLURM starts a trial again when it loses sight of a node; the first attempt may still run there."""
    trial = TrialFolder(tmp_path)
    newer = attempts.Attempts(began_unix_s=0.0, lost=Lost(attempts=1))
    with (
        pytest.raises(UserError, match=r"another attempt .* this one \(number 1\)"),
        attempts.counted(trial) as (_, alive),
    ):
        attempts.check_newest(trial)
        trial.attempts.write_text(newer.model_dump_json())
        monkeypatch.setattr(attempts, "SIGN_OF_LIFE_S", 0.0)
        alive()
    assert attempts.Attempts.model_validate_json(trial.attempts.read_text()) == newer
    late = a_trial(16).outcome.model_copy(update={"metrics_sha256": None})
    write_atomically(trial.outcome, canonical_json(late))
    assert "is of attempt 1, which came back after" in (attempts.forget_torn(trial) or "")
    write_atomically(trial.outcome, canonical_json(late.model_copy(update={"attempt": 2})))
    assert attempts.forget_torn(trial) is None
    assert "attempt" not in late.model_dump() and late.model_copy(update={"attempt": 2}).model_dump()["attempt"] == 2


def test_a_note_that_another_node_removes_while_it_is_looked_for_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A network disk says for seconds that a removed file is there: opening it tells."""
    trial = TrialFolder(tmp_path)
    write_atomically(trial.outcome, canonical_json(a_trial(16).outcome.model_copy(update={"metrics_sha256": None})))
    monkeypatch.setattr(Path, "exists", lambda _: True)
    assert attempts.why_torn(trial) is None
    attempts.settle(trial, gpus=1)
    assert attempts.note_crash(trial) == 1


def test_lost_attempts_are_told_beside_the_price():
    whole = Cost(gpus=2, held_s=1800.0, energy_j=None)
    lost = whole.model_copy(update={"lost": Lost(attempts=3, held_s=900.0)})
    records = [with_cost(whole, 0), with_cost(lost, 1)]
    assert (records[1].gpu_hours, records[1].lost_gpu_hours) == (1.0, 0.5)
    assert spending_statement(spending.analyse(records, ["stock"])[-1]) == (
        "2.00 GPU-hours in 2 trials; 3 attempts were lost with 0.50 GPU-hours more"
    )
    assert "lost" not in spending_statement(spending.analyse(records[:1], ["stock"])[-1])


def test_arms_and_verdict_are_summed():
    slurm = SlurmJob(job_id="7", submitted_unix_s=0.0, started_unix_s=40.0)
    records = [
        with_cost(Cost(gpus=1, held_s=3600.0, energy_j=1.8e6, slurm=slurm), 0),
        with_cost(Cost(gpus=1, held_s=1800.0, energy_j=None), 1),
    ]
    own, everything = spending.analyse(records, ["stock"])
    assert own.arm == "stock" and everything.arm is None
    assert everything.gpu_hours == 1.5 and known(everything.energy).kwh == pytest.approx(0.5)
    said = "1.50 GPU-hours in 2 trials, 0.50 kWh in 1 of them; a job waited 40 s (median), 40 s at most"
    assert spending_statement(everything) == said
    records.append(with_cost(Cost(gpus=1, held_s=0.0, energy_j=None, slurm=SlurmJob(job_id="8", energy_j=7.2e6)), 2))
    together = spending.analyse(records, ["stock"])[-1]
    assert "in 3 trials, 0.50 kWh in 1 of them, 2.00 kWh by whole nodes in 1 of them; a job" in spending_statement(
        together
    )
    cpu = decide(records_of([a_trial(16)]), a_study()).spending
    assert [record.gpu_hours for record in cpu] == [0.0, 0.0]
    assert "hours without a GPU in 1 trial" in spending_statement(cpu[-1])
