"""How the ends of several ranks make one, and when a rank is said to hang: pure decisions."""

import pytest
from envknee.measure.ranks import Heart, Ranks, one_outcome
from envknee.record.schema import Beat, Cost, Outcome, SlurmJob, Status
from envknee.run import nodes
from envknee.run.hang_watch import HangWatch, Pulse, beats_here, hanging
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.paths import TrialFolder
from records import a_trial, known


def outcome(status: Status = "ok", **changes: object) -> Outcome:
    return a_trial(16, status=status).ended(**changes).outcome


def test_all_well_is_well_and_rank_0_speaks():
    whole = known(one_outcome({0: outcome(total_s=5.0), 1: outcome(total_s=6.0, micro_batches=2)}, 2, "sha"))
    assert (whole.status, whole.reason, whole.total_s, whole.metrics_sha256) == ("ok", None, 6.0, "sha")
    assert whole.micro_batches == 2
    assert whole.ranks is not None and [(rank.rank, rank.status) for rank in whole.ranks] == [(0, "ok"), (1, "ok")]


@pytest.mark.parametrize("status", ["oom", "nan", "diverged"])
def test_one_rank_that_broke_decides_for_all(status: Status):
    broken = outcome(status, reason="why")
    for ends in ({1: broken}, {0: outcome("timeout", reason="late"), 1: broken}, {0: outcome(), 1: broken}):
        whole = one_outcome(ends, 2, None)
        assert whole is not None and (whole.status, whole.reason) == (status, "rank 1: why")


def test_a_rank_that_tells_nothing_makes_no_result():
    assert one_outcome({}, 2, None) is None
    assert one_outcome({0: outcome()}, 2, None) is None
    assert one_outcome({1: outcome("target_reached")}, 2, None) is None


def pulses(*ranks: tuple[str, float, float]) -> list[Pulse]:
    """(text, seconds since it changed, seconds since the process used the CPU), at 1,000 s."""
    return [Pulse(rank, text, 1000.0 - age, 0.0, 1000.0 - idle) for rank, (text, age, idle) in enumerate(ranks)]


@pytest.mark.parametrize(
    ("ranks", "culprit"),
    [
        ([("1 rollout 50", 1, 0), ("2 rollout 51", 40, 40)], None),  # rank 0 gets on
        ([("1 rollout 50", 31, 31), ("2 rollout 51", 31, 0)], "rank 0 hangs (rollout)"),
        ([("1 learning 60", 31, 0), ("2 learning 59", 31, 0)], "rank 1 hangs (learning)"),  # busy, but not getting on
        (
            [("1 learning 60", 31, 0), ("2 learning 60", 31, 0)],
            "rank 0 or 1 hangs (learning)",
        ),  # in the middle of an exchange
        ([("1 learner 5", 500, 0), ("2 environment 4", 500, 0)], None),  # rank 1 compiles kernels
        ([("1 learner 5", 500, 0), ("2 environment 4", 500, 31)], "rank 1 hangs (environment)"),
        ([("1 kernels 3", 500, 500), ("2 learner 5", 500, 0)], None),  # rank 0 waits for another trial's kernels
        ([("1 first_step 6", 40, 0), ("", 40, 40)], None),  # rank 1 imports from a slow disk
        ([("1 rollout 50", 29, 29), ("2 rollout 50", 29, 29)], None),
    ],
)
def test_who_holds_up_the_others_is_named(ranks: list[tuple[str, float, float]], culprit: str | None):
    message = hanging(pulses(*ranks), now_s=1000.0, hang_s=30.0)
    assert (message is None) if culprit is None else (message == f"{culprit}: no rank made progress for 30 s")


def test_a_heart_writes_process_stage_and_count(tmp_path):
    heart = Heart(Ranks(rank=1, folder=tmp_path))
    for stage in ("environment", "rollout", "rollout"):
        heart.beat(stage)
    ((rank, beat),) = beats_here(tmp_path).items()
    pulse = Pulse(rank, beat.text)
    assert (rank, pulse.stage, pulse.progress[1]) == (1, "rollout", 3) and beat.busy_s > 0
    Heart(Ranks()).beat("rollout")  # alone: nothing to write


def test_what_nodes_report_of_their_ranks_is_put_together(tmp_path):
    for node, rank in enumerate((2, 3)):
        report = {rank: Beat(text=f"7 rollout {rank}", busy_s=1.5)}
        (tmp_path / f"node-{node}.json").write_bytes(nodes.REPORT.dump_json(report))
    (tmp_path / "node-2.json").write_text("")  # caught while it is replaced
    assert {rank: beat.text for rank, beat in nodes.beats(tmp_path).items()} == {2: "7 rollout 2", 3: "7 rollout 3"}
    watch = HangWatch(lambda: nodes.beats(tmp_path), world_size=4)
    assert watch.look() is None and [pulse.stage for pulse in watch.pulses[2:]] == ["rollout", "rollout"]


def test_what_several_nodes_took_adds_up_where_all_tell(tmp_path):
    request = a_trial(16, gpus=2).request.model_copy(update={"nodes": 2})
    here = Cost(gpus=0, held_s=30.0, energy_j=None, slurm=SlurmJob(job_id="7", energy_j=900.0))

    def told(node: int, energy_j: float | None, job_j: float | None = None) -> Cost:
        cost = Cost(gpus=2, held_s=10.0, energy_j=energy_j, slurm=SlurmJob(job_id="7", energy_j=job_j))
        (tmp_path / f"cost-{node}.json").write_text(canonical_json(cost))
        return nodes.cost_of(tmp_path, request, here)

    first = told(0, 100.0)
    assert (first.gpus, first.held_s, first.energy_j) == (4, 30.0, None)
    assert first.slurm == SlurmJob(job_id="7")  # the launcher itself sees its own node alone
    assert told(1, 50.0, 1600.0).energy_j == 150.0
    both = told(0, None, 1700.0)  # asked later
    assert both.energy_j is None and both.slurm == SlurmJob(job_id="7", energy_j=1700.0)


def test_several_nodes_outside_of_a_job_are_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    request = a_trial(16, gpus=1).request.model_copy(update={"nodes": 2})
    assert (request.world_size, request.ranks_per_node) == (2, 1)
    with pytest.raises(UserError, match="nodes: 2 was asked for, and this is no SLURM job"):
        nodes.command_of(TrialFolder(tmp_path), request, tmp_path, None)
