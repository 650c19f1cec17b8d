"""What a first run skips for want of optional parts a second run makes up for, and there nothing may be missing."""

import os
import re
import sys
from pathlib import Path

import pytest
from needs import INSTALLED, PARTS, Part, need
from places import ROOT
from programs import ran
from skipped import skipped_in

LACKING = """\
import needs
import pytest
needs.PARTS["ray"] = needs.Part(lambda: {here}, "make setup TRAINERS=ray")
"""

MODULES = {
    "test_module_one.py": LACKING + "needs.need('ray')\ndef test_first(): pass\n",
    "test_module_two.py": LACKING + "needs.need('ray')\ndef test_second(): pass\n",
    "test_cases.py": LACKING
    + """
@pytest.fixture
def part(): needs.need("ray")
@pytest.fixture(scope="module")
def shared(): pass
@pytest.mark.parametrize("text", ["a b", "c::d", "e[f]", "g@h"])
def test_cases(text): needs.need(*["ray"] if text != "a b" else [])
def test_fixture(part): pass
def test_plain(): pass
class TestClass:
    @pytest.mark.parametrize("text", ["i@j"])
    def test_in_a_group(self, shared, text): needs.need("ray")
    def test_plain_in_a_group(self, shared): pass
""",
}


def run(folder: Path, *arguments: str, here: bool, installed: str = "") -> tuple[int, str]:
    """Run pytest side by side, as `make test` does, on modules that need Ray; return its exit status and what it says."""
    for name, text in MODULES.items():
        (folder / name).write_text(text.replace("{here}", str(here)))
    variables = {INSTALLED: installed, "PYTHONPATH": str(ROOT / "tests/helpers"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ["-p", "xdist", "-p", "side_by_side", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    words = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
    done = ran(words, cwd=folder, env=os.environ | variables)
    return done.returncode, done.stdout


def test_what_was_skipped_runs_once_its_part_is_installed_and_fails_without_it(tmp_path):
    report, left = tmp_path / "report.xml", tmp_path / "left"
    status, said = run(tmp_path, f"--junitxml={report}", "-o", "junit_family=xunit1", here=False)
    assert status == 0 and "3 passed, 7 skipped" in said
    assert "needs ray: make setup TRAINERS=ray" in report.read_text()
    skipped = skipped_in(report)
    assert "@test_cases.py.shared" in report.read_text()
    names = (
        "test_cases[c::d]",
        "test_cases[e[f]]",
        "test_cases[g@h]",
        "test_fixture",
        "TestClass::test_in_a_group[i@j]",
    )
    cases = [f"test_cases.py::{name}" for name in names]
    assert sorted(skipped) == sorted([*cases, "test_module_one.py", "test_module_two.py"])
    left.write_text("\n".join(skipped))
    status, said = run(tmp_path, f"@{left}", here=True, installed="ray")
    assert status == 0 and "7 passed" in said and "skipped" not in said
    # A part that somebody installed, and that is not there all the same.
    status, said = run(tmp_path, "test_module_one.py", here=False, installed="skrl ray")
    assert status != 0 and "ray was installed (make setup TRAINERS=ray), and it is not found here" in said


def test_only_a_part_that_was_installed_must_be_there(monkeypatch):
    monkeypatch.setitem(PARTS, "ray", Part(lambda: False, "make setup TRAINERS=ray"))
    for installed in ("", "skrl"):
        monkeypatch.setenv(INSTALLED, installed)
        with pytest.raises(pytest.skip.Exception, match="needs ray: make setup TRAINERS=ray"):
            need("ray")
    monkeypatch.setenv(INSTALLED, "skrl ray")
    with pytest.raises(pytest.fail.Exception, match="ray was installed"):
        need("ray")
    monkeypatch.setenv(INSTALLED, "rey")
    with pytest.raises(AssertionError, match="names rey: expected some of rsl_rl rl_games"):
        need("strace")


def test_each_part_is_looked_for_in_one_place_and_installed_by_the_second_step():
    for path in (ROOT / "tests").rglob("*.py"):
        assert path.name == Path(__file__).name or "importorskip" not in path.read_text(encoding="utf-8"), path
    steps = (ROOT / ".ci/run").read_text(encoding="utf-8")
    named = {name for name in PARTS if re.search(rf"(?<![\w-]){name}(?![\w-])", steps)}
    assert named == set(PARTS)
