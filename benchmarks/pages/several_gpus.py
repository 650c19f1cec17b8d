"""Tables of studies with several GPUs, for docs/measuring.md, docs/scaling.md and docs/trainers.md, by the name of a published study.

Arms may have any number of GPUs. `BLOCKS` is empty until such a study of today's version is published: a block needs a page that has it.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from envknee.record.schema import Record, Spread
from envknee.study.load import read_study
from envknee.verdict.schema.learning import Cost
from envknee.words.numbers import span

from benchmarks.pages.cells import table
from benchmarks.pages.published import PUBLISHED, fps_of_processes, learning_records, verdict_of


def efficiency(study: str) -> str:
    """Return FPS of one GPU and of several, by frames and environments on each, with the efficiency and its interval."""
    rows = []
    for scaling in verdict_of(study).scaling:
        for point in scaling.points:
            assert scaling.partner is not None, "points have a partner"
            interval = span(point.efficiency_lower, point.efficiency_upper, "{:.0%}".format)
            rows.append(
                (
                    frames_of_arm(study, scaling.arm),
                    f"{point.num_envs:,}",
                    f"{point.world_size}",
                    f"{fps_of_processes(study, scaling.partner, point.num_envs):,.0f}",
                    f"{point.fps_all_ranks:,.0f}",
                    f"{point.speedup:.2f}",
                    f"{point.efficiency:.0%}" + (f" ({interval})" if interval else ""),
                )
            )
    return table(
        ("frames", "environments on each", "GPUs", "FPS of one GPU", "FPS of all", "times", "efficiency"), rows
    )


def losses(study: str) -> str:
    """Return what an iteration takes more on several GPUs than on one, in ms, and where that time goes."""
    rows = []
    for scaling in verdict_of(study).scaling:
        for point in scaling.points:
            if (loss := point.loss) is None:
                continue
            largest = loss.largest_collecting
            whole_s = loss.iteration_all_ranks_s - loss.iteration_one_rank_s
            parts_s = (
                loss.iteration_one_rank_s, whole_s, loss.slowest_rank_s, loss.exchange_s, loss.collecting_s
            )  # fmt: skip
            rows.append(
                (
                    frames_of_arm(study, scaling.arm),
                    f"{point.num_envs:,}",
                    f"{point.world_size}",
                    *(f"{1e3 * seconds:,.1f}" for seconds in parts_s),
                    f"{largest} ({1e3 * loss.more_s[largest]:,.1f})" if largest else "–",
                )
            )
    heads = (
        "frames", "environments on each", "GPUs", "one GPU, ms", "more, ms", "of that the slowest GPU", "exchanging gradients",
        "collecting", "most of collecting",
    )  # fmt: skip
    return table(heads, rows)


def sooner(study: str) -> str:
    """Return what each setting of each arm takes to the target: seconds, GPU-seconds and environment steps, the soonest first."""
    rows = []
    for arm in verdict_of(study).arms:
        asked = read_study(PUBLISHED[study].study).arms[arm.arm]
        for limit in arm.learning:
            for point in limit.points:
                if point.seconds_to_target is None:
                    continue
                cells = (
                    f"{asked.gpus}",
                    f"{point.num_envs * asked.world_size:,}",
                    f"{limit.batch_size:,}" if limit.batch_size else "library",
                    f"{point.reached} of {point.trials}",
                    cost(point.seconds_to_target, "{:.1f}".format),
                    cost(point.gpu_seconds_to_target, "{:.1f}".format),
                    cost(point.frames_to_target, lambda steps: f"{steps / 1e6:.2f}"),
                )
                rows.append((point.seconds_to_target.value, cells))
    heads = (
        "GPUs", "environments in all", "batch", "seeds that reached it", "seconds", "GPU-seconds", "million environment steps",
    )  # fmt: skip
    return table(heads, [cells for _, cells in sorted(rows)])


def strategies(study: str, ways: Mapping[str, tuple[str, int]]) -> str:
    """Return FPS, staleness, time and environment steps to the target of ways to use GPUs.

    `ways` has, by arm, the words for it and the environments on each GPU that simulates.
    """
    rows = []
    for arm, (words, num_envs) in ways.items():
        trials = learning_records(study, arm, num_envs)
        if not trials:
            continue
        reached = [own for own in trials if own.seconds_to_target is not None]
        rows.append(
            (
                words,
                f"{(trials[0].num_envs_total or num_envs):,}",
                f"{middle(trials, lambda own: own.fps_total):,.0f}",
                f"{middle(trials, lambda own: own.staleness):.0f}" if trials[0].staleness else "0",
                f"{middle(trials, lambda own: own.iteration_s):.2f}",
                f"{middle(trials, lambda own: own.collect_s):.2f}",
                f"{middle(trials, lambda own: own.learner_s or own.learn_s):.2f}",
                f"{len(reached)} of {len(trials)}",
                each([own.seconds_to_target or 0.0 for own in reached], "{:.1f}".format),
                each([(own.frames_to_target or 0) / 1e6 for own in reached], "{:.2f}".format),
            )
        )
    heads = (
        "", "environments in all", "FPS", "staleness", "s an iteration", "s collecting", "s an update", "seeds that reached it",
        "s, median (range)", "million environment steps",
    )  # fmt: skip
    return table(heads, rows)


def frames_of_arm(study: str, arm: str) -> str:
    """Return how the frames of an arm are called: `lean`, `Isaac Lab's`."""
    return "lean" if read_study(PUBLISHED[study].study).arms[arm].observations == "lean" else "Isaac Lab's"


def cost(found: Cost | None, shown: Callable[[float], str]) -> str:
    """Return a cost to the target with its interval; a dash without one."""
    if found is None:
        return "–"
    interval = span(found.interval_lower, found.interval_upper, shown)
    return shown(found.value) + (f" ({interval})" if interval else "")


def middle(trials: Sequence[Record], spread_of: Callable[[Record], Spread | None]) -> float:
    """Return the median over trials of a quantity that each has."""
    return median(spread.median for own in trials if (spread := spread_of(own)) is not None)


def each(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """Return the median and range of what was measured; a dash if there is nothing."""
    if not values:
        return "–"
    return f"{shown(median(values))} ({shown(min(values))} to {shown(max(values))})"


BLOCKS: Mapping[str, Callable[[], str]] = {}
