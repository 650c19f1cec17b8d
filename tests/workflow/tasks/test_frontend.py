"""Isaac Lab's two frontends: from the same states the same rewards, ends and observations, and whole trials on Warp's."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import quick
import torch
from camera_trials import a_trial, camera
from envknee import tasks
from envknee.measure.meter import Meter
from envknee.record.read import read_rows
from envknee.record.schema import Request
from envknee.study.files import read_model
from envknee.tasks import frontends
from envknee.trainers.common import configure
from programs import told

DEVICES = ["cpu", *(["cuda:0"] if torch.cuda.is_available() else [])]
NUM_ENVS, STEPS = 16, 12
SIZES: dict[str, Any] = {"num_envs": NUM_ENVS, "overrides": camera(24, frame_stack=2)}


def states(seed: int) -> list[dict[str, torch.Tensor]]:
    """Return, for each step, joints [num_envs, 2], lengths of episodes and actions: some carts leave their rail, some time runs out."""
    random = torch.Generator().manual_seed(seed)
    return [
        {
            "position": torch.randn(NUM_ENVS, 2, generator=random) * torch.tensor([2.0, 0.3]),
            "velocity": torch.randn(NUM_ENVS, 2, generator=random),
            "lengths": torch.randint(290, 300, (NUM_ENVS,), generator=random),
            "actions": torch.rand(NUM_ENVS, 1, generator=random) * 2 - 1,
        }
        for _ in range(STEPS)
    ]


def put(simulated: Any, state: dict[str, torch.Tensor], chosen: torch.Tensor) -> None:
    robot = simulated.scene["cartpole"]
    ids = chosen.to(torch.int32).to(simulated.device)
    for kind in ("position", "velocity"):
        write = getattr(robot, f"write_joint_{kind}_to_sim_index")
        write(**{kind: state[kind][chosen.cpu()].to(simulated.device)}, env_ids=ids)


States = list[dict[str, Any]]


def run(folder: Path, frontend: str, device: str, observations: str, begun: States, after: States) -> States:
    """Step from each state; return what each step gave, and the joints after it. `after`: joints for those that were reset."""
    trial = a_trial(folder, frontend=frontend, observations=observations, gpus=int(device != "cpu"), **SIZES)
    request = read_model(trial.request, Request, "")
    env_cfg, _, _ = configure.resolve_task(request, "rsl_rl_cfg_entry_point", device, 0)
    env: Any = tasks.make(request.task_id, env_cfg, request.observations, request.frontend)
    simulated, states, every = env.unwrapped, [], torch.arange(NUM_ENVS)
    assert frontends.is_warp(simulated) == (frontend == "warp")
    env.reset()
    ended: list[torch.Tensor] = []
    if after:
        get_dones = simulated._get_dones

        def note_dones() -> Any:
            dones = get_dones()
            ended.append(dones[0] | dones[1])
            return dones

        simulated._get_dones = note_dones
        frontends.after_resets(simulated, lambda: put(simulated, after[len(states)], ended[-1].nonzero()[:, 0]))
    for state in begun:
        put(simulated, state, every)
        simulated.episode_length_buf[:] = state["lengths"].to(device)
        seen, rewards, terminated, truncated, _ = env.step(state["actions"].to(device))
        data = simulated.scene["cartpole"].data
        joints = {
            "position": data.joint_pos.torch,
            "velocity": data.joint_vel.torch,
            "body_pose": data.body_link_pose_w.torch,
        }
        step = {**seen, "rewards": rewards, "terminated": terminated, "truncated": truncated, **joints}
        states.append({name: tensor.clone().cpu() for name, tensor in step.items()})
    env.close()
    return states


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("observations", ["lean", "stock"])
def test_both_frontends_give_the_same_from_the_same_states(tmp_path: Path, device: str, observations: str):
    begun = states(3)
    by_warp = run(tmp_path / "warp", "warp", device, observations, begun, [])
    by_torch = run(tmp_path / "torch", "torch", device, observations, begun, by_warp)
    ended = torch.stack([step["terminated"] | step["truncated"] for step in by_torch])
    assert 0.1 < ended.float().mean() < 0.9 and any(step["terminated"].any() for step in by_torch)
    for number, (warp, stock) in enumerate(zip(by_warp, by_torch, strict=True)):
        assert torch.equal(warp["terminated"], stock["terminated"])
        assert torch.equal(warp["truncated"], stock["truncated"])
        for name in ("rewards", "critic", "position", "velocity", "body_pose"):
            torch.testing.assert_close(warp[name], stock[name], atol=1e-4, rtol=1e-4)
        if number:  # the frame before the first step is of a random start
            level = 1 if observations == "lean" else 1 / 255 + 1e-4
            differs = (warp["policy"].float() - stock["policy"].float()).abs() > level
            assert differs.float().mean() < 1e-3  # an edge may fall into the pixel beside it


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_physics_and_rendering_as_graphs_give_the_same_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Joints are written before every step, and episodes end: what a replay notes in Python is what the calls note."""
    from leanframes.isaaclab.warp_cartpole import CartpoleCameraWarpEnv

    begun = states(5)
    captured = run(tmp_path / "captured", "warp", "cuda:0", "lean", begun, [])
    monkeypatch.setattr(CartpoleCameraWarpEnv, "_fits_graphs", lambda env: False)
    launched = run(tmp_path / "launched", "warp", "cuda:0", "lean", begun, [])
    assert any(step["terminated"].any() for step in launched)
    for left, right in zip(captured, launched, strict=True):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(
    ("task", "words"), [("Isaac-Cartpole-Camera", "warp twin"), (tasks.DUAL_CAMERA, tasks.DUAL_CAMERA)]
)
def test_a_task_without_a_twin_is_told_in_a_sentence(tmp_path: Path, task: str, words: str):
    request = read_model(a_trial(tmp_path / "trial", frontend="warp", task_id=task).request, Request, "")
    said = ("frontend: warp: ", "is for tasks with a Warp twin", words, "Or use frontend: torch")
    told(lambda: configure.resolve_task(request, "rsl_rl_cfg_entry_point", "cpu", 0), *said)


@pytest.mark.parametrize(
    ("task", "observations"),
    [
        ("Isaac-Cartpole-Camera-Direct", "lean"),
        ("Isaac-Cartpole-Camera-Direct", "stock"),
        ("Isaac-Cartpole-Direct", "stock"),
        ("Isaac-Cartpole", "stock"),
    ],
)
def test_a_trial_learns_on_warps_frontend_and_its_phases_are_measured(tmp_path: Path, task: str, observations: str):
    has_camera = "Camera" in task
    trial = a_trial(
        tmp_path / "trial", frontend="warp", task_id=task, observations=observations, horizon=8, batch_size=32, iterations=2,
        overrides=camera(24, episode_length_s=0.1) if has_camera else {},
    )  # fmt: skip
    record = quick.launch(trial)
    assert record.outcome.status == "ok", record.outcome.reason
    rows = read_rows(trial)
    assert not has_camera or sum(row.episodes or 0 for row in rows) > 0
    for row in rows:
        assert row.phases_s is not None
        assert row.phases_s["physics"] > 0 and row.phases_s["observation"] > 0
        assert (row.phases_s["render"] > 0) == has_camera


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_a_released_trial_leaves_no_model_behind(tmp_path: Path, frontend: str):
    trial = a_trial(tmp_path / "trial", frontend=frontend, **SIZES)
    request = read_model(trial.request, Request, "")
    env_cfg, _, _ = configure.resolve_task(request, "rsl_rl_cfg_entry_point", "cpu", 0)
    meter = Meter(request, trial, "cpu")
    env = tasks.start(request.task_id, env_cfg, meter)
    env.reset()
    from isaaclab_newton.physics import NewtonManager

    model = weakref.ref(NewtonManager.get_model())
    assert model() is not None
    meter.release()
    meter.close()
    del env
    gc.collect()
    assert model() is None
