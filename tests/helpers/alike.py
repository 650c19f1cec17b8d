"""What trials of skrl, RL-Games, Stable-Baselines3 and TorchRL have to show alike: classes of tests that each of them inherits."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import quick
from camera_trials import a_trial
from envknee.record.read import read_rows
from envknee.record.schema import Outcome, Record
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder
from PIL import Image
from trained import REFUSED, a_learning_trial, assert_refused, assert_same_training, assert_whole, optimizer_steps

EPOCHS = 4
"""As all start from configurations of the camera task with so many."""


class TrainerTests:
    """Real trials on the CPU, of any algorithm."""

    trainer: ClassVar[str]
    optimizer_steps: ClassVar[int]

    def asked(self) -> dict[str, Any]:
        """Return what asks for three iterations, the same in each trial."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    def trained(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialFolder, Record]:
        """Return a finished trial."""
        trial = a_trial(tmp_path_factory.mktemp(self.trainer) / "trial", trainer=self.trainer, **self.asked())
        return trial, quick.launch(trial)

    def test_the_same_request_trains_the_same_with_as_many_optimizer_steps_as_it_says(
        self, trained: tuple[TrialFolder, Record], tmp_path: Path
    ) -> None:
        trial, record = trained
        again = a_trial(tmp_path / "again", trainer=self.trainer, **self.asked())
        assert optimizer_steps(again) == self.optimizer_steps
        assert_same_training(read_rows(trial), read_rows(again))
        outcome = read_model(again.outcome, Outcome, "")
        assert outcome.parameters_sha256 == record.outcome.parameters_sha256 is not None

    def test_a_simulation_that_breaks_is_named(self, tmp_path: Path) -> None:
        changes = self.asked() | {"deterministic": False}
        changes["overrides"] |= {"env.action_scale": 1.0e39}  # newtons, more than float32 holds
        record = quick.launch(a_trial(tmp_path / "broken", trainer=self.trainer, **changes))
        assert record.outcome.status == "nan"
        failure = record.outcome.failure
        assert failure is not None and failure.tensor == "joint_state/cartpole"
        assert failure.env_indices and failure.tensor in (record.outcome.reason or "")

    @pytest.mark.parametrize("words", REFUSED)
    def test_what_it_cannot_do_is_refused(self, tmp_path: Path, words: str) -> None:
        assert_refused(tmp_path / "refused", self.trainer, words)


class AlikeTests(TrainerTests):
    """Real trials on the CPU, of PPO on frames."""

    px: ClassVar[int]
    observation_bytes: ClassVar[int]
    """What the library keeps of one environment's observations at one step."""
    optimizer_steps = 3 * EPOCHS * 2  # iterations x epochs x mini-batches

    def asked(self) -> dict[str, Any]:
        return a_learning_trial(self.px)

    def test_rows_say_what_rsl_rls_say(self, trained: tuple[TrialFolder, Record]) -> None:
        trial, record = trained
        rows = read_rows(trial)
        assert_whole(record, rows, self.observation_bytes)
        assert [row.frames for row in rows] == [64, 128, 192]
        assert [row.episodes for row in rows] == [0, 0, 8]
        assert record.num_mini_batches == 2
        assert not list(trial.root.glob("**/*tfevents*")) and not list(trial.root.glob("**/*.zip"))
        assert Image.open(trial.frames).getbbox() is not None  # not all black
