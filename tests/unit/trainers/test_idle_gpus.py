"""`--gpus 2` with a command that uses one GPU is noticed, by what was sampled of each GPU."""

from dataclasses import replace

import pytest
from envknee.machine import nvml
from envknee.run import launch
from envknee.trainers.command.idle import idle_gpus
from envknee.words.idle import idle_words
from records import GPU, Trial, a_study, a_trial, write_study


def of_gpus(used_gb: list[float], percent: list[float] | None) -> Trial:
    """Return a trial of two GPUs whose rows all have this memory and load of each."""
    trial = a_trial(64, device=GPU, gpus=2)
    rows = [
        row.model_copy(
            update={"gpus_percent": percent, "memory": row.memory.model_copy(update={"gpus_used_gb": used_gb})}
        )
        for row in trial.rows
    ]
    return replace(trial, rows=rows)


@pytest.mark.parametrize(
    ("used_gb", "percent", "idle"),
    [
        ([6.5, 0.0], [61.0, 0.0], [1]),
        ([0.4, 6.5], [0.0, 61.0], [0]),
        ([6.5, 0.0], None, [1]),
        ([6.5, 0.4], None, []),
        ([6.5, 6.4], [61.0, 58.0], []),
        ([6.5, 3.0], [61.0, 0.2], []),
        ([6.5, 0.6], [61.0, 4.0], []),
        ([0.0, 0.0], [0.0, 0.0], []),
    ],
    ids=[
        "nothing there", "a context alone", "load unknown", "load unknown, a context", "both work", "holds data",
        "works little", "none works",
    ],
)  # fmt: skip
def test_a_gpu_is_idle_that_neither_works_nor_holds_data(
    used_gb: list[float], percent: list[float] | None, idle: list[int]
):
    assert idle_gpus(of_gpus(used_gb, percent).rows) == idle


def test_rows_of_one_gpu_tell_nothing():
    assert idle_gpus(a_trial(64, device=GPU).rows) == []
    assert "gpus_percent" not in a_trial(64, device=GPU).rows[0].model_dump_json(), "rows of earlier versions stay"


def test_the_idle_gpu_is_said_with_what_it_means_for_fps_and_what_to_do():
    said = idle_words([1], gpus=2, ranks=2)
    assert said.startswith("GPU 1 of 2 was idle: the command uses 1 GPU. FPS are counted for 2 ranks: they are 2 times")
    assert said.endswith("Take --gpus 1 (`gpus: 1`), or let it use all: torchrun, or {gpus} in its arguments")
    assert "FPS" not in idle_words([1], gpus=2, ranks=1), "frames are counted once anyway"


def test_the_idle_gpu_is_printed_below_its_trial(tmp_path, capsys):
    trial = a_trial(64, device=GPU, gpus=2).ended(idle_gpus=[1])
    launch.say_progress(write_study(tmp_path / "demo", a_study(arms={"stock": {"gpus": 2}}), [trial]), trial.record)
    _, below = capsys.readouterr().out.splitlines()
    assert below.startswith("  GPU 1 of 2 was idle")


@pytest.mark.parametrize(
    ("name", "count", "is_only"),
    [("GPU-1", 1, True), ("GPU-1", 4, False), ("GPU-1,GPU-2", 2, False), ("MIG-1", 1, False), ("", 1, False)],
)
def test_the_only_gpu_of_a_container_may_be_named_by_its_index(
    name: str, count: int, is_only: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nvml, "start", lambda: None)
    monkeypatch.setattr(nvml.pynvml, "nvmlDeviceGetCount", lambda: count)
    assert nvml.is_only_gpu(name) is is_only


def test_without_nvml_no_gpu_is_known_to_be_the_only_one(monkeypatch: pytest.MonkeyPatch):
    def fails() -> None:
        raise nvml.pynvml.NVMLError(nvml.pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(nvml.pynvml, "nvmlInit", fails)
    assert not nvml.is_only_gpu("GPU-1")
