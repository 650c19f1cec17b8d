"""The joint answer over num_envs, horizon and batch size in sentences: what is claimed, what the model says, what is left. Pure."""

from collections.abc import Sequence

from envknee.base.fields import Kind
from envknee.verdict.schema.joint import Claims, ConfirmedSetting, JointAnswer, JointThreshold
from envknee.verdict.series import Ranks
from envknee.words.joint_costs import (
    at_most_slower,
    confirmed_cost,
    cost_words,
    error_words,
    interval_words,
    level_words,
    seeds_words,
    setting_words,
    short_setting,
)
from envknee.words.likeness import likeness_lines, likeness_next, likeness_notes, setting_lines
from envknee.words.numbers import counted, listed, percent

METHOD = (
    "all claims rest on fresh seeds of settings that the search found, whose number was fixed beforehand; interval: Student's t on ln"
    " cost, simultaneous for all confirmed settings; comparisons with the best: Hsu's, with Dunnett's critical value, or"
    " Bonferroni's where settings have spreads of their own (empirical Bayes); a threshold needs"
    " the union test of fresh seeds, and a model of all trials (a quadratic trend with a Gaussian process) that agrees; chances, and the"
    " range of mini-batches, are the model's alone; that two arms learn alike: two one-sided tests of the ratio of environment steps"
)

MOST_LISTED = 3
"""Settings that a line names."""

FIRST: dict[Kind, str] = {"learning": "soonest", "throughput": "most FPS"}
"""What the first setting is called."""

KINDS_WORDS: dict[Kind, str] = {"learning": "seconds to the target", "throughput": "FPS"}

ARRIVED: dict[Kind, str] = {"learning": "reached the target", "throughput": "was timed to its end"}


def joint_statement(found: JointAnswer, ranks: Ranks) -> str:
    """Return the answer in one sentence, or why there is none yet."""
    if found.state == "no data":
        return "nothing is claimed: no trial has told a cost yet"
    if found.state != "confirmed":
        return f"nothing is claimed yet: {what_is_left(found)}"
    if found.soonest is None:
        return f"no setting is named: {_why_none(found)}"
    setting = found.confirmed[found.soonest]
    cost = confirmed_cost(found.kind, setting, found.error_of_claim)
    return f"{FIRST[found.kind]}: {setting_words(setting, ranks)}: {cost}"


def what_is_left(found: JointAnswer) -> str:
    """Return which trials must end before anything is claimed."""
    if found.state == "searched":
        left = f"{counted(found.search_left, 'trial')} of the search left, and " if found.search_left else ""
        return f"{left}no fresh seeds are planned (`confirm`), and only they carry claims"
    planned = seeds_words(found.kind, found.fresh_planned)
    if found.learns_like is not None and not found.fresh_ended:
        return f"{planned} are left, which the search of {found.learns_like} plans"
    if found.search_left:
        return f"{counted(found.search_left, 'trial')} of the search and {planned} are left"
    return f"{found.fresh_ended} of {planned} have ended"


def joint_evidence(found: JointAnswer) -> list[str]:
    """Return what stands behind the answer, the most important first; each fits a line."""
    rough = [_rough(found)] if found.is_rough else []
    unreached = [_unreached(found)] if _is_unreached(found) else []
    if found.state != "confirmed":
        return [*unreached, *rough]
    if found.soonest is None:
        return [*unreached, *rough, *likeness_lines(found)]
    of_num_envs = [threshold_line(found, own) for own in found.thresholds if own.axis == "num_envs"]
    of_horizon = [threshold_line(found, own) for own in found.thresholds if own.axis == "horizon"]
    settings = [*likeness_lines(found), *_as_good(found), *of_num_envs, *rough, *cheapest(found)]
    return [*settings, *of_horizon, *_mini_batches(found)]


def joint_next(found: JointAnswer) -> str:
    """Return the next step."""
    if found.state == "no data":
        return "Look at the log of a trial: trials/0000/trial.log."
    if _is_unreached(found):
        return "Lower target_reward or raise budget_s, and run the study under another name."
    if found.state == "searched" and not found.search_left:
        return "Run the study under another name with `confirm: {settings: 6, seeds: 8}`: fresh seeds carry the claims."
    if found.state != "confirmed":
        return "Run the sweep to its end."
    if found.is_rough:
        return "List more values between the tested ones: the model then has nearer neighbours."
    if found.soonest is not None and found.is_too_near:
        return "More seeds would hardly decide: what doubling brings is too near the cut-off for its noise."
    if found.soonest is None or found.open_thresholds:
        more = found.more_seeds or 1
        return f"Raise `more_repeats` by {more}: it adds fresh seeds to every confirmed setting."
    if (step := likeness_next(found)) is not None:
        return step
    if any(threshold.state == "still pays" for threshold in found.thresholds):
        return "List larger values of what still pays, in a study of another name."
    return "This answers the question for the listed values."


def joint_notes(found: JointAnswer) -> list[str]:
    """Return notes on the answer, a sentence each."""
    notes = []
    if found.censored:
        notes.append(
            f"{found.censored} of {found.search_trials} search trials did not reach the target: they count as lower bounds"
        )
    for setting in found.confirmed:
        if setting.lost:
            trials = setting.seeds + setting.lost
            notes.append(
                f"{short_setting(setting)}: {setting.lost} of {trials} trials did not run, so it is not recommended"
            )
        missed = setting.seeds - setting.reached
        if missed and setting.reached:
            notes.append(
                f"{short_setting(setting)}: {missed} of {counted(setting.seeds, 'seed')} did not reach the target"
            )
    if found.spreads_differ:
        notes.append("seeds of some settings vary more than those of others: these have wider intervals")
    if found.state == "confirmed":
        notes += [*likeness_notes(found), _chance_of_error(found)]
    return notes


def joint_lines(found: JointAnswer, ranks: Ranks) -> list[tuple[str, str]]:
    """Return (name, text) of all that is said of an answer."""
    name = "joint" if found.kind == "learning" else "joint FPS"
    lines = [(name, joint_statement(found, ranks))]
    lines += [(name, said) for said in joint_evidence(found)]
    lines += [("setting", confirmed_line(found, setting)) for setting in found.confirmed if found.state == "confirmed"]
    lines += [("steps", said) for said in setting_lines(found)]
    lines += [("memory", said) for said in card_lines(found)]
    lines += [("profile", said) for threshold in found.thresholds for said in profile_lines(found.kind, threshold)]
    lines += [("model", said) for said in likely_lines(found)]
    lines += [("note", said) for said in joint_notes(found)]
    return [*lines, ("next", joint_next(found))]


def confirmed_line(found: JointAnswer, setting: ConfirmedSetting) -> str:
    """Return what fresh seeds show of one setting."""
    if setting.cost is None:
        reached = setting.reached or "none"
        parts = [f"{reached} of {seeds_words(found.kind, setting.seeds)} {ARRIVED[found.kind]}"]
    else:
        parts = [confirmed_cost(found.kind, setting, found.error_of_claim)]
    if setting.most_slower is not None:
        parts.append(at_most_slower(found.kind, setting.most_slower))
    if not setting.may_be_best:
        parts.append("shown slower than another one")
    if setting.memory_peak_gb is not None:
        parts.append(f"{setting.memory_peak_gb:.2f} GB")
    return f"{short_setting(setting)}: {'; '.join(parts)}"


def profile_lines(kind: Kind, threshold: JointThreshold) -> list[str]:
    """Return a line for each value of an axis: the best setting there, and its cost by the model."""
    lines = []
    for own in threshold.profile:
        cost = "cost withheld (rough surface)"
        if own.cost is not None and own.cost_lower is not None and own.cost_upper is not None:
            cost = f"{cost_words(kind, own.cost)} ({interval_words(kind, own.cost_lower, own.cost_upper)})"
        lines.append(f"{threshold.axis} {own.value:,}: {cost}, by the model, best at {short_setting(own)}")
    return lines


def likely_lines(found: JointAnswer) -> list[str]:
    """Return the settings that hold the best one, by the model."""
    if not found.likely:
        return []
    named = found.likely[:MOST_LISTED]
    chances = ", ".join(f"{short_setting(own)} ({own.chance:.0%})" for own in named)
    count = counted(len(found.likely), "setting")
    holds = "holds" if len(found.likely) == 1 else "hold"
    likeliest = "" if len(named) == len(found.likely) else "the likeliest "
    return [
        f"{count} of {found.legal_settings} {holds} the best one with a chance of {found.confidence:.0%}: {likeliest}{chances}"
    ]


def cheapest(found: JointAnswer) -> list[str]:
    """Return the cheapest settings that are shown at most delta slower, or that there is none; one line for each setting."""
    names_of = _names_of(found)
    if len(found.confirmed) < 2:
        return []
    if not names_of:
        return [f"no setting is shown to be at most {found.delta:.0%} slower than the best one"]
    return [
        f"cheapest by {_joined(names)}: {short_setting(found.confirmed[place])}{_bound(found.confirmed[place])}"
        for place, names in names_of.items()
    ]


def card_lines(found: JointAnswer) -> list[str]:
    """Return a line for each group of cards that fit the same of the confirmed settings."""
    lines = []
    for own in found.on_cards:
        parts = []
        if own.soonest is not None:
            setting = found.confirmed[own.soonest]
            cost = confirmed_cost(found.kind, setting, found.error_of_claim)
            parts.append(f"{FIRST[found.kind]} is {short_setting(setting)}, {cost}")
        parts += [
            f"cheapest by {_joined(names)}, at most {found.delta:.0%} slower: {short_setting(found.confirmed[place])}"
            for place, names in _names_of(own).items()
        ]
        told = "; ".join(parts) or "none can be compared"
        lines.append(f"{', '.join(own.cards)}: of {counted(len(own.fitting), 'confirmed setting')} that fit, {told}")
    return lines


def _names_of(claims: Claims) -> dict[int, list[str]]:
    """Return place -> what the setting there has least of, among those shown at most delta slower."""
    names_of: dict[int, list[str]] = {}
    for name, place in (
        ("environments", claims.fewest_environments),
        ("memory", claims.least_memory),
        ("GPU-seconds", claims.fewest_gpu_seconds),
    ):
        if place is not None:
            names_of.setdefault(place, []).append(name)
    return names_of


def _bound(setting: ConfirmedSetting) -> str:
    """Return how much slower a setting is at most."""
    most = setting.most_slower
    return f", at most {percent(most)} slower" if most else ", shown to be the best"


def threshold_words(threshold: JointThreshold) -> str:
    """Return `256`, `over 2,048` or `undecided`."""
    if threshold.threshold is not None:
        return f"{threshold.threshold:,}"
    if threshold.state == "still pays" and threshold.tested:
        return f"over {max(threshold.tested):,}"
    return "undecided"


def threshold_line(found: JointAnswer, threshold: JointThreshold) -> str:
    """Return a threshold with what shows it, in a line."""
    gains = "gains" if found.kind == "throughput" else "saves"
    other = "num_envs" if threshold.axis == "horizon" else "horizon"
    level = f"{level_words(found.error_of_claim)} level"
    first = f"{threshold.axis} threshold {threshold_words(threshold)}"
    if threshold.threshold is not None:
        return f"{first}: doubling {gains} under {found.delta:.0%} at the best {other} and batch ({level})"
    if threshold.state == "still pays":
        return f"{first}: the last doubling {gains} at least {found.delta:.0%} ({level})"
    if len(threshold.tested) < 2:
        return f"{first}: fewer than two values have a good setting with fresh seeds"
    by_model = "is withheld" if found.is_rough else f"names {_named(threshold.by_model)}"
    return f"{first}: fresh seeds name {_named(threshold.by_fresh)}, the model {by_model}"


def _named(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _as_good(found: JointAnswer) -> list[str]:
    """Return the chance of the first setting, and which others are not shown slower."""
    lines = []
    first = None if found.soonest is None else found.confirmed[found.soonest]
    if first is not None and first.chance is not None:
        settings = f"all {found.legal_settings} settings"
        lines.append(f"the best one of {settings} with a chance of {first.chance:.0%}, by the model")
    others = [setting for setting in found.confirmed if setting is not first and setting.may_be_best]
    count = len(found.confirmed) - 1
    if count and len(others) == count:
        lines.append(
            f"not shown slower: all {count} others with fresh seeds"
            if count > 1
            else f"not shown slower: {_listed(others)}"
        )
    elif others:
        lines.append(f"not shown slower: {_listed(others)} ({len(others)} of {count} others)")
    elif count:
        lines.append(f"shown slower: every other setting with fresh seeds ({count})")
    return lines


def _listed(settings: Sequence[ConfirmedSetting]) -> str:
    more = len(settings) - MOST_LISTED
    return ", ".join(map(short_setting, settings[:MOST_LISTED])) + (f" and {more} more" if more > 0 else "")


def _mini_batches(found: JointAnswer) -> list[str]:
    kept = [own.value for own in found.mini_batches if own.not_slower]
    tested = [own.value for own in found.mini_batches]
    if len(tested) < 2 or not kept:
        return []
    every = f"{min(tested):,} to {max(tested):,}"
    if kept == tested:
        return [f"mini-batches per epoch: none of {every} is over {found.delta:.0%} slower, by the model"]
    span = listed(kept) if len(kept) == 1 else f"{min(kept):,} to {max(kept):,}"
    return [f"mini-batches per epoch: {span}; others of {every} are over {found.delta:.0%} slower, by the model"]


def _is_unreached(found: JointAnswer) -> bool:
    """Tell whether trials ended, and none reached the target."""
    tried = found.search_trials > 0 if found.learns_like is None else bool(found.confirmed)
    missed = found.censored == found.search_trials
    return tried and missed and not any(setting.reached for setting in found.confirmed)


def _unreached(found: JointAnswer) -> str:
    fresh = sum(setting.seeds for setting in found.confirmed)
    trials = [counted(found.search_trials, "search trial")] if found.search_trials else []
    seeds = [seeds_words(found.kind, fresh)] if fresh else []
    return f"no trial reached the target: {' and '.join([*trials, *seeds])} ended before"


def _why_none(found: JointAnswer) -> str:
    if not any(setting.reached for setting in found.confirmed):
        return f"no fresh {'repeat' if found.kind == 'throughput' else 'seed'} {ARRIVED[found.kind]}"
    return "too few seeds of each setting reached the target to compare them"


def _rough(found: JointAnswer) -> str:
    return f"rough surface: neighbours differ by about {found.amplitude or 0.0:.0%}; the model's intervals are withheld"


def _chance_of_error(found: JointAnswer) -> str:
    axes = [threshold.axis for threshold in found.thresholds]
    parts = ["the interval", "the comparisons with the best", *(f"the threshold of {axis}" for axis in axes)]
    parts += [] if found.learns_like is None else [f"the comparison with {found.learns_like}"]
    whole = error_words(1.0 - found.confidence)
    kind = (
        ""
        if error_words(found.error_of_kind) == whole
        else f", {error_words(found.error_of_kind)} for {KINDS_WORDS[found.kind]}"
    )
    each = error_words(found.error_of_kind / found.claims)
    return f"chance of error at most {whole} for all claims of the study together{kind}; {each} for each of {_joined(parts)}"


def _joined(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
