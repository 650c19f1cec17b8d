"""TorchRL's PPO with three strategies: in turns, asynchronous on two devices, and with collectors in Ray."""

from envknee.trainers.torchrl.trainer import command_line, resolve, train

__all__ = ["command_line", "resolve", "train"]
