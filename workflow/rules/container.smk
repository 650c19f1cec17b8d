# The image that trials run in, where the study says `runtime: apptainer` or `docker`.
#
# In:   containers/isaaclab.def, what it installs and how; with docker, an image that docker or podman has
# Out:  IMAGE: what trial rules have as an input (nothing on the host), so that a changed image is noticed: the image that the
#       study names; without one containers/isaaclab.sif; with docker results/<study>/image.json, which pins it
# BASE, TORCH, MIRROR and PYTHON are taken from the environment, see containers/build.sh.
from pathlib import Path

from envknee.run.container import apptainer, docker

IMAGE = []
# What is missing is said before anything starts.
try:
    if STUDY.runtime == "docker":
        PINNED = docker.pin(STUDY.image)
        apptainer.check_fits(STUDY.image, PINNED.image, docker.BUILD)
        IMAGE = [FOLDER.image]
    elif STUDY.runtime == "apptainer":
        apptainer.require_apptainer()
        if STUDY.image is not None:
            apptainer.check_fits(STUDY.image, apptainer.describe(Path(STUDY.image)))
        IMAGE = [STUDY.image or "containers/isaaclab.sif"]
except UserError as error:
    raise WorkflowError(str(error))


if STUDY.runtime == "docker":

    rule image:
        output:
            FOLDER.image,
        localrule: True
        params:
            name=STUDY.image,
            content=PINNED.image.content_sha256,
        shell:
            "python -m envknee docker {params.name:q} {output:q}"


if STUDY.runtime == "apptainer" and STUDY.image is None:
    CONTAINERS = os.path.join(ROOT, "containers")

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
                    "requirements-cpu.lock",
                    "requirements-cuda.lock",
                    "requirements-trainers.lock",
                    "sbom.py",
                    "step_once.py",
                    "with-kernels.sh",
                )
            ],
            os.path.join(ROOT, "workflow/leanframes/kernels.py"),
        output:
            "containers/isaaclab.sif",
        log:
            "containers/isaaclab.sif.log",
        localrule: True
        params:
            build=os.path.join(CONTAINERS, "build.sh"),
            architectures=(
                [] if STUDY.architectures is None else [f"ARCHITECTURES={' '.join(map(str, STUDY.architectures))}"]
            ),
        shell:
            "env {params.architectures:q} bash {params.build:q} {output:q}"
