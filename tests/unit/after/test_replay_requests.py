"""A study that runs another one's requests again: the same trials, a folder of its own, and what cannot be run is said first."""

import json
import shutil
from pathlib import Path

import pytest
from asked import measured
from drawn import with_verdict
from envknee.after import archive, keep, replay
from envknee.ask import ask
from envknee.base.point import Point
from envknee.record.read import load_records
from envknee.record.schema import Request
from envknee.run import claim
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study, read_study
from envknee.study.paths import StudyFolder
from programs import run_main
from published import PUBLISHED, as_measured
from records import GPU, Trial, a_study, a_trial, write_study

GOLDEN = PUBLISHED["cartpole-one-gpu"]
"""35 trials on an H100, those of learning chosen by TPE."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(folder: StudyFolder, numbers: range) -> list[Request]:
    """Ask for requests as the workflow would, one after the other, and return them."""
    for number in numbers:
        ask.write_request(read_study(folder.study), folder, number)
    return [Request.model_validate_json(folder.trial(number).request.read_text()) for number in numbers]


def test_the_recorded_requests_are_run_again_whatever_a_sampler_would_choose_here(tmp_path: Path):
    study, folder = replay.prepare(GOLDEN, None)
    assert folder.root == Path("results/cartpole-one-gpu-replay")
    assert (study.study, len(space.plan(study))) == ("cartpole-one-gpu-replay", 35)
    recorded = [record.request for record in load_records(GOLDEN)]
    for number in range(35):
        ask.write_request(study, folder, number)
        again = Request.model_validate_json(folder.trial(number).request.read_text())
        same = {"study": recorded[number].study, "refusal": recorded[number].refusal}
        assert again.model_copy(update=same) == recorded[number]
        # On a far slower device, on which other points would be the best: of no consequence.
        trial = measured(again, fps=1.0 + number, device=GPU)
        made = write_study(tmp_path / f"one-{number}", study, [trial])
        for path in made.trial(number).root.iterdir():
            shutil.copyfile(path, folder.trial(number).root / path.name)
    assert replay.verify(folder) == (35, [])
    assert replay.verify(keep.keep(with_verdict(folder), tmp_path / "kept"))[1] == []


def test_a_sweep_that_was_killed_while_it_measured_is_kept_with_all_that_it_asked(tmp_path: Path):
    study = a_study(window=3)
    requests: list[Request] = []
    for number in range(3):
        requests.append(ask.ask(study, number, requests, {}))
    folder = write_study(tmp_path / "results/demo", study, [measured(request) for request in requests])
    for left in set(folder.trial(1).root.iterdir()) - {folder.trial(1).request}:
        left.unlink()
    kept = keep.keep(with_verdict(folder), tmp_path / "kept")
    assert (len(load_records(kept)), replay.verify(kept)) == (2, (3, []))


def test_what_another_device_refused_is_tried_here_and_what_was_decided_there_is_not(tmp_path: Path):
    sweep = {"num_envs": [16, 32, 64], "horizon": 8, "batch_size": 128, "repeats": 1}
    study = parse_study({"study": "demo", "throughput": sweep, "window": 4})
    points = [Point(num_envs, 8, 128) for num_envs in (16, 32, 64)]
    why = [(None, None), ("it cannot fit", None), (None, "decided")]
    requests = [
        ask.request_for(study, *asked_at)
        for asked_at in zip(space.plan(study), points, *zip(*why, strict=True), strict=True)
    ]
    made = [a_trial(16), a_trial(32, status="refused"), a_trial(64, status="skipped")]
    trials = [Trial(request, asked_at.rows, asked_at.outcome) for request, asked_at in zip(requests, made, strict=True)]
    _, folder = replay.prepare(write_study(tmp_path / "first", study, trials), "again")
    again = asked(folder, range(3))
    assert [request.refusal for request in again] == [None] * 3
    assert [request.skip for request in again] == [None, None, "decided"]


def test_it_goes_on_where_it_was_and_never_takes_another_studys_folder(tmp_path: Path):
    first = write_study(tmp_path / "first", read_study(GOLDEN.study), [])
    shutil.copytree(GOLDEN.trials, first.trials, dirs_exist_ok=True)
    study, folder = replay.prepare(first, None)
    asked(folder, range(2))
    assert replay.prepare(first, None) == (study, folder)
    claim.check(study, folder)
    # The first study has fewer trials now: what is replayed is another thing.
    shutil.rmtree(first.trial(20).root)
    with pytest.raises(UserError, match="or a replay of .* as it was before. Give this one another name"):
        replay.prepare(first, None)
    part, there = replay.prepare(first, "part")
    assert len(space.plan(part)) == 20 and there.root == Path("results/part")
    with pytest.raises(UserError, match="holds no trials"):
        replay.prepare(there, None)


def test_a_replay_that_was_archived_can_be_measured_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    study, folder = replay.prepare(GOLDEN, "again")
    trial = a_trial(64)
    made = write_study(tmp_path / "made", study, [Trial(asked(folder, range(1))[0], trial.rows, trial.outcome)])
    shutil.copyfile(folder.replayed, made.replayed)
    packed = archive.write(made, tmp_path / "again.zip")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for _ in range(2):
        run_main(archive.main, "--unpack", packed)
        assert len(ask.recorded_in(study, claim.folder_of(study))) == 35


def test_a_study_is_not_its_own_replay(tmp_path: Path):
    as_measured("cartpole-one-gpu", tmp_path / "results/x")
    text = (tmp_path / "results/x/study.json").read_text().replace('"study": "cartpole-one-gpu"', '"study": "x"')
    (tmp_path / "results/x/study.json").write_text(text)
    with pytest.raises(UserError, match="holds trial 0 of study 'cartpole-one-gpu', and trial 0 of study 'x'"):
        replay.prepare(StudyFolder(Path("results/x")), None)
    as_measured("cartpole-one-gpu", tmp_path / "results/cartpole-one-gpu")
    with pytest.raises(UserError, match="holds another study, or a replay .* Give this one another name"):
        replay.prepare(StudyFolder(Path("results/cartpole-one-gpu")), "cartpole-one-gpu")


def test_what_cannot_be_replayed_says_so():
    with pytest.raises(UserError, match=r"NAME=.*gives it another name.*\n.*a study's name becomes a folder"):
        replay.prepare(GOLDEN, "Not A Name")
    with pytest.raises(UserError, match="image 'other.sif' is for runtime: apptainer or docker"):
        replay.prepare(GOLDEN, None, "other.sif")


def test_a_replay_whose_requests_are_gone_or_changed_says_where_they_come_from():
    study, folder = replay.prepare(GOLDEN, None)
    folder.replayed.write_text(folder.replayed.read_text().replace('"seed":', '"seed":1', 1))
    with pytest.raises(UserError, match="replayed.jsonl was changed: its sha256 is"):
        ask.write_request(study, folder, 0)
    folder.replayed.unlink()
    with pytest.raises(UserError, match=r"`make replay STUDY=<folder of study cartpole-one-gpu>` writes it"):
        ask.write_request(study, folder, 0)


def test_a_verdict_that_does_not_follow_from_the_records_is_found(tmp_path: Path):
    folder = with_verdict(as_measured("cartpole-one-gpu", tmp_path / "x"))
    assert replay.verify(folder) == (35, [])
    verdict = json.loads(folder.verdict.read_text())
    verdict["arms"][0]["headline"]["num_envs"] = 16384
    folder.verdict.write_text(canonical_json(verdict))
    count, (finding,) = replay.verify(folder)
    assert count == 35 and "verdict.json does not follow from the records" in finding
