"""A cluster's description, what jobs ask for, and what does not fit: decided without a SLURM."""

import math
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import pytest
import records
from envknee.machine import gpus
from envknee.slurm import admission, checks, facts, jobs, node, rule_resources, site
from envknee.slurm.facts import Cluster
from envknee.slurm.site import Site
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.space import plan
from places import ROOT
from programs import a_program, ran, succeeded, told
from records import known

PROFILE = ROOT / "workflow/profiles/slurm"

PARTITIONS = (
    "PartitionName=gpu AllowGroups=ALL Default=YES MaxTime=1-12:30:00 PreemptMode=OFF State=UP TotalNodes=2\n"
    "PartitionName=debug MaxTime=00:10:00 PreemptMode=CANCEL State=UP\n"
    "PartitionName=old MaxTime=UNLIMITED State=DOWN\n"
)
NODES = (
    "n1|gpu:h100:4(S:0-1),nvme:1|64|512000|h100,nvlink|idle|none\n"
    "n2|gpu:a100:8(S:0-3)|128|1024000+|a100,nvlink|mixed|none\n"
    "n2|gpu:a100:8(S:0-3)|128|1024000+|a100,nvlink|mixed|none\n"
    "n3|(null)|32|64000|(null)|idle|none\n"
)
"""sinfo 22.05, as `facts.observe` asks it."""


def a_study(**sections: Any) -> Study:
    plain: dict[str, Any] = {
        "arms": {"one": {}, "four": {"gpus": 4}, "cpu": {"gpus": 0}},
        "throughput": {"num_envs": [16], "horizon": [8], "batch_size": 128, "repeats": 1, "limit_s": 600},
        "learning": {
            "num_envs": [16], "horizon": [8], "batch_size": 128, "repeats": 1, "target_reward": 4, "budget_s": 600,
            "limit_s": 3600,
        },
    }  # fmt: skip
    return records.a_study(**plain | sections)


def a_cluster(**changes: Any) -> Cluster:
    known: dict[str, Any] = {
        "partitions": facts.parse_partitions(PARTITIONS),
        "nodes": facts.parse_nodes(NODES),
        "accounts": frozenset({"robots", "vision"}),
        "qos": frozenset({"normal", "long"}),
    }
    return Cluster(**(known | changes))


def test_the_site_that_ships_is_legal_and_has_every_key():
    shipped = site.load(PROFILE / "site.yaml")
    assert shipped == Site(partition="gpu")
    text = (PROFILE / "site.yaml").read_text(encoding="utf-8")
    assert [key for key in Site.model_fields if f"\n{key}:" not in text] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partion: gpu", ["partion: unknown key (did you mean 'partition'?)", "partition: this key is needed"]),
        ("partition: gpu; rm -rf x", ["partition: expected a name", "'gpu; rm -rf x'"]),
        ("{partition: gpu, account: 1234}", ["account: expected a name", "in quotes", "1234"]),
        ("{partition: gpu, gpu_type: 'gpu:h100'}", ["gpu_type: expected a kind of GPU"]),
        ("{partition: gpu, constraint: '$(x)'}", ["constraint: expected features"]),
        ("{partition: gpu, slurm_extra: '--mail-user=a@b.c; x'}", ["slurm_extra: expected options", "'--mail-user=a@b.c;' is none"]),
        ("{partition: gpu, slurm_extra: --gres=gpu:1}", ["--gres=gpu:1 is decided by other lines"]),
        ("{partition: gpu, slurm_extra: --gpus-per-node=4}", ["--gpus-per-node=4 is decided by other lines"]),
        ("{partition: gpu, slurm_extra: --mem-per-gpu=8G}", ["--mem-per-gpu=8G is decided by other lines"]),
        ("{partition: gpu, max_gpus: 0}", ["max_gpus: expected greater than or equal to 1 (got 0)"]),
        ("partition: gpu\nqos: long\npartition: urgent", ["is not YAML", "the key partition stands there twice", "line 3"]),
        ("", ["does not describe a cluster"]),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_with_its_value(tmp_path: Path, text: str, words: list[str]):
    path = tmp_path / "site.yaml"
    path.write_text(text, encoding="utf-8")
    told(lambda: site.load(path), *words)


def test_a_site_that_is_missing_says_where_one_comes_from(tmp_path: Path):
    with pytest.raises(UserError, match=r"does not exist.*copy workflow/profiles/slurm/site.yaml"):
        site.load(tmp_path / "none.yaml")


def test_a_trial_asks_for_its_arms_gpus_and_its_limits_time():
    study = a_study()
    mine = Site(
        partition="gpu", gpu_type="h100", cpus_per_gpu=8, mem_gb_per_gpu=64, account="robots", slurm_extra="--x=y"
    )
    asked = {(slot.arm, slot.kind): jobs.job_of(*jobs.block_work(study, [slot]), mine) for slot in plan(study)}
    # 600 s x 1.1 + 5 min, and 3600 s x 1.1 + 5 min.
    assert asked["one", "throughput"] == jobs.Job(jobs.Shape(1), cpus=8, mem_mb=64000, minutes=16)
    assert asked["four", "throughput"] == jobs.Job(jobs.Shape(4), cpus=32, mem_mb=256000, minutes=16)
    assert asked["cpu", "learning"] == jobs.Job(jobs.Shape(0), cpus=8, mem_mb=64000, minutes=71)
    assert asked["four", "throughput"].resources(mine) == {
        "slurm_partition": "gpu", "slurm_account": "robots", "slurm_extra": "--x=y", "gres": "gpu:h100:4", "nodes": 1,
        "cpus_per_task": 32, "mem_mb": 256000, "runtime": 16,
    }  # fmt: skip
    assert "gres" not in asked["cpu", "learning"].resources(mine)
    assert set(asked["four", "throughput"].resources(mine)) <= set(jobs.resource_names())
    assert jobs.Job(jobs.Shape(2), 8, 64000, 16).resources(Site(partition="gpu"))["gres"] == "gpu:2"
    whole = jobs.Job(jobs.Shape(4), cpus=32, mem_mb=256000, minutes=55)  # three arms
    assert jobs.job_of(*jobs.prepare_work(study), mine) == whole


def test_an_option_of_slurm_is_one_line():
    class Larger(Site):
        licenses: Annotated[site.Name | None, site.Slurm("slurm_licenses")] = None
        reservation: Annotated[site.Name | None, site.Slurm("--reservation")] = None

    asked = Larger(partition="gpu", licenses="newton", reservation="knee", slurm_extra="--x=y").asked()
    assert asked == {"slurm_partition": "gpu", "slurm_licenses": "newton", "slurm_extra": "--x=y --reservation=knee"}
    assert Larger(partition="gpu", reservation="knee").asked()["slurm_extra"] == "--reservation=knee"
    assert "slurm_licenses" in Larger.resources() and "--reservation" not in Larger.resources()


def test_a_node_that_does_not_show_what_slurm_gave_is_named(monkeypatch: pytest.MonkeyPatch):
    assert node.described().endswith(f"GB free in {tempfile.gettempdir()}")
    seen = len(gpus.visible_uuids())
    monkeypatch.setenv(node.GIVEN, str(seen))
    assert node.missing_gpus() is None
    monkeypatch.setenv(node.GIVEN, str(seen + 2))
    warning = known(node.missing_gpus())
    assert warning.startswith(f"SLURM gave this job {seen + 2} GPUs on ")
    assert f"CUDA shows {seen or 'none'}: " in warning


def test_each_attempt_gets_more_time_up_to_the_partitions_limit():
    mine = Site(partition="gpu")
    assert [jobs.job_of(jobs.Shape(1), 600, mine, attempt).minutes for attempt in (1, 2, 3)] == [16, 24, 32]
    assert [jobs.job_of(jobs.Shape(1), 600, mine, attempt, 30).minutes for attempt in (1, 2, 3)] == [16, 24, 30]


def test_an_arm_larger_than_the_cap_or_than_any_node_is_named():
    with pytest.raises(UserError, match=r"arms\.four: a trial asks for 4 GPUs, and max_gpus of the site is 2"):
        jobs.check_cap(a_study(), Site(partition="gpu", max_gpus=2))
    jobs.check_cap(a_study(), Site(partition="gpu", max_gpus=4))
    study = a_study(arms={"many": {"gpus": 16}})
    (line,) = checks.problems(study, Site(partition="gpu", max_gpus=16), a_cluster())
    assert "arms.many: 16 GPUs asked for" in line and "more than 8" in line


def test_an_arm_of_several_nodes_is_one_job_that_starts_a_task_on_each():
    study = a_study(arms={"wide": {"gpus": 4, "nodes": 2}, "cpu": {"gpus": 0, "nodes": 4}}, learning=None)
    mine = Site(partition="gpu", gpu_type="h100", cpus_per_gpu=8, mem_gb_per_gpu=64)
    wide = next(jobs.job_of(*jobs.block_work(study, [slot]), mine) for slot in plan(study) if slot.arm == "wide")
    assert wide == jobs.Job(jobs.Shape(4, nodes=2), cpus=32, mem_mb=256000, minutes=16)
    asked = wide.resources(mine)
    assert set(asked) <= set(jobs.resource_names())
    assert (asked["gres"], asked["nodes"], asked["tasks"], asked["mpi"]) == ("gpu:h100:4", 2, 2, "srun")
    assert jobs.prepare_work(study)[0] == jobs.Shape(4)
    assert [str(shape) for shape in jobs.arms_by_shape(study)] == ["4 nodes' CPUs", "2 nodes of 4 GPUs"]
    words = r"arms\.wide: a trial asks for 2 nodes of 4 GPUs, and max_gpus of the site is 7"
    with pytest.raises(UserError, match=words):
        jobs.check_cap(study, Site(partition="gpu", max_gpus=7))
    jobs.check_cap(study, Site(partition="gpu", max_gpus=8))
    text = "\n".join(checks.problems(study, mine, a_cluster()))
    assert "arms.cpu: 4 nodes' CPUs asked for, and partition 'gpu' has only 3 such" in text
    assert "arms.wide: 2 nodes of 4 GPUs of type h100 asked for, and partition 'gpu' has only 1 such" in text


def test_slurms_own_words_are_read():
    partitions = facts.parse_partitions(PARTITIONS)
    longest = {name: partition.max_minutes for name, partition in partitions.items()}
    assert longest == {"gpu": 2190, "debug": 10, "old": None}
    assert [name for name, partition in partitions.items() if partition.is_up] == ["gpu", "debug"]
    nodes = {node.name: node for node in facts.parse_nodes(NODES)}
    assert nodes["n1"].gpus == (("h100", 4),) and nodes["n2"].count("a100") == 8 and nodes["n3"].gpus == ()
    assert nodes["n2"].count(None) == 8 and nodes["n2"].count("h100") == 0 and nodes["n2"].mem_mb == 1024000
    assert facts.parse_gpus("gpu:2,gpu:v100:1") == ((None, 2), ("v100", 1))
    assert facts.parse_associations("robots|normal,long\nvision|normal\n") == (
        frozenset({"robots", "vision"}),
        frozenset({"normal", "long"}),
    )


def test_what_fits_is_left_alone_but_for_a_partition_that_ends_preempted_jobs():
    assert checks.problems(a_study(), Site(partition="gpu", account="robots", qos="long"), a_cluster()) == []
    assert checks.problems(a_study(), Site(partition="gpu", account="any"), a_cluster(accounts=None, qos=None)) == []
    assert checks.warnings(a_study(), Site(partition="gpu"), a_cluster()) == []
    (line,) = checks.warnings(a_study(), Site(partition="debug"), a_cluster())
    assert "partition debug ends preempted jobs (PreemptMode CANCEL)" in line


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({"partition": "gpuu"}, ["partition 'gpuu' does not exist", "did you mean 'gpu'", "debug, gpu, old"]),
        ({"account": "robot"}, ["account 'robot' is not one of yours (did you mean 'robots'?); yours: robots, vision"]),
        ({"qos": "lng"}, ["qos 'lng' is not one of yours (did you mean 'long'?)"]),
        ({"partition": "old"}, ["partition 'old' takes no jobs now"]),
        (
            {"partition": "debug"},
            ["learning.limit_s 3600 needs jobs of 71 minutes", "partition 'debug' ends jobs after 10"],
        ),
        (
            {"gpu_type": "h200"},
            ["arms.one (gpus: auto asks for one here): 1 GPU of type h200", "gpu:a100:8, gpu:h100:4"],
        ),
        ({"cpus_per_gpu": 64}, ["arms.four: 4 GPUs with 256 CPU cores", "more than 128", "Lower cpus_per_gpu"]),
        ({"mem_gb_per_gpu": 300.0}, ["arms.four: 4 GPUs with 1,200,000 MB", "more than 1,024,000"]),
        (
            {"constraint": "v100"},
            ["constraint 'v100': no node of partition 'gpu' has these features; there: a100, h100, nvlink"],
        ),
        ({"constraint": "h100&a100"}, ["constraint 'h100&a100': no node"]),
        (
            {"constraint": "nvlink", "gpu_type": "v100"},
            ["no node of partition 'gpu' with constraint 'nvlink' has more than 0 of type v100"],
        ),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_submitted(lines: dict[str, Any], words: list[str]):
    described: dict[str, Any] = {"partition": "gpu"} | lines
    text = "\n".join(checks.problems(a_study(), Site(**described), a_cluster()))
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(
    "constraint", ["h100&nvlink", "h100|v100", "[h100|v100]", "(h100&ib)|a100", "h100*2", "h100,nvlink"]
)
def test_a_constraint_that_a_node_may_meet_is_left_to_slurm(constraint: str):
    assert checks.problems(a_study(arms={"one": {}}), Site(partition="gpu", constraint=constraint), a_cluster()) == []


def test_nodes_that_take_no_jobs_are_told_with_the_administrators_reason():
    drained = NODES.replace("idle|none", "drained|ECC errors | card 3", 1)
    assert facts.parse_nodes(drained)[0].out_of_use == "drained: ECC errors | card 3"
    (line,) = checks.warnings(a_study(), Site(partition="gpu"), a_cluster(nodes=facts.parse_nodes(drained)))
    assert line == "1 of 3 nodes of partition 'gpu' takes no jobs now: n1 (drained: ECC errors | card 3)"
    mine = Site(partition="gpu", constraint="h100")
    (line,) = checks.warnings(a_study(), mine, a_cluster(nodes=facts.parse_nodes(drained)))
    assert line.startswith("1 of 1 nodes of partition 'gpu' with constraint 'h100' takes no jobs now: n1 (")
    assert line.endswith(". Jobs wait until one does")
    lost = facts.parse_nodes("\n".join(f"n{number}|(null)|8|8000|(null)|down*|Not responding" for number in range(5)))
    (line,) = checks.warnings(a_study(), Site(partition="gpu"), a_cluster(nodes=lost))
    assert "5 of 5 nodes" in line and "n2 (down, no answer: Not responding); and 2 more" in line


def test_a_block_asks_for_the_time_of_all_its_trials_and_may_be_cut_off():
    points = {"num_envs": [16, 32, 64], "horizon": [8], "batch_size": 128, "repeats": 2}
    section = points | {"limit_s": 600, "block": "all"}
    study = a_study(arms={"one": {}}, throughput=section, learning=None)
    block, _ = space.jobs(plan(study))
    mine = Site(partition="gpu")
    # Three sizes and the first again, 600 s x 1.1 each, and 5 min.
    assert jobs.job_of(*jobs.block_work(study, block), mine).minutes == 49
    assert checks.warnings(study, mine, a_cluster()) == []
    short = facts.parse_partitions(PARTITIONS.replace("MaxTime=1-12:30:00", "MaxTime=00:30:00"))
    (line,) = checks.warnings(study, mine, a_cluster(partitions=short))
    assert "4 trials of a block may take 49 minutes together" in line and "'gpu' ends jobs after 30" in line
    assert checks.problems(study, mine, a_cluster(partitions=short)) == []


def test_a_worker_asks_for_the_time_of_its_share_and_may_be_cut_off():
    points = {"num_envs": [16, 32, 64], "horizon": [8], "batch_size": 128, "sampler": "tpe", "repeats": 2}
    study = a_study(arms={"one": {}}, throughput=points | {"limit_s": 600, "workers": 2}, learning=None)
    short = facts.parse_partitions(PARTITIONS.replace("MaxTime=1-12:30:00", "MaxTime=00:30:00"))
    assert checks.warnings(study, Site(partition="gpu"), a_cluster()) == []
    (line,) = checks.warnings(study, Site(partition="gpu"), a_cluster(partitions=short))
    # Six trials of two workers: 3 x 600 s x 1.1, and 5 min.
    assert "3 trials of a worker may take 38 minutes together" in line and "'gpu' ends jobs after 30" in line


def test_a_rules_resources_are_those_of_its_job_with_more_time_for_each_attempt(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(facts, "longest_minutes", lambda partition: 20)
    study, here = a_study(), Site(partition="gpu", gpu_type="h100")
    (slot, *_) = (slot for slot in plan(study) if slot.arm == "four" and slot.kind == "throughput")
    resources = rule_resources.of_rule(study, lambda wildcards: [slot], here, None)
    assert tuple(resources) == jobs.resource_names()
    assert resources["gres"](wildcards=None, attempt=1) == "gpu:h100:4"
    minutes = [resources["runtime"](wildcards=None, attempt=attempt) for attempt in (1, 2, 3)]
    first = jobs.job_of(*jobs.block_work(study, [slot]), here).minutes
    assert minutes == [first, min(20, math.ceil(1.5 * first)), 20] and first < 20
    prepared = rule_resources.of_rule(study, None, here, None)["gres"]
    assert prepared(wildcards=None, attempt=1) == "gpu:h100:4"


def test_a_file_that_git_ignores_goes_before_the_one_that_ships(tmp_path: Path):
    for name, expected in (("site.yaml", "site.yaml"), ("site.local.yaml", "site.local.yaml")):
        (tmp_path / name).write_text("")
        assert admission.find_site("site.yaml", [tmp_path / "other", tmp_path]) == tmp_path / expected
    ignored = ["git", "-C", ROOT, "check-ignore", "workflow/profiles/slurm/site.local.yaml"]
    if (ROOT / ".git").exists():
        succeeded(ran(ignored))


def test_a_site_file_elsewhere_finds_the_projects_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    path = tmp_path / "mine.yaml"
    path.write_text("partition: gpu\n")
    site.enter(site.load(path), path)
    assert Path(known(shutil.which("sacct"))) == ROOT / "workflow/profiles/slurm/bin/sacct"
    (tmp_path / "bin").mkdir()  # of somebody's own
    site.enter(site.load(path), path)
    assert Path(known(shutil.which("sacct"))) == ROOT / "workflow/profiles/slurm/bin/sacct"
    a_program(tmp_path / "bin", "sacct", "exit 0")
    site.enter(site.load(path), path)
    assert Path(known(shutil.which("sacct"))) == tmp_path / "bin/sacct"


def test_a_window_that_keeps_gpus_idle_is_told_with_both_numbers():
    points = {"num_envs": [16, 32, 64], "horizon": [8], "batch_size": 128, "repeats": 3}
    arms = {"one": {"gpus": 2}}
    eight = Site(partition="gpu", max_gpus=8)

    def said(window: int, **section: Any) -> list[str]:
        return checks.of_site(a_study(arms=arms, window=window, throughput=points | section, learning=None), eight)

    (line,) = said(2)
    assert line == (
        "throughput: window 2 lets 2 of 9 trials run at once. They use 4 devices (GPUs, or a CPU as one), and max_gpus of the site is 8."
        " Set window: 4 in the study before its first trial to use 8"
    )
    assert said(4) == []
    (line,) = said(2, block="all")
    assert "2 of 3 blocks run at once." in line and "Set window: 3 in the study before its first trial to use 6" in line
    assert said(2, sampler="tpe", workers=2) == [], "workers have a number of their own"
    confirmed = said(1, sampler="sobol", points=2, repeats=1, confirm={"settings": 2, "seeds": 8})
    assert "window 1 lets 1 of 2 trials run at once" in confirmed[0], "fresh seeds run side by side whatever the window"


def test_many_trials_with_a_job_each_are_told_with_the_key_that_saves_jobs():
    points = {"num_envs": [16, 32, 64, 128], "horizon": [8], "batch_size": 128, "repeats": 4}
    foreign = {"trainer": "command", "gpus": 1, "command": {"preset": "mjlab", "argv": ["python"]}}

    def said(arm: dict[str, Any], **section: Any) -> list[str]:
        study = a_study(arms={"one": arm}, window=8, throughput=points | section, learning=None)
        return checks.of_site(study, Site(partition="gpu", max_gpus=8))

    (line,) = said({"gpus": 1})
    assert line.startswith("throughput: 16 trials have a job each") and "`block: all`" in line
    assert said({"gpus": 1}, block="all") == [] and said({"gpus": 1}, repeats=3) == []
    assert said(foreign) == [], "a program of its own shares no process"
    (line,) = said({"gpus": 1}, sampler="tpe", points=6)
    assert "`workers: 8`" in line
    assert said({"gpus": 1}, sampler="tpe", points=6, workers=8) == []
