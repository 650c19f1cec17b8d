"""A study file is read once, whole, and every mistake in it is named with its value, what is legal and what to do."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from envknee.study import space
from envknee.study.arm import Arm, Memory
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study, read_study
from envknee.study.model import Decide, Study, Task, Throughput, Tracking
from envknee.study.schema import study_schema
from envknee.study.sweep import Adaptive
from envknee.study.task import TOY_SETTINGS
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from programs import python, told
from pydantic import BaseModel
from records import known
from study_data import changed

REPOSITORY = ROOT
STUDY_FILES = sorted([REPOSITORY / "config" / "config.yaml", *(REPOSITORY / "config" / "studies").glob("*.yaml")])
PUBLISHED = sorted((REPOSITORY / "results-published").glob("*/study.json"))

THROUGHPUT = {"num_envs": [16], "horizon": [16], "batch_size": [256]}
LEARNING = {"num_envs": [16], "horizon": [16], "batch_size": "library", "target_reward": 4.8, "budget_s": 60}


def plain(**changes: Any) -> dict[str, Any]:
    """Return a small legal study; `throughput__points=3` sets a key below a section."""
    return changed({"study": "s", "throughput": dict(THROUGHPUT)}, changes)


def message_of(data: Any) -> str:
    return told(lambda: parse_study(data, "my.yaml"))


def complaint(**changes: Any) -> str:
    """Return the one line that complains about a study, and check what stands around it."""
    first, *complaints, last = message_of(plain(**changes)).splitlines()
    assert first == "my.yaml is not a legal study:"
    assert last == "Every key is explained in config/config.yaml."
    assert len(complaints) == 1, complaints
    return complaints[0].strip()


SCHEMA = study_schema()
BEYOND_A_SCHEMA = ("'archives'", "[16.0]", "2.0", "inf", "nan", "{'from': 64, ", "gpus ")
"""How values begin that only the program refuses: JSON takes 2.0 for a whole number, has no infinity, and compares no two values."""


def is_legal_by_schema(data: Any) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(data)


# What is legal


def test_a_study_needs_a_name_and_one_section() -> None:
    study = parse_study(plain())
    assert (study.study, study.seed, study.window, study.slots) == ("s", 1, 2, 1)
    assert list(study.arms) == ["stock"]
    assert "learning" not in study.sections
    assert study.sections["throughput"] is study.throughput


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        ({"from": 16, "to": 256}, (16, 32, 64, 128, 256)),
        ({"from": 16, "to": 255}, (16, 32, 64, 128)),
        ({"from": 3, "to": 20}, (3, 6, 12)),
        ({"from": 8, "to": 8}, (8,)),
        ([64, 16, 48], (16, 48, 64)),
        (128, (128,)),
    ],
)
def test_sizes_are_a_number_a_list_or_doublings(written: Any, sizes: tuple[int, ...]) -> None:
    for key in ("num_envs", "horizon", "batch_size"):
        study = parse_study(plain(**{f"throughput__{key}": written}))
        assert getattr(study.throughput, key) == sizes


@pytest.mark.parametrize(
    ("written", "number"), [("3e-4", 3e-4), ("1E3", 1000.0), ("-2.5e+1", -25.0), (".5e1", 5.0), ("2.0e3", 2000.0)]
)
def test_an_exponent_makes_a_number_although_yaml_1_1_reads_text(written: str, number: float) -> None:
    assert isinstance(yaml.safe_load(f"x: {written}")["x"], str | float)
    learning = LEARNING | {"target_reward": written}
    study = parse_study(plain(learning=learning, task__overrides={"agent.a": written, "agent.b": [written, "rgb"]}))
    assert known(study.learning).target_reward == number
    assert study.task.overrides == {"agent.a": number, "agent.b": [number, "rgb"]}
    assert type(study.task.overrides["agent.a"]) is float


@pytest.mark.parametrize("text", ["e4", "1e", "3e-4 s", "0x1e5", "1_000e3", "", "rgb"])
def test_other_text_stays_text(text: str) -> None:
    assert parse_study(plain(task__overrides={"env.x": text})).task.overrides == {"env.x": text}


@pytest.mark.parametrize("value", [True, 0, 1, 1.0, "1", None, [True, 2, 2.0, "x"], []])
def test_an_override_keeps_its_type(value: Any) -> None:
    kept = parse_study(plain(arms={"a": {"overrides": {"env.x": value}}})).arms["a"].overrides["env.x"]
    assert repr(kept) == repr(value)


def test_a_task_alone_may_be_its_name() -> None:
    named = "Envknee-Cartpole-Dual-Camera-Direct"
    for task in ("cartpole_dual_camera", {"id": "cartpole_dual_camera"}, named):
        assert parse_study(plain(task=task)).task == Task(id=named)
    assert parse_study(plain(task="Isaac-Ant-Direct")).task.id == "Isaac-Ant-Direct"


def test_toy_settings_belong_to_a_name_and_another_task_does_not_get_them() -> None:
    shipped = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text(encoding="utf-8"))
    toy = parse_study(shipped).task
    assert (toy.id, toy.overrides) == ("Isaac-Cartpole-Camera-Direct", TOY_SETTINGS)
    shipped["task"]["id"] = "Isaac-Cartpole-Camera-Direct"
    assert parse_study(shipped).task.overrides == {}
    assert parse_study(plain(task="cartpole_toy")).task.overrides == TOY_SETTINGS
    longer = parse_study(plain(task={"id": "cartpole_toy", "overrides": {"env.episode_length_s": 2.0}})).task
    assert longer.overrides == TOY_SETTINGS | {"env.episode_length_s": 2.0}
    assert "task.overrides: " in complaint(task={"id": "cartpole_toy", "overrides": "none"})


# Round trips


@pytest.mark.parametrize("path", [*STUDY_FILES, *PUBLISHED], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_study_survives_json_and_yaml_and_so_does_its_measured_part(path: Path) -> None:
    study = read_study(path)
    whole = canonical_json(study)
    for again in (parse_study(json.loads(whole)), parse_study(yaml.safe_load(yaml.safe_dump(json.loads(whole))))):
        assert again == study and canonical_json(again) == whole
    assert space.plan(study)
    for written in (json.loads(whole), yaml.safe_load(path.read_text(encoding="utf-8"))):
        assert is_legal_by_schema(written)
    measured = json.loads(canonical_json(study.measured_part()))
    assert not {"decide", "tracking", "slots", "image", "architectures"} & set(measured)
    again = parse_study(measured)
    assert again.measured_part() == study.measured_part()
    left_out = {"decide": again.decide, "tracking": again.tracking, "slots": again.slots}
    sweeps = {
        kind: sweep.model_copy(update={key: getattr(again.sections[kind], key) for key in ("more_repeats", "workers")})
        for kind, sweep in study.sections.items()
    }
    assert again == study.model_copy(update=left_out | sweeps)
    assert all((again.sections[kind].workers is None) == (own.workers is None) for kind, own in study.sections.items())


def test_a_study_written_as_json_is_read_back_with_its_numbers(tmp_path: Path) -> None:
    # JSON is nearly YAML: read as YAML, 3e-05 and 1e+22 come out as text
    study = parse_study(plain(task__overrides={"agent.a": 3e-5, "agent.b": 1e22}))
    path = tmp_path / "study.json"
    path.write_text(canonical_json(study), encoding="utf-8")
    assert "3e-05" in path.read_text(encoding="utf-8")
    assert read_study(path) == study


# Mistakes


SIZES_WANTED = "expected a list of whole numbers, or {from: A, to: B} for A, 2A, 4A, ... up to B"
BATCH_WANTED = "expected 'library', a list of whole numbers, or {from: A, to: B}"
SAMPLERS_WANTED = "'adaptive', 'gp', 'grid', 'profile', 'random', 'sobol' or 'tpe'"
LARGEST_WANTED = "expected whole numbers of at most 1,000,000,000,000"
DOUBLINGS_WANTED = "expected whole numbers with 1 <= from <= to"
ARCHITECTURES_WANTED = "study: architectures are for the image that is built with runtime: apptainer and no `image:`"
NAME_WANTED = "expected 1 to 64 lower-case letters, digits, '-' and '_', starting with a letter or digit"
TRAINERS_WANTED = "'command', 'rl_games', 'rsl_rl', 'sb3', 'skrl', 'skrl_sac' or 'torchrl'"
OVERRIDE_WANTED = "expected true, false, a finite number, a text, null, or a list of these"
ASYNC, RAY = ({"trainer": "torchrl", "strategy": strategy} for strategy in ("async2", "ray"))
TWO_SIDES = "strategy async2 has one side that simulates and one that learns: gpus: auto, 2, 1 or 0 of one machine, and no ranks"
CLUSTER_WANTED = (
    "the cluster that RAY_ADDRESS names has the machines, and gpus (or cpu_ranks) counts collectors on all of them"
)
NO_BUDGET = {key: value for key, value in LEARNING.items() if key != "budget_s"}


def keys_of(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)


@pytest.mark.parametrize(
    ("changes", "key", "meant", "model"),
    [
        ({"thruput": {}}, "thruput", "throughput", Study),
        ({"throughput__num_env": 1}, "throughput.num_env", "num_envs", Throughput),
        ({"throughput__budget_s": 1}, "throughput.budget_s", None, Throughput),
        ({"throughput__adaptive": {"detla": 0.1}}, "throughput.adaptive.detla", "delta", Adaptive),
        ({"arms": {"float": {"gpu": 1}}}, "arms.float.gpu", "gpus", Arm),
        ({"arms": {"memory": {"gpu": 1}}}, "arms.memory.gpu", "gpus", Arm),
        ({"arms": {"a": {"memory": {"on_om": "x"}}}}, "arms.a.memory.on_om", "on_oom", Memory),
        ({"task__overides": {}}, "task.overides", "overrides", Task),
        ({"decide__dleta": 0.1}, "decide.dleta", "delta", Decide),
        ({"tracking__url": ""}, "tracking.url", "uri", Tracking),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest_legal_one(
    changes: dict[str, Any], key: str, meant: str | None, model: type[BaseModel]
) -> None:
    assert not is_legal_by_schema(plain(**changes))
    guess = f" (did you mean '{meant}'?)" if meant else ""
    assert complaint(**changes) == f"{key}: unknown key{guess}. Legal here: {', '.join(sorted(model.model_fields))}"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"study": "../up"}, f"study: a study's name becomes a folder: {NAME_WANTED} (got '../up')"),
        ({"runtime": "singularity"}, "runtime: expected 'host', 'apptainer' or 'docker' (got 'singularity')"),
        ({"image": "a.sif"}, "study: image 'a.sif' is for runtime: apptainer or docker, and the runtime is host"),
        ({"runtime": "docker"}, "study: runtime: docker needs `image:`, the name of an image; the first lines of"
         " containers/Dockerfile say how to build one"),
        ({"runtime": "docker", "image": "a", "architectures": [90]}, ARCHITECTURES_WANTED),
        ({"runtime": "apptainer", "architectures": [91]},
         "architectures.0: expected 75, 80, 86, 87, 89, 90, 100, 103, 120 or 121 (got 91)"),
        ({"throughput__num_envs": [0, 16]}, "throughput.num_envs: expected whole numbers of at least 1, found 0 (got [0, 16])"),
        ({"throughput__horizon": -8}, "throughput.horizon: expected whole numbers of at least 1, found -8 (got -8)"),
        ({"throughput__num_envs": [16, 16]}, "throughput.num_envs: the same value stands there twice (got [16, 16])"),
        ({"throughput__num_envs": []}, f"throughput.num_envs: {SIZES_WANTED} (got [])"),
        ({"throughput__num_envs": "16"}, f"throughput.num_envs: {SIZES_WANTED} (got '16')"),
        ({"throughput__num_envs": [16.0]}, f"throughput.num_envs: {SIZES_WANTED} (got [16.0])"),
        ({"throughput__num_envs": [True]}, f"throughput.num_envs: {SIZES_WANTED} (got [True])"),
        ({"throughput__num_envs": None}, f"throughput.num_envs: {SIZES_WANTED} (got None)"),
        ({"throughput__num_envs": {"from": 16}}, f"throughput.num_envs: {SIZES_WANTED} (got {{'from': 16}})"),
        ({"throughput__num_envs": {"from": 64, "to": 16}}, f"throughput.num_envs: {DOUBLINGS_WANTED} (got {{'from': 64, 'to': 16}})"),
        ({"throughput__num_envs": {"from": 0, "to": 16}}, f"throughput.num_envs: {DOUBLINGS_WANTED} (got {{'from': 0, 'to': 16}})"),
        ({"throughput__batch_size": "libary"}, f"throughput.batch_size: {BATCH_WANTED} (got 'libary')"),
        ({"throughput__sampler": "bayes"}, f"throughput.sampler: expected {SAMPLERS_WANTED} (got 'bayes')"),
        ({"throughput__points": 0}, "throughput.points: expected greater than or equal to 1 (got 0)"),
        ({"throughput__repeats": 1.5}, "throughput.repeats: expected a valid integer (got 1.5)"),
        ({"throughput__repeats": True}, "throughput.repeats: expected a valid integer (got True)"),
        ({"throughput__warmup_iterations": -1}, "throughput.warmup_iterations: expected greater than or equal to 0 (got -1)"),
        ({"throughput__limit_s": 0}, "throughput.limit_s: expected greater than 0 (got 0)"),
        ({"throughput__limit_s": "10 min"}, "throughput.limit_s: expected a valid number (got '10 min')"),
        ({"throughput__limit_s": float("inf")}, "throughput.limit_s: expected a finite number (got inf)"),
        ({"learning": LEARNING | {"target_reward": float("nan")}}, "learning.target_reward: expected a finite number (got nan)"),
        ({"learning": {**LEARNING, "limit_s": 60}},
         "learning: limit_s 60 would stop every trial before its budget_s 60 is spent: leave a minute or more for the start"),
        ({"learning": NO_BUDGET}, "learning.budget_s: this key is needed, and is not there"),
        ({"throughput": [16]}, f"throughput: expected keys with values: {keys_of(Throughput)} (got [16])"),
        ({"throughput__adaptive": None}, f"throughput.adaptive: expected keys with values: {keys_of(Adaptive)} (got None)"),
        ({"throughput__sampler": "adaptive", "throughput__repeats": 1},
         "throughput: repeats 1: sampler adaptive needs at least 3 of a point to decide anything"),
        ({"arms": {"a": None}}, f"arms.a: expected keys with values: {keys_of(Arm)} (got None)"),
        ({"arms": {}}, "arms: expected at least one (got {})"),
        ({"arms": {"x": {"gpus": -2}}}, "arms.x.gpus: expected 'auto', 0 (the CPU) or a number of GPUs (got -2)"),
        ({"arms": {"x": {"gpus": 2.0}}}, "arms.x.gpus: expected 'auto', 0 (the CPU) or a number of GPUs (got 2.0)"),
        ({"arms": {"x": {"gpus": 1, "cpu_ranks": 2}}}, "arms.x: cpu_ranks 2 is for gpus: 0; on GPUs there is a rank for each (gpus: k)"),
        ({"arms": {"x": {"nodes": 2}}}, "arms.x: nodes 2 needs a definite number of GPUs on each: gpus: 1 or more, or 0 for the CPU"),
        ({"arms": {"x": {"nodes": 2, "gpus": 1}}, "runtime": "docker", "image": "i"},
         "study: arm 'x': nodes 2 is for runtime: host or apptainer; a container of Docker's has no network"),
        ({"arms": {"x": {"strategy": "async2"}}}, "arms.x: strategy async2 is for trainer: torchrl, and the trainer is rsl_rl"),
        ({"arms": {"x": RAY | {"sync_every": 2}}}, "arms.x: sync_every 2 is for strategy: async2; with ray each update acts at once"),
        ({"arms": {"x": ASYNC | {"gpus": 4}}}, f"arms.x: {TWO_SIDES} (got gpus 4, cpu_ranks 1, nodes 1)"),
        ({"arms": {"x": ASYNC | {"gpus": 0, "cpu_ranks": 2}}}, f"arms.x: {TWO_SIDES} (got gpus 0, cpu_ranks 2, nodes 1)"),
        ({"arms": {"x": RAY | {"gpus": 1, "nodes": 2}}}, f"arms.x: nodes 2 is for ranks; with strategy ray {CLUSTER_WANTED}"),
        ({"arms": {"a": {"gpus": True}}}, "arms.a.gpus: expected 'auto', 0 (the CPU) or a number of GPUs (got True)"),
        ({"arms": {"a": {"memory": {"memory_cap_gb": 0}}}}, "arms.a.memory.memory_cap_gb: expected greater than 0 (got 0)"),
        ({"arms": {"a": {"memory": {"clear_cache_every": 0}}}},
         "arms.a.memory.clear_cache_every: expected greater than or equal to 1 (got 0)"),
        ({"decide__baseline": "stok"}, "study: decide.baseline 'stok' is no arm of this study (did you mean 'stock'?). Arms: stock"),
        ({"arms": {"a": {"memory": {"on_oom": "retry"}}}}, "arms.a.memory.on_oom: expected 'record' or 'retry_accumulate' (got 'retry')"),
        ({"arms": {"a": {"trainer": "rl_game"}}}, f"arms.a.trainer: expected {TRAINERS_WANTED} (got 'rl_game')"),
        ({"arms": {"Stock arm": {}}}, f"study: arm 'Stock arm': {NAME_WANTED}"),
        ({"task__overrides": {"env.x[0]": {"y": 1}}}, f"task.overrides.env.x[0]: {OVERRIDE_WANTED} (got {{'y': 1}})"),
        ({"task__overrides": {"env.x": [1, None]}}, f"task.overrides.env.x: {OVERRIDE_WANTED} (got [1, None])"),
        ({"task__overrides": {"env.x": float("nan")}}, f"task.overrides.env.x: {OVERRIDE_WANTED} (got nan)"),
        ({"decide__delta": 0}, "decide.delta: expected greater than 0 (got 0)"),
        ({"decide__delta": 10}, "decide.delta: expected less than 1 (got 10)"),
        ({"decide__confidence": 0.4}, "decide.confidence: expected greater than or equal to 0.5 (got 0.4)"),
        ({"seed": -1}, "seed: expected greater than or equal to 0 (got -1)"),
        ({"window": 0}, "window: expected greater than or equal to 1 (got 0)"),
        ({"slots": "4"}, "slots: expected a valid integer (got '4')"),
        ({"throughput": None}, "study: a study needs a 'throughput' or a 'learning' section, or both"),
        ({"study": "archives"}, "study: results/archives is a folder of envknee's own: choose another name (got 'archives')"),
        ({"throughput__num_envs": 10**13}, f"throughput.num_envs: {LARGEST_WANTED} (got 10000000000000)"),
        ({"throughput__batch_size": {"from": 8, "to": 10**400}},
         f"throughput.batch_size: {LARGEST_WANTED} (got {{'from': 8, 'to': {10**400}}})"),
        ({"throughput__repeats": 10**9},
         "study: arms x num_envs x horizon x batch_size x repeats make up to 1,000,000,000 trials, and 100,000 are the most"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_shown_with_its_key_and_what_is_legal(changes: dict[str, Any], line: str) -> None:
    assert complaint(**changes) == line
    got = line.partition(" (got ")[2].removesuffix(")")
    if got and not got.startswith(BEYOND_A_SCHEMA):
        assert not is_legal_by_schema(plain(**changes))


def test_a_pipeline_is_one_rank_and_collectors_are_many() -> None:
    arms = ASYNC | {"gpus": 2}, RAY | {"gpus": 2}, RAY | {"gpus": 0, "cpu_ranks": 3}
    assert [Arm.model_validate(arm).world_size for arm in arms] == [1, 2, 3]


@pytest.mark.parametrize(
    "name",
    ["my study", "it's", 'a"b', "../up", "a/b", ".hidden", "-flag", "$(reboot)", "a;b", "`x`", "a\nb", "", "A", "é", "x" * 65, 7, None],
)  # fmt: skip
def test_a_study_name_that_is_no_folder_name_is_refused(name: Any) -> None:
    assert complaint(study=name) == f"study: a study's name becomes a folder: {NAME_WANTED} (got {name!r})"


@pytest.mark.parametrize("name", ["a", "0", "one-gpu_2", "x" * 64])
def test_plain_names_are_taken(name: str) -> None:
    assert parse_study(plain(study=name, arms={name: {}})).study == name


def test_all_mistakes_are_told_at_once() -> None:
    message = message_of(plain(seed=-1, throughput__points=0, throughput__horizn=[8], decide__delta=2))
    for key in ("seed", "throughput.points", "throughput.horizn", "decide.delta"):
        assert f"\n  {key}: " in message


@pytest.mark.parametrize(("data", "kind"), [(None, "NoneType"), ([1], "list"), ("study: x", "str"), (3, "int")])
def test_a_file_without_keys_says_what_was_expected(data: Any, kind: str) -> None:
    assert message_of(data) == f"my.yaml: expected keys and values (study: ..., throughput: ...), got {kind}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_data_whatever_ends_in_anything_but_a_study_or_a_user_error(data: st.DataObject) -> None:
    keys = ["study", "seed", "task", "arms", "throughput", "learning", "decide", "tracking"]
    study: dict[Any, Any] = plain()
    for _ in range(data.draw(st.integers(1, 3))):
        place = study
        for key in data.draw(st.sampled_from([[], ["throughput"], ["arms"], ["arms", "a"], ["task"], ["decide"]])):
            place = place.setdefault(key, {}) if isinstance(place, dict) else {}
        if isinstance(place, dict):
            legal = [*keys, *THROUGHPUT, "overrides", "gpus", "delta"]
            place[data.draw(st.sampled_from(legal) | st.text(max_size=3))] = data.draw(json_values)
    try:
        assert isinstance(parse_study(study), Study)
    except UserError as error:
        assert "Every key is explained in config/config.yaml." in str(error)


# Files


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("study: a\nthroughput: {num_envs: [16\nseed: 1\n", 3, "while parsing a flow sequence"),
        ("study: a\n\tseed: 1\n", 2, "found character '\\t' that cannot start any token"),
        ("study: a\nseed: 1\nstudy: b\n", 3, "the key study stands there twice"),
        ("study: a\nthroughput:\n  points: 3\n  horizon: [8]\n  points: 4\n", 5, "the key points stands there twice"),
        ("study: a\nseed: *missing\n", 2, "found undefined alias 'missing'"),
        ("study: !!python/object/apply:os.getcwd []\n", 1, "could not determine a constructor for the tag"),
    ],
)
def test_yaml_that_cannot_be_read_is_told_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    message = told(lambda: read_study(path), f"line {line},", problem)
    assert message.startswith(f"{path} is not YAML: ")
    assert message.endswith("Mend it there: config/config.yaml shows how a study looks.")


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
def test_a_file_that_would_hang_or_fill_memory_is_a_sentence(tmp_path: Path, name: str, text: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UserError, match=reason):
        read_study(path)


def test_merged_aliases_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(
        "study: a\n"
        "throughput: &sweep {num_envs: 16, horizon: 16, batch_size: 256, repeats: 3}\n"
        "learning: {<<: *sweep, repeats: 2, target_reward: 4, budget_s: 60}\n",
        encoding="utf-8",
    )
    repeats = {kind: sweep.repeats for kind, sweep in read_study(path).sections.items()}
    assert repeats == {"throughput": 3, "learning": 2}


def test_bytes_that_are_no_text_half_a_file_and_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"study: \xff\xfe\n")
    with pytest.raises(UserError, match="binary.yaml is not YAML"):
        read_study(tmp_path / "binary.yaml")
    (tmp_path / "study.json").write_text(canonical_json(parse_study(plain()))[:-20], encoding="utf-8")
    with pytest.raises(UserError, match=r"study.json is not JSON: .* line \d+ column \d+"):
        read_study(tmp_path / "study.json")
    words = "none.yaml does not exist, and a study was expected there. Name another file, or write a first study"
    with pytest.raises(UserError, match=words):
        read_study(tmp_path / "none.yaml")


def test_the_command_prints_the_name_or_one_message(tmp_path: Path) -> None:
    shipped = REPOSITORY / "config" / "config.yaml"
    good, bad = (
        python("-m", "envknee", "check", file, env={"PYTHONPATH": str(REPOSITORY / "workflow"), "PATH": ""})
        for file in (shipped, tmp_path / "none.yaml")
    )
    assert (good.returncode, good.stderr, good.stdout.strip()) == (0, "", read_study(shipped).study)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("envknee: ") and "Traceback" not in bad.stderr


def test_every_key_is_explained_where_errors_say_so() -> None:
    """Those of `command` are in docs/commands.md, and programs write the last ones."""
    parts = {name: part for name, part in SCHEMA["$defs"].items() if name not in ("Command", "Rows", "Replay", "Raise")}
    keys = {key for part in (SCHEMA, *parts.values()) for key in part["properties"]} - {
        "replay",
        "raised",
        "ask_version",
    }
    assert keys <= set(re.findall(r"\w+", (REPOSITORY / "config/config.yaml").read_text(encoding="utf-8")))


def test_phases_off_is_a_word_although_yaml_takes_it_for_false(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("study: a\nphases: off\nthroughput: {num_envs: 4, horizon: 4, batch_size: 16}\n", encoding="utf-8")
    assert read_study(path).phases == "off"
    assert complaint(phases="on") == "phases: expected 'off' or 'sampled' (got 'on')"
