"""Where the loss of training on several GPUs goes: by hand, and in words."""

from collections.abc import Mapping, Sequence

import pytest
from envknee.decide.study import decide
from envknee.record.schema import Phase
from envknee.show.short import answer_lines
from envknee.verdict.card import card_of
from envknee.verdict.lead import in_order
from envknee.verdict.scaling_loss import loss
from envknee.verdict.schema.scaling import Scaling
from envknee.words.scaling import scaling_notes
from records import GPU, Trial, a_study, a_trial, known, records_of

ALONE: Mapping[Phase, float] = {
    "physics": 0.010, "render": 0.010, "observation": 0.005, "inference": 0.003, "storage": 0.002, "learning": 0.060, "other": 0.010,
}  # fmt: skip
"""Seconds of an iteration of 100 ms."""

SIZE, HORIZON = 64, 8


def trials_of(
    gpus: int, phases_s: Mapping[Phase, float] | None, noise: Sequence[float], slowdown: Sequence[float] = ()
) -> list[Trial]:
    """Return a trial of each repeat, whose FPS belong to the seconds of ALONE or of `phases_s`, but for some noise."""
    iteration_s = sum((phases_s or ALONE).values())
    return [
        a_trial(
            SIZE, horizon=HORIZON, number=10 * gpus + repeat, repeat=repeat, arm=f"gpus-{gpus}", gpus=gpus, device=GPU,
            fps=factor * gpus * SIZE * HORIZON / iteration_s, phases_s=phases_s, slowdown=slowdown,
        )
        for repeat, factor in enumerate(noise)
    ]  # fmt: skip


def scaling_of(trials: Sequence[Trial]) -> Scaling:
    arms = {"gpus-1": {"gpus": 1}, "gpus-2": {"gpus": 2}}
    (scaling,) = decide(records_of(trials), a_study(arms=arms)).scaling
    return scaling


QUIET, NOISY = (1.0, 1.001, 0.999), (0.9, 1.1, 1.0)

SLOWER: Mapping[Phase, float] = {**ALONE, "render": 0.011, "learning": 0.080, "other": 0.014}


def test_each_phase_has_the_seconds_that_two_gpus_take_more():
    found = known(scaling_of([*trials_of(1, ALONE, QUIET), *trials_of(2, SLOWER, QUIET)]).points[0].loss)
    assert found.iteration_one_rank_s == pytest.approx(0.100)
    assert found.iteration_all_ranks_s == pytest.approx(0.125)
    more = {phase: seconds for phase, seconds in found.more_s.items() if abs(seconds) > 1e-9}
    assert more == pytest.approx({"render": 0.001, "learning": 0.020, "other": 0.004})
    assert found.slowest_rank_s + found.exchange_s == pytest.approx(0.020)
    assert (found.collecting_s, found.largest_collecting) == (pytest.approx(0.005), "other")


def test_waiting_for_the_slowest_gpu_is_apart_from_the_exchange():
    """The mean of both ranks' learning is 80 ms; the slowest rank's own takes 60 ms."""
    trials = [*trials_of(1, ALONE, QUIET), *trials_of(2, SLOWER, QUIET)]
    records = [
        record.model_copy(update={"learn_s": known(record.learn_s).model_copy(update={"median": 0.065})})
        if record.request.gpus == 2
        else record
        for record in records_of(trials)
    ]
    arms = {"gpus-1": {"gpus": 1}, "gpus-2": {"gpus": 2}}
    (scaling,) = decide(records, a_study(arms=arms)).scaling
    found = known(scaling.points[0].loss)
    assert (found.slowest_rank_s, found.exchange_s) == (pytest.approx(0.015), pytest.approx(0.005))


def test_words_tell_a_loss_only_where_the_interval_shows_one():
    shown = scaling_notes(scaling_of([*trials_of(1, ALONE, QUIET), *trials_of(2, SLOWER, QUIET)]))
    (said,) = [note for note in shown if "exchanging gradients" in note]
    assert said.startswith(
        "with 64 environments each, 2 GPUs take 25.0 ms longer for an iteration than one GPU's 100.0 ms: about "
    )
    assert said.endswith("20.0 ms exchanging gradients, 5.0 ms collecting (most of it other, 4.0 ms)")
    hidden = scaling_notes(scaling_of([*trials_of(1, ALONE, NOISY), *trials_of(2, ALONE, NOISY)]))
    assert "no loss is shown: every interval reaches 100%" in hidden
    assert not any("exchanging" in note for note in hidden)


def test_trials_without_phases_have_no_loss():
    scaling = scaling_of([*trials_of(1, None, QUIET), *trials_of(2, SLOWER, QUIET)])
    assert scaling.points[0].loss is None and scaling.points[0].loses
    assert not any("exchanging" in note for note in scaling_notes(scaling))


def test_both_sides_are_compared_on_each_machine():
    """The second machine takes twice as long for everything, and has more trials of two GPUs: that is no loss."""
    twice: Mapping[Phase, float] = {phase: 2 * seconds for phase, seconds in ALONE.items()}
    sides = [
        [trial.record for trial in trials_of(gpus, phases_s, QUIET)] for gpus in (1, 2) for phases_s in (ALONE, twice)
    ]
    machines = [["a"] * 3 + ["b"], ["a"] + ["b"] * 3]
    found = known(loss([*sides[0], *sides[1][:1]], [*sides[2][:1], *sides[3]], machines))
    assert [*found.more_s.values()] == pytest.approx([0.0] * 7)
    # No machine has both sides: all are compared as if one had.
    apart = known(loss(sides[0], sides[3], [["a"] * 3, ["b"] * 3]))
    assert sum(apart.more_s.values()) == pytest.approx(0.1)


def test_the_short_summary_says_where_the_loss_of_the_fastest_point_goes():
    study = a_study(arms={"gpus-1": {"gpus": 1}, "gpus-2": {"gpus": 2}})
    said = []
    for phases_s in (SLOWER, ALONE):
        trials = [*trials_of(1, ALONE, QUIET), *trials_of(2, phases_s, QUIET)]
        verdict = in_order(decide(records_of(trials), study))
        lines = answer_lines(verdict, card_of(verdict), width=80, room=60)
        said.append(" ".join(" ".join(lines).split()))
    assert "loss with 64 environments each, 2 GPUs take 25.0 ms longer for an iteration" in said[0]
    assert "exchanging gradients" not in said[1]
