"""What a study would run, read and contact: nothing for plain numbers and words, a line for everything else."""

from pathlib import Path
from typing import Any

import pytest
from envknee.study.load import read_study
from envknee.study.reach import reach_of
from records import a_study

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("**/*.yaml")), ids=lambda path: path.stem)
def test_the_projects_own_studies_reach_nowhere(file: Path):
    if file.name != "server.yaml":
        assert list(reach_of(read_study(file))) == []


@pytest.mark.parametrize(
    ("value", "does"),
    [
        ("adaptive", None),
        ("newton_mjwarp,rgb-24", None),
        (1e-3, None),
        ([1, 2.0, "elu"], None),
        ("package:newton/examples/assets/ant.usda", None),
        ("package:newton/../../../../etc/passwd", "reads"),
        ("robots/ant.usd", "reads"),
        ("~", "reads"),
        ("$HOME", "reads"),
        ("https://theirs/ant.usd", "contacts"),
        ("extras:X", "runs"),
        ("os.getcwd", "runs"),
        ("lambda: 0", "runs"),
        ("dict(a=exit())", "runs"),  # skrl and Stable-Baselines3 evaluate such texts
        ("\uff4fs", "runs"),
        (["elu", "extras:X"], "runs"),
    ],
)
def test_each_override_that_is_more_than_a_number_or_a_word_is_told(value: Any, does: str | None):
    study = a_study(arms={"a": {"overrides": {"agent.algorithm.class_name": value}}})
    assert [reached.does for reached in reach_of(study)] == ([] if does is None else [does])


def test_what_a_person_reads_holds_no_control_character():
    (reached,) = reach_of(a_study(task={"overrides": {"env.\x1b[2J": "\x1b]0;x:y"}}))
    assert "\x1b" not in str(reached)


def test_a_tracking_store_and_a_server_of_assets_are_contacted():
    study = a_study(task={"asset": "nucleus"}, tracking={"uri": "http://there"})
    assert [(reached.does, reached.field) for reached in reach_of(study)] == [
        ("contacts", "task.asset"),
        ("contacts", "tracking.uri"),
    ]
