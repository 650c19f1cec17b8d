"""What may decide an open study: how many further repeats, how long they take, and the command that measures them."""

from pathlib import Path
from typing import Any

import joint_study
import pytest
from asked import play
from drawn import with_verdict
from envknee.ask.further import further_of
from envknee.decide.study import decide
from envknee.show import terminal
from envknee.study.continued import with_more_repeats
from envknee.verdict.schema.further import Further
from envknee.words.further import further_line
from programs import run_main, told
from records import PLATEAU, a_study, fps_trials, known, records_of, write_study

OPEN = {16: [100.0, 101.0, 102.0], 32: [185.0, 190.0, 200.0], 64: [190.0, 205.0, 197.0]}
"""FPS by num_envs, three repeats each: too noisy to show that doubling 32 no longer pays."""


def test_an_open_limit_takes_the_repeats_that_it_names_and_their_median_time():
    study, records = a_study(), records_of(fps_trials(OPEN))
    verdict = decide(records, study)
    limit = known(verdict.arms[0].recommended)
    assert limit.state == "undecided" and limit.more_repeats
    (found,) = further_of(study, verdict, records)
    assert (found.kind, found.repeats, found.in_all) == ("throughput", limit.more_repeats, limit.more_repeats)
    total_s = records[0].outcome.total_s  # of each trial here
    assert found.seconds == pytest.approx(limit.more_repeats * len(OPEN) * total_s)


def test_more_repeats_that_were_measured_are_counted():
    study = a_study()
    assert study.throughput is not None
    study = study.model_copy(update={"throughput": study.throughput.model_copy(update={"more_repeats": 2})})
    records = records_of(fps_trials(OPEN))
    (found,) = further_of(study, decide(records, study), records)
    assert found.in_all == found.repeats + 2


def test_a_decided_study_takes_none():
    study, records = a_study(), records_of(fps_trials(PLATEAU))
    assert further_of(study, decide(records, study), records) == []


@pytest.mark.parametrize(
    ("further", "line"),
    [
        ([], None),
        (
            [Further(kind="throughput", repeats=3, in_all=5, seconds=40.4)],
            "throughput needs 3 more repeats (about 40 s):"
            " envknee sweep results/x/study.json -- --config more_throughput=5",
        ),
        (
            [
                Further(kind="throughput", repeats=1, in_all=1, seconds=60),
                Further(kind="learning", repeats=2, in_all=2, seconds=120),
            ],
            "throughput needs 1 more repeat, learning needs 2 more seeds (about 3 min):"
            " envknee sweep results/x/study.json -- --config more_throughput=1 more_learning=2",
        ),
    ],
)
def test_the_line_has_the_command_what_is_open_and_its_time(further: list[Further], line: str | None):
    assert further_line(further, "results/x/study.json") == line


def test_the_summary_ends_with_it_once_all_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    section = {"num_envs": [16, 32, 64], "horizon": [8], "batch_size": 128, "repeats": 3}
    whole = with_verdict(write_study(tmp_path / "whole", a_study(throughput=section), fps_trials(OPEN)))
    run_main(terminal.main, whole.root)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("decide   throughput needs ")
    assert f": envknee sweep {whole.study} -- --config more_throughput=" in last
    half = with_verdict(write_study(tmp_path / "half", a_study(), fps_trials(OPEN)))  # 256 environments are to come
    run_main(terminal.main, half.root)
    assert "decide   " not in capsys.readouterr().out
    decided = with_verdict(write_study(tmp_path / "decided", a_study(throughput=section), fps_trials(PLATEAU)))
    run_main(terminal.main, decided.root)
    assert "decide   " not in capsys.readouterr().out


def test_an_open_joint_answer_takes_seeds_of_every_confirmed_setting_up_to_a_look():
    study = joint_study.a_study(trials=30, confirm={"settings": 4, "seeds": 3})
    _, by_number = play(study, joint_study.learned)
    records = list(by_number.values())
    verdict = decide(records, study)
    (found,) = verdict.arms[0].joint
    assert found.state == "confirmed" and found.seeds_to_next_look and found.more_seeds
    assert found.more_seeds >= found.seeds_to_next_look
    (further,) = further_of(study, verdict, records)
    assert (further.kind, further.repeats) == ("learning", found.more_seeds)
    fresh_s = [record.outcome.total_s for record in records if record.request.confirms]
    assert further.seconds == pytest.approx(further.repeats * sum(fresh_s) / 3)

    def needs(**changes: Any) -> list[Further]:
        arm = verdict.arms[0].model_copy(update={"joint": [found.model_copy(update=changes)]})
        return further_of(study, verdict.model_copy(update={"arms": [arm]}), records)

    assert needs(is_rough=True) == needs(state="confirming") == needs(seeds_to_next_look=None) == []
    decided = [own.model_copy(update={"state": "reached"}) for own in found.thresholds]
    assert needs(thresholds=decided, soonest=0) == [] and needs(thresholds=decided, soonest=None) != []


def test_repeats_of_the_command_line_replace_those_of_the_file_so_that_it_may_be_typed_again():
    data = {"study": "x", "throughput": {"num_envs": 4, "more_repeats": 2}}
    more = with_more_repeats(data, {"throughput": 3, "learning": None})
    assert more == {"study": "x", "throughput": {"num_envs": 4, "more_repeats": 3}}
    assert with_more_repeats(more, {"throughput": 3}) == more
    assert data["throughput"]["more_repeats"] == 2
    told(lambda: with_more_repeats(data, {"learning": 3}), "more_learning=3", "no section learning", "out")


@pytest.mark.parametrize("wrong", [-1, "many", 1.5, True])
def test_a_number_of_repeats_that_is_none_is_told(wrong: Any):
    data = {"study": "x", "throughput": {"num_envs": 4}}
    told(lambda: with_more_repeats(data, {"throughput": wrong}), f"more_throughput={wrong}", "more_throughput=3")
