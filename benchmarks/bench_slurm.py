"""How long a sweep of two short trials takes on an idle SLURM, from `make sweep` to the verdict.

    python benchmarks/bench_slurm.py [--runs 3]

It starts the tests' SLURM on this machine (slurmctld, two slurmd, munge) and sweeps with the profile as it ships. The first sweep compiles
kernels and is not counted. Prints, for each further one, the seconds until verdict.json is there, and until make ends.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/helpers"), str(ROOT / "workflow")]

from slurm_cluster import Cluster
from slurm_site import Site

THROUGHPUT = {"num_envs": [4, 8], "horizon": 4, "batch_size": 16, "repeats": 1, "iterations": 2}


def as_shipped(site: Site) -> None:
    """Undo what makes tests quicker: how soon, and how often, Snakemake looks at its jobs."""
    (site.folder / "bin/snakemake").unlink()
    shutil.copy2(Path(sys.executable).with_name("snakemake"), site.folder / "bin/snakemake")
    shutil.copy2(ROOT / "slurm/config.yaml", site.folder / "slurm/config.yaml")


def sweep_s(site: Site, name: str) -> tuple[float, float]:
    """Return the seconds until the verdict is there, and until make has ended."""
    study = site.study(study=name, arms={"cpu": {"gpus": 0}}, throughput=THROUGHPUT, learning=None)
    begun_s, verdict_s = time.monotonic(), None
    process = site.make(study)
    while process.poll() is None:
        if verdict_s is None and site.results(name).verdict.exists():
            verdict_s = time.monotonic() - begun_s
        time.sleep(0.1)
    ended_s = time.monotonic() - begun_s
    output, _ = process.communicate()
    if process.returncode or verdict_s is None:
        raise SystemExit(f"the sweep ended with {process.returncode}:\n{output}")
    return verdict_s, ended_s


def main() -> None:
    """Measure sweeps on a SLURM of this machine."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--runs", type=int, default=3, help="sweeps that count (default: %(default)s)")
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="envknee-slurm-") as folder:
        cluster = Cluster(Path(folder) / "slurm")
        try:
            cluster.start()
            (Path(folder) / "site").mkdir()
            site = Site(Path(folder) / "site", cluster)
            as_shipped(site)
            sweep_s(site, "warm")
            for run in range(runs):
                verdict_s, ended_s = sweep_s(site, f"run-{run}")
                print(f"run {run}: verdict after {verdict_s:.1f} s, make ended after {ended_s:.1f} s", flush=True)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
