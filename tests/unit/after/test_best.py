"""`envknee best`: the setting that is printed, what decides it on a smaller GPU, the store of answers, and bad input."""

import json
import time
from pathlib import Path
from typing import Any

import joint_study
import pytest
import yaml
from envknee.after import best as command
from envknee.decide.study import decide
from envknee.machine.schema import Device
from envknee.run import answers
from envknee.show import report
from envknee.show.figures import draw
from envknee.study.errors import EXIT_UNDECIDED, EXIT_USER_ERROR
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict.best import gpu_memory_gb
from envknee.verdict.schema.best import Best
from envknee.words.best import age_words
from programs import run_main, told
from published import PUBLISHED
from records import (
    GPU,
    LEARNING,
    PLATEAU,
    Trial,
    a_study,
    a_trial,
    fps_trials,
    known,
    learning_trials,
    records_of,
    write_study,
)

OPEN = {16: [100.0, 110.0, 104.0], 32: [107.0, 112.0, 109.0]}
"""FPS of a doubling that is neither shown to pay nor not to."""

PAYS = {16: [100.0, 101.0, 102.0], 32: [190.0, 191.0, 192.0]}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for answers, which is nobody's own."""
    monkeypatch.setenv(answers.STATE, str(tmp_path / "state"))
    return tmp_path / "state"


def decided(root: Path, trials: list[Trial], *arms: str, **sections: Any) -> StudyFolder:
    """Write a study, its trials and its verdict."""
    study: Study = a_study(arms={arm: {} for arm in arms or ("stock",)}, **sections)
    folder = write_study(root / "demo", study, trials)
    folder.verdict.write_text(canonical_json(decide(records_of(trials), study)), encoding="utf-8")
    return folder


def two_arms(root: Path) -> Path:
    fast = {size: [2 * fps for fps in own] for size, own in PLATEAU.items()}
    trials = [*fps_trials(PLATEAU, arm="slow", device=GPU), *fps_trials(fast, arm="fast", first=20, device=GPU)]
    return decided(root, trials, "slow", "fast").root


def best(*words: object) -> int:
    return run_main(command.main, *words)


def found(capsys: pytest.CaptureFixture[str], *words: object) -> Best:
    """Return the answer that is printed as JSON."""
    assert best(*words, "--format", "json") == 0
    return Best.model_validate_json(capsys.readouterr().out)


def with_memory(fps: dict[int, list[float]], gb_each: float) -> list[Trial]:
    """Return trials on a GPU that take `gb_each` for each environment."""
    sizes = [(size, own) for size, own in fps.items()]
    return [
        trial
        for place, (size, own) in enumerate(sizes)
        for trial in fps_trials({size: own}, first=10 * place, device=GPU, memory_gb=size * gb_each)
    ]


# --- What is printed ---------------------------------------------------------------------------------------------------


def test_the_setting_is_options_of_isaac_labs_own_train(tmp_path: Path, capsys):
    assert best(decided(tmp_path, fps_trials(PLATEAU)).root) == 0
    printed = capsys.readouterr()
    assert printed.out == "--num_envs 32 agent.num_steps_per_env=8 agent.algorithm.num_mini_batches=2\n"
    assert printed.err == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--only", "num_envs"], "32\n"), (["--format", "env"], "NUM_ENVS=32\nHORIZON=8\nBATCH_SIZE=128\n")],
)
def test_one_value_and_variables_for_a_shell(tmp_path: Path, capsys, words: list[str], expected: str):
    best(decided(tmp_path, fps_trials(PLATEAU)).root, *words)
    assert capsys.readouterr().out == expected


def test_json_and_yaml_say_the_same_and_name_the_whole_command(tmp_path: Path, capsys):
    root = decided(tmp_path, fps_trials(PLATEAU)).root
    answer = found(capsys, root)
    assert (answer.state, answer.swept, answer.unit, answer.repeats) == ("decided", ["num_envs"], "FPS", 3)
    assert known(answer.command).argv[:2] == ["isaaclab", "train"]
    best(root, "--format", "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == json.loads(answer.model_dump_json())


def test_an_undecided_study_prints_nothing_unless_that_is_allowed(tmp_path: Path, capsys):
    root = decided(tmp_path, fps_trials(OPEN)).root
    assert best(root, "--only", "num_envs") == EXIT_UNDECIDED
    printed = capsys.readouterr()
    assert printed.out == "" and "undecided. Best so far: stock, 32 environments" in printed.err
    assert best(root, "--only", "num_envs", "--allow-undecided") == 0
    assert capsys.readouterr().out == "32\n"


def test_a_study_without_any_result_is_undecided_and_has_nothing_to_allow(tmp_path: Path):
    seeds = learning_trials({16: [None] * 3, 32: [None] * 3})
    root = decided(tmp_path, seeds, throughput=None, learning=LEARNING).root
    with pytest.raises(command.Undecided, match="no setting yet") as error:
        best(root, "--allow-undecided")
    assert error.value.exit_status == EXIT_UNDECIDED


def test_soonest_comes_before_fps_where_both_were_measured(tmp_path: Path, capsys):
    seeds = learning_trials({16: [20.0, 21.0, 22.0], 32: [30.0, 31.0, 33.0]}, first=20)
    root = decided(tmp_path, [*fps_trials(PLATEAU), *seeds], learning=LEARNING).root
    assert (found(capsys, root).num_envs, found(capsys, root, "--for", "fps").num_envs) == (16, 32)


def test_a_program_of_ones_own_gets_its_own_options(tmp_path: Path, capsys):
    own = {"argv": ["train", "--envs={num_envs}"], "arguments": ["--len", "{iterations}", "--steps", "{horizon}"]}
    rows = {"source": "jsonl", "path": "log.jsonl", "step": "iterations"}
    arms = {"mine": {"trainer": "command", "command": own | {"rows": rows}}}
    study = a_study(arms=arms)
    trials = [
        trial.asked(trainer="command", command=study.arms["mine"].command)
        for trial in fps_trials(PLATEAU, arm="mine", batch_size=None)
    ]
    folder = write_study(tmp_path / "demo", study, trials)
    folder.verdict.write_text(canonical_json(decide(records_of(trials), study)), encoding="utf-8")
    assert best(folder.root) == 0
    assert capsys.readouterr().out == "--envs=32 --steps 8\n"


def test_a_trainer_without_a_program_has_no_options_and_the_other_formats(tmp_path: Path, capsys):
    root = decided(tmp_path, fps_trials(PLATEAU, trainer="torchrl")).root
    told(lambda: best(root), "no arguments are known for the program torchrl", "--format env")
    assert best(root, "--only", "num_envs") == 0 and capsys.readouterr().out == "32\n"


def test_what_the_options_leave_out_is_named_beside_them(tmp_path: Path, capsys):
    trials = [trial.asked(observations="lean") for trial in fps_trials(PLATEAU)]
    best(decided(tmp_path, trials).root)
    assert "stock also has `observations: lean`, which these options do not set" in capsys.readouterr().err


# --- Several arms, and smaller GPUs ------------------------------------------------------------------------------------


def test_arms_are_named_and_of_several_the_best_one_counts(tmp_path: Path, capsys):
    root = two_arms(tmp_path)
    told(lambda: best(root), "2 arms: slow, fast", "--arm slow")
    told(lambda: best(root, "--arm", "fats"), "no such arm (did you mean 'fast'?). Expected slow, fast")
    assert found(capsys, root, "--arm", "slow").arm == "slow"
    assert found(capsys, root, "--arm", "slow", "--arm", "fast").arm == "fast"


def test_the_cheapest_arm_is_the_one_with_fewest_gpu_seconds(tmp_path: Path, capsys):
    one = learning_trials({16: [20.0, 21.0, 22.0]}, arm="one", device=GPU, gpus=1)
    two = learning_trials({16: [15.0, 16.0, 17.0]}, arm="two", device=GPU, gpus=2, first=10)
    study = a_study(arms={"one": {"gpus": 1}, "two": {"gpus": 2}}, throughput=None, learning=LEARNING)
    folder = write_study(tmp_path / "demo", study, [*one, *two])
    folder.verdict.write_text(canonical_json(decide(records_of([*one, *two]), study)), encoding="utf-8")
    both = (folder.root, "--arm", "one", "--arm", "two", "--allow-undecided")
    assert found(capsys, *both, "--for", "soonest").arm == "two"
    cheapest = found(capsys, *both, "--for", "cheapest")
    assert (cheapest.arm, cheapest.gpu_seconds) == ("one", pytest.approx(21.0, rel=0.01))


def test_a_smaller_gpu_gets_the_best_setting_that_fits_it(tmp_path: Path, capsys):
    root = decided(tmp_path, with_memory(PLATEAU, gb_each=1.0)).root
    smaller = found(capsys, root, "--gpu", "20GiB")
    assert (smaller.num_envs, smaller.state, smaller.peak_gb) == (16, "decided", pytest.approx(16.0)), "the limit is 32"
    assert found(capsys, root, "--gpu", "80GB").num_envs == 32, "beyond the threshold more memory is of no use"
    told(lambda: best(root, "--gpu", "8GB"), "no measured setting fits 8.6 GB", "the smallest takes 16.00 GB")


def test_on_a_smaller_gpu_a_doubling_that_pays_decides_and_an_open_one_does_not(tmp_path: Path, capsys):
    open_end = {64: [195.0, 215.0, 201.0], 128: [196.0, 212.0, 208.0]}
    root = decided(tmp_path, with_memory(PAYS | open_end, gb_each=0.5)).root
    assert best(root) == EXIT_UNDECIDED
    capsys.readouterr()
    assert found(capsys, root, "--gpu", "24GB").num_envs == 32, "16 to 32 is shown to pay, and 64 do not fit"
    assert best(root, "--gpu", "40GB") == EXIT_UNDECIDED, "whether 32 to 64 pays is open"
    assert "undecided on 42.9 GB" in capsys.readouterr().err


def test_a_doubling_that_pays_up_to_full_memory_decides_there_and_not_on_a_larger_gpu(tmp_path: Path, capsys):
    lacked = [a_trial(64, number=50 + repeat, repeat=repeat, device=GPU, status="oom") for repeat in range(3)]
    root = decided(tmp_path, [*with_memory(PAYS, gb_each=1.0), *lacked]).root
    assert found(capsys, root).num_envs == 32
    capsys.readouterr()
    assert best(root, "--gpu", "141GB") == EXIT_UNDECIDED, "64 may fit there"
    assert "more environments still paid at the largest size" in capsys.readouterr().err


def test_of_all_axes_at_once_the_confirmed_settings_count(tmp_path: Path, capsys):
    study = joint_study.a_study(trials=24, confirm={"settings": 3, "seeds": 3})
    trials = joint_study.measured_trials(study)
    folder = write_study(tmp_path / "s", study, trials)
    verdict = decide(records_of(trials), study)
    folder.verdict.write_text(canonical_json(verdict), encoding="utf-8")
    (joint,) = verdict.arms[0].joint
    soonest = joint.confirmed[known(joint.soonest)]
    answer = found(capsys, folder.root, "--allow-undecided")
    assert (answer.num_envs, answer.horizon, answer.batch_size) == (
        soonest.num_envs, soonest.horizon, soonest.batch_size
    )  # fmt: skip
    assert answer.swept == ["num_envs", "horizon", "batch_size"] and answer.repeats == soonest.seeds


def test_fps_that_no_trial_measured_are_said_to_be_composed(capsys):
    root = PUBLISHED["cartpole-one-gpu-decided"].root
    assert found(capsys, root, "--allow-undecided").is_composed
    best(root, "--allow-undecided")
    assert "stock: composed, no trial ran it" in capsys.readouterr().err


def test_a_gpus_size_is_that_of_the_card_with_this_name():
    assert gpu_memory_gb(24) == pytest.approx(24_564 * 2**20 / 1e9) and gpu_memory_gb(20) == 20.0
    assert command.memory_gb("24576MiB") == command.memory_gb("24 GiB") == pytest.approx(25.77, abs=0.01)


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("cartpole-one-gpu-learning", [], (1024, 32, 8192, "decided")),
        ("cartpole-stock-lean-h200", ["--arm", "lean-warp"], (8192, 32, None, "decided")),
        ("cartpole-stock-lean-h200", ["--arm", "stock", "--gpu", "24GB"], (2048, 32, None, "decided")),
        ("cartpole-learning-rules", ["--arm", "sqrt_lr"], (1024, 32, 8192, "decided")),
    ],
)
def test_published_studies_have_the_settings_of_their_cards(capsys, name: str, words: list[str], expected: tuple):
    answer = found(capsys, PUBLISHED[name].root, *words)
    assert (answer.num_envs, answer.horizon, answer.batch_size, answer.state) == expected


# --- Bad input ---------------------------------------------------------------------------------------------------------


def test_only_an_axis_that_was_swept_has_a_value(tmp_path: Path):
    root = decided(tmp_path, fps_trials(PLATEAU)).root
    told(lambda: best(root, "--only", "horizon"), "was not swept, and is 8 in every trial", "Swept: num_envs")
    told(lambda: best(root, "--only", "num_env"), "did you mean 'num_envs'?", "num_envs, horizon, batch_size")


def test_the_librarys_batch_was_not_swept(tmp_path: Path):
    trials = fps_trials(PLATEAU, batch_size=None)
    root = decided(
        tmp_path, trials, throughput={"num_envs": [16, 32, 64], "horizon": [8], "batch_size": "library"}
    ).root
    told(lambda: best(root, "--only", "batch_size"), "is the library's own in every trial")


def test_a_folder_without_a_verdict_says_how_to_get_one(tmp_path: Path):
    folder = write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU))
    told(lambda: best(folder.root), "holds no verdict.json yet", "envknee verdict")
    told(lambda: best(tmp_path / "none"), "no verdict.json and no study.json")


@pytest.mark.parametrize("aim", ["soonest", "cheapest"])
def test_without_learning_nothing_learns_soonest(tmp_path: Path, aim: str):
    root = decided(tmp_path, fps_trials(PLATEAU)).root
    told(lambda: best(root, "--for", aim), f"--for {aim}", "no learning trials", "--for fps")


def test_the_memory_of_a_cpu_says_nothing_of_a_gpu(tmp_path: Path):
    root = decided(tmp_path, fps_trials(PLATEAU)).root
    told(lambda: best(root, "--gpu", "24GB"), "ran on a CPU")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x", "--gpu", "24"], "'24' has no unit: write 24GB, 24GiB or 24MiB"),
        (["x", "--gpu", "24TB"], "expected the unit GB, GiB, MB or MiB"),
        (["x", "--gpu", "much"], "expected a size with its unit"),
        ([], "expected the folder of a study, or --task"),
        (["x", "--task", "T"], "expected the folder of a study, or --task"),
        (["x", "--on", "H200"], "--on goes with --task"),
        (["x", "--only", "num_envs", "--format", "json"], "take --format out"),
    ],
)
def test_options_that_do_not_go_together_are_named(capsys, words: list[str], message: str):
    with pytest.raises(SystemExit) as error:
        best(*words)
    assert error.value.code == EXIT_USER_ERROR and message in capsys.readouterr().err


def test_nothing_in_a_drill_is_an_answer(tmp_path: Path):
    trials = fps_trials(PLATEAU)
    folder = decided(tmp_path, trials)
    verdict = decide(records_of(trials), a_study()).model_copy(update={"drill": "huge actions"})
    folder.verdict.write_text(canonical_json(verdict), encoding="utf-8")
    told(lambda: best(folder.root), "is a drill (huge actions)")
    answers.keep_answers(verdict, records_of(trials))
    assert answers.stored_answers() == []


# --- The store of answers ----------------------------------------------------------------------------------------------

TASK = "Isaac-Cartpole-Camera-Direct"


def keep(trials: list[Trial], *arms: str, **sections: Any) -> None:
    study = a_study(arms={arm: {} for arm in arms or ("stock",)}, **sections)
    answers.keep_answers(decide(records_of(trials), study), records_of(trials))


def test_the_report_of_a_study_keeps_its_answer(tmp_path: Path):
    root = decided(tmp_path, fps_trials(PLATEAU, device=GPU)).root
    run_main(draw.main, root)
    run_main(report.main, root)
    (kept,) = answers.stored_answers()
    assert (kept.study, known(kept.best).num_envs) == ("demo", 32)


def test_the_report_of_an_archive_of_somebody_else_keeps_nothing(tmp_path: Path):
    root = decided(tmp_path / "results/archives", fps_trials(PLATEAU, device=GPU)).root
    run_main(draw.main, root)
    run_main(report.main, root)
    assert root.parent.name == "archives" and answers.stored_answers() == []


def later(trials: list[Trial], seconds: float) -> list[Trial]:
    return [trial.ended(started_unix_s=trial.outcome.started_unix_s + seconds) for trial in trials]


def test_a_stored_answer_is_found_by_task_and_says_how_old_it_is(state: Path, capsys):
    twelve_days_ago = time.time() - 12 * 86_400 - 1_700_000_000.0
    keep(later(fps_trials(PLATEAU, device=GPU), twelve_days_ago))
    (path,) = (state / "envknee/answers").iterdir()
    assert path.stat().st_mode & 0o077 == 0, "it holds the command that was measured"
    assert path.name.startswith(f"{TASK}-rsl-rl-NVIDIA-H100-80GB-HBM3-stock-throughput-")
    assert best("--task", TASK, "--on", "h100", "--only", "num_envs") == 0
    printed = capsys.readouterr()
    assert printed.out == "32\n"
    assert "measured 12 days ago on NVIDIA H100 80GB HBM3 (study demo, arm stock" in printed.err
    assert "torch 2.13.0 (here " in printed.err, "this environment has another one"


def test_without_on_the_answer_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    keep(fps_trials(PLATEAU, device=GPU))
    told(lambda: best("--task", TASK), "no answer for", "one for NVIDIA H100 80GB HBM3", "--on")
    told(lambda: best("--task", "Isaac-Cartpole-Camera-Drect"), "no answer for the task", f"did you mean '{TASK}'?")
    monkeypatch.setattr(command, "device_name", lambda: GPU.name)
    assert best("--task", TASK) == 0


def test_a_newer_answer_replaces_an_older_one_and_not_the_other_way_round(state: Path, capsys):
    newer = later(fps_trials({size: PLATEAU[size] for size in (32, 64)}, device=GPU), 1e6)
    keep(newer)
    keep(fps_trials(PLATEAU, device=GPU))
    assert len(list((state / "envknee/answers").iterdir())) == 1
    (kept,) = answers.stored_answers()
    assert kept.measured_unix_s > 1_700_900_000.0


def test_other_devices_versions_and_arms_have_files_of_their_own(state: Path):
    other = Device(type="cuda", name="NVIDIA L40S", uuid="GPU-2", memory_gb=48.0)
    keep(fps_trials(PLATEAU, device=GPU))
    keep(fps_trials(PLATEAU, device=other))
    keep([trial.on(packages={"torch": "2.14.0"}) for trial in fps_trials(PLATEAU, device=GPU)])
    keep(fps_trials(PLATEAU, arm="lean", device=GPU), "lean")
    assert len(list((state / "envknee/answers").iterdir())) == 4
    told(lambda: best("--task", TASK, "--on", "nvidia h100"), "2 arms", "stock", "lean")
    told(lambda: best("--task", TASK, "--on", "nvidia", "--arm", "stock"), "several answers", "L40S")


def test_an_undecided_study_is_not_kept(state: Path):
    keep(fps_trials(OPEN, device=GPU))
    assert not state.exists()


def test_a_home_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(answers.STATE, str(tmp_path / "file"))
    keep(fps_trials(PLATEAU, device=GPU))
    assert "the answer is not kept for `envknee best --task`" in capsys.readouterr().err


def test_a_file_that_is_no_answer_is_named_and_left_out(state: Path, capsys):
    keep(fps_trials(PLATEAU, device=GPU))
    (state / "envknee/answers/broken.json").write_text("{")
    assert len(answers.stored_answers()) == 1
    assert "broken.json is not a whole, valid Answer" in capsys.readouterr().err


def test_a_relative_state_folder_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(answers.STATE, "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert answers.store() == tmp_path / ".local/state/envknee/answers"


@pytest.mark.parametrize(("seconds", "words"), [(60, "1 minute"), (7200, "2 hours"), (12 * 86_400, "12 days")])
def test_an_age_is_said_in_one_unit(seconds: float, words: str):
    assert age_words(seconds) == words
