"""Stable-Baselines3's PPO."""

from envknee.trainers.sb3.configuration import resolve
from envknee.trainers.sb3.trainer import train

__all__ = ["resolve", "train"]
