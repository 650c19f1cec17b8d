"""What trials of skrl, RL-Games, Stable-Baselines3 and TorchRL have to show alike: a class of tests that each of them inherits."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import quick
from conftest import a_trial
from envknee.record.read import read_rows
from envknee.record.schema import Outcome, Record
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder
from PIL import Image
from trained import REFUSED, a_learning_trial, assert_refused, assert_same_training, assert_whole, optimizer_steps


class AlikeTests:
    """Real trials on the CPU."""

    trainer: ClassVar[str]
    px: ClassVar[int]
    observation_bytes: ClassVar[int]
    """What the library keeps of one environment's observations at one step."""
    optimizer_steps: ClassVar[int] = 3 * 4 * 2
    """Iterations, epochs of the camera task's configurations, mini-batches."""

    def asks(self, **overrides: Any) -> dict[str, Any]:
        """Return what asks for a small learning trial."""
        changes = a_learning_trial(self.px)
        return changes | {"trainer": self.trainer, "overrides": changes["overrides"] | overrides}

    @pytest.fixture(scope="class")
    def trained(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialFolder, Record]:
        """Return a finished trial."""
        trial = a_trial(tmp_path_factory.mktemp(self.trainer) / "trial", **self.asks())
        return trial, quick.launch(trial)

    def test_rows_say_what_rsl_rls_say(self, trained: tuple[TrialFolder, Record]) -> None:
        trial, record = trained
        rows = read_rows(trial)
        assert_whole(record, rows, self.observation_bytes)
        assert [row.frames for row in rows] == [64, 128, 192]
        assert [row.episodes for row in rows] == [0, 0, 8]
        assert record.num_mini_batches == 2
        assert not list(trial.root.glob("**/*tfevents*")) and not list(trial.root.glob("**/*.zip"))
        assert Image.open(trial.frames).getbbox() is not None  # not all black

    def test_the_same_request_trains_the_same_with_as_many_optimizer_steps_as_it_says(
        self, trained: tuple[TrialFolder, Record], tmp_path: Path
    ) -> None:
        trial, record = trained
        again = a_trial(tmp_path / "again", **self.asks())
        assert optimizer_steps(again) == self.optimizer_steps
        assert_same_training(read_rows(trial), read_rows(again))
        outcome = read_model(again.outcome, Outcome, "")
        assert outcome.parameters_sha256 == record.outcome.parameters_sha256 is not None

    def test_a_simulation_that_breaks_is_named(self, tmp_path: Path) -> None:
        broken = self.asks(**{"env.action_scale": 1.0e39})  # newtons, more than float32 holds
        record = quick.launch(a_trial(tmp_path / "broken", **broken | {"deterministic": False}))
        assert record.outcome.status == "nan"
        failure = record.outcome.failure
        assert failure is not None and failure.tensor == "joint_state/cartpole"
        assert failure.env_indices and failure.tensor in (record.outcome.reason or "")

    @pytest.mark.parametrize("words", REFUSED)
    def test_what_it_cannot_do_is_refused(self, tmp_path: Path, words: str) -> None:
        assert_refused(tmp_path / "refused", self.trainer, words)
