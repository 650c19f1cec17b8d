"""Every setting that an answer recommends is one that ran, in published studies and in made-up ones under scaling rules."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from envknee.decide.study import decide
from envknee.record.schema import Record, ScaledFrom
from envknee.show import report
from envknee.study.model import Study
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.words.answer import answer, answers_table
from envknee.words.headline import headline_statement
from envknee.words.sentences import sentences
from published import PUBLISHED, records_of, verdict_of
from records import Trial, a_study, a_trial
from records import records_of as records_of_trials

SETTING = re.compile(
    r"(\d+(?:,\d{3})*)(?: environments)?(?: per GPU| per rank)?[ ,(]+horizon (\d+), (batch \d+(?:,\d{3})*|library batch)"
)
"""A recommendation in words: environments, horizon, batch."""

BASE = ScaledFrom(rule="library", num_envs=64, horizon=8, batch_size=128)
SIZES = [16, 32, 64, 128]


def measured(records: Iterable[Record], arm: ArmVerdict) -> set[tuple[str, str, str]]:
    """Return each setting of an arm that ran, in words, and those whose FPS are known to be composed of others."""
    requests = [record.request for record in records if record.request.arm == arm.arm]
    ran = {(request.num_envs, request.horizon, request.batch_size) for request in requests}
    for limit in arm.throughput:
        sizes = [] if limit.composed is None else limit.composed.num_envs
        ran |= {(num_envs, limit.horizon, limit.batch_size) for num_envs in sizes}
    return {
        (f"{num_envs:,}", str(horizon), "library batch" if batch_size is None else f"batch {batch_size:,}")
        for num_envs, horizon, batch_size in ran
    }


def recommended(arm: ArmVerdict, verdict: Verdict) -> set[tuple[str, str, str]]:
    """Return every setting that terminal, report and README recommend for an arm."""
    own = answer(arm, verdict.rules)
    texts = [f"{own.run_in_full} ({own.series})" if own.gives else ""]
    if arm.headline is not None:
        texts.append(headline_statement(arm, arm.headline))
    (row,) = [row for row in answers_table(verdict, verdict.arms).rows if row[0] == arm.arm]
    texts.append(row[1])
    texts += [said for heading, lines in sentences(verdict) if heading.startswith(f"{arm.arm} on ")
              for name, said in lines if name == "headline"]  # fmt: skip
    return {found for text in texts for found in SETTING.findall(text)}


def unmeasured(verdict: Verdict, records: Sequence[Record]) -> dict[str, set[tuple[str, str, str]]]:
    """Return the recommended settings of each arm that no record has."""
    return {arm.arm: recommended(arm, verdict) - measured(records, arm) for arm in verdict.arms}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_study_recommends_what_ran(name: str):
    found = unmeasured(verdict_of(name), records_of(name))
    assert found == dict.fromkeys(found, set())
    if any(own.gives and own.series for own in (answer(arm, verdict_of(name).rules) for arm in verdict_of(name).arms)):
        assert any(recommended(arm, verdict_of(name)) for arm in verdict_of(name).arms), "the test reads them"


def ruled(trial: Trial, arm: str, rule: str) -> Trial:
    """Return a trial at horizon 8 and batch 128 of 64 environments, as a scaling rule changes it."""
    size = trial.request.num_envs
    horizon = 8 * 64 // size if rule == "fixed_frames" else 8
    batch_size = 2 * size if rule == "library" else 128
    base = BASE.model_copy(update={"rule": rule})
    return trial.asked(arm=arm, horizon=horizon, batch_size=batch_size, scaled_from=base)


def under_rules(kind: Any, rules: Sequence[str], best: int) -> tuple[Study, list[Trial]]:
    """Return a study of two arms under scaling rules, whose best size is `best`."""
    trials = list[Trial]()
    for arm in rules:
        for size in SIZES:
            for repeat in range(3):
                worse = abs(size - best) + repeat / 10
                values: dict[str, Any] = {"seconds": 10.0 + worse} if kind == "learning" else {"fps": 1000.0 - worse}
                trial = a_trial(size, number=len(trials), kind=kind, repeat=repeat, memory_gb=1 + size / 64, **values)
                trials.append(ruled(trial, arm, arm))
    base = {"num_envs": 64}
    arms = {arm: {"scaling": {"rule": arm, **base}} for arm in rules}
    section: dict[str, Any] = {"num_envs": SIZES, "horizon": [8], "batch_size": [128], "repeats": 3}
    learning = section | {"target_reward": 4.0, "target_episodes": 10, "budget_s": 60.0}
    other = {"throughput": None, "learning": learning} if kind == "learning" else {"throughput": section}
    return a_study(arms=arms, **other), trials


def series_under(rule: str, num_envs: int) -> str:
    """Return horizon and batch size in words, as `ruled` makes them."""
    horizon = 512 // num_envs if rule == "fixed_frames" else 8
    return f"horizon {horizon}, batch {2 * num_envs if rule == 'library' else 128:,}"


@pytest.mark.parametrize(
    ("kind", "rules"), [("throughput", ("fixed_batch", "library")), ("learning", ("fixed_frames", "library"))]
)
@pytest.mark.parametrize("best", SIZES)
def test_an_arm_under_a_scaling_rule_is_recommended_as_it_ran(kind: str, rules: Sequence[str], best: int):
    study, trials = under_rules(kind, rules, best)
    records = records_of_trials(trials)
    verdict = decide(records, study)
    assert unmeasured(verdict, records) == dict.fromkeys(rules, set())
    page = report.page(verdict, [], {})
    for arm in verdict.arms:
        own = answer(arm, verdict.rules)
        assert own.series == series_under(arm.arm, int(own.run))
        assert f"{arm.arm}: run {own.run} environments ({own.series})" in page
