"""verdict.json of today, of an earlier and of a later version, broken, and missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from envknee.decide.study import decide
from envknee.decide.verdict_file import read_verdict, stale_verdict
from envknee.show import terminal
from envknee.study.files import canonical_json
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import SCHEMA_VERSION, Verdict
from programs import run_main, told
from records import a_study, a_trial, fps_trials, records_of, write_study

TRIALS = [
    *fps_trials({16: [100.0, 101.0, 102.0], 32: [101.0, 102.0, 103.0]}),
    a_trial(16, number=6, repeat=3, status="skipped"),
]


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    folder = write_study(tmp_path / "results/demo", a_study(), TRIALS)
    folder.verdict.write_text(canonical_json(decided()), encoding="utf-8")
    return folder


def decided() -> Verdict:
    return decide(records_of(TRIALS), a_study())


def rewrite(folder: StudyFolder, **changes: Any) -> None:
    """Change keys of verdict.json; None takes one out."""
    content = json.loads(folder.verdict.read_text(encoding="utf-8")) | changes
    kept = {key: value for key, value in content.items() if value is not None}
    folder.verdict.write_text(json.dumps(kept), encoding="utf-8")


@pytest.mark.parametrize(
    ("factor", "added", "is_stale"),
    [(1.0, 0.0, False), (1.0 + 1e-12, 0.0, False), (1.0, 7e-15, False), (1.0 + 1e-6, 0.0, True)],
)
def test_last_digits_of_numbers_do_not_make_a_verdict_stale(
    folder: StudyFolder, factor: float, added: float, is_stale: bool
):
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(own) for key, own in value.items()}
        if isinstance(value, list):
            return [changed(own) for own in value]
        return value * factor + added if isinstance(value, float) else value

    folder.verdict.write_text(json.dumps(changed(decided().model_dump(mode="json"))), encoding="utf-8")
    assert (stale_verdict(folder, decided()) is not None) == is_stale


def test_a_verdict_of_today_is_read_as_it_stands(folder: StudyFolder, capsys):
    rewrite(folder, task_id="by hand")
    assert read_verdict(folder).task_id == "by hand"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema_version": 1, "task_id": "by hand"}, "has schema version 1"),
        ({"schema_version": None, "task_id": "by hand"}, "has no schema version"),
        # What today's models cannot read.
        ({"schema_version": 1, "arms": "a sentence", "statement": "reached"}, "has schema version 1"),
    ],
)
def test_an_older_one_is_decided_again_and_said_so(folder: StudyFolder, capsys, changes: dict[str, Any], said: str):
    rewrite(folder, **changes)
    before = folder.verdict.read_bytes()
    assert read_verdict(folder) == decided()
    assert folder.verdict.read_bytes() == before, "what only reads writes nothing"
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert f"{folder.verdict} {said}, and today's is {SCHEMA_VERSION}: decided again from 7 records" in printed.err


def test_a_newer_one_is_refused_with_both_versions_and_what_to_do(folder: StudyFolder):
    newer = SCHEMA_VERSION + 1
    rewrite(folder, schema_version=newer)
    said = told(lambda: read_verdict(folder), f"schema version {newer}", f"versions up to {SCHEMA_VERSION}")
    assert said.endswith(f"Use the newer envknee that wrote it, or decide again with `envknee verdict {folder.root}`.")


@pytest.mark.parametrize("text", ['{"schema_version": 1, "ar', "[]", f'{{"schema_version": {SCHEMA_VERSION}}}'])
def test_a_broken_one_is_no_older_one(folder: StudyFolder, text: str):
    folder.verdict.write_text(text, encoding="utf-8")
    told(lambda: read_verdict(folder), "is not a whole, valid Verdict", f"`envknee verdict {folder.root}`")


def test_a_study_without_a_verdict_says_how_to_decide(folder: StudyFolder):
    folder.verdict.unlink()
    told(lambda: read_verdict(folder), "holds no verdict.json yet", f"`envknee verdict {folder.root}`")


def test_a_folder_that_is_no_study_gets_the_studies_beside_it_or_in_it(folder: StudyFolder):
    results = folder.root.parent
    write_study(results / "other", a_study(), TRIALS)
    for wrong in (results / "dmeo", results):
        said = told(
            lambda wrong=wrong: run_main(terminal.main, wrong), f"{wrong} holds no verdict.json and no study.json."
        )
        assert said.endswith(f"Name the folder of a study: {results / 'demo'}, {results / 'other'}.")
    alone = results.parent / "empty/none"
    told(lambda: run_main(terminal.main, alone), "Expected the folder of a study, such as results/cartpole-cpu")
