"""Measures the answer of `envknee knee` once more without trials beside it: what do those cost?

Input: the study of a search of which several trials ran at once, and the size that it answers. Output: records of a study of its own,
results/<name>-alone-<size>, and a sentence. The search's verdict does not use them.
"""

import shutil
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from envknee.record.read import load_records, without_skipped
from envknee.record.schema import Record
from envknee.run import knee_places, sweep
from envknee.study.files import write_atomically
from envknee.study.paths import StudyFolder
from envknee.verdict import neighbours
from envknee.verdict.throughput import measured_fps
from envknee.words.neighbours import alone_words, neighbours_words, not_measured

ALONE = 3
"""Trials alone."""

LONGEST_NAME = 40
"""Characters of the search's name in that of the study: a name has 64 at most."""


class Search(NamedTuple):
    """A search that has ended."""

    path: Path
    """Its study's file."""
    profile: str | None
    left_s: float | None
    """Seconds that are left of --time; None without one."""


def study_alone(searched: dict[str, Any], num_envs: int) -> dict[str, Any]:
    """Return the study of trials of one size alone. Pure."""
    section = searched["throughput"]
    left_out = ("num_envs", "repeats", "sampler", "adaptive", "workers")
    kept = {key: value for key, value in section.items() if key not in left_out}
    return {
        "study": f"{searched['study'][:LONGEST_NAME]}-alone-{num_envs}",
        "task": searched["task"],
        "arms": searched["arms"],
        "throughput": {"num_envs": [num_envs], "repeats": ALONE} | kept,
        "window": 1,
    }


def say(search: Search, num_envs: int) -> str | None:
    """Measure a size alone, unless that was done, and return what its neighbours cost; None where it had none."""
    searched = yaml.safe_load(search.path.read_text(encoding="utf-8"))
    records = without_skipped(load_records(StudyFolder(search.path.parent)))
    of_size = [record for record in records if record.request.num_envs == num_envs and measured_fps([record])]
    if not any(neighbours.at_once(record, records) for record in of_size):
        return None
    if search.left_s is not None and search.left_s < ALONE * _typical_s(of_size):
        return not_measured("--time is over")
    study = study_alone(searched, num_envs)
    folder = StudyFolder(search.path.parent.parent / study["study"])
    print(f"envknee: {alone_words(num_envs, ALONE)}", flush=True)
    if _measure(study, folder, search):
        return not_measured(f"trials alone ended without a result ({folder.root})")
    effect = neighbours.effect(records, load_records(folder))
    if effect is None:
        return not_measured(
            f"fewer than {neighbours.LEAST} trials of {num_envs:,} environments ran alone, or beside another one"
        )
    return neighbours_words(effect)


def _typical_s(records: list[Record]) -> float:
    return statistics.median(record.outcome.total_s for record in records)


def _measure(study: dict[str, Any], folder: StudyFolder, search: Search) -> int:
    """Run the trials one after the other, and nothing that follows from them; return Snakemake's exit status."""
    folder.root.mkdir(parents=True, exist_ok=True)
    path = folder.root / "knee.yaml"
    text = yaml.safe_dump(study, sort_keys=False, allow_unicode=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text)
    if not folder.resolved.exists():  # the search has prepared the same arm
        shutil.copyfile(StudyFolder(search.path.parent).resolved, folder.resolved)
    records = [str(folder.trial(number).record) for number in range(ALONE)]
    gpus = study["arms"]["command"]["gpus"]
    return sweep.run_snakemake(knee_places.snakemake_words(path, search.profile, gpus, records))
