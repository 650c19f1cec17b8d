"""The ground of terrains of type `plane`, from the file that ships with envknee.

Isaac Lab's own importer downloads the plane from NVIDIA's server and has no field to change that. Upstream: TerrainImporter of Isaac
Lab 3.0.0.
"""

from typing import Any

from isaaclab.sim import GroundPlaneCfg
from isaaclab.terrains import TerrainImporter

from envknee.tasks.shipped import GROUND_USD


class LocalGround(TerrainImporter):
    """A terrain importer that downloads nothing: its plane has the same friction and position, without NVIDIA's texture."""

    def import_ground_plane(self, name: str, size: tuple[float, float] | None = None) -> None:
        """Add the infinite plane to the scene; `size` [m], the part that upstream draws, is ignored."""
        prim_path = f"{self.cfg.prim_path}/{name}"
        self.terrain_prim_paths.append(prim_path)
        plane: Any = GroundPlaneCfg(usd_path=str(GROUND_USD), physics_material=self.cfg.physics_material)
        plane.func(prim_path, plane)
