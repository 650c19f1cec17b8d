"""The real Snakefile with real Isaac Lab at tiny size: whole, killed, interrupted, resumed, replayed."""

import base64
import json
import os
import re
import signal
import socket
from pathlib import Path

import yaml
from envknee.record.read import load_record, load_records
from foreign_commands import an_arm
from programs import refused, succeeded
from records import known
from running import trial_processes
from waiting import wait_for
from workspaces import TINY, Workspace


def test_a_sweep_leaves_everything_it_promises_and_a_person_sees_progress_and_the_verdict(swept):
    folder = swept.results()
    records = load_records(folder)
    assert [record.request.number for record in records] == [0, 1, 2, 3]
    assert [record.request.kind for record in records] == ["throughput"] * 2 + ["learning"] * 2
    assert [record.outcome.status for record in records] == ["ok", "ok", "timeout", "timeout"]
    for record in records:
        assert known(record.fps_env_step).median > known(record.fps_total).median > 0
        assert record.memory_peak_gb is not None and 0.2 < record.memory_peak_gb < 8
        assert record.num_mini_batches == record.request.num_envs * record.request.horizon // 16
        # 24 x 24 pixels, 3 channels, 2 frames, and the critic's 4 numbers: all float32.
        per_transition = (24 * 24 * 3 * 2 + 4) * 4
        assert record.rollout_gb == per_transition * record.request.num_envs * record.request.horizon / 1e9
        packages = known(record.outcome.environment).packages
        assert {"isaaclab", "newton", "warp-lang", "torch", "rsl-rl-lib"} <= packages.keys()
    for path in (folder.verdict, folder.records_csv, folder.published, folder.report, folder.resolved):
        assert path.stat().st_size > 0, path
    figures = {path.name for path in folder.figures.iterdir()}
    assert {"throughput.svg", "memory.svg", "learning.svg", "pareto.svg", "png"} <= figures
    verdict = json.loads(folder.verdict.read_text(encoding="utf-8"))
    assert "stock" in json.dumps(verdict)
    for words in ("[1/4] ", "[4/4] ", "throughput stock", "learning stock", "FPS", "budget spent first", "report.html"):
        assert words in swept.output, swept.output


def test_running_again_does_nothing_and_says_so(swept):
    before = {path: path.stat().st_mtime_ns for path in swept.results().root.rglob("*") if path.is_file()}
    for study in (swept.study(), swept.results().study):  # the same keys, in another order
        assert "Nothing to be done" in succeeded(swept.sweep(study))
    assert {path: path.stat().st_mtime_ns for path in swept.results().root.rglob("*") if path.is_file()} == before


def test_a_dry_run_says_how_many_trials_and_a_summary_which_figures_there_will_be(workspace: Workspace):
    planned = succeeded(workspace.sweep(workspace.study(), "-n"))
    assert re.findall(r"^trial +(\d+)$", planned, re.MULTILINE) == ["4"], planned
    two_arms = {"one": {"gpus": 0}, "two": {"gpus": 0, "cpu_ranks": 2}}
    listed = succeeded(workspace.sweep(workspace.study(arms=two_arms, learning=None), "--summary"))
    files = [
        f"figures/{file}" for name in ("throughput", "scaling", "phases") for file in (f"{name}.svg", f"png/{name}.png")
    ]
    assert all(file in listed for file in files) and "figures/pareto.svg" not in listed, listed
    assert not workspace.results().root.exists(), planned


def test_the_first_fresh_seed_waits_for_the_whole_search_and_the_others_for_nothing_more(workspace: Workspace):
    learning = yaml.safe_load(TINY.read_text(encoding="utf-8"))["learning"]
    for key in ("points", "repeats"):
        learning.pop(key, None)
    axes = {"num_envs": [4, 8, 16], "horizon": [8, 16], "batch_size": [32, 64]}
    joint = {"sampler": "profile", "trials": 6, "confirm": {"settings": 2, "seeds": 3}}
    study = workspace.study(window=3, throughput=None, learning=learning | axes | joint)
    planned = succeeded(workspace.sweep(study, "-n", "--workflow-profile", "none"))
    asked = re.findall(r"rule request:\n +input: (.+)\n +output: \S+/(\d+)/request", planned)
    records = {int(number): re.findall(r"(\d+)/record", inputs) for inputs, number in asked}
    assert records[5] == ["0002"], "a window of 3 hides two"
    assert records[6] == ["0003", "0004", "0005"]
    assert all(records[number] == ["0005"] for number in range(7, 12))


def test_asking_again_gives_the_same_bytes(swept):
    result = succeeded(swept.module("replay", "--verify", str(swept.results().root)))
    assert "4 requests recomputed, all identical, and the verdict follows from the records" in result


def test_more_repeats_are_measured_beside_what_is_there(a_copy: Workspace):
    folder = a_copy.results()
    before = {path: path.read_bytes() for path in folder.trials.glob("*/record.json")}
    section = yaml.safe_load(TINY.read_text(encoding="utf-8"))["throughput"]
    succeeded(a_copy.measure(a_copy.study(throughput=section | {"more_repeats": 1})))
    after = {path: path.read_bytes() for path in folder.trials.glob("*/record.json")}
    assert len(before) == 4 and len(after) == 6 and after.items() >= before.items()
    assert [load_record(folder.trial(number)).request.repeat for number in (4, 5)] == [1, 1]


def test_the_command_that_a_summary_names_goes_on_with_the_study_and_may_be_typed_again(a_copy: Workspace):
    folder = a_copy.results()
    target = str(folder.verdict.relative_to(a_copy.folder))
    command = (folder.study, target, "--config", "more_throughput=1")
    succeeded(a_copy.sweep(*command))
    records = load_records(folder)
    assert [record.request.kind for record in records] == ["throughput"] * 2 + ["learning"] * 2 + ["throughput"] * 2
    assert "Nothing to be done" in succeeded(a_copy.sweep(*command))
    assert len(load_records(folder)) == 6
    refused(a_copy.sweep(folder.study, "-n", "--config", "more_throughput=many"), "more_throughput=many", "such as")


def state_of(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Return the bytes and the time of change of every file, by path."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_reading_the_workflow_changes_nothing_and_a_torn_trial_is_measured_again(a_copy: Workspace):
    study, folder = a_copy.study(), a_copy.results()
    torn, whole = folder.trial(1), folder.trial(0)
    torn.metrics.write_bytes(torn.metrics.read_bytes()[:-20])
    before = state_of(folder.root)
    record = str(whole.record.relative_to(a_copy.folder))
    for arguments in (["--dry-run"], ["--lint"], ["--list-rules"], [record, "--mode", "remote", "--dry-run"]):
        succeeded(a_copy.sweep(study, *arguments))
        assert state_of(folder.root) == before, arguments

    planned = succeeded(a_copy.sweep(study, "--dry-run"))
    assert f"{torn.root.relative_to(a_copy.folder)} is measured again: metrics.jsonl is not whole" in planned
    assert re.search(r"^trial +1$", planned, re.MULTILINE), planned
    measured = succeeded(a_copy.measure(study))
    assert "is measured again: metrics.jsonl is not whole" in measured
    rows, cut = torn.metrics.read_bytes(), before[torn.metrics][0]
    assert rows.endswith(b"\n") and not rows.startswith(cut)
    assert cut in [path.read_bytes() for path in torn.root.rglob("*") if path.is_file()], "what was there is kept"
    assert whole.metrics.stat().st_mtime_ns == before[whole.metrics][1]
    assert not list((folder.root / "logs").glob("torn-*"))
    measured_again = torn.metrics.stat().st_mtime_ns
    assert "is measured again" not in succeeded(a_copy.measure(study))
    assert torn.metrics.stat().st_mtime_ns == measured_again


def test_a_store_that_is_away_keeps_nobody_from_what_was_found(a_copy: Workspace):
    folder = a_copy.results()
    folder.report.unlink()
    folder.published.unlink()
    with socket.socket() as nobody:  # bound, and never listening
        nobody.bind(("127.0.0.1", 0))
        study = a_copy.study(tracking={"uri": f"http://127.0.0.1:{nobody.getsockname()[1]}"})
        result = a_copy.sweep(study)
    refused(result, "cannot be used", "Most FPS")
    assert folder.report.exists() and not folder.published.exists()


def test_an_address_that_is_none_is_told_before_anything_is_measured(workspace: Workspace):
    refused(workspace.sweep(workspace.study(tracking={"uri": "nope://x"})), "MLflow cannot log runs to nope:")
    assert not workspace.results().trials.exists()


def test_a_sweep_that_chooses_its_trials_runs_no_more_than_it_needs(workspace: Workspace):
    sweep = {"num_envs": [1, 2], "horizon": 2, "batch_size": 2, "sampler": "adaptive", "repeats": 3, "iterations": 1}
    sweep |= {"adaptive": {"trials": 4, "delta": 0.99}}
    study = workspace.study(arms={"fake": an_arm()}, task=None, learning=None, throughput=sweep)
    workspace.prepared()
    succeeded(workspace.measure(study))
    records = load_records(workspace.results())
    assert len(records) == 4
    assert {record.outcome.status for record in records} <= {"ok", "skipped"}
    assert sum(record.outcome.status == "ok" for record in records) >= 2
    succeeded(workspace.module("replay", "--verify", str(workspace.results().root)))
    assert "Nothing to be done" in workspace.measure(study).stdout


def test_ctrl_c_stops_cleanly_and_two_sweeps_of_one_study_do_not_mix(workspace: Workspace):
    # Iterations that outlast the second sweep's start, also on a busy machine.
    long = {"num_envs": 4, "horizon": 4, "batch_size": 16, "repeats": 1, "iterations": 5000}
    study, folder = workspace.study(learning=None, throughput=long), workspace.prepared()
    sweep = workspace.start(study)
    wait_for(lambda: folder.trial(0).metrics.exists())

    refused(workspace.sweep(study), "study 'tiny' is already being swept by process", "Wait for it")

    os.killpg(sweep.pid, signal.SIGINT)
    output, _ = sweep.communicate(timeout=120)
    assert sweep.returncode != 0
    assert not trial_processes(workspace.folder)
    assert "run the sweep again to go on" in output
    assert not any(folder.trials.glob("*/record.json"))
    succeeded(workspace.sweep(study, "--dry-run"))


def test_what_a_killed_sweep_left_whole_stays_and_what_follows_is_run(workspace: Workspace):
    folder = workspace.prepared()
    name = base64.urlsafe_b64encode(bytes(folder.resolved.relative_to(workspace.folder))).decode()
    marker = workspace.folder / ".snakemake/incomplete" / name  # Snakemake's, while it makes a file
    marker.parent.mkdir(parents=True)
    marker.write_text('{"external_jobid": null}', encoding="utf-8")
    planned = workspace.sweep(workspace.study(learning=None), "--dry-run").stdout
    assert re.search(r"^trial +\d+$", planned, re.MULTILINE), planned
    assert not re.search(r"^prepare +\d+$", planned, re.MULTILINE), planned


def test_a_preparation_that_outlives_its_sweep_does_not_race_with_the_next(workspace: Workspace):
    study, folder = workspace.study(learning=None), workspace.results()
    prepared = str(folder.resolved.relative_to(workspace.folder))
    sweep = workspace.start(study, prepared)
    wait_for(lambda: (folder.root / "prepare/stock/environment.json").exists())
    sweep.kill()  # Snakemake alone; the preparation goes on
    sweep.wait()
    assert trial_processes(workspace.folder)
    succeeded(workspace.sweep(study, prepared))
    assert folder.resolved.exists()
    assert not trial_processes(workspace.folder)
