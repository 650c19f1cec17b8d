"""The next request of a study: a pure function of earlier requests and records.

Input: a study file, trials/*/request.json before `number`, trials/*/record.json up to `number - window`.
Output: trials/<number>/request.json.

The plan fixes arm, kind and repeat of each number before anything runs (`envknee.study.space.plan`). Repeat 0 chooses new points;
each later repeat runs the same points in an order of its own (randomized complete blocks). Fixed designs (grid, random, sobol) and
seeds of trials do not depend on the arm, so that arms can be compared pair by pair. Some samplers also choose repeats, and stop
early (`envknee.ask.samplers`). A replay runs the requests that another study recorded (`envknee.after.replay`).
"""

import argparse
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, astuple, replace
from functools import partial
from pathlib import Path
from typing import Any

from envknee.ask import confirm, samplers, versions
from envknee.ask.history import Asked, ByNumber, History
from envknee.ask.journal import Journal, read_request
from envknee.ask.question import Question
from envknee.ask.refusals import KnownMemory
from envknee.ask.samplers import POINT_SAMPLERS
from envknee.base.point import Point
from envknee.record.reasons import RefusalReason, SkipReason
from envknee.record.schema import Record, Request, ScaledFrom
from envknee.record.trial_files import TrialFiles
from envknee.study import designs, space
from envknee.study.arm import Arm, Setup
from envknee.study.continued import continued
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, read_lines, read_model, sha256_of
from envknee.study.load import read_study
from envknee.study.model import Study, Sweep, Throughput
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot
from envknee.study.value_types import FIXED_DESIGNS

OF_A_SECTION = (
    "warmup_iterations", "iterations", "precision", "target_reward", "target_episodes", "budget_s", "limit_s", "sampler",
)  # fmt: skip
"""Keys of a section that a request takes over unchanged. Of a key that a kind of trial lacks, a request has None."""


def ask(
    study: Study,
    number: int,
    requests: Sequence[Request],
    records: Mapping[int, Record],
    recorded: Sequence[Request] = (),
) -> Request:
    """Return request `number`: the same bytes for the same input, in any process.

    `requests` are all before it, in order. `records` are all that exist: those of the latest `study.window` - 1 jobs are ignored, and
    the sampler sees an earlier trial without a record as running. `recorded` are the requests that a replay runs again.

    Raises:
        UserError: when the plan has no such trial, or an earlier request is not one of this study.
    """
    slots = space.plan(study)
    slot = _slot(study, slots, number)
    for request, earlier in zip(requests, slots, strict=False):
        if problem := mismatch(study, earlier, request):
            raise _not_of(study, request, problem)
    return answer(study, slot, History.of(requests, records), recorded)


def ask_again(
    study: Study, requests: Sequence[Request], records: Mapping[int, Record], recorded: Sequence[Request] = ()
) -> list[Request]:
    """Return what `ask` answers for each of `requests` (0, 1, ... in order), whatever they hold now.

    The stored requests are the history of later ones. A stored request that does not belong to this study is replaced by the
    answer, so that one edit shows as one difference.
    """
    past: list[Request] = []
    asked: list[Asked] = []
    answers: list[Request] = []
    known = History.of([], records)
    for request, slot in zip(requests, space.plan(study), strict=False):
        history = replace(known, asked=asked, requests=ByNumber(range(len(past)), past.__getitem__))
        answers.append(answer(study, slot, history, recorded))
        past.append(answers[-1] if mismatch(study, slot, request) else request)
        asked.append(Asked.of(past[-1]))
    return answers


def _not_of(study: Study, request: Request, problem: str) -> UserError:
    return UserError(
        f"request {request.number} is not one of study '{study.study}' as configured now: {problem}."
        " A results folder belongs to one study: restore request.json and the study file, or use a new name."
    )


def request_for(
    study: Study,
    slot: Slot,
    point: Point,
    refusal: RefusalReason | str | None,
    skip: SkipReason | str | None = None,
    confirms: bool = False,
) -> Request:
    """Return the request that follows from the study, the slot and the point."""
    sweep, arm = study.sections[slot.kind], study.arms[slot.arm]
    base = arm.scaling
    unchanged: dict[str, Any] = {name: getattr(arm, name) for name in Setup.model_fields}
    unchanged |= {name: getattr(sweep, name, None) for name in OF_A_SECTION} | asdict(space.as_run(arm, point))
    return Request(
        ask_version=study.ask_version,
        study=study.study,
        number=slot.number,
        arm=slot.arm,
        kind=slot.kind,
        repeat=slot.repeat,
        num_envs=point.num_envs,
        seed=designs.derived_seed(study.seed, "trial", slot.kind, slot.repeat, *astuple(point)),
        task_id=study.task.id,
        asset=study.task.asset,
        asset_root=study.task.asset_root,
        inject=study.task.inject,
        overrides={**study.task.overrides, **arm.overrides},
        refusal=refusal,
        phases=study.phases if arm.command is None else "off",
        skip=skip,
        confirms=confirms,
        runtime=study.runtime,
        block=slot.block,
        position=slot.position if slot.block is not None else 0,
        again=slot.again,
        fresh=_is_fresh(sweep, slot, point, confirms),
        compose_horizons=getattr(sweep, "compose_horizons", False),
        least_timed_s=_least_timed_s(study, sweep, arm),
        timed_share=None if arm.command is None else getattr(sweep, "timed_share", None),
        waits=study.ask_version > 1 and isinstance(sweep, Throughput) and sweep.wait_for_others,
        scaled_from=base
        and ScaledFrom(rule=base.rule, num_envs=base.num_envs, horizon=point.horizon, batch_size=point.batch_size or 0),
        **unchanged,
    )


def _least_timed_s(study: Study, sweep: Sweep, arm: Arm) -> float:
    """Return for how many seconds a trial is timed at least. A foreign command is told how many iterations it runs before it starts."""
    if study.ask_version == 1 or not isinstance(sweep, Throughput) or arm.command is not None:
        return 0.0
    return sweep.least_timed_s


def answer(study: Study, slot: Slot, history: History, recorded: Sequence[Request] = ()) -> Request:
    """Return the request of a slot, chosen from earlier requests and from the records that the window shows.

    Unlike `ask` it trusts that earlier requests are of this study.
    """
    visible = history.footprints_before(slot.first_unknown)
    memory = KnownMemory.from_footprints(slot.arm, visible, study.arms[slot.arm])
    if study.replay is not None:
        return _replayed(study, slot, recorded[slot.number], memory)
    question = Question(study, slot, history, memory)
    if slot.confirms:
        choice = confirm.choose(question)  # only settings that may fit the memory
        return request_for(study, slot, choice.point, None, choice.skip, choice.confirms)
    if question.sweep.chooses_trials:
        choice = versions.choose(question)
        return request_for(study, slot._replace(repeat=choice.repeat), choice.point, None, choice.skip, choice.confirms)
    point = _point(question)
    not_run = versions.not_run(question, point)
    return request_for(study, slot, point, not_run.refusal, not_run.skip)


def _replayed(study: Study, slot: Slot, recorded: Request, memory: KnownMemory) -> Request:
    """Return a recorded request as a replay runs it.

    A point that another device refused may fit this one. A trial that was skipped there is skipped here, too.
    """
    refusal = None if recorded.skip else versions.refusal(study.ask_version, memory, recorded.point)
    request = recorded.model_copy(update={"study": study.study, "refusal": refusal})
    if problem := mismatch(study, slot, request):
        raise UserError(
            f"recorded request {slot.number} is not one of study '{study.study}': {problem}. Make the replay anew"
        )
    return request


def _point(question: Question) -> Point:
    """Return the point of a trial whose repeat the plan fixes."""
    study, slot, sweep = question.study, question.slot, question.sweep
    if sweep.block != 1:
        return _point_in_block(study, slot)
    if slot.repeat:
        block = {asked.point for asked in question.asked if asked.repeat == 0}
        order = designs.shuffled(block, study.seed, "block", slot.arm, slot.kind, slot.repeat)
        return order[slot.chunk % len(block)]
    sampler = samplers.load(POINT_SAMPLERS, sweep.sampler)
    if sweep.sampler in FIXED_DESIGNS:
        return question.new(sampler.order(study, slot.kind))[0]
    return sampler.new_point(question)


def _point_in_block(study: Study, slot: Slot) -> Point:
    """Return the point of a slot in a section with `block:`.

    A block has all points of a repeat or some neighbours, so that most doublings have both ends in one process. Each repeat runs them in
    another order of a Williams design, and then the first point once more. Points with fresh processes of their own come first, so that
    the others share one process.
    """
    sweep = study.sections[slot.kind]
    listed = samplers.load(POINT_SAMPLERS, sweep.sampler).order(study, slot.kind)
    chosen = sorted(
        listed[: space.points_asked(sweep, study.world_sizes)],
        key=lambda point: (point.horizon, point.batch_size or 0, point.num_envs),
    )
    sizes = space.chunk_sizes(len(chosen), sweep.block)
    first = sum(sizes[: slot.chunk])
    chunk = chosen[first : first + sizes[slot.chunk]]
    order = designs.williams(chunk, slot.repeat, study.seed, "block", slot.kind, slot.chunk)
    fresh = [point for point in order if _is_small(sweep, point)]
    shared = [point for point in order if point not in fresh]
    return (shared or fresh)[0] if slot.again else [*fresh, *shared][slot.position]


def _is_fresh(sweep: Sweep, slot: Slot, point: Point, confirms: bool) -> bool:
    """Tell whether a trial has a process of its own although others of its block or pool share one.

    In a pool that is FPS on which claims rest: the repeats of one process agree better than those of several do.
    """
    if slot.pool is not None:
        if sweep.confirm is not None and sweep.confirm.one_process:
            return False  # a round has one, which `run.worker` starts
        return isinstance(sweep, Throughput) and (confirms or (slot.repeat > 0 and not sweep.is_joint))
    return slot.block is not None and _is_small(sweep, point)


def _is_small(sweep: Sweep, point: Point) -> bool:
    """Tell whether a point in a block has too few environments to share its process."""
    return isinstance(sweep, Throughput) and sweep.fresh_below is not None and point.num_envs < sweep.fresh_below


def mismatch(study: Study, slot: Slot, request: Request) -> str | None:
    """Return what in a request does not follow from the study, whatever its point; None if all does."""
    point = request.point
    sweep = study.sections[slot.kind]
    confirms = slot.confirms
    if sweep.chooses_trials and not slot.confirms:
        slot, confirms = slot._replace(repeat=request.repeat), request.confirms and not sweep.is_joint
    expected = request_for(study, slot, point, request.refusal, request.skip, confirms)
    for field, value in expected:
        if getattr(request, field) != value:
            return f"its {field} is {getattr(request, field)!r}, and {value!r} was expected"
    axes = space.axes(sweep)
    sizes = range(axes[0][0], axes[0][-1] + 1) if sweep.adaptive.probes > 0 else axes[0]
    on_axes = point.num_envs in sizes and point.horizon in axes[1] and point.batch_size in axes[2]
    if not on_axes or not space.is_legal(point, study.world_sizes):
        return (
            f"num_envs {point.num_envs}, horizon {point.horizon} and batch_size {point.batch_size or 'library'}"
            f" make no legal point of its {slot.kind} section"
        )
    return None


def _slot(study: Study, slots: Sequence[Slot], number: int) -> Slot:
    if not 0 <= number < len(slots):
        raise UserError(
            f"trial {number} is not in the plan of study '{study.study}', which has trials 0 to {len(slots) - 1}."
            " Ask for one of these, or raise points or repeats in a study of another name"
        )
    return slots[number]


def write_request(study: Study, folder: StudyFolder, number: int) -> None:
    """Write one request to its trial's new folder, as `write_requests` does."""
    write_requests(study, folder, [number])


def write_requests(study: Study, folder: StudyFolder, numbers: Sequence[int]) -> None:
    """Write requests to their trials' folders, in order. A trial with a record keeps the request that it was measured with.

    Raises:
        UserError: when the plan has no such trial, an earlier request is missing, truncated or does not fit, or a record that is needed
            is missing or was changed: without it the answer would differ.
    """
    slots = space.plan(study)
    recorded = recorded_in(study, folder)
    with Journal(study, folder) as journal:
        for number in numbers:
            slot = _slot(study, slots, number)
            history = _history(study, folder, slots, slot, journal)
            _write(folder.trial(number), answer(study, slot, history, recorded))


def _write(trial: TrialFolder, request: Request) -> None:
    """Write a request, unless its trial was measured.

    When an earlier trial is measured again, Snakemake removes this request and asks for it anew. The new answer must not replace the
    request of a measurement that exists.
    """
    trial.root.mkdir(parents=True, exist_ok=True)
    if trial.record.exists():
        record = read_model(trial.record, Record, f"Delete {trial.record}: it is made again from the files beside it.")
        if sha256_of(canonical_json(record.request)) == record.outcome.request_sha256:
            request = record.request
    TrialFiles(trial).write_request(request)


def _history(study: Study, folder: StudyFolder, slots: Sequence[Slot], slot: Slot, journal: Journal) -> History:
    """Return what a request may use, each part checked against its files."""
    asked = [journal.asked(earlier.number, partial(_check, study, earlier)) for earlier in slots[: slot.number]]
    _check_records(study, folder, slot, journal.has_record)
    arms = _arms_known(study, slot)
    known = [earlier.number for earlier in slots[: slot.first_unknown] if earlier.arm in arms]
    return History(
        asked=asked,
        footprints={number: journal.footprint(number) for number in known},
        requests=ByNumber(range(slot.number), journal.request),
        records=ByNumber(known, journal.record),
    )


def _arms_known(study: Study, slot: Slot) -> Set[str]:
    """Return the arms whose records a request may use: fresh seeds of arms that learn alike have settings of both.

    Reading the records of all arms for each request would take long.
    """
    if getattr(study.sections[slot.kind], "skip_decided", False):
        return set(study.arms)  # another arm's records may make the trial needless
    if not slot.confirms:
        return {slot.arm}
    leader = study.leader(slot.arm, slot.kind)
    return {slot.arm, *study.followers(slot.arm, slot.kind), *([] if leader is None else [leader])}


def _check(study: Study, slot: Slot, request: Request) -> None:
    if problem := mismatch(study, slot, request):
        raise _not_of(study, request, problem)


def _check_records(study: Study, folder: StudyFolder, slot: Slot, has_record: Callable[[int], bool]) -> None:
    """Make sure that every record exists that the request of a slot may use.

    Raises:
        UserError: names the first one that does not, and the trial that makes it.
    """
    why = "a fresh seed follows from the whole search" if slot.confirms else f"window {study.window}"
    for number in range(slot.first_unknown):
        if not has_record(number):
            raise UserError(
                f"{folder.trial(number).record} does not exist, and request {slot.number} is asked knowing the records up to"
                f" {slot.first_unknown - 1} ({why}). Run trial {number} first"
            )


def recorded_in(study: Study, folder: StudyFolder) -> list[Request]:
    """Return the requests that a replay runs again, from its own replayed.jsonl; none for any other study.

    Raises:
        UserError: when the file is missing, or was changed after the replay was made.
    """
    if study.replay is None:
        return []
    path = folder.replayed
    remedy = f"`make replay STUDY=<folder of study {study.replay.of}>` writes it."
    if not path.exists():
        raise UserError(
            f"{path} does not exist, and study '{study.study}' runs the {study.replay.trials} requests in it again. {remedy}"
        )
    if (sha256 := sha256_of(path)) != study.replay.requests_sha256:
        raise UserError(
            f"{path} was changed: its sha256 is {sha256}, and {study.replay.requests_sha256} was expected. {remedy}"
        )
    return read_lines(path, Request, remedy)


def history(study: Study, folder: StudyFolder, number: int) -> tuple[list[Request], list[Request]]:
    """Return the requests before a trial's own, and those of them whose records its own may use.

    Raises:
        UserError: when the plan has no such trial, an earlier request is missing or truncated, or such a record does not exist: without
            it the answer would differ.
    """
    slot = _slot(study, space.plan(study), number)
    requests = [read_request(folder.trial(earlier)) for earlier in range(number)]
    _check_records(study, folder, slot, lambda earlier: folder.trial(earlier).record.exists())
    return requests, requests[: slot.first_unknown]


def main() -> None:
    """Write requests of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--study-file", type=Path, required=True, help="the study, such as config/config.yaml")
    parser.add_argument("--folder", type=Path, required=True, help="the folder of its results, results/<study>")
    numbers = "which requests to write, in order; all before them must exist"
    parser.add_argument("--number", type=int, required=True, nargs="+", help=numbers)
    given = parser.parse_args()
    folder = StudyFolder(given.folder)
    study = read_study(given.study_file)
    if given.study_file.resolve() != folder.study.resolve():
        study = continued(study, folder)
    write_requests(study, folder, given.number)
