"""What a study would measure and could show, before anything runs: points, power, and the noise that is assumed."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from envknee.ask.plan import earlier_records, lines_of
from envknee.study.load import parse_study
from envknee.verdict.noise import assumed_cv, gain_interval, measured_cv
from envknee.verdict.power import enough_repeats, power
from records import CPU, a_study, fps_trials, known, records_of, write_study
from scipy.stats import ttest_ind, ttest_rel

SWEEP = {"num_envs": {"from": 512, "to": 4096}, "horizon": 32, "batch_size": "library", "repeats": 3}


def a_plan(on_cpu: bool = False, **changes) -> list[str]:
    data = {"study": "x", "arms": {"stock": {"gpus": 1}}, "throughput": SWEEP | changes.pop("sweep", {})} | changes
    return lines_of(parse_study(data), on_cpu=on_cpu)


def test_trials_points_and_power_are_told():
    first, throughput, power = a_plan()
    assert first == "Study x: 12 trials at most, 1 arm (stock)"
    points = "throughput: 12 trials = 4 points × 3 repeats × 1 arm (stock) (sampler grid)"
    assert throughput.startswith(f"{points}; num_envs 512, 1,024")
    assert power.startswith("Power: with 3 repeats a plateau is shown in ") and "from published GPU studies" in power


@pytest.mark.parametrize(
    ("repeats", "said"),
    [(1, "1 repeat decides nothing, 3 are the least."), (2, "2 repeats decide nothing, 3 are the least.")],
)
def test_too_few_repeats_are_said_before_they_are_measured(repeats: int, said: str):
    assert f"{said} 22 repeats would show it in 80%." in a_plan(on_cpu=True, sweep={"repeats": repeats})[-1]


def test_more_repeats_show_more_and_a_cpu_is_noisier():
    shares = [
        float(a_plan(sweep={"repeats": repeats})[-1].split("shown in ")[1].split("%")[0]) for repeats in (3, 5, 8)
    ]
    assert shares == sorted(shares) and shares[0] < shares[-1]
    assert "11.0%, from published CPU studies" in a_plan(on_cpu=True)[-1]


def test_blocks_that_hold_the_last_doubling_have_fewer_degrees_of_freedom():
    """Five processes leave four degrees of freedom, and five fresh repeats of both ends eight: the same noise shows less."""
    fresh, whole, halves, alone, small, large = (
        a_plan(sweep={"repeats": 5, "num_envs": [512, 1024, 2048, 4096]} | blocks, on_cpu=True)[-1]
        for blocks in (
            {"block": 1}, {"block": "all"}, {"block": 2}, {"block": 3},
            {"block": "all", "fresh_below": 2048}, {"block": "all", "fresh_below": 4096},
        )
    )  # fmt: skip
    assert "compared within each process" not in fresh and whole.endswith("sizes compared within each process)")
    shares = [float(words.split("shown in ")[1].split("%")[0]) for words in (fresh, whole)]
    assert shares[1] < shares[0]
    assert halves == alone == whole == small, "4 = 2 + 2 points: the two largest share a process"
    assert large == fresh
    blocks = a_plan(sweep={"repeats": 5, "num_envs": [512, 1024, 2048, 4096], "block": "all"})[1]
    points = "throughput: 25 trials = 4 points × 5 repeats × 1 arm (stock) (sampler grid)"
    assert blocks.startswith(f"{points} + 5 first points once more")


def test_one_size_is_no_doubling_and_points_that_are_left_out_are_named():
    assert "list at least two" in a_plan(sweep={"num_envs": 512})[-1]
    lines = a_plan(sweep={"num_envs": [24, 32], "batch_size": 1024})
    assert any("1 of 2 points are not measured" in line for line in lines)


def test_earlier_studies_of_this_machine_say_how_large_noise_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trials = fps_trials({16: [100.0, 110.0, 90.0], 32: [150.0, 160.0, 140.0]})
    folder = write_study(tmp_path / "earlier", a_study(), trials)
    environment = records_of(trials)[0].outcome.environment
    assert environment is not None and environment.device == CPU
    host = environment.host
    monkeypatch.setattr("socket.gethostname", lambda: host)
    study = a_study()
    earlier = earlier_records(folder.root.parent, study, [])
    assert len(earlier) == len(trials)
    assert (
        "noise between processes 8.5%, from earlier studies of this machine"
        in lines_of(study, earlier, on_cpu=True)[-1]
    )
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert earlier_records(folder.root.parent, study, []) == []


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("cv", "repeats"), [(0.05, 3), (0.10, 8)])
def test_power_is_the_share_of_simulated_studies_that_show_a_plateau(cv: float, repeats: int, paired: bool):
    rng = np.random.default_rng(1)
    smaller, larger = cv * rng.standard_normal((2, 4000, repeats))
    test = ttest_rel if paired else ttest_ind
    _, p_values = np.asarray(test(larger, smaller + math.log1p(0.15), axis=1, alternative="less"))
    shown = p_values <= 0.025
    assert power(repeats, cv, 0.15, 0.95, paired) == pytest.approx(float(shown.mean()), abs=0.03)


def test_two_repeats_decide_nothing_and_enough_is_the_first_number_that_does():
    assert power(2, 0.05, 0.15, 0.95) == 0.0
    enough = known(enough_repeats(0.05, 0.15, 0.95))
    assert power(enough - 1, 0.05, 0.15, 0.95) < 0.8 <= power(enough, 0.05, 0.15, 0.95)
    assert enough_repeats(0.5, 0.10, 0.95) is None


def test_noise_falls_where_environments_fill_the_iteration():
    assert assumed_cv(1e9, 500.0) == pytest.approx(0.011, abs=1e-4)
    # Half of the time is fixed: 14% of it, and 1.1%.
    assert assumed_cv(500.0, 500.0) == pytest.approx(math.hypot(0.07, 0.011))
    assert assumed_cv(500.0, None) == pytest.approx(math.hypot(0.14, 0.011))


def test_an_interval_of_one_ratio_by_hand_and_noise_from_repeats():
    # Student's t on 8 degrees of freedom at 97.5% is 2.306.
    lower, upper = gain_interval(0.1, [0.03, 0.04], 0.95)
    assert (lower, upper) == pytest.approx((0.1 - 2.306 * 0.05, 0.1 + 2.306 * 0.05), abs=1e-4)
    assert measured_cv([[1.0], [2.0]]) is None
    assert measured_cv([[1.0, math.exp(0.02)], [5.0]]) == pytest.approx(0.02 / math.sqrt(2))


def test_the_documented_power_is_what_the_program_computes():
    """docs/verdicts.md: noise, power of 3, 5 and 8 repeats and the repeats for 80%, unpaired and then paired."""
    text = (Path(__file__).parents[2] / "docs/verdicts.md").read_text(encoding="utf-8")
    rows = [re.findall(r"\d+", line) for line in text.splitlines() if re.match(r"\| \d+% \| \d+% \|", line)]
    assert len(rows) == 4
    for row in rows:
        noise, *shown = map(int, row)
        wanted = []
        for paired in (False, True):
            wanted += [round(100 * power(repeats, noise / 100, 0.10, 0.95, paired)) for repeats in (3, 5, 8)]
            wanted.append(enough_repeats(noise / 100, 0.10, 0.95, paired))
        assert shown == wanted
