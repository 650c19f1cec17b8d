"""Measures what an iteration takes of its devices: memory and load."""

import torch

from envknee.machine.nvml import Gpu
from envknee.measure.load import LoadWatch
from envknee.measure.memory import MemoryWatch
from envknee.record.schema import Load, MemoryUse


class DeviceUse:
    """The memory and load of a trial's process and its GPUs."""

    def __init__(
        self, device: torch.device, gpu: Gpu | None, cap_gb: float | None, before_gb: float, is_alone: bool
    ) -> None:
        """Prepare to watch `device`.

        Args:
            device: of the simulation, and of the learner unless `add_learner_gpu` is called
            gpu: NVML's handle of that GPU
            cap_gb: the most memory that the process may use
            before_gb: GPU memory in use by others, before this process had a context there
            is_alone: whether this is the only rank on its machine, so that CPU time of others is theirs
        """
        self.memory = MemoryWatch(device, cap_gb, before_gb)
        self.learner_memory: MemoryWatch | None = None
        """Memory of the learner's own GPU, if it has one."""
        self.load = LoadWatch(gpu, is_alone)
        self._of_iteration: tuple[MemoryUse, Load] | None = None
        """Memory and load of this iteration, if they are taken already."""

    def add_learner_gpu(self, device: torch.device, before_gb: float) -> MemoryWatch:
        """Watch the memory of a second GPU, on which the learner works. Call it before this process has a context there."""
        self.learner_memory = MemoryWatch(device, before_gb=before_gb)
        return self.learner_memory

    def begin_iteration(self) -> None:
        """Forget what was taken of the iteration before."""
        self._of_iteration = None

    def end_learning(self) -> None:
        """Take memory and load of this iteration, whose learning has ended on the host."""
        self.memory.learning_ended()
        self._of_iteration = self.memory.use(), self.load.take()

    def of_iteration(self) -> tuple[MemoryUse, Load]:
        """Return memory and load of this iteration; take them if `end_learning` was not called."""
        if self._of_iteration is None:
            self.end_learning()
        assert self._of_iteration is not None, "end_learning takes it"
        return self._of_iteration
