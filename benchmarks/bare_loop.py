"""The training of a trial without its meter: RSL-RL's own loop, the same environment and the same learner.

Input: files of requests, whose environments are made one after the other. Output: for each a line `request FILE`, and a line `iteration
SECONDS` for each iteration, from the end of the one before, on the host's clock.

    python benchmarks/bare_loop.py results/STUDY/trials/0000/request.json
"""

import gc
import sys
import time
from pathlib import Path
from typing import Any

import torch
from envknee.machine import environment
from envknee.record.schema import Request
from envknee.study.errors import UserError, run_command
from envknee.study.files import read_model


def request_of(path: Path) -> Request:
    """Return the request in a file, for one rank of RSL-RL.

    Raises:
        UserError: when it is for another library or several ranks.
    """
    request = read_model(path, Request, "")
    if request.trainer != "rsl_rl" or request.processes > 1:
        raise UserError(f"a bare loop is RSL-RL's on one rank, and this is {request.trainer} on {request.processes}")
    return request


def runner_of(request: Request) -> tuple[Any, Any]:
    """Return RSL-RL's runner over the environment of a request, and the configuration of its agent. It chooses this process's device."""
    device = environment.choose_device(request.gpus)
    environment.use(device, environment.gpu_of(device))

    from envknee import tasks
    from envknee.trainers import rsl_rl
    from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
    from isaaclab_rl.rsl_rl.utils import create_rsl_rl_runner

    config = rsl_rl.resolve(request, device)
    env: Any = tasks.make(config.task_id, config.env, request.observations, request.frontend)
    wrapped = RslRlVecEnvWrapper(env, clip_actions=config.agent.clip_actions)
    return create_rsl_rl_runner(wrapped, config.agent, log_dir=None), config.agent


def main() -> None:
    """Train for as many iterations as each request says, warm-up included."""
    if len(sys.argv) < 2:
        raise UserError("usage: bare_loop.py REQUEST.json ...")
    for name in sys.argv[1:]:
        request = request_of(Path(name))
        print(f"request {name}", flush=True)
        train(request)
        gc.collect()  # the loop's environment, rollout and graphs hold each other
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def train(request: Request) -> None:
    """Train as a request says, tell each iteration, and close the environment."""
    runner, agent = runner_of(request)
    update, began = runner.alg.update, time.perf_counter()

    def update_and_tell() -> dict[str, float]:
        nonlocal began
        losses = update()
        if runner.device != "cpu":
            torch.cuda.synchronize()
        now = time.perf_counter()
        print(f"iteration {now - began}", flush=True)
        began = now
        return losses

    runner.alg.update = update_and_tell
    runner.learn(
        request.warmup_iterations + (request.iterations or 1), init_at_random_ep_len=agent.init_at_random_ep_len
    )
    runner.env.close()


if __name__ == "__main__":
    run_command(main)
