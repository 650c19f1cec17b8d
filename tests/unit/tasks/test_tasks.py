"""The cart-pole that ships with envknee is NVIDIA's robot, as Newton's copy says; a space of many environments is Gymnasium's."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy
import pytest
from envknee.tasks import CARTPOLE_USD, checked_asset
from envknee.tasks.spaces import repeat_without_copies, repeated
from gymnasium.spaces import Box
from gymnasium.vector.utils import batch_space
from programs import told
from records import known

# USD's stubs say that everything may be None: here that would fail the test anyway.
Usd: Any = importlib.import_module("pxr.Usd")
UsdGeom: Any = importlib.import_module("pxr.UsdGeom")
UsdPhysics: Any = importlib.import_module("pxr.UsdPhysics")


def newton_copy() -> Path:
    # Found without importing Newton, which would start Warp.
    origin = known(known(importlib.util.find_spec("newton")).origin)
    return Path(origin).parent / "examples/assets/cartpole_single_pendulum.usda"


def physics_of(path: Path) -> dict[str, Any]:
    """Return of every body and joint its type, the schemas applied to it, and what is said of mass, axis, limits and frames."""
    stage: Any = Usd.Stage.Open(str(path))
    by_name = {}
    for prim in stage.Traverse():
        if prim.IsA(UsdPhysics.Joint) or prim.HasAPI(UsdPhysics.RigidBodyAPI):
            schemas = [schema for schema in prim.GetAppliedSchemas() if schema.startswith("Physics")]
            parts = [part for part in prim.GetAuthoredProperties() if part.GetName().startswith("physics:")]
            said = {
                part.GetName(): str(part.Get()) if isinstance(part, Usd.Attribute) else part.GetTargets()[0].name
                for part in parts
                if "break" not in part.GetName()  # Newton's copy says of no joint that it breaks
            }
            by_name[prim.GetName()] = (prim.GetTypeName(), schemas, said)
    return by_name


def boxes_m(path: Path) -> dict[str, list[float]]:
    """Return the sizes and the centre of the box [m] of every rigid body."""
    stage: Any = Usd.Stage.Open(str(path))
    by_name = {}
    for prim in stage.Traverse():
        if prim.HasAPI(UsdPhysics.RigidBodyAPI):
            (box,) = [child for child in Usd.PrimRange(prim, Usd.TraverseInstanceProxies()) if child.IsA(UsdGeom.Cube)]
            # Newton's copy carries an extent that is scaled twice: the cube's own size and scale are what is simulated.
            transform = UsdGeom.Xformable(box).GetLocalTransformation()
            sizes = [UsdGeom.Cube(box).GetSizeAttr().Get() * transform[axis][axis] for axis in range(3)]
            by_name[prim.GetName()] = [round(length, 4) for length in (*sizes, *transform.ExtractTranslation())]
    return by_name


def test_bodies_joints_and_boxes_are_those_of_newtons_copy():
    assert checked_asset("local") == CARTPOLE_USD
    ours = physics_of(CARTPOLE_USD)
    assert ours == physics_of(newton_copy())
    assert set(ours) == {"slider", "cart", "pole", "root_joint", "slider_to_cart", "cart_to_pole"}
    said = ours["slider_to_cart"][2]
    assert (said["physics:lowerLimit"], said["physics:upperLimit"]) == ("-4.0", "4.0")
    assert set(boxes_m(CARTPOLE_USD)) == {"slider", "cart", "pole"}
    assert boxes_m(CARTPOLE_USD) == boxes_m(newton_copy())


def test_every_box_can_be_seen_and_told_apart():
    stage: Any = Usd.Stage.Open(str(CARTPOLE_USD))
    colours = [
        tuple(prim.GetAttribute("primvars:displayColor").Get()[0])
        for prim in stage.Traverse()
        if prim.IsA(UsdGeom.Gprim)
    ]
    assert len(colours) == len(set(colours)) == 3


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "does not exist"),
        ("not usd at all", "not a USD file that opens"),
        ('#usda 1.0\ndef Xform "robot" {}\n', "no default prim with an articulation"),
        (
            '#usda 1.0\n(\n    defaultPrim = "robot"\n)\ndef Xform "robot" (\n'
            '    prepend apiSchemas = ["PhysicsArticulationRootAPI"]\n)\n{\n}\n',
            "lacks the joint 'slider_to_cart'",
        ),
    ],
)
def test_a_missing_or_broken_asset_is_named(tmp_path, content, complaint):
    asset = tmp_path / "robot.usda"
    if content is not None:
        asset.write_text(content, encoding="utf-8")
    told(lambda: checked_asset(str(asset)), str(asset), complaint, "asset: local")


UPSTREAM = batch_space.dispatch(Box)


@pytest.mark.parametrize(
    "space",
    [
        Box(-1.0, 1.0, (2, 3)),
        Box(-numpy.inf, numpy.inf, (4,)),
        Box(0, 255, (3, 4, 4), numpy.uint8),
        Box(numpy.array([-numpy.inf, 0.0], numpy.float32), numpy.array([1.0, numpy.inf], numpy.float32)),
    ],
)
def test_it_is_the_space_that_gymnasium_makes(space: Box):
    ours: Any = repeated(space, 5)
    theirs: Any = UPSTREAM(space, 5)
    assert ours == theirs and ours.shape == theirs.shape and repr(ours) == repr(theirs)
    for manner in ("below", "above", "both"):
        assert ours.is_bounded(manner) == theirs.is_bounded(manner)
    assert numpy.array_equal(ours.sample(), theirs.sample())
    assert ours.contains(theirs.sample())


def test_a_billion_environments_with_cameras_take_no_memory():
    frames: Any = Box(-numpy.inf, numpy.inf, (6, 96, 96))
    repeat_without_copies()
    try:
        assert batch_space(frames, 10**9).shape == (10**9, 6, 96, 96)
    finally:
        batch_space.register(Box, UPSTREAM)
