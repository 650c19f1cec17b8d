"""Two sides, trial by trial: ratios with intervals, what is noise, which phase, and an exit status for gates."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from envknee.after.compare import print as compare
from envknee.after.compare.gate import Estimate, bound
from envknee.after.compare.ratios import compare as compared
from envknee.after.compare.ratios import stratified
from envknee.after.compare.sides import Side
from envknee.machine.schema import Image
from envknee.record.schema import PHASES, Status
from envknee.study.errors import EXIT_UNDECIDED, EXIT_WORSE, UserError
from envknee.study.paths import StudyFolder
from envknee.verdict.rule import doublings
from envknee.verdict.schema.comparison import Apart, Comparison, Difference, LeftOut, Outcome, Place, Ratio
from envknee.words import compare as words
from programs import run_main
from records import (
    CPU,
    GPU,
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

SIZES = (16, 32, 64)


def command(*words: object) -> int:
    return run_main(compare.main, *words)


def written(root: Path, *sides: list[Trial]) -> list[Path]:
    """Write a study of each side's trials, and return their folders."""
    return [write_study(root / name, a_study(), trials).root for name, trials in zip("ab", sides, strict=True)]


def noisy(factor: float, seed: int, noise: float = 0.01, repeats: int = 3) -> dict[int, list[float]]:
    rng = random.Random(seed)  # noqa: S311  # a test's noise
    return {n: [100 * n**0.5 * factor * math.exp(rng.gauss(0, noise)) for _ in range(repeats)] for n in SIZES}


def side(name: str, trials: list[Trial]) -> Side:
    return Side(name, a_study(), records_of(trials), "stock")


def found_in(a: list[Trial], b: list[Trial], margin: float = 0.05) -> Comparison:
    return compared(side("a", a), side("b", b), 0.95, margin)


def overall(comparison: Comparison, measure: str) -> Ratio:
    return next(ratio for ratio in comparison.overall if ratio.measure == measure)


def test_a_slower_side_is_shown_with_its_interval_and_is_a_regression_beyond_the_margin():
    comparison = found_in(fps_trials(noisy(1.0, 1)), fps_trials(noisy(0.9, 2)))
    fps = overall(comparison, "fps_total")
    assert known(fps.lower) < 0.9 < known(fps.upper) < 1
    assert (fps.change, fps.points, fps.pairs) == ("worse", 3, 9)
    assert comparison.gate.answer == "fail" and fps in comparison.gate.losses
    assert found_in(fps_trials(noisy(1.0, 1)), fps_trials(noisy(0.9, 2)), margin=0.2).gate.answer == "pass"
    turned = found_in(fps_trials(noisy(0.9, 2)), fps_trials(noisy(1.0, 1)))
    assert overall(turned, "fps_total").change == "better" and turned.gate.answer == "pass"


def test_two_runs_of_the_same_are_called_different_in_one_of_twenty_at_most():
    shown = 0
    for seed in range(100):
        comparison = found_in(fps_trials(noisy(1.0, seed, 0.05)), fps_trials(noisy(1.0, 1000 + seed, 0.05)))
        shown += any(ratio.change != "none shown" for ratio in comparison.overall)
    assert shown <= 10, "5 expected"


ALONE = ((2, 1, 1, 1, 1), (3, 1, 1, 1, 1, 1), (2, 1), (5, 1), (4, 2, 1))
"""Pairs of each point, of which many are alone."""


@pytest.mark.parametrize(
    ("sizes", "noise"), [((3, 3, 3), (0.01, 0.05, 0.02)), *((sizes, (0.03,) * len(sizes)) for sizes in ALONE)]
)
def test_intervals_of_few_pairs_hold_the_truth(sizes: Sequence[int], noise: Sequence[float]):
    """A pair alone borrows a variance. Counted as independent of what it borrows from, it left 77% of (2, 1, 1, 1, 1)."""
    rng = random.Random(5)  # noqa: S311
    covered = 0
    for _ in range(1500):
        pooled = stratified([[rng.gauss(0.3, sigma) for _ in range(n)] for n, sigma in zip(sizes, noise, strict=True)])
        covered += abs(pooled.mean - 0.3) <= doublings.half_width(known(pooled.variance), pooled.degrees, 0.025)
    assert 0.935 <= covered / 1500 <= 0.99, "0.95, and by Satterthwaite's approximation rather more"


def test_a_point_of_one_pair_by_hand():
    # Variances 2 (two values) and 1 (three values): pooled (1 x 2 + 2 x 1) / 3 = 4/3. Error variance of the mean of three means:
    # (2/2 + 1/3 + (4/3)/1) / 9 = (8/3) / 9.
    pooled = stratified([[0.0, 2.0], [1.0, 2.0, 3.0], [6.0]])
    assert (pooled.mean, pooled.variance) == pytest.approx((3.0, 8 / 27))
    # The same by stratum: 2 (1/2 + 1/3) = 5/3 with 1 degree of freedom, 1 (1/3 + 2/3) = 1 with 2.
    assert pooled.degrees == pytest.approx((8 / 3) ** 2 / ((5 / 3) ** 2 + 1 / 2))


def test_one_pair_alone_tells_no_noise_and_one_pair_a_point_lets_points_be_the_sample():
    alone = overall(found_in(fps_trials({16: [100.0]}), fps_trials({16: [50.0]})), "fps_total")
    assert (alone.ratio, alone.lower, alone.p_value, alone.change) == (0.5, None, None, "none shown")
    points = overall(found_in(fps_trials(noisy(1, 1, repeats=1)), fps_trials(noisy(0.5, 2, repeats=1))), "fps_total")
    assert points.lower is not None and points.change == "worse"


def test_too_few_pairs_are_inconclusive_and_the_power_is_told(tmp_path: Path, capsys):
    assert command(*written(tmp_path, fps_trials({16: [100.0]}), fps_trials({16: [50.0]}))) == EXIT_UNDECIDED
    assert "inconclusive: FPS, total: one pair tells no noise" in capsys.readouterr().out
    gate = found_in(fps_trials(noisy(1.0, 1, 0.06)), fps_trials(noisy(1.0, 2, 0.06))).gate
    (fps,) = [bounded for bounded in gate.bounds if bounded.measure == "fps_total"]
    assert gate.answer == "inconclusive" and not fps.passes
    assert known(fps.pairs_for_power) > 9


def test_a_true_loss_beyond_the_margin_hardly_ever_passes_and_no_loss_hardly_ever_fails():
    """With 6% of noise and three pairs at each of three points: a loss of 10% where 5% are accepted, and none at all."""
    lost, same = (
        [found_in(fps_trials(noisy(1.0, n, 0.06)), fps_trials(noisy(b, 500 + n, 0.06))).gate.answer for n in range(60)]
        for b in (0.9, 1.0)
    )
    assert lost.count("pass") <= 3 and same.count("fail") <= 4


def test_a_bound_by_hand():
    # ln(B/A) = -0.02 with error 0.01 and 8 degrees of freedom: t is 1.860, so the loss is up to 1 - exp(-0.0386).
    settings = {"more_is_better": True, "confidence": 0.95, "margin": 0.05}
    bounded = bound("fps_total", Estimate(-0.02, 1e-4, 8.0), 9, **settings)
    assert (bounded.loss, bounded.loss_upper) == pytest.approx((0.0198, 0.0379), abs=1e-4) and bounded.passes
    assert not bound("fps_total", Estimate(-0.04, 1e-4, 8.0), 9, **settings).passes


def with_phases(*repeats_s: Any) -> list[Trial]:
    """Return repeats with these seconds by phase, and with none of the others."""
    return phase_trials({16: [dict.fromkeys(PHASES, 0.0) | seconds for seconds in repeats_s]})


def test_the_phase_that_changed_is_named():
    a, b = (with_phases(*[{"physics": 1.0, "observation": s, "learning": 2.0}] * 3) for s in (1.0, 2.0))
    comparison = found_in(a, b)
    assert next(iter(comparison.phases)) == "observation"
    assert (comparison.phases["observation"], comparison.phases["learning"]) == pytest.approx((0.25, 0.0))


def test_phases_are_those_of_the_pairs():
    """What A alone repeated, on a slow day, is no phase that got faster."""
    a, b = (with_phases(*({"learning": seconds} for seconds in side)) for side in ((2.0, 2.0, 3.0, 3.0), (2.0, 2.0)))
    comparison = found_in(a, b)
    assert (overall(comparison, "fps_total").ratio, overall(comparison, "fps_total").pairs) == (1.0, 2)
    assert list(comparison.phases.values()) == [0.0] * len(PHASES)


def test_learning_compares_points_at_which_every_seed_arrived_and_counts_the_others():
    a = learning_trials({16: [10.0, 11.0, 12.0], 32: [20.0, 21.0, None]}, device=GPU)
    b = learning_trials({16: [20.0, 22.0, 24.0], 32: [40.0, 42.0, 44.0]}, device=GPU)
    comparison = found_in(a, b)
    seconds = overall(comparison, "seconds_to_target")
    assert seconds.ratio == pytest.approx(2.0) and (seconds.pairs, seconds.change) == (3, "worse")
    assert overall(comparison, "memory_peak_gb").pairs == 6, "a trial that spent its budget had its memory"
    assert comparison.outcomes == [
        Outcome(
            place=Place("learning", 32, 8, 128), pairs=3, a_succeeded=2, b_succeeded=3, a_lost={"timeout": 1}, b_lost={},
            lost_repeats=[(2, 2)],
        )
    ]  # fmt: skip
    assert comparison.gate.fewer_succeeded == [], "more successes are no loss"


def test_a_side_whose_seeds_stop_arriving_is_a_regression_however_quick_the_survivors():
    a = learning_trials({64: [40.0, 42.0, 44.0, 46.0, 48.0]})
    b = learning_trials({64: [38.0, 40.0, None, None, None]})
    comparison = found_in(a, b)
    assert not any(ratio.measure.endswith("to_target") for ratio in [*comparison.overall, *comparison.by_place])
    (outcome,) = comparison.gate.fewer_succeeded
    assert comparison.gate.answer == "fail" and outcome not in comparison.outcomes
    assert outcome.place == Place("learning", 64, 8, 128)
    assert (outcome.a_succeeded, outcome.b_succeeded, outcome.pairs, outcome.b_lost) == (5, 2, 5, {"timeout": 3})
    assert outcome.lost_repeats == [(2, 2), (3, 3), (4, 4)]


@pytest.mark.parametrize("status", ["oom", "nan", "refused", "timeout", "diverged"])
def test_throughput_trials_that_break_are_a_regression_and_their_pairs_are_named(status: Status):
    a = fps_trials({64: [1000.0, 1010.0, 1005.0], 256: [2000.0, 2010.0, 2020.0]})
    b = [
        *fps_trials({64: [1001.0, 1011.0, 1004.0], 256: [2001.0]}),
        *(a_trial(256, number=9 + repeat, repeat=repeat, fps=4000.0, status=status) for repeat in (1, 2)),
    ]
    comparison = found_in(a, b)
    fps = overall(comparison, "fps_total")
    assert fps.pairs == 4 and fps.ratio == pytest.approx(1.0, abs=0.01)
    (outcome,) = comparison.gate.fewer_succeeded
    assert (outcome.place.num_envs, outcome.a_succeeded, outcome.b_succeeded) == (256, 3, 1)
    assert (outcome.b_lost, outcome.lost_repeats) == ({status: 2}, [(1, 1), (2, 2)])
    assert comparison.gate.losses == []
    assert found_in(b, a).gate.answer != "fail" and len(found_in(b, a).outcomes) == 1
    assert found_in(b, b).gate.answer != "fail", "as many on both sides"


def test_nothing_left_of_b_is_told_in_place_of_a_table(tmp_path: Path, capsys):
    lost = [a_trial(64, number=repeat, repeat=repeat, status="oom") for repeat in range(2)]
    a, b = written(tmp_path, fps_trials({64: [1000.0, 1010.0]}), lost)
    assert command(a, b) == EXIT_WORSE
    printed = capsys.readouterr().out
    assert "no pair of trials succeeded on both sides" in printed
    place = "throughput, 64 environments, horizon 8, batch 128"
    assert f"REGRESSION in outcomes: {place}: 2 of 2 ok, then 0 of 2" in printed
    assert command(b, a) == EXIT_UNDECIDED
    assert f"outcomes at {place}: 0 of 2 ok (2 oom), then 2 of 2" in capsys.readouterr().out


def test_repeats_that_one_side_alone_has_are_named_and_count_for_no_loss():
    a = fps_trials({16: [100.0, 101.0, 102.0]})
    b = [*fps_trials({16: [100.0]}), a_trial(16, number=7, repeat=7, status="nan")]
    comparison = found_in(a, b)
    place = Place("throughput", 16, 8, 128)
    assert comparison.left_out == [
        LeftOut(side="a", place=place, repeats=[1, 2], whole_point=False, lost={}),
        LeftOut(side="b", place=place, repeats=[7], whole_point=False, lost={"nan": 1}),
    ]
    assert not comparison.outcomes and comparison.gate.answer != "fail"


def test_what_one_side_alone_has_is_named_and_nothing_in_common_is_an_error():
    comparison = found_in(fps_trials({16: [1.0], 32: [1.0]}), fps_trials({32: [1.0], 64: [1.0]}))
    assert [(left.side, left.place.num_envs, left.whole_point) for left in comparison.left_out] == [
        ("a", 16, True), ("b", 64, True)
    ]  # fmt: skip
    with pytest.raises(UserError, match=r"a and b have no point in common: throughput, 16 environments"):
        found_in(fps_trials({16: [1.0]}), fps_trials({32: [1.0]}))


def test_other_hardware_other_settings_and_another_target_are_said():
    """Seconds to another reward are no gain, and an arm of the same name may hold other settings."""
    a, b = learning_trials({16: [20.0] * 3}, target_reward=4.0), learning_trials({16: [10.0] * 3}, target_reward=2.0)
    assert found_in(a, b).differs == [Difference(name="target_reward", a=["4"], b=["2"])]
    timed = fps_trials({16: [100.0, 101.0]})
    assert found_in([*timed, *a], timed).differs == [], "one side alone learned"
    hardware = found_in(fps_trials({16: [1.0]}, device=CPU), fps_trials({16: [1.0]}, device=GPU)).differs
    (device,) = [difference for difference in hardware if difference.name == "hardware"]
    assert known(device.a[0]).startswith("AMD EPYC") and "H100" in known(device.b[0])
    assert "host CPU: none → AMD EPYC (2 cores)" in map(words.difference_line, hardware)
    changed = [trial.asked(observations="lean", overrides={"env.decimation": 4}) for trial in timed]
    assert found_in(timed, changed).differs == [
        Difference(name="observations", a=["stock"], b=["lean"]),
        Difference(name="env.decimation", a=[], b=["4"]),
    ]
    assert [words.difference_line(difference) for difference in found_in(timed, changed).differs] == [
        "observations: stock → lean", "env.decimation: none → 4"
    ]  # fmt: skip


def moved(trial: Trial, **changes: Any) -> Trial:
    """Return a trial that ran somewhere else: fields of its environment, and `uuid` of its GPU."""
    uuid = changes.pop("uuid", None)
    return trial.on(**changes, **({"device": GPU.model_copy(update={"uuid": uuid})} if uuid else {}))


def test_pairs_across_machines_and_gpus_are_counted():
    a = fps_trials({16: [100.0, 101.0, 102.0, 103.0, 104.0]}, device=GPU)
    b = [
        a[0],
        moved(a[1], host="a-container"),  # the same GPU: the same machine by another name
        moved(a[2], uuid="GPU-2"),
        moved(a[3], uuid="GPU-3", cpu_model="Intel Xeon"),
        moved(a[4], uuid="GPU-4", host="node2"),
    ]
    assert found_in(a, b).apart == Apart(machines=2, gpus=1, pairs=5)
    cpus = Difference(name="host CPU", a=["AMD EPYC (2 cores)"], b=["AMD EPYC (2 cores)", "Intel Xeon (2 cores)"])
    assert cpus in found_in(a, b).differs
    assert found_in(a, a).apart == Apart(machines=0, gpus=0, pairs=5)
    on_cpu = fps_trials({16: [100.0]})
    assert found_in(on_cpu, [moved(on_cpu[0], host="node2")]).apart == Apart(machines=1, gpus=0, pairs=1)


def test_a_note_on_machines_is_printed_and_written(tmp_path: Path, capsys):
    trials = fps_trials({16: [100.0, 101.0]}, device=GPU)
    folders = written(tmp_path, trials, [moved(trial, uuid="GPU-2", host="node2") for trial in trials])
    assert command(*folders, "--output", tmp_path / "found.json") == EXIT_UNDECIDED
    note = "pairs across machines: 2 of 2"
    printed = capsys.readouterr().out
    assert f"note  {note}" in printed
    assert "inconclusive: no machine ran both sides: what differs may be the machines'" in printed
    assert json.loads((tmp_path / "found.json").read_text())[0]["apart"] == {"machines": 2, "gpus": 0, "pairs": 2}


def test_good_pairs_across_machines_alone_are_named_as_the_reason_for_no_ratio(tmp_path: Path, capsys):
    a = fps_trials({16: [100.0, 101.0]}, device=GPU)
    lost = [a_trial(64, number=2, status="oom", device=GPU)]
    folders = written(tmp_path, [*a, *lost], [*(moved(own, uuid="GPU-2", host="node2") for own in a), *lost])
    assert command(*folders) == EXIT_UNDECIDED
    printed = capsys.readouterr().out
    assert "of the pairs on one machine none succeeded on both sides. 2 pairs across machines are left out" in printed
    assert "no pair of trials" not in printed


def test_trials_of_an_arm_that_the_study_lacks_are_refused_with_the_arms_that_it_has(tmp_path: Path):
    known_arm = fps_trials({16: [100.0, 101.0]})
    odd = written(
        tmp_path, fps_trials({16: [100.0]}, arm="gone"), [*known_arm, *fps_trials({16: [1.0]}, arm="gone", first=5)]
    )
    for folder in odd:
        with pytest.raises(UserError, match=r"trials of arm 'gone', which its study.json lacks.*:stock"):
            command(folder, folder)
    assert command(f"{odd[1]}:stock", f"{odd[1]}:stock") in (0, EXIT_UNDECIDED)


def two_arms(root: Path) -> StudyFolder:
    trials = fps_trials(noisy(1.0, 1)) + fps_trials(noisy(0.8, 2), first=100, arm="lean")
    return write_study(root, a_study(arms={"stock": {}, "lean": {}}), trials)


def test_the_command_is_a_gate(tmp_path: Path, capsys):
    folder = two_arms(tmp_path / "demo")
    written = tmp_path / "found.json"
    assert command(f"{folder.root}:stock", f"{folder.root}:lean", "--output", written) == 3
    printed = capsys.readouterr().out
    assert "REGRESSION beyond 5%: FPS, total: -" in printed.replace("\n", " ")
    (comparison,) = json.loads(written.read_text())
    assert comparison["gate"]["answer"] == "fail"
    assert command(f"{folder.root}:lean", f"{folder.root}:stock") == 0
    with pytest.raises(UserError, match="has 2 arms. Name one of them: .*:lean, .*:stock"):
        command(folder.root, folder.root)
    with pytest.raises(UserError, match="has no arm 'fast'"):
        command(f"{folder.root}:fast", folder.root)


def test_where_no_arm_is_named_each_that_both_have_is_compared(tmp_path: Path, capsys):
    a, b = (two_arms(tmp_path / name) for name in ("a", "b"))
    assert command(a.root, b.root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("A ")] == [f"A  {a.root}:lean", f"A  {a.root}:stock"]
    assert command(f"{a.root}:stock", b.root) == 0
    assert capsys.readouterr().out.count("A  ") == 1


def test_one_study_is_split_by_commit_and_by_image(tmp_path: Path, capsys):
    commits, images = ("1a2b3c4d" * 5, "5d6e7f80" * 5), ("sha256:" + "ab" * 32, "cd" * 32)
    trials = [
        trial.asked(repeat=trial.request.repeat + 3 * side).on(
            git_commit=commits[side], image=Image(sif_sha256="f" * 64, content_sha256=images[side], labels={})
        )
        for side in (0, 1)
        for trial in fps_trials(noisy(1.0 - 0.2 * side, side), first=100 * side)
    ]
    folder = write_study(tmp_path / "demo", a_study(), trials).root
    for a, b in (("1a2b", "5d6e7f8"), ("abab", "sha256:cdcd")):
        assert command(f"{folder}@{a}", f"{folder}@{b}:stock", "--output", tmp_path / "found.json") == 3
        assert "commit: 1a2b3c4d1a → 5d6e7f805d" in capsys.readouterr().out
        (comparison,) = json.loads((tmp_path / "found.json").read_text())
        fps = next(ratio for ratio in comparison["overall"] if ratio["measure"] == "fps_total")
        assert (fps["pairs"], fps["points"]) == (9, 3) and fps["lower"] < 0.8 < fps["upper"]
    with pytest.raises(UserError, match=r"'9999' fits none .*, 1a2b3c4d1a2b \(9 trials\)"):
        command(f"{folder}@9999", f"{folder}@5d6e")
    with pytest.raises(UserError, match="'1a' is too short"):
        command(f"{folder}@1a", f"{folder}@5d6e")
    with pytest.raises(UserError, match="has no arm 'fast'"):
        command(f"{folder}@1a2b:fast", folder)


def test_what_a_comparison_found_is_said_from_its_numbers():
    a = [*fps_trials({16: [100.0, 101.0, 102.0], 32: [150.0, 151.0]}), *learning_trials({32: [20.0, 21.0, None]})]
    b = [*fps_trials({16: [100.0], 64: [200.0]}), *learning_trials({32: [40.0, None, None]})]
    b.append(a_trial(16, number=7, repeat=1, status="nan"))
    comparison = found_in(a, b)
    place = "throughput, 16 environments, horizon 8, batch 128"
    assert words.reasons(comparison) == [
        "in outcomes: learning, 32 environments, horizon 8, batch 128: 2 of 3 target_reached (1 timeout), then 1 of 3 (2 timeout);"
        " no ratio of seconds and environment steps to target here, for seeds did not arrive (repeats 1, 2)",
        f"in outcomes: {place}: 2 of 2 ok, then 1 of 2 (1 nan); left out: repeat 1",
    ]
    assert words.shortened([words.left_out_line(left_out) for left_out in comparison.left_out]) == (
        f"only a: {place}, repeat 2; only a: throughput, 32 environments, horizon 8, batch 128; and 1 more"
    )
    noisy_sides = found_in(fps_trials(noisy(1.0, 1, 0.06)), fps_trials(noisy(1.0, 2, 0.06)))
    (fps,) = [bounded for bounded in noisy_sides.gate.bounds if bounded.measure == "fps_total"]
    assert words.reasons(noisy_sides)[0] == (
        f"FPS, total may be up to {known(fps.loss_upper):.1%} worse, and 5% is accepted; without any difference"
        f" {fps.pairs_for_power} pairs would pass in 80% of comparisons"
    )
