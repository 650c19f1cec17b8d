# The image that trials run in, where the study says `runtime: apptainer`.
#
# In:   containers/isaaclab.def, what it installs and how
# Out:  IMAGE: what trial rules have as an input (nothing on the host), so that a changed image is noticed; and
#       containers/isaaclab.sif, unless the study names an image that is already built
# BASE, TORCH, MIRROR and PYTHON are taken from the environment, see containers/build.sh.
from pathlib import Path

from envknee import image

IMAGE = []
if STUDY.runtime == "apptainer":
    try:
        image.require_apptainer()
        if STUDY.image is not None:
            image.check_fits(Path(STUDY.image))
    except UserError as error:
        raise WorkflowError(str(error))
    IMAGE = [STUDY.image or "containers/isaaclab.sif"]


if STUDY.runtime == "apptainer" and STUDY.image is None:
    CONTAINERS = os.path.join(workflow.basedir, "containers")

    # Where Snakemake itself runs: nodes of a cluster have no network.
    rule image:
        input:
            [
                os.path.join(CONTAINERS, name)
                for name in (
                    "isaaclab.def",
                    "build.sh",
                    "fetch.sh",
                    "install.sh",
                    "requirements.lock",
                    "requirements-cuda.lock",
                    "step_once.py",
                    "with-kernels.sh",
                )
            ],
        output:
            "containers/isaaclab.sif",
        log:
            "containers/isaaclab.sif.log",
        localrule: True
        params:
            build=os.path.join(CONTAINERS, "build.sh"),
        shell:
            "bash {params.build:q} {output:q}"
