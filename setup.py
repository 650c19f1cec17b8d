"""Puts the files beside the package (Snakefile, rules, captions, profiles, lock files) into envknee's wheel, as `envknee/project`.

All else stands in pyproject.toml. In a checkout they stay where they are: see `envknee.study.paths`.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
BESIDE = (
    "Snakefile", "workflow/Snakefile", "workflow/rules", "workflow/report", "workflow/profiles", "config",
    "slurm",  # a link to the profile; what this names, slurm/site.yaml, is sought beside the Snakefile
    *(f"containers/{path.name}" for path in (HERE / "containers").glob("*.lock")),
)  # fmt: skip


class WithProject(build_py):
    """Copies what lies beside the package, too."""

    def run(self) -> None:
        """Build the package and copy."""
        built = Path(self.build_lib)
        for package in ("envknee", "leanframes"):
            shutil.rmtree(
                built / package, ignore_errors=True
            )  # an earlier build left modules there that are gone since
        super().run()
        into = built / "envknee" / "project"
        for name in BESIDE:
            source, target = HERE / name, into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                # A user's own cluster stays on its machine.
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.local.yaml"))
            else:
                shutil.copy2(source, target)


setup(cmdclass={"build_py": WithProject})
