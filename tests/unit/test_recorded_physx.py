"""PhysX beside Newton, and Isaac Lab's own trainer by a preset, on H100s: docs/tasks.md and docs/commands.md say what was measured."""

import json
from functools import cache
from statistics import median
from typing import Any

import pytest
from envknee.after.compare.ratios import Ratio
from envknee.study import space
from envknee.study.load import read_study
from envknee.verdict import disturbed
from published import PUBLISHED, ROOT, fps_ratio, medians_of, records_of, uuid_of, verdict_of, words_of

STUDY = "cartpole-physx-newton"
PRESET = "isaaclab-train-h100.json"
SIZES = (1024, 4096)
HORIZON = 32
FRAMES = {"stock": "", "lean": "-lean"}
"""By the frames' name what the arms' names end in."""


def physx_to_newton(num_envs: int, frames: str) -> Ratio:
    """Return PhysX's FPS over Newton's at one size."""
    return fps_ratio(STUDY, f"newton{FRAMES[frames]}", f"physx{FRAMES[frames]}", num_envs)


def medians(column: str, num_envs: int, frames: str) -> tuple[float, float]:
    """Return a column's medians of Newton's and of PhysX's trials."""
    return medians_of(STUDY, f"newton{FRAMES[frames]}", f"physx{FRAMES[frames]}")(column, num_envs)


@cache
def preset() -> dict[str, Any]:
    return json.loads((ROOT / "results-published" / PRESET).read_text())


def of_preset(measure: str, num_envs: int) -> float:
    """Return the median of a measure over the preset's repeats."""
    return median(trial[measure] for trial in preset()["trials"] if trial["num_envs"] == num_envs)


# --- PhysX without Isaac Sim


@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("num_envs", SIZES)
def test_the_table_holds_fps_and_memory(num_envs: int, frames: str):
    (newton, physx), (newton_gb, physx_gb) = (
        medians(column, num_envs, frames) for column in ("fps_total", "memory_peak_gb")
    )
    ratio = physx_to_newton(num_envs, frames)
    assert ratio.pairs == 3 and ratio.lower is not None and ratio.upper is not None
    assert ratio.upper < 1
    row = (
        f"| {num_envs:,} | {frames} | {newton:,.0f} | {physx:,.0f} | {ratio.ratio:.2f} ({ratio.lower:.2f} to {ratio.upper:.2f})"
        f" | {newton_gb:.2f} | {physx_gb:.2f} |"
    )
    assert row in (ROOT / "docs/tasks.md").read_text()


def test_the_ratios_of_the_largest_size_are_said_first():
    stock, lean = (physx_to_newton(4096, frames).ratio for frames in FRAMES)
    assert (
        f"On the camera cart-pole with 4,096 environments PhysX has {stock:.2f} of Newton's FPS with stock frames, and {lean:.2f} with"
        in words_of("docs/tasks.md")
    )


@pytest.mark.parametrize("num_envs", SIZES)
def test_the_table_holds_milliseconds_per_step(num_envs: int):
    cells = [
        f"{seconds / HORIZON * 1e3:.2f}"
        for phase in ("physics", "other", "render")
        for seconds in medians(f"{phase}_s", num_envs, "stock")
    ]
    assert f"| {num_envs:,} | {' | '.join(cells)} |" in (ROOT / "docs/tasks.md").read_text()


def test_the_page_says_where_the_time_goes():
    docs = words_of("docs/tasks.md")
    few, many = (medians("physics_s", num_envs, "stock") for num_envs in SIZES)
    assert f"PhysX takes {many[1] / many[0]:.1f} times as long as Newton for physics with 4,096 environments" in docs
    assert f"and {few[1] / few[0]:.1f} times with 1,024" in docs
    assert f"From 1,024 to 4,096 environments its time grows by {many[1] / few[1] - 1:.0%}" in docs
    learning, iteration = (medians(column, 4096, "stock")[0] for column in ("learning_s", "iteration_s"))
    assert f"Stock frames hide most of the difference: learning takes {learning / iteration:.0%} of" in docs


def test_the_page_says_what_was_measured_on_what():
    docs, records = words_of("docs/tasks.md"), records_of(STUDY)
    assert len(records) == len(space.plan(read_study(PUBLISHED[STUDY].study))) == 24
    assert {record.outcome.status for record in records} == {"ok"}
    assert {(record.request.horizon, record.request.gpus) for record in records} == {(HORIZON, 1)}
    assert "Medians of three trials, horizon 32" in docs
    environments = [record.outcome.environment for record in records if record.outcome.environment]
    assert {environment.device.name for environment in environments} == {"NVIDIA H100 80GB HBM3"}
    assert len({uuid_of(record) for record in records}) == 3 and len({one.host for one in environments}) == 1
    (driver,) = {environment.device.driver for environment in environments}
    assert f"Three H100 80GB of one host, one per trial, driver {driver}." in docs
    named = {name: version for one in environments for name, version in one.packages.items()}
    assert f"torch {named['torch']}, Isaac Lab {named['isaaclab']}, Newton {named['newton']}," in docs
    assert f"ovphysx {'.'.join(named['ovphysx'].split('.')[:3])}, RSL-RL {named['rsl-rl-lib']}." in docs
    assert "`make sweep CONFIG=config/studies/physx-newton.yaml`" in docs
    assert f"(../results-published/{STUDY})" in docs


def test_the_page_says_what_may_be_doubted():
    docs, records = words_of("docs/tasks.md"), records_of(STUDY)
    found = disturbed.disturbed(records)
    cores = [disturbed.cores_of_others(record) for record in records if record.request.number in found]
    values = sorted(value for value in cores if value is not None)
    assert len(values) == len(found) == 4
    assert f"Other processes kept {values[0]:.0f} to {values[-1]:.0f} cores busy during four trials" in docs
    lean = next(arm.headline for arm in verdict_of(STUDY).arms if arm.arm == "newton-lean")
    assert lean is not None and lean.fps is not None
    assert f"The verdict leaves them out: {lean.fps:,.0f} FPS for lean Newton" in docs
    ends = {
        frames: [record.outcome.started_unix_s for record in records if record.request.arm.endswith("lean") is (frames == "lean")]
        for frames in FRAMES
    }  # fmt: skip
    assert max(ends["stock"]) < min(ends["lean"])
    assert "Stock trials ran before lean ones, so compare within a row" in docs
    on = {(record.request.arm, record.request.num_envs, record.request.repeat): uuid_of(record) for record in records}
    pairs = [
        (gpu, on[arm.replace("newton", "physx"), num_envs, repeat])
        for (arm, num_envs, repeat), gpu in on.items()
        if arm.startswith("newton")
    ]
    apart = sum(one != other for one, other in pairs)
    assert f"{apart} of {len(pairs)} pairs ran on two different GPUs" in docs


# --- The preset


@pytest.mark.parametrize("num_envs", SIZES)
def test_the_presets_table_holds_what_was_measured(num_envs: int):
    fps, gb = (medians(column, num_envs, "stock")[0] for column in ("fps_total", "memory_peak_gb"))
    own = of_preset("fps_total", num_envs)
    load, watts = of_preset("gpu_percent", num_envs), of_preset("gpu_power_w", num_envs)
    row = (
        f"| {num_envs:,} | {own:,.0f} | {fps:,.0f} | {own / fps:.2f} | {of_preset('memory_peak_gb', num_envs):.2f} | {gb:.2f}"
        f" | {load:.0f}% | {watts:.0f} |"
    )
    assert row in (ROOT / "docs/commands.md").read_text()


def test_the_page_says_what_the_preset_ran():
    docs, found = words_of("docs/commands.md"), preset()
    trials = found["trials"]
    assert [(trial["num_envs"], trial["repeat"]) for trial in trials] == [(4096, 0), (1024, 0), (1024, 1), (4096, 1)]
    assert {(trial["status"], trial["timed_iterations"]) for trial in trials} == {("ok", 4)}
    assert found["preset"] == "isaaclab-rsl-rl" and found["settings"]["horizon"] == [HORIZON]
    command = " ".join(found["command"][: found["command"].index("Isaac-Cartpole-Camera-Direct") + 1])
    assert f"It ran `{command}`" in docs
    assert "two trials per size, horizon 32, four timed iterations" in docs
    assert f"(../results-published/{PRESET})" in docs
    apart = max(
        abs(of_preset("fps_total", num_envs) / medians("fps_total", num_envs, "stock")[0] - 1) for num_envs in SIZES
    )
    assert f"Its FPS are within {apart:.0%} of envknee's own trainer" in docs
    first, *later = [trial["startup_s"] for trial in trials]
    assert f"The first start took {first:.0f} s, the others {min(later):.0f} to {max(later):.0f} s" in docs
    assert not any("/" in word for word in found["command"])


def test_the_preset_ran_on_the_studys_gpus():
    records, hardware = records_of(STUDY), preset()["hardware"]
    assert {trial["gpu"] for trial in preset()["trials"]} == {uuid_of(record) for record in records}
    assert hardware["gpus"] == 3
    environment = records[0].outcome.environment
    assert environment is not None
    assert (hardware["gpu"], hardware["driver"]) == (environment.device.name, environment.device.driver)
    assert preset()["versions"]["torch"] == environment.packages["torch"]


def test_load_power_and_energy_are_possible():
    for trial in preset()["trials"]:
        assert 0 < trial["gpu_percent"] <= 100 and 0 < trial["gpu_power_w"] < 700
        assert 0 < trial["energy_j"] / trial["total_s"] < trial["gpu_power_w"]
