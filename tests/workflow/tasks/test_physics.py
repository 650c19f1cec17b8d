"""Tasks without Isaac Sim: PhysX beside Newton, files from a folder, and the page that lists all tasks."""

import re
import shutil
from pathlib import Path

import pytest
import quick
from camera_trials import a_trial, by_hand, camera
from envknee.run.container.enter import shown_folder
from envknee.run.prepare import resolve_arms
from envknee.study.errors import UserError
from envknee.tasks import assets, physics
from needs import need
from places import ROOT
from programs import python, told
from records import known

ANT = "Isaac/Robots/IsaacSim/Ant/ant_instanceable.usd"
SMALL = {"num_envs": 8, "horizon": 4, "batch_size": 16, "iterations": 2, "warmup_iterations": 1}


def test_physx_without_isaac_sim_is_measured_with_phases(tmp_path):
    need("ovphysx", "ovphysx-libraries")
    trial = a_trial(tmp_path / "trial", overrides=camera(24) | {"presets": "ovphysx"}, **SMALL)
    record = quick.launch(trial)
    assert record.outcome.status == "ok", record.outcome.reason
    assert all(known(record.phases_s)[phase].median > 0 for phase in ("physics", "render", "observation", "learning"))
    assert "ovphysx" in known(record.outcome.environment).packages


def test_missing_packages_and_libraries_are_a_sentence(monkeypatch):
    study = by_hand(task={"overrides": {"presets": "ovphysx"}})
    with monkeypatch.context() as changed:
        changed.setattr(physics, "WHEELS", ("ovnothing",))
        with pytest.raises(UserError, match="needs ovnothing, .* PHYSICS=ovphysx"):
            resolve_arms(study)
    monkeypatch.setattr(physics, "WHEELS", ())
    monkeypatch.setattr(physics, "LIBRARIES", {"libnothing.so.9": "libnothing9"})
    with pytest.raises(UserError, match="apt-get install libnothing9.*LD_LIBRARY_PATH"):
        resolve_arms(study)


@pytest.mark.parametrize("presets", ["ovrtx", "rtx"])
def test_ovrtx_is_refused_for_its_own_reason(presets):
    study = by_hand(task={"overrides": {"presets": presets}})
    assert "needs Isaac Sim" not in told(lambda: resolve_arms(study), "launch_simulation")


def test_files_come_from_a_folder_and_all_that_it_lacks_is_listed(tmp_path):
    study = by_hand(task={"id": "Isaac-Ant-Direct", "asset_root": str(tmp_path)})
    with pytest.raises(UserError, match="ant_instanceable.usd does not exist"):
        resolve_arms(study)
    robot = tmp_path / ANT
    robot.parent.mkdir(parents=True)
    robot.write_text('#usda 1.0\ndef "ant" (references = @./lost.usda@) {}\n')
    with pytest.raises(UserError, match=r"ant_instanceable.usd names .*lost\.usda, which is not there"):
        resolve_arms(study)
    shutil.copy(assets.local_path("package:newton/examples/assets/ant.usda", ""), robot)
    usd_path = resolve_arms(study)["stock"]["env"]["scene"]["robot"]["spawn"]["usd_path"]
    assert usd_path == str(robot.resolve())
    with pytest.raises(UserError, match="is no folder"):
        resolve_arms(by_hand(task={"id": "Isaac-Ant-Direct", "asset_root": str(tmp_path / "nowhere")}))


def test_an_image_reads_that_folder_and_no_wider_one(tmp_path):
    assert shown_folder(str(tmp_path)) == tmp_path.resolve()
    for wide in ("/", "/etc/x", str(Path.home())):
        with pytest.raises(UserError):
            shown_folder(wide)


def test_the_page_of_tasks_is_what_the_command_prints():
    rows = {line.split(" | ")[0]: line for line in (ROOT / "docs/tasks.md").read_text().splitlines() if " | " in line}
    names = [row.removeprefix("| ") for row in rows if re.match(r"\| (Isaac|Envknee)", row)]
    code = "import os; from envknee import tasks; print(*tasks.registered(), flush=True); os._exit(0)"
    assert python("-c", code).stdout.splitlines()[-1].split() == names
    some = names[::12]  # all of them take a minute
    said = python("-m", "envknee", "tasks", *some).stdout
    assert [line for line in said.splitlines() if line.startswith(("| Isaac", "| Envknee"))] == [
        rows[f"| {name}"] for name in some
    ]
