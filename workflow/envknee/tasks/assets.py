"""Files of a task's scene: found, replaced by local ones of envknee or the study, and checked before any download."""

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from envknee.study.errors import UserError
from envknee.tasks.shipped import GROUND_USD

FILE_FIELDS = ("usd_path", "asset_path", "network_file")
"""Fields that name files: USD files, files to convert to USD, and an actuator's network."""

CONFIGURED = ("isaaclab", "envknee")
"""Prefixes of the packages that define configuration classes."""

PACKAGE = "package:"
"""Prefix of a path inside an installed Python package. Such a path is the same on every machine and in an image."""


@dataclass(frozen=True)
class File:
    """A file that a configuration names."""

    name: str
    """The dotted name of the field, such as `scene.robot.spawn.usd_path`."""
    value: str
    put: Callable[[str], None]
    """Sets the field."""


def files(config: Any, path: str = "") -> Iterator[File]:
    """Yield every file that the simulation loads. Files of visualizers and markers are left out: nothing displays them."""
    for name, value in vars(config).items() if hasattr(config, "__dict__") else ():
        inside = f"{path}{name}"
        if "visualizer" in name or name.startswith("_") or isinstance(value, type):
            continue
        if name in FILE_FIELDS and isinstance(value, str) and value:
            yield File(inside, value, partial(setattr, config, name))
        elif name in FILE_FIELDS and isinstance(value, list):
            for place, child in enumerate(value):
                yield File(f"{inside}[{place}]", child, partial(value.__setitem__, place))
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from files(item, f"{inside}.{key}.")
        elif type(value).__module__.partition(".")[0].startswith(CONFIGURED):
            yield from files(value, f"{inside}.")


def use_local(env_cfg: Any) -> None:
    """Replace a ground that would be downloaded by envknee's own."""
    from isaaclab.sim import GroundPlaneCfg
    from isaaclab.terrains import TerrainImporterCfg

    for item in vars(env_cfg.scene).values():
        spawn = getattr(item, "spawn", None)
        if isinstance(spawn, GroundPlaneCfg) and is_remote(spawn.usd_path):
            spawn.usd_path = str(GROUND_USD)
    for holder in (env_cfg.scene, env_cfg):
        for terrain in vars(holder).values():
            if isinstance(terrain, TerrainImporterCfg) and terrain.terrain_type == "plane":
                from envknee.tasks.ground import LocalGround  # a second of trimesh, which only terrains need

                terrain.class_type = LocalGround


def use_root(env_cfg: Any, asset_root: str) -> None:
    """Read files of NVIDIA's asset server from a local copy of its tree.

    Isaac Lab reads its own setting for this, ISAACSIM_ASSET_ROOT, only at import. So this function changes the paths themselves.

    Raises:
        UserError: when the folder does not exist.
    """
    from isaaclab.utils.assets import NUCLEUS_ASSET_ROOT_DIR

    root = Path(asset_root).expanduser().resolve()
    if not root.is_dir():
        raise UserError(
            f"task.asset_root: {asset_root} is no folder ({root}). Expected one that holds Isaac/ as NVIDIA's asset server does"
        )
    for file in files(env_cfg):
        if file.value.startswith(f"{NUCLEUS_ASSET_ROOT_DIR}/"):
            file.put(str(root / file.value.removeprefix(f"{NUCLEUS_ASSET_ROOT_DIR}/")))


def check(env_cfg: Any, may_fetch: bool) -> None:
    """Check that all files and the files they refer to exist, and that downloads are allowed if any is remote.

    Local paths become absolute, and `package:newton/examples/assets/ant.usda` becomes that file's path.

    Raises:
        UserError: lists the missing files, or the forbidden downloads, and how to replace them.
    """
    missing = []
    for file in files(env_cfg):
        if is_remote(file.value):
            continue
        try:
            path = local_path(file.value, f"env.{file.name}")
        except UserError as error:
            missing.append(str(error))
            continue
        file.put(str(path))
        if not may_fetch:
            missing += [
                f"env.{file.name}: {path} names {reference}, which is not there" for reference in unresolved(path)
            ]
    if missing:
        raise UserError("\n    ".join(missing))
    remote = fetched(env_cfg)
    if remote and not may_fetch:
        raise UserError(
            "task.asset: this task needs files that are not on this machine, and only asset: nucleus downloads files:\n"
            f"{listed(remote)}, or set asset: nucleus where NVIDIA's server can be reached"
        )


def unresolved(usd: Path) -> list[str]:
    """Return the missing files that a USD file refers to, directly or indirectly, without material libraries (MDL)."""
    if usd.suffix not in (".usd", ".usda", ".usdc", ".usdz"):
        return []
    from pxr import Tf, UsdUtils

    find: Any = UsdUtils.ComputeAllDependencies
    try:
        _, _, missing = find(str(usd))
    except Tf.ErrorException as error:
        return [f"something that does not open ({str(error).strip()})"]
    return sorted(reference for reference in missing if not reference.endswith(".mdl"))


def fetched(env_cfg: Any) -> dict[str, str]:
    """Return the files that would be downloaded, by the dotted names of their fields."""
    return {file.name: file.value for file in files(env_cfg) if is_remote(file.value)}


def listed(remote: dict[str, str]) -> str:
    """Return a line for each file, with the name of its field, and a line about what to set instead."""
    remedy = (
        "Name a folder that holds NVIDIA's tree as task.asset_root, or a file for each under task.overrides, such as"
        f" `env.{next(iter(remote), 'scene.robot.spawn.usd_path')}: robots/robot.usd`, or"
        f" `{PACKAGE}newton/examples/assets/ant.usda` for one in an installed package"
    )
    return "\n".join([*(f"    env.{name}: {file}" for name, file in remote.items()), remedy])


def local_path(file: str, name: str) -> Path:
    """Return the absolute path of `file`, a path or `package:NAME/PATH`; `name` is its field, for messages.

    Raises:
        UserError: when the file or its package does not exist.
    """
    path = Path(file).expanduser()
    if file.startswith(PACKAGE):
        package, _, inside = file.removeprefix(PACKAGE).partition("/")
        spec = importlib.util.find_spec(package) if package.isidentifier() else None  # does not import the package
        if spec is None or spec.origin is None:
            raise UserError(
                f"{name}: {file}: no Python package {package!r} is installed. Expected {PACKAGE}NAME/PATH/IN/IT"
            )
        path = Path(spec.origin).parent / inside
    if not path.is_file():
        raise UserError(f"{name}: {file} does not exist ({path.absolute()}). Expected a file, or asset: nucleus")
    return path.resolve()


def is_remote(file: str) -> bool:
    """Whether a file's name is a URL."""
    return "://" in file
