"""A real SLURM for each file of tests, and a clone of the project beside it for each test."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from running import kill_trials
from slurm_cluster import Cluster
from slurm_site import Site


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def site(tmp_path: Path, cluster: Cluster) -> Iterator[Site]:
    site = Site(tmp_path, cluster)
    yield site
    for sweep in site.started:
        if sweep.poll() is None:
            os.killpg(sweep.pid, signal.SIGKILL)
    cluster.ask("scancel", f"--user={psutil.Process().username()}")
    kill_trials(tmp_path)
