"""Two studies, or parts of them, side by side: what is faster, by how much, whether that is more than noise, and in which phase.

Input: two folders of results, each with an arm where it holds several; where none is named, each arm that both have is compared.
Output: tables in the terminal, and with --output a file with a list of comparisons. Exit 3, so that it serves as a gate, where a loss is
shown and its estimate exceeds the margin, and where fewer trials of B than of A succeeded at a point that both measured.

    python -m envknee.compare results/x results/y
    python -m envknee.compare results/x:stock results/x:lean --margin 0.02
    python -m envknee.compare results/x@1a2b3c4 results/x@5d6e7f8          trials of two commits, or of two images, in one study

How trials are paired: `envknee.pairing`. What one side alone has is named and left out.

"A loss is shown" says that no difference at all would be a surprise (two-sided p, corrected, of at most 1 - confidence). It does not say
that a loss as large as the margin is shown: that the interval lies beyond the margin is more, and is not asked for.

Trials that did not succeed (`pairing.SUCCESS`) have no FPS to compare, and no seconds and frames to target. Left out and forgotten they
would flatter the side that lost more of them, so how both sides ended is told for every such point. Fewer successes, of as many pairs,
are a loss that is counted and not tested: no margin excuses it. Where a seed of a learning point did not arrive, on either side, that
point has no ratio of seconds and frames to target at all: those that arrive are the quick ones. Memory and start-up of a learning
trial that spent its budget count: it ran.

A ratio is the geometric mean over points of the geometric means of their pairs. Its interval is Student's t on the logarithms of the
pairs, by point (strata), and no bootstrap of them: of intervals at 95% the percentile bootstrap's cover the truth in 75 of 100 cases
for one point with three pairs, in 83 for three points with three pairs, and in 90 for one with ten, where t's cover it in 94 to 96
(tests/unit/test_compare.py counts them). Several measures are compared at once, and several points of each: p-values are
Holm-corrected within these families.
"""

import argparse
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from scipy.special import stdtr

from envknee.config import Kind, Study
from envknee.errors import UserError, run_command
from envknee.files import StudyFolder, canonical_json, write_atomically
from envknee.limits import doublings, percent, shown_batch
from envknee.limits.verdict import ArmVerdict, decide, hardware, load_measured
from envknee.pairing import (
    Outcomes,
    Pair,
    Pairing,
    Place,
    across_machines,
    outcomes,
    paired,
    succeeded,
    without_counterpart,
)
from envknee.record import PHASES, Frozen, Record, without_skipped
from envknee.summary import threshold_interval

REGRESSION = 3
"""Exit status where a loss is shown and its estimate exceeds the margin, or fewer trials succeed."""

SETTINGS = ("trainer", "world_size", "observations", "strategy", "sync_every", "deterministic", "phases")
"""Of a request: told where the sides differ in them."""

SHORTEST_HASH = 4
"""Digits that name a commit or an image."""

WORTH_SAYING = 0.005
"""Changes of single points smaller than this are in the file, and not on the terminal: memory differs by bytes and always."""


@dataclass(frozen=True)
class Measure:
    """One thing that is compared."""

    name: str
    value_of: Callable[[Record], float | None]
    more_is_better: bool
    kind: Kind | None = None
    """Kind of trial that it is read from; None: of any."""


MEASURES = (
    Measure("FPS, total", lambda record: record.fps_total.median if record.fps_total else None, True, "throughput"),
    Measure(
        "FPS, collecting",
        lambda record: record.fps_env_step_inference.median if record.fps_env_step_inference else None,
        True,
        "throughput",
    ),
    Measure("peak memory", lambda record: record.memory_peak_gb, False),
    Measure("start-up", lambda record: record.outcome.setup_s, False),
    Measure("seconds to target", lambda record: record.seconds_to_target, False, "learning"),
    # Alike where both learn alike: then what the seconds gain is speed alone.
    Measure("frames to target", lambda record: record.frames_to_target, False, "learning"),
)


class Ratio(Frozen):
    """How one measure of B compares with that of A."""

    measure: str
    place: Place | None
    """Where; None for all points together."""
    ratio: float
    """B / A."""
    lower: float | None
    """Two-sided interval; None where one pair cannot tell noise."""
    upper: float | None
    p_value: float | None
    """Of no difference, two-sided, before the correction for how many were compared."""
    p_holm: float | None
    points: int
    pairs: int
    change: Literal["better", "worse", "none shown"]

    @property
    def loss(self) -> float:
        """Return by how much B is worse, as a share of A; negative where it is better."""
        return (
            0.0
            if self.change == "none shown"
            else math.copysign(abs(self.ratio - 1.0), 1.0 if self.change == "worse" else -1.0)
        )


class PhaseShift(Frozen):
    """What one phase adds to an iteration, as a share of A's whole iteration, averaged over points."""

    phase: str
    share: float


class Comparison(Frozen):
    """Everything found when one arm of B was compared with one of A."""

    a: str
    b: str
    confidence: float
    margin: float
    differs: list[str]
    """What else is not the same on both sides: what was asked beside the points, hardware, versions, commits."""
    overall: list[Ratio]
    by_place: list[Ratio]
    phases: list[PhaseShift]
    thresholds: list[str]
    left_out: list[str]
    """What one side alone has."""
    outcomes: list[Outcomes]
    """Of the points at which any paired trial did not succeed."""
    notes: list[str]
    """What else the ratios may come from."""
    regressions: list[str]
    not_shown: list[str] = []
    """Losses whose estimate exceeds the margin, of which noise may be all: too few pairs, or too unlike each other."""


@dataclass(frozen=True)
class Side:
    """One of the two: a study, or one arm of it."""

    name: str
    study: Study
    records: list[Record]
    """Of one arm."""
    arm: str

    @property
    def verdict(self) -> ArmVerdict:
        """Return what is decided about this side alone."""
        return next(arm for arm in decide(self.records, self.study).arms if arm.arm == self.arm)


def compare(a: Side, b: Side, confidence: float, margin: float) -> Comparison:
    """Compare two sides; pure.

    Raises:
        UserError: when they have no point in common.
    """
    pairing = paired(a.records, b.records)
    if not pairing.pairs:
        raise UserError(
            f"{a.name} and {b.name} have no point in common: {_some(pairing.only_a)} against {_some(pairing.only_b)}."
            " Sweep the same num_envs, horizon and batch_size on both sides"
        )
    pairs = {measure.name: _logarithms(pairing, measure) for measure in MEASURES}
    overall = [_ratio(measure, None, own, confidence) for measure in MEASURES if (own := pairs[measure.name])]
    overall = _corrected(overall, confidence)
    by_place: list[Ratio] = []
    for measure in MEASURES:
        found = [_ratio(measure, place, {place: logs}, confidence) for place, logs in pairs[measure.name].items()]
        by_place += _corrected(found, confidence)
    worse = [one for one in overall if one.change == "worse" and one.loss > margin]
    more_is_better = {measure.name: measure.more_is_better for measure in MEASURES}
    unsure = [
        one
        for one in overall
        if one.change == "none shown"
        and (one.ratio < 1.0) == more_is_better[one.measure]
        and abs(one.ratio - 1.0) > margin
    ]
    ended = outcomes(pairing)
    return Comparison(
        a=a.name,
        b=b.name,
        confidence=confidence,
        margin=margin,
        differs=_differences(a.records, b.records),
        overall=overall,
        by_place=by_place,
        phases=_phases([pair for own in pairing.pairs.values() for pair in own if pair.succeeded]),
        thresholds=[f"{side.name}: {_threshold(side.verdict)}" for side in (a, b)],
        left_out=without_counterpart(pairing, a.name, b.name),
        outcomes=ended,
        notes=across_machines(pairing),
        regressions=[
            *(f"beyond {margin:.0%}: {one.measure}: {_percent_change(one.ratio)} ({_interval(one)})" for one in worse),
            *(f"in outcomes: {one}" for one in ended if one.fewer),
        ],
        not_shown=[f"{one.measure}: {_percent_change(one.ratio)} ({_interval(one)})" for one in unsure],
    )


@dataclass(frozen=True)
class Given:
    """What a side is named as: `FOLDER`, then maybe `@BUILD` (a commit or an image), then maybe `:ARM`."""

    text: str
    study: Study
    records: list[Record]
    arm: str | None

    @staticmethod
    def read(text: str) -> "Given":
        """Read a side's study and records.

        Raises:
            UserError: when the folder holds no study, no record, no such arm, or no trial of that commit or image.
        """
        path, _, arm = text.rpartition(":") if ":" in text and not Path(text).exists() else (text, "", "")
        path, _, build = path.rpartition("@") if "@" in path and not Path(path).exists() else (path, "", "")
        folder = StudyFolder(Path(path))
        study, records = load_measured(folder)
        if arm and arm not in study.arms:
            arms = ", ".join(f"{path}:{name}" for name in sorted(study.arms))
            raise UserError(f"{path} has no arm {arm!r}. Name one of them: {arms}")
        records = without_skipped(records)
        return Given(text, study, _of_build(records, build, path) if build else records, arm or None)

    def arms(self) -> list[str]:
        """Return the arms that have a finished trial, or the one that is named."""
        return [self.arm] if self.arm else sorted({record.request.arm for record in self.records})

    def side(self, arm: str, several: bool) -> Side:
        """Return one arm, with its name where there are several."""
        own = [record for record in self.records if record.request.arm == arm]
        if not own:
            raise UserError(f"{self.text} holds no finished trial of arm {arm!r}. Run the sweep first")
        return Side(f"{self.text}:{arm}" if several else self.text, self.study, own, arm)


def sides(a: Given, b: Given) -> list[tuple[Side, Side]]:
    """Return what is compared with what: the arms that are named, the one that each has, or every arm that both have.

    Raises:
        UserError: when that leaves open which arm is meant.
    """
    of_a, of_b = a.arms(), b.arms()
    if len(of_a) == len(of_b) == 1:
        return [(a.side(of_a[0], False), b.side(of_b[0], False))]
    common = sorted(set(of_a) & set(of_b))
    if not common or a.text == b.text:
        one = a if len(of_a) > 1 else b
        names = ", ".join(f"{one.text}:{name}" for name in one.arms())
        raise UserError(f"{one.text} has {len(one.arms())} arms. Name one of them: {names}")
    return [(a.side(arm, a.arm is None), b.side(arm, b.arm is None)) for arm in common]


def _builds(record: Record) -> list[str]:
    """Return the hashes of what a trial ran: its git commit, and its image's content and file."""
    environment = record.outcome.environment
    if environment is None:
        return []
    image = environment.image
    found = [environment.git_commit, *((image.content_sha256, image.sif_sha256) if image else ())]
    return [one.removeprefix("sha256:") for one in found if one]


def _of_build(records: Sequence[Record], build: str, path: str) -> list[Record]:
    """Return the records of one commit or image, named by the first digits of its hash."""
    wanted = build.lower().removeprefix("sha256:")
    known = Counter(one for record in records for one in _builds(record))
    matching = [one for one in known if one.startswith(wanted)]
    if len(matching) != 1 or len(wanted) < SHORTEST_HASH:
        why = "is too short" if len(wanted) < SHORTEST_HASH else "fits none" if not matching else "fits several"
        listed = ", ".join(f"{one[:12]} ({count} trials)" for one, count in known.most_common())
        raise UserError(
            f"{path}@{build}: {build!r} {why} of the commits and images that its trials ran with: {listed or 'none known'}."
            f" Give at least {SHORTEST_HASH} digits of one of them"
        )
    return [record for record in records if matching[0] in _builds(record)]


def _logarithms(pairing: Pairing, measure: Measure) -> dict[Place, list[float]]:
    """Return ln(B / A) of every pair that tells of a measure, by point."""

    def tells(record: Record) -> bool:
        spent = record.request.kind == "learning" and record.outcome.status == "timeout"
        return succeeded(record) or (measure.kind is None and spent)

    found: dict[Place, list[float]] = {}
    for place, pairs in pairing.pairs.items():
        if measure.kind not in (None, place.kind):
            continue
        telling = [pair for pair in pairs if tells(pair.a) and tells(pair.b)]
        if measure.kind == "learning" and len(telling) < len(pairs):
            continue
        values = [(measure.value_of(pair.a), measure.value_of(pair.b)) for pair in telling]
        if logarithms := [math.log(of_b / of_a) for of_a, of_b in values if of_a and of_b]:
            found[place] = logarithms
    return found


class Estimate(NamedTuple):
    """The mean of stratified logarithms, and how sure it is."""

    mean: float
    error: float | None
    """Standard error; None where nothing tells."""
    degrees: float


def stratified(strata: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean over strata of their means, with Satterthwaite's degrees of freedom.

    A stratum of one value takes the variance of the others together; where all have one, strata are the sample.

    Let k strata have n_i values with variances s_i^2, m of them one value, and free = sum of (n_i - 1). The mean of the k means has the
    error variance (1 / k^2) sum of v_i / n_i. Of a single value v is estimated as the pooled sum of (n_j - 1) s_j^2 / free: the same
    number for all m, made of the s_j^2 that stand in the sum already. Collected, each s_i^2 of n_i > 1 counts with
    c_i = 1 / n_i + m (n_i - 1) / free, and has n_i - 1 degrees of freedom; a single value adds none of its own. The sum of independent
    c_i s_i^2 is what Satterthwaite 1946 (Biometrics Bulletin 2:110) gives degrees of freedom: total^2 / sum of (c_i s_i^2)^2 / (n_i - 1).
    """
    means = [statistics.fmean(values) for values in strata]
    mean = statistics.fmean(means)
    free = sum(len(values) - 1 for values in strata)
    if free == 0:
        if len(means) < 2:
            return Estimate(mean, None, 0.0)
        return Estimate(mean, statistics.stdev(means) / math.sqrt(len(means)), len(means) - 1.0)
    singles = sum(len(values) == 1 for values in strata)
    parts = [
        (statistics.variance(values) * (1.0 / len(values) + singles * (len(values) - 1) / free), len(values) - 1)
        for values in strata
        if len(values) > 1
    ]
    total = sum(part for part, _ in parts)
    spread = sum(part**2 / degrees for part, degrees in parts)
    return Estimate(mean, math.sqrt(total) / len(strata), total**2 / spread if spread > 0.0 else math.inf)


def _ratio(
    measure: Measure, place: Place | None, by_place: Mapping[Place, Sequence[float]], confidence: float
) -> Ratio:
    found = stratified(list(by_place.values()))
    lower = upper = p_value = None
    if found.error is not None:
        width = doublings.half_width(found.error**2, found.degrees, (1.0 - confidence) / 2)
        lower, upper = doublings.exp(found.mean - width), doublings.exp(found.mean + width)
        p_value = (
            2.0 * float(stdtr(found.degrees, -abs(found.mean) / found.error))
            if found.error > 0.0
            else float(found.mean == 0.0)
        )
    return Ratio(
        measure=measure.name, place=place, ratio=math.exp(found.mean), lower=lower, upper=upper, p_value=p_value,
        p_holm=None, points=len(by_place), pairs=sum(map(len, by_place.values())), change="none shown",
    )  # fmt: skip


def _corrected(ratios: Sequence[Ratio], confidence: float) -> list[Ratio]:
    """Return the same with Holm-corrected p-values, and what they show."""
    adjusted = doublings.holm([one.p_value for one in ratios])
    better = {measure.name: measure.more_is_better for measure in MEASURES}
    found = []
    for one, p_holm in zip(ratios, adjusted, strict=True):
        shown = p_holm is not None and p_holm <= 1.0 - confidence and one.ratio != 1.0
        good = (one.ratio > 1.0) == better[one.measure]
        change = "none shown" if not shown else "better" if good else "worse"
        found.append(one.model_copy(update={"p_holm": p_holm, "change": change}))
    return found


def _phases(pairs: Sequence[Pair]) -> list[PhaseShift]:
    """Return what each phase adds to or takes from an iteration, the largest first; none where either side tells no phases.

    Of the same pairs as the ratios: what one side alone measured, maybe on another machine, would pass for a phase's doing.
    """

    def seconds(records: Sequence[Record]) -> dict[Place, dict[str, float]]:
        told: dict[Place, list[Record]] = {}
        for record in records:
            if record.request.kind == "throughput" and record.phases_s:
                told.setdefault(Place.of(record), []).append(record)
        return {
            place: {
                phase: statistics.fmean(own.phases_s[phase].median for own in group if own.phases_s) for phase in PHASES
            }
            for place, group in told.items()
        }

    told = [pair for pair in pairs if pair.a.phases_s and pair.b.phases_s]
    of_a, of_b = seconds([pair.a for pair in told]), seconds([pair.b for pair in told])
    common = sorted(of_a.keys() & of_b.keys(), key=str)
    shifts = [
        PhaseShift(
            phase=phase,
            share=statistics.fmean((of_b[p][phase] - of_a[p][phase]) / sum(of_a[p].values()) for p in common),
        )
        for phase in PHASES
        if common
    ]
    return sorted(shifts, key=lambda shift: -abs(shift.share))


def _differences(a: Sequence[Record], b: Sequence[Record]) -> list[str]:
    """Return what is not the same on both sides, apart from what is measured."""

    def told(records: Sequence[Record]) -> dict[str, str]:
        machines = [record.outcome.environment for record in records if record.outcome.environment]
        found = {"hardware": "; ".join(hardware(records))}
        # Of a CPU it stands in the hardware.
        hosts = {f"{one.cpu_model} ({one.cpu_cores} cores)" for one in machines if one.device.type == "cuda"}
        found["host CPU"] = ", ".join(sorted(hosts)) or "none"
        found["commit"] = ", ".join(sorted({(one.git_commit or "unknown")[:10] for one in machines}))
        images = {one.image.content_sha256.removeprefix("sha256:")[:12] for one in machines if one.image}
        found["image"] = ", ".join(sorted(images)) or "none"
        found["driver"] = ", ".join(sorted({one.device.driver or "none" for one in machines}))
        for name in sorted({name for one in machines for name in one.packages}):
            found[name] = ", ".join(sorted({one.packages.get(name, "none") for one in machines}))
        return found

    of_a, of_b = _asked(a) | told(a), _asked(b) | told(b)
    if not ("target" in of_a and "target" in of_b):  # one side alone learned: nothing of that is compared
        for asked in (of_a, of_b):
            asked.pop("target", None)
    return [
        f"{name}: {of_a.get(name, 'none')} → {of_b.get(name, 'none')}"
        for name in dict.fromkeys([*of_a, *of_b])
        if of_a.get(name) != of_b.get(name)
    ]


def _asked(records: Sequence[Record]) -> dict[str, str]:
    """Return what trials were asked beside their point, by name: the task, how an arm treats it, and the target."""
    found: dict[str, set[str]] = {}
    for request in (record.request for record in records):
        plain: dict[str, object] = {
            "task": request.task_id,
            **{name: getattr(request, name) for name in SETTINGS},
            **{f"memory.{name}": value for name, value in request.memory},
            **request.overrides,
        }
        if request.target_reward is not None:
            plain["target"] = f"reward {request.target_reward:g} over {request.target_episodes} episodes"
        for name, value in plain.items():
            found.setdefault(name, set()).add(str(value))
    return {name: ", ".join(sorted(values)) for name, values in found.items()}


def _threshold(verdict: ArmVerdict) -> str:
    headline = verdict.headline
    if headline is None:
        return "no throughput trial was timed to its end"
    at = f"horizon {headline.horizon}, {shown_batch(headline.batch_size)}"
    if headline.threshold_num_envs is None:
        return f"no throughput threshold reached; best {headline.best_fps:,.0f} FPS ({at})"
    return f"threshold {headline.threshold_num_envs:,} environments ({threshold_interval(headline)}; {at})"


def _some(places: Iterable[Place]) -> str:
    listed = sorted(map(str, places))
    return "; ".join(listed[:2]) + more(listed)


def more(listed: Sequence[str], shown: int = 2) -> str:
    """Return `; and 7 more` where a list is longer than what is shown of it."""
    return f"; and {len(listed) - shown} more" if len(listed) > shown else ""


def _percent_change(ratio: float) -> str:
    return f"{'+' if ratio >= 1.0 else '-'}{percent(abs(ratio - 1.0))}"


def _interval(one: Ratio) -> str:
    if one.lower is None or one.upper is None:
        return "one pair"
    return " to ".join(f"{end:.3f}" if end < 10.0 else f"{end:.3g}" for end in (one.lower, one.upper))


def print_comparison(found: Comparison, console: Console) -> None:
    """Print what was found: all points together, the points that changed, phases, thresholds."""

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    say(f"A  {found.a}\nB  {found.b}")
    for difference in found.differs:
        say(f"   {difference}")
    for note in found.notes:
        say(f"note  {note}")
    caption = f"B / A over points in common; interval at {found.confidence:.0%}, p corrected (Holm)"
    table = Table(caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for heading in ("measure", "ratio", "interval", "p", "points", "pairs", ""):
        table.add_column(heading, justify="left" if heading in ("measure", "") else "right", no_wrap=True)
    for one in found.overall:
        p_value = "" if one.p_holm is None else f"{one.p_holm:.3f}" if one.p_holm >= 0.001 else "< 0.001"
        table.add_row(
            one.measure, f"{one.ratio:.3f}", _interval(one), p_value, str(one.points), str(one.pairs), one.change
        )
    if found.overall:
        console.print(table)
    else:
        say("no measure to compare: no pair of trials succeeded on both sides")
    for one in found.by_place:
        if one.change != "none shown" and abs(one.ratio - 1.0) >= WORTH_SAYING:
            say(f"{one.change:>6}  {one.measure} at {one.place}: {one.ratio:.3f} ({_interval(one)})")
    if found.phases:
        largest = ", ".join(f"{one.phase} {one.share:+.1%}" for one in found.phases[:4])
        say(f"time of an iteration, by phase, in parts of A's: {largest}")
    for line in found.thresholds:
        say(line)
    if found.left_out:
        say(f"left out, because one side alone has it: {'; '.join(found.left_out[:2])}{more(found.left_out)}")
    for one in found.outcomes:
        if not one.fewer:  # those are told as what they are, below
            say(f"outcomes at {one}")
    if found.not_shown:
        say(f"estimated beyond {found.margin:.0%} and not shown, more repeats would tell: {'; '.join(found.not_shown)}")
    for regression in found.regressions:
        console.print(f"REGRESSION {regression}", style="bold red", soft_wrap=True)
    if not found.regressions:
        say(f"passed: over all points together no loss is shown whose estimate exceeds {found.margin:.0%}")


def main() -> int:
    """Compare two studies, or two arms, trial by trial; exit 3 on a loss (shown, and estimated beyond the margin) or lost trials."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "a", help="what was: a folder of results, FOLDER:ARM, FOLDER@COMMIT, FOLDER@IMAGE or FOLDER@COMMIT:ARM"
    )
    parser.add_argument("b", help="what is now: likewise")
    parser.add_argument(
        "--margin", type=float, default=0.05, help="estimated loss that is still accepted (default: %(default)s)"
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="of intervals and tests (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="write everything to this JSON file, too")
    arguments = parser.parse_args()
    for name, lowest in (("margin", 0.0), ("confidence", 0.5)):
        if not lowest <= (given := getattr(arguments, name)) < 1.0:
            parser.error(f"--{name} must be at least {lowest:g} and below 1 (0.05 is 5%), and {given:g} was given")
    found = [
        compare(a, b, arguments.confidence, arguments.margin)
        for a, b in sides(Given.read(arguments.a), Given.read(arguments.b))
    ]
    for one in found:
        print_comparison(one, Console(markup=False, emoji=False))
    if arguments.output is not None:
        write_atomically(arguments.output, canonical_json([one.model_dump(mode="json") for one in found]))
    return REGRESSION if any(one.regressions for one in found) else 0


if __name__ == "__main__":
    run_command(main)
