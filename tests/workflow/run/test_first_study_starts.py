"""What `envknee init` writes for the default task runs: its smallest trial, on the CPU."""

from pathlib import Path

import quick
from envknee.ask.ask import write_request
from envknee.record.trial_files import TrialFiles
from envknee.run import claim
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from programs import python, succeeded
from records import known


def test_a_trial_of_the_written_study_ends_with_fps_and_the_tasks_own_frames(tmp_path: Path):
    succeeded(python("-m", "envknee", "init", "mine", "--gpu-gb", "0", cwd=tmp_path))
    study = read_study(tmp_path / "mine/study.yaml")
    folder = StudyFolder(tmp_path / "results/mine")
    with claim.take(study, folder):
        for number in range(4):  # a repeat: each size once, in the study's order
            write_request(study, folder, number)
        smallest = min(map(folder.trial, range(4)), key=lambda trial: TrialFiles(trial).read_request().num_envs)
        record = quick.launch(smallest)
    assert (record.request.num_envs, record.request.gpus) == (8, 0)
    assert record.outcome.status == "ok" and known(record.fps_total).median > 0, record.outcome.reason
    # Two frames of 96 x 96 pixels in 3 colours, and the critic's 4 numbers: float32.
    assert record.rollout_gb == (2 * 96 * 96 * 3 + 4) * 4 * record.request.num_envs * record.request.horizon / 1e9
