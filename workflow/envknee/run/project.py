"""A project around the installed workflow, for people who have no clone: what `envknee init FOLDER --workflow` writes.

Input: the files that the package brings (`study.paths.PROJECT`), and the text of a study. Output: a folder in which `envknee sweep` and
`snakemake` run. The rules stay in the package, so that an upgrade of envknee upgrades them, too; what a user edits is copied.
"""

from pathlib import Path

from envknee.study.files import write_atomically
from envknee.study.paths import PROJECT

CONFIG = "config/config.yaml"
"""The study that Snakemake reads when none is named."""

SITE = "slurm/site.yaml"

PROFILES = {
    "profiles/default/config.yaml": "workflow/profiles/default/config.yaml",
    "slurm/config.yaml": "workflow/profiles/slurm/config.yaml",
    "allocation/config.yaml": "workflow/profiles/allocation/config.yaml",
}
"""Profiles: where Snakemake looks for them beside a Snakefile, and where the package has them."""

SNAKEFILE = """\
# A project of envknee. The rules lie in the installed package: `pip install --upgrade` renews them.
#
#     envknee sweep                      config/config.yaml, and then what was found
#     envknee sweep --profile slurm      as jobs of the cluster that slurm/site.yaml describes
#     snakemake -n                       the same rules with Snakemake's own options: here, what would run
from envknee.study.paths import PROJECT


include: str(PROJECT / "workflow/rules/all.smk")


rule all:
    default_target: True
    input:
        PRODUCTS,
"""

SITE_HEADER = """\
# Your cluster: edit this file. Then type `envknee sweep --prepare --profile slurm`: one job runs each arm's smallest trial and says
# whether the lines are right, before hours are spent. `site.local.yaml` beside this file goes before it, if there is one.
"""

GITIGNORE = """\
/results/
/.snakemake/
/slurm/*.local.yaml
"""


def shipped_study() -> str:
    """Return the text of the default study, which explains every key."""
    return (PROJECT / CONFIG).read_text(encoding="utf-8")


def write_project(folder: Path, study: str) -> list[str]:
    """Write a project with this study into a new or empty folder, and return the names of its files."""
    texts = {"Snakefile": SNAKEFILE, CONFIG: study, SITE: _site(), ".gitignore": GITIGNORE}
    texts |= {name: (PROJECT / source).read_text(encoding="utf-8") for name, source in PROFILES.items()}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, text)
    return sorted(texts)


def _site() -> str:
    """Return the description of a cluster; its first paragraph is for a clone, where git must not see a user's account."""
    shipped = (PROJECT / "workflow/profiles/slurm/site.yaml").read_text(encoding="utf-8")
    _, _, lines = shipped.partition("\n\n")
    return f"{SITE_HEADER}\n{lines}"
