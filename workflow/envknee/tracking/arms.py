"""Makes a parent run per arm, with verdict, figures and the best trial's policy. The runs of its trials are its children."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from envknee.decide.read import load_measured
from envknee.decide.verdict_file import read_verdict
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.run.card import study_card
from envknee.run.claim import check
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.space import plan
from envknee.tracking.answer import answer_of
from envknee.tracking.describe import describe_trial, ended_ms, milliseconds, present, settings_of, where_tags
from envknee.tracking.run import Run, metrics_of, texts_of
from envknee.verdict.measurements import by_point
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import by_series
from envknee.words.runs import arm_description, arm_name, devices_of, study_description, trials_done

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
"""Colours of arms, in the order of the study file: those of the report's figures."""


def describe_study(study: Study, folder: StudyFolder) -> list[tuple[Run, list[Run]]]:
    """Return the parent run of each arm with the runs of its trials.

    Raises:
        UserError: when no trial has finished, a file was changed, or the results belong to another study.
    """
    check(study, folder)
    _, every = load_measured(folder)
    records, verdict = without_skipped(every), read_verdict(folder, every) if folder.verdict.exists() else None
    return [
        (
            _describe_arm(study, arm, every, verdict, folder),
            [describe_trial(record, folder, color_of(study, arm)) for record in records if record.request.arm == arm],
        )
        for arm in sorted({record.request.arm for record in records})
    ]


def description_of(folder: StudyFolder) -> str:
    """Return the description of the experiment: its card, and the answer of each arm; empty before there is a verdict."""
    if not folder.verdict.exists():
        return ""
    study, every = load_measured(folder)
    verdict = read_verdict(folder, every)
    return study_description(study_card(study, verdict, every), verdict.arms)


def color_of(study: Study, arm: str) -> str | None:
    """Return the colour of an arm's curves, so that arms can be told apart; None in a study of one arm, whose curves MLflow colours."""
    if len(study.arms) < 2 or arm not in study.arms:
        return None
    return COLORS[list(study.arms).index(arm) % len(COLORS)]


def _describe_arm(
    study: Study, arm: str, of_study: Sequence[Record], verdict: Verdict | None, folder: StudyFolder
) -> Run:
    """Return the parent run of an arm: verdict, figures, and what all its trials have in common."""
    every = [record for record in of_study if record.request.arm == arm]
    decided = None if verdict is None else next((own for own in verdict.arms if own.arm == arm), None)
    card = None if verdict is None or decided is None else study_card(study, verdict, of_study, only=arm)
    records = without_skipped(every)
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    devices = sorted({devices_of(own, record.devices) for record in records if (own := record.outcome.environment)})
    statuses = Counter(record.outcome.status for record in records)
    planned = sum(slot.arm == arm for slot in plan(study)) - (len(every) - len(records))
    headline = decided and decided.headline
    best = best_trial(records)
    last_ms = max(ended_ms(record) for record in records)
    params: dict[str, Any] = {"arm": arm, "task": study.task.model_dump(mode="json"), "seed": study.seed}
    if arm in study.arms:  # the study file may have lost it
        params |= settings_of(study.arms[arm]) | {"world_size": study.arms[arm].world_size}
    tags = {
        "arm": arm,
        "trials": trials_done(len(records), planned),
        "best_trial": f"{best.request.number:04d}" if best else None,
        "mlflow.note.content": arm_description(decided, trials_done(len(records), planned), statuses, best, card),
        **where_tags(environments[0] if environments else None),
        "device": ", ".join(devices) or None,
        "verdict.state": headline and headline.state,
        "mlflow.runColor": color_of(study, arm),
    }
    numbers: dict[str, Any] = {"trials": len(records)}
    numbers |= {f"trials_{status}": count for status, count in sorted(statuses.items())}
    numbers |= answer_of(decided) if decided else {}
    return Run(
        key=f"arms/{arm}",
        name=arm_name(arm, devices),
        started_ms=min(milliseconds(record.outcome.started_unix_s) for record in records),
        ended_ms=last_ms,
        status="FINISHED",
        params=texts_of(params),
        tags=texts_of(tags),
        metrics=metrics_of(numbers, last_ms, 0),
        artifacts={
            # Without the tracking URI, which may hold a password.
            folder.study.name: canonical_json(study.model_dump(mode="json", exclude={"tracking"})),
            # Without the report, which is written later, with links to these runs.
            **present([folder.resolved, folder.verdict, folder.records_csv]),
            **{f"figures/{file.name}": file for file in sorted(folder.figures.glob("[!.]*")) if file.is_file()},
            **_best_files(best, records, folder),
        },
    )


def best_trial(records: Iterable[Record]) -> Record | None:
    """Return the trial that reached the target soonest; if none did, the best reward; without rewards, the fastest. Pure."""
    return max((record for record in records if record.fps_total is not None), key=_worth, default=None)


def _worth(record: Record) -> tuple[float, float, float]:
    to_target_s = math.inf if record.seconds_to_target is None else record.seconds_to_target
    reward = -math.inf if record.best_reward is None else record.best_reward
    return -to_target_s, reward, record.fps_total.median if record.fps_total else 0.0


def _best_files(best: Record | None, records: Iterable[Record], folder: StudyFolder) -> dict[str, Path]:
    """Return the best trial's policy, and its frames, which the first repeat of its point has."""
    if best is None:
        return {}
    repeats = next(group for group in by_point(by_series(records, best.request.kind)).values() if best in group)
    pictures = (folder.trial(record.request.number).frames for record in (best, *repeats))
    files = [folder.trial(best.request.number).policy, next((path for path in pictures if path.exists()), None)]
    return {f"best/{name}": file for name, file in present(file for file in files if file).items()}
