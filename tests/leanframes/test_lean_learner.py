"""Each step of the lean learner gives the update that stock PPO gives: RSL-RL's own PPO and networks, on the same frames."""

import functools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp
from leanframes import LeanFrameStack, normalized
from leanframes.clipped_adam import ClippedAdam
from leanframes.errors import LeanError
from leanframes.fused_fits import can_build_launchers
from leanframes.rsl_rl import LeanCNNModel, LeanPPO, LearnerSteps
from leanframes.rsl_rl.acting import can_act
from rsl_rl.algorithms import PPO
from rsl_rl.modules import EmpiricalNormalization
from rsl_rl.modules.distribution import BetaDistribution
from tensordict import TensorDict
from threads import one_thread  # noqa: F401  a fixture

warp.init()
NUM_ENVS, HORIZON, FRAMES, HEIGHT, WIDTH = 8, 6, 2, 26, 24
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
# As Isaac Lab 3.0.0's CartpoleCameraDirectPPORunnerCfg (isaaclab_tasks/core/cartpole/agents/rsl_rl_ppo_cfg.py).
NETWORK = {"output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu"}
ADAPTIVE: dict[str, Any] = {"schedule": "adaptive", "desired_kl": 0.01, "learning_rate": 1e-3}


pytestmark = [pytest.mark.numerics, pytest.mark.usefixtures("one_thread")]


def construct(
    steps: LearnerSteps | None, obs: TensorDict, simulated: Any, device: str = "cpu", actor_reads: Sequence[str] = ("policy",),
    critic_reads: Sequence[str] = ("critic",), actor_normalization: bool = False, camera_model: str = "CNNModel", **settings: Any,
) -> Any:  # fmt: skip
    """Return PPO as OnPolicyRunner makes it, with the same networks each time; stock for no steps."""
    torch.manual_seed(0)
    name = "leanframes.rsl_rl:Lean{}" if steps else "{}"
    cameras = {"class_name": camera_model if ":" in camera_model else name.format(camera_model), "cnn_cfg": NETWORK}
    cfg = {
        "algorithm": {
            "class_name": name.format("PPO"), "rnd_cfg": None, "symmetry_cfg": None, "num_learning_epochs": 2,
            "num_mini_batches": 4, "schedule": "fixed", "optimizer": "sgd", "learning_rate": 0.05,
            **({"steps": steps} if steps else {}), **settings,
        },
        "actor": {
            **cameras, "obs_normalization": actor_normalization, "hidden_dims": [16], "activation": "elu",
            "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0},
        },
        "critic": {
            **(cameras if len(critic_reads) > 1 else {"class_name": "MLPModel"}), "hidden_dims": [16], "activation": "elu",
        },
        "obs_groups": {"actor": [*actor_reads], "critic": [*critic_reads]},
        "num_steps_per_env": HORIZON,
        "multi_gpu": None,
    }  # fmt: skip
    env: Any = SimpleNamespace(num_envs=NUM_ENVS, num_actions=1, unwrapped=simulated)
    kind: Any = LeanPPO if steps else PPO
    return kind.construct_algorithm(obs, env, cfg, device)


def make(steps: LearnerSteps | None, device: str = "cpu", **settings: Any) -> tuple[Any, LeanFrameStack]:
    """Return what `construct` does for one camera, and the stack that gives its frames."""
    stack = LeanFrameStack(NUM_ENVS, FRAMES, device)
    obs = observe(stack, torch.Generator().manual_seed(9), stock=steps is None)
    return construct(steps, obs, SimpleNamespace(_frames=stack), device, **settings), stack


def observe(stack: LeanFrameStack, random: torch.Generator, stock: bool) -> TensorDict:
    """Return the next observation: policy [n, 6, h, w], as uint8 or as Isaac Lab gives it, and critic [n, 4]."""
    frames = torch.randint(0, 256, (NUM_ENVS, HEIGHT, WIDTH, 3), dtype=torch.uint8, generator=random)
    stacked = stack(frames.to(stack._is_fresh.device))
    state = torch.randn(NUM_ENVS, 4, generator=random).to(stacked.device)
    return TensorDict({"policy": normalized(stacked) if stock else stacked, "critic": state}, batch_size=[NUM_ENVS])


def learn(
    steps: LearnerSteps | None, iterations: int = 2, parts: int = 1, **settings: Any
) -> tuple[list[dict[str, float]], list[torch.Tensor], Any]:
    """Return losses of each update, parameters, and the algorithm; `parts` are those of each mini-batch."""
    algorithm, stack = make(steps, **settings)
    algorithm.micro_batches = parts
    random = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    stack.reset()
    return iterate(algorithm, lambda: observe(stack, random, steps is None), [stack], random, iterations)


def iterate(algorithm: Any, look: Any, stacks: list[Any], random: torch.Generator, iterations: int) -> Any:
    """Collect and learn, with episodes that end now and then; return losses of each update, parameters, and the algorithm."""
    obs, losses = look(), []
    for iteration in range(iterations):
        with torch.inference_mode():
            for _ in range(HORIZON):
                actions = algorithm.act(obs)
                rewards = 1.0 - (actions - obs["critic"][:, :1]).square().mean(dim=1)
                dones = (torch.rand(NUM_ENVS, generator=random) < 0.2).to(rewards.device)
                for stack in stacks:
                    stack.reset(dones)
                obs = look()
                # Of some episodes time ran out; a task without such an end tells nothing of it.
                extras = {"time_outs": dones & (actions[:, 0] > 0)} if iteration == 0 else {}
                algorithm.process_env_step(obs, rewards, dones, extras)
            algorithm.compute_returns(obs)
        losses.append(algorithm.update())
    parameters = [*algorithm.actor.parameters(), *algorithm.critic.parameters()]
    return losses, [parameter.detach().float().cpu() for parameter in parameters], algorithm


@functools.cache
def stock(**settings: Any) -> tuple[list[dict[str, float]], list[torch.Tensor], Any]:
    return learn(None, **settings)


def assert_close(learned: Any, expected: Any, tolerance: float) -> None:
    for left, right in zip(learned[0], expected[0], strict=True):
        assert left == pytest.approx(right, rel=tolerance, abs=tolerance)
    for left, right in zip(learned[1], expected[1], strict=True):
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def test_with_the_usual_steps_it_is_stock_to_the_bit():
    assert_close(learn(LearnerSteps()), stock(), 0.0)


def rollout(algorithm: Any) -> list[torch.Tensor]:
    kept = algorithm.storage
    tensors = [value for value in vars(kept).values() if isinstance(value, torch.Tensor)]
    groups = (kept.frames, kept.sums, kept.observations)
    return [*tensors, *kept.distribution_params, *(tensor for group in groups for tensor in group.values())]


@pytest.mark.parametrize("settings", [{}, ADAPTIVE | {"optimizer": "adam"}], ids=["sgd", "adam"])
def test_acting_and_storing_as_they_are_captured_is_stock(settings: dict[str, Any]):
    """Uncaptured, as on any CPU: the same functions, which read and write what a graph would. Warp's logarithm is another one."""
    steps = LearnerSteps(captured_acting=True)
    captured_run, plain = learn(steps, iterations=3, **settings), learn(LearnerSteps(), iterations=3, **settings)
    assert_close(captured_run, stock(iterations=3, **settings) if not settings else plain, 2e-5)
    for left, right in zip(rollout(captured_run[2]), rollout(plain[2]), strict=True):
        torch.testing.assert_close(left, right, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("horizon", [1, 2, HORIZON])
@GPU
def test_captured_on_a_gpu_they_are_the_same_too(horizon: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("test_lean_learner.HORIZON", horizon)
    captured_run, plain = (
        learn(LearnerSteps(fused=False, cuda_graph=False, captured_acting=captured), iterations=4, device="cuda:0")
        for captured in (True, False)
    )
    assert_close(captured_run, plain, 1e-5)  # a batch of another layout may add up in another order
    for left, right in zip(rollout(captured_run[2]), rollout(plain[2]), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-4)


def test_an_agent_with_another_distribution_does_not_act_captured():
    algorithm = make(LearnerSteps())[0]
    assert can_act(algorithm)
    algorithm._raw_actor.distribution = BetaDistribution(output_dim=1)
    assert not can_act(algorithm)


NORMALIZED: dict[str, Any] = {"actor_reads": ("policy", "critic"), "actor_normalization": True}


def test_a_normalizer_stays_where_graphs_read_it():
    """RSL-RL makes its deviations anew in each update."""
    algorithm, stack = make(LearnerSteps(captured_acting=True), **NORMALIZED)
    (normalizer,) = [own for own in algorithm.actor.modules() if isinstance(own, EmpiricalNormalization)]
    places = {name: buffer.data_ptr() for name, buffer in normalizer.named_buffers()}
    random = torch.Generator().manual_seed(1)
    iterate(algorithm, lambda: observe(stack, random, stock=False), [stack], random, iterations=2)
    assert {name: buffer.data_ptr() for name, buffer in normalizer.named_buffers()} == places
    deviations = normalizer.get_buffer("_std")
    assert not torch.equal(deviations, torch.ones_like(deviations))
    torch.testing.assert_close(deviations, normalizer.get_buffer("_var").sqrt())


@pytest.mark.parametrize("settings", [{}, NORMALIZED], ids=["images", "normalized"])
def test_all_steps_but_fused_convolutions_are_stock(settings: dict[str, Any]):
    """Uncaptured, as on any CPU. Of a network whose convolutions cannot be fused a GPU takes these steps."""
    steps = LearnerSteps(fused=False, fused_adam=True, fused_loss=True, cuda_graph=True, captured_acting=True)
    assert_close(learn(steps, iterations=3, **settings), stock(iterations=3, **settings), 2e-5)


def test_several_cameras_and_depth_are_learned_to_the_bit():
    """Two colour cameras with 2 and 3 frames, and one for depth with 2: each frame is kept once."""
    seen = []
    for lean in (False, True):
        random = torch.Generator().manual_seed(5)
        stacks = {"front": LeanFrameStack(NUM_ENVS, 2, "cpu"), "wrist": LeanFrameStack(NUM_ENVS, 3, "cpu"),
                  "depth": LeanFrameStack(NUM_ENVS, 2, "cpu")}  # fmt: skip

        def look(random: torch.Generator = random, stacks: Any = stacks, lean: bool = lean) -> TensorDict:
            groups = {"critic": torch.randn(NUM_ENVS, 4, generator=random)}
            for name, size in (("front", (24, 24, 3)), ("wrist", (25, 31, 3))):
                stacked = stacks[name](torch.randint(0, 256, (NUM_ENVS, *size), dtype=torch.uint8, generator=random))
                groups[name] = stacked if lean else normalized(stacked)
            groups["depth"] = stacks["depth"](torch.rand(NUM_ENVS, 24, 24, 1, generator=random))
            return TensorDict(groups, batch_size=[NUM_ENVS])

        terms = [SimpleNamespace(func=SimpleNamespace(_frames=stack)) for stack in stacks.values()]
        manager = SimpleNamespace(_group_obs_term_cfgs={"cameras": terms})
        algorithm = construct(
            LearnerSteps() if lean else None, look(), SimpleNamespace(observation_manager=manager),
            actor_reads=("front", "wrist", "depth"), critic_reads=("critic", "wrist"),
            num_mini_batches=3, optimizer="adam", learning_rate=1e-3,
        )  # fmt: skip
        seen.append(iterate(algorithm, look, [*stacks.values()], random, 2))
        if lean:
            assert algorithm.storage.stack_sizes == {"front": 2, "wrist": 3, "depth": 2}
            assert algorithm.storage.frames["depth"].shape == (HORIZON + 1, NUM_ENVS, 1, 24, 24)
    assert_close(seen[0], seen[1], 0.0)


class PlainCNNModel(LeanCNNModel):
    """Normalizes images without their mean."""

    @staticmethod
    def normalize(images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return images.to(dtype) / 255.0


def test_images_that_a_model_normalizes_otherwise_are_learned_to_the_bit(monkeypatch: pytest.MonkeyPatch):
    seen = []
    for lean in (False, True):
        random, stack = torch.Generator().manual_seed(5), LeanFrameStack(NUM_ENVS, FRAMES, "cpu")

        def look(random: torch.Generator = random, stack: LeanFrameStack = stack, lean: bool = lean) -> TensorDict:
            obs = observe(stack, random, stock=False)
            return obs if lean else obs.update({"policy": obs["policy"] / 255.0})

        model = "test_lean_learner:PlainCNNModel" if lean else "CNNModel"
        steps = LearnerSteps() if lean else None
        algorithm = construct(steps, look(), SimpleNamespace(_frames=stack), camera_model=model)
        torch.manual_seed(1)
        stack.reset()
        seen.append(iterate(algorithm, look, [stack], random, 2))
    assert_close(seen[0], seen[1], 0.0)
    monkeypatch.setattr("leanframes.fused_fits.why_not", lambda device: None)
    reason = seen[1][2].actor.unfit_for_fused()
    assert reason == "PlainCNNModel normalizes images in a way of its own"


def test_the_fused_optimizer_takes_the_same_steps():
    adam: dict[str, Any] = {"optimizer": "adam", "learning_rate": 1e-3}
    learned = learn(LearnerSteps(fused_adam=True), **adam)
    assert isinstance(learned[2].optimizer, ClippedAdam)
    assert_close(learned, stock(**adam), 1e-5)
    assert learned[2]._fits_fused_adam() and not make(LearnerSteps(), optimizer="rmsprop")[0]._fits_fused_adam()


@pytest.mark.parametrize(
    "settings",
    [
        {"clip_param": 0.01},
        {"use_clipped_value_loss": False, "entropy_coef": 0.1},
        ADAPTIVE | {"optimizer": "adam", "num_learning_epochs": 5},
    ],
    ids=["clipped", "unclipped", "adaptive"],
)
def test_losses_of_one_kernel_take_the_same_steps(settings: dict[str, Any]):
    for parts in (1, 3):
        learned = learn(LearnerSteps(fused_loss=True), 3, parts, **settings)
        assert_close(learned, stock(iterations=3, **settings), 2e-6)
        assert learned[2].learning_rate == stock(iterations=3, **settings)[2].learning_rate


def test_an_adaptive_learning_rate_on_the_device_is_the_same_to_the_bit():
    adaptive: dict[str, Any] = ADAPTIVE | {"optimizer": "adam"}
    expected, learned = stock(**adaptive), learn(LearnerSteps(), 2, **adaptive)
    assert_close(learned, expected, 0.0)
    assert learned[2].learning_rate == expected[2].learning_rate != ADAPTIVE["learning_rate"]
    assert isinstance(learned[2].optimizer.param_groups[0]["lr"], torch.Tensor)
    # One that was set from outside, as a checkpoint does, holds from the next update on.
    learned[2].learning_rate = 1e-5
    learned[2].storage.step = HORIZON
    learned[2].update()
    assert learned[2].learning_rate < 1e-3


def test_steps_that_are_not_for_it_say_so():
    if not torch.cuda.is_available():
        words = "algorithm.fused: it needs an NVIDIA GPU, and this is cpu. Leave it out, or"
        with pytest.raises(LeanError, match=words):
            make(LearnerSteps(fused=True))
    with pytest.raises(LeanError, match="torch_compile_mode: default is for stock PPO"):
        make(LearnerSteps())[0].compile("default")
    mirror = {"use_mirror_loss": True, "data_augmentation_func": lambda env, obs, actions: (obs, actions)}
    with pytest.raises(LeanError, match=r"LeanPPO does not learn with symmetry \(algorithm.symmetry_cfg\)"):
        make(LearnerSteps(), symmetry_cfg=mirror)


def test_without_a_compiler_convolutions_stay_pytorchs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    headers = tmp_path / "include"
    headers.mkdir()
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(headers)})
    monkeypatch.setenv("CC", "gcc")
    assert not can_build_launchers()
    (headers / "Python.h").touch()
    assert can_build_launchers()
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not can_build_launchers()


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize(
    ("steps", "tolerance"),
    [
        (LearnerSteps(fused=False, fused_adam=True, cuda_graph=False), 1e-2),
        (LearnerSteps(fused=False), 1e-2),
        (LearnerSteps(), 3e-2),
        (LearnerSteps(fused=True, fused_adam=False, cuda_graph=False), 3e-2),
        (LearnerSteps(fused_loss=False), 3e-2),
    ],
    ids=["fused-adam", "graphs", "usual", "fused", "losses-apart"],
)
@pytest.mark.parametrize("settings", [{}, NORMALIZED], ids=["images", "normalized"])
def test_on_a_gpu_too(settings: dict[str, Any], steps: LearnerSteps, tolerance: float):
    adam: dict[str, Any] = {"device": "cuda:0", "iterations": 4, "optimizer": "adam", "learning_rate": 1e-3} | settings
    torch.backends.cudnn.allow_tf32 = False
    learned_here = learn(steps, **adam)
    decided = learned_here[2].steps
    assert decided.fused is (steps.fused is not False) and decided.captured_acting
    assert decided.fused_loss is (steps.fused_loss is None)
    assert decided.cuda_graph is (decided.fused_loss and steps.cuda_graph is None)
    assert_close(learned_here, stock(**adam), tolerance)
    # What acts is what was learned, also by a graph, of which parameters notice nothing.
    obs = observe(LeanFrameStack(NUM_ENVS, FRAMES, "cuda:0"), torch.Generator().manual_seed(3), stock=False)
    learned = learned_here[2].actor(obs).detach()
    with torch.no_grad():
        torch.testing.assert_close(learned_here[2].actor(obs), learned, rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("fused", [False, True])
def test_an_update_never_waits_for_the_gpu(fused: bool):
    algorithm = learn(LearnerSteps(fused=fused, cuda_graph=False), device="cuda:0", optimizer="adam", **ADAPTIVE)[2]
    algorithm.storage.step = HORIZON
    learn_one, waits = algorithm._learn, []

    def watched(*words: Any) -> torch.Tensor:
        torch.cuda.set_sync_debug_mode("error")
        try:
            return learn_one(*words)
        finally:
            waits.append(torch.cuda.set_sync_debug_mode("default"))

    algorithm._learn = watched
    algorithm.update()
    assert len(waits) == 8
