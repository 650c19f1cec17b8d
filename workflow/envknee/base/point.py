"""A point of a sweep, and the sizes that follow from it. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Point:
    """One place in the space of a sweep: num_envs of each rank, batch_size of all ranks together.

    `batch_size` None: the library's own number of mini-batches.
    """

    num_envs: int
    horizon: int
    batch_size: int | None

    @property
    def rollout(self) -> int:
        """Transitions that a rank collects in one iteration."""
        return rollout_size(self.num_envs, self.horizon)


def rollout_size(num_envs: int, horizon: int) -> int:
    """Return the transitions collected in one iteration by one rank: num_envs x horizon."""
    return num_envs * horizon


def batch_transitions(
    num_envs: int, horizon: int, batch_size: int | None, mini_batches: int | None, world_size: int = 1
) -> float:
    """Return the transitions of one rank in an optimizer step, which its memory must hold.

    `batch_size` is that of all ranks together, which have equal parts. If it is None, the library cuts a rollout into `mini_batches`;
    0 if that is unknown, too: a trial that never ran.
    """
    if batch_size is not None:
        return batch_size / world_size
    return rollout_size(num_envs, horizon) / mini_batches if mini_batches else 0.0
