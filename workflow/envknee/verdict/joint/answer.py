"""The joint answer of an arm: from records of the search and of fresh seeds to numbers. Pure.

The number of fresh seeds is fixed beforehand, and seeds count at looks as planned (`rule.schedule`): after the planned number, and if
there are more, after 5, 8, 13, ... Each look has its own share of the chance of error, so that it holds however often seeds are added.
Before the first look nothing is claimed.

A study's chance of error holds for all claims about an arm together: kinds of trial with fresh seeds have equal parts, and so have the
claims of each kind (Bonferroni).

An arm that learns like another one has no search. Its claims rest on its own fresh seeds, too. Its model is that of the other arm's frames
and its own seconds per frame, and says something only if both are shown to learn alike (`alike`). No threshold is named: that takes a
search. What the search of the other arm planned for it is no claim, and is told whatever came of it (`planned`).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint import thresholds
from envknee.verdict.joint.alike import compared
from envknee.verdict.joint.claims import named, on_cards
from envknee.verdict.joint.frames import frames_at
from envknee.verdict.joint.fresh import Levels, levels_of
from envknee.verdict.joint.model import Model
from envknee.verdict.joint.observed import trials_of
from envknee.verdict.joint.planned import planned
from envknee.verdict.joint.posterior import Trials
from envknee.verdict.joint.profile import Axis, best_by, profile_of
from envknee.verdict.joint.regret import regret_of
from envknee.verdict.joint.rounds import Rounds, rounds_of, seeds_of
from envknee.verdict.joint.shape import shape_of
from envknee.verdict.joint.surface import Surface, fit
from envknee.verdict.joint.transfer import transferred
from envknee.verdict.learning_cost import gpus_of
from envknee.verdict.rule import union
from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.doublings import exp
from envknee.verdict.rule.looks import looked_at
from envknee.verdict.schema.joint import (
    ConfirmedSetting,
    JointAnswer,
    JointShape,
    JointState,
    JointThreshold,
    Likeness,
    ProfileValue,
)
from envknee.verdict.settings import JointSettings, Settings

CLAIMS_ABOUT_SETTINGS = 2
"""The interval of the soonest one, and the comparisons with the best."""

AXES: Mapping[str, Axis] = {"num_envs": lambda point: point.num_envs, "horizon": lambda point: point.horizon}


def answer(
    arm: str,
    kind: Kind,
    records: Sequence[Record],
    joint: JointSettings,
    settings: Settings,
    world_size: int,
    of_leader: Sequence[Record] = (),
) -> JointAnswer:
    """Return the joint answer from an arm's records, without skipped trials.

    Args:
        arm: its name
        kind: of the trials that are answered about
        records: of the arm, of either kind
        joint: the section
        settings: of the study
        world_size: ranks that train together
        of_leader: with `joint.learns_like`, the records of that arm
    """
    of_kind = _of_kind(records, kind)
    search = [record for record in of_kind if not record.request.confirms]
    delta = settings.delta if kind == "throughput" else settings.delta_learning
    all_trials = trials_of(of_kind, joint.settings, kind)
    searched = trials_of(search, joint.settings, kind)
    fresh = rounds_of(of_kind, joint.seeds, joint.one_process)
    of_kind_error = (1.0 - settings.confidence) * joint.error_share
    has_search = joint.learns_like is None
    axes = _axes_with_doublings(joint.settings) if has_search else {}
    # Bonferroni over claims: the interval, the comparisons with the best, and each threshold, or that the arm learns like the other one.
    claims = CLAIMS_ABOUT_SETTINGS + (len(axes) if has_search else 1)
    alpha = of_kind_error / claims
    of_claim = alpha / fresh.factor if fresh is not None and fresh.is_whole else alpha
    search_surface = fit(joint.settings, searched) if searched.places else None
    likeness = plan = None
    if has_search:
        surface = fit(joint.settings, all_trials) if all_trials.places else None
    else:
        learned = _of_kind(of_leader, "learning")
        plan = planned(joint, [*records, *of_leader], arm, settings.confidence, delta, world_size)
        likeness = _likeness(joint, fresh, learned, alpha)
        surface = _transferred(joint, likeness, learned, _of_kind(records, "throughput"))
    model = None if surface is None else Model(surface, settings.confidence)
    levels = levels_of(fresh.seeds, fresh.one_process) if fresh is not None and fresh.is_whole else None
    confirmed = [] if fresh is None else _confirmed(fresh, levels, of_claim, model, joint.settings)
    order = sorted(
        range(len(confirmed)), key=lambda place: (confirmed[place].cost is None, confirmed[place].cost or 0.0)
    )
    ranked = [confirmed[place] for place in order]
    found_thresholds = []
    if search_surface is not None and fresh is not None:
        found_thresholds = _thresholds(axes, search_surface, model, fresh, delta, kind, alpha, settings)
    smooth_model = model if model is not None and not model.surface.is_rough else None
    return JointAnswer(
        arm=arm,
        kind=kind,
        state=_state(of_kind, all_trials.places, joint, fresh),
        delta=delta,
        confidence=settings.confidence,
        claims=claims,
        error_of_kind=of_kind_error,
        error_of_claim=of_claim,
        search_trials=len(searched.places),
        search_left=0 if fresh is not None else max(0, joint.search_trials - len(search)),
        fresh_ended=len(of_kind) - len(search),
        fresh_planned=_settings_planned(joint, fresh) * (joint.seeds or 0),
        seeds_to_next_look=None if fresh is None else fresh.seeds_to_next_look,
        legal_settings=len(joint.settings),
        replaces_series=joint.replaces_series,
        censored=sum(searched.is_censored),
        amplitude=None if model is None else model.surface.amplitude,
        seed_sd=None if model is None else model.surface.noise,
        is_rough=model is not None and model.surface.is_rough,
        likely=[] if smooth_model is None else smooth_model.likely,
        confirmed=ranked,
        **named(ranked, [setting.most_slower for setting in ranked], range(len(ranked)), delta),
        on_cards=[] if levels is None else on_cards(ranked, order, levels, of_claim, delta, settings, _on_gpu(of_kind)),
        spreads_differ=levels is not None and levels.spreads_differ,
        thresholds=found_thresholds,
        mini_batches=[] if smooth_model is None else smooth_model.mini_batches(world_size, delta),
        learns_like=joint.learns_like,
        likeness=likeness,
        plan=plan,
        shape=_shape(smooth_model, joint, searched, of_kind, settings.confidence),
    )  # fmt: skip


def _shape(
    smooth_model: Model | None, joint: JointSettings, searched: Trials, records: Sequence[Record], confidence: float
) -> JointShape | None:
    """Return what figures draw of the model; None for a rough surface, and for an arm whose search was another arm's."""
    if smooth_model is None or joint.learns_like is not None:
        return None
    learned = [record for record in records if record.request.kind == "learning"]
    regret = regret_of(smooth_model.surface, smooth_model.draws, searched, confidence) if searched.places else []
    return shape_of(smooth_model, lambda settings: frames_at(settings, learned, confidence), regret)


def _axes_with_doublings(settings: Sequence[Point]) -> dict[str, Axis]:
    """Return the axes that have several values."""
    return {name: axis for name, axis in AXES.items() if len({axis(setting) for setting in settings}) > 1}


def _settings_planned(joint: JointSettings, fresh: Rounds | None) -> int:
    """Return how many settings have fresh seeds: as many as planned at most, and exactly once a second round has begun."""
    if fresh is None or all(list(by_round) == [0] for by_round in fresh.rounds):
        return joint.confirmed
    return len(fresh.settings)


def _on_gpu(records: Sequence[Record]) -> bool:
    return any(gpus_of(record) for record in records)


def _of_kind(records: Sequence[Record], kind: Kind) -> list[Record]:
    """Return the records of one kind in the order of their numbers."""
    return sorted(
        (record for record in records if record.request.kind == kind), key=lambda record: record.request.number
    )


def _likeness(joint: JointSettings, fresh: Rounds | None, learned: Sequence[Record], alpha: float) -> Likeness | None:
    """Return whether an arm learns like the one whose search planned its fresh seeds, and which `learned`; None before they have ended."""
    if joint.learns_like is None or fresh is None or not fresh.is_whole:
        return None
    return compared(joint.learns_like, fresh, rounds_of(learned, joint.seeds), alpha)


def _transferred(
    joint: JointSettings, likeness: Likeness | None, learned: Sequence[Record], timed: Sequence[Record]
) -> Surface | None:
    """Return the surface of an arm that is shown to learn like another one; None for any other."""
    if likeness is None or likeness.state != "shown":
        return None
    return transferred(joint.settings, learned, timed)


def _state(of_kind: Sequence[Record], places: Sequence[int], joint: JointSettings, fresh: Rounds | None) -> JointState:
    if joint.learns_like is not None and not of_kind:
        return "confirming"  # the other arm's search has not ended
    if not places:
        return "no data"
    if joint.seeds is None:
        return "searched"
    return "confirmed" if fresh is not None and fresh.is_whole else "confirming"


def _confirmed(
    fresh: Rounds, levels: Levels | None, alpha: float, model: Model | None, settings: Sequence[Point]
) -> list[ConfirmedSetting]:
    return [_confirmed_setting(place, fresh, levels, alpha, model, settings) for place in range(len(fresh.settings))]


def _confirmed_setting(
    place: int, fresh: Rounds, levels: Levels | None, alpha: float, model: Model | None, settings: Sequence[Point]
) -> ConfirmedSetting:
    setting, records = fresh.settings[place], fresh.records(place)
    seeds = seeds_of(records)
    # The mean of the seeds that arrived alone would be too low.
    mean = statistics.fmean(map(math.log, seeds.reached)) if seeds.reached and not seeds.censored else None
    lower = upper = most_slower = None
    may_be_best = True
    if levels is not None:
        most_slower, may_be_best = levels.most_slower(place, alpha), levels.may_be_best(place, alpha)
        if place in levels.comparable:
            mean, half = float(levels.means[place]), levels.half_width(place, alpha)
            lower, upper = exp(mean - half), exp(mean + half)
    peaks = [record.memory_peak_gb for record in records if record.memory_peak_gb is not None]
    gpus = max(map(gpus_of, records), default=0)
    shows_chance = model is not None and not model.surface.is_rough
    return ConfirmedSetting(
        **vars(setting),
        seeds=seeds.count,
        reached=len(seeds.reached),
        lost=len(records) - seeds.count,
        cost=None if mean is None else exp(mean),
        cost_lower=lower,
        cost_upper=upper,
        may_be_best=may_be_best,
        most_slower=None if most_slower is None else exp(most_slower) - 1.0,
        chance=float(model.chances[settings.index(setting)]) if model is not None and shows_chance else None,
        memory_peak_gb=max(peaks, default=None),
        gpu_seconds=exp(mean) * gpus if mean is not None and gpus else None,
    )


def _thresholds(
    axes: Mapping[str, Axis],
    search_surface: Surface,
    model: Model | None,
    fresh: Rounds,
    delta: float,
    kind: Kind,
    alpha: float,
    settings: Settings,
) -> list[JointThreshold]:
    """Return the threshold of each axis with a doubling; none while seeds are under way."""
    # A gain of delta in FPS is a factor of 1 + delta; a saving of delta of the seconds one of 1 / (1 - delta).
    log_limit = math.log1p(delta) if kind == "throughput" else -math.log1p(-delta)
    if not fresh.is_whole or model is None:
        return []
    return [
        _threshold(name, axis, search_surface, model, fresh, log_limit, alpha, settings.confidence)
        for name, axis in axes.items()
    ]


def _threshold(
    name: str,
    axis: Axis,
    search_surface: Surface,
    model: Model,
    fresh: Rounds,
    log_limit: float,
    alpha: float,
    confidence: float,
) -> JointThreshold:
    """Return the threshold of one axis.

    Its fresh seeds have the claim's part `alpha` of the chance of error. The model has the study's whole one: it makes no claim of its
    own, and can only take away what fresh seeds name.
    """
    confirmed = [search_surface.settings.index(setting) for setting in fresh.settings]
    stand_ins = thresholds.stand_ins(search_surface.mean, search_surface.settings, confirmed, axis)
    decision = _by_fresh(stand_ins, fresh, log_limit, 1.0 - alpha)
    profile = profile_of(model.draws, search_surface.settings, axis)
    best = best_by(model.surface.mean, search_surface.settings, axis)
    rough = model.surface.is_rough
    # The doublings that fresh seeds test, so that both speak of the same ones.
    values = [doubling.num_envs for doubling in decision.doublings]
    model_alpha = 1.0 - confidence
    by_model = None if rough else thresholds.by_model(profile, values, log_limit, model_alpha)
    named = None if decision.threshold is None or by_model is None else max(decision.threshold, by_model)
    pays = (
        decision.state == "still pays" and not rough and thresholds.still_pays(profile, values, log_limit, model_alpha)
    )
    unknown: dict[str, Any] = dict.fromkeys(("cost", "cost_lower", "cost_upper"))
    return JointThreshold(
        axis="num_envs" if name == "num_envs" else "horizon",
        state=_state_of(named, pays),
        threshold=named,
        by_fresh=decision.threshold,
        by_model=by_model,
        tested=list(stand_ins),
        profile=[
            ProfileValue(
                value=value,
                **vars(search_surface.settings[best[value]]),
                **(unknown if rough else model.interval(profile.at(value))),
            )
            for value in profile.values
        ],
        more_seeds=decision.more_repeats,
    )


def _state_of(named: int | None, pays: bool) -> union.State:
    if named is not None:
        return "reached"
    return "still pays" if pays else "undecided"


def _by_fresh(stand_ins: Mapping[int, int], fresh: Rounds, log_limit: float, confidence: float) -> union.Decision:
    """Return what fresh seeds decide about doublings of an axis, over all looks as planned."""

    def contrasts_before(number: float) -> list[Contrast]:
        levels = levels_of(fresh.before(number), fresh.one_process)
        return [
            levels.contrast(value, place, stand_ins[2 * value])
            for value, place in stand_ins.items()
            if 2 * value in stand_ins
        ]

    rounds: dict[int, Sequence[int]] = {value: list(fresh.rounds[place]) for value, place in stand_ins.items()}
    looked = looked_at(fresh.schedule, rounds, contrasts_before)
    return union.decide(looked, list(stand_ins), log_limit, confidence, fresh.schedule)
