"""Real trials with chosen FPS, memory and learning results, for tests of what comes after the measurement.

A `Trial` holds the request, rows and outcome; its record follows from them by `build_record`, as in a sweep, and
`write_study` writes them all as a sweep would.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from envknee.base.fields import Kind
from envknee.record.build import build_record
from envknee.record.schema import (
    Device,
    Environment,
    MemoryUse,
    Outcome,
    Phase,
    RankResult,
    RankRow,
    Record,
    Request,
    Row,
    Status,
)
from envknee.study.arm import Setup
from envknee.study.files import canonical_json, sha256_of
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder

GPU = Device(type="cuda", name="NVIDIA H100 80GB HBM3", uuid="GPU-1", memory_gb=85.0)
CPU = Device(type="cpu", name="AMD EPYC", uuid=None, memory_gb=25.3)

CURVE = 24
"""Rows of a learning trial."""

PLATEAU = {16: [100.0, 101.0, 102.0], 32: [190.0, 191.0, 192.0], 64: [193.0, 194.0, 195.0]}
"""FPS whose threshold is reached at 32 environments."""

LEARNING = {
    "num_envs": [16, 32],
    "horizon": 8,
    "batch_size": 128,
    "target_reward": 4.0,
    "target_episodes": 10,
    "budget_s": 60.0,
}
"""A study's section of learning trials as `a_trial` makes them."""

Value = TypeVar("Value")


def known(value: Value | None) -> Value:
    """Return what was measured; without it a test fails."""
    assert value is not None
    return value


@dataclass(frozen=True)
class Trial:
    """The three files that a record follows from."""

    request: Request
    rows: list[Row]
    outcome: Outcome

    @property
    def record(self) -> Record:
        return build_record(self.request, self.rows, self.outcome)

    def asked(self, **changes: Any) -> "Trial":
        """Return this trial with another request."""
        return replace(self, request=self.request.model_copy(update=changes))

    def ended(self, **changes: Any) -> "Trial":
        """Return this trial with another outcome."""
        return replace(self, outcome=self.outcome.model_copy(update=changes))

    def with_rows(self, first: int = 0, **changes: Any) -> "Trial":
        """Return this trial with other values in its rows, from the iteration `first` on."""
        rows = [row.model_copy(update=changes) if row.iteration >= first else row for row in self.rows]
        return replace(self, rows=rows)

    def on_gpus(self, *devices: Device) -> "Trial":
        """Return this trial with ranks on these GPUs."""
        ranks = zip(known(self.outcome.ranks), devices, strict=True)
        return self.ended(ranks=[rank.model_copy(update={"device": device}) for rank, device in ranks])

    def on(self, **changes: Any) -> "Trial":
        """Return this trial as another environment measured it."""
        return self.ended(environment=known(self.outcome.environment).model_copy(update=changes))


def a_study(**sections: Any) -> Study:
    """Return a study of one arm; sections replace those of this default."""
    plain: dict[str, Any] = {
        "study": "demo",
        "arms": {"stock": {}},
        "throughput": {"num_envs": {"from": 16, "to": 256}, "horizon": [8], "batch_size": 128, "repeats": 3},
    }
    return parse_study(plain | sections)


def a_trial(
    num_envs: int,
    *,
    number: int = 0,
    kind: Kind = "throughput",
    arm: str = "stock",
    repeat: int = 0,
    horizon: int = 8,
    batch_size: int | None = 128,
    status: Status | None = None,
    fps: float = 1000.0,
    memory_gb: float = 1.0,
    seconds: float | None = None,
    budget_s: float = 60.0,
    target_reward: float = 4.0,
    device: Device = CPU,
    gpus: Literal["auto"] | int = "auto",
    cpu_ranks: int = 1,
    nodes: int = 1,
    slowdown: Sequence[float] = (),
    phases_s: Mapping[Phase, float] | None = None,
    frames: int | None = None,
    trainer: str = "rsl_rl",
) -> Trial:
    """Return one trial.

    Args:
        num_envs: of each rank
        batch_size: of all ranks together
        status: by default ok for throughput, target_reached for learning with `seconds`, timeout without
        fps: frames per second of collecting and learning, in every iteration, of all ranks together
        memory_gb: peak of what binds on `device`, of each rank
        seconds: of training until the target reward is reached
        gpus: how many train together on each of `nodes`, a rank on each, or with 0 `cpu_ranks` on the CPU
        slowdown: by how much longer each rank collects than the fastest would; by default all alike
        phases_s: seconds by phase in every iteration; by default unknown, as with `phases: off`
        frames: collected by the end of a learning trial; by default a rollout in each of its rows
    """
    learning = kind == "learning"
    if status is None:
        learned = "timeout" if seconds is None else "target_reached"
        status = learned if learning else "ok"
    ranks = Setup(gpus=gpus, cpu_ranks=cpu_ranks, nodes=nodes).world_size
    rollout = num_envs * horizon * ranks
    mini_batches = rollout // batch_size if batch_size else 16
    request = Request(
        study="demo", number=number, arm=arm, kind=kind, repeat=repeat, num_envs=num_envs, horizon=horizon,
        batch_size=batch_size, seed=number, task_id="Isaac-Cartpole-Camera-Direct", asset="local", overrides={},
        trainer=trainer, gpus=gpus, cpu_ranks=cpu_ranks, nodes=nodes, warmup_iterations=1, iterations=None if learning else 3,
        target_reward=target_reward if learning else None, target_episodes=10 if learning else None,
        budget_s=budget_s if learning else None, limit_s=600.0, sampler="grid",
        refusal="it needs 100 GB" if status == "refused" else None, skip="decided" if status == "skipped" else None,
    )  # fmt: skip
    ran = status not in ("oom", "refused", "skipped")
    of_rank = RankResult(rank=0, status=status, device=device, startup_s=None, memory_map=None, micro_batches=None)
    results = [of_rank.model_copy(update={"rank": rank}) for rank in range(ranks)]
    outcome = Outcome(
        request_sha256="0" * 64, metrics_sha256=None, status=status,
        reason=None if status in ("ok", "target_reached") else f"it ended as {status}", failure=None,
        environment=None if status in ("refused", "skipped") else _environment(device), started_unix_s=1_700_000_000.0 + 60.0 * number,
        setup_s=5.0 if ran else None, total_s=20.0, num_mini_batches=max(mini_batches, 1) if ran else None,
        rollout_gb=rollout // ranks * 221_184e-9 if ran else None,
        ranks=results if ran and ranks > 1 else None,
    )  # fmt: skip
    if not ran:
        return Trial(request, [], outcome)
    memory = _memory(memory_gb, device)
    if not learning:
        step_s = rollout / fps
        rows = [_row(i, (i + 1) * rollout, (i + 1) * step_s, step_s, memory, warmup=i == 0) for i in range(4)]
    else:
        end_s = seconds if seconds is not None else budget_s
        step_s, total = end_s / CURVE, frames or CURVE * rollout
        # A straight line that meets the target at the last row, or stops at 60% of it.
        best = target_reward if seconds is not None else 0.6 * target_reward
        walls_s = [*((i + 1) * step_s for i in range(CURVE - 1)), end_s]
        rows = [
            _row(i, (i + 1) * total // CURVE, wall_s, step_s, memory, reward=best * (i + 1) / CURVE)
            for i, wall_s in enumerate(walls_s)
        ]
    if phases_s is not None:
        rows = [row.model_copy(update={"phases_s": dict(phases_s)}) for row in rows]
    if ranks > 1:
        rows = [row.model_copy(update={"ranks": _rank_rows(row, slowdown or (1.0,) * ranks)}) for row in rows]
    return Trial(request, rows, outcome)


def fps_trials(fps: Mapping[int, Sequence[float]], *, first: int = 0, **fields: Any) -> list[Trial]:
    """Return throughput trials: num_envs -> FPS of each repeat."""
    return _each(fps, lambda _, value: {"fps": value}, first, fields)


def phase_trials(
    phases_s: Mapping[int, Sequence[Mapping[Phase, float]]], *, first: int = 0, horizon: int = 8, **fields: Any
) -> list[Trial]:
    """Return throughput trials of one rank, or of `gpus`: num_envs -> seconds by phase of each repeat, which add up to an iteration."""

    def measured(num_envs: int, value: Mapping[Phase, float]) -> dict[str, Any]:
        return {"fps": fields.get("gpus", 1) * num_envs * horizon / sum(value.values()), "phases_s": value}

    return _each(phases_s, measured, first, fields | {"horizon": horizon})


def learning_trials(seconds: Mapping[int, Sequence[float | None]], *, first: int = 0, **fields: Any) -> list[Trial]:
    """Return learning trials: num_envs -> seconds to the target of each seed, None for a spent budget."""
    return _each(seconds, lambda _, value: {"seconds": value}, first, fields | {"kind": "learning"})


def _each(
    values: Mapping[int, Sequence[Value]],
    measured: Callable[[int, Value], dict[str, Any]],
    first: int,
    fields: dict[str, Any],
) -> list[Trial]:
    """Return a trial of each num_envs and repeat, numbered from `first` on, with what was `measured` there."""
    points = [(num_envs, repeat, value) for num_envs, own in values.items() for repeat, value in enumerate(own)]
    return [
        a_trial(n, number=first + i, repeat=repeat, **fields, **measured(n, value))
        for i, (n, repeat, value) in enumerate(points)
    ]


def records_of(trials: Iterable[Trial]) -> list[Record]:
    return [trial.record for trial in trials]


def write_study(root: Path, study: Study, trials: Sequence[Trial]) -> StudyFolder:
    """Write a study's folder as a sweep leaves it: study.json and every trial's files."""
    folder = StudyFolder(root)
    folder.trials.mkdir(parents=True)
    folder.study.write_text(canonical_json(study), encoding="utf-8")
    for trial in trials:
        write_trial(folder.trial(trial.request.number), trial)
    return folder


def write_trial(files: TrialFolder, trial: Trial) -> None:
    files.root.mkdir(parents=True, exist_ok=True)
    files.request.write_text(canonical_json(trial.request), encoding="utf-8")
    if trial.rows:
        files.metrics.write_text("".join(row.model_dump_json() + "\n" for row in trial.rows), encoding="utf-8")
    metrics_sha256 = sha256_of(files.metrics) if trial.rows else None
    ended = trial.ended(request_sha256=sha256_of(files.request), metrics_sha256=metrics_sha256)
    files.outcome.write_text(canonical_json(ended.outcome), encoding="utf-8")
    files.record.write_text(canonical_json(ended.record), encoding="utf-8")


def _environment(device: Device) -> Environment:
    return Environment(
        host="node1", device=device, cpu_model="AMD EPYC", cpu_cores=2, cpu_threads=1, python="3.11.7",
        packages={"torch": "2.13.0"}, git_commit="0" * 40, git_dirty=False,
    )  # fmt: skip


def _rank_rows(row: Row, slowdown: Sequence[float]) -> list[RankRow]:
    """Return each rank's part of a row; the slowest collects as long as the row says, and the others wait for it."""
    shares = [factor / max(slowdown) for factor in slowdown]
    return [
        RankRow(
            rank=rank, iteration_s=row.collect_s + row.learn_s, env_step_s=row.env_step_s * share,
            collect_s=row.collect_s * share, learn_s=row.learn_s + row.collect_s * (1.0 - share), phases_s=None,
            episodes=row.episodes // len(shares), memory=row.memory,
        )
        for rank, share in enumerate(shares)
    ]  # fmt: skip


def _memory(memory_gb: float, device: Device) -> MemoryUse:
    if device.type == "cuda":
        return MemoryUse(rss_gb=2.0, peak_rss_gb=2.0, device_used_gb=memory_gb)
    return MemoryUse(rss_gb=memory_gb, peak_rss_gb=memory_gb, device_used_gb=None)


def _row(
    iteration: int, frames: int, wall_s: float, step_s: float, memory: MemoryUse, *, warmup: bool = False, reward: float | None = None
) -> Row:  # fmt: skip
    """Return one iteration; collecting takes a third of it, and simulating half of that."""
    rollout = frames // (iteration + 1)
    return Row(
        iteration=iteration, warmup=warmup, frames=frames, wall_s=wall_s, unix_time_s=1_700_000_000.0 + wall_s,
        env_step_s=step_s / 6, collect_s=step_s / 3, learn_s=2 * step_s / 3, fps_env_step=6 * rollout / step_s,
        fps_env_step_inference=3 * rollout / step_s, fps_total=rollout / step_s, reward_mean=reward,
        episode_length_mean=None if reward is None else 50.0, episodes=0 if reward is None else 10,
        losses={"value": 0.1}, learning_rate=3e-4, action_std=1.0, memory=memory,
    )  # fmt: skip
