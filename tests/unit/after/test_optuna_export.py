"""A study as Optuna's own tools see it: loaded again through Optuna, from the file alone."""

from pathlib import Path

import optuna
import pytest
from envknee.after.optuna_export import export
from optuna.storages.journal import JournalFileBackend, JournalStorage
from records import GPU, LEARNING, a_study, a_trial, write_study


def loaded(path: Path) -> dict[str, optuna.Study]:
    storage = JournalStorage(JournalFileBackend(str(path)))
    return {name: optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)}


def test_each_arm_and_kind_is_a_study_with_values_constraints_and_attributes(tmp_path):
    study = a_study(arms={"stock": {}, "other": {}}, learning=LEARNING)
    trials = [
        *(a_trial(n, number=i, fps=100.0 * n, memory_gb=0.5 * n, device=GPU) for i, n in enumerate((16, 32, 64, 128))),
        a_trial(256, number=4, status="oom", device=GPU),
        a_trial(256, number=5, status="skipped"),
        a_trial(16, number=6, arm="other", fps=1.0),
        a_trial(16, number=7, kind="learning", seconds=20.0),
        a_trial(32, number=8, kind="learning"),
    ]
    path, counts = export(write_study(tmp_path / "demo", study, trials))
    studies = loaded(path)
    assert {name: len(journal.trials) for name, journal in studies.items()} == counts
    assert counts == {"demo/other/throughput": 1, "demo/stock/throughput": 5, "demo/stock/learning": 2}

    throughput = studies["demo/stock/throughput"]
    best = throughput.best_trial  # of those that fit
    assert (best.params, best.value) == ({"num_envs": 128}, pytest.approx(12_800.0))
    assert (best.user_attrs["horizon"], best.user_attrs["batch_size"]) == (8, 128)
    assert best.user_attrs["status"] == "ok" and best.user_attrs["device"] == GPU.name
    assert best.user_attrs["memory_peak_gb"] == 64.0 and best.user_attrs["trial"] == "0003"
    constraints = [trial.constraints["0"] for trial in throughput.trials]
    assert constraints[-1] == 0.5 and max(constraints[:-1]) < 0
    oom = throughput.trials[-1]
    assert oom.user_attrs["status"] == "oom" and "fps_total" not in oom.user_attrs
    assert oom.datetime_complete is not None and oom.duration is not None

    learning = studies["demo/stock/learning"]
    assert learning.direction == optuna.study.StudyDirection.MINIMIZE
    reached, censored = learning.trials
    assert reached.value == reached.user_attrs["seconds_to_target"] == pytest.approx(20.0)
    assert censored.value is not None and censored.value > 60 and "seconds_to_target" not in censored.user_attrs


def test_it_is_made_anew_each_time(tmp_path):
    folder = write_study(tmp_path / "demo", a_study(), [a_trial(16)])
    first, _ = export(folder)
    again, counts = export(folder)
    assert first == again and counts == {"demo/stock/throughput": 1}
    assert [path.name for path in folder.root.iterdir() if "optuna" in path.name] == ["optuna.journal"]
