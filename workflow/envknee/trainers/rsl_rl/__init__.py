"""RSL-RL's PPO: stock, and with frames that stay bytes until the network reads them."""

from envknee.trainers.rsl_rl.trainer import command_line, resolve, train

__all__ = ["command_line", "resolve", "train"]
