"""Checks the numbers of a trial: rollouts, parameters, losses. The first broken one ends the trial."""

import math
from collections.abc import Mapping
from functools import partial

import torch

from envknee.measure import diagnosis
from envknee.measure.learner import NO_LEARNER, LearnerDescription
from envknee.measure.rows import TrialDone
from envknee.measure.watch import Watch
from envknee.record.schema import Failure, Request
from envknee.record.status import Status
from envknee.study.paths import TrialFolder


class NumberChecks:
    """The checks of one rank. Only `note_step` runs in every environment step, and it waits for no device."""

    def __init__(self, request: Request, trial: TrialFolder, device: torch.device, rank: int) -> None:
        """Prepare to check the numbers of `trial` on `device`. A broken rollout is dumped to the trial's folder."""
        self.watch = Watch(request.num_envs, device)
        """Finds the first broken number; the task stores actions and states in it."""
        self.steps = 0
        """Environment steps of this rollout so far."""
        self._request = request
        self._trial = trial
        self._rank = rank
        self._learner = NO_LEARNER
        self._iteration = 0
        self._newest: dict[str, torch.Tensor] = {}
        """By name, observations and rewards of the newest step of this rollout."""
        self._largest_parameters: list[torch.Tensor] = []
        """Largest magnitude of the parameters before this iteration's learning, and after it, on the device: only if `note_parameters` is
        called."""

    def start(self, learner: LearnerDescription) -> None:
        """Check `learner`, too."""
        self._learner = learner

    def begin_rollout(self, iteration: int) -> None:
        """Forget the rollout before, and begin that of `iteration`."""
        self._iteration = iteration
        self.steps = 0
        self._newest = {}
        self._largest_parameters = self._largest_parameters[-1:]
        self.watch.begin_rollout()

    def note_step(self, observations: Mapping[str, torch.Tensor], rewards: torch.Tensor) -> torch.Tensor:
        """Store the results of an environment step, each [num_envs, ...]; return a copy of the rewards [num_envs]."""
        named = {f"observations/{group}": tensor for group, tensor in observations.items()} | {"rewards": rewards}
        copies = self.watch.end_step({name: tensor for name, tensor in named.items() if not diagnosis.is_image(tensor)})
        self._newest = named
        self.steps += 1
        return copies[:, -1]  # rewards come last

    def note_parameters(self) -> None:
        """Queue the largest magnitude of the parameters as they are now."""
        parameters = self._learner.parameters().values()
        self._largest_parameters.append(torch.nn.utils.get_total_norm(parameters, math.inf))

    def check_rollout(self, images: bool = False) -> None:
        """Check all steps since the last learning for broken values.

        Args:
            images: whether to read all images that the trainer stores, too

        Raises:
            TrialDone: for the earliest broken value. It names tensor, iteration, step and environments; their last good state and
                observations are dumped.
        """
        broken = self.watch.first_broken()
        iteration, stored_after = self._iteration, self._stored_after
        if broken is None and images:
            broken = diagnosis.broken_image(self._learner.rollout_observations(), self._newest, self.steps)
        if broken is None and images and (previous := self._learner.previous_observations()):
            broken = diagnosis.broken_image(previous, {}, self._request.horizon)
            iteration, stored_after = iteration - 1, partial(_observations_after, previous)
        if broken is None:
            return
        dump = self._trial.root / (f"nan_dump-rank-{self._rank}.npz" if self._rank else "nan_dump.npz")
        reason, failure = diagnosis.of_rollout(self.watch, broken, iteration, stored_after, dump)
        if failure.tensor == "actions" and not self._parameters_were_fine:  # broken parameters may be the cause
            self.check_parameters(reason)
        raise self._broken_trial("nan", reason, failure)

    def check_parameters(self, symptom: str) -> None:
        """Check the learner's parameters; `symptom` ends the reason of a failure.

        Raises:
            TrialDone: if a parameter holds NaN, an infinity, or a magnitude above `DIVERGED_ABOVE`.
        """
        for name, tensor in self._learner.parameters().items():
            self._check_magnitude(f"parameters/{name}", float(tensor.abs().max()), f": {symptom}")

    def check_figure(self, name: str, value: float) -> None:
        """Check a figure of learning: a loss, or the actions' std. If it is broken, the rollout may be the cause, so check that first.

        Raises:
            TrialDone: if the figure is NaN, or its magnitude above `DIVERGED_ABOVE`.
        """
        if _is_broken(value):
            self.check_rollout(images=True)
        self._check_magnitude(name, value)

    def release(self) -> None:
        """Hold nothing of the learner and the simulation any more."""
        self._learner = NO_LEARNER
        self._newest = {}
        self.watch.release()

    @property
    def _parameters_were_fine(self) -> bool:
        """Whether it is known that the parameters were not broken before this iteration's learning."""
        return bool(self._largest_parameters) and float(self._largest_parameters[0]) <= diagnosis.DIVERGED_ABOVE

    def _stored_after(self, step: int) -> dict[str, torch.Tensor]:
        """Return the observations after environment step `step` of this rollout, as far as they are still stored."""
        if step == self.steps:
            return {}  # the step did not end
        if step == self.steps - 1:
            return self._newest
        return _observations_after(self._learner.rollout_observations(), step)

    def _check_magnitude(self, name: str, value: float, symptom: str = "") -> None:
        """End the trial if a loss, an action std or a parameter's largest magnitude is NaN or above `DIVERGED_ABOVE`."""
        if not _is_broken(value):
            return
        status, verb = ("diverged", "grew to") if math.isfinite(value) else ("nan", "became")
        failure = Failure(iteration=self._iteration, tensor=name, hints=diagnosis.hints(name, {}, 0.0))
        raise self._broken_trial(status, f"{name} {verb} {value:.3g} at iteration {self._iteration}{symptom}", failure)

    def _broken_trial(self, status: Status, reason: str, failure: Failure) -> TrialDone:
        """Return the end of a broken trial."""
        drill = f"{self._request.inject.warning}: " if self._request.inject else ""
        return TrialDone(status, drill + reason, failure)


def _is_broken(value: float) -> bool:
    """Tell whether a value is NaN, infinite or so large that training never recovers."""
    return math.isnan(value) or abs(value) > diagnosis.DIVERGED_ABOVE


def _observations_after(rollout: Mapping[str, torch.Tensor], step: int) -> dict[str, torch.Tensor]:
    """Return the observations after a step of a stored rollout. Those after its last step are not stored."""
    return {f"observations/{group}": slots[step + 1] for group, slots in rollout.items() if step + 1 < len(slots)}
