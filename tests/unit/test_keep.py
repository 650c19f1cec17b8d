"""What is kept of a study is enough to decide it again."""

from pathlib import Path

import pytest
from drawn import with_verdict
from envknee.after.keep import keep
from envknee.decide.study import decide
from envknee.record.read import load_records
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from records import GPU, PLATEAU, a_study, a_trial, fps_trials, write_study


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    study = a_study(tracking={"uri": "postgresql://me:hunter2@db/runs"})
    return with_verdict(write_study(tmp_path / "results/demo", study, fps_trials(PLATEAU)))


def test_the_kept_files_say_the_same_and_leave_the_rest_and_the_tracking_store_behind(
    folder: StudyFolder, tmp_path: Path
):
    (folder.trial(0).root / "trial.log").write_text("long\n")
    kept = keep(folder, tmp_path / "published")
    study = read_study(kept.study)
    assert decide(load_records(kept), study) == decide(load_records(folder), study)
    files = {path.name: path.read_bytes() for path in kept.root.rglob("*") if path.is_file()}
    assert "hunter2" in folder.study.read_text() and not any(b"hunter2" in content for content in files.values())
    assert files.keys() == {
        "README.md", "throughput.svg", "study.json", "records.csv", "request.json", "metrics.jsonl", "outcome.json", "record.json"
    }  # fmt: skip
    page = (kept.root / "README.md").read_text()
    assert "reached at 32 environments" in page and "trials: 9 of" in page
    assert "![throughput](throughput.svg)" in page


def test_keeping_again_brings_what_was_measured_since_and_no_other_study_in_between(folder: StudyFolder, tmp_path):
    whole = load_records(folder)
    last = folder.trial(8)
    hidden = last.root.rename(tmp_path / "hidden")
    with pytest.raises(UserError, match="decided from 9 trials, and .* holds 8"):
        keep(folder, tmp_path / "published")
    kept = keep(with_verdict(folder), tmp_path / "published")
    assert len(load_records(kept)) == 8
    hidden.rename(last.root)
    assert load_records(keep(with_verdict(folder), tmp_path / "published")) == whole
    other = with_verdict(write_study(tmp_path / "results/other", a_study(seed=2), [a_trial(16)]))
    with pytest.raises(UserError, match="keeps another study of that name"):
        keep(other, tmp_path / "published")


def test_a_figure_of_scaling_is_kept_only_where_there_is_one_gpu_to_scale_from(tmp_path: Path):
    arms = {"one": {"gpus": 1}, "two": {"gpus": 2}}
    for name, given in {"alone": ["two"], "both": ["one", "two"]}.items():
        study = a_study(study=name, arms={arm: arms[arm] for arm in given})
        trials = [
            a_trial(16, number=number, arm=arm, gpus=arms[arm]["gpus"], device=GPU).asked(study=name)
            for number, arm in enumerate(given)
        ]
        kept = keep(with_verdict(write_study(tmp_path / "results" / name, study, trials)), tmp_path / "published")
        page = (kept.root / "README.md").read_text()
        assert ((kept.root / "scaling.svg").exists(), "(scaling.svg)" in page) == (len(given) == 2,) * 2
        assert ("no efficiency: no arm of the study is this one on one GPU" in page) == (given == ["two"])
