"""Which of the confirmed settings are named: the soonest one, and the cheapest that are shown at most delta slower. Pure."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from envknee.verdict.joint.fresh import Levels
from envknee.verdict.memory_model import CARDS_GB, usable_gb
from envknee.verdict.rule.doublings import expm1
from envknee.verdict.schema.joint import ConfirmedSetting, OnCards
from envknee.verdict.settings import Settings


def named(
    ranked: Sequence[ConfirmedSetting], most_slower: Sequence[float | None], places: Sequence[int], delta: float
) -> dict[str, Any]:
    """Return the claims of `Claims`, among some places of the settings, which are ranked by cost.

    `most_slower` is the upper bound of how much more each one of `ranked` costs than the best one of `places`.
    """
    runs = [place for place in places if not ranked[place].lost]
    allowed = [place for place in runs if _is_at_most(most_slower[place], delta)]

    def least(amount: str) -> int | None:
        """Return the first place with the least of an amount, of those that have it."""
        known = {place: getattr(ranked[place], amount) for place in allowed}
        return min(
            (place for place in allowed if known[place] is not None), key=lambda place: known[place], default=None
        )

    return {
        "soonest": next((place for place in runs if ranked[place].cost_lower is not None), None),
        "fewest_environments": least("num_envs"),
        "least_memory": least("memory_peak_gb"),
        "fewest_gpu_seconds": least("gpu_seconds"),
    }


def on_cards(
    ranked: Sequence[ConfirmedSetting],
    order: Sequence[int],
    levels: Levels,
    alpha: float,
    delta: float,
    settings: Settings,
    on_gpu: bool,
) -> list[OnCards]:
    """Return the claims on smaller cards, among the confirmed settings that fit them with the study's margin.

    They are compared only with each other, which takes no further chance of error: all comparisons hold at once. `order` has the place of
    each of `ranked` in `levels`.
    """
    peaks = [setting.memory_peak_gb for setting in ranked]
    if not on_gpu or any(peak is None for peak in peaks):
        return []
    room_gb = {card: usable_gb(memory_gb, settings.memory_margin) for card, memory_gb in CARDS_GB.items()}

    def fitting(card: str) -> list[int]:
        return [place for place, peak in enumerate(peaks) if peak is not None and peak <= room_gb[card]]

    found = []
    for places, cards in groupby(sorted(room_gb, key=lambda card: room_gb[card]), fitting):
        if not places or len(places) == len(ranked):
            continue
        among = [order[place] for place in places]
        slower: list[float | None] = [None] * len(ranked)
        for place in places:
            most = levels.most_slower(order[place], alpha, among)
            slower[place] = None if most is None else expm1(most)
        found.append(OnCards(cards=list(cards), fitting=places, **named(ranked, slower, places, delta)))
    return found


def _is_at_most(most: float | None, delta: float) -> bool:
    return most is not None and most <= delta
