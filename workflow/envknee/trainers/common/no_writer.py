"""A writer of logs that writes none. Apart from `metered`, because RSL-RL takes a second to import."""

from rsl_rl.utils.log_writer import LogWriter


class NoWriter(LogWriter):
    """Replaces the TensorBoard writer of RSL-RL and of RL-Games, and writes nothing: the meter writes the rows."""

    def __init__(self, log_dir: str) -> None: ...

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Do nothing."""
