"""Choices of a study that follow from the files of a folder."""

from typing import Annotated, Literal

import pytest
from envknee.study import choices
from pydantic import BaseModel, ValidationError


@pytest.fixture(autouse=True)
def kinds(tmp_path, monkeypatch):
    """A folder of two modules, a package, a private module and a folder that is neither."""
    monkeypatch.setattr(choices, "PACKAGE", tmp_path)
    (tmp_path / "kinds" / "whole").mkdir(parents=True)
    (tmp_path / "kinds" / "notes").mkdir()
    for name in ("b.py", "a.py", "_shared.py", "__init__.py", "whole/__init__.py"):
        (tmp_path / "kinds" / name).write_text("raise RuntimeError('a list of names imports nothing')\n")


def test_modules_and_packages_are_choices_and_private_ones_are_not():
    assert choices.names_in("kinds") == ("a", "b", "whole")
    with pytest.raises(ValueError, match="holds no module"):
        choices.names_in("nowhere")


def test_a_field_of_such_a_name_is_a_literal_of_the_names():
    class Chosen(BaseModel):
        kind: Annotated[str, choices.NameIn("kinds")] = "a"

    class Spelled(BaseModel):
        kind: Literal["a", "b", "whole"] = "a"

    assert Chosen.model_json_schema() == Spelled.model_json_schema() | {"title": "Chosen"}
    assert Chosen(kind="b").kind == "b"
    with pytest.raises(ValidationError, match="'a', 'b' or 'whole'"):
        Chosen(kind="c")
