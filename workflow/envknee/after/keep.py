"""Keeps the measurements of a study as a few files that can be committed.

Input: results/<study>/ with a verdict, finished or not. Output: results-published/<study>/ with study.json, verdict.json, records.csv,
README.md, figures and trials.zip: an archive with request.json of each trial, and metrics.jsonl, outcome.json, cost.json and record.json
of each finished one. Logs, policies and pictures of trials are not kept. The same measurements give the same bytes.

A kept study can be kept again, into the same folder, when the verdict or the page are written otherwise than before.
"""

import argparse
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from envknee.after import archive
from envknee.decide.read import load_measured
from envknee.decide.records_csv import records_csv
from envknee.decide.study import decide
from envknee.decide.verdict_file import stale_verdict
from envknee.machine.environment import COMMIT
from envknee.record.archive_file import check
from envknee.record.days import days_of
from envknee.record.packed import study_folder
from envknee.record.schema import Record
from envknee.show.evidence import read_evidence
from envknee.show.figures import registry
from envknee.show.figures.canvas import saved, says_nothing
from envknee.study import secret_values
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.verdict.schema.study import Verdict
from envknee.words.headline import headline_statement
from envknee.words.joint import joint_lines
from envknee.words.series import series_words
from envknee.words.statements import statement
from envknee.words.study import hardware_of, progress


def keep(folder: StudyFolder, published: Path) -> StudyFolder:
    """Copy a study's measurements and return the new folder. Keeping the study again adds later measurements.

    Raises:
        UserError: when the folder holds no study, no record or no verdict of all its records, a file was changed after its
            measurement, the verdict does not follow from the records, the study holds a secret, a trial does not say with which
            commit it was measured, or another study of that name, or one with more trials, is kept already.
    """
    study, records = load_measured(folder)
    secret_values.refuse_copy(study.model_dump(mode="json"), str(folder.study))
    evidence = read_evidence(folder, records)
    if stale := stale_verdict(folder, decide(records, study)):
        raise UserError(stale)
    kept = study_folder(published / study.study)
    _check_kept(kept, study, folder)
    _check_commits(kept, records)
    trials = trial_files(folder)
    shared = {"study.json": canonical_json(study.shareable()).encode()}
    if folder.replayed.exists():
        shared["replayed.jsonl"] = folder.replayed.read_bytes()
    figures = {entry: entry.draw(evidence) for entry in registry.figures_of(study) if entry.is_kept}
    figures = {entry: figure for entry, figure in figures.items() if not says_nothing(figure)}
    kept.root.mkdir(parents=True, exist_ok=True)
    _write_archive(archive.described(shared | trials, study.study, records), kept.archive)
    for name, content in shared.items():
        write_atomically(kept.root / name, content)
    write_atomically(kept.verdict, canonical_json(evidence.verdict))
    write_atomically(kept.records_csv, records_csv(records))
    for entry, figure in figures.items():
        write_atomically(kept.root / entry.svg, saved(figure, "svg"))
    write_atomically(kept.root / "README.md", page(study, records, evidence.verdict, list(figures)))
    _remove_loose(kept.root, trials)
    return study_folder(kept.root)


def trial_files(folder: StudyFolder) -> dict[str, bytes]:
    """Return by name the files of trials that are kept.

    The request of a trial that is not measured yet is one of them: later requests follow from it.
    """
    content = {}
    for request in folder.trial_files("request.json"):
        trial = TrialFolder(request.parent)
        measured = (trial.metrics, trial.outcome, trial.cost, trial.record) if trial.record.exists() else ()
        for path in (request, *measured):
            if path.exists():  # a refused trial has no metrics
                content[f"trials/{trial.root.name}/{path.name}"] = path.read_bytes()
    return content


def _check_kept(kept: StudyFolder, study: Study, folder: StudyFolder) -> None:
    """Make sure that what is kept under this name is this study, and that no trial of it gets lost."""
    if not kept.study.exists():
        return
    if read_study(kept.study).measured_part() != study.measured_part():
        raise UserError(
            f"{kept.root} keeps another study of that name. Move that away, or give this one another name in its file"
        )
    present = {path.parent.name for path in folder.trial_files("record.json")}
    lost = sorted({path.parent.name for path in kept.trial_files("record.json")} - present)
    if lost:
        raise UserError(
            f"{kept.root} keeps trials that {folder.root} does not hold: {', '.join(lost)}. Nothing was written. Move that folder"
            " away to keep the fewer trials"
        )


def _check_commits(kept: StudyFolder, records: Sequence[Record]) -> None:
    """Make sure that a reader can check out the code which measured each trial; those that are kept already stay as they are."""
    present = {int(path.parent.name) for path in kept.trial_files("record.json")} if kept.study.exists() else set[int]()
    unknown = [
        record.request.number
        for record in records
        if (environment := record.outcome.environment) is not None
        and environment.git_commit is None
        and record.request.number not in present
    ]
    if unknown:
        raise UserError(
            f"{len(unknown)} of {len(records)} trials, the first of them {unknown[0]}, do not say with which commit they were measured, so"
            f" that nobody could measure them again. Nothing was written. Where the code has no git history, set {COMMIT} to its commit"
            " before the sweep, and measure these trials again"
        )


def _write_archive(content: Mapping[str, bytes], target: Path) -> None:
    """Write an archive, unless it holds just these files: another version of zlib would pack them into other bytes."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    if not target.exists() or check(target) != digests:
        archive.pack(content, target)


def _remove_loose(root: Path, names: Iterable[str]) -> None:
    """Remove files that an earlier version kept one by one and that are in the archive now, and folders that are empty then."""
    for name in names:
        path = root / name
        if path.is_file():
            path.unlink()
            for emptied in (path.parent, path.parent.parent):
                if not any(emptied.iterdir()):
                    emptied.rmdir()


def page(study: Study, records: Sequence[Record], verdict: Verdict, figures: Sequence[registry.Entry]) -> str:
    """Return a page in Markdown: hardware, dates, versions and findings of a study."""
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    days = days_of(records)
    versions = {", ".join(f"{name} {v}" for name, v in sorted(e.packages.items())) for e in environments}
    drivers = sorted({e.device.driver for e in environments if e.device.driver})
    commits = sorted(
        {f"{e.git_commit[:10]}{' and changes' if e.git_dirty else ''}" for e in environments if e.git_commit}
    )
    lines = [
        f"# {study.study}",
        "",
        "Written by `envknee keep` from the study in [study.json](study.json) and its trials in [trials.zip](trials.zip).",
        "",
        f"* trials: {progress(verdict)}",
        f"* hardware: {'; '.join(hardware_of(verdict))}; {len({e.device.uuid or e.host for e in environments})} device(s)",
        f"* host CPU: {', '.join(sorted({f'{e.cpu_model} ({e.cpu_cores} cores)' for e in environments}))}",
        f"* measured: {', '.join(days)}" + (f"; driver {', '.join(drivers)}" if drivers else ""),
        f"* commit: {', '.join(commits) or 'unknown'}",
        *(f"* versions: {packages}" for packages in sorted(versions)),
        "",
    ]
    for arm in verdict.arms:
        lines += [f"**{arm.arm}**" + (f": {headline_statement(arm, arm.headline)}" if arm.headline else ""), ""]
        for found in arm.joint:
            lines += [f"* {name}: {said}" for name, said in joint_lines(found, arm.ranks)]
        lines += [f"* {series_words(limit.series)}: {statement(limit)}" for limit in (*arm.throughput, *arm.learning)]
        lines += [f"* memory: {statement(arm.memory)}"] if arm.memory else []
        lines += [f"* {statement(scaling)}" for scaling in verdict.scaling if scaling.arm == arm.arm] + [""]
    lines += [f"{statement(advice)}\n" for advice in (verdict.remedies, verdict.rules) if advice]
    lines += [f"![{entry.name}]({entry.svg})\n" for entry in figures]
    return "\n".join(lines)


def main() -> None:
    """Keep a study's measurements."""
    parser = argparse.ArgumentParser(description="Copy a study's measurements, without logs, to be committed.")
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-one-gpu")
    parser.add_argument("--to", type=Path, default=Path("results-published"), help="default: %(default)s")
    arguments = parser.parse_args()
    print(keep(study_folder(arguments.folder), arguments.to).root)
