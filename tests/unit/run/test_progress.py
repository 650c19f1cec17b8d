"""The line a person reads while a sweep runs."""

import pytest
from envknee.base.fields import Kind
from envknee.run import progress
from envknee.verdict.schema.foresight import Foresight, KneeForesight
from envknee.verdict.schema.plan import KindTime
from envknee.words.progress import finished_line, result_words, time_left_words, trial_words
from records import a_study, a_trial, write_study


def test_a_result_is_told_in_a_few_words():
    assert result_words(a_trial(32, fps=1432.4).record).startswith("measured: 1,432 FPS, 1.00 GB, ")
    learned = a_trial(32, kind="learning", seconds=12.3).record
    assert "target in 12." in result_words(learned)
    assert "best reward" in result_words(a_trial(32, kind="learning").record)
    assert result_words(a_trial(32, status="oom").record).startswith("out of memory: ")


def test_parameters_are_told_in_a_few_words():
    assert trial_words(a_trial(64, repeat=1).request) == "throughput stock · 64 envs · T8 · B128 · repeat 2"
    assert trial_words(a_trial(64, gpus=2).request) == ("throughput stock · 64 envs x 2 GPUs · T8 · B128 · repeat 1")
    assert " · 64 envs x 3 ranks · " in trial_words(a_trial(64, gpus=0, cpu_ranks=3).request)
    assert "B library" in trial_words(a_trial(64, batch_size=None).request)


def test_trials_that_are_skipped_for_one_reason_share_a_line():
    skipped = a_trial(64, repeat=3, status="skipped").record
    said = f"[20/40] throughput stock · repeat 4 · 5 trials → not needed: {skipped.outcome.reason}; 10 to 20 s left"
    assert finished_line(skipped, 20, 40, [a_time(12.0, 18.0)], alike=5) == said
    assert finished_line(skipped, 20, 40, [a_time(None, None)]).endswith(f" not needed: {skipped.outcome.reason}")


def a_time(least_s: float | None, most_s: float | None, kind: Kind = "throughput") -> KindTime:
    return KindTime(kind=kind, trials=4, least_s=least_s, most_s=most_s)


def test_what_jobs_have_done_is_said_once_each_as_it_appears(tmp_path):
    study = a_study()
    trials = [a_trial(16, number=number, fps=1000.0 * (number + 1)) for number in range(4)]
    folder = write_study(tmp_path / "demo", study, trials[:1])
    said: list[str] = []
    follower = progress.Follower(folder, study, said.append)
    follower.look()
    assert said == []  # done before
    write_study(tmp_path / "later", study, trials)
    for number in (2, 1):
        (tmp_path / f"later/trials/{number:04d}").rename(folder.trials / f"{number:04d}")
    follower.look()
    follower.look()
    assert [line.partition(" s;")[0] for line in said] == [
        "[ 2/15] throughput stock · 16 envs · T8 · B128 · repeat 1 → measured: 2,000 FPS, 1.00 GB, 20",
        "[ 3/15] throughput stock · 16 envs · T8 · B128 · repeat 1 → measured: 3,000 FPS, 1.00 GB, 20",
    ]
    assert "left" in said[0]


def test_what_preparing_prints_is_said_once_a_line_and_again_after_a_retry(tmp_path):
    folder = write_study(tmp_path / "demo", a_study(), [])
    log = folder.root / "logs/prepare.log"
    log.parent.mkdir()
    log.write_text("of the sweep before\n", encoding="utf-8")
    said: list[str] = []
    follower = progress.Follower(folder, a_study(), said.append)
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
    ("least_s", "most_s", "text"),
    [
        (31.0, 44.0, "30 to 50 s left"),
        (41.0, 49.9, "40 to 50 s left"),
        (60.0, 60.0, "about 60 s left"),
        (2.0, 44.0, "up to 50 s left"),
        (130.0, 310.0, "2 to 6 min left"),
        (5000.0, 7200.0, "1.3 to 2 h left"),
    ],
)
def test_time_is_a_range_as_precise_as_it_is_known(least_s: float, most_s: float, text: str):
    assert time_left_words([a_time(least_s, most_s)]) == text


def test_each_kind_has_a_range_of_its_own():
    timed, untimed = a_time(130.0, 310.0), a_time(None, None, "learning")
    assert time_left_words([timed, untimed]) == "left: throughput 2 to 6 min, learning not timed yet"
    assert time_left_words([untimed]) == time_left_words([]) == ""


def test_a_prediction_is_said_to_be_one_before_the_time_left():
    seen = Foresight(num_envs=2048, gain=0.047, lower=-0.003, upper=0.099)
    line = finished_line(a_trial(32, fps=1432.4).record, 4, 58, [a_time(12.0, 18.0)], gain=0.09, foresight=seen)
    assert "(+9% over half as many envs)" in line
    assert line.endswith("; predicted: 2,048 would gain 5% (0% to 10%); 10 to 20 s left")


@pytest.mark.parametrize(
    ("in_proportion", "said"), [(False, "near 8,192 (1,024 to 65,536)"), (True, "at 1,024 or above")]
)
def test_a_predicted_knee_has_an_interval_or_its_lower_end_alone(in_proportion: bool, said: str):
    seen = KneeForesight(num_envs=8192, lower=1024, upper=65536, in_proportion=in_proportion)
    line = finished_line(a_trial(32, fps=1432.4).record, 2, 58, [], gain=0.7, foresight=seen)
    assert line.endswith(f"; predicted: the knee is {said}")


def test_a_cold_start_says_now_and_then_what_it_waits_for(tmp_path, capsys):
    folder = write_study(tmp_path / "demo", a_study(), [a_trial(16)])
    trial = folder.trial(0)
    trial.metrics.unlink()
    trial.log.write_text("envknee runs: train\nModule envs.physics 1f3a9c2 load on device 'cuda:0' took 812 ms\n\n")
    shown = progress.Shown(trial, a_trial(16).request)
    for elapsed_s in range(0, 400, 5):
        shown.look(float(elapsed_s))
    said = capsys.readouterr().err.splitlines()
    assert [int(line.split(", ")[1].split(" s")[0]) for line in said] == [30, 60, 120, 240, 360], (
        "a line, not ten a second"
    )
    assert "compiling kernels, 30 s since its start; newest line: Module envs.physics 1f3a9c2 load" in said[0]
    trial.log.write_text("")
    shown.look(480.0)
    assert "starting, 480 s since its start; it has printed nothing" in capsys.readouterr().err
    trial.metrics.write_text(a_trial(16).rows[0].model_dump_json() + "\n", encoding="utf-8")
    shown.look(600.0)
    assert capsys.readouterr().err == "", "it has begun"
