"""Foreign commands without running any: placeholders, presets, logs, and what a study may not ask of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from envknee.ask import ask
from envknee.base.point import Point
from envknee.run import knee, knee_places
from envknee.run.foreign import patience_s
from envknee.run.knee_study import name_for
from envknee.study import presets, space
from envknee.study.command import OF_A_RULE, PLACEHOLDERS, Command, Rows, placeholders
from envknee.study.errors import UserError
from envknee.study.load import parse_study, read_study
from envknee.study.model import Study
from envknee.study.reach import reach_of
from envknee.study.space import Slot
from envknee.trainers.command import ends, program, telling
from envknee.trainers.command import presets as shipped
from envknee.trainers.command.rows import Builder, unlike_asked, unlike_clock
from envknee.trainers.command.sources import Event
from programs import a_program, run_main, told
from records import known

ROWS = {"source": "csv", "path": "log.csv", "step": "iterations", "names": {"fps": "fps"}}


def a_study(arm: dict[str, Any] | None = None, command: dict[str, Any] | None = None, **sections: Any) -> Any:
    whole = {"argv": ["train"], "rows": ROWS} | (command or {})
    arms = {"mine": {"trainer": "command", "command": whole} | (arm or {})}
    throughput = {"num_envs": [8, 16], "horizon": 4, "batch_size": 16}
    return parse_study({"study": "demo", "arms": arms, "throughput": throughput} | sections)


def a_request(study: Any, num_envs: int = 16) -> Any:
    return ask.request_for(study, Slot(0, "mine", "throughput", 0), Point(num_envs, 4, 16), None)


def test_placeholders_are_filled_and_other_braces_stay():
    told = ["train", "n={num_envs}", '{"a": 1}', "{{num_envs}}", "M={num_mini_batches}", "F={frames}"]
    request = a_request(a_study(command={"argv": told}))
    argv = program.arguments(request, Path("/run"), gpus=0)
    assert argv == ["train", "n=16", '{"a": 1}', "{num_envs}", "M=4", f"F={(1 + 5 + 1) * 64}"]
    assert program.values(request, Path("/run"), gpus=1).keys() == PLACEHOLDERS.keys() - {*OF_A_RULE}


def test_a_preset_is_written_out_so_that_it_may_change_later():
    study = a_study(command={"preset": "mjlab", "rows": {"step": "frames"}})
    written = study.measured_part()
    command = written["arms"]["mine"]["command"]
    assert "--env.scene.num-envs" in command["arguments"] and command["rows"]["step"] == "frames"
    assert command["rows"]["source"] == "csv" or command["rows"]["source"] == "tensorboard"
    again = parse_study(json.loads(json.dumps(study.model_dump(mode="json"))))
    assert again.measured_part() == written and again.phases == "off"


def test_a_preset_of_a_users_own_is_needed_no_more_once_a_study_was_read(tmp_path: Path):
    own = tmp_path / "mine.yaml"
    own.write_text((shipped.FOLDER / "mjlab.yaml").read_text())
    study = a_study(command={"preset": str(own), "argv": ["train"]})
    own.unlink()
    presets.read.cache_clear()
    again = parse_study(json.loads(study.model_dump_json()))
    assert again == study and "mine.yaml" not in study.model_dump_json()


ON_A_GPU = re.compile(r"(Run|Not run) on (a GPU|H100s|H200s) (on|up to) 20\d\d-\d\d-\d\d")


@pytest.mark.parametrize(
    "name", [name for name in shipped.names() if presets.read(name).install.startswith("pip install")]
)
def test_a_preset_whose_program_can_be_installed_says_whether_it_ran_on_a_gpu(name: str):
    tested = presets.read(name).tested
    found = ON_A_GPU.search(tested)
    assert found is not None, tested
    assert found[1] == "Not run" or re.search(r"with \S+ \d+\.\d+", tested[found.end() :]), "a version"


@pytest.mark.parametrize("name", shipped.names())
def test_every_preset_is_a_whole_command_and_says_where_it_was_tested(name: str):
    preset = presets.read(name)
    command = Command.model_validate({"preset": name, "argv": preset.example})
    assert preset.about and preset.tested and preset.install
    assert command.rows.tells("reward") or name == "mujoco-playground", (
        "its evaluations are off, and rewards are theirs"
    )
    assert not command.needs_batch_size, "batch_size: library works with every preset"
    used = placeholders(command.texts)
    assert {"num_envs", "seed"} <= used and used & {"iterations", "frames"}
    assert "horizon" in used or name == "genesis", "its scripts state the horizon themselves"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": {"argv": ["train", "{num_env}"]}}, "{num_env} is no placeholder (did you mean 'num_envs'?)"),
        ({"command": {"preset": "mjlabs"}}, "'mjlabs' is no preset (did you mean 'mjlab'?)"),
        ({"arm": {"observations": "lean"}}, "observations is not for trainer: command"),
        ({"arm": {"deterministic": True}}, "deterministic is not for trainer: command"),
        ({"phases": "sampled"}, "has no phases"),
        ({"arm": {"trainer": "rsl_rl"}}, "belong together"),
        ({"command": {"rows": ROWS | {"source": "regex"}}}, "which needs at least one"),
        (
            {"command": {"rows": {"source": "regex", "step": "iterations", "patterns": ["(?P<fsp>x)"]}}},
            "did you mean 'fps'?",
        ),
        (
            {"learning": {"num_envs": [8], "horizon": 4, "batch_size": 16, "target_reward": 1, "budget_s": 9}},
            "a learning study needs the reward",
        ),
        (
            {
                "command": {"argv": ["train", "{batch_size}"]},
                "throughput": {"num_envs": [8], "horizon": 4, "batch_size": "library"},
            },
            "{batch_size} has no value with batch_size: library",
        ),
        (
            {"arm": {"scaling": {"rule": "sqrt_lr", "num_envs": 8, "learning_rate": 1e-3}}},
            "scaling.learning_rate does not reach this command",
        ),
        (
            {
                "arm": {"scaling": {"rule": "fixed_updates", "num_envs": 8, "epochs": 4}},
                "command": {"argv": ["train", "{learning_rate}"]},
            },
            "scaling.epochs does not reach this command",
        ),
        ({"command": {"argv": ["train", "--lr={learning_rate}"]}}, "{learning_rate} has no value: only a scaling rule"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(changes: dict[str, Any], words: str):
    with pytest.raises(UserError, match=re.escape(words)):
        a_study(**changes)


def test_a_rule_reaches_the_program_by_its_arguments(tmp_path: Path):
    study = a_study(
        arm={"scaling": {"rule": "sqrt_lr", "num_envs": 8, "learning_rate": 1e-3}},
        command={"argv": ["train", "--envs={num_envs}", "--lr={learning_rate}", "--batch={batch_size}"]},
        throughput={"num_envs": [8, 32], "horizon": 4, "batch_size": 16},
    )
    arguments = [program.arguments(a_request(study, num_envs), tmp_path, gpus=0)[1:] for num_envs in (8, 32)]
    assert arguments == [["--envs=8", "--lr=0.001", "--batch=16"], ["--envs=32", "--lr=0.002", "--batch=64"]]


def test_a_program_that_is_not_there_is_told(tmp_path: Path):
    (tmp_path / "trainer").touch(mode=0o755)
    with pytest.raises(UserError, match=r"no program 'trainor' on this machine \(did you mean 'trainer'\?\)"):
        program.located(["trainor"], str(tmp_path), tmp_path)
    (tmp_path / "ppo.py").touch()
    argv = program.located(["trainer", "ppo.py", "--x", "other.py"], str(tmp_path), tmp_path)
    assert argv == [str(tmp_path / "trainer"), str(tmp_path / "ppo.py"), "--x", "other.py"]


def test_an_archive_that_would_run_a_command_needs_trust():
    commands = [entry for entry in reach_of(a_study()) if entry.field.endswith("command")]
    assert [(entry.does, entry.value) for entry in commands] == [("runs", "train")]


def test_episodes_between_two_rows_belong_to_the_later_one():
    rows = Command.model_validate({"preset": "cleanrl", "argv": ["x"]}).rows
    events = [
        Event(1.0, {"charts/episodic_return": 1.0}, 3),
        Event(1.5, {"charts/episodic_return": 3.0}, 5),
        Event(2.0, {"losses/value_loss": 0.5}, 8),
        Event(2.0, {"charts/SPS": 4.0}, 8),
        Event(4.0, {"losses/value_loss": 0.25}, 16),
        Event(4.0, {"charts/SPS": 4.0}, 16),
    ]
    builder = Builder(rows)
    first, second = [*builder.add(events), *builder.close()]
    assert (first.unix_time_s, first.episodes, builder.losses(first)) == (2.0, [1.0, 3.0], {"value": 0.5})
    assert (second.step, second.episodes, builder.losses(second)) == (16, [], {"value": 0.25})


def test_tags_written_before_and_after_the_marker_are_of_one_row():
    rows = Command.model_validate({"preset": "mjlab", "argv": ["x"]}).rows
    tags = ("Loss/value", "Perf/total_fps", "Train/mean_reward")
    events = [Event(10.0 + step, {tag: float(step)}, step) for step in range(3) for tag in tags]
    builder = Builder(rows)
    entries = [*builder.add(events), *builder.close()]
    assert [builder.figure(entry, "reward") for entry in entries] == [0.0, 1.0, 2.0]
    assert [builder.losses(entry)["value"] for entry in entries] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes",
        "[carb.graphics-vulkan.plugin] VkResult: ERROR_OUT_OF_DEVICE_MEMORY",
        "PhysX error: PxgCudaDeviceMemoryAllocator fail to allocate memory 1234 bytes!! Result = 2",
        "Warp error: Failed to allocate 4294967296 bytes on device 'cuda:0'",
    ],
)
def test_lack_of_memory_is_recognized_in_the_words_of_each_program(line: str):
    said = ends.Output([], {})
    said.take(line)
    assert said.oom_line == line


@pytest.mark.parametrize(
    ("line", "compiles"),
    [
        ("Module mujoco_warp._src.smooth 4b1c9e0 load on device 'cuda:0' took 2113.20 ms  (compiled)", True),
        ("[1/3] /usr/local/cuda/bin/nvcc -gencode=arch=compute_90 -c rasterizer.cu", True),
        ("Compiling train step, this takes a few minutes", True),
        ("AUTOTUNE mm(4096x512, 512x256) autotuning takes 3.1 seconds", True),
        ("Loading assets from /data/robots", False),
        ("Starting the simulation", False),
    ],
)
def test_a_command_that_compiles_may_take_four_times_as_long_for_its_first_row(line: str, compiles: bool):
    output = ends.Output([], {})
    output.take(f"{line}\none\ntwo\nthree\nfour")
    assert output.is_compiling() is compiles
    assert patience_s(900.0, compiles) == (3600.0 if compiles else 900.0)
    output.take("five")
    assert not output.is_compiling(), "only the newest lines count"


def test_fps_that_differ_from_the_clock_are_told():
    assert unlike_clock([77_249.0], [6_500.0]) == (
        "the command says 77,249 FPS, and the times of its own rows give 6,500: the latter are used"
    )
    assert unlike_clock([6_600.0], [6_500.0]) is None and unlike_clock([], [6_500.0]) is None


def test_one_process_on_two_gpus_counted_twice_is_told_what_to_set():
    said = known(unlike_clock([6_600.0], [13_100.0], ranks=2))
    assert "They are 2 times as many" in said and "`envknee knee --ranks 1`" in said
    assert "--ranks" not in known(unlike_clock([6_600.0], [9_000.0], ranks=2)), "another difference"


def counting(step: str) -> Rows:
    return Rows.model_validate(ROWS | {"step": step})


@pytest.mark.parametrize(
    ("made", "environments"),
    [([256.0, 256.0], None), ([512.0, 512.0], None), ([128.0, 128.0], "32"), ([384.0, 384.0], "96"), ([], None)],
)
def test_a_command_that_changes_its_number_of_environments_is_told_by_its_own_count(
    made: list[float], environments: str | None
):
    said = unlike_asked(counting("frames"), made, num_envs_total=64, horizon=4)
    assert (said is None) is (environments is None)
    if said is not None:
        assert f"a row, and 64 environments with horizon 4 make 256: as if {environments} environments ran" in said
    assert unlike_asked(counting("iterations"), made, num_envs_total=64, horizon=4) is None, "it does not tell"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["Traceback", "EOFError: EOF when reading a line"], "It asked for input, and gets none"),
        (["Overwrite old logs? [y/N] "], "It asked for input, and gets none"),
        (["Password for wandb: "], "It asked for input, and gets none"),
        (["termios.error: (25, 'Inappropriate ioctl for device')"], "It needs a terminal, and gets none"),
        (["the input device is not a TTY"], "It needs a terminal, and gets none"),
        (["No such device or address: '/dev/tty'"], "It needs a terminal, and gets none"),
        (["KeyError: 'no such robot'"], None),
        (["password policies: 3"], None),
    ],
)
def test_what_a_command_wanted_of_a_person_is_said(lines: list[str], said: str | None):
    hint = telling.hint_of(lines)
    assert hint is None if said is None else known(hint).startswith(said)


def test_ranks_of_a_command_are_its_gpus_or_what_it_says(tmp_path: Path):
    def values(**command: Any) -> dict[str, str]:
        study = a_study(arm={"gpus": 2}, command={"argv": ["train", "{num_envs}"]} | command)
        return program.values(a_request(study, 8), tmp_path, gpus=2)

    assert {name: values()[name] for name in ("ranks", "gpus", "num_envs_total")} == {
        "ranks": "2", "gpus": "2", "num_envs_total": "16",
    }  # fmt: skip
    one = values(ranks=1)
    assert (one["ranks"], one["gpus"], one["num_envs_total"], one["rollout"]) == ("1", "2", "8", "32")
    assert '"ranks":' not in a_study(command={"argv": ["train"]}).model_dump_json(), "recorded studies stay the same"


def test_a_line_of_sizes_is_read_as_people_write_it():
    assert knee.sizes("512..16384") == {"from": 512, "to": 16384} and knee.sizes("8,12") == [8, 12]
    assert name_for("mjlab", ["train", "Mjlab-Cartpole-Balance"]) == "mjlab-mjlab-cartpole-balance"


def a_climb(folder: Path, *words: str) -> Study:
    """Return the study that `envknee knee` writes without a range."""
    run_main(knee.main, "--preset", "mjlab", "--dry-run", "--name", "climb", *words, "--", "true")
    return read_study(folder / "results/climb/knee.yaml")


def test_without_a_range_sizes_double_from_the_first_until_the_gain_is_known(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = a_climb(tmp_path)
    sweep = known(study.throughput)
    assert (sweep.sampler, sweep.adaptive.ascending, sweep.repeats) == ("adaptive", True, 8)
    assert (study.window, sweep.workers) == (1, 1), "each size is asked for knowing all before it"
    assert sweep.num_envs == tuple(256 * 2**doubling for doubling in range(13))


def test_where_the_climb_begins_and_how_often_sizes_repeat_can_be_said(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep = known(a_climb(tmp_path, "--from", "8", "--to", "64", "--repeats", "4").throughput)
    assert (sweep.num_envs, sweep.repeats) == ((8, 16, 32, 64), 4)


def with_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(knee_places, "visible_uuids", lambda: [f"GPU-{number}" for number in range(count)])


@pytest.mark.parametrize(
    ("gpus", "words", "lanes"),
    [(4, [], 4), (4, ["--gpus", "2"], 2), (4, ["--workers", "3"], 3), (1, [], 1), (0, [], 1)],
)
def test_a_search_uses_every_gpu_and_all_have_as_many_repeats(
    gpus: int, words: list[str], lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with_gpus(monkeypatch, gpus)
    study = a_climb(tmp_path, *words)
    sweep = known(study.throughput)
    assert (study.window, sweep.workers) == (lanes, lanes)
    assert sweep.repeats % lanes == 0 and (lanes == 1 or sweep.adaptive.confirm % lanes == 0)
    assert {slot.lane for slot in space.plan(study)} == {*range(lanes)}


def test_a_range_has_a_repeat_on_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with_gpus(monkeypatch, 8)
    study = a_climb(tmp_path, "--num-envs", "8..64")
    assert (study.window, known(study.throughput).workers) == (12, 3)
    assert {slot.lane for slot in space.plan(study)} == {0, 1, 2}
    a_climb(tmp_path, "--num-envs", "8..64", "--repeats", "1", "--name", "one")
    one = read_study(tmp_path / "results/one/knee.yaml")
    assert (one.window, known(one.throughput).workers) == (8, None), "a GPU for each size"


def test_a_search_goes_on_where_there_are_fewer_gpus_and_asks_the_same(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_gpus(monkeypatch, 4)
    many = a_climb(tmp_path)
    for count, workers in ((1, 1), (2, 2), (8, 4)):
        with_gpus(monkeypatch, count)
        fewer = a_climb(tmp_path)
        assert (fewer.window, known(fewer.throughput).workers) == (4, workers)
        assert fewer.measured_part() == many.measured_part()
    told(lambda: a_climb(tmp_path, "--from", "8"), "holds another study of that name")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--workers", "3", "--gpus", "2"],
            "--workers 3, of which each trial takes 2 GPUs: there is room for 2 trials at once",
        ),
        (
            ["--workers", "2", "--gpus", "0"],
            "--workers 2, of which each trial takes the CPU: there is room for 1 trial at once",
        ),
        (["--gpus", "5"], "gpus: 5 was asked for, and 4 GPUs are visible here"),
    ],
)
def test_more_trials_at_once_than_there_are_gpus_for_are_told(words: list[str], said: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_gpus(monkeypatch, 4)
    told(lambda: run_main(knee.main, "--preset", "mjlab", *words, "--", "true"), said)
    assert list(tmp_path.iterdir()) == [], "a study would keep the number of its lanes"


def test_with_slurm_each_trial_of_a_range_is_a_job_and_a_search_has_a_job_for_each_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/site.local.yaml").write_text("partition: gpu\nmax_gpus: 3\n")
    climb = a_climb(tmp_path, "--profile", "slurm")
    assert (climb.window, known(climb.throughput).workers) == (3, 3)
    a_climb(tmp_path, "--profile", "slurm", "--num-envs", "8..64", "--name", "range")
    alone = read_study(tmp_path / "results/range/knee.yaml")
    assert (alone.window, known(alone.throughput).workers) == (4, None), "all sizes of a repeat at once"
    (tmp_path / "slurm/site.local.yaml").write_text("partition: gpu\nmax_gpus: 8\n")
    a_climb(tmp_path, "--profile", "slurm", "--num-envs", "8..64", "--name", "wide")
    assert read_study(tmp_path / "results/wide/knee.yaml").window == 8, "max_gpus says how many"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "8", "--num-envs", "8..32"], "--from 8 begins a search without a range, and --num-envs gives one"),
        (["--to", "64", "--num-envs", "8..32"], "--to 64 ends a search without a range, and --num-envs gives one"),
        (
            ["--from", "64", "--to", "8"],
            "--from 64, and --to 8: no doubling lies between them. Expected --to 128 or more",
        ),
        (["--to", "256"], "--from 256, its default, and --to 256: no doubling lies between them"),
        (["--from", "0"], "--from 0: expected at least 1"),
        (["--from", "-4"], "--from -4: expected at least 1"),
        (["--workers", "0"], "--workers 0: expected at least 1 trial at once"),
        (["--profile", "slurm", "--time", "9m"], "--time 9m is for trials on this machine"),
        (["--profile", "slurm", "--num-envs", "8..32", "--workers", "2"], "max_gpus of the site says how many"),
        (["--profile", "allocation"], "this is no SLURM job (SLURM_JOB_ID is not set)"),
        (["--repeats", "0"], "throughput.repeats: expected greater than or equal to 1 (got 0)"),
        (["--target-reward", "3.5"], "--num-envs 256..4096 --target-reward 3.5"),
    ],
)
def test_options_that_do_not_fit_are_told(words: list[str], said: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    told(lambda: run_main(knee.main, *words, "--preset", "mjlab", "--dry-run", "--", "true"), said)
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_does_not_exist_is_told_with_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    a_program(tmp_path / "bin", "trainer", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(program.USERS_PATH, raising=False)
    words = ("--preset", "mjlab", "--", "trainr", "Task")
    told(lambda: run_main(knee.main, *words), "there is no program 'trainr'", "did you mean 'trainer'?")


def test_no_environment_steps_per_rollout_are_no_default(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--num-envs", "8", "--preset", "mjlab", "--dry-run")
    for option in ("--horizon", "--batch-size"):
        told(lambda option=option: run_main(knee.main, *words, option, "0", "--", "true"), "at least 1, found 0")
    assert list(tmp_path.iterdir()) == []


def test_braces_in_the_names_of_folders_are_no_placeholders(tmp_path: Path, monkeypatch):
    folder = tmp_path / "{x} of {seed}"
    a_program(folder / "bin", "trainer", "exit 0")
    (folder / "ppo_{seed}.py").touch()
    (folder / "ppo.py").touch()
    monkeypatch.chdir(folder)
    command = ("bin/trainer", "ppo.py", "ppo_{seed}.py", "--seed={seed}", "{{x}}")
    run_main(knee.main, "--num-envs", "8", "--preset", "mjlab", "--dry-run", "--name", "braces", "--", *command)
    study = read_study(folder / "results/braces/knee.yaml")
    argv = program.arguments(
        ask.request_for(study, Slot(0, "command", "throughput", 0), Point(8, 24, None), None), Path("/r"), 0
    )
    seed = argv[3].removeprefix("--seed=")
    assert argv[:5] == [
        f"{folder}/bin/trainer", f"{folder}/ppo.py", f"{folder}/ppo_{seed}.py", f"--seed={seed}", "{x}",
    ]  # fmt: skip
    assert seed.isdecimal()


@pytest.mark.parametrize(
    "content", ["[" * 10_000, "{a: " * 10_000, "a: " * 3 + "[", "- &a [*a]", "x" * 2_000_000, "\x00", ""]
)
def test_a_preset_that_is_no_preset_says_so(content: str, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(ValueError, match=r"the preset .*mine\.yaml"):
        presets.read(str(tmp_path / "mine.yaml"))
    told(lambda: a_study(command={"preset": str(tmp_path / "mine.yaml")}), "the preset")


def test_a_preset_is_a_regular_file(tmp_path: Path):
    (tmp_path / "mine.yaml").symlink_to("/dev/zero")
    told(
        lambda: a_study(command={"preset": str(tmp_path / "mine.yaml")}), "leads to /dev/zero, which is no regular file"
    )
