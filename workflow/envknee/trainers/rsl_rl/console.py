"""RSL-RL's log of episodes, computed once per rollout. Upstream's waits for the GPU after every step to learn which episodes ended.

Input: a runner. Output: the same lines in its log. Upstream: `Logger.process_env_step` of rsl-rl-lib 5.5.1.
"""

from functools import wraps
from typing import Any

import numpy
import torch


def log_per_rollout(runner: Any) -> None:
    """Make a runner's logger process a whole rollout at once. With RND, which has two rewards, nothing is changed."""
    logger: Any = runner.logger
    if runner.cfg["algorithm"].get("rnd_cfg"):
        return
    log, rewards, dones = logger.log, list[torch.Tensor](), list[torch.Tensor]()
    returns = numpy.zeros(logger.num_envs, dtype=numpy.float32)
    lengths = numpy.zeros(logger.num_envs, dtype=numpy.float32)

    def process_env_step(
        new_rewards: torch.Tensor, new_dones: torch.Tensor, extras: dict, intrinsic_rewards: None = None
    ) -> None:
        if logger.writer is None:
            return
        if episode := extras.get("episode", extras.get("log")):
            logger.ep_extras.append(episode)
        rewards.append(new_rewards)
        dones.append(new_dones)

    @wraps(log)
    def log_rollout(*arguments: Any, **keywords: Any) -> None:
        if rewards:
            for reward, done in zip(torch.stack(rewards).cpu().numpy(), torch.stack(dones).cpu().numpy(), strict=True):
                returns[:] += reward
                lengths[:] += 1
                ended = numpy.flatnonzero(done > 0)
                logger.rewbuffer.extend(returns[ended].tolist())
                logger.lenbuffer.extend(lengths[ended].tolist())
                returns[ended] = lengths[ended] = 0
            rewards.clear()
            dones.clear()
        log(*arguments, **keywords)

    logger.process_env_step, logger.log = process_env_step, log_rollout
