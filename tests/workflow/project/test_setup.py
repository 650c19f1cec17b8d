"""Set-up: the lock files are complete and agree, and set-up explains itself when something is missing.

The scripts run for real, in a copy of the project whose lock files name tiny wheels made here: no network, no gigabytes.
"""

import ast
import ensurepip
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path

import pytest
from needs import need
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT
from programs import a_program, refused, succeeded
from records import known
from waiting import wait_for

SIMULATION_LIST = ROOT / "containers/requirements.in"
CUDA_LIST = ROOT / "containers/requirements-cuda.in"
HOST_LIST = ROOT / "workflow/requirements.in"
TRAINERS_LIST = ROOT / "containers/requirements-trainers.in"
RAY_LIST = ROOT / "containers/requirements-ray.in"
OVPHYSX_LIST = ROOT / "containers/requirements-ovphysx.in"
LISTS = (SIMULATION_LIST, CUDA_LIST, TRAINERS_LIST, RAY_LIST, OVPHYSX_LIST, HOST_LIST)
OPTIONAL_LISTS = {"skrl": TRAINERS_LIST, "ray": RAY_LIST, "ovphysx": OVPHYSX_LIST}
"""By a package of each: where that one is installed, the others of its list should be, too."""
CPU_LOCK = ROOT / "containers/requirements-cpu.lock"

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9][0-9a-z.]*)(?:  +# \S.*)?")

LEFT_OUT_OF_ISAACLAB = {
    "alphashape", "coacd", "daqp", "fast-simplification", "hf-xet", "hidapi", "imgui-bundle", "meshio",
    "numba", "open3d", "pin", "pin-pink", "pycollada", "pyglet", "pyopengl-accelerate",
    "resolve-robotics-uri-py", "torchvision", "transformers",
}  # fmt: skip
"""What isaaclab 3.0.0 declares and the camera cart-pole never imports: .venv and the image go without."""


# --- Lock files --------------------------------------------------------------------------------------------------------


def pins(*lists: Path) -> list[tuple[str, str]]:
    """Every (name, version) in lists of packages, in order. Any other line than a pin or a comment fails."""
    names = []
    for path in lists:
        for line in path.read_text().splitlines():
            if not line or line.startswith("# "):
                continue
            pin = PIN.fullmatch(line)
            assert pin, f"{path.name}: {line!r} is neither an exact pin nor a comment"
            names.append((pin["name"], pin["version"]))
    return names


def installed_pins(optional: str | None) -> list[tuple[str, str]]:
    """What should be here: always, or with an optional part."""
    if optional is not None:
        need(optional)
        return pins(OPTIONAL_LISTS[optional])
    return [("torch", dict(pins(CUDA_LIST))["torch"]), *pins(SIMULATION_LIST, HOST_LIST)]


def requirements_of(name: str, extras: set[str]) -> Iterator[Requirement]:
    """What an installed package needs on this machine, with some of its extras."""
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


def test_each_package_is_pinned_once() -> None:
    names = [name for name, _ in pins(*LISTS)]
    assert len(names) > 150
    assert [name for name in names if names.count(name) > 1] == []


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_the_lock_file_beside_a_list_has_the_same_pins_and_the_hashes_of_each(path: Path) -> None:
    """`make locks` writes it."""
    text = path.with_suffix(".lock").read_text()
    locked = re.findall(r"^([a-z0-9-]+)===?(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)
    assert sorted((name, version) for name, version, _ in locked) == sorted(pins(path))
    assert [line for line in text.splitlines() if line[0] not in " #"] == re.findall(r"^\w.*$", text, re.MULTILINE)


def test_both_builds_of_pytorch_are_one_version() -> None:
    """`===` keeps pip from taking the CPU build for the CUDA one."""
    pinned = dict(pins(CUDA_LIST))["torch"]
    assert f"\ntorch==={pinned} \\\n" in CUDA_LIST.with_suffix(".lock").read_text()
    cpu_build = rf"^torch=={re.escape(pinned)}\+cpu( \\\n    --hash=sha256:[0-9a-f]{{64}}){{2}}$"
    assert re.search(cpu_build, CPU_LOCK.read_text(), re.MULTILINE)


@pytest.mark.parametrize("optional", [None, *OPTIONAL_LISTS])
def test_the_environment_holds_exactly_what_is_pinned(optional: str | None) -> None:
    differing = {}
    for name, pinned in installed_pins(optional):
        try:
            installed = version(name).partition("+")[0]  # torch's CPU build calls itself 2.13.0+cpu
        except PackageNotFoundError:
            installed = None
        if installed != pinned:
            differing[name] = f"pinned {pinned}, installed {installed}"
    assert differing == {}


@pytest.mark.parametrize("optional", [None, *OPTIONAL_LISTS])
def test_nothing_that_a_pinned_package_needs_is_missing(optional: str | None) -> None:
    pinned = dict(pins(*LISTS))
    wanted: list[tuple[str, set[str]]] = [(name, set()) for name, _ in installed_pins(optional)]
    problems, left_out = [], set()
    for name, extras in wanted:  # grows while it is read: extras that a requirement names are looked at as well
        for requirement in requirements_of(name, extras):
            needed = canonicalize_name(requirement.name)
            if name == "isaaclab" and needed not in pinned:
                left_out.add(needed)
            elif name == "isaaclab" and needed == "torch":
                continue  # declares 2.11.0, runs with what is pinned
            elif name == "rl-games" and needed in ("gymnasium", "psutil"):
                continue  # declares Gymnasium's own tasks, which it never makes, and a psutil below 6: it counts cores
            elif name == "ovphysx" and needed == "packaging":
                continue  # declares one below 24, reads a version with it
            elif needed not in pinned or pinned[needed] not in requirement.specifier:
                problems.append(f"{name} needs {requirement}, pinned is {pinned.get(needed)}")
            elif requirement.extras and (needed, requirement.extras) not in wanted:
                wanted.append((needed, requirement.extras))
    assert problems == []
    assert left_out == (LEFT_OUT_OF_ISAACLAB if optional is None else set())


def test_the_simulation_lock_is_complete_without_the_host_lock() -> None:
    """The image holds nothing else."""
    pinned = dict(pins(SIMULATION_LIST, CUDA_LIST))
    left_out = LEFT_OUT_OF_ISAACLAB | {"botocore"}  # the host has it for a tracking server's S3 store
    missing = {
        f"{name} needs {requirement}"
        for name, _ in pins(SIMULATION_LIST)
        for requirement in requirements_of(name, set())
        if (needed := canonicalize_name(requirement.name)) not in pinned and needed not in left_out
    }
    assert missing == set()


def declared(group: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    direct = sum(project["project"]["optional-dependencies"].values(), project["project"]["dependencies"])
    lists = {"direct": direct, **project["dependency-groups"]}
    return {canonicalize_name(Requirement(text).name) for text in lists[group]}


@pytest.mark.parametrize("group", ["direct", "dev", "trainers", "cuda", "ray", "ovphysx"])
def test_each_direct_dependency_is_pinned(group: str) -> None:
    assert declared(group) <= {name for name, _ in pins(*LISTS)}


def test_what_the_package_imports_is_declared() -> None:
    distributions = packages_distributions()
    known = {name for group in ("direct", "trainers", "cuda", "ray") for name in declared(group)}
    undeclared = {}
    packages = (ROOT / "workflow/envknee", ROOT / "workflow/leanframes")
    ours = {package.name for package in packages}
    for source in sorted(source for package in packages for source in package.rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            for top in {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - ours:
                owners = {canonicalize_name(name) for name in distributions.get(top, [top])}
                if not owners & known:
                    undeclared[top] = str(source.relative_to(ROOT))
    assert undeclared == {}


def test_what_sets_up_and_what_makes_an_image_name_no_host_of_packages() -> None:
    """Where packages come from is the machine's affair: pip's and apt's own settings say it."""
    files = [ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / ".ci/run"]
    files += [path for name in ("containers", "workflow") for path in (ROOT / name).iterdir() if path.is_file()]
    host = re.compile(r"\w+://\S*|--(?:extra-)?index-url|--find-links|--trusted-host")
    # licences.csv has addresses of licences, and nothing installs from it.
    named = {path.name: host.findall(path.read_text()) for path in files if path.suffix not in (".sif", ".csv")}
    assert {name: hosts for name, hosts in named.items() if hosts} == {}


# --- Set-up in a copy of the project -----------------------------------------------------------------------------------


def make_wheel(folder: Path, name: str, number: str, *declares: str, module: str = "") -> None:
    """Write the wheel of a package with one module, `name`.py, and further lines of metadata."""
    info = f"{name}-{number}.dist-info"
    metadata = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {number}", *declares, ""])
    with zipfile.ZipFile(folder / f"{name}-{number}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", module)
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


TORCH = "class cuda:\n    is_available = staticmethod(lambda: {gpu})\nclass version:\n    cuda = '13.0'\n"


class Project:
    """A copy of the project's set-up, with lock files of tiny wheels and programs of its own first on PATH."""

    def __init__(self, root: Path, python: str) -> None:
        self.root = root / "a project"  # with a space
        self.wheels = root / "wheels"
        self.bin = root / "bin"
        for path in ("workflow/setup.sh", "containers/install.sh", "Makefile"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)
        (self.root / "workflow/envknee").mkdir()
        (self.root / "workflow/envknee/__init__.py").write_text("")
        self.wheels.mkdir()
        make_wheel(self.wheels, "setuptools", "99.0")
        make_wheel(self.wheels, "torch", "2.13.0", "Requires-Dist: cudapart>=1", module=TORCH.format(gpu=True))
        make_wheel(self.wheels, "torch", "2.13.0+cpu", module=TORCH.format(gpu=False))
        # Declares what cannot be had, as Isaac Lab does.
        make_wheel(self.wheels, "tool", "1.0", "Requires-Dist: absent>=1", "Requires-Python: >=4")
        for wheel in ("cudapart 1.5", "cudapart 1.7", "tool 2.0", "learner 1.0", "gatherer 1.0", "mover 1.0"):
            make_wheel(self.wheels, *wheel.split())
        self.pin("containers/requirements", f"pip=={ensurepip.version()}", "setuptools==99.0")
        self.pin("containers/requirements-cpu", "torch==2.13.0+cpu")
        self.pin("containers/requirements-cuda", "torch===2.13.0", "cudapart==1.5")
        self.pin("containers/requirements-trainers", "learner==1.0")
        self.pin("containers/requirements-ray", "gatherer==1.0")
        self.pin("containers/requirements-ovphysx", "mover==1.0")
        self.pin("workflow/requirements", "tool==1.0")
        a_program(self.bin, "nvidia-smi", "exit 9")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "MAKE"))}
        self.environment = kept | {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHON": python,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_CACHE_DIR": "1",
        }
        for name in ("TORCH", "TRAINERS", "PHYSICS", "CONFIG", "STUDY", "ARGS"):
            self.environment.pop(name, None)

    def pin(self, lock: str, *pinned: str) -> None:
        """Write a lock file, with the hash of each wheel that is there now."""
        lines = []
        for pin in pinned:
            name, version = re.split("=+", pin)
            wheel = self.wheels / f"{name}-{version}-py3-none-any.whl"
            digest = hashlib.sha256(wheel.read_bytes() if wheel.exists() else b"").hexdigest()
            lines.append(f"{pin} \\\n    --hash=sha256:{digest}\n")
        (self.root / f"{lock}.lock").write_text("".join(lines))

    def start(self, *command: str, **environment: str | None) -> subprocess.Popen[str]:
        merged = {name: value for name, value in (self.environment | environment).items() if value is not None}
        return subprocess.Popen(
            command or ("bash", "workflow/setup.sh"), cwd=self.root, env=merged, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def run(self, *command: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **environment)
        output, _ = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def does(self, *command: str, **environment: str | None) -> str:
        return succeeded(self.run(*command, **environment))

    def installed(self, *names: str) -> list[str | None]:
        """Return the version of each package in .venv; None where it is not there."""
        code = "import importlib.metadata as m; print({d.name: d.version for d in m.distributions()})"
        versions = ast.literal_eval(self.does(".venv/bin/python", "-c", code))
        return [versions.get(name) for name in names]

    def imported(self) -> str:
        return self.does(".venv/bin/python", "-c", "import envknee; print(envknee.__file__)").strip()


@pytest.fixture(scope="module")
def quick_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of these tests, but its `-m venv` takes a copy of an environment made once: most of the time goes there."""
    folder = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    copy = f"rm -rf .venv/* && mkdir -p .venv && cp -a '{folder}/venv/.' .venv && exit"
    a_program(folder, "python", f'case "$*" in "-m venv --clear .venv") {copy} ;; esac\nexec "{sys.executable}" "$@"')
    return str(folder / "python")


@pytest.fixture
def project(tmp_path: Path, quick_python: str) -> Project:
    return Project(tmp_path, quick_python)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose set-up has run, with nothing but the wheels made up."""
    project = Project(tmp_path_factory.mktemp("made"), sys.executable)
    project.does()
    return project


def test_set_up_installs_both_locks_and_the_package_itself(made: Project) -> None:
    assert made.installed("torch", "tool", "cudapart") == ["2.13.0+cpu", "1.0", None]
    assert made.imported() == str(made.root / "workflow/envknee/__init__.py")


def test_the_command_runs_from_anywhere_and_an_older_environment_gets_it(made: Project, tmp_path: Path) -> None:
    (made.root / "workflow/envknee/__main__.py").write_text("import sys; print(sys.argv[1:])")
    command, link = made.root / ".venv/bin/envknee", tmp_path / "envknee"
    link.symlink_to(command)
    assert made.does("env", "-C", "/", str(link), "a", "b c") == "['a', 'b c']\n"
    command.unlink()  # versions before it had none
    assert made.does() == ""
    assert made.does(str(link), "a") == "['a']\n"


def test_packages_of_a_clusters_module_stay_out_of_both_commands(made: Project, tmp_path: Path) -> None:
    """Modules set PYTHONPATH to another Python's packages, and some PYTHONHOME."""
    (tmp_path / "tool.py").write_text("raise ImportError('of another Python')")
    foreign = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nonexistent"}
    program = "import os, sys, tool; print(sys.argv[1:], sorted({'PYTHONPATH', 'PYTHONHOME'} & {*os.environ}))"
    package = made.root / "workflow/envknee"
    (package / "run").mkdir()
    for name in ("__main__.py", "run/snakemake_here.py"):
        (package / name).write_text(program)
    # Of pip, or of an earlier set-up: the next one replaces them.
    for name in ("envknee", "snakemake"):
        a_program(made.root / ".venv/bin", name, "exit 1")
    assert made.does(**foreign) == ""
    for name in ("envknee", "snakemake"):
        assert made.does(f".venv/bin/{name}", "a", "b c", **foreign) == "['a', 'b c'] []\n"


def test_a_path_outside_of_ascii_stops_no_command_in_the_c_locale(tmp_path: Path, quick_python: str) -> None:
    """Python reads .pth files in the encoding of the locale, which has no such letters."""
    (tmp_path / "größe大").mkdir()
    project = Project(tmp_path / "größe大", quick_python)
    assert "setting up" in project.does(LC_ALL="C")
    code = "import envknee, os; print(os.fsencode(envknee.__file__) == os.fsencode(os.environ['EXPECTED']))"
    expected = str(project.root / "workflow/envknee/__init__.py")
    assert project.does(".venv/bin/python", "-c", code, LC_ALL="C", EXPECTED=expected) == "True\n"
    (project.root / "workflow/envknee/__main__.py").write_text("import sys; print(sys.argv[1:])")
    assert project.does(".venv/bin/envknee", "a", LC_ALL="C") == "['a']\n"


def test_the_second_set_up_needs_nothing_but_the_environment(made: Project) -> None:
    """No network, no Python but .venv's own, no name of an interpreter."""
    a_program(made.bin / "no-python", "python3", "exit 127")
    path = f"{made.bin / 'no-python'}:{made.environment['PATH']}"
    assert made.does(PATH=path, PYTHON=None, PIP_FIND_LINKS=None) == ""


def test_a_changed_lock_and_a_moved_folder_make_the_environment_anew(project: Project, tmp_path: Path) -> None:
    project.does()
    project.pin("workflow/requirements")
    assert "setting up" in project.does()
    assert project.installed("tool") == [None]
    project.root = project.root.rename(tmp_path / "moved")
    assert "setting up" in project.does()
    assert str(project.root) in (project.root / ".venv/complete").read_text()
    assert project.imported() == str(project.root / "workflow/envknee/__init__.py")


def test_further_trainers_come_when_asked_for_and_stay(project: Project) -> None:
    project.does()
    assert project.installed("learner") == [None]
    project.does(TRAINERS="all")
    assert project.installed("learner") == ["1.0"]
    assert project.does() == ""
    project.pin("workflow/requirements", "tool==2.0")
    project.does()
    assert project.installed("tool", "learner", "gatherer") == ["2.0", "1.0", None]
    project.does(TRAINERS="ray")
    assert project.installed("learner", "gatherer") == ["1.0", "1.0"]
    project.does(TRAINERS="none")
    assert project.installed("learner", "gatherer") == [None, None]
    refused(project.run(TRAINERS="skrl"), "TRAINERS=skrl", "TRAINERS=all", status=2)


def test_physx_comes_when_asked_for_and_stays(project: Project) -> None:
    project.does(PHYSICS="ovphysx")
    assert project.does() == ""
    assert project.installed("mover", "learner") == ["1.0", None]
    refused(project.run(PHYSICS="bullet"), "PHYSICS=bullet", "PHYSICS=ovphysx", status=2)


def test_an_environment_that_was_never_finished_is_made_anew(project: Project) -> None:
    a_program(project.root / ".venv/bin", "python", "exit 0")  # as after kill -9 in the middle
    project.does()
    assert project.installed("tool") == ["1.0"]


def test_two_set_ups_at_once_do_the_work_once(project: Project) -> None:
    both = [project.start(), project.start()]
    outputs = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted("setting up" in output for output in outputs) == [False, True]
    assert sum("waiting" in output for output in outputs) == 1
    assert project.installed("tool") == ["1.0"]


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_set_up_leaves_nothing_behind(project: Project, signal_number: int) -> None:
    a_program(project.bin, "df", f"touch '{project.bin}/reached'; exec sleep 60")  # stops after .venv was made
    process = project.start()
    wait_for((project.bin / "reached").exists, timeout_s=60)
    assert (project.root / ".venv/bin").exists()
    os.killpg(process.pid, signal_number)  # as Ctrl-C does
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert not (project.root / ".venv").exists()


def test_a_second_signal_does_not_stop_the_removal(project: Project) -> None:
    a_program(project.bin, "df", f"touch '{project.bin}/reached'; exec sleep 60")
    slow = f"touch '{project.bin}/removing'; sleep 2"
    a_program(project.bin, "rm", f'case "$*" in "-rf .venv") {slow} ;; esac\nexec {shutil.which("rm")} "$@"')
    process = project.start()
    for step in ("reached", "removing"):
        wait_for((project.bin / step).exists, timeout_s=60)
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert not (project.root / ".venv").exists()


def test_a_gpu_gets_the_cuda_build_with_its_pinned_libraries(project: Project) -> None:
    a_program(project.bin, "nvidia-smi", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'")
    said = project.does()
    assert "finds a GPU: PyTorch's CUDA build is installed" in said and "make setup TORCH=cpu" in said
    assert project.installed("torch", "cudapart") == ["2.13.0", "1.5"]
    assert "finds" not in project.does(TORCH="cpu")
    assert project.installed("torch") == ["2.13.0+cpu"]


def test_a_login_node_is_told_which_pytorch_it_gets_and_how_to_get_the_other(project: Project) -> None:
    said = project.does()
    assert "finds no GPU: PyTorch's CPU build is installed" in said and "login node" in said
    assert "make setup TORCH=cuda" in said and project.installed("torch") == ["2.13.0+cpu"]
    project.does("make", "setup", "TORCH=cuda")
    assert project.installed("torch") == ["2.13.0"]


@pytest.mark.parametrize("constraint", [None, "torch<=3"])
def test_an_index_without_the_cpu_build_gives_the_cuda_build_with_its_libraries(
    project: Project, constraint: str | None
) -> None:
    (project.wheels / "torch-2.13.0+cpu-py3-none-any.whl").unlink()
    if constraint:
        (project.root / "constraints").write_text(constraint)
    assert "no CPU build of PyTorch" in project.does(PIP_CONSTRAINT=constraint and "constraints")
    assert project.installed("torch", "cudapart") == ["2.13.0", "1.5"]


@pytest.mark.parametrize("package", ["tool", "setuptools", "torch"])
def test_a_file_that_an_index_serves_in_place_of_the_pinned_one_is_not_installed(project: Project, package: str):
    version = {"tool": "1.0", "setuptools": "99.0", "torch": "2.13.0+cpu"}[package]
    make_wheel(project.wheels, package, version, module="import os; os.abort()")
    stopped(project, "not the pinned one", "sha256")


def test_a_pin_without_a_hash_is_not_installed(project: Project) -> None:
    with (project.root / "workflow/requirements.lock").open("a") as lock:
        lock.write("learner==1.0\n")
    refused(project.run(), "Hashes are required", status=2)


def test_a_gpu_that_pytorch_cannot_use_is_reported(project: Project) -> None:
    make_wheel(project.wheels, "torch", "2.13.0", module=TORCH.format(gpu=False))
    project.pin("containers/requirements-cuda", "torch===2.13.0")
    said = 'case "$1" in -L) echo "GPU 0: NVIDIA H100 (UUID: GPU-1)" ;; *) echo 470.82.01 ;; esac'
    a_program(project.bin, "nvidia-smi", said)
    refused(project.run(), "CUDA 13.0", "driver 470.82.01", "TORCH=cpu", status=2)
    assert not (project.root / ".venv").exists()


# --- What is missing is said in one sentence, and leaves no environment that later looks complete ----------------------


def stopped(project: Project, *words: str, **environment: str | None) -> None:
    """Run set-up, which must fail, with these words in its last line."""
    output = refused(project.run(**environment), *words, status=2)
    assert not (project.root / ".venv").exists()
    last = output.strip().splitlines()[-1]
    assert last.startswith("envknee: ") and [word for word in words if word not in last] == [], output


def test_without_the_venv_module_its_debian_package_is_named(project: Project) -> None:
    a_program(project.bin, "fake", f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec "{sys.executable}" "$@"')
    package = f"apt-get install python3.{sys.version_info.minor}-venv"
    stopped(project, "no venv module", package, PYTHON=str(project.bin / "fake"))


@pytest.mark.parametrize(
    ("body", "says"),
    [("echo 3.13", "is Python 3.13, and only 3.11 and 3.12"), ("exit 127", "does not run"), ("exit 0", "does not run")],
)
def test_a_python_that_will_not_do_is_refused(project: Project, body: str, says: str) -> None:
    a_program(project.bin, "fake", body)
    stopped(project, says, "PYTHON=python3.12", PYTHON=str(project.bin / "fake"))


def test_the_first_python_that_will_do_is_taken(project: Project) -> None:
    a_program(project.bin, "python3", "echo 3.13")
    a_program(project.bin, "python3.12", "exit 127")
    without_venv = 'case "$*" in *version_info*) echo 3.11 ;; *) echo "ran $*" >&2; exit 3 ;; esac'
    a_program(project.bin, "python3.11", without_venv)
    stopped(project, "python3.11 has no venv module", PYTHON=None)
    a_program(project.bin, "python3.11", "exit 127")
    stopped(project, "no Python 3.11 or 3.12 was found (python3 is 3.13)", PYTHON=None)
    a_program(project.bin, "python3", "exit 127")
    stopped(project, "python3 is missing", "apt-get install python3 python3-venv", PYTHON=None)


@pytest.mark.timeout(300, func_only=True)
def test_without_a_network_set_up_says_so_and_stops(project: Project) -> None:
    nowhere = {"PIP_NO_INDEX": None, "PIP_FIND_LINKS": None, "PIP_INDEX_URL": "http://127.0.0.1:9"}
    stopped(project, "pip found no package index", "network", **nowhere, PIP_RETRIES="0")


def test_a_package_that_cannot_be_installed_is_named(project: Project) -> None:
    project.pin("workflow/requirements", "tool==3.0")
    said = "No matching distribution found for tool==3.0", "what pip said is above"
    assert "network" not in refused(project.run(), *said, status=2)
    assert not (project.root / ".venv").exists()


@pytest.mark.parametrize(("gpu", "gigabytes", "enough"), [(False, 3, 4), (True, 9, 10)])
def test_too_little_disk_is_seen_before_anything_is_downloaded(
    project: Project, gpu: bool, gigabytes: int, enough: int
) -> None:
    a_program(project.bin, "nvidia-smi", "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'" if gpu else "exit 9")
    a_program(project.bin, "df", f"echo Filesystem; echo /dev/sda 99000000 1 {gigabytes}900000 1% /")
    stopped(project, f"needs about {enough} GB", f"has {gigabytes} GB free")


def test_a_disk_that_fills_up_is_named(project: Project) -> None:
    body = f'case "$*" in *ensurepip*|*venv*|*version_info*|*sys.prefix*) exec "{sys.executable}" "$@" ;; esac'
    a_program(project.bin, "python", body)
    project.does()
    python = project.root / ".venv/bin/python"
    python.unlink()
    a_program(
        python.parent, "python",
        'case "$*" in *sys.prefix*) pwd; exit ;; esac\nwhile [ "$1" != --log ]; do shift; done\n'
        'echo "now ERROR: Could not install packages: [Errno 28] No space left on device" >>"$2"; exit 1',
    )  # fmt: skip
    done = project.run("bash", "containers/install.sh", ".venv/bin/python", "workflow/requirements.lock")
    refused(done, "the disk is full", "PIP_NO_CACHE_DIR=1", status=2)


def test_an_unknown_build_of_pytorch_is_refused(project: Project) -> None:
    stopped(project, "TORCH=rocm", "TORCH=cuda or TORCH=cpu", TORCH="rocm")


def test_an_environment_elsewhere_is_not_emptied(project: Project) -> None:
    shared = project.root.parent / "shared"
    shared.mkdir()
    (shared / "kept").write_text("mine\n")
    (project.root / ".venv").symlink_to(shared)
    refused(project.run(), f".venv is a link to {shared}", "rm .venv", status=2)
    assert (shared / "kept").read_text() == "mine\n"
    (project.root / ".venv").unlink()
    project.does()


# --- The Makefile ------------------------------------------------------------------------------------------------------


@pytest.fixture
def make_calls(project: Project) -> Path:
    """A project whose commands write down how they were called, a line per argument."""
    calls = project.root / "calls"
    a_program(project.root / "workflow", "setup.sh", "exit 0")
    live = 'shift 2; while [ "$1" != snakemake ]; do shift; done; exec "$@"'
    answers = {"python": f'case "$*" in *check*) echo a-study ;; *gpus*) echo 2 ;; *run.live*) {live} ;; esac'}
    for name in ("python", "snakemake", "pytest"):
        a_program(
            project.root / ".venv/bin", name,
            f'for word in {name} "$@"; do printf "<%s>" "$word"; done >>"{calls}"; echo >>"{calls}"\n'
            + answers.get(name, 'exit "${SNAKEMAKE_STATUS:-0}"'),
        )  # fmt: skip
    return calls


@pytest.mark.parametrize(
    "config", ["config/config.yaml", "my studies/a 'b' \"c\".yaml", "$(touch made).yaml", "`id`;$x&.yaml"]
)
def test_sweep_hands_a_config_on_as_it_stands(project: Project, make_calls: Path, config: str) -> None:
    project.does("make", "sweep", f"CONFIG={config}", "ARGS=-n --forceall")
    called = f"<snakemake><--resources><device=2><--configfile><{config}><-n><--forceall>"
    assert make_calls.read_text().splitlines() == [
        f"<python><-m><envknee><check><{config}>",
        "<python><-m><envknee><gpus>",
        f"<python><-m><envknee.run.live><results/a-study>{called}",
        called,
        "<python><-m><envknee><summary><--where><results/a-study>",
    ]
    assert not (project.root / "made").exists()


def test_sweep_asks_for_plain_lines(project: Project, make_calls: Path) -> None:
    project.does("make", "sweep", "PLAIN=1")
    assert "<python><-m><envknee.run.live><--plain><results/a-study><snakemake>" in make_calls.read_text()


def test_prepare_runs_one_rule_here_or_as_a_job(project: Project, make_calls: Path) -> None:
    project.does("make", "prepare", "CONFIG=my study.yaml")
    project.does("make", "prepare", "CONFIG=my study.yaml", "PROFILE=slurm")
    assert make_calls.read_text().splitlines() == [
        "<python><-m><envknee><gpus>",
        "<snakemake><prepare><--resources><device=2><--configfile><my study.yaml>",
        "<snakemake><prepare><--profile><slurm><--configfile><my study.yaml>",
    ]


def test_replay_measures_the_study_that_it_makes_and_compares(project: Project, make_calls: Path) -> None:
    project.does("make", "replay", "STUDY=results/$(touch made)", "NAME=b c")
    calls = make_calls.read_text().splitlines()
    assert calls[0] == "<python><-m><envknee><replay><results/$(touch made)><--name><b c><--image><>"
    assert calls[-1] == "<python><-m><envknee><compare><results/$(touch made)><results/a-study>"
    assert any(call.startswith("<snakemake>") for call in calls)
    project.does("make", "replay", "FROM=$(touch made).zip", "PROFILE=slurm")
    assert "<python><-m><envknee><archive><--unpack><$(touch made).zip>" in make_calls.read_text()
    assert not (project.root / "made").exists()


def test_a_profile_takes_the_place_of_this_machines_gpus(project: Project, make_calls: Path) -> None:
    project.does("make", "sweep", "PROFILE=$(touch made)")
    assert "<snakemake><--profile><$(touch made)><--configfile><config/config.yaml>" in make_calls.read_text()
    assert "<gpus>" not in make_calls.read_text()
    assert not (project.root / "made").exists()


def test_a_config_in_the_environment_is_somebody_elses(project: Project, make_calls: Path) -> None:
    project.does("make", "sweep", CONFIG="other", ARGS="other", STUDY="other")
    assert "other" not in make_calls.read_text()
    assert "<--configfile><config/config.yaml>" in make_calls.read_text()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("sweep", "STUDY=results/mine"), "CONFIG=results/mine/study.json"),
        (("compare", "A=results/x"), "A='results/x' B='' was given"),
    ],
)
def test_what_a_target_does_not_take_is_told(project: Project, make_calls: Path, command: tuple[str, ...], says: str):
    refused(project.run("make", *command), says)
    assert not make_calls.exists()


def test_a_failed_sweep_fails_and_sums_nothing_up(project: Project, make_calls: Path) -> None:
    refused(project.run("make", "sweep", SNAKEMAKE_STATUS="1"))
    assert "summary" not in make_calls.read_text()


def test_publish_and_verify_find_the_folder_of_the_study(project: Project, make_calls: Path) -> None:
    named = "STUDY=results/b c"
    for words, called in (
        (["make", "publish"], "<publish><results/a-study><--config><config/config.yaml>"),
        # A study that is named goes where its own file says.
        (["make", "publish", named], "<publish><results/b c><--config><results/b c/study.json>"),
        (["make", "publish", named, "CONFIG=other.yaml"], "<publish><results/b c><--config><other.yaml>"),
        (["make", "verify", named], "<replay><--verify><results/b c>"),
    ):
        project.does(*words)
        assert make_calls.read_text().splitlines()[-1] == f"<python><-m><envknee>{called}"


def test_help_lists_every_target(project: Project) -> None:
    output = project.does("make")
    phony = known(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert re.findall(r"^  make ([\w-]+)", output, re.MULTILINE) == phony[1].split()
