"""Any field can be set, and only a field, to a value of its type."""

from dataclasses import dataclass, field

import pytest
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides, split_by_root
from programs import told


@dataclass
class Camera:
    width: int = 96
    pos: tuple[float, ...] = (-5.0, 0.0, 2.0)


@dataclass
class Config:
    camera: Camera = field(default_factory=Camera)
    rate: float = 0.5
    enabled: bool = True
    name: str = "a"
    nothing: float | None = None
    table: dict[str, float] = field(default_factory=lambda: {"gain": 1.0})


def test_fields_are_set_at_any_depth_and_keep_their_type():
    config = Config()
    apply_overrides(
        config,
        {"camera.width": 64, "camera.pos": [1.0, 2.0], "rate": 2, "enabled": False, "nothing": 3.5, "table.gain": 4},
        "env",
    )
    assert config == Config(Camera(64, (1.0, 2.0)), 2.0, False, "a", 3.5, {"gain": 4.0})
    assert isinstance(config.rate, float)


def test_a_number_that_yaml_took_for_a_text_is_one():
    config = {"config": {"learning_rate": "1e-4"}}  # as RL-Games' file of the camera cart-pole is read
    with pytest.raises(UserError, match=r"'fast' is str, and float was expected \(now 0\.0001\)"):
        apply_overrides(config, {"config.learning_rate": "fast"}, "agent.params")
    apply_overrides(config, {"config.learning_rate": 3e-4}, "agent.params")
    assert config == {"config": {"learning_rate": 3e-4}}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("camera.widht", "no 'widht' (did you mean 'width'?)"),
        ("camra.width", "no 'camra' (did you mean 'camera'?)"),
        ("camera.width.value", "has no 'value'"),
        ("table.gian", "no 'gian' (did you mean 'gain'?)"),
        ("camera.__class__", "has no '__class__'"),
    ],
)
def test_a_name_of_no_field_is_an_error_with_the_nearest(name, expected):
    told(lambda: apply_overrides(Config(), {name: 1}, "env"), f"override env.{name} names no field", expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [("camera.width", "64"), ("camera.width", 64.5), ("camera.width", True), ("enabled", 1), ("name", 2)],
)
def test_a_value_of_another_type_is_an_error(name, value):
    config = Config()
    with pytest.raises(UserError, match="was expected"):
        apply_overrides(config, {name: value}, "env")
    assert config == Config()


def test_names_start_with_env_or_agent():
    assert split_by_root({"env.seed": 1, "agent.algorithm.gamma": 0.9}, ("env", "agent")) == {
        "env": {"seed": 1},
        "agent": {"algorithm.gamma": 0.9},
    }
    with pytest.raises(UserError, match=r"agnt.gamma.*must start with 'env\.' or 'agent\.'.*did you mean 'agent'"):
        split_by_root({"agnt.gamma": 1}, ("env", "agent"))
    with pytest.raises(UserError, match="must start with"):
        split_by_root({"env": 1}, ("env", "agent"))
