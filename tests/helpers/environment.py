"""What programs that tests start find in their environment: this checkout, no store of somebody else's, locks and
answers of their own."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from envknee.machine import gpus
from envknee.run import answers
from places import PROGRAMS, ROOT

NO_GRADIENTS = str(PROGRAMS / "no_gradients")
for name in [name for name in os.environ if name.startswith(("AWS_", "MLFLOW_", "PG"))]:
    del os.environ[name]  # tests use no store of somebody else's
LOCKS = tempfile.TemporaryDirectory(prefix="envknee-locks-")
os.environ[gpus.OTHER_LOCKS] = LOCKS.name  # tests wait for no trial of somebody else's
STATE = tempfile.TemporaryDirectory(prefix="envknee-state-")
os.environ[answers.STATE] = STATE.name  # reports of tests put no answer into the store of who runs them
ENVIRONMENT = os.environ | {
    # A GPU host without a package index may have its packages on PYTHONPATH, too.
    "PYTHONPATH": os.pathsep.join([str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}

SNAKEMAKE = shutil.which("snakemake", path=ENVIRONMENT["PATH"]) or "snakemake"
