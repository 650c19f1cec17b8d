"""What the target costs against num_envs: means with intervals, every seed, censored runs as open arrows."""

from collections.abc import Mapping, Sequence
from typing import Any

from drawn import judged, marks, texts
from envknee.show.figures.target import draw_target
from records import GPU, Device, Trial, learning_trials


def trials(seconds: Mapping[int, Sequence[float | None]], device: Device = GPU, **fields: Any) -> list[Trial]:
    return learning_trials(seconds, device=device, **fields)


def test_seconds_and_gpu_seconds_stand_beside_each_other_with_every_seed():
    seconds = {32: [40.0, 41.0, 42.0], 64: [20.0, 21.0, 22.0]}
    figure = draw_target(judged(trials(seconds, gpus=2)))
    left, right = figure.axes
    assert sorted(marks(left, "o")) == sorted(
        [(32.0, 41.0), (64.0, 21.0), *((float(n), value) for n, values in seconds.items() for value in values)]
    )
    assert [y for _, y in marks(right, "o")] == [2 * y for _, y in marks(left, "o")], "two GPUs"
    assert (left.get_ylabel(), right.get_ylabel()) == (
        "Wall seconds of training to the target",
        "GPU-seconds to the target",
    )
    assert left.get_yscale() == right.get_yscale() == "log"
    assert "6 of 6 trials got there" in texts(figure)


def test_a_censored_seed_and_its_mean_are_open_triangles_at_their_bounds():
    figure = draw_target(judged(trials({32: [50.0, None], 64: [20.0, 21.0]})))
    open_ones = [line for line in figure.axes[0].lines if line.get_marker() == "^"]
    assert len(open_ones) == 2 and all(line.get_markerfacecolor() == "white" for line in open_ones)
    assert max(y for _, y in marks(figure.axes[0], "^")) == 60.0, "the budget"
    assert "did not reach" in texts(figure) and "3 of 4 trials got there" in texts(figure)


def test_the_title_says_of_which_series_a_threshold_is_where_there_are_several():
    flat = {32: [20.0, 20.1, 20.2], 64: [25.0, 25.2, 25.4]}
    assert "Doubling saves less than 25% of the time from 32 on;" in texts(draw_target(judged(trials(flat))))
    steep = trials({32: [19.0, 19.1, 19.2], 64: [9.0, 9.1, 9.2]}, first=20, horizon=16)
    both = " ".join(texts(draw_target(judged([*trials(flat), *steep]))).split())
    assert "from 32 (horizon 8, batch 128) on; 12 of 12" in both
