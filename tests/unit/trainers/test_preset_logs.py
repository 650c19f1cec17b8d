"""Logs that the presets' programs really wrote, read as each preset declares. tests/fixtures/logs/README.md says how they were made."""

from pathlib import Path
from typing import NamedTuple

import pytest
from envknee.study import presets
from envknee.study.command import Command, Rows, Told
from envknee.trainers.command import presets as shipped
from envknee.trainers.command import sources
from envknee.trainers.command.rows import Builder, LogRow, transitions
from places import ROOT

LOGS = ROOT / "tests/fixtures/logs"


class Made(NamedTuple):
    """What a log was made with, and what lies within reason for it."""

    num_envs: int
    horizon: int
    rewards: tuple[float, float] = (0.0, 0.0)
    """Lowest and highest that these few episodes can bring."""
    longest_episode: int = 0
    rollouts: int = 1
    """Of which a row tells."""
    rollout_s: float = 2.0
    """Longest that a CPU takes for one."""


CART_POLE = Made(8, 8, (-1.0, 1.0), 12)
PENDULUM = Made(4, 256, (-1800.0, -500.0), 200)
MADE = {
    "cleanrl": PENDULUM,
    "genesis": Made(4, 24, (-1.0, 0.0), 1000, rollout_s=60.0),
    "isaaclab-benchmark": CART_POLE,
    "isaaclab-rl-games": CART_POLE,
    "isaaclab-rsl-rl": CART_POLE,
    "isaaclab-sb3": CART_POLE,
    "isaaclab-skrl": CART_POLE,
    "mani-skill": Made(1, 16, (0.0, 50.0), 50, rollout_s=10.0),
    "mjlab": Made(8, 16, (0.0, 0.5), 10),
    "mujoco-playground": Made(64, 32, rollouts=10),
    "rl-zoo3": PENDULUM,
}


def rows_of(name: str) -> Rows:
    return Command.model_validate({"preset": name, "argv": ["x"]}).rows


def read(rows: Rows, folder: Path) -> tuple[Builder, list[LogRow]]:
    builder = Builder(rows)
    return builder, [*builder.add(sources.of(rows, folder).poll(0.0)), *builder.close()]


def values(builder: Builder, entries: list[LogRow], name: Told) -> list[float]:
    return [value for entry in entries if (value := builder.figure(entry, name)) is not None]


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_preset_reads_the_log_that_its_program_wrote(name: str):
    rows, made = rows_of(name), MADE[name]
    builder, entries = read(rows, LOGS / name)
    assert len(entries) in (5, 6), "six rollouts were asked for, and five are enough for envknee to end the program"
    rollout = made.num_envs * made.horizon
    for before, entry in zip(entries, entries[1:], strict=False):
        assert transitions(rows, entry.step - before.step, rollout, made.num_envs) == made.rollouts * rollout
        seconds = entry.unix_time_s - before.unix_time_s
        assert 0.05 < seconds < made.rollout_s * made.rollouts, "a CPU took so long for each"
        if "collect_s" in rows.names:
            (collect_s,), (learn_s,) = values(builder, [entry], "collect_s"), values(builder, [entry], "learn_s")
            assert 0.8 * seconds < collect_s + learn_s < 1.02 * seconds

    figures = {name: values(builder, entries, name) for name in rows.names}
    if rows.reward_is == "episode":
        figures["reward"] = [value for entry in entries for value in entry.episodes]
    assert all(figures.values()), f"a name that the log lacks: {figures}"
    lowest, highest = made.rewards
    assert all(lowest < value < highest for value in figures.get("reward", []))
    assert all(1 <= value <= made.longest_episode for value in figures.get("episode_length", []))
    losses = {name: value for entry in entries for name, value in builder.losses(entry).items()}
    assert losses.keys() == rows.losses.keys() and all(abs(value) < 1e4 for value in losses.values())


def test_what_is_said_to_have_run_left_a_log():
    assert {folder.name for folder in LOGS.iterdir() if folder.is_dir()} == MADE.keys()
    assert {name for name in shipped.names() if presets.read(name).tested.startswith("Run ")} == MADE.keys()


def test_a_row_is_complete_when_it_has_what_the_row_before_had(tmp_path: Path):
    """RL-Games' writer writes 4 kB at a time: its fourth row lacks its losses until the rest is there."""
    rows = rows_of("isaaclab-rl-games")
    _, whole = read(rows, LOGS / "isaaclab-rl-games")
    written = (LOGS / "isaaclab-rl-games/events.out.tfevents.1").read_bytes()
    log, source, builder = tmp_path / "events.out.tfevents.1", sources.of(rows, tmp_path), Builder(rows)
    log.write_bytes(written[:4096])
    entries = builder.add(source.poll(0.0))
    assert len(entries) == 3 and not builder.is_complete()
    log.write_bytes(written)
    entries += builder.add(source.poll(0.0))
    assert builder.is_complete() and [*entries, *builder.close()] == whole


def test_what_is_written_after_its_row_was_closed_is_no_other_rows():
    rows = rows_of("mjlab")
    builder = Builder(rows)
    builder.add([sources.Event(1.0, {"Perf/total_fps": 5.0}, 0)])
    builder.close()
    (entry,) = builder.add(
        [
            sources.Event(1.0, {"Loss/value": 7.0}, 0),
            sources.Event(2.0, {"Loss/entropy": 1.0}, 1),
            sources.Event(2.0, {"Perf/total_fps": 5.0}, 1),
            sources.Event(3.0, {"Perf/total_fps": 5.0}, 2),
        ]
    )
    assert builder.losses(entry) == {"entropy": 1.0}
