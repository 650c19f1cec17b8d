"""The line a person reads while a sweep runs."""

from typing import Any

import pytest
from envknee.run import progress
from envknee.study import space
from envknee.study.model import Study
from envknee.words.progress import finished_line, result_words, time_left_words, trial_words
from records import a_study, a_trial, write_study


def test_a_result_is_told_in_a_few_words():
    assert result_words(a_trial(32, fps=1432.4).record).startswith("ok: 1,432 FPS, 1.00 GB, ")
    learned = a_trial(32, kind="learning", seconds=12.3).record
    assert "target in 12." in result_words(learned)
    assert "best reward" in result_words(a_trial(32, kind="learning").record)
    assert result_words(a_trial(32, status="oom").record).startswith("oom: ")


def test_parameters_are_told_in_a_few_words():
    assert trial_words(a_trial(64, repeat=1).request) == "throughput stock · 64 envs · T8 · B128 · repeat 2"
    assert trial_words(a_trial(64, gpus=2).request) == ("throughput stock · 64 envs x 2 GPUs · T8 · B128 · repeat 1")
    assert " · 64 envs x 3 ranks · " in trial_words(a_trial(64, gpus=0, cpu_ranks=3).request)
    assert "B library" in trial_words(a_trial(64, batch_size=None).request)


SIZES: dict[str, Any] = {"num_envs": [16, 32], "horizon": [8], "batch_size": 128}


def left_s(study: Study, seconds: dict[int, float], *skipped: int) -> float | None:
    return progress.time_left_s(study, space.plan(study), seconds | dict.fromkeys(skipped, 0.0), skipped)


def test_time_left_counts_each_kind_by_its_own_mean():
    learning = {"num_envs": [16], "horizon": [8], "batch_size": [128], "target_reward": 4.0, "budget_s": 30.0}
    of_both = a_study(throughput=SIZES | {"repeats": 2}, learning=learning)
    assert [slot.kind for slot in space.plan(of_both)] == ["throughput"] * 4 + ["learning"] * 2
    assert left_s(of_both, {}) is left_s(of_both, {}, 0) is None
    assert left_s(of_both, {0: 10.0, 1: 20.0}) == pytest.approx(2 * 15 + 2 * 15)
    assert left_s(of_both, {0: 10.0, 1: 20.0, 2: 15.0, 3: 15.0, 4: 60.0}) == pytest.approx(60)
    assert left_s(of_both.model_copy(update={"slots": 2}), {0: 10.0, 1: 20.0}) == pytest.approx(30)


def test_what_is_not_needed_takes_no_time():
    study, measured = a_study(throughput=SIZES | {"repeats": 4}), dict.fromkeys(range(4), 10.0)
    assert left_s(study, measured) == pytest.approx(40)
    assert left_s(study, measured, 4) == pytest.approx(0.0), "the whole repeat so far"
    assert left_s(study, measured | {5: 10.0}, 4) == pytest.approx(2 * 50 / 6), "one point of it: so may others be"


def test_repeats_end_with_their_time_limit():
    limited = a_study(throughput=SIZES | {"repeats": 4, "time_limit_s": 35.0, "more_repeats": 1})
    assert left_s(limited, {0: 10.0}) == pytest.approx(10 + 15 + 20), (
        "first repeat, what it leaves of 35 s, more_repeats"
    )
    assert left_s(limited, dict.fromkeys(range(4), 10.0)) == pytest.approx(20), "40 s were more than there are"


def test_trials_that_are_skipped_for_one_reason_share_a_line():
    skipped = a_trial(64, repeat=3, status="skipped").record
    said = f"[20/40] throughput stock · repeat 4 · 5 trials → skipped: {skipped.outcome.reason}; about 20 s left"
    assert finished_line(skipped, 20, 40, 20.0, alike=5) == said


def test_what_jobs_have_done_is_said_once_each_as_it_appears(tmp_path):
    study = a_study()
    trials = [a_trial(16, number=number, fps=1000.0 * (number + 1)) for number in range(4)]
    folder = write_study(tmp_path / "demo", study, trials[:1])
    said: list[str] = []
    follower = progress.Follower(folder, 4, said.append)
    follower.look()
    assert said == []  # done before
    write_study(tmp_path / "later", study, trials)
    for number in (2, 1):
        (tmp_path / f"later/trials/{number:04d}").rename(folder.trials / f"{number:04d}")
    follower.look()
    follower.look()
    assert [line.partition(" s;")[0] for line in said] == [
        "[2/4] throughput stock · 16 envs · T8 · B128 · repeat 1 → ok: 2,000 FPS, 1.00 GB, 20",
        "[3/4] throughput stock · 16 envs · T8 · B128 · repeat 1 → ok: 3,000 FPS, 1.00 GB, 20",
    ]
    assert "left" in said[0]


def test_what_preparing_prints_is_said_once_a_line_and_again_after_a_retry(tmp_path):
    folder = write_study(tmp_path / "demo", a_study(), [])
    log = folder.root / "logs/prepare.log"
    log.parent.mkdir()
    log.write_text("of the sweep before\n", encoding="utf-8")
    said: list[str] = []
    follower = progress.Follower(folder, 4, said.append)
    for text, expected in (
        ("of the sweep before\nn1: no GPU\nprepa", ["n1: no GPU"]),
        ("of the sweep before\nn1: no GPU\nprepared stock\n", ["prepared stock"]),
        ("n2: no GPU\n", ["n2: no GPU"]),
    ):
        log.write_text(text, encoding="utf-8")
        follower.look()
        follower.look()
        assert said == expected
        said.clear()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(44.0, "about 40 s left"), (600.0, "about 10 min left"), (7200.0, "about 2.0 h left")],
)
def test_time_is_told_as_precisely_as_it_is_known(seconds, text):
    assert time_left_words(seconds) == text
