"""Keep a study: its measurements as small files that can be committed, and a page that says where they come from.

Input: results/<study>/, finished or not. Output: results-published/<study>/ with study.json, records.csv, of each finished
trial request.json, metrics.jsonl, outcome.json, cost.json and record.json, README.md and its figures. Logs, policies and pictures
of trials stay behind.

    python -m envknee.keep results/<study>                 into results-published/<study>
"""

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from envknee import config, outputs, space
from envknee.config import Study
from envknee.errors import UserError, run_command
from envknee.figures import draw_scaling, draw_target, draw_throughput, svg_of
from envknee.files import StudyFolder, canonical_json, write_atomically
from envknee.limits.verdict import Verdict, decide, hardware, load_measured, records_csv
from envknee.record import Record, without_skipped


def keep(folder: StudyFolder, published: Path) -> StudyFolder:
    """Copy a study's measurements and return where they are now. Keeping it again brings what was measured since.

    Raises:
        UserError: when the folder holds no study or no record, a file was changed after its measurement, or another study
            of that name is kept already.
    """
    study, records = load_measured(folder)
    kept = StudyFolder(published / study.study)
    if kept.study.exists() and config.load(kept.study).measured_part() != study.measured_part():
        raise UserError(
            f"{kept.root} keeps another study of that name. Move that away, or give this one another name in its file"
        )
    for record in records:
        source, target = folder.trial(record.request.number), kept.trial(record.request.number)
        target.root.mkdir(parents=True, exist_ok=True)
        for path in (source.request, source.metrics, source.outcome, source.cost, source.record):
            if path.exists():  # a refused trial has measured nothing
                shutil.copyfile(path, target.root / path.name)
    write_atomically(kept.study, canonical_json(study.shareable()))
    if folder.replayed.exists():
        shutil.copyfile(folder.replayed, kept.replayed)
    write_atomically(kept.records_csv, records_csv(records))
    verdict = decide(records, study)
    drawn = {
        outputs.THROUGHPUT: lambda: draw_throughput(verdict),
        outputs.TARGET: lambda: draw_target(verdict, without_skipped(records)),
        outputs.SCALING: lambda: draw_scaling(verdict),
    }
    if not any(one.points for one in verdict.scaling):
        del drawn[outputs.SCALING]  # the page says why there is nothing to see
    names = [name for name in outputs.figures_of(study) if name in drawn]
    for name in names:
        write_atomically(kept.root / name, svg_of(drawn[name]()))
    write_atomically(kept.root / "README.md", page(study, records, verdict, names))
    return kept


def page(study: Study, records: Sequence[Record], verdict: Verdict, figures: Sequence[str]) -> str:
    """Return where and when a study was measured, with what, and what it says, in Markdown."""
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    days = sorted({time.strftime("%Y-%m-%d", time.gmtime(record.outcome.started_unix_s)) for record in records})
    versions = Counter(", ".join(f"{name} {v}" for name, v in sorted(e.packages.items())) for e in environments)
    drivers = sorted({e.device.driver for e in environments if e.device.driver})
    commits = sorted(
        {f"{e.git_commit[:10]}{' and changes' if e.git_dirty else ''}" for e in environments if e.git_commit}
    )
    statuses = Counter(record.outcome.status for record in records)
    lines = [
        f"# {study.study}",
        "",
        "Written by `python -m envknee.keep`; measured by `make sweep` with the study in study.json.",
        "",
        f"* trials: {len(records)} of {len(space.plan(study))} ({', '.join(f'{n} {s}' for s, n in sorted(statuses.items()))})",
        f"* hardware: {'; '.join(hardware(records))}; {len({e.device.uuid or e.host for e in environments})} device(s)",
        f"* host CPU: {', '.join(sorted({f'{e.cpu_model} ({e.cpu_cores} cores)' for e in environments}))}",
        f"* measured: {', '.join(days)}" + (f"; driver {', '.join(drivers)}" if drivers else ""),
        f"* commit: {', '.join(commits) or 'unknown'}",
        *(f"* versions: {found}" for found in sorted(versions)),
        "",
    ]
    for arm in verdict.arms:
        lines += [f"**{arm.arm}**" + (f": {arm.headline.statement}" if arm.headline else ""), ""]
        lines += [f"* {limit.series}: {limit.statement}" for limit in (*arm.throughput, *arm.learning)]
        lines += [f"* {one.statement}" for one in verdict.scaling if one.arm == arm.arm] + [""]
    lines += [f"![{name.removesuffix('.svg')}]({name})\n" for name in figures]
    return "\n".join(lines)


def main() -> None:
    """Keep a study's measurements."""
    parser = argparse.ArgumentParser(description="Copy a study's measurements, without logs, to be committed.")
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-one-gpu")
    parser.add_argument("--to", type=Path, default=Path("results-published"), help="default: %(default)s")
    arguments = parser.parse_args()
    print(keep(StudyFolder(arguments.folder), arguments.to).root)


if __name__ == "__main__":
    run_command(main)
