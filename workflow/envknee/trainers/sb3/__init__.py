"""Stable-Baselines3's PPO."""

from envknee.trainers.sb3.configuration import command_line, resolve
from envknee.trainers.sb3.trainer import train

__all__ = ["command_line", "resolve", "train"]
