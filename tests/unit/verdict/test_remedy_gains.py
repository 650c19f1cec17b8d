"""What each remedy buys beside a baseline: more environments that fit, FPS, and the advice that follows."""

from collections.abc import Sequence

import numpy
import pytest
from envknee.decide.settings import arm_settings
from envknee.decide.study import decide
from envknee.record.schema import Status
from envknee.study.model import Decide
from envknee.verdict import memory_limit, remedies
from envknee.verdict.memory_sample import Sample
from envknee.verdict.schema.levers import Remedies, Remedy
from envknee.verdict.schema.memory import MemoryLimit, MemoryWall
from envknee.words.remedies import remedies_notes, remedies_statement, remedy_statement
from envknee.words.sentences import sentences
from records import CPU, GPU, Trial, a_study, a_trial, known, records_of

CARD = GPU.model_copy(update={"memory_gb": 8.0})
PX = {"env.scene.tiled_camera.width": 128, "env.scene.tiled_camera.height": 128}
CAP = {"memory_cap_gb": 8}
ARMS = {
    "baseline": {"gpus": 1, "memory": CAP},
    "lean": {"gpus": 1, "memory": CAP, "observations": "lean"},
    "segments": {"gpus": 1, "memory": {**CAP, "expandable_segments": True}},
    "cleared": {"gpus": 1, "memory": {**CAP, "clear_cache_every": 1}},
    "128-pixels": {"gpus": 1, "memory": CAP, "overrides": PX},
    "one-camera": {"gpus": 1, "memory": CAP, "overrides": {"presets": "one_camera"}},
}
GB_AND_FPS = {
    "baseline": (0.2, 1000.0),
    "lean": (0.04, 1200.0),
    "segments": (0.2, 1000.0),
    "cleared": (0.2, 500.0),
    "128-pixels": (0.0125, 4000.0),
    "one-camera": (0.12, 1500.0),
}
"""GB per environment beyond the first one, and FPS at 8 environments."""


def trials(noise: float = 0.01, repeats: int = 2, device=CARD, sizes=(8, 16, 32, 64)) -> list[Trial]:
    """Return throughput trials of each arm; what needs more than 8 GB is out of memory."""
    made = []
    for arm, (gb, fps) in GB_AND_FPS.items():
        for repeat in range(repeats):
            for num_envs in sizes:
                peak_gb = 1.0 + gb * num_envs
                wobble = 1.0 + noise * (repeat - (repeats - 1) / 2)
                made.append(a_trial(
                    num_envs, number=len(made), arm=arm, repeat=repeat, horizon=16, batch_size=None, gpus=1, device=device,
                    fps=fps * num_envs / 8 * wobble, memory_gb=peak_gb * (1.0 + noise * (repeat - 0.5) * (num_envs / 16 - 0.5)),
                    status="oom" if peak_gb > 8.0 else None,
                ))  # fmt: skip
    return made


def study(**decided):
    sweep = {"num_envs": [8, 16, 32, 64], "horizon": 16, "batch_size": "library", "repeats": 2}
    return a_study(arms=ARMS, throughput=sweep, decide={"baseline": "baseline", **decided})


def found_in(measured: list[Trial], **decided) -> Remedies:
    return known(decide(records_of(measured), study(**decided)).remedies)


def named(advice: Remedies) -> dict[str, Remedy]:
    return {remedy.arm: remedy for remedy in advice.remedies}


def limit_of(tried: Sequence[tuple[int, Status, float | None]]) -> MemoryLimit:
    """Return the memory limit on 8 GB of trials: num_envs, status and peak of each."""
    samples = [
        Sample(num_envs=n, horizon=16, batch_size=None, mini_batches=16, status=status, peak_gb=peak_gb)
        for n, status, peak_gb in tried
    ]
    return memory_limit.limit_of(samples, 8.0, Decide())


def test_each_remedy_is_judged_by_what_fits_and_by_fps_the_best_first():
    advice = found_in(trials())
    assert [remedy.arm for remedy in advice.remedies] == ["128-pixels", "lean", "one-camera", "cleared", "segments"]
    # (8 x 0.95 - 1) GB / GB per environment: 33 of the baseline, 165, 528 and 55 of those that need less.
    by_arm = named(advice)
    for name, more in {"lean": 4.0, "128-pixels": 15.0, "one-camera": 2 / 3}.items():
        assert known(by_arm[name].fits).value == pytest.approx(more, rel=0.05)
    for remedy in advice.remedies:
        assert remedy.fits is not None and remedy.fits.lower is not None and remedy.fits.upper is not None
        assert remedy.fits.lower <= remedy.fits.value <= remedy.fits.upper
        assert remedy.at_num_envs == 32  # the largest that both were timed at
    # 64 environments fitted in the first two; that one camera makes room the models of three sizes say.
    assert {remedy.arm: (remedy.room, remedy.shown_at, known(remedy.fps).shown) for remedy in advice.remedies} == {
        "128-pixels": ("more", 64, "more"), "lean": ("more", 64, "more"), "one-camera": ("more", None, "more"),
        "cleared": ("not shown", None, "less"), "segments": ("not shown", None, "not shown"),
    }  # fmt: skip
    assert known(by_arm["cleared"].fps).value == pytest.approx(-0.5)
    assert by_arm["128-pixels"].extrapolated and not by_arm["one-camera"].extrapolated


def test_what_an_arm_differs_in_is_told_and_whether_it_is_the_same_task():
    remedies = named(found_in(trials()))
    differing = {arm: {part.name: part.value for part in remedy.differs_in} for arm, remedy in remedies.items()}
    assert differing == {
        "lean": {"observations": "lean"}, "segments": {"memory.expandable_segments": True},
        "cleared": {"memory.clear_cache_every": 1}, "128-pixels": PX, "one-camera": {"presets": "one_camera"},
    }  # fmt: skip
    assert {remedy.settings_changed for remedy in remedies.values()} == {1}, "width and height are one"
    assert {arm for arm, remedy in remedies.items() if remedy.same_task} == {"lean", "segments", "cleared"}
    assert "segments (memory.expandable_segments: true): " in remedy_statement(remedies["segments"])


def test_the_advice_takes_first_what_leaves_the_task_as_it_is():
    advice = found_in(trials())
    card, *sentences = remedies_statement(advice).split(". ")
    assert card.startswith("On 8 GB baseline fits 33 environments (3") and card.endswith("at horizon 16, library batch")
    same_task = "More fit without changing the task: lean (64 fit where the baseline ran out of memory; "
    assert sentences[0].startswith(same_task) and sentences[0].endswith(" times as many; FPS +20% at 32)")
    assert sentences[1].startswith("Still more fit with a changed task: 128-pixels (")
    assert ", one-camera (" in sentences[1] and sentences[1].endswith("; look whether it still learns")
    assert sentences[2].startswith("Not shown to make room: cleared (") and "FPS -50% at 32), segments" in sentences[2]
    assert remedies_notes(advice) == []
    wall = known(advice.baseline_wall)
    assert (advice.device_memory_gb, wall.largest_num_envs, wall.largest_fitted) == (8.0, 33, 32)


def test_single_repeats_of_two_sizes_show_nothing():
    advice = found_in(trials(repeats=1, sizes=(8, 16)))
    assert {(remedy.room, known(remedy.fps).shown) for remedy in advice.remedies} == {("not shown", "not shown")}
    lean = named(advice)["lean"]
    assert (known(lean.fits).lower, known(lean.fits).upper) == (None, None)
    assert "times, no interval" in remedy_statement(lean)


def test_two_sizes_that_fitted_show_no_more_room_than_what_ran_out_of_memory_shows():
    advice = found_in(trials(noise=0.001, repeats=2, sizes=(8, 16, 64)))
    remedies = named(advice)
    # The baseline fitted 8 and 16: how far its model is off from 16 to 33 nothing tells.
    fits = [known(remedy.fits) for remedy in advice.remedies]
    assert all(ratio.lower is None and ratio.upper is None for ratio in fits)
    assert {name: (remedy.room, remedy.shown_at) for name, remedy in remedies.items()} == {
        "128-pixels": ("more", 64), "lean": ("more", 64), "one-camera": ("not shown", None), "cleared": ("not shown", None),
        "segments": ("not shown", None),
    }  # fmt: skip
    said = remedies_statement(advice)
    assert said.startswith("On 8 GB baseline fits 33 environments (no interval) at horizon 16, library batch.")
    assert (
        "lean (64 fit where the baseline ran out of memory; 5.00 times as many, no interval; FPS +20% at 16)." in said
    )
    assert "Not shown to make room: one-camera (1.67 times as many, no interval; FPS +50% at 16), " in said
    assert "(5.00 times, no interval); 64 fit where the baseline ran out of memory; " in remedy_statement(
        remedies["lean"]
    )


def test_what_fits_the_baseline_alone_shows_less_room():
    lean = study().model_copy(update={"decide": study(baseline="lean").decide})
    measured = trials(sizes=(8, 16, 64))
    advice = known(decide(records_of(measured), lean).remedies)
    baseline = named(advice)["baseline"]
    assert (baseline.room, baseline.shown_at) == ("less", 64)
    assert "ran out of memory with 64, which fit the baseline" in remedy_statement(baseline)
    assert "Makes less room: " in remedies_statement(advice)


@pytest.mark.parametrize(
    ("own", "other", "shown"),
    [
        ({64: "ok"}, {8: "ok", 64: "oom"}, 64),
        ({256: "ok"}, {64: "oom", 128: "oom"}, 64),
        ({32: "ok"}, {64: "oom"}, None),  # 64 was not tried
        ({64: "ok"}, {64: "refused"}, None),  # refused is not measured
        ({64: "ok"}, {16: "oom", 32: "ok"}, None),  # 32 fitted: the failure of 16 was something else's
        ({64: "ok", 32: "oom"}, {32: "oom"}, None),
        ({128: "ok", 64: "oom"}, {32: "oom"}, 32),
    ],
)
def test_trials_show_what_fits_where_they_do_not_contradict_each_other(own, other, shown):
    (fitting,), (failing,) = (
        limit_of([(n, status, 1.0 if status == "ok" else None) for n, status in tried.items()]).walls
        for tried in (own, other)
    )
    assert remedies.shown_at(fitting, failing) == shown


def test_an_arm_of_several_settings_and_one_without_trials_are_told():
    both = {**ARMS["lean"], "memory": {**CAP, "mixed_precision": True}}
    arms = {**ARMS, "lean": both}
    measured = [trial for trial in trials() if trial.request.arm != "segments"]
    verdict = decide(records_of(measured), study().model_copy(update={"arms": a_study(arms=arms).arms}))
    assert verdict.remedies is not None and "segments" not in named(verdict.remedies)
    assert named(verdict.remedies)["lean"].settings_changed == 2
    (note,) = remedies_notes(verdict.remedies)
    assert note.startswith("lean differs from baseline in several settings")


def test_other_memory_is_not_compared():
    measured = [trial.on(device=GPU) if trial.request.arm == "lean" else trial for trial in trials()]
    lean = named(found_in(measured))["lean"]
    assert lean.fits is None and lean.room == "not measured" and lean.fps is not None


def test_without_a_baseline_or_where_it_never_fits_there_is_nothing_to_compare():
    measured = [trial for trial in trials() if trial.request.arm != "baseline"]
    failed = [a_trial(8, number=99, arm="baseline", horizon=16, batch_size=None, gpus=1, device=CARD, status="oom")]
    assert decide(records_of([*measured, *failed]), study()).remedies is None
    assert decide(records_of(trials()), study(baseline=None)).remedies is None


def test_where_memory_is_far_from_binding_the_advice_says_so():
    small = [trial for trial in trials() if trial.request.num_envs < 64]
    said = "On 85 GB memory is far from binding with baseline at horizon 16, library batch: at most 32 env"
    advice = found_in([trial.on(device=GPU) for trial in small])
    assert known(advice.baseline_wall).is_far_beyond and remedies_statement(advice).startswith(said)


def test_on_a_cpu_the_advice_says_what_memory_is():
    (note,) = remedies_notes(found_in(trials(device=CPU.model_copy(update={"memory_gb": 8.0}))))
    assert note.startswith("on the CPU memory is the process's resident set")


def test_the_terminal_lists_them():
    advice, first, *_ = sentences(decide(records_of(trials()), study()))[-1][1]
    assert advice[0] == "advice" and advice[1].startswith("On 8 GB baseline fits 33")
    assert first[1].startswith("128-pixels (env.scene.tiled_camera.width: 128")


def test_differences_of_arms():
    arms = {name: arm_settings(arm) for name, arm in a_study(arms=ARMS).arms.items()}
    assert remedies.differences(arms["baseline"], arms["128-pixels"]) == dict.fromkeys(PX)
    assert remedies.differences(arms["lean"], arms["lean"]) == {}


def test_intervals_hold_the_truth_and_nothing_is_shown_where_nothing_differs():
    random = numpy.random.default_rng(1)

    def wall(gb_per_env: float) -> MemoryWall:
        sizes = (8, 8, 16, 16, 32, 32)
        peaks = [(1.0 + gb_per_env * n) * float(numpy.exp(0.01 * random.normal())) for n in sizes]
        (fitted,) = limit_of([(n, "ok", peak) for n, peak in zip(sizes, peaks, strict=True)]).walls
        return fitted

    held = wrong = 0
    for _ in range(40):
        same, twice = remedies.ratio(wall(0.2), wall(0.2)), remedies.ratio(wall(0.1), wall(0.2))
        assert same is not None and twice is not None
        assert None not in (same.lower, same.upper, twice.lower, twice.upper)
        wrong += not same.lower <= 0.0 <= same.upper
        held += twice.lower <= 1.0 <= twice.upper
    # Chances of 95%: fewer than 34 of 40 come in under 1% of such tests.
    assert held >= 34 and wrong <= 6
