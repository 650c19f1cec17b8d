"""The verdict: one recommendation per arm, the limit that binds, and the files of the command."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from batch_data import three, trials_of
from envknee.decide import study as verdict
from envknee.decide.read import load_study
from envknee.decide.records_csv import records_csv
from envknee.decide.study import decide
from envknee.record.schema import Failure, Phase, Status
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict import hardware
from envknee.verdict.schema.headline import Headline
from envknee.verdict.schema.study import ArmVerdict
from envknee.words.headline import headline_statement, hours_saved, what_would_move_it, why_there
from envknee.words.machines import arm_notes
from fps_data import fps_of
from phase_data import LAWS, Laws, at
from programs import run_main
from records import (
    CPU,
    GPU,
    PLATEAU,
    Trial,
    a_study,
    a_trial,
    fps_trials,
    known,
    learning_trials,
    phase_trials,
    records_of,
    write_study,
)

CLIMB = {16: [100.0, 101.0, 102.0], 32: [190.0, 191.0, 192.0], 64: [380.0, 381.0, 382.0]}


def the_arm(trials: list[Trial], study: Study | None = None) -> ArmVerdict:
    (arm,) = decide(records_of(trials), study or a_study()).arms
    return arm


def the_headline(trials: list[Trial], study: Study | None = None) -> Headline:
    return known(the_arm(trials, study).headline)


def advice(arm: ArmVerdict) -> str:
    return what_would_move_it(arm, known(arm.headline))


def test_reached_recommends_the_threshold_of_the_fastest_series():
    slow = {size: [0.5 * fps for fps in values] for size, values in CLIMB.items()}
    arm = the_arm([*fps_trials(PLATEAU, horizon=16, memory_gb=2.53), *fps_trials(slow, horizon=8, first=20)])
    headline = known(arm.headline)
    assert (headline.state, headline.threshold_num_envs, headline.binds) == ("reached", 32, "throughput")
    assert (headline.num_envs, headline.horizon, headline.batch_size) == (32, 16, 128)
    assert headline.fps == pytest.approx(191.0, rel=1e-4)
    assert headline.fps_share_of_best == pytest.approx(191 / 194, rel=1e-4)
    assert (headline.memory_peak_gb, headline.memory_share) == (2.53, pytest.approx(0.1))
    said = "run 32 environments, horizon 16, batch 128: 191 FPS, 98% of the best seen; 2.53 GB, 10% of the memory"
    assert headline_statement(arm, headline) == said


@pytest.mark.parametrize(
    ("fps", "state", "num_envs", "more", "words"),
    [
        (CLIMB, "still pays", 64, "environments", "Measure 128 environments: doubling 32 still gained"),
        ({16: [100.0], 32: [180.0], 64: [150.0]}, "undecided", 32, "repeats",
         "Measure more repeats (about 2 more): doubling 32 gains -16.7%, but its upper bound is unknown with one repeat."),
        ({16: [100, 101, 99], 32: [190, 191, 192], 64: [185, 215, 180]}, "undecided", 64, "repeats",
         "Measure more repeats (about 52 more): doubling 32 gains"),
    ],
    ids=["still pays", "falling FPS do not recommend the slowest", "noise"],
)  # fmt: skip
def test_what_is_not_decided_asks_for_more(
    fps: dict[int, list[float]], state: str, num_envs: int, more: str, words: str
):
    arm = the_arm(fps_trials(fps))
    headline = known(arm.headline)
    assert (headline.state, headline.num_envs, headline.binds) == (state, num_envs, f"more_{more}")
    kind, size = ("size", 128) if more == "environments" else ("repeats", 32)
    measurement = known(headline.next_measurement)
    assert (measurement.kind, measurement.num_envs) == (kind, size)
    assert advice(arm).startswith(words) and headline.fps_share_of_best == 1.0


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("nan", "once they no longer become NaN or infinite"),
        ("diverged", "once learning no longer diverges there"),
        ("timeout", "with a larger throughput.limit_s"),
    ],
)
def test_what_was_tried_in_vain_is_not_simply_asked_for(status: Status, words: str):
    tried = [*fps_trials(CLIMB), a_trial(128, number=20, status=status)]
    arm = the_arm(tried)
    measurement = known(known(arm.headline).next_measurement)
    assert (measurement.num_envs, measurement.after, measurement.ended) == (128, "doubling_gains", status)
    assert known(arm.headline).num_envs == 64
    assert advice(arm).startswith(f"Measure 128 environments again, {words} (")
    assert ": doubling 32 still gained" in advice(arm)
    one_of_two = the_arm([*tried, a_trial(128, number=21, fps=395.0)])
    assert "environments again" not in advice(one_of_two)


def test_a_point_whose_simulation_was_wrong_carries_no_verdict_and_is_named():
    fast = fps_trials({128: [9000.0, 9001.0, 9002.0]}, first=9, status="invalid")
    failure = Failure(iteration=None, tensor="simulation", env_indices=[], dump=None)
    reason = "MuJoCo-Warp dropped contacts or constraints"
    wrong = [trial.ended(failure=failure, reason=reason) for trial in fast]
    verdict = decide(records_of([*fps_trials(PLATEAU), *wrong]), a_study())
    (arm,), (limit,) = verdict.arms, verdict.arms[0].throughput
    assert known(arm.headline).num_envs == 32
    assert 128 not in [point.num_envs for point in limit.points if point.fps_repeats], "its FPS decide nothing"
    assert limit.state == "reached" and [broken.reason for broken in verdict.broken] == [reason]


LEAN = a_study(arms={"stock": {"gpus": 0, "observations": "lean"}})


def test_memory_binds_when_the_next_doubling_failed_or_cannot_fit():
    failed = [*fps_trials(CLIMB), a_trial(128, number=20, status="oom")]
    stock, lean = the_arm(failed), the_arm(failed, LEAN)
    headline = known(stock.headline)
    assert (headline.num_envs, headline.binds, headline.next_measurement) == (64, "memory", None)
    assert (headline.is_lean, known(lean.headline).is_lean) == (False, True)
    assert "make room" in advice(stock) and "observations: lean" in advice(stock)
    assert "make room" in advice(lean) and "lean" not in advice(lean), (
        "an arm with lean frames is not told to have them"
    )
    each = [fps_trials({n: fps}, first=n, memory_gb=0.2 * n + 2.0, device=CPU) for n, fps in CLIMB.items()]
    # 64 environments take 14.8 of 25.3 GB; 128 would take 27.6.
    assert the_headline([trial for trials in each for trial in trials]).binds == "memory"


def test_a_point_that_leaves_no_margin_or_failed_once_is_not_recommended():
    full = [*fps_trials({16: CLIMB[16], 32: CLIMB[32]}), *fps_trials({64: CLIMB[64]}, first=10, memory_gb=25.0)]
    arm = the_arm(full)
    headline = known(arm.headline)
    assert (headline.num_envs, headline.wanted_num_envs, headline.binds) == (32, 64, "memory")
    assert why_there(arm, headline).startswith("64 environments would leave less memory free")
    roomy = a_study(decide={"memory_margin": 0.0})
    assert the_headline(full, roomy).num_envs == 64
    flaky = [*fps_trials(CLIMB), a_trial(64, number=20, status="oom")]
    assert the_headline(flaky).num_envs == 32


def test_learning_binds_when_it_stops_paying_first():
    learned = learning_trials({16: [20.0, 20.1, 20.2], 32: [20.0, 20.1, 20.2]}, first=20)
    arm = the_arm([*fps_trials(CLIMB), *learned])
    headline = known(arm.headline)
    assert headline.binds == "learning" and known(arm.soonest)[1].num_envs == 16
    assert headline.seconds_to_target is None
    assert "soonest to the target: 16 environments, horizon 8, batch 128 in 20.1 s" in headline_statement(arm, headline)


def test_learning_that_stops_paying_at_another_horizon_binds_nothing_here():
    flat = learning_trials({16: [20.0, 20.1, 20.2], 32: [20.0, 20.1, 20.2]}, first=20, horizon=4)
    steep = learning_trials({16: [19.0, 19.1, 19.2], 32: [9.0, 9.1, 9.2]}, first=40)
    arm = the_arm([*fps_trials(CLIMB), *flat, *steep])
    assert [limit.threshold_num_envs for limit in arm.learning] == [16, None]
    assert known(arm.headline).binds == "more_environments"


def test_time_to_target_at_the_recommended_point():
    headline = the_headline([*fps_trials(CLIMB), *learning_trials({64: [10.0, 11.0, 12.0]}, first=20)])
    assert known(headline.seconds_to_target).value == pytest.approx(11.0)


def test_resuming_gains_stand_beside_the_recommendation():
    arm = the_arm(fps_trials({**PLATEAU, 128: [290.0, 291.0, 292.0]}))
    headline = known(arm.headline)
    assert (headline.num_envs, headline.binds) == (32, "throughput")
    said = "the throughput threshold of the fastest series, though doubling gains again from 64"
    assert why_there(arm, headline) == said
    assert advice(arm).startswith("Doubling 64 environments gains again: measure more repeats there")


def test_nothing_measured_all_failed_and_learning_alone():
    nothing = the_arm([])
    assert (nothing.headline, nothing.throughput, nothing.memory) == (None, [], None)
    assert nothing.trials == 0 and arm_notes(nothing) == ["no trial of this arm is finished"]
    failed = the_arm([a_trial(64, status="oom"), a_trial(128, number=1, status="refused")])
    assert (failed.headline, failed.throughput[0].state) == (None, "no data")
    alone = the_arm(learning_trials({16: [10.0]}))
    assert alone.headline is None and alone.learning[0].best is not None


def test_arms_are_judged_apart_in_the_order_of_the_study():
    study = a_study(arms={"stock": {}, "lean": {}})
    trials = [*fps_trials(PLATEAU, arm="lean"), *fps_trials(CLIMB, arm="stock", first=20, device=GPU)]
    verdict = decide(records_of(trials), study)
    assert [arm.arm for arm in verdict.arms] == ["stock", "lean"]
    assert [arm.headline.state for arm in verdict.arms if arm.headline] == ["still pays", "reached"]
    assert verdict.arms[0].hardware == ["NVIDIA H100 80GB HBM3 (85.0 GB)"]
    assert verdict.arms[1].hardware == ["AMD EPYC (2 cores, 25.3 GB)"]


def test_mixed_hardware_is_said():
    trials = [*fps_trials(CLIMB), a_trial(16, number=50, device=GPU)]
    assert arm_notes(the_arm(trials)) == ["measured on 2 kinds of hardware: FPS across them are not comparable"]


def test_whole_verdict_is_plain_json_and_independent_of_the_order():
    trials = [
        *fps_trials({16: [1.0, 190.0], 32: [100.0, 0.1], 64: [100.0]}),
        *phase_trials({n: [at(n), at(n, COSTLY)] for n in (64, 128, 256)}, horizon=16, first=30),
        *fps_trials({32: [170.0, 172.0], 64: [190.0, 194.0]}, arm="two", cpu_ranks=2, gpus=0, first=40),
        *trials_of(three(), first=50),
        *learning_trials({16: [None, 3.0], 32: [None, None]}, first=10),
        a_trial(128, number=20, status="oom"),
        a_trial(128, number=21, status="refused"),
        a_trial(16, number=22, kind="learning", status="nan"),
    ]
    study = a_study(arms={"stock": {"gpus": 0}, "two": {"gpus": 0, "cpu_ranks": 2}})
    text = canonical_json(decide(records_of(trials), study))
    assert text == canonical_json(decide(records_of(trials[::-1]), study))
    plain = json.loads(text)
    assert (plain["trials_measured"], plain["trials_planned"]) == (37, 30)
    assert plain["statuses"] == {"nan": 1, "ok": 15, "oom": 1, "refused": 1, "target_reached": 16, "timeout": 3}
    assert verdict.Verdict.model_validate_json(text) == decide(records_of(trials), study)
    stock = plain["arms"][0]
    assert all(stock[part] for part in ("throughput", "learning", "memory", "batch", "phases"))
    assert plain["scaling"][0]["points"]


def test_csv_has_a_line_per_trial_and_empty_cells_for_what_was_not_measured():
    trials = [a_trial(32, number=1, status="refused"), a_trial(16, number=0, fps=250.0, batch_size=None)]
    first, second = csv.DictReader(io.StringIO(records_csv(records_of(trials))))
    assert (first["number"], first["num_envs"], first["batch_size"], first["status"]) == ("0", "16", "library", "ok")
    assert (float(first["fps_total"]), float(first["memory_peak_gb"])) == (250.0, 1.0)
    assert (second["status"], second["reason"]) == ("refused", "it ended as refused")
    assert [second[name] for name in ("fps_total", "memory_peak_gb", "device", "seconds_to_target")] == ["", "", "", ""]


def test_several_gpus_are_told_per_gpu_and_their_fps_together():
    arms = {"two": {"gpus": 2}, "ranks": {"gpus": 0, "cpu_ranks": 4}}
    trials = [
        *fps_trials(PLATEAU, arm="two", gpus=2, device=GPU, memory_gb=8.5),
        *fps_trials(CLIMB, arm="ranks", gpus=0, cpu_ranks=4, first=20),
    ]
    two, ranks = decide(records_of(trials), a_study(arms=arms)).arms
    assert (two.world_size, two.rank_word, ranks.world_size, ranks.rank_word) == (2, "GPU", 4, "rank")
    assert two.hardware == ["2 x NVIDIA H100 80GB HBM3 (85.0 GB each)"]
    assert ranks.hardware == ["AMD EPYC (2 cores, 25.3 GB; 4 ranks)"]
    on_gpus, on_cpu = known(two.headline), known(ranks.headline)
    assert headline_statement(two, on_gpus) == (
        "run 32 environments per GPU, horizon 8, batch 128: 191 FPS on 2 GPUs, 98% of the best seen;"
        " 8.50 GB, 10% of the memory per GPU"
    )
    assert headline_statement(ranks, on_cpu).startswith(
        "run 64 environments per rank, horizon 8, batch 128: 381 FPS on 4 ranks"
    )
    assert advice(ranks).startswith("Measure 128 environments per rank: ")


def test_what_would_move_several_gpus():
    # t = 0.1 s + 1 ms N on each of two GPUs.
    fps = {n: [fps_of(n, 2) * noise for noise in (0.999, 1.0, 1.001)] for n in (64, 128, 256, 512, 1024)}
    arm = the_arm(fps_trials(fps, gpus=2, device=GPU), a_study(arms={"stock": {"gpus": 2}}))
    start = "An iteration costs 1 ms per environment of each GPU, so no number of them exceeds about 16,0"
    assert advice(arm).startswith(start)
    assert " FPS on 2 GPUs: make each one cheaper" in advice(arm)


def test_gpus_are_told_apart_where_they_differ():
    mixed = a_trial(16, gpus=2, device=GPU).on_gpus(GPU, GPU.model_copy(update={"name": "NVIDIA H200"})).record
    assert hardware.hardware([mixed]) == ["NVIDIA H100 80GB HBM3 (85.0 GB) + NVIDIA H200 (85.0 GB)"]
    broke = a_trial(16, gpus=2, device=GPU, status="oom").record
    assert hardware.hardware([broke]) == ["2 x NVIDIA H100 80GB HBM3 (85.0 GB each)"], "one rank stands for all"
    simulating = a_trial(16, gpus=1, device=GPU)
    for name, words in {
        GPU.name: ["2 x NVIDIA H100 80GB HBM3 (85.0 GB each)"],
        "NVIDIA H200": ["NVIDIA H100 80GB HBM3 (85.0 GB) simulating + NVIDIA H200 (85.0 GB) learning"],
    }.items():
        pipeline = simulating.ended(learner_device=GPU.model_copy(update={"name": name}))
        assert hardware.hardware([pipeline.record]) == words


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\r=1"])
def test_csv_holds_no_formula(text):
    record = a_trial(16).ended(reason=text).record
    odd = record.model_copy(update={"metrics": {text: record.fps_total}})
    (row,) = csv.DictReader(io.StringIO(records_csv([odd]), newline=""))
    safe = "'" + text.replace("\r", " ")
    assert row["reason"] == safe and safe in row and row["number"] == "0"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("ended \x1b]0;owned\x07 by \x1b[2Jitself", "ended ]0;owned by [2Jitself"),
        ("\x1b=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("\u202e+1", "'+1"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_csv_holds_nothing_that_steers_a_terminal(text: str, cell: str):
    (row,) = csv.DictReader(io.StringIO(records_csv([a_trial(16).ended(reason=text).record]), newline=""))
    assert row["reason"] == cell


def test_csv_tells_ranks_apart():
    ranks = a_trial(16, number=1, fps=500.0, gpus=2, device=GPU, slowdown=(1.0, 1.25))
    alone, together = csv.DictReader(io.StringIO(records_csv(records_of([a_trial(16, fps=250.0), ranks]))))
    slowest, fastest = (f"{end}_rank_fps_env_step_inference" for end in ("slowest", "fastest"))
    assert (alone["world_size"], alone["num_envs_total"], alone[slowest], alone[fastest]) == ("1", "16", "", "")
    assert (together["world_size"], together["num_envs"], together["num_envs_total"]) == ("2", "16", "32")
    # Collecting takes a third of the time: 1,500 FPS of both, 750 of the slower, which is what both are counted with.
    fps = [float(together[name]) for name in ("fps_env_step_inference", slowest, fastest)]
    assert fps == pytest.approx([1500, 750, 750 * 1.25])


# --- The command


def test_command_writes_both_files_and_decides_by_another_files_section(tmp_path: Path):
    folder = write_study(tmp_path / "demo", a_study(), fps_trials(PLATEAU))
    run_main(verdict.main, folder.root)
    assert json.loads(folder.verdict.read_text())["arms"][0]["headline"]["threshold_num_envs"] == 32
    assert len(folder.records_csv.read_text().splitlines()) == 1 + 9
    before = folder.verdict.read_bytes(), folder.records_csv.read_bytes()
    run_main(verdict.main, folder.root)
    assert (folder.verdict.read_bytes(), folder.records_csv.read_bytes()) == before
    strict = tmp_path / "strict.yaml"
    strict.write_text(canonical_json(a_study(decide={"delta": 0.01})))
    run_main(verdict.main, folder.root, "--config", strict)
    written = json.loads(folder.verdict.read_text())
    assert (written["delta"], written["arms"][0]["headline"]["state"]) == (0.01, "undecided")


def test_a_file_of_another_study_and_a_folder_without_one_are_refused(tmp_path: Path):
    folder = write_study(tmp_path / "demo", a_study(), [])
    other = tmp_path / "other.yaml"
    other.write_text(canonical_json(a_study(study="other")))
    with pytest.raises(UserError, match=r"describes study 'other', and .* holds 'demo'"):
        load_study(folder, other)
    with pytest.raises(UserError, match=r"holds no study\.json"):
        load_study(StudyFolder(tmp_path / "nothing"), None)


# --- Phases, hours saved and batch sizes in the verdict


COSTLY: Laws = {phase: (0.02 * t0, c) for phase, (t0, c) in LAWS.items()}
"""Learning costs most of each environment, and doubling stops paying at 256."""


def repeated(laws: Laws, sizes: Sequence[int]) -> list[Trial]:
    """Return three repeats of each num_envs, 0.2% apart."""
    return phase_trials(
        {n: [{phase: f * s for phase, s in at(n, laws).items()} for f in (0.998, 1.0, 1.002)] for n in sizes}
    )


def test_the_phase_that_sets_the_knee_is_named_with_its_cure():
    arm = the_arm(repeated(COSTLY, (64, 128, 256, 512, 1024)))
    assert known(arm.headline).binds == "throughput"
    assert known(arm.recommended_phases).sets_the_knee == "learning"
    assert "learning takes 50% of what each one adds. Try fewer epochs or mini-batches" in advice(arm)
    assert "no number of them exceeds about 66," in advice(arm)


@pytest.mark.parametrize(
    ("phase", "study", "cure"),
    [
        ("render", None, "a lower resolution"),
        ("observation", None, "lean frames (observations: lean), fewer frames in a stack, or less preprocessing; or add a device."),
        ("observation", LEAN, "fewer frames in a stack, or"),
    ],
)  # fmt: skip
def test_what_costs_most_of_each_environment_is_told_its_cure(phase: Phase, study: Study | None, cure: str):
    trials = repeated({**COSTLY, phase: (0.002, 3e-4)}, (64, 128, 256, 512))
    assert f"Try {cure}" in advice(the_arm(trials, study))


def test_an_iteration_that_waits_says_for_what():
    def waiting_for(phase: Phase) -> ArmVerdict:
        laws: Laws = {**LAWS, phase: (0.5, 1e-6)}
        return the_arm(phase_trials({n: [at(n, laws)] * 3 for n in (16, 32, 64)}))

    physics = waiting_for("physics")
    headline = known(physics.headline)
    waits = known(headline.waits)
    assert (headline.binds, waits.phase) == ("more_environments", "physics")
    assert (waits.share, waits.phase_share) == (pytest.approx(0.99, abs=0.005), pytest.approx(0.76, abs=0.005))
    said = "At 64 environments 99% of an iteration does not grow with their number, 76% of that in physics"
    assert said in advice(physics)
    spread = "more environments, or a longer horizon, spread it."
    assert advice(waiting_for("learning")).endswith(spread)


def test_memory_that_binds_quotes_what_was_measured_of_the_other_settings():
    trials = [
        *fps_trials(CLIMB, horizon=8),
        *fps_trials({size: [1.3 * fps for fps in values] for size, values in CLIMB.items()}, horizon=16, first=20),
        a_trial(128, number=40, horizon=16, status="oom"),
    ]
    arm = the_arm(trials)
    assert known(arm.headline).binds == "memory"
    assert "The data support longer horizon (8 to 16 at 64 environments: +30% FPS" in advice(arm)
    assert "not measured: larger batch and more GPUs." in advice(arm)


def test_the_recommended_points_hours_or_else_the_soonest_ones():
    def saves(seconds: dict[int, list[float | None]], horizon: int = 8, gpus: int = 1) -> str | None:
        trials = learning_trials(seconds, horizon=horizon, first=20, device=GPU, gpus=gpus)
        arm = the_arm([*fps_trials(PLATEAU, device=GPU), *trials])
        saved = known(arm.headline).saves
        return None if saved is None else hours_saved(saved, arm.ranks)

    less = "environments spend 0.01 GPU-hours to the target, 50% less than 64 with 0.02"
    assert saves({32: [36.0] * 3, 64: [72.0] * 3, 128: [90.0] * 3}) == f"32 {less}"
    assert saves({16: [36.0] * 2, 64: [72.0] * 2}, horizon=4) == f"16 {less}"
    more = "32 environments spend 0.025 GPU-hours to the target, 50% more than 64 with 0.0167"
    assert saves({32: [90.0] * 2, 64: [60.0] * 2}) == more
    assert "spend 0.04 GPU-hours" in (saves({32: [36.0], 64: [72.0]}, gpus=4) or "")
    # The budget of the seed that did not arrive is 60 s: a lower bound.
    assert saves({32: [36.0] * 2, 64: [50.0, None]}) == (
        "32 environments spend 0.01 GPU-hours to the target, at least 35% less than 64 with at least 0.0153"
    )
    assert "at most 32% more than 64" in (saves({32: [68.0] * 3, 64: [50.0, 50.0, None]}) or "")
    assert saves({32: [36.0, None], 64: [50.0] * 2}) is None
    on_cpu = the_headline([*fps_trials(PLATEAU), *learning_trials({32: [36.0], 64: [72.0]}, first=20)])
    saved = known(on_cpu.saves)
    assert (saved.device, saved.num_envs, saved.other_num_envs, saved.other_is_lower_bound) == ("CPU", 32, 64, False)
    assert (saved.hours, saved.other_hours, saved.saved) == pytest.approx((0.01, 0.02, 0.5))
    assert the_headline(fps_trials(PLATEAU)).saves is None
