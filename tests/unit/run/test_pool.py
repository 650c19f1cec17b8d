"""Workers of a section: which trials they share, who takes which, and what each request may know."""

import logging
import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from asked import any_outcome, measured, play
from envknee.ask.ask import ask, ask_again
from envknee.machine import gpus
from envknee.record.read import load_records
from envknee.record.schema import Request, Shared
from envknee.run import claim, mend, quiet, work, workers
from envknee.run.launch import launch
from envknee.run.pool import NoTrial, Pool
from envknee.run.time_left import time_left
from envknee.run.worker import Worker
from envknee.slurm import jobs
from envknee.study import space
from envknee.study.errors import EXIT_TO_MEND, ToMend, UserError
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.space import Slot
from envknee.verdict.memory_sample import counted_peak_gb
from records import a_trial, known, write_trial
from snakemake_interface_logger_plugins.common import LogEvent
from transfer_study import SLOW, transfer_data
from transfer_study import trial as transfer_trial

SIZES: dict[str, Any] = {"num_envs": [16, 32, 64], "horizon": 8, "batch_size": 128}
THROUGHPUT = SIZES | {"sampler": "tpe", "repeats": 2, "workers": 2}
LEARNING = SIZES | {"sampler": "profile", "trials": 5, "target_reward": 4.0, "budget_s": 60.0, "workers": 2}


def study(**changes: Any) -> Study:
    plain: dict[str, Any] = {
        "study": "demo",
        "ask_version": 2,
        "window": 3,
        "arms": {"stock": {"gpus": 0}},
        "throughput": THROUGHPUT,
    }
    return parse_study(plain | changes)


def a_folder(path: Path, of: Study) -> StudyFolder:
    folder = StudyFolder(path)
    path.mkdir(exist_ok=True)
    write_atomically(folder.study, canonical_json(of))
    return folder


def take(pool: Pool, held: ExitStack, broken: set[int] | None = None, arm: str | None = None) -> Slot | NoTrial:
    return held.enter_context(pool.next_trial(broken or set(), arm))


def number_of(found: Slot | NoTrial) -> int:
    assert isinstance(found, Slot), found
    return found.number


def finish(folder: StudyFolder, number: int) -> None:
    """Write what a trial leaves."""
    text = folder.trial(number).request.read_text(encoding="utf-8")
    write_trial(folder.trial(number), any_outcome(Request.model_validate_json(text)))


# The plan


def test_without_workers_a_plan_and_a_file_are_as_before():
    before = study(throughput={key: value for key, value in THROUGHPUT.items() if key != "workers"})
    assert "workers" not in canonical_json(before)
    assert space.pools(space.plan(before)) == []
    assert [slot._replace(pool=None) for slot in space.plan(study())] == space.plan(before)


def test_each_section_has_a_pool_and_later_repeats_one_of_their_own_in_which_a_window_counts_trials():
    plan = space.plan(study(throughput=THROUGHPUT | {"more_repeats": 1}, learning=LEARNING))
    assert [[slot.number for slot in pool] for pool in space.pools(plan)] == [
        [0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13],
    ]  # fmt: skip
    assert [pool[0].pool for pool in space.pools(plan)] == [0, 6, 11]
    assert [slot.first_unknown for slot in plan] == [max(0, number - 2) for number in range(14)]


def test_fps_that_claims_rest_on_have_processes_of_their_own_and_what_a_search_tries_shares_one():
    confirm = {"settings": 2, "seeds": 3}
    searched = study(throughput=SIZES | {"sampler": "profile", "trials": 4, "confirm": confirm, "workers": 1})
    requests, records = play(searched, measured)
    assert [request.fresh for request in requests] == [False] * 4 + [True] * 6
    repeated, _ = play(study(learning=LEARNING | {"confirm": confirm}), measured)
    assert [request.fresh for request in repeated] == [False] * 3 + [True] * 3 + [False] * (5 + 6)
    assert all(request.block is None for request in (*requests, *repeated)), "the verdict's blocks are the devices"
    assert ask_again(searched, requests, records) == requests


def test_the_number_of_workers_may_change_later_and_whether_there_are_any_may_not(tmp_path: Path):
    folder = a_folder(tmp_path, study())
    with Pool(study(), folder, 0).next_trial(set(), None):
        pass
    claim.check(study(throughput=THROUGHPUT | {"workers": 1}), folder)
    with pytest.raises(UserError, match=r"throughput\.workers: measured with 1, now null"):
        claim.check(study(throughput=THROUGHPUT | {"workers": None}), folder)


# Bad input


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"window": 1}, "throughput.workers 2 measure at the same time, and window 1 lets 1 do so.*Set window: 2 or more"),
        ({"throughput": THROUGHPUT | {"workers": 0}}, "throughput.workers.*greater than or equal to 1"),
        (
            {"throughput": THROUGHPUT | {"block": 2, "sampler": "grid"}},
            "workers 2 ask for each trial as they go, and block 2 fixes beforehand.*Take one of the two out",
        ),
        ({"arms": {"far": {"gpus": 1, "nodes": 2}}}, "a worker measures on one machine, and an arm has several nodes"),
        (
            {"arms": {"one": {"gpus": 1}, "two": {"gpus": 2}}},
            r"arms 'one' and 'two' differ in theirs \(gpus 1 and 2\). Put them into studies of their own",
        ),
        (
            {"learning": SIZES | {"target_reward": 4.0, "budget_s": 60.0, "time_limit_s": 50.0}},
            r"time_limit_s 50 is shorter than one trial, which trains for up to 60 s \(budget_s\). Raise it",
        ),
    ],
)  # fmt: skip
def test_what_workers_cannot_do_is_told(changes: dict[str, Any], told: str):
    with pytest.raises(UserError, match=f"(?s){told}"):
        study(**changes)


def test_more_workers_than_devices_are_refused_in_a_sentence():
    workers.check_devices(study(), 2, "buy more")
    with pytest.raises(UserError, match=r"throughput.workers 2 need 2 devices .* use 1. Set workers: 1, or buy more$"):
        workers.check_devices(study(), 1, "buy more")
    pairs = study(arms={"pair": {"gpus": 2}}, throughput=THROUGHPUT | {"num_envs": [32, 64]})
    with pytest.raises(UserError, match=r"need 4 devices .* use 3. Set workers: 1"):
        workers.check_devices(pairs, 3, "buy more")


def test_a_number_that_begins_no_pool_is_told(tmp_path: Path):
    with pytest.raises(UserError, match="trial 1 begins no pool of study 'demo'. Trials that do: 0"):
        Pool(study(), a_folder(tmp_path, study()), 1)


# Who takes which trial


def test_trials_are_taken_in_order_and_a_request_waits_for_the_records_that_it_must_know(tmp_path: Path):
    folder = a_folder(tmp_path, study())
    pool = Pool(study(), folder, 0)
    with ExitStack() as first, ExitStack() as second, ExitStack() as third, ExitStack() as fourth:
        assert [number_of(take(pool, held)) for held in (first, second, third)] == [0, 1, 2]
        assert take(pool, fourth) is NoTrial.LATER, "a window of 3 lets three trials run at once"
        finish(folder, 1)
        second.close()
        assert take(pool, fourth) is NoTrial.LATER, "request 3 must know record 0"
        finish(folder, 0)
        first.close()
        assert number_of(take(pool, fourth)) == 3
    assert pool.trial(pool.slots[3]).request.exists() and not pool.trial(pool.slots[4]).request.exists()


def test_a_dead_workers_trial_is_the_next_one_taken(tmp_path: Path):
    folder = a_folder(tmp_path, study())
    pool = Pool(study(), folder, 0)
    with ExitStack() as alive, ExitStack() as died, ExitStack() as next_one:
        assert number_of(take(pool, died)) == 0
        assert number_of(take(pool, alive)) == 1
        asked = folder.trial(0).request.read_bytes()
        died.close()  # a lock ends with its process
        assert number_of(take(pool, next_one)) == 0
        assert folder.trial(0).request.read_bytes() == asked


def test_a_trial_without_a_result_is_passed_over_as_far_as_the_window_lets(tmp_path: Path):
    folder = a_folder(tmp_path, study())
    pool = Pool(study(), folder, 0)
    for expected in (1, 2):
        with ExitStack() as held:
            assert number_of(take(pool, held, {0})) == expected
            finish(folder, expected)
    with ExitStack() as held, ExitStack() as other:
        assert take(pool, held, {0}) is NoTrial.NONE_LEFT
        assert number_of(take(pool, other)) == 0
        assert take(pool, held, {0}) is NoTrial.LATER, "another worker measures it, and more may follow"


def test_a_worker_stays_with_its_arm_while_the_window_lets_it(tmp_path: Path):
    two = study(arms={"a": {"gpus": 0}, "b": {"gpus": 0}}, window=6)
    folder = a_folder(tmp_path, two)
    pool = Pool(two, folder, 0)
    arm, taken = None, list[tuple[int, str]]()
    while True:
        with ExitStack() as held:
            found = take(pool, held, arm=arm)
            if not isinstance(found, Slot):
                break
            arm = found.arm
            taken.append((found.number, arm))
            finish(folder, found.number)
    assert taken == [
        (0, "a"), (2, "a"), (4, "a"), (6, "a"), (1, "b"), (3, "b"), (5, "b"), (7, "b"), (9, "b"), (11, "b"), (8, "a"), (10, "a"),
    ]  # fmt: skip


def test_fresh_seeds_run_side_by_side_whatever_the_window_and_a_worker_stays_with_its_arm_for_a_round(tmp_path: Path):
    confirm = {"settings": 2, "seeds": 3}
    learning = LEARNING | {"trials": 2, "confirm": confirm, "workers": 1}
    of = study(arms={"a": {"gpus": 0}, "b": {"gpus": 0}}, window=1, throughput=None, learning=learning)
    folder = a_folder(tmp_path, of)
    pool = Pool(of, folder, 0)
    for number in range(4):
        with ExitStack() as one, ExitStack() as other:
            assert number_of(take(pool, one)) == number
            assert take(pool, other) is NoTrial.LATER, "the stage waits for the whole search"
            finish(folder, number)
    with ExitStack() as held:
        taken, arm = list[tuple[int, str]](), "b"
        for _ in range(12):
            found = take(pool, held, arm=arm)
            arm = pool.slots[number_of(found)].arm
            taken.append((pool.slots[number_of(found)].repeat, arm))
        assert take(pool, held) is NoTrial.LATER
    assert taken == [(2, arm) for arm in "bbaa"] + [(3, arm) for arm in "aabb"] + [(4, arm) for arm in "bbaa"]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_ends_first_and_whoever_dies_requests_are_those_of_one_worker_alone_with_these_records(
    seed: int, tmp_path: Path
):
    dice = random.Random(seed)  # noqa: S311  a test's dice
    asked = study(
        window=dice.choice([3, 5]),
        learning=LEARNING,
        throughput=THROUGHPUT | {"sampler": dice.choice(["tpe", "random"])},
    )
    folder = a_folder(tmp_path, asked)
    finished = Counter[int]()
    for number in (0, 6):
        pool = Pool(asked, folder, number)
        busy: dict[int, tuple[int, ExitStack]] = {}
        while pool.unrecorded():
            worker = dice.randrange(3)
            if worker in busy:
                taken, held = busy.pop(worker)
                if dice.random() < 0.7:  # otherwise it dies
                    finish(folder, taken)
                    finished[taken] += 1
                held.close()
            else:
                held = ExitStack()
                found = take(pool, held)
                if isinstance(found, Slot):
                    busy[worker] = found.number, held
            assert len({taken for taken, _ in busy.values()}) == len(busy) <= asked.window
    assert finished == Counter(range(11)), "none twice"
    records = {record.request.number: record for record in load_records(folder)}
    requests = [records[number].request for number in range(11)]
    assert ask_again(asked, requests, records) == requests
    for request in requests:
        visible = {number: record for number, record in records.items() if number <= request.number - asked.window}
        assert ask(asked, request.number, requests[: request.number], visible) == request


def test_a_result_without_a_record_gets_one_and_a_torn_trial_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = a_folder(tmp_path, study())
    pool = Pool(study(), folder, 0)
    for number in range(3):
        with ExitStack() as held:
            take(pool, held)
            finish(folder, number)
    whole = folder.trial(0).record.read_bytes()
    folder.trial(0).record.unlink()  # as Snakemake does before it goes on with a pool
    torn = next(number for number in (1, 2) if folder.trial(number).metrics.exists())
    folder.trial(torn).metrics.write_bytes(b"\0\0")
    pool.forget_torn()
    work.remake_records(pool, None)
    assert folder.trial(0).record.read_bytes() == whole
    with ExitStack() as held:
        assert number_of(take(pool, held)) == torn


# A worker


def a_launcher(breaks: set[int], tried: list[int], error: type[UserError] = UserError) -> Any:
    def launched(trial: Any, *_: Any, **__: Any) -> Any:
        tried.append(int(trial.root.name))
        if tried[-1] in breaks:
            raise error(f"{trial.root.name} broke")
        request = Request.model_validate_json(trial.request.read_text(encoding="utf-8"))
        write_trial(trial, measured(request))
        return launch(trial, is_locked=True)

    return launched


def test_a_worker_alone_finishes_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path))
    tried = list[int]()
    monkeypatch.setattr(work, "launch", a_launcher(set(), tried))
    folder = a_folder(tmp_path / "demo", study())
    assert work.work(study(), folder, 0) == 0
    assert tried == [0, 1, 2, 3, 4, 5]
    assert capsys.readouterr().out.count("→ measured") == 6
    assert work.work(study(), folder, 0) == 0 and len(tried) == 6, "and has nothing to do then"


def test_a_trial_that_breaks_is_tried_twice_and_told_and_the_worker_goes_on_as_far_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path))
    tried = list[int]()
    monkeypatch.setattr(work, "launch", a_launcher({1}, tried))
    folder = a_folder(tmp_path / "demo", study())
    assert work.work(study(), folder, 0) == 2
    assert tried == [0, 1, 1, 2, 3]
    said = capsys.readouterr().err
    assert said.count("0001 broke") == 2
    assert (
        "this worker ends, because the other trials ended without a result, or need the record of one that did" in said
    )


def test_a_worker_tries_nothing_again_that_has_to_be_mended_and_says_so_to_its_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path))
    tried, log = list[int](), tmp_path / "pool-0000-1.log"
    monkeypatch.setattr(work, "launch", a_launcher({1}, tried, ToMend))
    folder = a_folder(tmp_path / "demo", study())
    assert work.work(study(), folder, 0, log=log) == EXIT_TO_MEND
    assert tried == [0, 1, 2, 3]
    assert workers.logs_of_workers(tmp_path / "pool-0000.log", 2)[1] == log
    assert "0001 broke" in known(mend.noted([log]))


# Beside the workers


def test_a_worker_that_was_given_up_is_noted_when_its_last_try_broke(tmp_path: Path):
    folder = a_folder(tmp_path, study())
    handler = workers.GivenUp(folder, tries=1)

    def breaks(rule: str) -> list[str]:
        record = logging.LogRecord("snakemake", logging.ERROR, "", 0, "", None, None)
        record.event, record.rule_name = LogEvent.JOB_ERROR, rule
        handler.emit(record)
        return [path.name for path in folder.root.glob(f"{workers.GIVEN_UP}*")]

    assert breaks("worker_0000_0") == breaks("trial") == breaks("trial") == []
    assert breaks("worker_0000_0") == [".given-up-worker_0000_0"]
    workers.forget_given_up(folder)
    assert not any(folder.root.glob(f"{workers.GIVEN_UP}*"))


def test_who_waits_elsewhere_ends_with_the_records_or_when_nobody_measures_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(workers, "IDLE_S", 0.0)
    monkeypatch.setattr(workers, "POLL_ELSEWHERE_S", 0.01)
    folder = a_folder(tmp_path, study())
    pool = Pool(study(), folder, 0)
    (folder.root / f"{workers.GIVEN_UP}worker_0000_0").touch()
    assert workers.wait_elsewhere(folder, pool, None) == 2
    for number in range(6):
        with ExitStack() as held:
            take(pool, held)
            assert pool.is_measured_now()
            finish(folder, number)
    folder.trial(3).record.unlink()
    assert workers.wait_elsewhere(folder, pool, None) == 0 and folder.trial(3).record.exists()


def test_time_left_and_others_load_know_that_workers_run_side_by_side(tmp_path: Path):
    def most_s(count: int) -> float | None:
        of = study(throughput=THROUGHPUT | {"workers": count})
        [left] = time_left(of, space.plan(of), {0: 10.0, 1: 10.0})
        return left.most_s

    assert most_s(1) == 40.0 and most_s(2) == 20.0
    assert quiet._runs_side_by_side(a_folder(tmp_path / "two", study()))
    assert not quiet._runs_side_by_side(a_folder(tmp_path / "one", study(throughput=THROUGHPUT | {"workers": 1})))


def test_a_job_of_a_cluster_asks_for_the_time_of_its_workers_share():
    (pool,) = space.pools(space.plan(study()))
    assert [len(jobs.share_of(pool, workers)) for workers in (1, 2, 4, 6)] == [6, 3, 2, 1]
    assert jobs.block_work(study(), jobs.share_of(pool, 2))[1] == 3 * 600.0


def test_the_second_time_that_a_process_measures_a_point_counts_for_fps_and_not_for_memory():
    def peak_gb(again: bool) -> float | None:
        shared = Shared(
            process="host:1:0", position=1, previous_num_envs=64, kept_torch_gb=0.0, kept_warp_gb=0.0, kept_outside_gb=0.0,
            memory_counts=True, measured_before=again,
        )  # fmt: skip
        return counted_peak_gb(a_trial(64, memory_gb=7.0).ended(shared=shared).record)

    assert peak_gb(again=False) == 7.0 and peak_gb(again=True) is None


# Lanes


def a_pool_of_lanes(path: Path) -> Callable[[], Pool]:
    """Return what makes a worker's view of three repeats of three sizes: a repeat is a lane."""
    plan = study(window=6, throughput=SIZES | {"sampler": "grid", "repeats": 3, "workers": 2})
    folder = a_folder(path, plan)
    return lambda: Pool(plan, folder, 0)


def measure_one(pool: Pool, folder: Path, broken: set[int] | None = None) -> int:
    with ExitStack() as held:
        number = number_of(take(pool, held, broken))
        finish(StudyFolder(folder), number)
        return number


def test_a_worker_stays_in_its_lane_and_takes_another_one_when_that_is_through(tmp_path: Path):
    another = a_pool_of_lanes(tmp_path)
    first, second = another(), another()
    for expected in ((0, 3), (1, 4), (2, 5)):
        assert (measure_one(first, tmp_path), measure_one(second, tmp_path)) == expected
    assert measure_one(first, tmp_path) == 6
    with ExitStack() as held:
        assert take(second, held) is NoTrial.LATER, "the last lane is the first worker's"
    first.leave_lane()  # its process has ended
    assert [measure_one(second, tmp_path) for _ in range(2)] == [7, 8]


def test_a_worker_alone_measures_all_lanes_in_order_and_leaves_one_to_whoever_comes(tmp_path: Path):
    search = {"sampler": "adaptive", "adaptive": {"ascending": True}, "repeats": 4, "workers": 2}
    plan = study(window=2, throughput=SIZES | search)
    folder = a_folder(tmp_path, plan)
    early, late = Pool(plan, folder, 0), Pool(plan, folder, 0)
    assert [measure_one(early, tmp_path) for _ in range(4)] == [0, 1, 2, 3], "lane 1 is nobody's"
    with ExitStack() as held:
        assert number_of(take(early, held)) == 4
        assert measure_one(late, tmp_path) == 5
        assert take(late, held) is NoTrial.LATER, "request 6 must know record 4, and is the first worker's"
        finish(StudyFolder(tmp_path), 4)
    assert measure_one(late, tmp_path) == 7 and measure_one(early, tmp_path) == 6


def test_a_trial_that_broke_in_a_lane_is_left_to_other_workers(tmp_path: Path):
    another = a_pool_of_lanes(tmp_path)
    unlucky, other = another(), another()
    assert [measure_one(unlucky, tmp_path, {0}) for _ in range(3)] == [1, 2, 3]
    assert measure_one(other, tmp_path) == 0


def test_a_trial_that_is_skipped_leaves_the_processes_of_another_arm_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path))
    plain = transfer_data(
        window=1, throughput__workers=1, learning__workers=1, learning__confirm={"settings": 4, "seeds": 3}
    )
    of = parse_study(plain | {"arms": {name: arm | {"gpus": 0} for name, arm in plain["arms"].items()}})
    folder = a_folder(tmp_path / "demo", of)
    begun = list[str]()

    def launched(trial: Any, _: Any, worker: Any, **__: Any) -> Any:
        request = Request.model_validate_json(trial.request.read_text(encoding="utf-8"))
        if request.skip is None:
            broke = request.arm == SLOW and request.kind == "throughput"
            write_trial(trial, measured(request, status="crashed") if broke else transfer_trial(request))
        return launch(trial, None, worker, is_locked=True)

    class Begun(Worker):
        def __init__(self, trials: Any, **_: Any) -> None:
            super().__init__(trials)
            begun.append(trials[0].root.name)

    monkeypatch.setattr(work, "launch", launched)
    first = next(slot.number for slot in space.plan(of) if slot.kind == "learning")
    assert work.work(of, folder, 0) == 0
    monkeypatch.setattr(work, "Worker", Begun)
    assert work.work(of, folder, first) == 0
    skipped = [record.request.arm for record in load_records(folder) if record.outcome.status == "skipped"]
    assert SLOW in skipped, "its FPS are not known, so nothing is planned for it"
    assert len(begun) == 1, "processes of the arm that learns go on"
