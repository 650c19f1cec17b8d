"""One optimizer step from micro-batches is the one from the whole mini-batch, also after memory ran out. RSL-RL's own PPO,
networks and storage; real allocation errors."""

import copy
import re
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from leanframes.errors import LeanError
from leanframes.rsl_rl import AccumulatingPPO
from rsl_rl.algorithms import PPO
from rsl_rl.modules.distribution import Distribution
from rsl_rl.utils import resolve_callable
from tensordict import TensorDict
from threads import one_thread  # noqa: F401  a fixture
from torch.multiprocessing.spawn import start_processes

NUM_ENVS, HORIZON, NUM_MINI_BATCHES = 16, 8, 4
MINI_BATCH_SIZE = NUM_ENVS * HORIZON // NUM_MINI_BATCHES
NUM_ACTIONS = 2
OURS = "leanframes.rsl_rl:AccumulatingPPO"
GPU = pytest.param(
    "cuda:0", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
)

GAUSSIAN = {"class_name": "GaussianDistribution", "init_std": 1.0}
# As Isaac Lab 3.0.0's CartpoleCameraDirectPPORunnerCfg (isaaclab_tasks/core/cartpole/agents/rsl_rl_ppo_cfg.py).
CAMERA_ACTOR = {
    "class_name": "CNNModel",
    "cnn_cfg": {"output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu"},
    "hidden_dims": [64],
    "activation": "elu",
    "distribution_cfg": GAUSSIAN,
}
STATE_ACTOR = {"class_name": "MLPModel", "hidden_dims": [32, 32], "activation": "elu", "distribution_cfg": GAUSSIAN}
CRITIC = {"class_name": "MLPModel", "hidden_dims": [32, 32], "activation": "elu"}
ADAPTIVE: dict[str, Any] = {"schedule": "adaptive", "learning_rate": 1e-3, "desired_kl": 0.01, "entropy_coef": 0.005}


pytestmark = [pytest.mark.numerics, pytest.mark.usefixtures("one_thread")]


@pytest.fixture
def float64():
    """Let networks and storage compute in float64: what then differs by more than 1e-10 differs by more than rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@dataclass
class Trained:
    """What several iterations leave behind."""

    algorithm: Any
    losses: list[dict[str, float]] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)  # of every optimizer step
    action_stds: list[float] = field(default_factory=list)
    random_state: list[torch.Tensor] = field(default_factory=list)


def observe(num_envs: int, device: str) -> TensorDict:
    """Return random observations: policy [num_envs, 6, 30, 30] (an image of two frames), critic [num_envs, 4]."""
    groups = {
        "policy": torch.rand(num_envs, 6, 30, 30, device=device),
        "critic": torch.randn(num_envs, 4, device=device),
    }
    return TensorDict(groups, batch_size=[num_envs], device=device)


def make(
    class_name: str = OURS,
    actor: dict[str, Any] = STATE_ACTOR,
    critic: dict[str, Any] = CRITIC,
    device: str = "cpu",
    num_envs: int = NUM_ENVS,
    multi_gpu: dict[str, int] | None = None,
    **settings: Any,
) -> Any:
    """Make an algorithm as OnPolicyRunner does; the same networks each time."""
    torch.manual_seed(0)
    sees = "policy" if actor["class_name"] == "CNNModel" else "critic"
    algorithm = {"num_learning_epochs": 2, "num_mini_batches": NUM_MINI_BATCHES, "schedule": "fixed", **settings}
    cfg = {
        "algorithm": {"class_name": class_name, "rnd_cfg": None, "symmetry_cfg": None, **algorithm},
        "actor": dict(actor),
        "critic": dict(critic),
        "obs_groups": {
            "actor": [sees],
            "critic": [sees if settings.get("share_cnn_encoders") else "critic"],
            "rnd_state": ["critic"],
        },
        "num_steps_per_env": HORIZON,
        "multi_gpu": multi_gpu,
    }
    env: Any = SimpleNamespace(num_envs=num_envs, num_actions=NUM_ACTIONS, unwrapped=SimpleNamespace(step_dt=0.02))
    algorithm_class: Any = resolve_callable(class_name)
    made = algorithm_class.construct_algorithm(observe(num_envs, device), env, cfg, device)
    for group in made.optimizer.param_groups:
        # A shared encoder's parameters are in the optimizer twice; on a GPU, all at once, the two updates race.
        group["foreach"] = False
    return made


def train(algorithm: Any, iterations: int = 3, seed: int = 1) -> Trained:
    """Train as OnPolicyRunner.learn does, on random observations and rewards that depend on the actions.

    Seeded once: after the first update the random numbers, too, have to be where a stock update leaves them.
    """
    device, num_envs = algorithm.device, algorithm.storage.num_envs
    trained = Trained(algorithm)
    note = algorithm.optimizer.register_step_pre_hook(
        lambda optimizer, args, kwargs: trained.learning_rates.append(optimizer.param_groups[0]["lr"])
    )
    torch.manual_seed(seed)
    algorithm.train_mode()
    observations = observe(num_envs, device)
    for _ in range(iterations):
        with torch.inference_mode():
            for _ in range(HORIZON):
                actions = algorithm.act(observations)
                rewards = 1.0 - (actions - observations["critic"][:, :NUM_ACTIONS]).square().mean(dim=1)
                dones = torch.rand(num_envs, device=device) < 0.1
                observations = observe(num_envs, device)
                algorithm.process_env_step(observations, rewards, dones, {"time_outs": dones & (rewards > 0)})
            algorithm.compute_returns(observations)
        trained.losses.append(algorithm.update())
        trained.action_stds.append(algorithm.get_policy().output_std.mean().item())
    note.remove()
    trained.random_state = [torch.get_rng_state()]
    if torch.device(device).type == "cuda":
        trained.random_state.append(torch.cuda.get_rng_state(device))
    return trained


def tensors_of(trained: Trained) -> list[torch.Tensor]:
    """Return parameters, buffers and the optimizer's state."""
    algorithm = trained.algorithm
    state = [value for kept in algorithm.optimizer.state.values() for value in kept.values()]
    kept = [*algorithm.actor.state_dict().values(), *algorithm.critic.state_dict().values(), *state]
    return [torch.as_tensor(value).detach().double().cpu() for value in kept]


def assert_same(trained: Trained, expected: Trained, tolerance: float = 1e-10) -> None:
    for left, right in zip(tensors_of(trained), tensors_of(expected), strict=True):
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)
    for left, right in zip(trained.losses, expected.losses, strict=True):
        assert left == pytest.approx(right, rel=tolerance, abs=tolerance)
    assert trained.learning_rates == expected.learning_rates  # steps of a factor 1.5: nothing is rounded
    assert trained.algorithm.learning_rate == expected.algorithm.learning_rate
    assert trained.action_stds == pytest.approx(expected.action_stds, rel=max(tolerance, 1e-6))  # a float32 mean
    assert all(
        torch.equal(left, right) for left, right in zip(trained.random_state, expected.random_state, strict=True)
    )
    assert trained.algorithm.storage.step == 0  # ready for the next rollout


def with_stock(*models: Any, **settings: Any) -> tuple[Any, Trained]:
    """Return our algorithm, and what stock PPO learns; takes the arguments of `make`."""
    return make(OURS, *models, **settings), train(make("PPO", *models, **settings))


def run_out_of_memory(device: Any = "cpu") -> None:
    """Raise what PyTorch raises when memory runs out."""
    torch.empty(2**60, dtype=torch.uint8, device=device)


def limit(transitions: int, *given: Any) -> None:
    """Run out of memory, as a hook of a network that learns, if its last tensor has more than so many transitions."""
    (tensor,) = given[-1]
    if len(tensor) > transitions and not torch.is_inference_mode_enabled():
        run_out_of_memory(tensor.device)


def limit_backward(network: torch.nn.Module, transitions: int) -> None:
    network.register_full_backward_hook(partial(limit, transitions))


SETTINGS = {
    "adaptive": ADAPTIVE,
    "fixed": {"entropy_coef": 0.01},
    "per mini-batch": {**ADAPTIVE, "normalize_advantage_per_mini_batch": True},
    "unclipped": {**ADAPTIVE, "use_clipped_value_loss": False, "value_loss_coef": 2.0},
    "clipped gradients": {**ADAPTIVE, "max_grad_norm": 0.05, "optimizer": "sgd", "learning_rate": 0.01},
    "3 mini-batches": {**ADAPTIVE, "num_mini_batches": 3},
}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_every_number_of_micro_batches_learns_what_stock_ppo_learns(settings):
    expected = train(make("PPO", **settings))
    assert type(expected.algorithm) is PPO
    if settings.get("schedule") == "adaptive" and settings.get("optimizer") != "sgd":
        ratios = {
            round(after / before, 3)
            for before, after in zip(expected.learning_rates, expected.learning_rates[1:], strict=False)
        }
        assert ratios >= {round(1 / 1.5, 3), 1.5}  # else the schedule would not be tested
    for micro_batches in (2, 3, 4, 16):
        algorithm = make(**settings)
        assert isinstance(algorithm, AccumulatingPPO)
        algorithm.micro_batches = micro_batches
        assert_same(train(algorithm), expected)
        assert algorithm.micro_batches == micro_batches


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    "distribution",
    [
        {"class_name": "GaussianDistribution", "std_type": "log"},
        {"class_name": "HeteroscedasticGaussianDistribution"},
        {"class_name": "HeteroscedasticGaussianDistribution", "std_type": "log"},
        {"class_name": "BetaDistribution"},
    ],
    ids=lambda cfg: " ".join(cfg.values()),
)
def test_every_distribution_and_normalized_observations(distribution):
    actor = {**STATE_ACTOR, "obs_normalization": True, "distribution_cfg": distribution}
    critic = {**CRITIC, "obs_normalization": True}
    # Adaptive where the KL of a policy to itself is 0, and not 0 but for rounding: then it raises the learning rate when
    # rounding happens to make it positive, in the first mini-batch of every stock update.
    is_gaussian = distribution["class_name"] == "GaussianDistribution"
    settings: dict[str, Any] = ADAPTIVE if is_gaussian else {"entropy_coef": 0.005}
    algorithm, expected = with_stock(actor, critic, **settings)
    algorithm.micro_batches = 5
    assert_same(train(algorithm), expected)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("share_cnn_encoders", [False, True])
def test_a_camera_policy(device, share_cnn_encoders):
    critic = {**CAMERA_ACTOR, "distribution_cfg": None} if share_cnn_encoders else CRITIC
    settings = {"device": device, "share_cnn_encoders": share_cnn_encoders, **ADAPTIVE}
    algorithm, expected = with_stock(CAMERA_ACTOR, critic, **settings)
    algorithm.micro_batches = 3
    assert_same(train(algorithm), expected)


# Plain gradient descent: Adam makes steps of the same size from gradients that are nothing but rounding, and that rounding
# differs between CPUs.
DESCENT: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.1, "max_grad_norm": 100.0}


@pytest.mark.parametrize("actor", [STATE_ACTOR, CAMERA_ACTOR], ids=["state", "camera"])
def test_float32(actor):
    algorithm, expected = with_stock(actor, **DESCENT)
    algorithm.micro_batches = 4
    assert_same(train(algorithm), expected, 1e-5)


def test_mixed_precision_is_kept():
    settings = DESCENT | {"use_mixed_precision": True, "learning_rate": 0.01}
    algorithm, expected = with_stock(CAMERA_ACTOR, **settings)
    algorithm.micro_batches = 4
    learned_in = set()
    algorithm.actor.mlp.register_forward_hook(
        lambda module, inputs, output: learned_in.add(output.dtype) if torch.is_grad_enabled() else None
    )
    assert_same(train(algorithm), expected, 5e-3)
    assert learned_in == {torch.bfloat16}


@pytest.mark.parametrize("armed", [False, True], ids=["stock", "ready to split"])
def test_one_micro_batch_is_stock_to_the_last_bit(armed):
    algorithm, expected = with_stock(CAMERA_ACTOR, **ADAPTIVE)
    if armed:
        algorithm.split_when_out_of_memory(pytest.fail)
    assert_same(train(algorithm), expected, 0.0)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize(
    "limited",
    [
        lambda algorithm: algorithm.actor.mlp.register_forward_pre_hook(partial(limit, 10)),
        lambda algorithm: algorithm.critic.mlp.register_forward_pre_hook(partial(limit, 10)),
        lambda algorithm: limit_backward(algorithm.actor.mlp[2], 10),  # the critic has its gradients by then
    ],
    ids=["actor's forward pass", "critic's forward pass", "backward pass"],
)
def test_what_does_not_fit_is_done_again_in_smaller_parts(limited, device):
    settings = {"device": device, "normalize_advantage_per_mini_batch": True, **ADAPTIVE}
    algorithm, expected = with_stock(**settings)
    limited(algorithm)
    splits = []
    algorithm.split_when_out_of_memory(splits.append)
    assert_same(train(algorithm), expected)
    assert splits == [2, 4]  # 32 -> 16 -> 8 transitions, once: the second iteration begins with four parts
    assert algorithm.micro_batches == 4


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("failing_call", [1, 2, 3, 11, 24])
def test_memory_that_runs_out_in_the_middle_leaves_nothing_behind(failing_call):
    algorithm, expected = with_stock(**ADAPTIVE)
    calls = []

    def fail_once(module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> None:
        if torch.is_grad_enabled():
            calls.append(len(inputs[0]))
            if len(calls) == failing_call:
                run_out_of_memory()

    algorithm.critic.mlp.register_forward_pre_hook(fail_once)
    algorithm.micro_batches = 3
    algorithm.split_when_out_of_memory([].append)
    assert_same(train(algorithm), expected)
    assert calls[:failing_call] == ([11, 11, 10] * 8)[:failing_call] and calls[failing_call:][:3] == [6, 6, 5]
    assert algorithm.micro_batches == 6


def test_when_not_even_one_transition_fits_the_error_comes_out():
    algorithm = make()
    before = {name: value.clone() for name, value in algorithm.save()["actor_state_dict"].items()}
    limit_backward(algorithm.actor.mlp[2], 0)
    splits = []
    algorithm.micro_batches = 3
    algorithm.split_when_out_of_memory(splits.append)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        train(algorithm)
    assert splits == [6, 12, 24, MINI_BATCH_SIZE]
    assert all(torch.equal(before[name], value) for name, value in algorithm.save()["actor_state_dict"].items())
    assert not algorithm.optimizer.state


@pytest.mark.parametrize("error", [ValueError("shapes"), RuntimeError("normal expects all elements of std >= 0.0")])
def test_other_errors_come_out_at_once(error):
    algorithm = make()
    algorithm.micro_batches = 2
    algorithm.split_when_out_of_memory(pytest.fail)
    algorithm.critic.mlp[2].register_full_backward_hook(mock.Mock(side_effect=error))
    with pytest.raises(type(error), match=str(error)):
        train(algorithm)


def test_without_a_retry_memory_that_runs_out_comes_out():
    algorithm = make()
    algorithm.actor.mlp.register_forward_pre_hook(partial(limit, 10))
    algorithm.micro_batches = 2
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        train(algorithm)


def test_observations_are_copied_part_by_part(monkeypatch):
    algorithm = make()
    algorithm.micro_batches = 4
    copied = set()
    take = TensorDict.__getitem__

    def note_and_take(observations: TensorDict, index: Any) -> Any:
        if isinstance(index, torch.Tensor):
            copied.add(len(index))
        return take(observations, index)

    monkeypatch.setattr(TensorDict, "__getitem__", note_and_take)
    train(algorithm, iterations=1)
    assert copied == {MINI_BATCH_SIZE // 4}


def learn_as_rank(rank: int, rendezvous: str) -> None:
    """Compare stock and micro-batches on one of two ranks that learn from different rollouts."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    settings = {**ADAPTIVE, "multi_gpu": {"global_rank": rank, "local_rank": rank, "world_size": 2}}
    actor = {**STATE_ACTOR, "obs_normalization": True}
    expected = train(make("PPO", actor, **settings), seed=rank)
    algorithm = make(OURS, actor, **settings)
    algorithm.micro_batches = 3
    algorithm.split_when_out_of_memory([].append)
    if rank == 1:
        limit_backward(algorithm.actor.mlp[2], 3)
    trained = train(algorithm, seed=rank)
    assert_same(trained, expected)
    assert algorithm.micro_batches == (3, 12)[rank]
    mine = torch.cat([parameter.detach().flatten() for parameter in algorithm.actor.parameters()])
    other = mine.clone()
    torch.distributed.broadcast(other, src=0)
    torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)
    torch.distributed.destroy_process_group()


def test_each_rank_of_several_splits_on_its_own(tmp_path):
    start_processes(learn_as_rank, (f"file://{tmp_path}/rendezvous",), nprocs=2, start_method="fork")


class OwnDistribution(Distribution):
    """A distribution of actions that RSL-RL does not have."""

    @property
    def input_dim(self) -> int:
        return NUM_ACTIONS


def mirror(env: Any, obs: TensorDict | None, actions: torch.Tensor | None) -> tuple[Any, Any]:
    """Return samples and their mirror images, as symmetry_cfg.data_augmentation_func does."""
    return obs if obs is None else torch.cat([obs, obs]), actions if actions is None else torch.cat([actions, -actions])


RND = {"weight": 1.0, "num_outputs": 2, "predictor_hidden_dims": [8], "target_hidden_dims": [8]}
RNN = {"class_name": "RNNModel", "rnn_hidden_dim": 8, "rnn_type": "gru"}
SYMMETRY = {"data_augmentation_func": mirror, "use_data_augmentation": True}
NORMED = {**CAMERA_ACTOR["cnn_cfg"], "norm": "batch"}
UNFIT = {
    "random network distillation (algorithm.rnd_cfg)": {"rnd_cfg": RND},
    "symmetry (algorithm.symmetry_cfg)": {"symmetry_cfg": SYMMETRY},
    "a recurrent model": {"actor": {**STATE_ACTOR, **RNN}, "critic": {**CRITIC, **RNN}},
    "batch normalization (cnn_cfg.norm)": {"actor": {**CAMERA_ACTOR, "cnn_cfg": NORMED}},
}


@pytest.mark.parametrize(("name", "settings"), UNFIT.items(), ids=UNFIT)
def test_what_parts_do_not_add_up_with_is_named(name, settings):
    settings = {**settings, **ADAPTIVE}
    algorithm = make(**copy.deepcopy(settings))
    with pytest.raises(LeanError, match=re.escape(name)):
        algorithm.split_when_out_of_memory(pytest.fail)
    assert_same(train(algorithm, 2), train(make("PPO", **copy.deepcopy(settings)), 2), 0.0)


def test_an_unknown_distribution_is_named():
    algorithm = make(actor={**STATE_ACTOR, "distribution_cfg": {"class_name": OwnDistribution}})
    with pytest.raises(LeanError, match="the distribution OwnDistribution"):
        algorithm.split_when_out_of_memory(pytest.fail)
