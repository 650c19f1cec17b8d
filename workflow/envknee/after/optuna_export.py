"""A study for Optuna's own tools: one journal file for optuna.load_study, its plots and optuna-dashboard.

Input: results/<study>/, finished or not. Output: results/<study>/optuna.journal, with an Optuna study for each arm and kind of trial.
It is made anew each time, so changes by a tool are lost.

    envknee optuna results/<study>
    optuna-dashboard results/<study>/optuna.journal
"""

import argparse
import datetime
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from envknee.ask.question import AXES, observe
from envknee.base.fields import Kind
from envknee.decide.read import load_measured
from envknee.record.packed import study_folder
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

OBJECTIVE: Mapping[Kind, tuple[Literal["maximize", "minimize"], str]] = {
    "throughput": ("maximize", "FPS, total"),
    "learning": ("minimize", "seconds to target"),
}
"""Direction and name of each kind's objective."""

MEASURED = (
    "fps_env_step", "fps_env_step_inference", "fps_total", "memory_peak_gb", "seconds_to_target", "frames_to_target", "best_reward",
)  # fmt: skip
"""Fields of a record that become attributes of its trial."""


def export(folder: StudyFolder) -> tuple[Path, dict[str, int]]:
    """Write the journal; return its path, and the number of trials of each Optuna study in it.

    A trial has the value and the constraint that a sampler sees (`question.observe`). A trial that did not fit the memory is
    infeasible with the worst value seen; a trial that missed its target has a pessimistic value. The attribute `status` tells them
    apart, and other attributes hold the measurements.

    Raises:
        UserError: when no trial has finished, or a file was changed after its measurement.
    """
    import optuna  # slow, and `--help` does not need it
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    study, records = load_measured(folder)
    records = without_skipped(records)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = folder.root / "optuna.journal"
    unfinished = folder.root / ".optuna.journal.new"
    unfinished.unlink(missing_ok=True)
    storage = JournalStorage(JournalFileBackend(str(unfinished)))
    counts = {}
    for arm in sorted({record.request.arm for record in records}):
        for kind, (direction, objective) in OBJECTIVE.items():
            own = [record for record in records if (record.request.arm, record.request.kind) == (arm, kind)]
            if not own:
                continue
            name = f"{study.study}/{arm}/{kind}"
            journal = optuna.create_study(storage=storage, study_name=name, direction=direction)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings about experimental features; the version is pinned
                journal.set_metric_names([objective])
            journal.set_user_attr("task", study.task.id)
            journal.add_trials(_trials(study, kind, own))
            counts[name] = len(own)
    unfinished.replace(path)
    return path, counts


def _trials(study: Study, kind: Kind, records: Sequence[Record]) -> list[Any]:
    """Return Optuna's trials of one (arm, kind), in the order of their requests."""
    from optuna.distributions import IntDistribution
    from optuna.trial import create_trial

    requests = [record.request for record in records]
    observations = observe(study.sections[kind], requests, {record.request.number: record for record in records})
    spans = {name: {getattr(request, name) for request in requests} - {None} for name in AXES}
    # Values on a logarithmic axis, where samplers see ranks. A value that never changes is an attribute.
    distributions = {
        name: IntDistribution(min(span), max(span), log=True) for name, span in spans.items() if len(span) > 1
    }
    trials = []
    for record, seen in zip(records, observations, strict=True):
        request, outcome = record.request, record.outcome
        measured = {name: getattr(record, name) for name in MEASURED}
        attributes: dict[str, Any] = {
            "trial": f"{request.number:04d}",
            **{name: getattr(request, name) for name in ("repeat", "seed", *AXES)},
            "status": outcome.status,
            "reason": outcome.reason,
            "device": outcome.environment.device.name if outcome.environment else None,
            **{name: getattr(value, "median", value) for name, value in measured.items()},
        }
        trial = create_trial(
            value=seen.value,
            params={name: getattr(request, name) for name in distributions},
            distributions=dict(distributions),
            user_attrs={name: value for name, value in attributes.items() if value is not None},
            # Optuna 4 and 5 and optuna-dashboard 0.21 all read it here.
            system_attrs={"constraints": [seen.memory_excess]},
        )
        trial.datetime_start = datetime.datetime.fromtimestamp(outcome.started_unix_s)
        trial.datetime_complete = datetime.datetime.fromtimestamp(outcome.ended_unix_s)
        trials.append(trial)
    return trials


def main() -> None:
    """Write a study as a journal for Optuna's own tools."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-one-gpu")
    path, counts = export(study_folder(parser.parse_args().folder))
    for name, count in counts.items():
        print(f"{name}: {count} trials")
    print(f"{path} (optuna-dashboard {path}, or optuna.load_study with a JournalFileBackend)")
