"""What trials side by side cost each other, by trials alone: on the same GPU, and not where nothing ran beside."""

from collections.abc import Sequence

import pytest
from envknee.record.schema import Record
from envknee.verdict.neighbours import at_once, effect
from envknee.words.neighbours import neighbours_words
from records import GPU, a_trial, known


def trials(
    fps: Sequence[float], gpu: str, first: int = 0, num_envs: int = 64, starts_s: Sequence[float] | None = None
) -> list[Record]:
    """Return trials of ten seconds each on a GPU, one after the other unless it is said when each starts."""
    device = GPU.model_copy(update={"uuid": gpu})
    return [
        a_trial(num_envs, number=first + place, fps=value, device=device)
        .ended(started_unix_s=10.0 * place if starts_s is None else starts_s[place], total_s=10.0)
        .record
        for place, value in enumerate(fps)
    ]


def test_trials_alone_are_compared_with_those_of_their_own_gpu():
    searched = [
        *trials([900.0, 905.0, 895.0], "GPU-1"),
        *trials([450.0, 455.0, 445.0], "GPU-2", first=10),  # a slower GPU
        *trials([9000.0] * 3, "GPU-2", first=20, num_envs=128),
    ]
    found = known(effect(searched, trials([1000.0, 1005.0, 995.0], "GPU-1")))
    assert found.ratio == pytest.approx(0.9, abs=0.001) and found.state == "slower"
    assert (found.alone, found.most, found.same_gpus) == (3, 2, 1)
    assert neighbours_words(found) == (
        "Alone, 64 environments have 1,000 FPS (3 trials on the same GPU); beside 2 other trials 0.90 times as many (0.89 to 0.91)."
        " Trials side by side slow each other here: --workers 1 measures without that, under another --name."
    )


def test_with_one_trial_on_that_gpu_those_of_all_count_and_that_is_said():
    searched = [*trials([1000.0], "GPU-1"), *trials([990.0, 1010.0], "GPU-2", first=10)]
    found = known(effect(searched, trials([1000.0, 1005.0, 995.0], "GPU-1")))
    assert found.same_gpus == 0 and found.state == "not told apart"
    assert "(3 trials); beside" in neighbours_words(found)


def test_without_trials_at_the_same_time_nothing_is_known():
    one_by_one = [
        *trials([900.0] * 3, "GPU-1"),
        *trials([900.0] * 3, "GPU-2", first=10, starts_s=[100.0, 110.0, 120.0]),
    ]
    alone = trials([1000.0, 1005.0], "GPU-1")
    assert not any(at_once(record, one_by_one) for record in one_by_one)
    assert effect(one_by_one, alone) is None
    beside = [*trials([900.0] * 3, "GPU-1"), *trials([900.0] * 3, "GPU-2", first=10)]
    assert effect(beside, alone[:1]) is None, "one trial alone shows no noise"
