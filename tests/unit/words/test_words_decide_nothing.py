"""Words are said last: with every word replaced by `x`, the same trials are asked and planned, the same verdicts decided, and the same
numbers published, byte for byte."""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any, get_type_hints

import envknee
import envknee.words
import pytest
from asked import a_study, dice, learning_section, measured, play
from envknee.ask.plan import plan_of
from envknee.decide.study import decide
from envknee.record.schema import Request
from envknee.study.files import canonical_json
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.tracking.arms import describe_study
from envknee.tracking.run import Run
from published import PUBLISHED, records_of
from records import GPU, Trial

STUDIES = (
    "cartpole-learning-rules",
    "cartpole-two-gpu-learning",
    "cartpole-off-policy",
    "cartpole-stock-lean-learning",
)
"""Together they have every part of a verdict."""

DECIDING = ("ask", "decide", "record", "verdict", "words")
"""Folders whose modules are imported before words are replaced, so that none keeps a word."""

WORDY_TAGS = ("device", "mlflow.note.content", "reason", "trials")
"""Tags of MLflow's runs that words/ says: for people, and read by nothing."""

WORDS = {str: "x", list[str]: ["x"], str | None: "x"}
"""What a function of words/ returns -> what is returned in its place."""


def modules_below(package: ModuleType) -> Iterator[ModuleType]:
    """Yield a package and every module in it."""
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def functions_of_words() -> dict[FunctionType, Any]:
    """Return each function of words/ that returns text, with what it returns."""
    functions = {}
    for module in modules_below(envknee.words):
        for value in vars(module).values():
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                functions[value] = get_type_hints(value)["return"]
    return {function: returned for function, returned in functions.items() if returned in WORDS}


def replaced(returned: Any) -> Callable[..., Any]:
    return lambda *_, **__: WORDS[returned]


def replace_words(monkeypatch: pytest.MonkeyPatch) -> int:
    """Replace the functions of words/ wherever a module or its tables hold them, and return how many there are."""
    for folder in DECIDING:
        list(modules_below(importlib.import_module(f"envknee.{folder}")))
    functions = functions_of_words()
    for name, module in list(sys.modules.items()):
        if name != "envknee" and not name.startswith("envknee."):
            continue
        for attribute, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in functions:
                monkeypatch.setattr(module, attribute, replaced(functions[value]))
            elif isinstance(value, dict):
                for key, entry in list(value.items()):
                    if isinstance(entry, FunctionType) and entry in functions:
                        monkeypatch.setitem(value, key, replaced(functions[entry]))
    return len(functions)


def a_study_that_stops_early() -> Study:
    """Return a study whose grids end by `until_decided` and `skip_decided`, and list a size that cannot fit the memory."""
    sweep = {
        "num_envs": [64, 128, 256, 16384], "horizon": [32], "batch_size": 2048, "repeats": 8, "until_decided": {"delta": 0.15}
    }  # fmt: skip
    learning = learning_section(
        num_envs=[64, 128, 256], horizon=[32], batch_size=2048, points=None, sampler="grid", repeats=5, skip_decided=True,
        target_episodes=10,
    )  # fmt: skip
    return a_study(throughput=sweep, learning=learning, arms={"stock": {}, "lean": {}}, window=1)


def flat_from_128(request: Request) -> Trial:
    """Return a trial on a GPU whose FPS stop growing at 128 environments, and which learns soonest with 128."""
    throw = dice(request.number)
    fps = 100.0 * min(request.num_envs, 128) * throw.uniform(0.99, 1.01)
    seconds = {64: 40.0, 128: 10.0, 256: 30.0, 16384: 50.0}[request.num_envs] * throw.uniform(0.99, 1.01)
    status = "refused" if request.refusal else None
    if request.kind == "learning" and status is None:
        return measured(request, seconds=seconds, device=GPU, memory_gb=20.0)
    return measured(request, status=status, fps=fps, device=GPU, memory_gb=20.0)


def test_requests_take_no_word(monkeypatch: pytest.MonkeyPatch):
    study = a_study_that_stops_early()
    before, _ = play(study, flat_from_128)
    assert any(request.skip for request in before if request.kind == "throughput")
    assert any(request.skip for request in before if request.kind == "learning")
    assert any(request.refusal for request in before)
    assert replace_words(monkeypatch) > 50
    now, _ = play(study, flat_from_128)
    assert list(map(canonical_json, now)) == list(map(canonical_json, before))


@pytest.mark.parametrize("name", STUDIES)
def test_verdicts_take_no_word(name: str, monkeypatch: pytest.MonkeyPatch):
    study, records = read_study(PUBLISHED[name].study), records_of(name)
    before = canonical_json(decide(records, study))
    assert replace_words(monkeypatch) > 50
    assert canonical_json(decide(records, study)) == before


@pytest.mark.parametrize("name", ["cartpole-learning-rules", "cartpole-two-gpus"])
def test_plans_take_no_word(name: str, monkeypatch: pytest.MonkeyPatch):
    study, records = read_study(PUBLISHED[name].study), records_of(name)
    before = plan_of(study, records)
    assert replace_words(monkeypatch) > 50
    assert plan_of(study, records) == before


def test_what_mlflow_shows_takes_no_word_but_names_and_descriptions(monkeypatch: pytest.MonkeyPatch):
    folder = PUBLISHED["cartpole-two-gpu-learning"]
    study = read_study(folder.study)

    def runs() -> list[Run]:
        return [run for arm, trials in describe_study(study, folder) for run in (arm, *trials)]

    before = runs()
    assert replace_words(monkeypatch) > 50
    now = runs()
    assert {run.name for run in now} == {"x"} and "x" not in {run.name for run in before}
    assert [without_words(run) for run in now] == [without_words(run) for run in before]


def without_words(run: Run) -> Run:
    """Return a run without its name and the tags that are words."""
    tags = {name: value for name, value in run.tags.items() if name not in WORDY_TAGS}
    return replace(run, name="", tags=tags)


def test_words_are_replaced_wherever_they_are_held(monkeypatch: pytest.MonkeyPatch):
    from envknee.words import numbers, statements

    part = decide([], a_study()).spending[0]
    assert (numbers.counted(2, "seed"), statements.statement(part)) != ("x", "x")
    replace_words(monkeypatch)
    assert (numbers.counted(2, "seed"), statements.STATEMENTS[type(part)](part)) == ("x", "x")
