"""A trial of TorchRL's trainer in the tests' own process, where a second environment takes a second and calls can be watched."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import a_trial, camera
from envknee import tasks
from envknee.measure.meter import Meter, TrialDone
from envknee.record.schema import Request
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder
from envknee.trainers import load

SMALL = camera(24, episode_length_s=0.1)
NUM_ENVS, HORIZON = 8, 8


def a_torchrl_trial(folder: Path, **changes: Any) -> TrialFolder:
    """Write the request of a small trial: two mini-batches, episodes of six steps."""
    sizes = {"trainer": "torchrl", "num_envs": NUM_ENVS, "horizon": HORIZON, "batch_size": 32, "overrides": SMALL}
    return a_trial(folder, **(sizes | changes))


def trained_here(trial: TrialFolder) -> tuple[Meter, TrialDone]:
    """Train as `trial` asks; return the meter and how it ended."""
    request = read_model(trial.request, Request, "")
    meter, trainer, make, made = Meter(request, trial, "cpu"), load(request.trainer), tasks.make, []

    def make_and_keep(*arguments: Any) -> Any:
        made.append(make(*arguments))
        return made[-1]

    threads = torch.get_num_threads()
    # As the launcher does on two cores: threads that wait for each other by spinning take minutes.
    torch.set_num_threads(1)
    try:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(TrialDone) as done:
            patch.setattr(tasks, "make", make_and_keep)
            trainer.train(trainer.resolve(request, "cpu"), meter)
    finally:
        torch.set_num_threads(threads)
    meter.close()
    made[0].close()  # Isaac Lab has one simulation at a time
    return meter, done.value
