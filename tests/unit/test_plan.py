"""What a study would measure and could show, before anything runs."""

from pathlib import Path

import pytest
from envknee.ask.plan import earlier_records, lines_of
from envknee.study.load import parse_study
from records import CPU, a_study, fps_trials, records_of, write_study

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
