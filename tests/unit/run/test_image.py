"""Which image fits, which Apptainer will do, and what a trial is told."""

import csv
import json
import re
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path

import pytest
from envknee.machine import environment
from envknee.machine.schema import Image
from envknee.run import launch, resources
from envknee.run.container import apptainer, enter
from envknee.study.errors import UserError
from envknee.study.paths import PROJECT, TrialFolder
from programs import a_program, python
from records import a_trial


def an_image(lock: str) -> Image:
    labels = {"org.envknee.lock-sha256": lock, "org.envknee.git-commit": "c" * 40}
    return Image(sif_sha256="a" * 64, content_sha256="b" * 64, labels=labels)


def test_only_an_image_of_the_same_lock_files_fits() -> None:
    apptainer.check_fits(Path("x.sif"), an_image(apptainer.lock_sha256()))
    with pytest.raises(UserError, match="x.sif was built from other lock files .000000000000, commit cccccccccccc."):
        apptainer.check_fits(Path("x.sif"), an_image("0" * 64))


def test_a_result_of_another_image_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    this, trial = an_image("0" * 64), TrialFolder(tmp_path)
    other = this.model_copy(update={"content_sha256": "d" * 64})
    launch._check_measured_in(trial, a_trial(16).on(image=this).outcome, this)
    with pytest.raises(UserError, match="another image .content dddddddddddd, now bbbbbbbbbbbb"):
        launch._check_measured_in(trial, a_trial(16).on(image=other).outcome, this)


TOLD = {environment.IMAGE: "{}"}
SIF = {"APPTAINER_CONTAINER": "/x.sif"}


@pytest.mark.parametrize(
    ("runtime", "variables", "in_docker", "says"),
    [
        ("host", {}, False, None),
        ("host", {}, True, None),  # somebody's development container
        ("apptainer", SIF, False, None),
        ("apptainer", SIF, True, None),
        ("docker", TOLD, True, None),
        ("apptainer", {}, False, "outside of any container"),
        ("apptainer", TOLD, True, "in a container of Docker or Podman"),
        ("host", SIF, False, "runtime: host .* runs inside the image /x.sif"),
        ("docker", SIF | TOLD, True, "runtime: docker .* runs inside the image /x.sif"),
        ("docker", TOLD, False, "outside of any container"),
        ("docker", {}, True, "in a container of Docker or Podman .ENVKNEE_IMAGE is not set."),
    ],
)
def test_a_trial_runs_where_it_was_told_to(
    tmp_path: Path, monkeypatch, runtime: enter.Runtime, variables: dict[str, str], in_docker: bool, says: str | None
) -> None:
    for name in (*SIF, *TOLD, "container"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(enter, "DOCKERS_MARK", tmp_path if in_docker else tmp_path / "none")
    with nullcontext() if says is None else pytest.raises(UserError, match=says):
        enter.check_runtime(runtime)


def test_an_image_is_told_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for image in (an_image("0" * 64), None):
        monkeypatch.setenv(environment.IMAGE, image.model_dump_json() if image else "")
        assert environment.observe_from_outside([], {}).image == image


def test_of_the_hosts_variables_few_come_in() -> None:
    outside = {"HOME": "/root", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b", "APPTAINERENV_X": "1", "APPTAINER_BIND": "/"}
    assert apptainer.variables_for(outside, {"TMPDIR": "/scratch"}) == {
        "HOME": "/root",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "APPTAINERENV_CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "APPTAINERENV_TMPDIR": "/scratch",
    }


def test_what_makes_a_trial_reproducible_comes_in() -> None:
    variables = resources.environment_of(a_trial(16).asked(deterministic=True).request)
    told = apptainer.variables_for(variables, {})
    for name in ("CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "OMP_NUM_THREADS", "PYTHONSAFEPATH"):
        assert told[f"APPTAINERENV_{name}"] == variables[name]


def test_apptainer_must_be_there_and_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="no apptainer on PATH. Install Apptainer 1.2 or newer"):
        apptainer.require_apptainer()
    a_program(tmp_path, "apptainer", "echo apptainer version 1.1.9")
    with pytest.raises(UserError, match=r"what is installed is 'apptainer version 1\.1\.9'"):
        apptainer.require_apptainer()
    a_program(tmp_path, "apptainer", "echo apptainer version 1.10.0-2")
    apptainer.require_apptainer()


def test_the_bill_of_materials_lists_every_package_the_same_each_time() -> None:
    program = PROJECT / "containers/sbom.py"
    bills = [python(program, "isaaclab", env={"PYTHONHASHSEED": seed}).stdout for seed in "12"]
    assert bills[0] == bills[1]
    bill = json.loads(bills[0])
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    listed = {component["purl"] for component in bill["components"] if component["type"] == "library"}
    assert f"pkg:pypi/pydantic@{version('pydantic')}" in listed and len(listed) > 50
    named = {component["name"]: component.get("licenses") for component in bill["components"]}
    assert named["pydantic"] == [{"license": {"name": "MIT"}}]
    assert sum(bool(licences) for licences in named.values()) > 0.9 * len(named)


def test_every_package_of_a_lock_file_has_its_licence_in_the_table() -> None:
    with (PROJECT / "containers/licences.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    listed = {(row["package"], row["version"], lock) for row in rows for lock in row["lists"].split()}
    locks = [*PROJECT.glob("containers/*.lock"), *PROJECT.glob("workflow/*.lock")]
    locked = {
        (name, number, lock.relative_to(PROJECT).as_posix())
        for lock in locks
        if lock.name != "requirements-cpu.lock"  # PyTorch once more, from an index of its own
        for name, number in re.findall(r"^([a-z0-9.-]+)={2,3}([^ ;]+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {(name.replace(".", "-"), number, lock) for name, number, lock in locked} == listed
    assert all(row["licence"] for row in rows)
