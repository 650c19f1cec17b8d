"""TorchRL's PPO, its asynchronous collector and Ray's collectors."""

from envknee.trainers.torchrl.trainer import command_line, resolve, train

__all__ = ["command_line", "resolve", "train"]
