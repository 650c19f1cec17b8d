"""What a trial costs for the joint model: seconds to the target once the process has begun, whichever process it was."""

import pytest
from envknee.record.schema import Record, StartUp
from envknee.verdict.joint.observed import observed
from records import learning_trials


def trial(seconds: float | None, first_step_s: float | None) -> Record:
    """Return a learning trial whose first environment step took so long; None: nobody knows, as of a foreign command."""
    (record,) = (own.record for own in learning_trials({512: [seconds]}))
    startup = None
    if first_step_s is not None:
        startup = StartUp(
            imports=2.0, configuration=4.0, kernels=0.0, environment=3.0, learner=1.0, first_step=first_step_s
        )
    return record.model_copy(update={"outcome": record.outcome.model_copy(update={"startup_s": startup})})


def test_a_fresh_process_costs_what_a_shared_one_does():
    fresh, shared = observed(trial(7.1, 2.2)), observed(trial(4.95, 0.05))
    assert fresh is not None and shared is not None
    assert fresh.cost == pytest.approx(4.9) and shared.cost == pytest.approx(4.9)


def test_without_a_known_start_all_seconds_count():
    unknown = observed(trial(7.1, None))
    assert unknown is not None and unknown.cost == pytest.approx(7.1)


def test_a_budget_that_was_spent_is_a_bound_once_the_process_had_begun():
    spent, begun_at_once = observed(trial(None, 2.0)), observed(trial(None, 0.0))
    assert spent is not None and begun_at_once is not None
    assert spent.is_censored and spent.cost == pytest.approx(begun_at_once.cost - 2.0)


def test_a_cost_is_above_zero():
    within_the_first_step = observed(trial(1.0, 1.0))
    assert within_the_first_step is not None and within_the_first_step.cost > 0
