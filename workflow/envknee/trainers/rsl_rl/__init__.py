"""RSL-RL's PPO, stock or lean."""

from envknee.trainers.rsl_rl.trainer import command_line, resolve, train

__all__ = ["command_line", "resolve", "train"]
