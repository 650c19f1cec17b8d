"""Scaling efficiency: the FPS of k ranks that train together, as a share of k times one rank's FPS.

Input: the arms and records of a study. Output: one `Scaling` per arm with several ranks. Pure.

The estimand is E(k) = FPS(k ranks) / (k x FPS(1 rank)) at the same num_envs per rank, horizon and batch_size. This is weak scaling, in
which the work grows with the ranks (Gustafson 1988, "Reevaluating Amdahl's Law", CACM 31:532); an iteration takes 1/E times as long as
one rank's. Strong scaling (Amdahl 1967, AFIPS 30:483), in which k ranks share one rank's environments, is not measured: it would leave
every GPU 1/k as full.

One rank's FPS come from the partner: the arm that differs only in `gpus`, `cpu_ranks` or `nodes`, and trains on one rank of the same
kind. FPS of a point is the geometric mean over repeats, as in `throughput`; a process that measured it twice is one repeat. Both sides are
compared on each machine, and the machines are combined (`rule.contrasts`): on one machine that is Welch's t on the difference of the
logarithms, for each point alone. At 95% it covers 94 to 97% with equally many repeats on both sides, as in a finished study without
failures. It covers 89 to 91% if the noisier side has two repeats and the other five (tests/unit/verdict/test_scaling.py). Where no machine
has both sides, all are compared as if one had. In a study that may end after any repeat, an interval holds at every look (`rule.looks`).
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from typing import Any

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict import scaling_loss
from envknee.verdict.measurements import Measurements, by_point, filtered
from envknee.verdict.rule.contrasts import Contrast, Process, by_block, independent, within_blocks
from envknee.verdict.rule.looks import pair_looked_at
from envknee.verdict.rule.schedule import ONCE, Schedule
from envknee.verdict.rule.union import interval_at_every_look
from envknee.verdict.schema.scaling import Scaling, ScalingPoint
from envknee.verdict.series import Ranks
from envknee.verdict.settings import ArmSettings, Settings
from envknee.verdict.statistical_blocks import blocks_of_arms
from envknee.verdict.throughput import measured_fps


def analyse(
    measured: Measurements, arms: Mapping[str, ArmSettings], settings: Settings, schedule: Schedule = ONCE
) -> list[Scaling]:
    """Return the scaling of every arm that trains on several ranks, in the order of `arms`. `schedule` is that of throughput trials."""
    return [_scaling(arm, measured, arms, settings, schedule) for arm in arms if arms[arm].world_size > 1]


def efficiency(
    one_rank: Sequence[float],
    all_ranks: Sequence[float],
    world_size: int,
    confidence: float,
    blocks: Sequence[Sequence[Hashable]] | None = None,
    *,
    repeats: Sequence[Sequence[int]] | None = None,
    schedule: Schedule = ONCE,
) -> tuple[float, float | None, float | None]:
    """Return the efficiency of one point from the FPS of repeats, above 0, with its interval; None if either side has one repeat.

    Works without records.

    `blocks` has the block of each repeat of either side: a `Process` or a machine. None: all ran on one machine. `repeats` has the number
    of each repeat, from 0 on (None: its place in the list), and `schedule` says after which of them the study may be looked at: the
    interval holds at every look.
    """
    sides = (one_rank, all_ranks)
    numbers = repeats or [range(len(side)) for side in sides]
    own = blocks or (None, None)

    def contrast_before(repeat: float) -> Contrast:
        known = [[number < repeat for number in of_side] for of_side in numbers]
        values = [list(compress(side, of_side)) for side, of_side in zip(sides, known, strict=True)]
        of_values = [
            None if of_side is None else list(compress(of_side, counts))
            for of_side, counts in zip(own, known, strict=True)
        ]
        smaller, larger = map(by_block, values, of_values)
        contrast = within_blocks(0, smaller, larger)
        if contrast.blocks or blocks is None:
            return contrast
        # No machine has both sides: all are compared as if one had.
        alone = [
            by_block(independent(side, of_side), None)
            for side, of_side in zip(values, of_values, strict=True)
            if of_side is not None
        ]
        return within_blocks(0, alone[0], alone[1])

    looked = pair_looked_at(schedule, ({*numbers[0]}, {*numbers[1]}), contrast_before)
    lower, upper = (
        None if end is None else math.exp(end - math.log(world_size))
        for end in interval_at_every_look(looked, confidence)
    )
    return math.exp(looked.latest.log_gain) / world_size, lower, upper


def partner_of(arm: str, arms: Mapping[str, ArmSettings]) -> str | None:
    """Return the arm that differs from `arm` only in its ranks and has one, or None.

    GPUs are not compared with the CPU. `gpus: auto` may be either, and only its records tell; an arm with `gpus: 1` has priority.
    """

    def without_ranks(name: str) -> dict[str, Any]:
        return {**arms[name].values, "gpus": None, "cpu_ranks": None, "nodes": None}

    one_rank = (0, "auto") if arms[arm].gpus == 0 else (1, "auto")
    partners = [
        other
        for other in arms
        if arms[other].world_size == 1 and arms[other].gpus in one_rank and without_ranks(other) == without_ranks(arm)
    ]
    return min(partners, key=lambda other: (arms[other].gpus == "auto", other), default=None)


def _scaling(
    arm: str, measured: Measurements, arms: Mapping[str, ArmSettings], settings: Settings, schedule: Schedule
) -> Scaling:
    ranks, partner = Ranks.of(arms[arm]), partner_of(arm, arms)
    several, alone = _timed(arm, measured), _timed(partner, measured)
    devices = [_devices(side) for side in (several, alone)]
    # With `gpus: auto` the partner may have run on the CPU; in a cluster, on another kind of GPU.
    alike = devices[0] == devices[1] or not all(devices)
    points = [
        _point(point, alone[point], own, ranks, settings.confidence, schedule)
        for point, own in several.items()
        if alike and point in alone
    ]
    lacks = None
    if partner is None:
        lacks = "partner"
    elif not alike:
        lacks = "same hardware"
    elif not points:
        lacks = "common point"
    return Scaling(
        arm=arm,
        world_size=ranks.world_size,
        rank_word=ranks.word,
        partner=partner,
        points=points,
        lacks=lacks,
        devices=devices[0],
        partner_devices=devices[1],
        partner_gpus=0 if arms[arm].gpus == 0 else 1,
        has_nodes=arms[arm].nodes > 1,
        slowest_share=_slowest_share(several),
    )


def _timed(arm: str | None, measured: Measurements) -> dict[Point, Sequence[Record]]:
    """Return an arm's trials that were timed to their end, by point."""
    return by_point(filtered(measured.of_arm(arm).throughput, lambda record: measured_fps([record])))


def _devices(trials: Mapping[Point, Sequence[Record]]) -> str:
    """Return the names of the trials' devices."""
    environments = [record.outcome.environment for records in trials.values() for record in records]
    return " and ".join(sorted({environment.device.name for environment in environments if environment is not None}))


def _point(
    point: Point,
    one_rank: Sequence[Record],
    all_ranks: Sequence[Record],
    ranks: Ranks,
    confidence: float,
    schedule: Schedule,
) -> ScalingPoint:
    blocks = blocks_of_arms(one_rank, all_ranks)
    fps = [measured_fps(records) for records in (one_rank, all_ranks)]
    numbers = [[record.request.repeat for record in records] for records in (one_rank, all_ranks)]
    share, lower, upper = efficiency(
        fps[0], fps[1], ranks.world_size, confidence, blocks, repeats=numbers, schedule=schedule
    )
    repeats = [independent(values, own) for values, own in zip(fps, blocks, strict=True)]
    speedup = share * ranks.world_size
    machines = [[block.machine if isinstance(block, Process) else block for block in own] for own in blocks]
    return ScalingPoint(
        **asdict(point),
        fps_all_ranks=statistics.geometric_mean(repeats[1]),
        speedup=speedup,
        efficiency=share,
        efficiency_lower=lower,
        efficiency_upper=upper,
        repeats_one_rank=len(repeats[0]),
        repeats_all_ranks=len(repeats[1]),
        world_size=ranks.world_size,
        rank_word=ranks.word,
        loss=scaling_loss.loss(one_rank, all_ranks, machines),
    )


def _slowest_share(trials: Mapping[Point, Sequence[Record]]) -> float | None:
    """Return the median over trials of the slowest rank's FPS over the fastest's; None if unknown."""
    shares = []
    for record in (record for records in trials.values() for record in records):
        fps = [rank.fps_env_step_inference.median for rank in record.ranks or []]
        if fps:
            shares.append(min(fps) / max(fps))
    return statistics.median(shares) if shares else None
