"""Runs a study again: the recorded requests, in the same order with the same seeds, on this machine.

Input: a study's folder: results/<study>, results-published/<study>, or one from `envknee.after.archive --unpack`. Output:
results/<study>-replay with study.json and replayed.jsonl, and its path on standard output. It is a study like any other: the workflow
measures it, and resumes it after an interruption. Nothing in the first folder is changed.

Samplers are not asked again: on other hardware they would choose other points. Only whether a trial fits the memory is decided anew. To
replay at another commit, run this in a checkout of it; for another image, use --image.
"""

import argparse
import difflib
import sys
from pathlib import Path

from envknee.ask import ask
from envknee.decide.read import load_measured, load_study
from envknee.decide.study import decide
from envknee.decide.verdict_file import stale_verdict
from envknee.record.packed import study_folder
from envknee.record.read import load_record, load_records
from envknee.record.schema import Record, Request
from envknee.run import claim
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, read_model, sha256_of, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Replay, Study
from envknee.study.paths import StudyFolder


def prepare(original: StudyFolder, name: str | None, image: str | None = None) -> tuple[Study, StudyFolder]:
    """Write the study that runs the requests of `original` again, unless it exists; return it and its folder.

    Raises:
        UserError: when nothing was measured, a file was changed after its measurement, or another study has that name.
    """
    study, records = load_measured(original)
    requests = _recorded(study, {record.request.number: record.request for record in records})
    text = "".join(request.model_dump_json() + "\n" for request in requests)
    replay = Replay(of=study.study, trials=len(requests), requests_sha256=sha256_of(text))
    changes = {"study": name or f"{study.study}-replay", "replay": replay.model_dump()}
    again = parse_study(
        study.model_dump(mode="json") | changes | ({} if image is None else {"image": image}),
        f"the replay of {original.root} (NAME=... gives it another name)",
    )
    folder = claim.folder_of(again)
    if folder.study.exists() and load_study(folder).measured_part() != again.measured_part():
        raise UserError(
            f"{folder.root} holds another study, or a replay of {original.root} as it was before. Give this one another name"
            " (NAME=...), or move that folder away; both can be compared"
        )
    folder.root.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.replayed, text)
    claim.write_study(again, folder)
    return again, folder


def _recorded(study: Study, measured: dict[int, Request]) -> list[Request]:
    """Return requests 0, 1, ... before the first that was not measured."""
    requests = []
    for slot in space.plan(study):
        if (request := measured.get(slot.number)) is None:
            break
        if problem := ask.mismatch(study, slot, request):
            raise UserError(
                f"request {slot.number} does not belong to study '{study.study}': {problem}."
                " Restore study.json and request.json as they were when it was measured"
            )
        requests.append(request)
    if not requests:
        raise UserError(f"trial 0 of study '{study.study}' is not measured. Run the sweep first")
    return requests


def verify(folder: StudyFolder) -> tuple[int, list[str]]:
    """Recompute every decision of a study. Return the number of requests, and a text for each difference or changed file.

    A request that differs is a unified diff from the stored text to the text asked now.

    Raises:
        UserError: when there is no request, or a file is missing or truncated.
    """
    study = load_study(folder)
    present = [int(path.parent.name) for path in folder.trial_files("request.json")]
    if not present:
        raise UserError(f"{folder.trials} holds no request, and 0000/request.json was expected. Run the sweep first")
    last = max(present)
    requests, known = ask.history(study, folder, last)
    requests.append(read_model(folder.trial(last).request, Request, "Ask for it again."))
    records, changed = {}, []
    for request in known:
        trial = folder.trial(request.number)
        records[request.number] = read_model(trial.record, Record, "Run that trial again.")
        try:
            load_record(trial)
        except UserError as error:
            changed.append(f"{error}\n")
    diffs = []
    for answer in ask.ask_again(study, requests, records, ask.recorded_in(study, folder)):
        path = folder.trial(answer.number).request
        stored, asked = (text.splitlines(keepends=True) for text in (path.read_text("utf-8"), canonical_json(answer)))
        diffs.append("".join(difflib.unified_diff(stored, asked, str(path), "asked again", n=1)))
    findings = [*filter(None, diffs), *changed]
    if folder.verdict.exists() and not findings:
        stale = stale_verdict(folder, decide(load_records(folder), study))
        findings += [f"{stale}\n"] if stale else []
    return len(requests), findings


def _print_verified(folder: StudyFolder) -> int:
    count, findings = verify(folder)
    if not findings:
        also = ", and the verdict follows from the records" if folder.verdict.exists() else ""
        print(f"{count} requests recomputed, all identical{also}")
        return 0
    print("".join(findings), end="")
    print(
        f"envknee: of {count} requests and what follows from them not all come out the same: see above. A trial that was measured"
        " again after later ones were asked shows here too; any other cause is a changed file, or an earlier version's verdict.",
        file=sys.stderr,
    )
    return 1


def main() -> int:
    """Make the study that runs another one's requests again, or recompute that one's decisions."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results-published/cartpole-one-gpu")
    parser.add_argument("--name", help="of the new study (default: <study>-replay)")
    parser.add_argument("--image", help="run it in another image than the one that was recorded")
    parser.add_argument("--verify", action="store_true", help="recompute the decisions, and measure nothing")
    given = parser.parse_args()
    original = study_folder(given.folder)
    if given.verify:
        return _print_verified(original)
    first = load_study(original)
    study, folder = prepare(original, given.name or None, given.image or None)
    trials, planned = len(space.plan(study)), len(space.plan(first))
    print(f"envknee: {trials} of {planned} trials of {original.root} run again as {folder.root}", file=sys.stderr)
    print(folder.study)
    return 0
