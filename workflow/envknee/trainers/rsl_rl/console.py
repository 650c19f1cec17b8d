"""RSL-RL's log, once a second. Upstream waits for the GPU after every step to learn which episodes ended, and takes milliseconds a log.

Input: a runner. Output: the same lines in its log, for one iteration a second. Upstream: `Logger.process_env_step` and `Logger.log` of
rsl-rl-lib 5.5.1.
"""

import math
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy
import torch

LOG_EVERY_S = 1.0


def log_once_a_second(runner: Any, copy_of_rewards: Callable[[], torch.Tensor]) -> Callable[[], None]:
    """Make a runner's logger process all rollouts of a second at once. With RND, which has two rewards, nothing is changed.

    Args:
        runner: RSL-RL's
        copy_of_rewards: returns a copy of the newest step's rewards: manager-based environments write into the same tensor at each step

    Returns:
        What prints the newest log if it is not printed yet: called while the GPU works.
    """
    logger: Any = runner.logger
    if runner.cfg["algorithm"].get("rnd_cfg"):
        return lambda: None
    log, rewards, dones = logger.log, list[torch.Tensor](), list[torch.Tensor]()
    returns = numpy.zeros(logger.num_envs, dtype=numpy.float32)
    lengths = numpy.zeros(logger.num_envs, dtype=numpy.float32)
    logged_at_s = -math.inf
    unprinted: Callable[[], None] | None = None

    def process_env_step(
        new_rewards: torch.Tensor, new_dones: torch.Tensor, extras: dict, intrinsic_rewards: None = None
    ) -> None:
        if logger.writer is None:
            return
        if episode := extras.get("episode", extras.get("log")):
            logger.ep_extras.append(episode)
        rewards.append(copy_of_rewards())
        dones.append(new_dones)

    @wraps(log)
    def log_rollouts(*arguments: Any, **keywords: Any) -> None:
        nonlocal logged_at_s, unprinted
        if (now_s := time.monotonic()) - logged_at_s < LOG_EVERY_S:
            logger.tot_timesteps += runner.cfg["num_steps_per_env"] * logger.num_envs * logger.gpu_world_size
            logger.tot_time += keywords["collect_time"] + keywords["learn_time"]
            return
        logged_at_s = now_s
        print_log()
        # Nothing is fetched later: that would wait for the GPU.
        keywords["action_std"] = keywords["action_std"].cpu()
        steps = [torch.stack(kept).cpu().numpy() for kept in (rewards, dones) if kept]
        rewards.clear()
        dones.clear()

        def print_it() -> None:
            for reward, done in zip(*steps, strict=True):
                returns[:] += reward
                lengths[:] += 1
                ended = numpy.flatnonzero(done > 0)
                logger.rewbuffer.extend(returns[ended].tolist())
                logger.lenbuffer.extend(lengths[ended].tolist())
                returns[ended] = lengths[ended] = 0
            log(*arguments, **keywords)

        unprinted = print_it
        if torch.device(runner.device).type == "cpu":
            print_log()  # on a CPU nobody waits for it

    def print_log() -> None:
        nonlocal unprinted
        print_it, unprinted = unprinted, None
        if print_it is not None:
            print_it()

    logger.process_env_step, logger.log = process_env_step, log_rollouts
    return print_log
