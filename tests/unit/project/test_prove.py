"""The proof in small: promises are kept over all scenarios, and a broken rule is found out."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from envknee.study.errors import UserError
from envknee.verdict import memory_model, throughput
from envknee.verdict.rule import affine, doublings, union
from envknee.verdict.rule.contrasts import Process
from envknee.verdict.rule.schedule import EVERY_REPEAT
from places import ROOT
from programs import run_main
from records import known
from scipy.special import stdtrit
from scipy.stats import binom

from benchmarks import asked, prove
from benchmarks.prove import LEARNING, MEMORY, THROUGHPUT, Limit, Proof, ProofRow, Scenario, Share

CHANCE = 1e-4
"""How unlikely a row must be under its promise before it counts as a broken one: there are dozens, of few studies each."""

BY_NAME = {scenario.name: scenario for scenario in THROUGHPUT}


def rows_of(scenarios: Sequence[Scenario], studies: int) -> list[ProofRow]:
    return [own.prove(n, studies, seed=1) for own in scenarios if own.in_scope for n in own.repeats]


def pooled(rows: Sequence[ProofRow], name: str) -> float:
    shares = [share for row in rows if (share := getattr(row, name)) is not None]
    return sum(share.hits for share in shares) / sum(share.of for share in shares)


def assert_promises(rows: Sequence[ProofRow], covers: Sequence[str]) -> None:
    assert [(row.scenario, row.repeats, missed) for row in rows if (missed := row.missed_beyond(CHANCE))] == []
    for name in covers:
        studies = sum(row.studies for row in rows if getattr(row, name) is not None)
        assert pooled(rows, name) >= binom.ppf(0.01, studies, prove.LEAST_COVERAGE) / studies, name


def test_throughput_limits_keep_their_promises():
    rows = rows_of(THROUGHPUT, 60)
    assert_promises(rows, ("gain", "threshold", "half_saturation", "asymptote"))
    assert pooled(rows, "false_reached") <= prove.LARGEST_FALSE_SHARE
    by_name = {(row.scenario, row.repeats): row for row in rows}
    assert known(by_name["clear plateau", 5].found).share >= 0.90, "a rule that never decides would keep every promise"
    alone = by_name["one repeat", 1]
    assert (known(alone.found).hits, known(alone.false_reached).hits, alone.gain) == (0, 0, None)
    assert known(by_name["out of memory at the top", 5].false_reached).hits == 0, "memory is no plateau"


def test_estimates_from_tables_without_repeats_keep_their_promises():
    rows = [table.prove(1, 200, seed=1) for table in prove.TABLES]
    assert_promises([row for row in rows if row.in_scope], ("gain", "threshold"))
    assert {known(row.false_reached).hits for row in rows} == {0}, "an estimate is no verdict"
    assert "gain" in rows[-1].missed, "noise above what is assumed is found out"


def test_learning_limits_keep_their_promises():
    rows = rows_of(LEARNING, 100)
    assert_promises(rows, ("gain",))
    assert pooled(rows, "false_reached") <= prove.LARGEST_FALSE_SHARE
    two = next(row for row in rows if row.repeats == 2)
    assert two.found is not None and two.found.hits == 0
    clear = next(row.found for row in rows if (row.scenario, row.repeats) == ("clear plateau", 10))
    assert known(clear).share >= 0.60


def test_memory_walls_keep_their_promise():
    rows = rows_of(MEMORY, 20)
    assert_promises(rows, ("wall",))


def test_a_rule_without_the_correction_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(union, "holm", lambda p_values: list(p_values))
    assert "false_reached" in BY_NAME["every doubling at delta"].prove(5, 200, seed=1).missed


def test_intervals_that_are_too_narrow_are_found_out(monkeypatch: pytest.MonkeyPatch):
    whole, widening = doublings.half_width, affine.widening
    for module in (doublings, union):
        monkeypatch.setattr(module, "half_width", lambda *given: 0.5 * whole(*given))
    monkeypatch.setattr(affine, "widening", lambda *given: 0.5 * widening(*given))
    monkeypatch.setattr(memory_model, "stdtrit", lambda *given: 0.3 * stdtrit(*given))
    assert {"gain", "half_saturation", "asymptote"} <= set(THROUGHPUT[0].prove(5, 100, seed=1).missed)
    assert LEARNING[0].prove(10, 100, seed=1).missed == ["gain"]
    assert MEMORY[0].prove(3, 40, seed=1).missed == ["wall"]


def test_sizes_in_ascending_order_within_processes_are_found_out_and_a_williams_design_is_not():
    blocks = "process blocks, at delta, each size costs 1%"
    ascending, williams = (
        known(BY_NAME[f"{blocks}, {order} order"].prove(8, 60, seed=1).false_reached)
        for order in ("ascending", "Williams")
    )
    assert ascending.share > 0.15
    assert williams.hits <= binom.ppf(1.0 - CHANCE, 60, prove.LARGEST_FALSE_SHARE)


def test_an_adaptive_number_of_tests_lets_chance_through():
    # Why censored doublings count among Holm's tests: half the worst case's first points are censored, by chance.
    scenario = next(candidate for candidate in LEARNING if candidate.name.startswith("at delta, every fourth"))
    assert known(scenario.prove(10, 1000, seed=3).false_reached).share <= 0.04


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    def numbers(seed: int) -> dict[str, object]:
        return THROUGHPUT[0].prove(3, 20, seed).model_dump(exclude={"ms_per_verdict"})

    assert numbers(1) == numbers(1)
    assert numbers(1) != numbers(2)


def test_true_thresholds_by_hand():
    # FPS 64 N / (64 + N): 512 -> 1024 gains 2 x 576 / 1088 - 1 = 5.9%, 256 -> 512 11.1%.
    names = ("saturating", "out of memory at the top", "linear")
    assert [BY_NAME[name].true_threshold for name in names] == [512, None, None]
    assert BY_NAME["non-monotone, resuming"].still_paying == {16, 128}
    assert {scenario.name: scenario.true_threshold for scenario in LEARNING}["non-monotone"] == 16


def a_proof() -> Proof:
    def a_row(limit: Limit, scenario: str, repeats: int, in_scope: bool = True, **hits: int) -> ProofRow:
        shares = {name: Share(hits=own, of=100) for name, own in hits.items()}
        return ProofRow(
            limit=limit, scenario=scenario, repeats=repeats, studies=100, in_scope=in_scope, ms_per_verdict=1.0, **shares,
        )  # fmt: skip

    rows = [
        a_row("throughput", "kept", 3, false_reached=7, gain=90),  # chance explains as much in 100 studies
        a_row("throughput", "missed", 5, false_reached=12, gain=86),
        a_row("memory", "elsewhere", 1, in_scope=False, wall=50),
    ]
    return Proof(seed=1, studies=100, delta=0.1, confidence=0.95, rows=rows)


def test_a_miss_is_marked_and_named_and_the_command_fails(monkeypatch: pytest.MonkeyPatch):
    proof = a_proof()
    assert [row.missed for row in proof.rows] == [[], ["false_reached", "gain"], ["wall"]]
    assert [cell for cell in prove.cells(proof.rows[1]) if "!" in cell] == ["12.0% !", "86.0% !"]
    said = prove.summary(proof)
    assert "Missed in 1 of 2 rows: missed (5): false_reached, gain." in said
    assert "Where an assumption is broken on purpose: elsewhere (1): wall." in said
    monkeypatch.setattr(prove, "prove", lambda *given: proof)
    assert run_main(prove.main) == 1
    without_miss = proof.model_copy(update={"rows": [proof.rows[0], proof.rows[2]]})
    monkeypatch.setattr(prove, "prove", lambda *given: without_miss)
    assert run_main(prove.main) == 0


def test_output_as_json_and_as_markdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prove, "prove", lambda *given: a_proof())
    for name in ("proof.json", "proof.md"):
        run_main(prove.main, "--studies", "100", "--output", tmp_path / name)
    assert Proof.model_validate(json.loads((tmp_path / "proof.json").read_text())) == a_proof()
    rows = [line for line in (tmp_path / "proof.md").read_text().splitlines() if line.startswith("| ")]
    assert [row.count("|") for row in rows] == [len(prove.HEADINGS) + 1] * (2 + 3)


def test_a_page_keeps_what_stands_around_the_table():
    page = f"# Title\n\n{prove.BEGIN}old\n{prove.END}\nlast\n"
    assert prove.within(page, "new\n") == f"# Title\n\n{prove.BEGIN}\nnew\n\n{prove.END}\nlast\n"
    assert prove.within("no place\n", "new\n") == "new\n"


def test_the_documented_table_has_the_program_s_columns_and_rows():
    """docs/verdicts.md, written by `python -m envknee prove --output docs/verdicts.md`: no promise is missed without a reason."""
    page = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")
    table = page.partition(prove.BEGIN)[2].partition(prove.END)[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert header == [heading.strip() for heading in prove.HEADINGS]
    wanted = [[own.limit, own.name, str(repeats)] for own in prove.SCENARIOS for repeats in own.repeats]
    assert [row[:3] for row in rows] == wanted
    missed = {(row[1], row[2]) for row in rows if any("!" in cell for cell in row) and not row[-1]}
    assert not missed, "in scope and missed"


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--studies", "0"], "--studies is 0"), (["--output", "proof.txt"], "ends in .md or .json")]
)
def test_bad_arguments_are_explained(arguments: list[str], said: str):
    with pytest.raises(UserError, match=said):
        run_main(prove.main, *arguments)


def in_blocks(
    fps: Sequence[float], generator: np.random.Generator, repeats: int, noise: float = 0.03
) -> dict[int, list[float]]:
    """Return ln FPS of each repeat, with noise that a process's sizes share and noise of their own."""
    of_process = noise * generator.standard_normal(repeats)
    return {
        size: (math.log(own) + of_process + noise * generator.standard_normal(repeats)).tolist()
        for size, own in zip(prove.SIZES, fps, strict=False)
    }


def ended(logs: Mapping[int, Sequence[float]], most: int) -> tuple[int, union.Decision]:
    """Return after how many repeats a quick row of the table ends, and with which decision."""
    values = {size: [math.exp(log) for log in own] for size, own in logs.items()}
    blocks = {size: [Process(0, number) for number in range(most)] for size in logs}
    seen = throughput.looks_at(values, 0.0, blocks, schedule=EVERY_REPEAT)
    after = 0

    def decision_after(repeats: int) -> union.Decision:
        nonlocal after
        after = repeats
        looks = dict.fromkeys(logs, repeats + 1 - union.LEAST_REPEATS)
        return union.decide(prove.cut(seen, looks), logs, math.log1p(prove.DELTA), 0.95, EVERY_REPEAT)

    decision = prove.until_decided(decision_after, most, np.random.default_rng(0))
    return after, decision


@pytest.mark.parametrize(("gain", "state"), [(0.05, "reached"), (0.1, "undecided"), (0.13, "still pays")])
def test_quick_rows_say_what_whole_studies_say_that_the_code_of_real_ones_asks_and_decides(gain: float, state: str):
    """The same FPS, once as plain numbers and once through requests, records and policies: same state, same number of repeats."""
    fps, most, generator = prove.five(*[gain] * 4), 6, np.random.default_rng(5)
    sizes = prove.SIZES[:5]
    study = asked.study_of(sizes, repeats=most, block="all", until_decided={"delta": prove.DELTA})
    states = set[str]()
    for _ in range(8):
        logs = in_blocks(fps, generator, most, 0.01)
        with asked.quickly():
            whole = asked.play(study, partial(of_repeat, logs))
        repeats, decision = ended(logs, most)
        assert set(asked.repeats_of(whole).values()) == {repeats}, (
            "no size was left out, and both ended at the same look"
        )
        assert (whole.limit.state, whole.limit.threshold_num_envs) == (decision.state, decision.threshold)
        for own, plain in zip(whole.limit.gains, decision.doublings, strict=True):
            assert own.gain == pytest.approx(math.expm1(plain.contrast.log_gain))
            assert own.gain_upper == pytest.approx(math.expm1(known(plain.upper)))
        states.add(decision.state)
    assert state in states


def of_repeat(logs: Mapping[int, Sequence[float]], repeat: int, num_envs: int) -> float:
    """Return ln FPS; the first size of a process, which it measures once more, has the same both times."""
    return logs[num_envs][repeat]


def test_whole_studies_leave_out_sizes_that_clearly_pay_and_end_in_time():
    def played(fps: Sequence[float], **section: object) -> dict[int, int]:
        logs = in_blocks(fps, np.random.default_rng(1), 6)
        study = asked.study_of(prove.SIZES[:5], repeats=6, block="all", until_decided={"delta": prove.DELTA}, **section)
        with asked.quickly():
            return dict(asked.repeats_of(asked.play(study, partial(of_repeat, logs))))

    steep = played(prove.five(0.6, 0.4, prove.DELTA, prove.DELTA))
    assert steep[16] < steep[256] == 6
    in_time = played(prove.five(*[prove.DELTA] * 4), time_limit_s=4 * 5 * asked.TRIAL_S)
    # The first repeat takes six trials, later ones five: three take 160 s, a fourth would end after 210.
    assert set(in_time.values()) == {3}


def test_remembered_answers_are_those_of_the_policies():
    logs = in_blocks(prove.five(0.6, 0.4, prove.DELTA, prove.DELTA), np.random.default_rng(2), 4)
    study = asked.study_of(prove.SIZES[:5], repeats=4, block="all", until_decided={"delta": prove.DELTA})
    plain = asked.play(study, partial(of_repeat, logs))
    with asked.quickly():
        quick = asked.play(study, partial(of_repeat, logs))
    assert [record.request for record in quick.records] == [record.request for record in plain.records]
    assert quick.limit.gains == plain.limit.gains
