"""TorchRL's PPO, in three strategies: alone, asynchronous, gathered by Ray."""

from envknee.trainers.torchrl.trainer import command_line, resolve, train

__all__ = ["command_line", "resolve", "train"]
