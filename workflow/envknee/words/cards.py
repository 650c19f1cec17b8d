"""The environments that are predicted to fit cards of other sizes. Pure."""

from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.words.intervals import with_interval
from envknee.words.series import series_words
from envknee.words.study import shared_series
from envknee.words.tables import Table


def cards_table(verdict: Verdict) -> Table:
    """Return a table with a column for each arm, horizon and batch size, as far as they differ."""
    columns: dict[str, None] = {}
    rows: dict[str, tuple[str, ...]] = {}
    for arm in verdict.arms:
        for card in _cards(arm):
            columns[_heading(verdict, arm.arm, card)] = None
            rows[card.card] = (*rows.get(card.card, (card.card,)), fitting(card))
    return Table("Environments for your GPU", ("card", *columns), list(rows.values()))


def _cards(arm: ArmVerdict) -> list[CardPrediction]:
    """Return an arm's predictions; after a search over all axes, with dozens of series, only those of the settings that are named."""
    cards = arm.memory.cards if arm.memory else []
    if not arm.joint:
        return cards
    named = [found.confirmed[found.soonest] for found in arm.joint if found.soonest is not None]
    series = {(setting.horizon, setting.batch_size) for setting in named}
    return [card for card in cards if (card.series.horizon, card.series.batch_size) in series]


def fitting(card: CardPrediction) -> str:
    """Return `788 (721 to 843)`, the environments that are predicted to fit a card."""
    return with_interval(card.largest_num_envs or 0, card.largest_num_envs_lower, card.largest_num_envs_upper)


def _heading(verdict: Verdict, arm: str, card: CardPrediction) -> str:
    if shared_series(verdict):
        return arm
    series = series_words(card.series)
    return f"{arm}: {series}" if len(verdict.arms) > 1 else series
