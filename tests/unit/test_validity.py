"""What is fast but wrong, and what only looks like it."""

import numpy
import pytest
from envknee.measure import validity


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nefc overflow - please increase njmax to 312", "MuJoCo-Warp dropped"),
        ("njmax_nnz overflow - please increase njmax_nnz to 9", "MuJoCo-Warp dropped"),
        ("CCD overflow in flex narrowphase - please increase naccdmax to 7", "MuJoCo-Warp dropped"),
        ("contact match overflow: please increase Option.contact_sensor_maxmatch to 3", "MuJoCo-Warp dropped"),
        ("Warning: Kamino per-world contact capacity exceeded. Increase the per-world contact capacity.", "Newton's Kamino"),
        ("PhysX error: the application need to increase PxGpuDynamicsMemoryConfig::foundLostPairsCapacity", "PhysX missed"),
        ("Contact buffer overflow detected, please increase its size to at least 9", "PhysX dropped"),
    ],
)  # fmt: skip
def test_what_engines_say_of_full_buffers_is_known_for_every_trainer(line: str, what: str):
    known = validity.patterns({})
    assert not validity.told(["Learning iteration 3/300: 48,000 steps/s", "solver iterations limit reached"], known)
    (sentence,) = validity.sentences(validity.told([line, line], known))
    assert sentence.startswith(what) and sentence.endswith(f"(its log says: {line})")


def test_growth_and_episodes_of_one_step_are_noticed_and_noise_is_not():
    assert validity.growing([1.0, 1.1, 1.2, 1.3, 1.4]) is not None
    assert validity.growing([1.0, 1.1, 1.1, 1.3, 1.4]) is None
    assert validity.growing([1.0, 1.01, 1.02, 1.03, 1.04]) is None
    assert validity.at_once([1.0, None, 1.0]) is not None
    assert validity.at_once([1.0, 7.5]) is None and validity.at_once([None]) is None


def test_frames_are_frozen_only_where_no_pixel_of_any_environment_changes():
    frames = numpy.zeros((5, 4, 3, 8, 8), numpy.uint8)
    why = validity.frozen({"policy": frames})
    assert why == "no pixel of policy changed in a rollout of 5 steps: the camera renders nothing new"
    assert validity.frozen({"policy": frames[:4]}) is None, "too few to tell"
    frames[4, 3, 2, 7, 7] = 1
    assert validity.frozen({"policy": frames}) is None
    assert validity.frozen({"policy": numpy.zeros((5, 4, 3))}) is None, "no camera"
