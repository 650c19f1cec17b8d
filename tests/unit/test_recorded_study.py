"""Studies measured on GPUs (results-published): what was asked and found then comes out today."""

import json
import math
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import pytest
from envknee.after.compare import print as compare
from envknee.after.compare.ratios import Ratio
from envknee.ask import ask
from envknee.record.build import spread
from envknee.record.read import load_records, read_rows
from envknee.record.schema import Spread
from envknee.show.terminal import print_summary
from envknee.study import space
from envknee.study.load import read_study
from envknee.study.model import Decide
from envknee.study.paths import StudyFolder
from envknee.verdict import disturbed, memory_model, throughput
from envknee.verdict import memory_limit as memory
from envknee.verdict.composed import compose
from envknee.verdict.learning import best_of
from envknee.verdict.schema.throughput import Gain, ThroughputLimit, ThroughputPoint
from published import (
    PUBLISHED,
    ROOT,
    fits_by_card,
    gain_in_fps,
    medians_of,
    peak_gb,
    quotients,
    ratio_of,
    records_of,
    uuid_of,
    verdict_of,
    words_of,
)
from rich.console import Console

from benchmarks import neighbours
from benchmarks.blocks import agreement

FOLDER = PUBLISHED["cartpole-one-gpu"]
every_study = pytest.mark.parametrize("folder", PUBLISHED.values(), ids=PUBLISHED.keys())


@every_study
def test_every_record_follows_from_its_measurements(folder: StudyFolder):
    records = load_records(folder)  # recomputes each from its rows
    assert [record.request.number for record in records] == [
        int(path.parent.name) for path in folder.trial_files("record.json")
    ]


def test_a_copy_of_a_trial_that_was_set_aside_is_none(tmp_path: Path):
    shutil.copytree(FOLDER.root, tmp_path / "study")
    folder = StudyFolder(tmp_path / "study")
    shutil.copytree(folder.trials / "0007", folder.trials / "0007.old")
    assert len(load_records(folder)) == len(load_records(FOLDER))


@every_study
def test_every_request_is_asked_again_byte_for_byte(folder: StudyFolder):
    assert ask.verify(folder) == (len(list(folder.trials.iterdir())), [])


@every_study
def test_the_study_file_still_describes_what_was_measured(folder: StudyFolder):
    shipped = ROOT / f"config/studies/{folder.root.name.removeprefix('cartpole-')}.yaml"
    if not shipped.exists():
        pytest.skip(f"{folder.root.name} was kept here by you: no study of that name comes with envknee")
    assert read_study(shipped).measured_part() == read_study(folder.study).measured_part()


PHASES_OFF = {
    "cartpole-one-gpu-learning": 7, "cartpole-stock-lean": 1, "cartpole-stock-lean-warp-learning": 4,
    "cartpole-learning-rules": 37,
}  # fmt: skip
"""By study, in how many rows phases miss the iteration by more than 3%: measured before both clocks were read at the same time.
Of learning-rules these are rows of its first 41 trials."""


def phases_by_iteration(name: str) -> list[float]:
    """Return of each row after the first two the sum of phases over the iteration's seconds, of ranks where there are some."""
    rows = [row for record in records_of(name) for row in read_rows(PUBLISHED[name].trial(record.request.number))[2:]]
    return [
        sum(part.phases_s.values()) / part.iteration_s
        for row in rows
        for part in row.ranks or [row]
        if part.phases_s is not None and part.iteration_s is not None
    ]


@every_study
def test_phases_add_up_to_the_iteration_in_every_row(folder: StudyFolder):
    off = [share for share in phases_by_iteration(folder.root.name) if abs(share - 1) > 0.03]
    assert len(off) == PHASES_OFF.get(folder.root.name, 0)


def share(value: float | None) -> str:
    assert value is not None
    return f"{value:.0%}"


def test_the_docs_say_what_the_studies_say():
    docs = words_of("docs/results.md")
    (full,), (learning,) = verdict_of("cartpole-one-gpu-full").arms, verdict_of("cartpole-one-gpu-learning").arms
    headline, memory_limit = full.headline, full.memory
    assert headline is not None and headline.phases is not None and memory_limit is not None
    limits = {limit.series.horizon: limit for limit in full.throughput}
    last = limits[32].gains[-1]
    assert (
        f"Undecided up to {limits[32].largest_num_envs:,} environments: the last doubling gained {last.gain:.0%} with two"
        in docs
    )
    assert limits[32].state == "undecided" and last.repeats == 2
    assert f"{headline.num_envs:,} give {headline.fps_share_of_best:.0%} of the best FPS" in docs
    fits = fits_by_card(memory_limit, 32)
    few, ends = fits["8 GB"].split(" ", 1)
    assert f"{few} environments {ends} in 8 GB, {fits['24 GB']} in 24 GB, {fits['80 GB']} in 80 GB" in docs
    assert headline.phases.startswith("learning takes 80%") and "62% (60% to 64%)" in headline.phases
    assert "Learning: 80% of what each added environment costs, and 62% of what few environments wait for" in docs
    learned = load_records(PUBLISHED["cartpole-one-gpu-learning"])
    fps = {
        num_envs: median(
            record.fps_total.median
            for record in learned
            if (record.request.num_envs, record.request.horizon) == (num_envs, 32) and record.fps_total is not None
        )
        for num_envs in (1024, 2048)
    }
    assert (
        f"From 1,024 to 2,048 environments FPS of the trials that learned grow by {fps[2048] / fps[1024] - 1:.0%},"
        in docs
    )
    (reached,) = [limit for limit in learning.learning if limit.state == "reached" and limit.horizon == 32]
    (saving,) = [candidate for candidate in reached.savings if candidate.num_envs == reached.threshold_num_envs]
    assert saving.saving is not None and saving.saving_upper_one_sided is not None
    assert f"**{reached.threshold_num_envs:,}** environments at horizon {reached.series.horizon}" in docs
    assert (
        f"take {-saving.saving:.0%} longer to reward 4.5 (at least {-saving.saving_upper_one_sided:.0%}, three" in docs
    )
    best = best_of(learning.learning)
    assert best is not None
    assert f"{best.num_envs:,} at horizon {best.horizon}, {best.seconds_to_target.value:.0f} s" in docs
    planned = len(space.plan(read_study(PUBLISHED["cartpole-one-gpu-full"].study)))
    assert f"{planned} trials the first {len(records_of('cartpole-one-gpu-full'))} were measured" in docs


def test_the_docs_say_what_a_second_gpu_brings():
    results, docs = words_of("docs/results.md"), words_of("docs/measuring.md")
    (older,) = verdict_of("cartpole-two-gpus").scaling
    point = older.points[-1]
    words = f"{point.speedup:.2f} times the FPS at {point.num_envs:,} environments on each"
    assert (
        f"two H200: {words} (efficiency {share(point.efficiency_lower)} to {share(point.efficiency_upper)})" in results
    )
    lean, stock = verdict_of("cartpole-two-gpus-lean").scaling
    phrase = (
        "On two H100 {:.2f} times the FPS at 4,096 environments on each (efficiency {} to {});"
        " with lean frames {:.2f} times ({} to {}), {:,.0f} FPS"
    )
    ends = [
        (side.points[-1].speedup, share(side.points[-1].efficiency_lower), share(side.points[-1].efficiency_upper))
        for side in (stock, lean)
    ]
    assert phrase.format(*ends[0], *ends[1], lean.points[-1].fps_all_ranks) in results
    study = PUBLISHED["cartpole-two-gpus-lean"]
    planned, records = len(space.plan(read_study(study.study))), load_records(study)
    assert f"`two-gpus-lean`'s {planned} the first {len(records)}" in results
    peaks: dict[tuple[str, int], float] = {}
    for record in (record for record in records if not record.request.again):
        assert record.memory_peak_gb is not None
        place = record.request.arm, record.request.num_envs
        peaks[place] = max(record.memory_peak_gb, peaks.get(place, 0.0))
    for side, frames in ((stock, "Isaac Lab's"), (lean, "lean")):
        for point in side.points:
            assert point.repeats_one_rank == 5 and point.repeats_all_ranks == (5 if side is lean else 4)
            interval = f"{point.efficiency:.0%} ({share(point.efficiency_lower)} to {share(point.efficiency_upper)})"
            gb = [peaks[arm or "", point.num_envs] for arm in (side.partner, side.arm)]
            assert (
                f"| {frames} | {point.num_envs:,} | {point.fps_one_rank:,.0f} | {point.fps_all_ranks:,.0f} | {point.speedup:.2f}"
                f" | {interval} | {gb[0]:.2f} | {gb[1]:.2f} |"
            ) in docs


def test_the_verdict_of_one_horizon_on_an_h100():
    (arm,) = verdict_of("cartpole-one-gpu").arms
    headline = arm.headline
    assert headline is not None
    assert (headline.state, headline.num_envs, headline.horizon, headline.binds) == ("undecided", 8192, 32, "memory")
    assert round(headline.fps, -2) == 57_600
    assert headline.best_time_to_target is not None
    assert "512" in headline.best_time_to_target.model_dump_json()


def test_a_larger_card_holds_more_and_the_one_measured_on_holds_what_it_held():
    limit = memory.analyse(records_of("cartpole-one-gpu"), read_study(FOLDER.study).decide)
    assert limit is not None
    cards = [card for card in limit.cards if (card.horizon, card.batch_size) == (32, None)]
    sizes = [card.largest_num_envs for card in cards]
    assert len(cards) == len(memory_model.CARDS_MIB) and sizes == sorted(set(sizes))
    h100 = next(card for card in cards if "H100)" in card.card)
    assert h100.largest_num_envs_lower is not None and h100.largest_num_envs_upper is not None
    # 8,192 environments fitted, 16,384 did not; one more trial's noise may be larger (memory._largest).
    assert h100.largest_num_envs_lower <= h100.largest_num_envs <= h100.largest_num_envs_upper < 16384
    assert h100.largest_num_envs > 8192
    wall = limit.wall(32, None)
    assert wall is not None and wall.largest_num_envs == pytest.approx(h100.largest_num_envs, rel=0.01)


def test_what_it_cannot_tell_is_left_out_and_what_it_can_is_said():
    (arm,) = verdict_of("cartpole-one-gpu").arms
    assert arm.headline is not None
    # It was measured before trials told their phases.
    assert (arm.phases, arm.headline.phases) == ([], None)
    # Its batch sizes were run with other num_envs and horizons each.
    (law,) = arm.batch
    assert (law.num_envs, law.used) == (None, False) and law.notes[0].startswith("pooled over")
    # 46.6 s against 93.7 s of one GPU.
    (saving,) = arm.headline.saves
    assert (saving.num_envs, saving.against_num_envs, round(saving.saved, 2)) == (512, 4096, 0.50)
    assert saving.hours == pytest.approx(46.6 / 3600, rel=1e-3)


def test_the_summary_has_a_line_for_other_cards(capsys):
    print_summary(verdict_of("cartpole-one-gpu"), FOLDER, Console(width=400))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  cards "))
    (arm,) = verdict_of("cartpole-one-gpu").arms
    assert arm.memory is not None
    cards = [own for own in arm.memory.cards if own.batch_size is None]
    assert len(cards) == len(memory_model.CARDS_MIB) and "(no interval)" not in line
    for card, words in fits_by_card(arm.memory.model_copy(update={"cards": cards}), 32).items():
        assert f" {card}: {words}" in line


def test_the_summary_says_where_cards_have_no_interval(capsys):
    print_summary(verdict_of("cartpole-small-card"), FOLDER, Console(width=400))
    said = capsys.readouterr().out.partition("baseline on ")[2].splitlines()
    line = next(line for line in said if line.startswith("  cards "))
    assert "environments predicted to fit (no interval), horizon 16, library batch: 8 GB: 28 · 12 GB: " in line


def in_parts(of: Callable[[str, int], tuple[float, float]]) -> tuple[list[float], str, float]:
    """Return of 4,096 environments and 32 steps the ms of a step by arm, its parts in words, and what free frames would gain."""
    step_ms = [4096 / fps * 1e3 for fps in of("fps_env_step", 4096)]
    frames, render, physics = (
        [seconds / 32 * 1e3 for seconds in of(f"{phase}_s", 4096)] for phase in ("observation", "render", "physics")
    )
    parts = {"frames take": frames, "rendering": render, "physics": physics}
    words = ", ".join(f"{name} {first:.2f} and {other:.2f}" for name, (first, other) in parts.items())
    return step_ms, words, step_ms[0] / (step_ms[0] - frames[0])


def test_the_docs_say_what_lean_frames_gain():
    records = records_of("cartpole-stock-lean")
    results, docs = words_of("docs/results.md"), words_of("docs/lean.md")
    # It was measured on two machines with the same card, and FPS differ between them: ratios are of trials on the same one.
    devices = list(dict.fromkeys(uuid_of(record) for record in records))
    on_each = [medians_of("cartpole-stock-lean", "stock", "lean", device) for device in devices]
    assert len(on_each) == 2

    def both(words: str, *values: Sequence[float]) -> str:
        return "; ".join(words.format(*of_one) for of_one in zip(*values, strict=True))

    left_ms: list[list[float]] = [[], []]  # by machine, of environment steps beside these three phases
    for num_envs in sorted({record.request.num_envs for record in records}):
        stock, lean = zip(*(of("fps_total", num_envs) for of in on_each), strict=True)
        stock_step, lean_step = zip(*(of("fps_env_step", num_envs) for of in on_each), strict=True)
        stock_gb, lean_gb = on_each[0]("memory_peak_gb", num_envs)
        assert (stock_gb, lean_gb) == pytest.approx(on_each[1]("memory_peak_gb", num_envs), rel=1e-3)
        speed = f"| {num_envs:,} | {both('{:,.0f}', stock)} | {both('{:,.0f}', lean)} |"
        ratios = f"{both('{:.2f}', quotients(lean, stock))} | {both('{:.2f}', quotients(lean_step, stock_step))}"
        assert f"{speed} {ratios} | {stock_gb:.2f} | {lean_gb:.2f} | {lean_gb / stock_gb:.2f} |" in docs
        for of, left in zip(on_each, left_ms, strict=True):
            phases_s = [of(f"{phase}_s", num_envs) for phase in ("observation", "render", "physics")]
            for fps, *seconds in zip(of("fps_env_step", num_envs), *phases_s, strict=True):
                left.append((num_envs / fps - sum(seconds) / 32) * 1e3)
        if num_envs in (4096, 16384):
            line = f"with {num_envs:,} | {both('{:,.0f}', stock)} | {both('{:,.0f}', lean)} |"
            assert f"FPS {line}" in results
            assert f"Memory with {num_envs:,} | {stock_gb:.2f} GB | {lean_gb:.2f} GB |" in results
            gains = " and ".join(f"{gain:.2f}" for gain in quotients(lean, stock))
            assert f"{gains} times with {num_envs:,}" in results
    phrase = " and ".join(f"{min(left):.1f} to {max(left):.1f} ms" for left in left_ms)
    assert f"What is left, {phrase} on the two machines" in docs
    (stock_ms, lean_ms), phrase, _ = in_parts(on_each[1])
    assert f"it takes {stock_ms:.1f} ms with stock frames and {lean_ms:.1f} ms" in docs
    assert phrase in docs
    free = [in_parts(of)[2] for of in on_each]
    assert f"frames that cost nothing would gain {free[0]:.2f} and {free[1]:.2f} times" in docs

    lean, stock = verdict_of("cartpole-stock-lean").arms
    (lean_limit,), (stock_limit,) = lean.throughput, stock.throughput
    assert (
        f"| {stock_limit.threshold_num_envs:,} environments | undecided up to {lean_limit.largest_num_envs:,}: the last"
        in results
    )
    last = lean_limit.gains[-1]
    assert f"last doubling gains {last.gain:.0%} ({last.gain_lower:.0%} to {last.gain_upper:.0%}) |" in results
    last = stock_limit.gains[-1]
    assert last.gain_upper_one_sided is not None
    assert f"from {last.num_envs:,} on, gains {last.gain:.0%} (at most {last.gain_upper_one_sided:.0%})" in results
    assert (
        f"Reached at {stock_limit.threshold_num_envs:,} environments: doubling gains {last.gain:.0%}"
        f" (upper bound {last.gain_upper_one_sided:.0%}, cut-off 10%)" in results
    )
    fits = []
    for arm in (stock, lean):
        assert arm.memory is not None
        cards = fits_by_card(arm.memory, 32)
        fits.append(f"{cards['8 GB']}, {cards['24 GB']}")
    assert f"| {fits[0]} environments | {fits[1]} |" in results
    assert f"{len(records)} of {len(space.plan(read_study(PUBLISHED['cartpole-stock-lean'].study)))} trials" in results


def test_the_docs_say_what_lean_frames_gain_on_an_h100():
    name = "cartpole-stock-lean-4096"
    docs, of = words_of("docs/lean.md"), medians_of(name, "stock", "lean")
    (pair,) = compare.sides(*(compare.Side.read(f"{PUBLISHED[name].root}:{arm}") for arm in ("stock", "lean")))
    ratio = ratio_of(pair, "FPS, total")
    assert [len(side.records) for side in pair] == [5, 5] and ratio.pairs == 5
    assert len({uuid_of(record) for record in records_of(name)}) == 1
    assert "Stock and lean had {:,.0f} and {:,.0f} FPS, by pairs".format(*of("fps_total", 4096)) in docs
    assert f"by pairs {ratio.ratio:.2f} times ({ratio.lower:.2f} to {ratio.upper:.2f} at 95%)" in docs
    stock_gb, lean_gb = of("memory_peak_gb", 4096)
    assert f"at 95%), {stock_gb:.2f} and {lean_gb:.2f} GB" in docs and lean_gb < stock_gb / 6
    step_ms, words, free = in_parts(of)
    assert (
        f"took {step_ms[0]:.1f} and {step_ms[1]:.1f} ms there ({step_ms[0] / step_ms[1]:.2f} times as fast). Of that, {words}. "
        in docs
    )
    assert f"frames that cost nothing would gain {free:.2f} times. " in docs


def test_the_docs_say_what_measuring_costs_and_how_well_phases_add_up():
    overhead = json.loads((ROOT / "results-published/overhead-h200.json").read_text())
    docs = words_of("docs/measuring.md")
    assert "(within 0.5% in every row of" in docs
    assert phases_by_iteration("cartpole-two-gpu-pipeline") == pytest.approx([1.0] * 619, abs=0.005)
    for name, words in {
        "trial / isaaclab train": "{median:.2f} times its FPS (quartiles {lower_quartile:.3f} to {upper_quartile:.3f}, 5 pairs at 4,096",
        "phases: sampled / off": "with phases {median:.2f} times those without ({lower_quartile:.2f} to {upper_quartile:.2f})",
    }.items():
        assert spread(overhead["ratios"][name]) == Spread.model_validate(overhead["spreads"][name])
        assert words.format(**overhead["spreads"][name]) in docs
    assert len(overhead["ratios"]["trial / isaaclab train"]) == 5
    assert (overhead["request"]["num_envs"], overhead["request"]["horizon"]) == (4096, 32)
    assert "H200" in overhead["environment"]["device"]["name"]


def test_the_docs_say_what_a_second_camera_costs():
    docs = words_of("docs/two-cameras.md")
    one_and_two = medians_of("cartpole-dual-camera", "one-camera", "two-cameras")
    for num_envs in (128, 512, 2048):
        (one_fps, two_fps), (one_step, two_step), (one_gb, two_gb) = (
            one_and_two(column, num_envs) for column in ("fps_total", "fps_env_step", "memory_peak_gb")
        )
        line = (
            f"| {num_envs:,} | {one_fps:,.0f} | {two_fps:,.0f} | {two_fps / one_fps:.2f} | {two_step / one_step:.2f} |"
        )
        assert f"{line} {one_gb:.2f} | {two_gb:.2f} | {two_gb / one_gb:.2f} |" in docs
    frames_ms, render_ms = (
        [seconds / 32 * 1e3 for seconds in one_and_two(f"{phase}_s", 2048)] for phase in ("observation", "render")
    )
    learn_s = one_and_two("learn_s", 2048)
    assert f"frames take {frames_ms[1]:.2f} ms instead of {frames_ms[0]:.2f}" in docs
    assert f"rendering {render_ms[1]:.2f} instead of {render_ms[0]:.2f}" in docs
    assert f"learning takes {learn_s[1]:.2f} s instead of {learn_s[0]:.2f}" in docs
    (one_fps, two_fps), (one_gb, two_gb) = (one_and_two(column, 2048) for column in ("fps_total", "memory_peak_gb"))
    words = f"With 2,048 environments: {two_gb / one_gb:.2f} times the memory, {two_fps / one_fps:.2f} times the FPS"
    assert words in words_of("docs/results.md")


def test_the_docs_say_what_fits_a_small_card():
    docs = words_of("docs/two-cameras.md")
    advice = verdict_of("cartpole-small-card").remedies
    assert advice is not None and advice.statement in docs
    for remedy in advice.remedies:
        assert (
            remedy.fits is not None
            and remedy.fps is not None
            and remedy.at_num_envs == 16
            and remedy.peak_gb is not None
        )
        speed = f"{remedy.fps.value:+.0%} ({remedy.fps.lower:+.0%} to {remedy.fps.upper:+.0%})"
        words = "not shown" if remedy.speed == "not shown" else speed
        line = f"| `{remedy.arm}` | {remedy.largest_num_envs} | {1 + remedy.fits.value:.2f} | {words} | {remedy.peak_gb:.2f} |"
        assert line in docs
        if remedy.arm == "lean":
            words = f"With lean frames {remedy.shown_at} environments fit where the task's own ran out of memory"
            assert (
                f"{words} ({1 + remedy.fits.value:.2f} times as many by the model, which has no interval"
                in words_of("docs/results.md")
            )
        assert (remedy.fits.lower, remedy.fits.upper) == (None, None), "the table's heading says so"
    shown = [(remedy.arm, remedy.room, remedy.shown_at) for remedy in advice.remedies if remedy.room != "not shown"]
    assert shown == [("128-pixels", "more", 64), ("lean", "more", 64)]
    assert "64 environments ran out of memory with the baseline, and fitted with `128-pixels` and with `lean`" in docs
    of = medians_of("cartpole-small-card", "baseline", "lean")
    (fps, _), (peak_gb, _), (rollout_gb, _) = (
        of(column, 16) for column in ("fps_total", "memory_peak_gb", "rollout_gb")
    )
    assert f"| `baseline` | {advice.largest_num_envs} | 1 | {fps:.0f} | {peak_gb:.2f} |" in docs
    assert f"Of the baseline's {peak_gb:.2f} GB the rollout has {rollout_gb:.2f}" in docs


def test_the_docs_say_how_lean_frames_learned():
    folder = PUBLISHED["cartpole-stock-lean-learning"].root
    (both,) = compare.sides(*(compare.Side.read(f"{folder}:{arm}") for arm in ("stock", "lean")))
    machines = [{record.request.repeat: uuid_of(record) for record in side.records} for side in both]
    on_one = {repeat for repeat, machine in machines[0].items() if machine == machines[1][repeat]}

    def ratio(measure: str, repeats: set[int]) -> Ratio:
        pair = (
            replace(side, records=[record for record in side.records if record.request.repeat in repeats])
            for side in both
        )
        return ratio_of(pair, measure)

    frames, seconds = ratio("frames to target", set(machines[0])), ratio("seconds to target", on_one)
    assert frames.lower is not None and frames.upper is not None and (frames.pairs, seconds.pairs) == (5, 4)
    assert frames.lower > 0.85 and frames.upper < 1.15
    docs = words_of("docs/lean.md")
    assert f"{frames.ratio:.2f} of stock's frames ({frames.lower:.2f} to {frames.upper:.2f} at 95%)" in docs
    assert f"{seconds.ratio:.2f} of its seconds ({seconds.lower:.2f} to {seconds.upper:.2f}, four pairs" in docs
    words = f"{seconds.ratio:.2f} ({seconds.lower:.2f} to {seconds.upper:.2f})"
    of_frames = f"from {frames.ratio:.2f} of the frames ({frames.lower:.2f} to {frames.upper:.2f})"
    assert f"share of stock's | 1 | {words}, {of_frames} |" in words_of("docs/results.md")
    assert f"share of stock's | 1 | {words}, an H200 |" in words_of("docs/results.md")


def test_the_docs_say_how_lean_frames_learned_on_warps_frontend():
    folder = PUBLISHED["cartpole-stock-lean-warp-learning"].root
    (both,) = compare.sides(*(compare.Side.read(f"{folder}:{arm}") for arm in ("stock", "lean-warp")))
    frames, seconds = ratio_of(both, "frames to target"), ratio_of(both, "seconds to target")
    assert (frames.pairs, seconds.pairs) == (15, 15)
    assert seconds.upper is not None and seconds.upper < 0.25
    assert frames.lower is not None and frames.upper is not None and frames.lower < 1 < frames.upper
    for repeats, words in (
        (range(5), "They took {:.2f} of the seconds and {:.2f} of the frames"),
        (range(5, 15), "the later ten {:.2f} and {:.2f}"),
    ):
        some = tuple(replace(side, records=[r for r in side.records if r.request.repeat in repeats]) for side in both)
        of_some = [ratio_of(some, measure).ratio for measure in ("seconds to target", "frames to target")]
        assert words.format(*of_some) in words_of("docs/lean.md")
    stock_s, warp_s = (median(record.seconds_to_target or 0.0 for record in side.records) for side in both)
    interval = f"({seconds.lower:.2f} to {seconds.upper:.2f}"
    of_frames = f"from {frames.ratio:.2f} of the frames ({frames.lower:.2f} to {frames.upper:.2f})"
    docs = words_of("docs/lean.md")
    assert (
        f"Stock took {stock_s:.1f} s and lean-warp {warp_s:.1f} s (medians): {seconds.ratio:.2f} of the seconds {interval} at 95%)"
        in docs
    )
    assert of_frames in docs
    assert f"| {seconds.ratio:.2f} {interval}), {of_frames} |" in words_of("docs/results.md")
    readme = words_of("README.md")
    said = f"**{seconds.ratio:.2f} of the time** {interval}), {warp_s:.1f} s instead of {stock_s:.1f}, with [15 seeds on H100s"
    assert f"Reward 4.5 came in {said}" in readme
    interval = f"({frames.lower:.2f} to {frames.upper:.2f})"
    assert f"steps to that reward are not shown to differ: {frames.ratio:.2f} times {interval}" in readme


def test_the_docs_say_what_the_first_layer_in_cuda_gains():
    docs = words_of("docs/lean.md")
    for num_envs in (1024, 4096):
        words = gain_in_fps("cartpole-stock-lean-cuda", "lean", num_envs, pairs=4)
        of = medians_of("cartpole-stock-lean-cuda", "stock", "lean")
        (stock, lean), (stock_gb, lean_gb) = of("fps_total", num_envs), of("memory_peak_gb", num_envs)
        assert f"| {num_envs:,} | {stock:,.0f} | {lean:,.0f} | {words} | {stock_gb:.2f} | {lean_gb:.2f} |" in docs


def test_the_docs_say_what_warps_frontend_gains():
    study = "cartpole-stock-lean-warp"
    docs, results = words_of("docs/lean.md"), words_of("docs/results.md")
    for num_envs in (1024, 4096):
        cells, ratios = {}, {}
        for arm in ("lean", "lean-warp"):
            of = medians_of(study, "stock", arm)
            (stock, fps), (stock_gb, gb) = of("fps_total", num_envs), of("memory_peak_gb", num_envs)
            ratios[arm] = gain_in_fps(study, arm, num_envs, pairs=5)
            assert f"| {num_envs:,} | stock | {stock:,.0f} | 1 | {stock_gb:.2f} |" in docs
            assert f"| {num_envs:,} | {arm} | {fps:,.0f} | {ratios[arm]} | {gb:.2f} |" in docs
            cells[arm] = f"{fps:,.0f}"
        lean, (times, interval) = ratios["lean"], ratios["lean-warp"].split(" ", 1)
        assert (
            f"| {num_envs:,} | {stock:,.0f} FPS | {cells['lean']}: {lean.replace(' ', ' times ', 1)}"
            f" | {cells['lean-warp']}: **{times} times** {interval} |" in results
        )
    stock_gb, lean_gb, gb = (
        medians_of(study, arm, arm)("memory_peak_gb", 4096)[0] for arm in ("stock", "lean", "lean-warp")
    )
    assert f"| 4,096: memory | {stock_gb:.2f} GB | {lean_gb:.2f} GB | {gb:.2f} GB |" in results
    assert f"give **{times} times** stock's FPS, in {gb:.2f} GB instead of {stock_gb:.2f}. With 1,024" in results
    assert f"lean-warp has {times} times stock's FPS, in less than a sixth of its memory" in docs and gb < stock_gb / 6
    few = gain_in_fps(study, "lean-warp", 1024, pairs=5).partition(" ")[0]
    assert f"With 1,024 they give **{few} times**" in results
    gpus = [{uuid_of(record) for record in records_of(study) if record.request.repeat == repeat} for repeat in range(5)]
    assert all(len(own) == 1 for own in gpus) and len(set.union(*gpus)) == 3  # "each repeat on one GPU", of three H200
    fps = {
        num_envs: [
            record.fps_total.median
            for record in records_of(study)
            if (record.request.arm, record.request.num_envs) == ("lean-warp", num_envs) and record.fps_total is not None
        ]
        for num_envs in (1024, 4096)
    }
    few, many = (f"{min(of):,.0f} to {max(of):,.0f}" for of in fps.values())
    assert f"lean-warp had {few}. With 4,096 it had {many}." in docs
    fits = []
    for name in ("stock", "lean", "lean-warp"):
        memory_limit = next(arm.memory for arm in verdict_of(study).arms if arm.arm == name)
        assert memory_limit is not None
        cards = (card.largest_num_envs for card in memory_limit.cards if card.card.startswith("24 GB"))
        fits.append(f"{next(cards):,}")
    assert f"| What fits in 24 GB (from two sizes, no interval) | {' | '.join(fits)} |" in results


def beside_others(name: str, arm: str) -> tuple[ThroughputLimit, ThroughputLimit, int]:
    """Return an arm's limit, the limit if trials beside busy programs count, too, and how many records have FPS."""
    own = [record for record in records_of(name) if record.request.arm == arm]
    settings = read_study(PUBLISHED[name].study).decide
    (limit,) = throughput.analyse(own, settings)
    (with_all,) = throughput.analyse([record.model_copy(update={"metrics": {}}) for record in own], settings)
    return limit, with_all, sum(record.fps_total is not None for record in own)


def in_words(gain: Gain) -> str:
    if gain.gain_lower is None or gain.gain_upper is None:  # of one repeat
        return f"{gain.gain:.0%}"
    digits = 0 if gain.gain_upper - gain.gain_lower > 0.1 else 1
    return f"{gain.gain:.{digits}%} ({gain.gain_lower:.{digits}%} to {gain.gain_upper:.{digits}%})"


def test_the_docs_say_until_where_fps_grow_on_an_h200():
    study, results = "cartpole-stock-lean-h200", words_of("docs/results.md")
    records, names = records_of(study), ("stock", "lean-warp")
    (stock, _, of_stock), (warp, _, of_warp) = (beside_others(study, arm) for arm in names)
    gains = [[in_words(gain) for gain in limit.gains] for limit in (stock, warp)]
    times = {}
    for place, size in enumerate((1024, 2048, 4096, 8192, 16384)):
        cells = [
            f"{limit.points[place].fps:,.0f} FPS | " + (f"{own[place]} |" if place < len(own) else "|")
            for limit, own in zip((stock, warp), gains, strict=True)
        ]
        if once := len(warp.points[place].fps_repeats) < 3:
            assert size < 4096  # "Lean frames had one repeat of 1,024 and 2,048"
        else:
            times[size] = gain_in_fps(study, "lean-warp", size, pairs=3).split(" ", 1)
        ratio = "" if once else " {} times {}".format(*times[size])
        gb = [peak_gb(study, arm, size) for arm in names]
        assert f"| {size:,} | {cells[0]} {cells[1]}{ratio} | {gb[1]:.2f} GB instead of {gb[0]:.2f} |" in results
    bounds = []
    for limit, repeats in ((stock, 5), (warp, 3)):
        last = limit.gains[-1]
        assert (limit.state, limit.threshold_num_envs, last.num_envs, last.repeats) == ("reached", 8192, 8192, repeats)
        bounds.append((f"{last.gain:.1%}", f"upper bound {last.gain_upper_one_sided:.1%}"))
    ((gain, bound), (warp_gain, warp_bound)) = bounds
    assert (
        f"Doubling gains {gain} ({bound}, five repeats) and {warp_gain} ({warp_bound}, three repeats; cut-off 10%)"
        in results
    )
    assert f"**8,192** environments: doubling gains {gain} ({bound}, five repeats, cut-off 10%)" in results
    assert f"8,192, too, at {times[8192][0]} times those FPS" in results
    gb = f"in {peak_gb(study, 'lean-warp', 8192):.2f} GB instead of {peak_gb(study, 'stock', 8192):.2f}"
    assert f"give {warp.points[3].fps:,.0f} FPS there" in results
    assert f"**{times[8192][0]} times** the {stock.points[3].fps:,.0f} of stock frames, {gb}." in results

    fits = []
    for arm in names:
        memory_limit = next(own.memory for own in verdict_of(study).arms if own.arm == arm)
        assert memory_limit is not None
        fits.append(fits_by_card(memory_limit, 32)["24 GB"])
    in_24_gb = fits[1].replace(" (", " environments (")
    assert f"predicts {in_24_gb} in 24 GB with lean frames, and {fits[0]} with stock frames." in results

    # "Two H200 of one host measured an arm each, at the same time"; "no other program was in the way"
    done = [record for record in records if record.outcome.environment]
    gpus = [{uuid_of(record) for record in done if record.request.arm == arm} for arm in names]
    assert [len(own) for own in gpus] == [1, 1] and gpus[0] != gpus[1]
    assert len(done) == of_stock + of_warp and {disturbed.cores_of_others(record) for record in done} == {0.0}
    begun = [min(r.outcome.started_unix_s for r in done if r.request.arm == arm) for arm in names]
    ended = [max(r.outcome.started_unix_s + r.outcome.total_s for r in done if r.request.arm == arm) for arm in names]
    assert max(begun) < min(ended)
    assert f"It took {(max(ended) - min(begun)) / 60:.0f} minutes, and" in results
    environment = done[0].outcome.environment
    assert environment is not None
    versions = f"driver {environment.device.driver}, torch {environment.packages['torch']}"
    assert f"[`stock-lean-h200`](../results-published/{study}); {versions};" in results


def test_the_docs_say_until_where_fps_grow_on_an_h100():
    study, results = "cartpole-stock-lean-decided", words_of("docs/results.md")
    records = records_of(study)
    (stock, stock_with_all, of_stock), (warp, warp_with_all, of_warp) = (
        beside_others(study, arm) for arm in ("stock", "lean-warp")
    )
    assert len({uuid_of(record) for record in records if record.outcome.environment}) == 1
    for place, size in enumerate((1024, 2048, 4096, 8192, 16384)):
        first, second = ("out of memory |", "")
        if place < len(stock.points):
            first = f"{stock.points[place].fps:,.0f} FPS | "
            first += in_words(stock.gains[place]) if place < len(stock.gains) else "does not fit"
        if place < len(warp.gains):
            second = f" {in_words(warp.gains[place])}"
        assert f"| {size:,} | {first} | {warp.points[place].fps:,.0f} FPS |{second} |" in results
    last, final = stock.gains[-1], warp.gains[-1]
    reached = f"Doubling gained {final.gain:.1%} (upper bound {final.gain_upper_one_sided:.1%}, four repeats, cut-off"
    assert (warp.state, warp.threshold_num_envs, final.repeats) == ("reached", 8192, 4)
    assert (
        f"**8,192 environments** gave {warp.points[3].fps:,.0f} FPS with lean frames" in results and reached in results
    )
    words = f"From 4,096 to 8,192 FPS grow by {last.gain:.1%} ({last.gain_lower:.1%} to {last.gain_upper:.1%})"
    assert stock.state == "undecided" and f"{words}, too near the cut-off to decide" in results
    remedies = verdict_of(study).remedies
    assert remedies is not None
    fps, remedy = remedies.remedies[0].fps, remedies.remedies[0]
    assert fps is not None and fps.lower is not None and fps.upper is not None and remedy.at_num_envs == 8192
    gb = f"in {remedy.peak_gb:.2f} GB instead of {remedy.baseline_peak_gb:.2f}"
    assert (
        f"That was {1 + fps.value:.2f} times stock's FPS ({1 + fps.lower:.2f} to {1 + fps.upper:.2f}), {gb}" in results
    )
    times = f"{1 + fps.value:.2f} times stock's FPS ({1 + fps.lower:.2f} to {1 + fps.upper:.2f})"
    assert f"With 8,192 environments lean-warp had {times}" in words_of("docs/lean.md")
    assert f"FPS flattened at 8,192, at {1 + fps.value:.2f} times stock's" in results

    # How it was measured, and what else ran on the host.
    done = [record for record in records if record.outcome.status in ("ok", "oom")]
    ended = max(record.outcome.started_unix_s + record.outcome.total_s for record in done)
    minutes = (ended - min(record.outcome.started_unix_s for record in done)) / 60
    assert f"stock frames had all 8. It took {minutes:.0f} minutes (" in results
    repeats = {arm: {r.request.repeat for r in done if r.request.arm == arm} for arm in ("stock", "lean-warp")}
    assert (len(repeats["lean-warp"]), len(repeats["stock"])) == (5, 8)
    assert "Lean frames were after 5 repeats; stock" in results
    measured = [record for record in records if disturbed.cores_of_others(record) is not None]
    busy = median(disturbed.cores_of_others(record) or 0.0 for record in measured)
    assert f"Other programs kept {busy:.1f} of the host's 32 cores busy" in results
    left_out = sum(
        len(disturbed.disturbed([record for record in measured if record.request.arm == arm])) for arm in repeats
    )
    assert f"leaves out the {left_out} of {of_stock + of_warp} trials during which they used half a core" in results
    last, final = stock_with_all.gains[-1], warp_with_all.gains[-1]
    assert (stock_with_all.state, warp_with_all.state, warp_with_all.threshold_num_envs) == (
        "undecided",
        "reached",
        8192,
    )
    bound = f"{final.gain:.1%} (upper bound {final.gain_upper_one_sided:.1%})"
    assert f"it says the same: {bound} and {last.gain:.1%} ({last.gain_lower:.1%} to {last.gain_upper:.1%})" in results


def test_the_docs_say_what_quick_says_on_an_h100_and_the_full_grid_on_h200s():
    results, records = words_of("docs/results.md"), records_of("quick")
    quick, with_all, trials = beside_others("quick", "stock")
    full = next(
        limit for limit in throughput.analyse(records_of("cartpole-one-gpu-full"), Decide()) if limit.horizon == 16
    )
    assert quick.state == full.state == with_all.state == "undecided"
    assert quick.largest_num_envs == full.largest_num_envs == 16384
    last, of_full, all_told = quick.gains[-1], full.gains[-1], with_all.gains[-1]
    assert (last.repeats, of_full.repeats, all_told.repeats) == (2, 1, 3)
    words = f"The last doubling gained {last.gain:.1%} ({last.gain_lower:.1%} to {last.gain_upper:.1%})"
    assert f"undecided up to 16,384 environments. {words}, at a cut-off of 10%" in results
    assert f"About {quick.more_repeats} more would decide." in results
    assert f"the last doubling gained {of_full.gain:.1%} (one repeat on the same GPU)" in results
    interval = f"{all_told.gain_lower:.1%} to {all_told.gain_upper:.1%}"
    assert f"With them it is undecided, too: {all_told.gain:.1%} ({interval}, 3 repeats)" in results

    points = {point.num_envs: point for point in full.points}
    gains = [{own.num_envs: own for own in limit.gains} for limit in (quick, full)]
    measured = [
        [r for r in records_of(name) if r.request.horizon == 16 and r.fps_total is not None]
        for name in ("quick", "cartpole-one-gpu-full")
    ]
    assert [point.num_envs for point in quick.points] == [2048, 4096, 8192, 16384]
    for point in quick.points:
        size, other = point.num_envs, points[point.num_envs]
        cells = [fps_in_words(point), fps_in_words(other)]
        for column, own in enumerate(gains):
            digits = 1 if size == 8192 else 0
            cells[column] += f" | {own[size].gain:.{digits}%} |" if size in own else " | |"
        assert f"| {size:,} | {cells[0]} {cells[1]} {point.fps / other.fps:.2f} |" in results
        # "Where both have 95% intervals, these overlap"; "Every measurement of `quick` is below the grid's"
        assert other.fps_lower is not None and other.fps_upper is not None
        if point.fps_lower is not None and point.fps_upper is not None:
            assert point.fps_lower < other.fps_upper and point.fps_upper > other.fps_lower
        (of_quick, of_grid) = (
            [r.fps_total.median for r in of if r.fps_total and r.request.num_envs == size] for of in measured
        )
        assert max(of_quick) < min(of_grid)
    assert len({uuid_of(record) for record in measured[0]}) == 1

    limit = verdict_of("quick").arms[0].memory
    assert limit is not None
    wall = limit.wall(16, None)
    assert wall is not None
    peak = max(record.memory_peak_gb or 0.0 for record in measured[0] if not record.request.again)
    assert f"({peak:.2f} GB; {wall.largest_num_envs:,} are predicted to fit" in results
    assert f"{wall.largest_num_envs_lower:,} to {wall.largest_num_envs_upper:,})" in results
    seconds = [record.outcome.total_s for record in measured[0]]
    begun = [record.outcome.started_unix_s for record in measured[0]]
    in_all = max(start + own for start, own in zip(begun, seconds, strict=True)) - min(begun)
    repeats = len({record.request.repeat for record in measured[0]})
    assert (
        f"One H100 measured {trials} trials in {repeats} repeats: {sum(seconds):.0f} s, and {in_all:.0f} s with"
        in results
    )
    left_out = disturbed.disturbed(records)
    assert left_out == {r.request.number for r in measured[0] if r.request.repeat == 0}
    cores = [disturbed.cores_of_others(record) or 0.0 for record in records if record.request.number in left_out]
    words = f"because other programs kept {min(cores):.1f} to {max(cores):.1f} of 32 cores busy then"
    assert f"leaves out the {len(left_out)} trials of the first repeat, {words}" in results


def test_the_docs_say_what_the_full_question_costs_with_composed_horizons():
    results, blocks = words_of("docs/results.md"), words_of("docs/blocks.md")
    composed = [record for record in records_of("cartpole-one-gpu-decided") if record.request.skip is None]
    few = {limit.horizon: limit for limit in throughput.analyse(composed, Decide())}
    grid = records_of("cartpole-one-gpu-full")
    full = {limit.horizon: limit for limit in throughput.analyse(grid, Decide())}
    for horizon, limit in few.items():
        gain, other = limit.gains[-1], full[horizon].gains[-1]
        assert limit.state == full[horizon].state == "undecided" and gain.num_envs == other.num_envs
        own = f"{gain.gain:.1%} ({gain.gain_lower:.1%} to {gain.gain_upper:.1%}, {gain.repeats} repeats)"
        of_grid = f"{other.gain:.1%} ({'one repeat' if other.repeats == 1 else f'{other.repeats} repeats'})"
        assert f"| {horizon} | {gain.num_envs:,} to {gain.doubled:,} | {own} | {of_grid} |" in results
    took = [record for record in composed if record.outcome.status == "ok"]
    seconds = sum(record.outcome.total_s for record in composed)
    times: dict[tuple[int, int], list[float]] = {}
    for record in grid:
        times.setdefault((record.request.num_envs, record.request.horizon), []).append(record.outcome.total_s)
    whole = 5 * sum(map(fmean, times.values()))
    assert (
        f"It took {seconds:.0f} s of an H200, {seconds / whole:.1%} of the {whole:,.0f} s that five repeats" in results
    )
    begun = [record.outcome.started_unix_s for record in took]
    in_all = max(start + record.outcome.total_s for start, record in zip(begun, took, strict=True)) - min(begun)
    assert f"{len(took)} trials ran in 3 repeats; with the time between them it took {in_all:.0f} s" in results
    composition = compose(composed)
    assert composition.margin is not None and len(composition.errors) == 3
    off = f"at most {math.expm1(composition.margin):.1%} off"
    assert f"Where three sizes were measured, too, they were {off}" in results
    assert off in blocks and f"three horizons took {seconds:.0f} s instead of {whole:,.0f}" in blocks


def fps_in_words(point: ThroughputPoint) -> str:
    interval = "" if point.fps_lower is None else f" ({point.fps_lower:,.0f} to {point.fps_upper:,.0f})"
    return f"{point.fps:,.0f} FPS{interval}"


def test_the_docs_say_how_much_more_memory_a_point_takes_the_second_time():
    own = [record for record in records_of("cartpole-stock-lean-warp") if record.request.arm == "stock"]
    first, again = (
        [r.memory_peak_gb or 0.0 for r in own if r.request.num_envs == 4096 and r.request.again is is_again]
        for is_again in (False, True)
    )
    assert f"the peak was {median(again) / median(first) - 1:.1%} higher" in words_of("docs/blocks.md")


def test_the_docs_say_what_blocks_measured_later():
    kept, docs = json.loads((ROOT / "results-published/blocks-h200-later.json").read_text()), words_of("docs/blocks.md")
    block, fresh = (
        [trial for of_size in kept["sides"][side].values() for trial in of_size] for side in ("block", "fresh")
    )
    starts = [median(trial["start_s"] for trial in side) for side in (block, fresh)]
    assert f"starts a point in {starts[0]:.1f} s in a block and in {starts[1]:.1f} s in a fresh process" in docs
    whole = agreement(*([trial["fps"] for trial in side] for side in (block, fresh)))
    interval = f"90% interval {whole.lower:.3f} to {whole.upper:.3f}, {len(block)} pairs"
    assert f"are {whole.ratio:.3f} of a fresh process's ({interval})" in docs and not whole.is_shown
    assert (kept["horizon"], len(kept["gpus"]), list(kept["sides"]["block"])) == (
        16, 3, ["256", "512", "1024", "2048", "4096", "8192"],
    )  # fmt: skip
    assert f"driver {kept['driver']}, torch {kept['torch']}" in docs


def test_the_docs_say_where_blocks_measure_the_same():
    kept, docs = (
        json.loads((ROOT / "results-published/blocks-lean-warp-h100.json").read_text()),
        words_of("docs/blocks.md"),
    )
    pairs = {
        int(size): list(zip(kept["sides"]["block"][size], kept["sides"]["fresh"][size], strict=True))
        for size in kept["sides"]["block"]
    }

    def fps_of(sizes: Iterable[int]) -> list[list[float]]:
        return [[pair[side]["fps"] for size in sizes for pair in pairs[size]] for side in (0, 1)]

    large = [size for size in pairs if size >= 2048]
    whole = agreement(*fps_of(large))
    interval = f"90% interval {whole.lower:.3f} to {whole.upper:.3f}, {len(fps_of(large)[0])} pairs of six sizes"
    assert f"{whole.ratio:.3f} times a fresh process's FPS ({interval}" in docs and whole.is_shown
    assert (len(large), min(large), max(large)) == (6, 2048, 16384)
    sure = [agreement(*fps_of([size])) for size in large if size >= 3072]
    assert all(size.is_shown for size in sure)
    widest = max(max(1 - size.lower, size.upper - 1) for size in sure)
    assert f"from 3,072 on shows it by itself, within {widest:.1%}" in docs
    unsure = agreement(*fps_of([2048]))
    assert f"it is {unsure.ratio:.3f} times ({unsure.lower:.3f} to {unsure.upper:.3f})" in docs and not unsure.is_shown
    small = agreement(*fps_of([1024]))
    assert f"{small.ratio:.3f} times ({small.lower:.3f} to {small.upper:.3f})" in docs and not small.is_shown
    further = [max(pair) / min(pair) - 1 for pair in zip(*fps_of([512, 1024]), strict=True)]
    assert f"two processes differ by up to {max(further):.0%}" in docs
    memory = [abs(block["memory_gb"] / fresh["memory_gb"] - 1) for own in pairs.values() for block, fresh in own]
    assert f"peak memory agrees within {max(memory):.1%}" in docs
    assert f"horizon {kept['horizon']}, driver {kept['driver']}, torch {kept['torch']}" in docs


def test_the_docs_say_how_large_a_batch_pays():
    (arm,) = (arm for arm in verdict_of("cartpole-two-gpu-learning").arms if arm.noise_scales)
    (point,) = arm.noise_scales
    scale = point.scale
    assert (arm.arm, point.num_envs, point.batch_size, scale.samples) == ("data-parallel", 512, 8192, 5)
    interval = f"{scale.lower:.0f} to {scale.upper:.0f}; five seeds, "
    readme = words_of("README.md")
    assert f"About **{scale.transitions:.0f}** transitions, the gradient noise scale ({interval}two H100)" in readme
    assert f"Far larger ones ({point.batch_size:,} transitions, same GPUs)" in readme
    words = f"is {scale.transitions:.0f} transitions ({interval}"
    assert f"{words}1,024 environments in all, batches of 8,192, two H100)" in words_of("docs/results.md")


def test_the_docs_say_what_a_second_gpu_brings_to_learning():
    docs, results, study = words_of("docs/trainers.md"), words_of("docs/results.md"), "cartpole-two-gpu-learning"
    names = {
        "one-gpu": "one GPU, RSL-RL",
        "data-parallel": "two GPUs, data-parallel, 512 on each",
        "pipeline": "two GPUs, pipeline (TorchRL)",
    }
    records, seconds = records_of(study), {}
    assert f"{len(records)} of {len(space.plan(read_study(PUBLISHED[study].study)))} trials" in docs
    for arm, name in names.items():
        own = [record for record in records if record.request.arm == arm]
        assert {record.num_envs_total for record in own} == {1024} and len(own) == 5
        rows = [row for record in own for row in read_rows(PUBLISHED[study].trial(record.request.number))]
        updates = [row.pipeline.learner_s if row.pipeline else row.learn_s for row in rows]
        iteration_s = median(row.iteration_s or 0.0 for row in rows)
        times = seconds[arm] = [record.seconds_to_target or 0.0 for record in own]
        frames = median(record.frames_to_target or 0 for record in own) / 1e6
        cells = f"{median(times):.1f} ({min(times):.1f} to {max(times):.1f}) | {frames:.2f} | {iteration_s:.2f}"
        update_s = median(value for value in updates if value is not None)
        assert f"| {name} | {cells} | {update_s:.2f} | {own[0].memory_peak_gb:.2f}" in docs
    two, one = (f"{median(seconds[arm]):.1f} s" for arm in ("data-parallel", "one-gpu"))
    assert f"reward 4.5 in {two}, with one GPU in {one} (medians of five seeds, lean frames)" in results
    pair = compare.sides(*(compare.Side.read(f"{PUBLISHED[study].root}:{arm}") for arm in ("one-gpu", "pipeline")))[0]
    longer, more = (ratio_of(pair, measure) for measure in ("seconds to target", "frames to target"))
    assert f"{longer.ratio:.2f} times as long ({longer.lower:.2f} to {longer.upper:.2f} at 95%)" in docs
    assert f"{more.ratio:.2f} times the frames ({more.lower:.2f} to {more.upper:.2f})" in docs


def test_the_docs_say_what_neighbours_cost():
    kept = json.loads((ROOT / "results-published/neighbours-h100.json").read_text())
    points = [neighbours.Measured(**point) for point in kept["measured"]]
    docs, words = words_of("docs/measuring.md"), []
    for num_envs in (4096, 1024):
        ratio = agreement(*zip(*neighbours.ratios(points, num_envs, 2), strict=True))
        words.append((f"{ratio.ratio:.3f} times", f"{ratio.lower:.3f} to {ratio.upper:.3f}"))
    assert f"each had {words[0][0]} the FPS of a trial alone (90% interval {words[0][1]})" in docs
    assert f"At 1,024 they had {words[1][0]}, with an interval ({words[1][1]}) too wide" in docs
    alone = [round(point.fps, -3) for point in points if (point.num_envs, point.blocks) == (1024, 1)]
    assert f"FPS alone differed from {min(alone):,.0f} to {max(alone):,.0f} between rounds" in docs


def test_the_docs_say_what_the_study_of_trainers_says():
    docs = (ROOT / "docs/trainers.md").read_text()
    by_trainer: dict[str, list[tuple[float, int]]] = {}
    outcomes = [record.outcome for record in records_of("cartpole-trainers")]
    ended_unix_s = max(outcome.started_unix_s + outcome.total_s for outcome in outcomes)
    minutes = (ended_unix_s - min(outcome.started_unix_s for outcome in outcomes)) / 60
    assert f"three seeds each, in {minutes:.0f} minutes on two cores" in docs
    for record in records_of("cartpole-trainers"):
        assert record.seconds_to_target is not None and record.frames_to_target is not None
        by_trainer.setdefault(record.request.trainer, []).append((record.seconds_to_target, record.frames_to_target))
    for trainer, targets in by_trainer.items():
        seconds, frames = (sorted(values) for values in zip(*targets, strict=True))
        each = ", ".join(f"{seed_s:.0f}" for seed_s in seconds)
        assert f"| `{trainer}` | {median(seconds):.0f} ({each}) | {median(frames):,} |" in docs


def test_the_docs_say_what_sac_takes_beside_ppo():
    docs, study = (ROOT / "docs/trainers.md").read_text(), "cartpole-off-policy"
    records = records_of(study)
    frames_of: dict[tuple[str, int], float] = {}
    for trainer, num_envs in ((trainer, size) for size in (64, 256) for trainer in ("rsl_rl", "skrl_sac")):
        own = [r for r in records if r.request.kind == "learning" and r.request.trainer == trainer]
        own = [record for record in own if record.request.num_envs == num_envs]
        reached = [record for record in own if record.frames_to_target is not None]
        # A seed that spent its budget counts with what it spent: here more than the median, which is then known.
        seconds = median(record.seconds_to_target or record.train_s for record in own)
        frames = frames_of[trainer, num_envs] = median(record.frames_to_target or record.frames for record in own)
        assert frames in {record.frames_to_target for record in reached}
        row = f"| {num_envs} | `{trainer}` | {len(reached)} of {len(own)} | {seconds:.0f} | {frames:,} |"
        assert row in docs
    assert f"SAC took {frames_of['skrl_sac', 256] / frames_of['skrl_sac', 64]:.1f} times the frames" in docs
    ppo, sac = (next(arm for arm in verdict_of(study).arms if arm.arm == name) for name in ("ppo", "sac"))
    (found,), (undecided,) = (arm.throughput for arm in (sac, ppo))
    assert found.statement.startswith("still pays at 1,024") and undecided.statement.startswith("undecided")
    last = found.gains[-1]
    assert f"the last doubling gained {last.gain:.0%} (at least {last.gain_lower_one_sided:.0%})" in docs
    assert f"Gradient steps take {sac.phases[0].points[-1].shares['learning']:.0%} of the iteration there" in docs
    terms = [{term.name: term.gb for term in arm.memory.terms} if arm.memory else {} for arm in (ppo, sac)]
    larger_mb = 1e3 * (terms[1]["base"] - terms[0]["base"])
    buffers_gb = {round(r.rollout_gb or 0.0, 3) for r in records if r.request.trainer == "skrl_sac"}
    assert buffers_gb == {0.041} and set(terms[1]) == {"base", "per_environment"}
    assert f"base is {larger_mb:.0f} MB larger than PPO's. The replay buffer has 41 MB" in " ".join(docs.split())


def test_the_docs_say_what_a_pipeline_gains():
    docs, study = words_of("docs/trainers.md"), "cartpole-two-gpu-pipeline"
    pipeline_and_turns = medians_of(study, "pipeline", "in-turns")
    parallel = medians_of(study, "data-parallel", "data-parallel")
    gains = []
    for in_all in (512, 1024, 2048, 4096):
        pipeline, turns = pipeline_and_turns("fps_total", in_all)
        gains.append(pipeline / turns)
        line = f"| {in_all:,} | {turns:,.0f} | {pipeline:,.0f} |"
        if in_all == 512:  # 256 on each of two GPUs was not measured
            assert f"{line} – | {pipeline / turns:.2f} | – |" in docs
            continue
        both, _ = parallel("fps_total", in_all // 2)
        assert f"{line} {both:,.0f} | {pipeline / turns:.2f} | {pipeline / both:.2f} |" in docs
        assert pipeline < both
    assert f"on two H200 {min(gains):.2f} to {max(gains):.2f} times one GPU's FPS, and less than" in words_of(
        "docs/measuring.md"
    )
    (_, learn_s), (_, collect_s) = (pipeline_and_turns(column, 4096) for column in ("learn_s", "collect_s"))
    assert f"with 4,096 environments {learn_s:.2f} of {learn_s + collect_s:.2f} s with `in_turns`" in docs
    (collect_ms, own_ms), (store_ms, own_store_ms) = (
        [seconds / 32 * 1e3 for seconds in pipeline_and_turns(column, 1024)] for column in ("collect_s", "storage_s")
    )
    assert f"it took {collect_ms:.1f} ms a step instead of {own_ms:.1f} with `in_turns`" in docs
    assert f"Storing alone took {store_ms:.1f} ms instead of {own_store_ms:.1f}." in docs
    few, many = (
        round(num_envs * 32 / max(pipeline_and_turns(column, num_envs)[1] for column in ("learn_s", "collect_s")), -3)
        for num_envs in (1024, 4096)
    )
    assert (
        f"would allow {few:,.0f} FPS with 1,024 environments, about as many as data-parallel, and {many:,.0f} with"
        in docs
    )
    seconds: dict[str, list[float]] = {}
    millions: dict[str, list[float]] = {}
    for record in records_of(study):
        if record.request.kind == "learning":
            assert record.seconds_to_target is not None and record.frames_to_target is not None
            seconds.setdefault(record.request.arm, []).append(record.seconds_to_target)
            millions.setdefault(record.request.arm, []).append(record.frames_to_target / 1e6)
    words = {
        arm: tuple(" and ".join(f"{value:.1f}" for value in sorted(of[arm])) for of in (seconds, millions))
        for arm in seconds
    }
    assert "| pipeline (one seed; the second was not measured) | {} | {} |".format(*words["pipeline"]) in docs
    assert "| `in_turns` | {} | {} |".format(*words["in-turns"]) in docs
    assert "| data-parallel (2,048 in all) | {} | {} |".format(*words["data-parallel"]) in docs
