"""The study of docs/isaac-sim.md, with a stand-in for Isaac Sim's image: the same paths, flags and log, and no simulator."""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from envknee.ask import ask
from envknee.base.point import Point
from envknee.study.load import parse_study
from envknee.study.space import Slot
from foreign_commands import measured
from needs import need
from places import PROGRAMS, ROOT
from programs import a_program

PAGE = ROOT / "docs/isaac-sim.md"
TRAIN = "workspace/isaaclab/scripts/reinforcement_learning/rsl_rl/train.py"


@pytest.fixture
def image() -> Iterator[Path]:
    """Make a folder that Apptainer enters as an image. Its Python, and the libraries of that, are this machine's, bound into it."""
    need("apptainer")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "isaac-lab.sif"
        for folder in ("dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", *bound()):
            (root / folder.removeprefix("/")).mkdir(parents=True, exist_ok=True)
        for link in ("bin", "lib", "lib64"):
            (root / link).symlink_to(f"usr/{link}")
        a_program(root / "isaac-sim", "python.sh", f'exec {sys.executable} "$@"')
        (root / TRAIN).parent.mkdir(parents=True)
        shutil.copy(PROGRAMS / "isaac_sim_train.py", root / TRAIN)
        Path(name).chmod(0o755)
        yield root


def bound() -> list[str]:
    return ["/usr", *dict.fromkeys(map(str, (Path(sys.prefix), Path(sys.base_prefix))))]


def test_the_study_of_the_page_measures_a_program_in_an_image(image: Path, tmp_path: Path):
    (text,) = re.findall(r"```yaml\n(study: .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    plain = yaml.safe_load(text)
    arm = plain["arms"]["isaac-sim"]
    argv = arm["command"]["argv"]
    assert argv[:3] == ["apptainer", "exec", "--nv"] and f"/{TRAIN}" in argv
    # Without a GPU; and what stands in for the image needs this machine's Python.
    arm["gpus"] = 0
    place = argv.index("/images/isaac-lab.sif")
    argv[place : place + 1] = ["--bind", ",".join(bound()), str(image)]
    study = parse_study(plain)
    request = ask.request_for(study, Slot(0, "isaac-sim", "throughput", 0), Point(512, 32, None), None)
    record, trial = measured(tmp_path, request)
    log = trial.log.read_text(encoding="utf-8", errors="replace")
    assert record.outcome.status == "ok" and record.fps_total is not None, log
    assert record.fps_total.median == pytest.approx(512 * 32 / (0.02 + 0.0002 * 512), rel=0.2)
    assert list(trial.root.rglob("events.out.tfevents.*")), log
