"""The image: built from Debian for real, a trial in it, what it lets in, and what cannot be built here is at least read.

With Podman (and root) the same image runs with `runtime: docker`, too.

An image that was built stays in the cache until something that it is made of changes. ENVKNEE_TEST_IMAGE names another one;
ENVKNEE_TEST_REBUILD=1 builds it twice.
"""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from camera_trials import a_trial, has_rows
from environment import ENVIRONMENT
from envknee.measure import ranks
from envknee.record.read import load_record, read_rows
from envknee.record.schema import Environment
from envknee.run import nodes
from envknee.run.container import apptainer, enter
from envknee.study.paths import TrialFolder
from needs import need
from places import ROOT
from programs import ran, refused, succeeded
from records import known
from running import trial_processes
from waiting import wait_for, wait_until_none
from workspaces import Workspace

CONTAINERS = ROOT / "containers"
DEFINITION, DOCKERFILE = (CONTAINERS / name for name in ("isaaclab.def", "Dockerfile"))

pytestmark = pytest.mark.timeout(3600)  # whichever test comes first builds the image

# The base that needs no container registry.
ENVIRONMENT["BASE"] = "debian"


def build(folder: Path) -> Path:
    """Return the image that the workflow builds in `folder`, without running anything of the study."""
    workspace, sif = Workspace(folder), folder / "containers/isaaclab.sif"
    study = workspace.study(runtime="apptainer", architectures=[90])
    done = workspace.sweep(study, "containers/isaaclab.sif", timeout_s=3500)
    log = sif.with_name(f"{sif.name}.log")
    assert done.returncode == 0, done.stdout + (log.read_text(errors="replace")[-3000:] if log.exists() else "")
    return sif


@pytest.fixture(scope="session")
def sif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Debian image for the CPU, built once for the files that it is made of."""
    need("apptainer")
    if given := os.environ.get("ENVKNEE_TEST_IMAGE"):
        return Path(given)
    if os.geteuid() != 0:
        pytest.skip("only root can build the Debian image")
    need("debootstrap")
    folder = tmp_path_factory.mktemp("image")
    cached = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"envknee-test-image/{inputs_sha256()}.sif"
    )
    if cached.exists():
        return link_or_copy(cached, folder / "isaaclab.sif")
    built = build(folder)
    shutil.rmtree(cached.parent, ignore_errors=True)  # of other files
    cached.parent.mkdir(parents=True)
    link_or_copy(built, cached.with_suffix(".part")).rename(cached)
    return built


def inputs_sha256() -> str:
    """Return a hash of all that an image is made of."""
    files = [path for path in CONTAINERS.iterdir() if path.suffix in (".sh", ".py", ".lock", ".def")]
    files += [ROOT / "workflow/envknee/tasks/cartpole.usda", ROOT / "workflow/leanframes/kernels.py"]
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sorted(files))).hexdigest()


def link_or_copy(source: Path, target: Path) -> Path:
    """Put a large file into another folder, which may lie on another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    return target


def start_launcher(trial: TrialFolder, image: Path, scratch: Path) -> subprocess.Popen[bytes]:
    """Start the launcher of a trial in an image, with temporary files in `scratch`."""
    scratch.mkdir()
    command = [sys.executable, "-m", "envknee.run.launch", str(trial.root), str(image)]
    return subprocess.Popen(command, cwd=scratch.parent, env=ENVIRONMENT | {"TMPDIR": str(scratch)})


def swept_in(workspace: Workspace, **sections: str) -> tuple[Path, Environment]:
    """Sweep a trial in an image, and again; return the study and where the trial ran."""
    sweep = {"num_envs": 4, "horizon": 4, "batch_size": 16, "repeats": 1, "iterations": 1}
    study = workspace.study(learning=None, throughput=sweep, **sections)
    workspace.prepared()
    succeeded(workspace.measure(study))
    record = load_record(workspace.results().trial(0))
    assert record.outcome.status == "ok" and record.request.runtime == sections["runtime"]
    where = known(record.outcome.environment)
    assert where.git_commit and "snakemake" not in where.packages  # the host has it, the image has not
    assert "Nothing to be done" in succeeded(workspace.measure(study))
    return study, where


# --- For real ----------------------------------------------------------------------------------------------------------


def test_the_image_holds_what_is_pinned_and_says_what_it_is(sif: Path) -> None:
    image = apptainer.describe(sif)
    apptainer.check_fits(sif, image)
    assert image.labels["org.envknee.base"] == "debian:bookworm"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", image.labels["org.envknee.git-commit"])
    for sha256 in (image.sif_sha256, image.content_sha256):
        assert re.fullmatch(r"[0-9a-f]{64}", known(sha256))
    assert apptainer.describe(sif) == image  # as kept beside it


def test_a_sweep_runs_its_trials_in_the_image(sif: Path, workspace: Workspace) -> None:
    (workspace.folder / "containers").mkdir()
    in_place = workspace.folder / "containers/isaaclab.sif"
    link_or_copy(sif, in_place)
    os.utime(in_place)  # newer than what it is made of: not built again
    study, where = swept_in(workspace, runtime="apptainer")  # what was prepared is newer than the image
    assert where.image == apptainer.describe(sif)
    os.utime(in_place)  # another time, the same content: asked for again, and not measured again
    before = workspace.results().trial(0).outcome.stat().st_mtime_ns
    assert workspace.measure(study).returncode == 0
    assert workspace.results().trial(0).outcome.stat().st_mtime_ns == before


def test_kernels_for_gpus_were_compiled_without_one(sif: Path) -> None:
    assert apptainer.describe(sif).labels["org.envknee.architectures"] == "90"
    code = (
        "import json, pathlib; found = pathlib.Path('/opt/envknee/kernels').rglob('*.cubin');"
        "print(json.dumps([[str(path), path.read_bytes()[:20].hex()] for path in found]))"
    )
    kernels = json.loads(succeeded(ran(["apptainer", "exec", sif, "python", "-c", code])))
    assert len(kernels) > 50 and all(path.endswith(".sm90.cubin") for path, _ in kernels)
    assert {head[:8] + head[36:] for _, head in kernels} == {"7f454c46be00"}  # ELF for EM_CUDA, 190
    tiles = ("render_megakernel", "eval_articulation_fk_tile", "newton._src.solvers.mujoco.kernels", "leanframes")
    for name in tiles:
        assert any(name in path for path, _ in kernels), name


@pytest.mark.gpu
def test_every_kernel_of_a_trial_on_a_gpu_came_with_the_image(tmp_path: Path) -> None:
    given = os.environ.get("ENVKNEE_TEST_IMAGE")
    if given is None or "cuda" not in apptainer.describe(Path(given)).labels["org.envknee.torch"]:
        pytest.skip("ENVKNEE_TEST_IMAGE names no image with CUDA")
    trial, kernels = a_trial(tmp_path / "0000", runtime="apptainer", gpus=1), tmp_path / "kernels"
    kernels.mkdir()
    words = apptainer.command_in(
        Path(given), ["/opt/envknee/with-kernels.sh", str(kernels), "python", "-m", "envknee.run.process", str(trial.root)],
        writable=[tmp_path], readable=[enter.PACKAGE], folder=tmp_path, gpus=True, network=False,
    )  # fmt: skip
    inside = {"PYTHONPATH": str(enter.PACKAGE), "TMPDIR": str(tmp_path)}
    said = succeeded(ran(words, env=apptainer.variables_for(os.environ, inside)))
    assert trial.outcome.exists(), said
    assert [path for path in kernels.rglob("*.cubin") if not path.is_symlink()] == []


def test_two_nodes_train_together_in_the_image_on_paths_with_commas_and_spaces(sif: Path, tmp_path: Path) -> None:
    """What srun starts on each node, twice on this machine; test_allocations_and_workers has srun itself, on the host."""
    trial, scratch = a_trial(tmp_path / "a, b" / "0000", runtime="apptainer", nodes=2), tmp_path / "scratch, here"
    scratch.mkdir()
    # Nodes of this machine meet on its loopback interface; in a job they do not take turns on its cores.
    variables = ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "lo", "SLURM_JOB_ID": "1", "TMPDIR": str(scratch)}
    with nodes.meeting(trial) as shared:
        words = [sys.executable, "-m", "envknee.run.nodes", str(trial.root), str(shared), str(sif)]
        started = [subprocess.Popen(words, cwd=tmp_path, env=variables | {"SLURM_NODEID": node}) for node in "01"]
        try:
            assert [process.wait(900) for process in started] == [0, 0]
        finally:
            for process in started:
                process.terminate()
        assert {path.name for path in shared.glob("cost-*")} == {"cost-0.json", "cost-1.json"}
    assert list(scratch.glob("envknee-ranks-*")) == []
    outcomes = ranks.read_outcomes(trial, 2)
    for rank in (0, 1):
        where = outcomes[rank].environment
        assert outcomes[rank].status == "ok" and where is not None and where.image == apptainer.describe(sif)
    (row,) = read_rows(trial)
    assert row.ranks is not None and [part.rank for part in row.ranks] == [0, 1]


@pytest.mark.parametrize(("number", "observations"), [(signal.SIGTERM, "stock"), (signal.SIGKILL, "lean")])
def test_every_kernel_came_with_the_image_and_a_launcher_that_ends_leaves_no_trial_behind(
    sif: Path, workspace: Workspace, number: signal.Signals, observations: str
) -> None:
    scratch = workspace.folder / "scratch"
    trial = a_trial(workspace.folder / "0000", runtime="apptainer", iterations=100_000, observations=observations)
    launcher = start_launcher(trial, sif, scratch)
    wait_for(lambda: has_rows(trial))
    assert trial_processes(workspace.folder)
    files = [path for path in scratch.glob("envknee-ranks-*/kernels/**/*") if path.is_symlink() or path.is_file()]
    assert len(files) > 100
    # What the image has is linked to; beside that there are only this project's own marks.
    assert {path.parent.name for path in files if not path.is_symlink()} <= {"envknee"}
    launcher.send_signal(number)
    launcher.wait(120)
    wait_until_none(lambda: trial_processes(workspace.folder), timeout_s=120)
    wait_for(lambda: not list(scratch.glob("envknee-ranks-*")), timeout_s=120)


def test_nothing_of_the_host_comes_in_but_what_is_named(sif: Path, tmp_path: Path, monkeypatch) -> None:
    readable, writable = tmp_path / "readable", tmp_path / "writable"
    for folder in (readable, writable):
        folder.mkdir()
    (readable / "file").write_text("as it was")
    (tmp_path / "other").write_text("")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("APPTAINERENV_PASSWORD", "secret")
    monkeypatch.setenv("APPTAINER_BIND", str(tmp_path))
    code = (
        "import json, os, pathlib, sys; here = pathlib.Path(sys.argv[1])\n"
        "def tries(path):\n"
        "    try: path.write_text('x'); return True\n"
        "    except OSError: return False\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(json.dumps({'variables': dict(os.environ), 'seen': sorted(p.name for p in here.iterdir()),"
        " 'readable': tries(here / 'readable/file'), 'writable': tries(here / 'writable/file'),"
        " 'root': tries(pathlib.Path('/opt/envknee/file')), 'home': os.listdir(os.path.expanduser('~')),"
        " 'capabilities': status.split('CapEff:')[1].split()[0], 'more': status.split('NoNewPrivs:')[1].split()[0]}))"
    )
    inside = ["python", "-c", code, str(tmp_path)]
    words = apptainer.command_in(
        sif, inside, writable=[writable], readable=[readable], folder=writable, gpus=False, network=False
    )
    variables = apptainer.variables_for(os.environ | {"OMP_NUM_THREADS": "3"}, {"SAID": 'a,b="$HOME" c'})
    printed = json.loads(succeeded(ran(words, env=variables)))
    assert "secret" not in str(printed["variables"])
    assert printed["variables"]["OMP_NUM_THREADS"] == "3" and printed["variables"]["SAID"] == 'a,b="$HOME" c'
    assert printed["seen"] == ["readable", "writable"]
    assert (printed["writable"], printed["readable"], printed["root"]) == (True, False, False)
    assert (readable / "file").read_text() == "as it was"
    assert set(printed["home"]) <= {".bashrc", ".profile"}  # Debian's own, if any
    assert (int(printed["capabilities"], 16), printed["more"]) == (0, "1")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become somebody else; all other tests ran as an ordinary user"
)
def test_an_ordinary_user_steps_the_environment(sif: Path, tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are root's alone
        folder = Path(name).resolve()
        shutil.copyfile(sif, folder / "isaaclab.sif")
        (folder / "kernels").mkdir()
        for path in (folder, folder / "kernels"):
            os.chown(path, 65534, 65534)
        (folder / "isaaclab.sif").chmod(0o644)
        if subprocess.run([*nobody, "unshare", "--user", "apptainer", "--version"], check=False).returncode:
            pytest.skip("others cannot run this apptainer, or the kernel gives them no user namespaces")
        if subprocess.run([*nobody, "test", "-w", "/dev/fuse"], check=False).returncode:
            pytest.skip("others may not open /dev/fuse here, with which an image is mounted without root")
        inside = ["/opt/envknee/with-kernels.sh", str(folder / "kernels"), "python", "/opt/envknee/step_once.py"]
        words = apptainer.command_in(
            folder / "isaaclab.sif", inside, writable=[folder], readable=[], folder=folder, gpus=False, network=False
        )
        variables = apptainer.variables_for(os.environ | {"HOME": name}, {"TMPDIR": name})
        said = succeeded(ran([*nobody, *words], env=variables, cwd=folder, start_new_session=True))
    locks = "".join((CONTAINERS / f"requirements{group}.lock").read_text() for group in ("", "-cpu", "-trainers"))
    pins = re.findall(r"^[a-z0-9-]+==", locks, re.MULTILINE)
    assert f"{len(pins)} packages; one step of Isaac-Cartpole-Camera-Direct" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give an ordinary user ranges of numbers for a moment")
def test_an_ordinary_user_builds_where_the_kernel_lets_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The base of the image alone: what follows needs nothing more of the kernel."""
    need("apptainer", "debootstrap", "newuidmap")
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are root's alone
        folder = Path(name)
        # Seen by this test's processes alone: a user, and numbers for the users in what it builds.
        for file, line in {
            "passwd": f"builder:x:64001:64001::{name}:/bin/sh", "group": "builder:x:64001:",
            "subuid": "builder:100000:65536", "subgid": "builder:100000:65536",
        }.items():  # fmt: skip
            (folder / file).write_text(f"{Path('/etc', file).read_text()}{line}\n")
        os.chown(folder, 64001, 64001)
        (folder / "in").mkdir()
        bind = "; ".join(f"mount --bind {name}/{file} /etc/{file}" for file in ("passwd", "group", "subuid", "subgid"))
        become = f'set -e; {bind}; exec setpriv --reuid=64001 --regid=64001 --clear-groups "$@"'
        as_builder = ["unshare", "--mount", "bash", "-c", become, "as-builder"]
        if subprocess.run([*as_builder, "unshare", "--user", "apptainer", "--version"], check=False).returncode:
            pytest.skip("the kernel gives ordinary users no namespaces, or they cannot run this apptainer")
        targets = ran(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
        mirror = succeeded(targets).split()[0]
        base = DEFINITION.read_text().partition("# /mnt is")[0]
        (folder / "base.def").write_text(re.sub("^Include: .*$", "", base, flags=re.MULTILINE))
        words = ["apptainer", "build", "--sandbox"]
        for argument in ("AGENT=debootstrap", "FROM=debian:bookworm", "SUITE=bookworm", f"MIRROR={mirror}"):
            words += ["--build-arg", argument]
        variables = os.environ | {"HOME": name, "APPTAINER_TMPDIR": name, "APPTAINER_CACHEDIR": f"{name}/cache"}
        made = [f"{name}/sandbox", f"{name}/base.def"]
        succeeded(ran([*as_builder, *words, *made], env=variables, cwd=name, timeout=500))
        assert (folder / "sandbox/usr/bin/apt-get").exists()
        (folder / "nothing.def").write_text("Bootstrap: scratch\n")
        options = known(re.search(r"--mksquashfs-args=\"(.*)\"", (CONTAINERS / "build.sh").read_text()))
        pack = ["apptainer", "build", f"--mksquashfs-args={options[1].replace('$time', '1700000000')}"]
        made = [f"{name}/nothing.sif", f"{name}/nothing.def"]
        succeeded(ran([*as_builder, *pack, *made], env=variables, cwd=name, timeout=60))


# --- With Podman -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def podman(sif: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the name of the same image in Podman, whose store is a folder of the tests'."""
    need("podman")
    if os.geteuid() != 0:
        pytest.skip("only root can mount an image for Podman")
    folder = tmp_path_factory.mktemp("podman")
    # A virtual machine's root may be unable to raise limits, and crun to use mixed control groups.
    files, processes = (resource.getrlimit(which)[1] for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    engine = 'runtime = "runc"\ncgroup_manager = "cgroupfs"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = ["nofile={min(files, 4096)}:{min(files, 4096)}", '
        f'"nproc={min(processes, 4096)}:{min(processes, 4096)}"]\n[engine]\n{engine}'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    ENVIRONMENT["CONTAINERS_CONF"] = str(folder / "containers.conf")
    ENVIRONMENT["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")
    changes = ["ENV PATH=/opt/envknee/venv/bin:/usr/local/bin:/usr/bin:/bin", "ENV GIT_PYTHON_REFRESH=quiet"]
    changes += [f"LABEL {name}={value}" for name, value in apptainer.describe(sif).labels.items()]
    # An empty layer is imported, and a link leads to the image's files in its place: Podman would unpack and pack 2 GB for a minute.
    words = ["podman", "import", "-q", *[f"--change={change}" for change in changes], "-", "envknee-test"]
    subprocess.run(words, input=bytes(10_240), env=ENVIRONMENT, check=True)
    (files := folder / "files").mkdir()
    parts = succeeded(ran(["apptainer", "sif", "list", sif]))
    (start,) = re.findall(r"(\d+)-\d+ +\|FS \(Squashfs", parts)
    mounted = subprocess.run(["mount", "-t", "squashfs", "-o", f"loop,ro,offset={start}", sif, files], check=False)
    if mounted.returncode:  # no loop device
        subprocess.run(["unsquashfs", "-q", "-n", "-f", "-o", start, "-d", files, sif], check=True)
    (link,) = (folder / "graph/overlay/l").iterdir()
    link.unlink()
    link.symlink_to(files)
    if subprocess.run(["podman", "run", "--rm", "--network=none", "envknee-test", "true"], env=ENVIRONMENT).returncode:
        pytest.skip("Podman runs nothing on this machine")
    yield "envknee-test"
    # Its store is mounted on itself, and such a folder could not be deleted.
    for place in (files, folder / "graph/overlay"):
        subprocess.run(["umount", "--lazy", place], check=False)


def test_a_sweep_runs_its_trials_with_podman(podman: str, workspace: Workspace) -> None:
    _, where = swept_in(workspace, runtime="docker", image=podman)
    image = known(where.image)
    named = succeeded(ran(["podman", "image", "inspect", "--format", "{{.Id}}", podman], env=ENVIRONMENT)).strip()
    assert (image.sif_sha256, image.content_sha256) == (None, named)
    missing = workspace.study(study="other", runtime="docker", image="no-such-image")
    refused(workspace.sweep(missing, "-n"), "image 'no-such-image' is not there")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_ends_leaves_no_container_behind(podman: str, workspace: Workspace, number: signal.Signals):
    scratch, pinned = (workspace.folder / name for name in ("scratch", "image.json"))
    trial = a_trial(workspace.folder / "0000", runtime="docker", iterations=100_000)
    succeeded(workspace.module("docker", podman, str(pinned)))
    launcher = start_launcher(trial, pinned, scratch)
    wait_for(lambda: trial.metrics.exists())
    running = ["podman", "ps", "--quiet", "--all"]
    assert succeeded(ran(running, env=ENVIRONMENT))
    launcher.send_signal(number)
    launcher.wait(120)
    wait_until_none(lambda: trial_processes(workspace.folder), timeout_s=120)
    wait_for(lambda: not succeeded(ran(running, env=ENVIRONMENT)), timeout_s=120)
    wait_for(lambda: not list(scratch.glob("envknee-ranks-*")), timeout_s=120)


@pytest.mark.skipif(not os.environ.get("ENVKNEE_TEST_REBUILD"), reason="minutes more: set ENVKNEE_TEST_REBUILD=1")
def test_two_builds_of_one_commit_have_the_same_content(sif: Path, tmp_path: Path) -> None:
    first, second = apptainer.describe(sif), apptainer.describe(build(tmp_path))
    assert first.content_sha256 == second.content_sha256
    assert first.sif_sha256 != second.sif_sha256


# --- Mistakes ----------------------------------------------------------------------------------------------------------


def test_a_trial_on_the_host_that_belongs_into_the_image_is_refused(tmp_path: Path) -> None:
    trial = a_trial(tmp_path / "0000", runtime="apptainer")
    here = Workspace(tmp_path).module("trial", str(trial.root))
    refused(here, "runtime: apptainer was asked for, and this trial runs ", status=2)
    assert not trial.outcome.exists()
    refused(Workspace(tmp_path).module("launch", str(trial.root)), "none was named", status=2)


def test_without_an_image_the_workflow_would_build_one_first(workspace: Workspace) -> None:
    need("apptainer")
    done = succeeded(workspace.sweep(workspace.study(runtime="apptainer"), "-n"))
    assert "image" in known(re.search(r"output files have to be generated:\n\s*(.*)", done))[1].split(", ")
    assert "image" not in succeeded(workspace.sweep(workspace.study(), "-n"))


def test_without_apptainer_a_sweep_says_so_before_it_starts(workspace: Workspace, monkeypatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    if shutil.which("apptainer", path=ENVIRONMENT["PATH"]):
        pytest.skip("apptainer is where everything is")
    refused(workspace.sweep(workspace.study(runtime="apptainer"), "-n"), "no apptainer on PATH. Install Apptainer")
    assert not workspace.results().root.exists()


def test_an_image_that_is_missing_or_broken_is_named(workspace: Workspace) -> None:
    need("apptainer")
    study = workspace.study(runtime="apptainer", image="no.sif")
    refused(workspace.sweep(study, "-n"), "no.sif is not there", "containers/build.sh")
    (workspace.folder / "no.sif").write_text("not an image")
    refused(workspace.sweep(study, "-n"), "Is the file a whole image?")


def test_an_image_of_a_commit_with_other_packages_is_refused_before_anything_starts(workspace: Workspace) -> None:
    need("apptainer")
    labels = f"org.envknee.lock-sha256 {'0' * 64}\n    org.envknee.git-commit abcdef"
    (workspace.folder / "old.def").write_text(f"Bootstrap: scratch\n\n%labels\n    {labels}\n")
    succeeded(workspace.run(["apptainer", "build", "old.sif", "old.def"], timeout_s=60))
    done = workspace.sweep(workspace.study(runtime="apptainer", image="old.sif"), "-n")
    refused(done, "old.sif was built from other lock files (000000000000, commit abcdef)", "containers/build.sh")
    assert not workspace.results().root.exists()


# --- What cannot be built here -----------------------------------------------------------------------------------------


def digest(path: Path) -> str:
    return known(re.search(r"ubuntu:24\.04@sha256:[0-9a-f]{64}\b", path.read_text()))[0]


def test_both_ways_to_the_cuda_image_start_from_one_digest() -> None:
    assert digest(DEFINITION) == digest(DOCKERFILE)


def test_every_argument_of_the_definition_has_a_default() -> None:
    text = DEFINITION.read_text()
    arguments = known(re.search(r"^%arguments\n((?:    \w+=\S+\n)+)", text, re.MULTILINE))
    assert set(re.findall(r"^    (\w+)=", arguments[1], re.MULTILINE)) == set(re.findall(r"{{ (\w+) }}", text))


def test_what_the_dockerfile_copies_and_runs_is_there() -> None:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    copied = [line.split() for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE)]
    assert [path for *paths, _ in copied for path in paths if not (ROOT / path).is_file()] == []
    # Into the folder each goes under its own name, else under the one that is given.
    given = {Path(name).name for *paths, to in copied for name in (paths if to.endswith("/") else [to])}
    assert len(given) == 9
    used = set(re.findall(r"/opt/envknee/([\w.-]+\.\w+)", text))
    assert used <= given
    assert re.findall(r"^FROM (\S+)$", text, re.MULTILINE) == [digest(DOCKERFILE)]
    assert re.search(r"install\.sh \S+/python /opt/envknee/requirements\.lock", text)
    labels = set(re.findall(r"org\.envknee\.[a-z0-9-]+", text))
    assert labels == set(re.findall(r"org\.envknee\.[a-z0-9-]+", DEFINITION.read_text()))
