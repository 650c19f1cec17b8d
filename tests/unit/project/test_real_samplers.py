"""What the settings lose that samplers name (benchmarks/real_samplers.py): on a published study, and on one whose truth is known."""

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.space import legal_points
from joint_study import a_study, learned, log_seconds, measured_trials
from published import ROOT
from records import known

from benchmarks.pages.published import PUBLISHED, arm_of, records_of
from benchmarks.real_samplers import (
    Confirmed,
    Search,
    as_json,
    judge,
    judged,
    main,
    named_by,
    searched_in,
    study_of,
    tables,
    write_studies,
)

BASE = ROOT / "config/studies/joint-lean-warp.yaml"
POINTS: dict[str, Any] = {"num_envs": [256, 512, 1024], "horizon": [16, 32], "batch_size": [512, 2048, 8192]}


def settings_of(study: Study) -> list[Point]:
    return legal_points(known(study.learning), study.world_sizes)


def records(study: Study) -> list[Record]:
    return [trial.record for trial in measured_trials(study)]


@cache
def simulated() -> tuple[Confirmed, Sequence[Point]]:
    study = a_study(**POINTS, trials=24, confirm={"settings": 5, "seeds": 12})
    return Confirmed(records(study), settings_of(study), seeds=12), settings_of(study)


def test_a_published_search_names_what_its_study_says_of_it():
    arm = [record for record in records_of("cartpole-learns-like") if record.request.arm == "lean-warp"]
    learning = [record for record in arm if record.request.kind == "learning" and record.outcome.status != "skipped"]
    settings = sorted({record.request.point for record in learning})
    confirmed = Confirmed(learning, settings, seeds=6)
    answer = next(joint for joint in arm_of("cartpole-learns-like", "lean-warp").joint if joint.kind == "learning")
    soonest = answer.confirmed[known(answer.soonest)]
    assert confirmed.best == Point(soonest.num_envs, soonest.horizon, soonest.batch_size)
    assert confirmed.best_s == pytest.approx(soonest.cost)
    for own in answer.confirmed:
        true = confirmed.at(Point(own.num_envs, own.horizon, own.batch_size))
        assert true.source == "fresh seeds" and true.seconds == pytest.approx(own.cost)
        assert true.regret == pytest.approx(known(own.cost) / known(soonest.cost) - 1.0)
    seen, picked = named_by(Search("s", "profile", 1, searched_in(learning)), settings)
    assert seen.told_s < confirmed.at(seen.setting).seconds, "the soonest trial of a search was a lucky one"
    assert picked.by == "model" and picked.setting in settings


def test_each_samplers_search_is_judged_by_the_confirmed_study_alone():
    confirmed, settings = simulated()
    searches = []
    for sampler in ("profile", "tpe", "sobol"):
        size: dict[str, Any] = {"trials": 14} if sampler == "profile" else {"points": 14, "repeats": 1, "trials": None}
        study = a_study(**POINTS, sampler=sampler, **size)
        searches.append(Search(study.study, sampler, 1, records(study)))
    rows = judged(confirmed, searches, settings)
    assert [(row.search.sampler, row.named.by) for row in rows] == [
        (sampler, by) for sampler in ("profile", "tpe", "sobol") for by in ("best seen", "model")
    ]
    for row in rows:
        assert len({record.request.number for record in row.search.records}) == 14
        truth = math.expm1(log_seconds(row.named.setting) - log_seconds(confirmed.best))
        assert row.true.regret == pytest.approx(truth, abs=0.3), "noise of 12 seeds, and of the model elsewhere"
        if row.named.setting != confirmed.best:
            assert known(row.true.regret_lower) <= row.true.regret <= known(row.true.regret_upper)
    result = as_json(confirmed, "s", rows)
    assert json.loads(json.dumps(result)) == result
    by = {(own["sampler"], own["by"]): own for own in result["by_sampler"]}
    assert by["tpe", "best seen"]["regret_median"] == rows[2].true.regret
    assert by["tpe", "best seen"]["told_over_true_median"] == rows[2].named.told_s / rows[2].true.seconds
    text = tables(result)
    assert "| tpe, seed 1 | best seen |" in text and "| sobol | model | 1 |" in text


def test_a_setting_without_fresh_seeds_is_judged_by_the_model():
    confirmed, settings = simulated()
    sources = {setting: confirmed.at(setting).source for setting in settings}
    assert list(sources.values()).count("fresh seeds") == 5
    worst = max(settings, key=log_seconds)
    assert sources[worst] == "model" and known(confirmed.at(worst).regret_lower) > 0.0
    assert (confirmed.at(confirmed.best).regret, confirmed.at(confirmed.best).regret_lower) == (0.0, None)


def test_a_search_without_an_arrival_names_nothing_and_an_open_study_confirms_nothing():
    study = a_study(**POINTS, trials=3)
    missed = [learned(trial.request, budget_s=0.1).record for trial in measured_trials(study)]
    with pytest.raises(UserError, match="^late: no trial reached the target"):
        named_by(Search("late", "tpe", 1, missed), settings_of(study))
    with pytest.raises(UserError, match="lacks fresh seeds"):
        Confirmed(records(study), settings_of(study), seeds=8)


def test_the_written_studies_differ_from_the_confirmed_one_in_sampler_seed_and_trials(tmp_path: Path):
    base = yaml.safe_load(BASE.read_text(encoding="utf-8"))
    paths = write_studies(BASE, tmp_path, trials=64, seeds=3)
    assert len(paths) == 9
    confirmed = parse_study(base)
    for path in paths:
        study = parse_study(yaml.safe_load(path.read_text(encoding="utf-8")))
        section, own = known(confirmed.learning), known(study.learning)
        assert study.study == path.stem and study.seed != confirmed.seed and study.task == confirmed.task
        assert settings_of(study) == settings_of(confirmed) and own.budget_s == section.budget_s
        assert own.confirm is None and 64 in (own.trials, own.points)
    assert study_of(base, "tpe", 4, 10)["learning"]["points"] == 10


def test_a_search_of_other_settings_is_refused(tmp_path: Path):
    few = PUBLISHED["cartpole-few-environments"].root
    with pytest.raises(UserError, match="expected the settings, target_reward and task of"):
        judge(few, [PUBLISHED["cartpole-one-gpu-learning"].root])
    with pytest.raises(UserError, match="expected a study with one arm"):
        judge(few, [PUBLISHED["cartpole-learns-like"].root])


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    few = str(PUBLISHED["cartpole-few-environments"].root)
    main(["judge", few, few, "--output", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["best"] == {"num_envs": 256, "horizon": 32, "batch_size": 512} and len(found["searches"]) == 2
    assert tables(found) == capsys.readouterr().out.rstrip("\n")
