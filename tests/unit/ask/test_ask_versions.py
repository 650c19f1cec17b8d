"""The version of the rules that ask: fixed when a folder is made, kept by what goes on, refused if it is unknown."""

import json
from pathlib import Path

import pytest
from asked import measured, play
from envknee.after import replay
from envknee.ask import ask
from envknee.record.reasons import Decided, FailedBefore, RolloutTooLarge
from envknee.record.schema import Request
from envknee.study import space
from envknee.study.continued import continued
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study, read_study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import ASK_VERSION
from envknee.words.requests import why
from published import PUBLISHED, as_measured
from pydantic import ValidationError
from records import GPU, a_study, a_trial

GOLDEN = PUBLISHED["cartpole-one-gpu"]
"""Begun under version 1."""


def test_only_the_newest_version_asks_for_seconds_of_timed_iterations_and_never_of_a_command():
    section = {"num_envs": 16, "horizon": 8, "batch_size": 128, "repeats": 1}
    seconds = {
        (version, least): ask.ask(
            parse_study({"study": "s", "ask_version": version, "throughput": section | least_s}), 0, [], {}
        ).least_timed_s
        for version in (1, 2)
        for least, least_s in (("default", {}), ("own", {"least_timed_s": 0.5}))
    }
    assert seconds == {(1, "default"): 0.0, (1, "own"): 0.0, (2, "default"): 2.0, (2, "own"): 0.5}
    command = {"trainer": "command", "command": {"preset": "mjlab", "argv": ["python"]}}
    study = parse_study({"study": "s", "ask_version": 2, "arms": {"a": command}, "throughput": section})
    assert ask.ask(study, 0, [], {}).least_timed_s == 0.0


def test_a_new_folder_has_the_newest_version_and_an_old_one_its_own(tmp_path: Path):
    assert continued(a_study(), StudyFolder(tmp_path / "new")).ask_version == ASK_VERSION == 3
    study = read_study(GOLDEN.study)
    assert study.ask_version == 1 and '"ask_version"' not in canonical_json(study)
    assert continued(study.model_copy(update={"ask_version": 2}), GOLDEN).ask_version == 1


def test_a_replay_has_the_version_of_the_requests_that_it_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    study, folder = replay.prepare(GOLDEN, None)
    assert continued(study, folder).ask_version == study.ask_version == 1


def test_a_study_of_version_1_goes_on_with_it_and_a_study_file_cannot_change_that(tmp_path: Path):
    folder = as_measured("cartpole-one-gpu", tmp_path / "x")
    before = folder.trial(34).request.read_bytes()
    folder.trial(34).request.unlink()
    ask.write_request(continued(read_study(folder.study), folder), folder, 34)
    assert folder.trial(34).request.read_bytes() == before


@pytest.mark.parametrize("version", [1, 2])
def test_requests_of_both_versions_are_verified_under_their_own(version: int):
    section = {"num_envs": [16, 32], "horizon": 8, "batch_size": 128, "repeats": 5, "until_decided": {"delta": 0.15}}
    study = parse_study({"study": "s", "ask_version": version, "window": 1, "throughput": section})
    requests, records = play(study, lambda request: measured(request, fps=1000.0 + request.number % 3))
    assert requests[-1].skip == ("decided after 3 repeats" if version == 1 else Decided(repeats=3))
    assert ask.ask_again(study, requests, records) == requests
    assert ('"ask_version": 2' in canonical_json(requests[0])) == (version == 2)
    again = Request.model_validate_json(canonical_json(requests[-1]))
    assert again == requests[-1] and type(again.skip) is type(requests[-1].skip)


@pytest.mark.parametrize("version", [1, 2])
def test_a_refusal_is_a_text_in_version_1_and_a_reason_later(version: int):
    sweep = {"num_envs": [64, 16384], "horizon": 32, "batch_size": 2048, "repeats": 3}
    study = parse_study({"study": "s", "ask_version": version, "window": 1, "throughput": sweep})
    requests, _ = play(study, lambda r: measured(r, status="refused" if r.refusal else None, device=GPU, memory_gb=20))
    text = (
        "The observations of one rollout of 16384 x 32 take 116 GB (measured: 0.453 GB at 64 x 32),"
        " and 80.75 GB can be used (95% of the device's 85 GB)."
    )
    refusals = [request.refusal for request in requests if request.refusal]
    assert refusals
    assert all(refusal == text if version == 1 else isinstance(refusal, RolloutTooLarge) for refusal in refusals)


def test_requests_of_another_version_are_not_of_the_study():
    study = a_study(ask_version=2)
    slot = space.plan(study)[0]
    request = ask.answer(study, slot, ask.History.of([], {}))
    problem = ask.mismatch(a_study(), slot, request)
    assert problem == "its ask_version is 2, and 1 was expected"


def test_an_unknown_version_is_refused(tmp_path: Path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(json.loads(GOLDEN.study.read_text()) | {"ask_version": ASK_VERSION + 1}))
    with pytest.raises(UserError, match="ask_version 4 comes from a later envknee; this one knows 1 to 3"):
        read_study(path)
    request = a_trial(64).request.model_dump(mode="json")
    with pytest.raises(ValidationError, match="ask_version 4 comes from a later envknee"):
        Request.model_validate(request | {"ask_version": ASK_VERSION + 1})


@pytest.mark.parametrize(("version", "skip"), [(2, "decided after 3 repeats"), (1, Decided(repeats=3).model_dump())])
def test_a_sentence_is_no_reason_and_a_reason_no_sentence(version: int, skip: object):
    request = a_trial(64).request.model_dump(mode="json")
    with pytest.raises(ValidationError, match=f"skip: with ask_version {version}"):
        Request.model_validate(request | {"ask_version": version, "skip": skip})


def test_arithmetic_that_differs_in_its_last_digits_gives_the_same_reason():
    def reason(needed_gb: float) -> RolloutTooLarge:
        return RolloutTooLarge(
            num_envs=64, horizon=8, needed_gb=needed_gb, usable_gb=80.75, device_gb=85.0, measured_gb=1.0,
            measured_num_envs=16, measured_horizon=8,
        )  # fmt: skip

    assert reason(115.96411) == reason(115.96412) != reason(116.5)


def test_a_reason_is_said_with_its_numbers():
    failed = FailedBefore(num_envs=4096, horizon=32, trials=2, smallest_num_envs=2048, smallest_horizon=16)
    said = why(failed)
    assert "2 trials" in said and "2,048" in said and "16" in said
    assert why("a text of version 1") == "a text of version 1"
