"""A study file that would hang or fill memory is a sentence instead."""

import pytest
from envknee.show import report
from envknee.study.errors import UserError
from envknee.study.load import parse_study, read_study
from records import a_study, a_trial, write_study
from test_config import plain

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


@pytest.mark.parametrize("name", ["archives", "mlartifacts", "slurm-logs"])
def test_folders_that_are_no_studys_are_no_names(name):
    with pytest.raises(UserError, match=f"results/{name} is a folder of envknee's own"):
        parse_study(plain(study=name))


@pytest.mark.parametrize("key", ["num_envs", "horizon", "batch_size"])
@pytest.mark.parametrize("sizes", [10**400, [8, 10**13], {"from": 8, "to": 10**400}])
def test_numbers_that_no_machine_reaches_are_refused(key, sizes):
    with pytest.raises(UserError, match=f"throughput.{key}: expected whole numbers of at most 1,000,000,000,000"):
        parse_study(plain(**{f"throughput__{key}": sizes}))


@pytest.mark.parametrize("text", ['{"study": "demo", "ar', "[" * 200_000, "\0" * 100, ""])
def test_a_verdict_that_a_power_cut_tore_is_named(tmp_path, text):
    folder = write_study(tmp_path / "demo", a_study(), [a_trial(16)])
    folder.verdict.write_text(text)
    with pytest.raises(UserError, match=r"verdict\.json is not a whole, valid Verdict"):
        report.page_of(folder)


def test_a_study_without_end_is_refused():
    with pytest.raises(UserError, match="1,000,000,000 trials, and 100,000 are the most"):
        parse_study(plain(throughput__repeats=10**9))
