"""What a preflight's job tells: written by `probe` on a node, read by `preflight` at the head."""

from pydantic import BaseModel, ConfigDict

MARK = "envknee-probe:"
"""Stands before the line: a login script may print others."""

NONCE = "preflight.nonce"


class Seen(BaseModel):
    """What a job saw."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    job_id: str | None
    device: str | None
    """What a trial would run on, or None where it could not."""
    problem: str | None
    """Why not."""
    driver: str | None
    """And the newest CUDA that it runs."""
    gpus: list[str]
    """Name and memory of each GPU that CUDA shows."""
    sees_folder: bool
    """Whether the word that the head wrote is there, as written."""
    folder_problem: str | None
    scratch: str
    scratch_free_gb: float | None
    scratch_problem: str | None
    image: str | None
    """The content of the image that trials would run in, shortened; None on the host."""
    image_problem: str | None
    kernel_cache: str
    kernel_cache_entries: int
    """Sets of kernels that are already compiled."""
