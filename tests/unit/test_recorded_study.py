"""A study measured on an H100 (config/studies/one-gpu.yaml, 35 trials): what was asked and found then comes out today."""

from pathlib import Path

import pytest
from envknee import ask, config
from envknee.files import StudyFolder
from envknee.limits import memory
from envknee.limits.verdict import decide
from envknee.record import load_records
from envknee.summary import print_summary
from rich.console import Console

FOLDER = StudyFolder(Path(__file__).parents[1] / "golden/cartpole-one-gpu")


def test_every_record_follows_from_its_measurements():
    records = load_records(FOLDER)  # recomputes each from its rows
    assert [record.request.number for record in records] == list(range(35))


def test_every_request_is_asked_again_byte_for_byte():
    assert ask.verify(FOLDER) == (35, [])


def test_the_study_file_still_describes_what_was_measured():
    shipped = config.load(Path(__file__).parents[2] / "config/studies/one-gpu.yaml")
    assert shipped.measured_part() == config.load(FOLDER.study).measured_part()


def test_the_verdict_says_what_the_readme_says():
    (arm,) = decide(load_records(FOLDER), config.load(FOLDER.study)).arms
    headline = arm.headline
    assert headline is not None
    assert (headline.state, headline.num_envs, headline.horizon, headline.binds) == ("not reached", 8192, 32, "memory")
    assert round(headline.fps, -2) == 57_600
    assert headline.best_time_to_target is not None
    assert "512" in headline.best_time_to_target.model_dump_json()


def test_a_larger_card_holds_more_and_the_one_measured_on_holds_what_it_held():
    (limit,) = memory.analyse(load_records(FOLDER), config.load(FOLDER.study).decide)
    cards = [card for card in limit.cards if (card.horizon, card.batch_size) == (32, None)]
    sizes = [card.largest_num_envs for card in cards]
    assert len(cards) == len(memory.CARDS_MIB) and sizes == sorted(set(sizes))
    h100 = next(card for card in cards if "H100)" in card.card)
    assert h100.largest_num_envs_lower is not None and h100.largest_num_envs_upper is not None
    # 8,192 environments fitted, 16,384 did not.
    assert 8192 < h100.largest_num_envs_lower <= h100.largest_num_envs <= h100.largest_num_envs_upper < 16384
    wall = limit.wall(32, None)
    assert wall is not None and wall.largest_num_envs == pytest.approx(h100.largest_num_envs, rel=0.01)


def test_what_it_cannot_tell_is_left_out_and_what_it_can_is_said():
    (arm,) = decide(load_records(FOLDER), config.load(FOLDER.study)).arms
    assert arm.headline is not None
    # It was measured before trials told their phases.
    assert (arm.phases, arm.headline.phases) == ([], None)
    # Its batch sizes were run with other num_envs and horizons each.
    (law,) = arm.batch
    assert (law.num_envs, law.used) == (None, False) and law.notes[0].startswith("pooled over")
    # 46.6 s against 93.7 s of one GPU.
    (saving,) = arm.headline.saves
    assert (saving.num_envs, saving.against_num_envs, round(saving.saved, 2)) == (512, 4096, 0.50)
    assert saving.hours == pytest.approx(46.6 / 3600, rel=1e-3)


def test_the_summary_has_a_line_for_other_cards(capsys):
    study = config.load(FOLDER.study)
    print_summary(decide(load_records(FOLDER), study), FOLDER, Console(width=400))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  cards "))
    assert "horizon 32, library batch" in line and "24 GB: 2,5" in line and "80 GB: 8,7" in line
