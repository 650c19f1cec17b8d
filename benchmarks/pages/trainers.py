"""docs/trainers.md: five libraries, SAC beside PPO, and two GPUs as a pipeline."""

from collections.abc import Sequence
from statistics import median

from envknee.record.schema import Record
from envknee.verdict.schema.comparison import MeasureName

from benchmarks.pages.cells import table, times
from benchmarks.pages.published import (
    arm_of,
    learning_ratio,
    learning_records,
    median_fps,
    median_phase_s,
    timed_records,
)

FIVE, OFF_POLICY = "cartpole-trainers", "cartpole-off-policy"
PIPELINE, PIPELINE_LEARNING = "cartpole-two-gpu-pipeline", "cartpole-two-gpu-learning"


def five_libraries() -> str:
    """Return seconds and environment steps to the target of each library, the soonest first."""
    found = {arm: learning_records(FIVE, arm) for arm in ("rsl-rl", "torchrl", "sb3", "skrl", "rl-games")}
    rows = []
    for arm, trials in sorted(found.items(), key=lambda pair: median(seconds_of(pair[1]))):
        seconds = sorted(seconds_of(trials))
        each = ", ".join(f"{own:.0f}" for own in seconds)
        name = arm.replace("-", "_")
        rows.append((f"`{name}`", f"{median(seconds):.0f} ({each})", f"{median(frames_of(trials)):,.0f}"))
    return table(("", "seconds to reward 4.5: median (each)", "environment steps, median"), rows)


def beside_ppo() -> str:
    """Return how many seeds of PPO and of SAC reached the target, and the medians of their costs."""
    rows = []
    for size in (64, 256):
        for arm, trainer in (("ppo", "rsl_rl"), ("sac", "skrl_sac")):
            trials = learning_records(OFF_POLICY, arm, size)
            seconds, frames = seconds_of(trials), frames_of(trials)
            rows.append(
                (
                    f"{size}",
                    f"`{trainer}`",
                    f"{len(seconds)} of {len(trials)}",
                    f"{middle(seconds, len(trials)):.0f}",
                    f"{middle(frames, len(trials)):,.0f}",
                )
            )
    heads = ("environments", "", "seeds that reached reward 4.5", "seconds, median", "environment steps, median")
    return table(heads, rows)


def pipeline_fps() -> str:
    """Return FPS of one GPU, of a pipeline and of two GPUs, by the environments of both GPUs together."""
    rows = []
    for size in (512, 1024, 2048, 4096):
        turns, pipeline = (median_fps(PIPELINE, arm, size) for arm in ("in-turns", "pipeline"))
        cells = [f"{size:,}", f"{turns:,.0f}", f"{pipeline:,.0f}"]
        if size == 512:
            rows.append([*cells, "–", f"{pipeline / turns:.2f}", "–"])
            continue
        parallel = median_fps(PIPELINE, "data-parallel", size // 2)
        rows.append([*cells, f"{parallel:,.0f}", f"{pipeline / turns:.2f}", f"{pipeline / parallel:.2f}"])
    heads = (
        "environments in all", "TorchRL `in_turns`, one GPU", "TorchRL as a pipeline", "RSL-RL data-parallel", "pipeline / `in_turns`",
        "pipeline / data-parallel",
    )  # fmt: skip
    return table(heads, rows)


def pipeline_gain() -> str:
    """Return the smallest and the largest ratio of a pipeline's FPS to those of one GPU."""
    gains = [
        median_fps(PIPELINE, "pipeline", size) / median_fps(PIPELINE, "in-turns", size)
        for size in (512, 1024, 2048, 4096)
    ]
    return f"{min(gains):.2f} to {max(gains):.2f}"


def pipeline_sides() -> str:
    """Return what collecting, storing and learning take in turns, and as a pipeline."""
    arms = ("in-turns", "pipeline")

    def collect_ms(arm: str, size: int) -> float:
        timed = timed_records(PIPELINE, arm, size)
        return 1e3 * median(own.collect_s.median for own in timed if own.collect_s is not None) / 32

    def learner_s(arm: str, size: int) -> float:
        return median(map(update_seconds, timed_records(PIPELINE, arm, size)))

    rows = []
    for size in (1024, 4096):
        storage = (f"{1e3 * median_phase_s(PIPELINE, arm, size, 'storage') / 32:.1f}" for arm in arms)
        rows.append((f"{size:,}", "collecting, ms a step", *(f"{collect_ms(arm, size):.1f}" for arm in arms)))
        rows.append((f"{size:,}", "of that storing, ms a step", *storage))
        rows.append((f"{size:,}", "learning, s an iteration", *(f"{learner_s(arm, size):.2f}" for arm in arms)))
    return table(("environments", "", "`in_turns`", "pipeline"), rows)


def sac_frames() -> str:
    """Return how many times the environment steps SAC took with four times the environments, of medians over all seeds."""
    few, many = (learning_records(OFF_POLICY, "sac", size) for size in (64, 256))
    return f"{middle(frames_of(many), len(many)) / middle(frames_of(few), len(few)):.1f}"


def sac_doubling() -> str:
    """Return what doubling gained last with SAC."""
    (limit,) = arm_of(OFF_POLICY, "sac").throughput
    last = limit.gains[-1]
    return f"{last.gain:.0%} (at least {last.gain_lower_one_sided:.0%})"


def pipeline_learns() -> str:
    """Return seconds and environment steps to the target of each seed, with 1,024 environments on a GPU."""
    rows = []
    for arm, what in (
        ("pipeline", "pipeline (one seed; the second was not measured)"),
        ("in-turns", "`in_turns`"),
        ("data-parallel", "data-parallel (2,048 in all)"),
    ):
        trials = sorted(learning_records(PIPELINE, arm), key=lambda own: own.seconds_to_target or 0.0)
        frames = [f"{own / 1e6:.1f}" for own in frames_of(trials)]
        rows.append((what, " and ".join(f"{own:.1f}" for own in seconds_of(trials)), " and ".join(frames)))
    return table(("", "s", "million environment steps"), rows)


def lean_pipeline_learns() -> str:
    """Return what one GPU, two GPUs and a pipeline take to learn with lean frames."""
    rows = []
    for arm, what, each in (
        ("one-gpu", "one GPU, RSL-RL", ""),
        ("data-parallel", "two GPUs, data-parallel, 512 on each", " on each"),
        ("pipeline", "two GPUs, pipeline (TorchRL)", ""),
    ):
        trials = learning_records(PIPELINE_LEARNING, arm)
        seconds = seconds_of(trials)
        iteration_s = median(own.iteration_s.median for own in trials if own.iteration_s is not None)
        update_s = median(map(update_seconds, trials))
        gb = max(own.memory_peak_gb or 0.0 for own in trials)
        rows.append(
            (
                what,
                f"{median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
                f"{median(frames_of(trials)) / 1e6:.2f}",
                f"{iteration_s:.2f}",
                f"{update_s:.2f}",
                f"{gb:.2f}{each}",
            )
        )
    return table(("", "s, median (range)", "million environment steps", "s an iteration", "s an update", "GB"), rows)


def pipeline_ratio(measure: MeasureName) -> str:
    """Return the pipeline's seconds or environment steps to the target over those of one GPU."""
    return times(learning_ratio(PIPELINE_LEARNING, "pipeline", measure, to="one-gpu"))


def middle(costs: Sequence[float], seeds: int) -> float:
    """Return the median cost of an odd number of seeds, of which those without a cost come behind all others."""
    return sorted(costs)[seeds // 2]


def update_seconds(trial: Record) -> float:
    """Return the median seconds of an update; in a pipeline it is the learner's."""
    update = trial.learner_s or trial.learn_s
    assert update is not None
    return update.median


def seconds_of(trials: Sequence[Record]) -> list[float]:
    """Return the seconds to the target of the trials that reached it."""
    return [own.seconds_to_target for own in trials if own.seconds_to_target is not None]


def frames_of(trials: Sequence[Record]) -> list[int]:
    """Return the environment steps to the target of the trials that reached it."""
    return [own.frames_to_target for own in trials if own.frames_to_target is not None]


BLOCKS = {
    "trainers-five": five_libraries,
    "trainers-off-policy": beside_ppo,
    "pipeline-fps": pipeline_fps,
    "pipeline-gain": pipeline_gain,
    "pipeline-sides": pipeline_sides,
    "sac-doubling": sac_doubling,
    "sac-frames": sac_frames,
    "pipeline-learns": pipeline_learns,
    "pipeline-lean-learns": lean_pipeline_learns,
    "pipeline-seconds": lambda: pipeline_ratio("seconds_to_target"),
    "pipeline-frames": lambda: pipeline_ratio("frames_to_target"),
}
