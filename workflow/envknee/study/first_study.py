"""The first study of a task, as the text of a file with comments: what `envknee init` writes. Pure.

Input: what the task brings, its sizes, and the device. Output: YAML, in which a user changes what they want to.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from envknee.study.first_sizes import FirstSizes, OwnSettings
from envknee.study.value_types import OverrideValue

EXAMPLE = "config/config.yaml"

TOY = "cartpole_toy"
"""The task of the default study."""

TARGETS = {
    TOY: 0.0,
    "Isaac-Cartpole-Camera-Direct": 4.5,
    "Isaac-Cartpole-Direct": 4.5,
}
"""Rewards that count as learned, of tasks that this project trained. A solved pole scores about 4.95."""

SECONDS_ON_GPU, SECONDS_ON_CPU = 300, 600
"""Seconds of measuring after which no further repeat begins."""


@dataclass(frozen=True)
class Device:
    """The device that a study is written for."""

    name: str
    """Such as `an NVIDIA H200 with 150 GB`."""
    gpu_gb: float | None
    """Memory in 10^9 bytes; None: the CPU."""

    @property
    def delta(self) -> float:
        """The cut-off: FPS of a CPU are too noisy for 10%."""
        return 0.20 if self.gpu_gb is None else 0.10


def text_of(name: str, own: OwnSettings, sizes: FirstSizes, device: Device) -> str:
    """Return the text of a study file. `name` is the study's."""
    parts = [*_head(name, own, device), "", *_task(own), "", *_arms(own, device), "", *_throughput(own, sizes, device)]
    parts += ["", *_learning(own, sizes, device), "", *_decide(device)]
    return "\n".join(parts) + "\n"


def _head(name: str, own: OwnSettings, device: Device) -> Iterator[str]:
    yield f"# The first study of {own.task} on {device.name}, as `envknee init` wrote it. Change what you like."
    yield f"# Every key is explained in {EXAMPLE} of envknee and in docs/configuration.md. `envknee plan FILE` says what it measures."
    yield f"study: {name}"
    yield "seed: 1"
    yield "# The next repeat waits for the previous one, because it may not be needed."
    yield "window: 1"
    yield "slots: 1"


def _task(own: OwnSettings) -> Iterator[str]:
    yield "# --- The task: its own settings, as registered ---"
    yield "task:"
    yield f"  id: {_value(own.task)}"
    yield "  asset: local"
    if own.files:
        yield "  # The task needs these files of NVIDIA's asset server, which envknee lacks:"
        yield from (f"  #   {file}" for file in own.files)
        yield "  # Name a folder that has them as asset_root, or one file under overrides. asset: nucleus fetches them (docs/tasks.md)."
    yield "  asset_root: null"
    fields = dict(own.fields)
    if own.presets:
        yield "  # The task's default needs Isaac Sim; with these presets it does not."
        yield "  # Other values are the task's own. To change one, take its `#` away."
        live = {"presets": own.presets}
    else:
        yield "  # Values are the task's own. To change one, take its `#` away."
        first = next(iter(fields), None)
        live = {} if first is None else {first: fields.pop(first)}
    yield "  overrides:" if live else "  overrides: {}"
    yield from (f"    {field}: {_value(value)}" for field, value in live.items())
    yield from (f"    # {field}: {_value(value)}" for field, value in fields.items())


def _arms(own: OwnSettings, device: Device) -> Iterator[str]:
    yield "# --- What is compared: one arm, the library as it is ---"
    yield "arms:"
    yield "  stock:"
    if len(own.trainers) > 1:
        yield f"    # The task registers agents for {', '.join(own.trainers)} (docs/trainers.md)."
    yield f"    trainer: {own.trainer}"
    yield f"    gpus: {0 if device.gpu_gb is None else 1}"


def _throughput(own: OwnSettings, sizes: FirstSizes, device: Device) -> Iterator[str]:
    yield f"# --- Sizes, for {device.name}: FPS and memory ---"
    yield "throughput:"
    if own.has_cameras and device.gpu_gb is not None:
        yield "  # The frames of the largest rollout alone fill the memory: what fits is part of the answer."
    yield f"  num_envs: {{from: {sizes.least}, to: {sizes.most}}}"
    if sizes.horizon == own.horizon:
        yield "  # The agent's own."
    else:
        yield f"  # The agent's own is {own.horizon}. A shorter one saves a CPU's time."
    yield f"  horizon: {sizes.horizon}"
    if sizes.batch_size == "library":
        yield "  # library: the agent's own number of mini-batches. The batch grows with num_envs."
    yield f"  batch_size: {sizes.batch_size}"
    yield "  sampler: grid"
    yield "  # One process measures all sizes. Repeats stop once the answer is decided, or after time_limit_s."
    yield "  block: all"
    yield "  repeats: 8"
    yield f"  until_decided: {{delta: {device.delta:.2f}}}"
    yield f"  time_limit_s: {SECONDS_ON_CPU if device.gpu_gb is None else SECONDS_ON_GPU}"
    yield "  warmup_iterations: 1"
    yield f"  iterations: {2 if device.gpu_gb is None else 3}"
    yield "  limit_s: 300"


def _learning(own: OwnSettings, sizes: FirstSizes, device: Device) -> Iterator[str]:
    """Yield the section, as a comment if no target is known, or training would take too long."""
    target = TARGETS.get(own.task)
    is_rehearsal = own.task == TOY
    is_slow = device.gpu_gb is None and own.has_cameras and not is_rehearsal
    if is_rehearsal:
        why = "Training until the reward that counts as learned. A standing pole scores about 0.75."
    elif target is None:
        why = "Choose the reward that counts as learned, one that the task reaches within two minutes, and take the `#` away."
    elif is_slow:
        why = "A CPU needs long for this task's frames. To train here anyway, take the `#` away."
    else:
        why = "Training until the reward that counts as learned. A solved pole scores about 4.95."
    budget_s = 90 if is_rehearsal else 120
    lines = [
        "learning:",
        f"  num_envs: {{from: {sizes.least}, to: {sizes.most // 4}}}",
        f"  horizon: {sizes.horizon}",
        f"  batch_size: {sizes.batch_size}",
        "  sampler: grid",
        "  repeats: 3",
        f"  target_reward: {'REWARD' if target is None else target}",
        f"  target_episodes: {40 if is_rehearsal else 100}",
        f"  budget_s: {budget_s}",
        f"  limit_s: {budget_s + 480}",
    ]
    yield "# --- Sizes: seconds to a target reward ---"
    yield f"# {why}"
    yield from lines if target is not None and not is_slow else (f"# {line}" for line in lines)


def _decide(device: Device) -> Iterator[str]:
    yield "# --- How records become a verdict. You may change it at any time: nothing is measured again ---"
    yield "decide:"
    yield "  # A doubling that gains less has stopped paying."
    yield f"  delta: {device.delta:.2f}"
    yield "  delta_learning: 0.25"


def _value(value: OverrideValue) -> str:
    """Return a value as YAML: JSON is YAML, and a plain word needs no quotes."""
    if isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum():
        return value
    return json.dumps(value)
