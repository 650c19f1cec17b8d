"""README.md: what was found on H200s."""

from envknee.base.point import rollout_size
from envknee.verdict.schema.joint import ConfirmedSetting
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.series import ONE_GPU
from envknee.words.joint_costs import setting_words, short_setting

from benchmarks.pages.cells import bounded, change, gigabytes, outcome, table, times
from benchmarks.pages.findings import (
    H200,
    compiled_ratio,
    fps_growth,
    lean_times,
    most_fps,
    printed,
    seconds_at,
    soonest,
    task_ratio,
)
from benchmarks.pages.joint import FAST, SLOW, STUDY
from benchmarks.pages.joint_runs import best_of, seconds
from benchmarks.pages.joint_runs import times as setting_times
from benchmarks.pages.published import (
    card_of,
    fits,
    fps_ratio,
    gain_from,
    json_of,
    median_s_to_target,
    peak_gb,
    phases_of,
    target_of,
    throughput_of,
    verdict_of,
)

TWO_GPUS, LEARNING_ON_TWO = "cartpole-two-gpus-lean", "cartpole-two-gpu-learning"
FEW = "cartpole-few-environments"


def headline() -> str:
    """Return what to run on an H200."""
    (stock, gain), (lean, lean_gain) = most_fps("stock"), most_fps("lean-warp")
    slow, fast = (best_of(STUDY, arm, "learning") for arm in (SLOW, FAST))
    lines = [
        f"To learn soonest on an H200, run **{setting_words(slow, ONE_GPU)}**."
        f" It took the least time to reward {target_of(STUDY):.1f}: {seconds(slow)}."
        f" With [lean frames](docs/lean.md) and Warp's frontend, run {setting_words(fast, ONE_GPU)}: {seconds(fast)}."
        f" Isaac Lab's frames take {setting_times(slow, fast)} as long."
        " Each is the soonest one of its arm that is known; [others may be as soon](docs/joint.md#a-slow-arm-that-learns-like-a-fast-one).",
        f"For most environment steps per second (FPS), run **{stock.num_envs:,} environments**: {stock.fps:,.0f} FPS."
        f" Doubling them gains {gain.gain:.1%}, less than the {verdict_of(H200).delta:.0%} that counts as paying.",
        f"With lean frames and Warp's frontend, {lean.num_envs:,} give {lean.fps:,.0f} FPS,"
        f" **{lean_times()} times** as many as Isaac Lab's defaults. Doubling them gains {lean_gain.gain:.1%}."
        f" Against RSL-RL's compiled networks the factor is {compiled_ratio().ratio:.1f}, and"
        f" [on a task with contacts](docs/lean-measured.md#a-task-with-contacts), of another library, {task_ratio().ratio:.1f}."
        " It needs RSL-RL, a Warp version of the task and bfloat16; recurrent policies are refused.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def findings() -> str:
    """Return the questions, with the answer of the records to each."""
    rows = [
        ("Which sizes learn soonest, chosen together?", learns_together()),
        ("How soon do lean frames and Warp's frontend nearly solve it?", few_environments()),
        ("How many pay in FPS?", pays("stock")),
        ("And with lean frames and Warp's frontend?", pays("lean-warp")),
        ("Which batch size?", batch_size()),
        ("What fits on my card?", what_fits()),
        ("Where does the time go?", where_time_goes()),
        ("What does a second GPU bring?", second_gpu()),
    ]
    return table(("question", "answer"), rows)


def learns_together() -> str:
    """Return the soonest setting of both kinds of frames, each of its own search."""
    slow, fast = (best_of(STUDY, arm, "learning") for arm in (SLOW, FAST))
    return (
        f"**{short_setting(slow)}** (environments × horizon × batch): reward {target_of(STUDY):.1f} in {seconds(slow)}, 6 fresh seeds."
        f" With lean frames and Warp's frontend **{short_setting(fast)}** in {seconds(fast)}."
        f" [Other settings](docs/joint.md#a-slow-arm-that-learns-like-a-fast-one) may be as soon"
    )


def few_environments() -> str:
    """Return the seconds to a nearly solved pole with few environments."""
    setting = best_of(FEW, FAST, "learning")
    return (
        f"Reward {target_of(FEW):.1f} in **{seconds(setting)}** at {short_setting(setting)}, {setting.seeds} fresh seeds,"
        f" the better of two settings ([more](docs/lean-measured.md#with-few-environments)). A solved pole scores about 4.95"
    )


def learns() -> str:
    """Return which size learns soonest, and what doubling it costs."""
    found = soonest()
    size, gain = found.point.num_envs, found.gain
    horizons = seconds_at(64, size)
    return (
        f"**{size:,}** ({found.limit.threshold_lowest:,} to {found.limit.threshold_highest:,}) at horizon {found.limit.horizon}:"
        f" reward {found.reward:g} in {found.seconds:.0f} s. {gain.doubled:,} take {found.longer} longer"
        f" (at least {-(gain.gain_upper_one_sided or 0.0):.0%}, {gain.repeats} seeds), though FPS grow by {fps_growth()}."
        f" {size:,} at horizon 64 take {horizons:.0f} s"
    )


def pays(arm: str) -> str:
    """Return until where FPS pay on an H200."""
    head, gain = most_fps(arm)
    limit = throughput_of(H200, arm, head.horizon)
    half = gain_from(limit, head.num_envs // 2)
    return (
        f"**{head.num_envs:,}** give {head.fps_share_of_best:.0%} of the best FPS."
        f" Doubling gains {bounded(gain)}, cut-off {limit.delta:.0%}."
        f" Doubling {half.num_envs:,} gains {change(half)}, {outcome(half, limit.delta)}"
    )


def batch_size() -> str:
    """Return the batch sizes of the soonest settings, and the gradient noise scale."""
    ((num_envs, batch, scale),) = [
        (point.num_envs * arm.world_size, point.batch_size, point.scale)
        for arm in verdict_of(LEARNING_ON_TWO).arms
        for point in arm.noise_scales
    ]
    slow, fast = (best_of(STUDY, arm, "learning") for arm in (SLOW, FAST))
    return (
        f"**{slow.batch_size:,}** with Isaac Lab's frames, **{fast.batch_size:,}** with lean ones, at the settings that learn soonest:"
        f" {mini_batches(slow)} and {mini_batches(fast)} mini-batches per epoch. `batch_size: library` makes 16 mini-batches."
        f" The gradient noise scale is {scale.transitions:.0f} transitions ({scale.lower:.0f} to {scale.upper:.0f};"
        f" {scale.samples} seeds, two H100, {num_envs:,} environments in all, batches of {batch:,}):"
        " from there on, larger batches save ever fewer optimizer steps"
    )


def mini_batches(setting: ConfirmedSetting) -> int:
    """Return the mini-batches of a rollout on one GPU."""
    assert setting.batch_size is not None, "a joint study's settings have a batch size"
    return rollout_size(setting.num_envs, setting.horizon) // setting.batch_size


def what_fits() -> str:
    """Return what is predicted to fit cards."""
    few, large = (f"{card_of('cartpole-stock-lean', 'stock', card).largest_num_envs:,}" for card in ("8 GB", "80 GB"))
    card_gb = card_of("cartpole-stock-lean", "stock", "24 GB").memory_gb
    return (
        f"Predicted, with {verdict_of(H200).memory_margin:.0%} of its memory kept free (a card of 24 GB holds {card_gb:.1f} × 10⁹ bytes):"
        f" {few} environments on 8 GB, {fits('cartpole-stock-lean', 'stock', '24 GB')} on 24 GB, {large} on 80 GB."
        f" With lean frames and Warp's frontend {fits(H200, 'lean-warp', '24 GB')} on 24 GB"
    )


def where_time_goes() -> str:
    """Return which phases an added environment's time goes to."""

    def share(arm: str, phase: str) -> str:
        law = next(law for law in phases_of(H200, arm, 32).laws if law.phase == phase)
        return f"{law.share_of_slope or 0.0:.0%}"

    return (
        f"Each further environment adds time. With Isaac Lab's frames {share('stock', 'learning')} of it is learning (PPO's updates)."
        f" With lean frames and Warp's frontend {share('lean-warp', 'learning')} is learning, {share('lean-warp', 'render')} rendering"
    )


def scaling_of(arm: str) -> Scaling:
    """Return the scaling of an arm on two GPUs."""
    return next(own for own in verdict_of(TWO_GPUS).scaling if own.arm == arm)


def second_gpu() -> str:
    """Return what two GPUs bring, in FPS and to learn."""
    stock, lean = (scaling_of(arm).fastest for arm in ("two-gpus", "lean-two-gpus"))
    assert stock is not None and lean is not None and stock.num_envs == lean.num_envs
    one_s, two_s = (median_s_to_target(LEARNING_ON_TWO, arm) for arm in ("one-gpu", "data-parallel"))
    return (
        f"Two H100 with {stock.num_envs:,} environments each give {stock.speedup:.2f} times the FPS of one,"
        f" {lean.speedup:.2f} times with lean frames."
        f" No gain was seen in learning: with lean frames two that share 1,024 environments take {two_s:.1f} s, one {one_s:.1f} s"
    )


def lean_table() -> str:
    """Return FPS and memory with Isaac Lab's frames and with lean ones, by size."""
    stock, warp = (throughput_of(H200, arm, 32) for arm in ("stock", "lean-warp"))
    rows = []
    for num_envs in (4096, 8192):
        ratio = fps_ratio(H200, "lean-warp", num_envs)
        memory = gigabytes(peak_gb(H200, "lean-warp", num_envs), peak_gb(H200, "stock", num_envs))
        fps = [f"{limit.point(num_envs).fps:,.0f}" for limit in (stock, warp)]
        rows.append((f"{num_envs:,}", *fps, times(ratio, bold=num_envs == stock.threshold_num_envs), memory))
    return table(
        ("environments", "FPS, Isaac Lab's frames", "FPS, lean frames and `frontend: warp`", "ratio", "memory"), rows
    )


def overhead_train() -> str:
    """Return a trial's FPS over those of `isaaclab train`."""
    return f"{json_of('overhead-h200')['spreads']['trial / isaaclab train']['median']:.2f}×"


def overhead_lean() -> str:
    """Return what share of a bare loop's FPS measuring takes, with 4,096 environments on an H200 and 1,024 on an H100."""
    files = ("overhead-lean-warp-4096-h200", "overhead-lean-warp-1024-h100")
    found = {f"{1 - json_of(file)['spreads']['trial / bare loop']['median']:.1%}" for file in files}
    return " to ".join(sorted(found))


BLOCKS = {
    "headline": headline,
    "output": lambda: printed(H200, before="against"),
    "findings": findings,
    "lean-frames": lean_table,
    "overhead-train": overhead_train,
    "overhead-lean": overhead_lean,
}
