"""RSL-RL's log of the lean learner says what upstream's logger says, and only when the GPU has work."""

import re
from types import SimpleNamespace

import pytest
import torch
from envknee.trainers.common.no_writer import NoWriter
from envknee.trainers.rsl_rl import console
from rsl_rl.utils.logger import Logger

HORIZON, NUM_ENVS = 3, 4
REWARDS = torch.zeros(NUM_ENVS)
"""Those of the newest step: a manager-based environment writes into the same tensor at each."""

CONFIG = {"num_steps_per_env": HORIZON, "algorithm": {}, "run_name": ""}


def a_logger(log_dir: str) -> Logger:
    logger = Logger(
        log_dir, CONFIG, {}, NUM_ENVS, is_distributed=False, gpu_world_size=1, gpu_global_rank=0, device="cpu"
    )
    logger.writer = NoWriter("")
    return logger


def iterate(logger: Logger, number: int) -> None:
    """Do what a runner does with its logger in an iteration whose episodes end in the environments after each other."""
    for step in range(HORIZON):
        rewards = REWARDS.copy_(torch.arange(NUM_ENVS) * (1.0 + number) + step)
        logger.process_env_step(
            rewards, torch.arange(NUM_ENVS) == (number + step) % NUM_ENVS, {"log": {"height": step}}, None
        )
    logger.log(
        it=number, start_it=0, total_it=9, collect_time=1.0, learn_time=2.0, loss_dict={"value": 0.5}, learning_rate=1e-3,
        action_std=torch.ones(1), rnd_weight=None,
    )  # fmt: skip


def figures(printed: str) -> list[str]:
    return re.findall(r"(?:Learning iteration|Mean|Total steps|Iteration time)[^\n]*", printed)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_it_says_what_upstream_says_once_the_gpu_has_work(
    device: str, tmp_path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(console, "LOG_EVERY_S", 0.0)
    upstream, own = a_logger(str(tmp_path)), a_logger(str(tmp_path))
    print_log = console.log_once_a_second(SimpleNamespace(logger=own, cfg=CONFIG, device=device), REWARDS.clone)
    for number in range(3):
        iterate(upstream, number)
        expected = figures(capsys.readouterr().out)
        iterate(own, number)
        at_once = figures(capsys.readouterr().out)
        print_log()
        later = figures(capsys.readouterr().out)
        assert len(expected) >= 5 and (at_once, later) == ((expected, []) if device == "cpu" else ([], expected))
        print_log()
        assert capsys.readouterr().out == ""


def test_most_iterations_of_a_second_are_counted_and_not_printed(tmp_path, capsys: pytest.CaptureFixture[str]):
    own = a_logger(str(tmp_path))
    console.log_once_a_second(SimpleNamespace(logger=own, cfg=CONFIG, device="cpu"), REWARDS.clone)
    for number in range(3):
        iterate(own, number)
    assert len(re.findall("Learning iteration", capsys.readouterr().out)) == 1
    assert (own.tot_timesteps, own.tot_time) == (3 * HORIZON * NUM_ENVS, 9.0)
