"""TorchRL's PPO with three strategies: in turns, asynchronous on two devices, and with collectors in Ray."""

from envknee.trainers.torchrl.trainer import resolve, train

__all__ = ["resolve", "train"]
