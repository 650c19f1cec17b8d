"""What is kept of a study is enough to decide it again."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from drawn import with_verdict
from envknee.after import archive, received, repeats, replay
from envknee.after.keep import keep
from envknee.decide.study import decide
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.run import claim
from envknee.show import terminal
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from programs import run_main
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
    files = {path.name: path.read_bytes() for path in kept.root.iterdir()}
    assert files.keys() == {
        "README.md", "throughput.svg", "study.json", "verdict.json", "records.csv", "trials.zip"
    }  # fmt: skip
    assert files["verdict.json"] == folder.verdict.read_bytes()
    packed = members(kept)
    assert set(packed) == {"ro-crate-metadata.json", "study.json"} | {
        f"trials/{number:04d}/{name}"
        for number in range(9)
        for name in ("request.json", "metrics.jsonl", "outcome.json", "record.json")
    }
    assert all((folder.root / name).read_bytes() == content for name, content in packed.items() if "trials/" in name)
    contents = [*files.values(), *packed.values()]
    assert "hunter2" in folder.study.read_text() and not any(b"hunter2" in content for content in contents)
    page = (kept.root / "README.md").read_text()
    assert "reached at 32 environments" in page and "trials: 9 of" in page
    assert "![throughput](throughput.svg)" in page


def members(kept: StudyFolder) -> dict[str, bytes]:
    """Return the files in a kept study's archive."""
    with zipfile.ZipFile(kept.archive) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_same_measurements_give_the_same_bytes_however_often_they_are_kept(folder: StudyFolder, tmp_path: Path):
    kept, other = keep(folder, tmp_path / "published"), keep(folder, tmp_path / "elsewhere")
    before = {path.name: path.read_bytes() for path in kept.root.iterdir()}
    assert before == {path.name: path.read_bytes() for path in other.root.iterdir()}
    keep(folder, tmp_path / "published")
    keep(kept, tmp_path / "published")  # from what is kept, into the same folder
    assert before == {path.name: path.read_bytes() for path in kept.root.iterdir()}


def test_files_that_another_zlib_packed_are_left_as_they_are(folder: StudyFolder, tmp_path: Path):
    kept = keep(folder, tmp_path / "published")
    content = members(kept)
    with zipfile.ZipFile(kept.archive, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    stored = kept.archive.read_bytes()
    assert keep(folder, tmp_path / "published").archive.read_bytes() == stored


def test_a_changed_archive_is_refused_by_the_name_of_what_was_changed(folder: StudyFolder, tmp_path: Path):
    kept = keep(folder, tmp_path / "published")
    content = members(kept)
    rows = content["trials/0003/metrics.jsonl"]
    with zipfile.ZipFile(kept.archive, "w") as archive:
        for name, data in (content | {"trials/0003/metrics.jsonl": rows.replace(b"1", b"2")}).items():
            archive.writestr(name, data)
    words = r"demo/trials\.zip: trials/0003/metrics\.jsonl was changed since the archive was made"
    for use in (load_records, replay.verify, lambda kept: keep(kept, tmp_path / "elsewhere")):
        with pytest.raises(UserError, match=words):
            use(study_folder(kept.root))
    with pytest.raises(UserError, match=words):
        keep(folder, tmp_path / "published")


def test_a_kept_study_is_read_without_a_file_written_beside_it(folder: StudyFolder, tmp_path: Path, capsys):
    kept = keep(folder, tmp_path / "published")
    before = {path.name: path.stat().st_mtime_ns for path in kept.root.iterdir()}
    assert load_records(study_folder(kept.root)) == load_records(folder)
    run_main(terminal.main, kept.root)
    run_main(repeats.main, kept.root, folder.root)
    assert "9 of 9 trials the same bit for bit" in capsys.readouterr().out
    assert before == {path.name: path.stat().st_mtime_ns for path in kept.root.iterdir()}


def test_a_folder_that_an_earlier_version_kept_is_read_and_becomes_an_archive(folder: StudyFolder, tmp_path: Path):
    old = tmp_path / "published/demo"
    shutil.copytree(folder.root, old)
    (old / "trials/0001/mine.txt").write_text("mine")
    assert load_records(study_folder(old)) == load_records(folder)
    kept = keep(study_folder(old), tmp_path / "published")
    assert load_records(kept) == load_records(folder)
    assert [path.relative_to(old).as_posix() for path in (old / "trials").rglob("*") if path.is_file()] == [
        "trials/0001/mine.txt"
    ]


def test_an_archive_of_a_kept_study_is_whole_and_can_be_gone_on_with(folder: StudyFolder, tmp_path: Path):
    kept = keep(folder, tmp_path / "published")
    written = archive.write(kept, tmp_path / "demo.zip")
    for file in (kept.archive, written):
        assert load_records(received.unpack(file, tmp_path / file.stem)) == load_records(folder)
    study = read_study(kept.study)
    with pytest.raises(
        UserError, match=r"holds a published study.*run `envknee archive --unpack MOVED/trials\.zip --into"
    ):
        claim.check(study, StudyFolder(kept.root))
    claim.check(study, received.unpack(kept.archive, tmp_path / "moved"))


def test_trials_of_an_unknown_commit_are_not_kept_unless_they_were_already(tmp_path: Path):
    whole = fps_trials(PLATEAU)
    trials = [whole[0], *(trial.on(git_commit=None) for trial in whole[1:])]
    folder = with_verdict(write_study(tmp_path / "results/demo", a_study(), trials))
    refused = f"{len(trials) - 1} of {len(trials)} trials, the first of them 1, .* set ENVKNEE_GIT_COMMIT to its commit"
    with pytest.raises(UserError, match=refused):
        keep(folder, tmp_path / "published")
    assert not (tmp_path / "published").exists()
    # What an earlier version kept stays, and is written anew.
    shutil.copytree(folder.root, tmp_path / "published/demo")
    assert load_records(keep(folder, tmp_path / "published")) == load_records(folder)


def test_a_verdict_that_does_not_follow_is_not_kept(folder: StudyFolder, tmp_path: Path):
    verdict = json.loads(folder.verdict.read_text())
    verdict["arms"][0]["headline"]["num_envs"] = 64
    folder.verdict.write_text(canonical_json(verdict))
    with pytest.raises(
        UserError, match=r"verdict\.json does not follow from the records: `envknee verdict .*demo` writes"
    ):
        keep(folder, tmp_path / "published")
    assert not (tmp_path / "published").exists()


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
    last.root.rename(hidden)
    with pytest.raises(UserError, match=r"keeps trials that .* does not hold: 0008\. Nothing was written"):
        keep(with_verdict(folder), tmp_path / "published")
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
