"""This machine, as frozen models: the devices, versions and image that a record names."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Described(BaseModel):
    """A frozen model that rejects unknown fields, as those of records do."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Device(Described):
    """The GPU or CPU of a trial."""

    type: Literal["cpu", "cuda"]
    name: str
    uuid: str | None
    memory_gb: float
    """Memory that a trial may use: the GPU's, or the host's (or the control group's limit, if smaller)."""
    compute_capability: str | None = None
    driver: str | None = None


class Image(Described):
    """The image that a trial ran in."""

    sif_sha256: str | None
    """Hash of the file. It differs between two builds of one commit, because the header holds a random identity and the time. None
    with runtime: docker, whose images are no files."""
    content_sha256: str
    """Hash of the file system in the image: equal for two builds of one commit. With runtime: docker the image's ID, which is a
    sha256 of its configuration and names all layers by their hashes."""
    labels: dict[str, str]
    """org.envknee.*: git commit, lock files and base image of the build, and the GPUs that it has kernels for."""


class Environment(Described):
    """Machine, device and versions of a trial."""

    host: str
    device: Device
    cpu_model: str
    cpu_cores: int
    cpu_threads: int
    """PyTorch's threads (OMP_NUM_THREADS)."""
    python: str
    packages: dict[str, str]
    git_commit: str | None
    git_dirty: bool | None
    git_branch: str | None = None
    host_memory_gb: float | None = None
    """The host's memory (or the control group's limit, if smaller), on a GPU, too."""
    image: Image | None = None
    """None on the host."""
