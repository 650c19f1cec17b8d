"""An algorithm whose ranks forget to share their gradients, for tests of what notices that."""

from rsl_rl.algorithms import PPO


class DriftingPPO(PPO):
    """RSL-RL's PPO, each rank of which learns for itself."""

    def reduce_parameters(self) -> None:
        """Leave the gradients as they are."""
