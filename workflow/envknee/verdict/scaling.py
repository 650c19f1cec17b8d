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
failures. It covers 89 to 91% if the noisier side has two repeats and the other five (tests/unit/test_limits_scaling.py). Where no machine
has both sides, all are compared as if one had.
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.blocks import blocks_of_arms
from envknee.verdict.measurements import Measurements, by_point, only
from envknee.verdict.rule import doublings
from envknee.verdict.rule.contrasts import by_block, independent, within_blocks
from envknee.verdict.schema.scaling import Scaling, ScalingPoint
from envknee.verdict.series import Ranks
from envknee.verdict.settings import ArmSettings, Settings
from envknee.verdict.throughput import measured_fps


def analyse(measured: Measurements, arms: Mapping[str, ArmSettings], settings: Settings) -> list[Scaling]:
    """Return the scaling of every arm that trains on several ranks, in the order of `arms`."""
    return [_scaling(arm, measured, arms, settings) for arm in arms if arms[arm].world_size > 1]


def efficiency(
    one_rank: Sequence[float],
    all_ranks: Sequence[float],
    world_size: int,
    confidence: float,
    blocks: Sequence[Sequence[Hashable]] | None = None,
) -> tuple[float, float | None, float | None]:
    """Return the efficiency of one point from the FPS of repeats, above 0, with its interval; None if either side has one repeat.

    Works without records.

    `blocks` has the block of each repeat of either side: a `Process` or a machine. None: all ran on one machine.
    """
    own = blocks or (None, None)
    contrast = within_blocks(0, by_block(one_rank, own[0]), by_block(all_ranks, own[1]))
    if blocks and contrast.blocks == 0:
        return efficiency(independent(one_rank, blocks[0]), independent(all_ranks, blocks[1]), world_size, confidence)
    log_share = contrast.log_gain - math.log(world_size)
    return math.exp(log_share), *doublings.interval(log_share, contrast.variance, contrast.degrees, confidence)


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


def _scaling(arm: str, measured: Measurements, arms: Mapping[str, ArmSettings], settings: Settings) -> Scaling:
    ranks, partner = Ranks.of(arms[arm]), partner_of(arm, arms)
    several, alone = _timed(arm, measured), _timed(partner, measured)
    devices = [_devices(side) for side in (several, alone)]
    # With `gpus: auto` the partner may have run on the CPU; in a cluster, on another kind of GPU.
    alike = devices[0] == devices[1] or not all(devices)
    points = [
        _point(point, alone[point], own, ranks, settings.confidence)
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
    return by_point(only(measured.of_arm(arm).throughput, lambda record: measured_fps([record])))


def _devices(trials: Mapping[Point, Sequence[Record]]) -> str:
    """Return the names of the trials' devices."""
    environments = [record.outcome.environment for records in trials.values() for record in records]
    return " and ".join(sorted({environment.device.name for environment in environments if environment is not None}))


def _point(
    point: Point, one_rank: Sequence[Record], all_ranks: Sequence[Record], ranks: Ranks, confidence: float
) -> ScalingPoint:
    blocks = blocks_of_arms(one_rank, all_ranks)
    fps = [measured_fps(records) for records in (one_rank, all_ranks)]
    share, lower, upper = efficiency(fps[0], fps[1], ranks.world_size, confidence, blocks)
    repeats = [independent(values, own) for values, own in zip(fps, blocks, strict=True)]
    speedup = share * ranks.world_size
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
    )


def _slowest_share(trials: Mapping[Point, Sequence[Record]]) -> float | None:
    """Return the median over trials of the slowest rank's FPS over the fastest's; None if unknown."""
    shares = []
    for record in (record for records in trials.values() for record in records):
        fps = [rank.fps_env_step_inference.median for rank in record.ranks or []]
        if fps:
            shares.append(min(fps) / max(fps))
    return statistics.median(shares) if shares else None
