"""docs/results.md: FPS, gains and memory by size."""

from dataclasses import replace
from statistics import fmean

from envknee.after.compare.sides import Side
from envknee.base.point import Point
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.memory import MemoryWall
from envknee.verdict.schema.throughput import ThroughputLimit, ThroughputPoint
from envknee.words.joint_costs import short_setting

from benchmarks.pages import readme
from benchmarks.pages import two_cameras as two_cameras_page
from benchmarks.pages.cells import bounded, change, gigabytes, outcome, share, table, times
from benchmarks.pages.findings import H200, LEARNING, SAME_GPU, WARP_LEARNING, most_fps
from benchmarks.pages.joint_runs import seconds
from benchmarks.pages.lean import on_machines
from benchmarks.pages.published import (
    arm_of,
    both_sides,
    fits,
    fps_ratio,
    gain_from,
    learning_point,
    learning_ratio,
    median_fps,
    median_gb,
    median_s_to_target,
    peak_gb,
    phases_of,
    ratio_of,
    records_of,
    target_of,
    throughput_of,
    uuid_of,
    verdict_of,
)

QUICK_RUNS = ("quick-h200-1", "quick-h200-2")
LEAN_LEARNING, EARLIER = "cartpole-stock-lean-learning", "cartpole-stock-lean"
H100, GRID, DECIDED, QUICK = (
    "cartpole-stock-lean-decided",
    "cartpole-one-gpu-full",
    "cartpole-one-gpu-decided",
    "quick-fps",
)


def fps_at(limit: ThroughputLimit, num_envs: int) -> str:
    """Return FPS at a size, or that it does not fit."""
    if any(point.num_envs == num_envs for point in limit.infeasible):
        return "out of memory"
    return f"{limit.point(num_envs).fps:,.0f} FPS"


def gain_at(limit: ThroughputLimit, num_envs: int) -> str:
    """Return what doubling a size gains; empty at the largest one."""
    if any(point.num_envs == 2 * num_envs for point in limit.infeasible):
        return "does not fit"
    return next((change(gain) for gain in limit.gains if gain.num_envs == num_envs), "")


def on_h200s() -> str:
    """Return FPS, gains and memory on H200s by size, with Isaac Lab's frames and with lean ones."""
    stock, warp = (throughput_of(H200, arm, 32) for arm in ("stock", "lean-warp"))
    rows = []
    for point in stock.points:
        size = point.num_envs
        ratio = fps_ratio(H200, "lean-warp", size)
        gains = [gain_at(limit, size) for limit in (stock, warp)]
        memory = gigabytes(peak_gb(H200, "lean-warp", size), peak_gb(H200, "stock", size))
        compared = "" if ratio.lower is None else times(ratio)
        rows.append((f"{size:,}", fps_at(stock, size), gains[0], fps_at(warp, size), gains[1], compared, memory))
    heads = (
        "environments", "Isaac Lab's frames", "doubling gains", "lean frames, `frontend: warp`", "doubling gains",
        "FPS, lean ÷ Isaac Lab's", "memory",
    )  # fmt: skip
    return table(heads, rows)


def on_an_h100() -> str:
    """Return FPS and gains on an H100 by size, with Isaac Lab's frames and with lean ones."""
    stock, warp = (throughput_of(H100, arm, 32) for arm in ("stock", "lean-warp"))
    rows = []
    for point in warp.points:
        size = point.num_envs
        rows.append((f"{size:,}", fps_at(stock, size), gain_at(stock, size), fps_at(warp, size), gain_at(warp, size)))
    heads = ("environments", "Isaac Lab's frames", "doubling gains", "lean frames, `frontend: warp`", "doubling gains")
    return table(heads, rows)


def three_arms() -> str:
    """Return FPS, memory, what fits and what learning takes, of three alternating arms."""
    arms = ("lean", "lean-warp")
    rows = []
    for size in (1024, 4096):
        cells = [f"{size:,}", f"{median_fps(SAME_GPU, 'stock', size):,.0f} FPS"]
        for arm in arms:
            ratio = times(fps_ratio(SAME_GPU, arm, size), bold=arm == "lean-warp")
            cells.append(f"{median_fps(SAME_GPU, arm, size):,.0f}: {ratio}")
        rows.append(cells)
    rows.append(["4,096: memory", *(f"{peak_gb(SAME_GPU, arm, 4096):.2f} GB" for arm in ("stock", *arms))])
    fitting = [fits(SAME_GPU, arm, "24 GB") for arm in ("stock", *arms)]
    rows.append(["What fits in 24 GB (from two sizes, no interval)", *fitting])
    lean = ratio_of(on_one_gpu(both_sides(LEAN_LEARNING, "stock", "lean")), "seconds_to_target")
    warp, frames = (
        learning_ratio(WARP_LEARNING, "lean-warp", measure) for measure in ("seconds_to_target", "frames_to_target")
    )
    rows.append(
        [
            f"1,024: seconds to reward {target_of(WARP_LEARNING):g}, as a share of stock's",
            "1",
            f"{share(lean)}, an H200",
            f"{share(warp)}, from {share(frames, after=' of the environment steps')}",
        ]
    )
    return table(("environments", "Isaac Lab's frames", "lean frames", "lean frames, `frontend: warp`"), rows)


def on_one_gpu(pair: tuple[Side, Side]) -> tuple[Side, Side]:
    """Return two arms with the repeats that the same GPU measured on both sides."""
    gpus = [{(record.request.repeat, uuid_of(record)) for record in side.records} for side in pair]
    repeats = {repeat for repeat, _ in gpus[0] & gpus[1]}
    left, right = (
        replace(side, records=[record for record in side.records if record.request.repeat in repeats]) for side in pair
    )
    return left, right


def with_interval(point: ThroughputPoint) -> str:
    """Return FPS with the interval of the point alone."""
    if point.fps_lower is None:
        return f"{point.fps:,.0f} FPS"
    return f"{point.fps:,.0f} FPS ({point.fps_lower:,.0f} to {point.fps_upper:,.0f})"


def estimated(gain: Gain) -> str:
    """Return a gain without its interval: `10.5%`; from 16% on without decimals."""
    return f"{gain.gain:.{1 if gain.gain < 0.16 else 0}%}"


def quick_beside_grid() -> str:
    """Return FPS and gains of `quick` beside those of the full grid."""
    quick, grid = throughput_of(QUICK, "stock", 16), throughput_of(GRID, "stock", 16)
    rows = []
    for point in quick.points:
        size = point.num_envs
        cells = [f"{size:,}"]
        for limit in (quick, grid):
            gains = [estimated(gain) for gain in limit.gains if gain.num_envs == size]
            cells += [with_interval(limit.point(size)), *(gains or [""])]
        rows.append([*cells, f"{point.fps / grid.point(size).fps:.2f}"])
    heads = (
        "environments", "`quick`, an H100", "doubling gains", "`one-gpu-full`, H200s", "doubling gains", "FPS, `quick` ÷ grid",
    )  # fmt: skip
    return table(heads, rows)


def decided_beside_grid() -> str:
    """Return what `one-gpu-decided` says of each horizon, beside the full grid."""
    rows = []
    for horizon in (16, 32, 64):
        limit = throughput_of(DECIDED, "stock", horizon)
        gain = limit.named
        assert gain is not None
        bounds = f"{gain.gain_lower:.1%} to {gain.gain_upper:.1%}, {gain.repeats} repeats"
        whole = gain_from(throughput_of(GRID, "stock", horizon), gain.num_envs)
        rows.append(
            (
                f"{horizon}",
                f"{gain.num_envs:,} to {gain.doubled:,}",
                f"{gain.gain:.1%} ({bounds})",
                f"**{gain.num_envs:,}** are enough" if limit.state == "reached" else limit.state,
                f"{whole.gain:.1%} ({whole.repeats} repeat{'s' * (whole.repeats > 1)})",
            )
        )
    delta = f"{throughput_of(DECIDED, 'stock', 16).delta:.0%}"
    heads = ("horizon", "doubling", "`one-gpu-decided` gains", f"verdict at {delta}", "`one-gpu-full` gains")
    return table(heads, rows)


def findings() -> str:
    """Return the questions, the answer of the records to each, and the study."""
    stock = throughput_of(H200, "stock", 32)
    size = stock.threshold_num_envs
    assert size is not None
    rows = [
        (
            "Until where does FPS grow?",
            f"**{size:,}** environments: doubling gains {bounded(gain_from(stock, size))}, cut-off {stock.delta:.0%}."
            f" [With lean frames on Warp's frontend](#until-where-do-fps-grow-on-an-h200) {most_fps('lean-warp')[0].num_envs:,},"
            f" at {fps_ratio(H200, 'lean-warp', size).ratio:.2f} times those FPS",
            H200,
        ),
        ("The same with an earlier version", earlier(), "cartpole-stock-lean"),
        ("And in a grid of three horizons?", in_the_grid(), GRID),
        ("And on an H100 with 80 GB?", with_80_gb(), H100),
        ("Until where does it *learn* sooner, with batches of 8,192?", readme.learns(), LEARNING),
        ("Which batch size?", readme.batch_size(), readme.LEARNING_ON_TWO),
        ("What fits?", what_fits(), GRID),
        ("What takes the time?", what_takes_time(), GRID),
        ("What does a second GPU bring to *learn*?", second_gpu_learns(), readme.LEARNING_ON_TWO),
        ("What does a second GPU bring in FPS?", second_gpu_fps(), readme.TWO_GPUS),
    ]
    linked = [
        (question, answer, f"[`{study.removeprefix('cartpole-')}`](../results-published/{study})")
        for question, answer, study in rows
    ]
    return table(("question", "answer", "study"), linked)


def earlier() -> str:
    """Return until where FPS grew with an earlier version."""
    limit = throughput_of("cartpole-stock-lean", "stock", 32)
    size = limit.threshold_num_envs
    assert size is not None and limit.state == "reached"
    gain = gain_from(limit, size)
    bound = f"at most {gain.gain_upper_one_sided:.0%}, {gain.repeats} repeats"
    return f"Reached at {size:,} environments: doubling gains {gain.gain:.0%} ({bound}), cut-off {limit.delta:.0%}"


def in_the_grid() -> str:
    """Return what the grid says of horizon 32."""
    limit = throughput_of(GRID, "stock", 32)
    last, best = limit.gains[-1], max(point.fps for point in limit.points)
    share = limit.point(last.num_envs).fps / best
    return (
        f"{limit.state.capitalize()} up to {last.doubled:,} environments: the last doubling gained {last.gain:.0%}"
        f" ({last.repeats} repeats, {last.machines} GPUs with both sizes). {last.num_envs:,} give {share:.0%} of the best FPS"
    )


def with_80_gb() -> str:
    """Return where FPS and memory end on an H100."""
    stock, warp = (throughput_of(H100, arm, 32) for arm in ("stock", "lean-warp"))
    last, size = stock.gains[-1], warp.threshold_num_envs
    assert size is not None
    return (
        f"Memory ends at {stock.largest_num_envs:,} environments at horizon {stock.horizon}."
        f" From {last.num_envs:,} to {last.doubled:,} FPS grow by {change(last)},"
        f" {outcome(last, stock.delta)}. [With lean frames](#until-where-do-fps-grow-on-an-h100) FPS flattened at {size:,}"
    )


def what_fits() -> str:
    """Return what is predicted to fit three cards."""
    few, some, many = (fits(GRID, "stock", card) for card in ("8 GB", "24 GB", "80 GB"))
    return f"At horizon 32: {few} environments in 8 GB, {some} in 24 GB, {many} in 80 GB"


def what_takes_time() -> str:
    """Return the share of learning in the time of an added environment, and of few ones."""
    law = phases_of(GRID, "stock", 32).law("learning")
    assert law.share_of_slope is not None and law.share_of_t0 is not None
    return (
        f"Learning: {law.share_of_slope:.0%} of what each added environment costs,"
        f" and {law.share_of_t0:.0%} of what few environments wait for"
    )


def second_gpu_learns() -> str:
    """Return the seconds to the target of one GPU and of two."""
    study = readme.LEARNING_ON_TWO
    one_s, two_s = (median_s_to_target(study, arm) for arm in ("one-gpu", "data-parallel"))
    seeds = len({record.request.repeat for record in records_of(study) if record.request.arm == "one-gpu"})
    return (
        f"With 1,024 environments in all: reward {target_of(study):g} in {two_s:.1f} s, with one GPU in {one_s:.1f} s"
        f" (medians of {seeds} seeds, lean frames)"
    )


def second_gpu_fps() -> str:
    """Return how FPS scale on two GPUs."""
    stock, lean = (readme.scaling_of(arm).fastest for arm in ("two-gpus", "lean-two-gpus"))
    assert stock is not None and lean is not None
    efficiency = [f"{point.efficiency_lower:.0%} to {point.efficiency_upper:.0%}" for point in (stock, lean)]
    return (
        f"On two H100 {stock.speedup:.2f} times the FPS at {stock.num_envs:,} environments on each (efficiency {efficiency[0]});"
        f" with lean frames {lean.speedup:.2f} times ({efficiency[1]}), {lean.fps_all_ranks:,.0f} FPS"
    )


def fits_24_gb() -> str:
    """Return what the study on H200s predicts to fit in 24 GB, with lean frames and with stock frames."""
    lean, stock = (fits(H200, arm, "24 GB").replace(" (", " environments (", 1) for arm in ("lean-warp", "stock"))
    return f"{lean} in 24 GB with lean frames, and {stock.replace(' environments', '')} with stock frames"


def lean_on_an_h100() -> str:
    """Return where FPS of lean frames end on an H100, beside stock's at the same size."""
    warp = throughput_of(H100, "lean-warp", 32)
    size = warp.threshold_num_envs
    assert size is not None
    gain, ratio = gain_from(warp, size), fps_ratio(H100, "lean-warp", size)
    memory = gigabytes(*(peak_gb(H100, arm, size) for arm in ("lean-warp", "stock")))
    return (
        f"**{size:,} environments** gave {warp.point(size).fps:,.0f} FPS with lean frames and `frontend: warp`. Doubling gained"
        f" {bounded(gain)}, at a cut-off of {warp.delta:.0%}.\nThat was {times(ratio)} stock's FPS, in {memory}."
    )


def earlier_kernels() -> str:
    """Return FPS on both machines, memory, what fits and what learning takes, with earlier kernels."""
    arms = ("stock", "lean")
    rows = [("Until where does FPS grow?", *(grows_until(throughput_of(EARLIER, arm, 32)) for arm in arms))]
    for size in (4096, 16384):
        fps = ("; ".join(f"{own:,.0f}" for own in on_machines(arm, size, "fps_total")) for arm in arms)
        rows.append((f"FPS with {size:,}", *fps))
    rows += [
        (f"Memory with {size:,}", *(f"{median_gb(EARLIER, arm, size):.2f} GB" for arm in arms))
        for size in (4096, 16384)
    ]
    fitting = (", ".join(fits(EARLIER, arm, card) for card in ("8 GB", "24 GB")) for arm in arms)
    rows.append(("Environments that fit in 8 GB, in 24 GB", *fitting))
    seconds = share(ratio_of(on_one_gpu(both_sides(LEAN_LEARNING, *arms)), "seconds_to_target"))
    frames = share(learning_ratio(LEAN_LEARNING, "lean", "frames_to_target"))
    reward = f"{target_of(LEAN_LEARNING):g}"
    rows.append((f"Seconds to reward {reward} with 1,024, as a share of stock's", "1", seconds))
    rows.append((f"Environment steps to reward {reward} with 1,024, as a share of stock's", "1", frames))
    return table(("", "Isaac Lab's frames", "lean frames"), rows)


def grows_until(limit: ThroughputLimit) -> str:
    """Return where FPS stop growing, or what is left open."""
    last = limit.gains[-1]
    if limit.threshold_num_envs is None:
        return f"{limit.state} up to {last.doubled:,}: the last doubling gains {change(last)}"
    gain = gain_from(limit, limit.threshold_num_envs)
    return f"{limit.threshold_num_envs:,} environments: doubling gains {bounded(gain)}"


def quick_verdict() -> str:
    """Return what `quick` says of its last doubling, and what fits."""
    limit = throughput_of(QUICK, "stock", 16)
    last, memory = limit.gains[-1], arm_of(QUICK, "stock").memory
    wall = memory.wall(limit.series) if memory else None
    assert wall is not None and wall.largest_num_envs is not None
    return (
        f"`quick` was {limit.state} up to {last.doubled:,} environments. The last doubling gained {change(last)} at a cut-off of"
        f" {limit.delta:.0%}, with {last.repeats} repeats.\nAbout {limit.more_repeats} more would decide. {last.doubled:,} environments"
        f" fit at horizon 16 in {peak_gb(QUICK, 'stock', last.doubled):.2f} GB; {with_ends(wall)} are predicted to fit."
    )


def with_ends(wall: MemoryWall) -> str:
    """Return the environments that are predicted to fit, with their interval."""
    return f"{wall.largest_num_envs:,} ({wall.largest_num_envs_lower:,} to {wall.largest_num_envs_upper:,})"


def cost_of_the_question() -> str:
    """Return the seconds of `one-gpu-decided` beside those of five repeats of the grid."""
    ran = without_skipped(records_of(DECIDED))
    decided_s, decided_held_s = sum(own.outcome.total_s for own in ran), sum(map(held_s, ran))
    by_point: dict[Point, list[Record]] = {}
    for record in without_skipped(records_of(GRID)):
        by_point.setdefault(record.request.point, []).append(record)
    # Of each point five repeats, as long as the recorded ones on average.
    grid_s, grid_held_s = (
        sum(5 * fmean(map(of, own)) for own in by_point.values()) for of in (lambda own: own.outcome.total_s, held_s)
    )
    rows = [
        ("trials", f"{decided_s:,.0f} s", f"{grid_s:,.0f} s", f"{decided_s / grid_s:.1%}"),
        (
            "with the time between trials",
            f"{decided_held_s:,.0f} s",
            f"{grid_held_s:,.0f} s",
            f"{decided_held_s / grid_held_s:.1%}",
        ),
    ]
    return table(("GPU time", f"`one-gpu-decided`, {len(ran)} trials", "five repeats of the grid", "share"), rows)


def held_s(record: Record) -> float:
    """Return how long a trial held its GPU."""
    return 3600.0 * (record.gpu_hours or 0.0)


def composed_error() -> str:
    """Return how far the composed FPS of `one-gpu-decided` were off where they were measured, too."""
    composed = throughput_of(DECIDED, "stock", 32).composed
    assert composed is not None and composed.error is not None
    return f"{composed.error:.1%}"


def more_studies() -> str:
    """Return further studies, with a number of each and the page that has the others."""
    two = next(own.fastest for own in verdict_of("cartpole-two-gpus").scaling)
    assert two is not None
    efficiency = f"{two.efficiency_lower:.0%} to {two.efficiency_upper:.0%}"
    one_camera, two_cameras = (
        (median_fps(two_cameras_page.CAMERAS, arm, 2048), median_gb(two_cameras_page.CAMERAS, arm, 2048))
        for arm in two_cameras_page.ARMS
    )
    card = verdict_of(two_cameras_page.CARD).remedies
    lean = next(own for own in card.remedies if own.arm == "lean") if card else None
    assert lean is not None and lean.fits is not None
    fixed_s, library_s = (rule_seconds(arm, 4096) for arm in ("fixed_batch", "library"))
    rows = [
        (
            "two-gpus",
            f"two H200: {two.speedup:.2f} times the FPS at {two.num_envs:,} environments on each (efficiency {efficiency})",
            "",
        ),
        (
            "learning-rules",
            "four rules for batch, learning rate and horizon, on H100s. None is shown to move the limit. With 4,096 environments"
            f" `fixed_batch` takes {fixed_s:.1f} s to reward 4.5, `library` {library_s:.1f} s",
            "[learning-rules.md](learning-rules.md#what-four-rules-show)",
        ),
        (
            "two-gpu-pipeline",
            "two GPUs: data-parallel against one that simulates and one that learns",
            "[trainers.md](trainers.md#two-gpus-as-a-pipeline-strategy-async2)",
        ),
        ("trainers", "five libraries train one task to one reward", "[trainers.md](trainers.md)"),
        ("off-policy", "SAC beside PPO on two CPU cores", "[trainers.md](trainers.md#skrls-sac-trainer-skrl_sac)"),
        (
            "dual-camera",
            f"what a second camera costs. With 2,048 environments: {two_cameras[1] / one_camera[1]:.2f} times the memory,"
            f" {two_cameras[0] / one_camera[0]:.2f} times the FPS",
            "[two-cameras.md](two-cameras.md)",
        ),
        (
            "small-card",
            f"what each remedy buys on 8 GB. With lean frames {lean.shown_at} environments fit where the task's own ran out of memory"
            f" ({1.0 + lean.fits.value:.2f} times as many by the model, which has no interval there)",
            "[two-cameras.md](two-cameras.md)",
        ),
        (
            "stock-lean-cuda",
            "lean frames on an H100 before acting was captured",
            "[lean-measured.md](lean-measured.md#what-it-gains)",
        ),
        (
            "stock-lean-4096",
            "lean frames on an H100 with Triton's kernels",
            "[lean-measured.md](lean-measured.md#what-it-gains)",
        ),
    ]
    linked = [(f"[`{study}`](../results-published/cartpole-{study})", shows, page) for study, shows, page in rows]
    return table(("study", "what it shows", "page"), linked)


def rule_seconds(arm: str, num_envs: int) -> float:
    """Return the seconds to the target under a scaling rule."""
    (limit,) = arm_of("cartpole-learning-rules", arm).learning
    seconds = learning_point(limit, num_envs).seconds_to_target
    assert seconds is not None
    return seconds.value


def quick_runs() -> str:
    """Return what the two runs of `quick` say: FPS of Isaac Lab's frames, and the soonest setting of lean ones."""
    rows = []
    for run in QUICK_RUNS:
        (fps,), (learning,) = (arm_of(run, arm).joint for arm in ("stock", "lean-warp"))
        most, soonest = fps.confirmed[0], learning.confirmed[0]
        if most.cost is None or most.cost_lower is None or most.cost_upper is None:
            raise ValueError(f"{run}: no interval of FPS; mend the table of docs/results.md")
        likely = sum(setting.may_be_best for setting in learning.confirmed)
        rows.append(
            (
                f"[`{run}`](../results-published/{run})",
                f"{short_setting(most)}: {1 / most.cost:,.0f} ({1 / most.cost_upper:,.0f} to {1 / most.cost_lower:,.0f})",
                open_or_decided(fps),
                f"{short_setting(soonest)}: {seconds(soonest)}",
                f"{likely} of {len(learning.confirmed)}",
                open_or_decided(learning),
            )
        )
    heads = (
        "run", "most FPS, Isaac Lab's frames", "threshold of num_envs", "soonest, lean frames", "settings that may be as soon",
        "threshold of num_envs",
    )  # fmt: skip
    return table(heads, rows)


def open_or_decided(answer: JointAnswer) -> str:
    """Return the threshold of num_envs of a joint answer; if it is open, how many further seeds would decide."""
    threshold = answer.threshold_of("num_envs")
    if threshold is None:
        return "not asked"
    if threshold.threshold is not None:
        return f"{threshold.threshold:,}"
    seeds = "more would hardly decide" if answer.more_seeds is None else f"{answer.more_seeds} more would decide"
    return f"{threshold.state}: {seeds}"


BLOCKS = {
    "results-quick-runs": quick_runs,
    "results-more": more_studies,
    "results-h200-fits": fits_24_gb,
    "results-h100-lean": lean_on_an_h100,
    "results-earlier-kernels": earlier_kernels,
    "results-quick-verdict": quick_verdict,
    "results-cost": cost_of_the_question,
    "results-composed-error": composed_error,
    "results-findings": findings,
    "results-h200": on_h200s,
    "results-h100": on_an_h100,
    "results-three-arms": three_arms,
    "results-quick": quick_beside_grid,
    "results-decided": decided_beside_grid,
}
