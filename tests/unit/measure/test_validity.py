"""What is fast but wrong, and what only looks like it."""

import numpy
import pytest
from envknee.measure import validity


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("nefc overflow - please increase njmax to 312", "MuJoCo-Warp dropped"),
        ("broadphase overflow - please increase nconmax to 24 or naconmax to 4096", "MuJoCo-Warp dropped"),
        ("njmax_nnz overflow - please increase njmax_nnz to 9", "MuJoCo-Warp dropped"),
        ("CCD overflow in flex narrowphase - please increase naccdmax to 7", "MuJoCo-Warp dropped"),
        ("contact match overflow: please increase Option.contact_sensor_maxmatch to 3", "MuJoCo-Warp dropped"),
        ("Warning: Kamino per-world contact capacity exceeded. Increase the per-world contact capacity.", "Newton's Kamino"),
        ("PhysX error: the application need to increase PxGpuDynamicsMemoryConfig::foundLostPairsCapacity", "PhysX missed"),
        ("internal error : PxgDynamicsMemoryConfig::collisionStackSize buffer overflow detected, please increase its size", "PhysX missed"),
        ("[SAPIEN] the application need to increase the PxgDynamicsMemoryConfig::foundLostPairsCapacity parameter", "PhysX missed"),
        ("Contact buffer overflow detected, please increase its size to at least 9", "PhysX dropped"),
        ("[omni.physx.plugin] PhysX error: Patch buffer overflow detected, please increase its size to at least 2", "PhysX dropped"),
    ],
)  # fmt: skip
def test_what_engines_say_of_full_buffers_is_known_for_every_trainer(line: str, what: str):
    known = validity.patterns({})
    assert not validity.matches(["Learning iteration 3/300: 48,000 steps/s", "solver iterations limit reached"], known)
    (sentence,) = validity.sentences(validity.matches([line, line], known))
    assert sentence.startswith(what) and sentence.endswith(f"(its log says: {line})")


@pytest.mark.parametrize(
    "memory_gb",
    [
        [1.0, 1.1, 1.2, 1.3, 1.4],
        [1.0, 1.1, 1.1, 1.3, 1.4],  # a look fell between two rows
        [1.0, 1.0, 1.0, 1.2, 1.2, 1.2, 1.4, 1.4, 1.4, 1.6],  # rows are quicker than looks
        [1.0 + 0.01 * n - 0.015 * (n == 7) for n in range(12)],  # and a little is given back
    ],
)
def test_memory_that_grows_all_the_time_is_a_leak(memory_gb):
    assert "it leaks" in (validity.growing(memory_gb) or "")


@pytest.mark.parametrize(
    "memory_gb",
    [
        [1.0, 1.1, 1.2, 1.3],  # too few to tell
        [1.0, 1.01, 1.02, 1.03, 1.04],
        [1.0, 1.2, 1.4, 1.4, 1.4, 1.4],  # an allocator that has what it needs
        [1.0, 1.1, 1.2, 1.3, 1.4, 1.41, 1.42, 1.42, 1.43],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.4, 1.4],  # something that is made once
        [1.0, 1.3, 1.0, 1.3, 1.2, 1.4, 1.3, 1.5],  # what collects garbage now and then
        [0.0] * 9,
        [1.0] * 9,
    ],
)
def test_memory_that_settles_or_swings_is_no_leak(memory_gb):
    assert validity.growing(memory_gb) is None


def test_episodes_of_one_step_are_noticed():
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


def test_ranks_that_learned_other_weights_did_not_train_together():
    assert validity.apart(["a", "a", "a"]) is None
    said = "rank 1, 3 of 4 learned other weights than rank 0: their gradients were not shared"
    assert validity.apart(["a", "b", "a", "c"]) == said
