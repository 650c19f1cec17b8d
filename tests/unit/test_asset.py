"""The cart-pole that ships with envknee is NVIDIA's robot: Newton's copy of it is the witness."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from envknee.study.errors import UserError
from envknee.tasks import CARTPOLE_USD, checked_asset
from records import known

# USD's stubs say that everything may be None: here that would fail the test anyway.
Usd: Any = importlib.import_module("pxr.Usd")
UsdGeom: Any = importlib.import_module("pxr.UsdGeom")
UsdPhysics: Any = importlib.import_module("pxr.UsdPhysics")


def newton_copy() -> Path:
    # Found without importing Newton, which would start Warp.
    origin = known(known(importlib.util.find_spec("newton")).origin)
    return Path(origin).parent / "examples/assets/cartpole_single_pendulum.usda"


def bodies(path: Path) -> dict[str, dict[str, Any]]:
    """Return mass, centre of mass and the boxes' sizes [m] of every rigid body."""
    stage: Any = Usd.Stage.Open(str(path))
    by_name = {}
    for prim in stage.Traverse():
        if prim.HasAPI(UsdPhysics.RigidBodyAPI):
            mass = UsdPhysics.MassAPI(prim)
            (box,) = [child for child in Usd.PrimRange(prim, Usd.TraverseInstanceProxies()) if child.IsA(UsdGeom.Cube)]
            # Newton's copy carries an extent that is scaled twice: the cube's own size and scale are what is simulated.
            transform = UsdGeom.Xformable(box).GetLocalTransformation()
            size = [UsdGeom.Cube(box).GetSizeAttr().Get() * transform[axis][axis] for axis in range(3)]
            by_name[prim.GetName()] = {
                "mass": mass.GetMassAttr().Get(),
                "centre": tuple(mass.GetCenterOfMassAttr().Get()),
                "size_m": tuple(round(length, 4) for length in size),
                "centre_of_box_m": tuple(round(length, 4) for length in transform.ExtractTranslation()),
            }
    return by_name


def joints(path: Path) -> dict[str, dict[str, Any]]:
    """Return type, axis, limits and frames of every joint."""
    stage: Any = Usd.Stage.Open(str(path))
    by_name = {}
    for prim in stage.Traverse():
        if not prim.IsA(UsdPhysics.Joint):
            continue
        joint = UsdPhysics.Joint(prim)
        facts: dict[str, Any] = {
            "type": prim.GetTypeName(),
            "bodies": tuple(
                targets[0].name if (targets := relation.GetTargets()) else None
                for relation in (joint.GetBody0Rel(), joint.GetBody1Rel())
            ),
            "at": tuple(joint.GetLocalPos0Attr().Get()),
            "rotation": str(joint.GetLocalRot0Attr().Get()),
        }
        for name in ("physics:axis", "physics:lowerLimit", "physics:upperLimit"):
            attribute = prim.GetAttribute(name)
            facts[name] = attribute.Get() if attribute else None
        by_name[prim.GetName()] = facts
    return by_name


def test_bodies_have_the_masses_and_sizes_of_newtons_copy():
    ours, theirs = bodies(CARTPOLE_USD), bodies(newton_copy())
    assert set(ours) == {"slider", "cart", "pole"}
    assert ours == theirs


def test_joints_have_the_names_axes_and_limits_of_newtons_copy():
    ours, theirs = joints(CARTPOLE_USD), joints(newton_copy())
    assert set(ours) == {"root_joint", "slider_to_cart", "cart_to_pole"}
    assert ours == theirs
    assert (ours["slider_to_cart"]["physics:lowerLimit"], ours["slider_to_cart"]["physics:upperLimit"]) == (-4.0, 4.0)


def test_every_box_can_be_seen_and_told_apart():
    stage: Any = Usd.Stage.Open(str(CARTPOLE_USD))
    colours = [
        tuple(prim.GetAttribute("primvars:displayColor").Get()[0])
        for prim in stage.Traverse()
        if prim.IsA(UsdGeom.Gprim)
    ]
    assert len(colours) == 3
    assert len(set(colours)) == 3


def test_the_shipped_asset_passes_its_own_check():
    assert checked_asset("local") == CARTPOLE_USD


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
    with pytest.raises(UserError) as error:
        checked_asset(str(asset))
    assert str(asset) in str(error.value)
    assert complaint in str(error.value)
    assert "asset: local" in str(error.value)
