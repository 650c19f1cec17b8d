"""A study file that would hang or fill memory is a sentence instead."""

import json

import pytest
from envknee.study.errors import UserError
from envknee.study.load import parse_study, read_study

BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("bomb.yaml", BOMB, "with its aliases written out it has more than 10,000"),
        ("itself.yaml", "study: &a [*a]\n", "more than 10,000"),
        ("deep.json", "[" * 200_000, "nested too deeply"),
        ("deep.yaml", "{a: " * 5_000, "nested too deeply"),
        ("long.yaml", "# " + "x" * 1_000_001, "1,000,003 bytes"),
    ],
)
def test_a_hostile_file_is_a_sentence(tmp_path, name, text, reason):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match=reason):
        read_study(path)


def test_aliases_that_a_study_needs_are_read(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(
        "study: x\narms: {a: &arm {gpus: 0}, b: *arm}\nthroughput: {num_envs: 16, horizon: 8, batch_size: 64}\n"
    )
    assert list(read_study(path).arms) == ["a", "b"]


@pytest.mark.parametrize("name", ["archives", "mlartifacts", "slurm-logs"])
def test_folders_that_are_no_studys_are_no_names(name):
    with pytest.raises(UserError, match=f"results/{name} is a folder of envknee's own"):
        parse_study({"study": name, "throughput": {"num_envs": 16, "horizon": 8, "batch_size": 64}})


def test_a_study_without_end_is_refused():
    sweep = {"num_envs": 16, "horizon": 8, "batch_size": 64, "repeats": 10**9}
    with pytest.raises(UserError, match="1,000,000,000 trials, and 100,000 are the most"):
        parse_study(json.loads(json.dumps({"study": "x", "throughput": sweep})))
