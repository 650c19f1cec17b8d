"""The environments that are predicted to fit cards of other sizes. Pure."""

from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.series import Series
from envknee.words.intervals import with_interval
from envknee.words.series import series_words
from envknee.words.study import shared_series
from envknee.words.tables import Table


def cards_table(verdict: Verdict) -> Table:
    """Return a table with a row for each card, and a column for each arm, horizon and batch size, as far as they differ."""
    cells: dict[str, dict[tuple[str, Series], str]] = {}
    for arm in verdict.arms:
        for card in _cards(arm, verdict):
            cells.setdefault(card.card, {})[arm.arm, card.series] = fitting(card)
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    is_shared = len({series for _, series in columns}) == 1 and shared_series(verdict) is not None
    headings = (_heading(arm, series, verdict, is_shared) for arm, series in columns)
    rows = [(card, *(row.get(column, "") for column in columns)) for card, row in cells.items()]
    return Table("Environments for your GPU", ("card", *headings), rows)


def _cards(arm: ArmVerdict, verdict: Verdict) -> list[CardPrediction]:
    """Return an arm's predictions; where it has dozens of series, only those of the settings that are named."""
    cards = arm.memory.cards if arm.memory else []
    named = _named(arm, verdict)
    if named is None:
        return cards
    return [card for card in cards if (card.horizon, card.batch_size) in named]


def _named(arm: ArmVerdict, verdict: Verdict) -> set[tuple[int, int | None]] | None:
    """Return horizon and batch size of each setting that is named after a search over all axes or under a scaling rule; None without."""
    if arm.joint:
        settings = [found.confirmed[found.soonest] for found in arm.joint if found.soonest is not None]
        return {(setting.horizon, setting.batch_size) for setting in settings}
    if verdict.rules is None or arm.soonest is None:
        return None
    limit, best = arm.soonest
    ran = verdict.rules.as_run(limit, best.num_envs)
    return None if ran is None else {(ran.horizon, ran.batch_size)}


def fitting(card: CardPrediction) -> str:
    """Return `788 (721 to 843)`, the environments that are predicted to fit a card."""
    return with_interval(card.largest_num_envs or 0, card.largest_num_envs_lower, card.largest_num_envs_upper)


def _heading(arm: str, series: Series, verdict: Verdict, is_shared: bool) -> str:
    if is_shared:
        return arm
    return f"{arm}: {series_words(series)}" if len(verdict.arms) > 1 else series_words(series)
