"""Tables of terminal, report and README: as many cells in each row as there are headings, and each cell under its own."""

import re
from html import unescape

import pytest
from envknee.after.keep import page as readme
from envknee.decide.study import decide
from envknee.show import report
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.verdict.lead import in_order
from envknee.verdict.schema.study import Verdict
from envknee.words.answer import answers_table
from envknee.words.cards import cards_table, fitting
from envknee.words.gpu_peaks import gpu_peaks_table
from envknee.words.series import series_words
from envknee.words.tables import Table, rules_table
from published import PUBLISHED, records_of, verdict_of
from records import GPU, a_study, a_trial
from records import records_of as records_of_trials

HORIZONS = (8, 16, 32)


def made_up(arms: int, series: int) -> Verdict:
    """Return the verdict of a study on a GPU with so many arms and horizons; each horizon of each arm takes its own memory."""
    names = [f"arm-{place}" for place in range(arms)]
    trials = [
        a_trial(
            size, number=number, arm=arm, horizon=horizon, batch_size=None, device=GPU, fps=1000.0 * place + size,
            memory_gb=(place + 1) * (1.0 + size * (1 + horizon / 8) / 500) + repeat / 100, repeat=repeat,
        )
        for place, arm in enumerate(names)
        for number, (horizon, size, repeat) in enumerate(
            [(horizon, size, repeat) for horizon in HORIZONS[:series] for size in (16, 32, 64) for repeat in range(2)],
            start=100 * place,
        )
    ]  # fmt: skip
    sizes = {"num_envs": [16, 32, 64], "horizon": list(HORIZONS[:series]), "batch_size": "library", "repeats": 2}
    return decide(records_of_trials(trials), a_study(arms={name: {} for name in names}, throughput=sizes))


STUDIES = [*PUBLISHED, *((arms, series) for arms in (1, 2, 3) for series in (1, 2, 3))]


def verdict_for(study: str | tuple[int, int]) -> Verdict:
    return verdict_of(study) if isinstance(study, str) else made_up(*study)


def tables_of(verdict: Verdict) -> list[Table]:
    """Return all tables of terminal and report."""
    rules = [] if verdict.rules is None else [rules_table(verdict.rules)]
    return [answers_table(verdict, verdict.arms), cards_table(verdict), gpu_peaks_table(verdict), *rules]


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_each_row_has_a_cell_for_each_heading(study: str | tuple[int, int]):
    verdict = verdict_for(study)
    for table in tables_of(verdict):
        assert len(set(table.columns)) == len(table.columns), "no heading twice"
        assert {len(row) for row in table.rows} <= {len(table.columns)}
    shown = re.findall(r"<table[^>]*>(.*?)</table>", report.page(verdict, [], {}), re.S)
    for grid in shown:
        heads, *rows = re.findall(r"<tr[^>]*>(.*?)</tr>", grid, re.S)
        assert all(len(re.findall("<td", row)) == len(re.findall("<th", heads)) for row in rows)
    assert len(shown) > sum(bool(table.rows) for table in tables_of(verdict)[1:]), "and the table of trials"


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_what_fits_a_card_stands_under_the_setting_that_it_holds_for(study: str | tuple[int, int]):
    verdict = verdict_for(study)
    table = cards_table(in_order(verdict))  # as the report and the terminal show it
    predicted = {
        (heading, card.card): fitting(card)
        for arm in verdict.arms
        for card in (arm.memory.cards if arm.memory else [])
        for heading in (arm.arm, series_words(card.series), f"{arm.arm}: {series_words(card.series)}")
    }
    several = {(arm.arm, card.series) for arm in verdict.arms for card in (arm.memory.cards if arm.memory else [])}
    for card, *cells in table.rows:
        assert cells == [predicted[heading, card] for heading in table.columns[1:]]
    if len(several) > len(verdict.arms):
        assert not {arm.arm for arm in verdict.arms} & {*table.columns}, "an arm's name alone does not tell its series"
    page = report.page(verdict, [], {})
    grids = [grid for grid in re.findall(r"<table>(.*?)</table>", page, re.S) if "<th>card</th>" in grid]
    assert len(grids) == bool(table.rows)
    for grid in grids:
        heads, *rows = re.findall(r"<tr[^>]*>(.*?)</tr>", grid, re.S)
        assert tuple(map(unescape, re.findall("<th[^>]*>(.*?)</th>", heads))) == table.columns
        assert [tuple(re.findall("<td[^>]*>(.*?)</td>", row)) for row in rows] == table.rows


@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_of_a_readme_have_a_cell_for_each_heading(name: str):
    study = read_study(StudyFolder(PUBLISHED[name].root).study)
    text = readme(study, records_of(name), verdict_of(name), [])
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) <= 1


def test_made_up_studies_have_cards_for_each_arm_and_horizon():
    assert [len(cards_table(made_up(arms, series)).columns) for arms, series in ((1, 1), (2, 1), (2, 2), (3, 3))] == [
        2, 3, 5, 10,
    ]  # fmt: skip
