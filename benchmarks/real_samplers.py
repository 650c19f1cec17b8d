"""Samplers on the real task: which setting does a search of each name, and how much slower is that than the confirmed best one?

    python -m benchmarks.real_samplers write config/studies/joint-lean-warp.yaml FOLDER     studies to run: three of each sampler
    python -m benchmarks.real_samplers judge results/joint-lean-warp results/joint-lean-warp-* --output results/real-samplers.json

Input of `judge`: the confirmed study, and searches of the same settings by other samplers, each in its results folder or published.
Output: a table, and with --output a JSON file. Each search names two settings: the one of its soonest trial ("best seen", what most tools
report), and the one that a model of all of its trials picks. Seconds at a setting are those of the confirmed study: of its fresh seeds, or
of its model where the setting has none. No search is judged by its own trials.
"""

import argparse
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml
from envknee.base.point import Point
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.errors import UserError, run_command
from envknee.study.files import write_atomically
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.space import legal_points
from envknee.study.sweep import PROFILE, Learning
from envknee.verdict.joint import surface
from envknee.verdict.joint.fresh import Levels, levels_of
from envknee.verdict.joint.observed import trials_of
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.rounds import rounds_of
from envknee.verdict.schema.joint import Setting
from envknee.words.joint_costs import short_setting
from scipy.special import stdtrit

from benchmarks.pages.cells import table

SAMPLERS = (PROFILE, "tpe", "sobol")
TRIALS = 64
SEEDS = 3
CONFIDENCE = 0.95
"""Of each interval by itself."""

By = Literal["best seen", "model"]


class Named(NamedTuple):
    """The setting that a search names."""

    by: By
    setting: Point
    told_s: float
    """Seconds to the target that the search claims for it."""


class Seconds(NamedTuple):
    """Seconds to the target at a setting by the confirmed study, and how much more that is than at its best setting."""

    seconds: float
    regret: float
    """As a share: 0.1 takes 10% longer. Below 0: the model expects the setting to be sooner than the confirmed one."""
    regret_lower: float | None
    """Interval; None for the best setting itself, or where the surface is too rough for the model's."""
    regret_upper: float | None
    source: Literal["fresh seeds", "model"]


class Search(NamedTuple):
    """The trials of one sampler."""

    study: str
    sampler: str
    seed: int
    records: Sequence[Record]


class Row(NamedTuple):
    """What became of a setting that a search named."""

    search: Search
    named: Named
    true: Seconds


def named_by(search: Search, settings: Sequence[Point]) -> list[Named]:
    """Return the settings that a search names: of its soonest trial, and by the model of all trials.

    Raises:
        UserError: when no trial reached the target.
    """
    trials = trials_of(search.records, settings, "learning")
    arrived = [place for place, is_censored in enumerate(trials.is_censored) if not is_censored]
    if not arrived:
        raise UserError(f"{search.study}: no trial reached the target, so that it names no setting. Raise budget_s")
    soonest = min(arrived, key=lambda place: trials.log_costs[place])
    fitted = surface.fit(settings, trials)
    picked = int(fitted.mean.argmin())
    return [
        Named("best seen", settings[trials.places[soonest]], math.exp(trials.log_costs[soonest])),
        Named("model", settings[picked], math.exp(float(fitted.mean[picked]))),
    ]


def searched_in(records: Sequence[Record]) -> list[Record]:
    """Return the learning trials of a search, in their order: no fresh seeds."""
    return [record for record in records if record.request.kind == "learning" and not record.request.confirms]


class Confirmed:
    """A study whose fresh seeds say which setting is the best one."""

    def __init__(self, records: Sequence[Record], settings: Sequence[Point], seeds: int) -> None:
        """Take the learning records of one arm; `seeds` are the planned fresh ones of each setting.

        Raises:
            UserError: when the fresh seeds have not all ended, or name no setting.
        """
        rounds = rounds_of(records, seeds)
        if rounds is None or not rounds.is_whole:
            raise UserError(
                "the confirmed study lacks fresh seeds, so that nothing is known for sure. Let it end first"
            )
        self._settings = settings
        self._fresh: Sequence[Point] = rounds.settings
        self._levels: Levels = levels_of(rounds.seeds)
        best = self._levels.soonest()
        if best is None:
            raise UserError("no confirmed setting has enough seeds that reached the target. Raise budget_s")
        self._best = best
        self._surface = surface.fit(settings, trials_of(records, settings, "learning"))
        self._draws: Array = self._surface.draws(surface.DRAWS, 0)

    @property
    def best(self) -> Point:
        """The setting with the least mean of its fresh seeds."""
        return self._fresh[self._best]

    @property
    def best_s(self) -> float:
        """Seconds to the target there: the geometric mean of its fresh seeds."""
        return math.exp(float(self._levels.means[self._best]))

    def at(self, setting: Point) -> Seconds:
        """Return the seconds at a setting, and what they lose."""
        if setting in self._fresh:
            place = self._fresh.index(setting)
            if place in self._levels.comparable:
                return self._by_seeds(place)
        return self._by_model(setting)

    def _by_seeds(self, place: int) -> Seconds:
        seconds = math.exp(float(self._levels.means[place]))
        if place == self._best:
            return Seconds(seconds, 0.0, None, None, "fresh seeds")
        contrast = self._levels.contrast(0, place, self._best)
        assert contrast.variance is not None, "both are comparable"
        half = float(stdtrit(contrast.degrees, (1.0 + CONFIDENCE) / 2)) * math.sqrt(contrast.variance)
        lower, middle, upper = (math.expm1(contrast.log_gain + off) for off in (-half, 0.0, half))
        return Seconds(seconds, middle, lower, upper, "fresh seeds")

    def _by_model(self, setting: Point) -> Seconds:
        place, best = self._settings.index(setting), self._settings.index(self.best)
        above = self._draws[:, place] - self._draws[:, best]
        tail = (1.0 - CONFIDENCE) / 2
        lower, middle, upper = np.expm1(np.quantile(above, [tail, 0.5, 1.0 - tail])).tolist()
        seconds = math.exp(float(self._surface.mean[place]))
        if self._surface.is_rough:
            return Seconds(seconds, middle, None, None, "model")
        return Seconds(seconds, middle, lower, upper, "model")


def judged(confirmed: Confirmed, searches: Iterable[Search], settings: Sequence[Point]) -> list[Row]:
    """Return what became of each setting that the searches name."""
    return [
        Row(search, named, confirmed.at(named.setting)) for search in searches for named in named_by(search, settings)
    ]


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return for each sampler, and for each way to name a setting, the median and range of the regret over its searches."""
    found = []
    for sampler, by in sorted({(row.search.sampler, row.named.by) for row in rows}):
        own = [row for row in rows if (row.search.sampler, row.named.by) == (sampler, by)]
        regrets = [row.true.regret for row in own]
        found.append(
            {
                "sampler": sampler,
                "by": by,
                "searches": len(own),
                "regret_median": median(regrets),
                "regret_least": min(regrets),
                "regret_most": max(regrets),
                "told_over_true_median": median(row.named.told_s / row.true.seconds for row in own),
            }
        )
    return found


def as_json(confirmed: Confirmed, study: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the whole result."""
    return {
        "confirmed_study": study,
        "best": vars(confirmed.best),
        "best_s": confirmed.best_s,
        "confidence": CONFIDENCE,
        "by_sampler": summary(rows),
        "searches": [
            {
                "study": row.search.study,
                "sampler": row.search.sampler,
                "seed": row.search.seed,
                "trials": len(row.search.records),
                "by": row.named.by,
                "setting": vars(row.named.setting),
                "told_s": row.named.told_s,
                **row.true._asdict(),
            }
            for row in rows
        ],
    }


def tables(result: Mapping[str, Any]) -> str:
    """Return the result as two tables in Markdown: by sampler, and each search."""
    heads = (
        "sampler",
        "names its setting by",
        "searches",
        "slower than the best, median (range)",
        "claimed ÷ true seconds",
    )
    by_sampler = [
        (
            own["sampler"],
            own["by"],
            str(own["searches"]),
            f"{own['regret_median']:.0%} ({own['regret_least']:.0%} to {own['regret_most']:.0%})",
            f"{own['told_over_true_median']:.2f}",
        )
        for own in result["by_sampler"]
    ]
    searches = [
        (
            f"{own['sampler']}, seed {own['seed']}",
            own["by"],
            short_setting(Setting(**own["setting"])),
            f"{own['told_s']:.1f} s",
            f"{own['seconds']:.1f} s",
            _loss(own),
            own["source"],
        )
        for own in result["searches"]
    ]
    of_each = ("search", "names its setting by", "setting", "claimed", "true", "slower than the best", "true by")
    return f"{table(heads, by_sampler)}\n\n{table(of_each, searches)}"


def _loss(own: Mapping[str, Any]) -> str:
    """Return how much longer a setting takes: `12% (3% to 22%)`."""
    if own["regret_lower"] is None:
        return f"{own['regret']:.0%}"
    return f"{own['regret']:.0%} ({own['regret_lower']:.0%} to {own['regret_upper']:.0%})"


def study_of(base: Mapping[str, Any], sampler: str, seed: int, trials: int) -> dict[str, Any]:
    """Return a study, as its file has it, that searches the settings of a confirmed one by a sampler, and confirms nothing."""
    learning = {
        key: value for key, value in base["learning"].items() if key not in ("confirm", "trials", "more_repeats")
    }
    size = {"trials": trials} if sampler == PROFILE else {"points": trials, "repeats": 1}
    others = {key: value for key, value in base.items() if key not in ("study", "seed", "learning")}
    name = f"{base['study']}-{sampler}-{seed}"
    return {"study": name, "seed": seed, **others, "learning": {**learning, "sampler": sampler, **size}}


def write_studies(path: Path, folder: Path, trials: int, seeds: int) -> list[Path]:
    """Write a study for each sampler and seed, and return their files. Seeds differ from that of the confirmed study."""
    base = yaml.safe_load(path.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for sampler in SAMPLERS:
        for seed in range(1, seeds + 1):
            study = study_of(base, sampler, int(base["seed"]) + seed, trials)
            written.append(folder / f"{study['study']}.yaml")
            write_atomically(written[-1], yaml.safe_dump(study, sort_keys=False))
    return written


def learning_of(study: Study, where: Path) -> tuple[Learning, Sequence[Point]]:
    """Return the learning section of a study with one arm, and its settings.

    Raises:
        UserError: when it has no such section, or several arms.
    """
    if study.learning is None or len(study.arms) != 1:
        raise UserError(f"{where}: expected a study with one arm and a learning section. Name such a study")
    return study.learning, legal_points(study.learning, study.world_sizes)


def judge(confirmed_at: Path, searches_at: Sequence[Path]) -> dict[str, Any]:
    """Return what became of the settings that searches named.

    Raises:
        UserError: when a search looked among other settings, or for another target.
    """
    folder = study_folder(confirmed_at)
    study = read_study(folder.study)
    section, settings = learning_of(study, confirmed_at)
    if section.confirm is None:
        raise UserError(
            f"{confirmed_at}: expected a study with `learning.confirm`, whose fresh seeds name the best setting"
        )
    searches = []
    for path in searches_at:
        searched = study_folder(path)
        other = read_study(searched.study)
        own, own_settings = learning_of(other, path)
        if own_settings != settings or own.target_reward != section.target_reward or other.task != study.task:
            raise UserError(
                f"{path}: expected the settings, target_reward and task of {confirmed_at}, and they differ. Write its study with `write`"
            )
        searches.append(Search(other.study, own.sampler, other.seed, searched_in(load_records(searched))))
    confirmed = Confirmed(load_records(folder), settings, section.confirm.seeds)
    return as_json(confirmed, study.study, judged(confirmed, searches, settings))


def main(given: Sequence[str] | None = None) -> None:
    """Write studies of samplers, or judge the settings that they name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="write the studies of the samplers")
    writing.add_argument("study", type=Path, help="the file of the confirmed study")
    writing.add_argument("folder", type=Path, help="where the studies go")
    writing.add_argument("--trials", type=int, default=TRIALS, help="of each search (%(default)s)")
    writing.add_argument("--seeds", type=int, default=SEEDS, help="searches of each sampler (%(default)s)")
    judging = commands.add_parser("judge", help="say what the settings lose that the samplers name")
    judging.add_argument("confirmed", type=Path, help="the results of the confirmed study")
    judging.add_argument("searches", type=Path, nargs="+", help="the results of the samplers' studies")
    judging.add_argument("--output", type=Path, help="a JSON file")
    arguments = parser.parse_args(given)
    if arguments.command == "write":
        for path in write_studies(arguments.study, arguments.folder, arguments.trials, arguments.seeds):
            print(path)
        return
    result = judge(arguments.confirmed, arguments.searches)
    print(tables(result))
    if arguments.output is not None:
        write_atomically(arguments.output, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    run_command(main)
