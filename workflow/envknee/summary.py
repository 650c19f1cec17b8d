"""What a study found, for a terminal: a short table per arm, a line per limit, and where to look next.

Input: verdict.json (and, for --where, study.json and the records' names). Output: text, without colours when piped.

    python -m envknee.summary results/<study>             the table
    python -m envknee.summary results/<study> --where     one line: how far the study is, and where its results are
"""

import argparse
import textwrap
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from envknee import space
from envknee.errors import run_command
from envknee.files import StudyFolder, read_model
from envknee.limits import Ranks, Series, percent, shown_batch
from envknee.limits.learning import LearningLimit, best_of
from envknee.limits.memory import CardPrediction
from envknee.limits.remedies import Remedies
from envknee.limits.scaling import Scaling
from envknee.limits.throughput import ThroughputLimit
from envknee.limits.verdict import ArmVerdict, Broken, Headline, Verdict, load_study


def print_summary(verdict: Verdict, folder: StudyFolder, console: Console) -> None:
    """Print the verdict of a study: thresholds and recommendations as a table, then each arm's limits in a line each."""
    if verdict.drill:
        console.print(verdict.drill)
    console.print(
        f"{verdict.study}: {verdict.trials_measured} of {verdict.trials_planned} trials;"
        f" a doubling stops paying below {verdict.delta:.0%}, confidence {verdict.confidence:.0%}"
    )
    console.print(_table(verdict))
    for arm in verdict.arms:
        console.print(f"{arm.arm} on {', '.join(arm.hardware) or 'no hardware yet'}")
        print_lines(_lines(arm, verdict), console)
        print_lines([line for one in verdict.broken if one.arm == arm.arm for line in _broken(one)], console)
    if verdict.remedies is not None:
        console.print(f"beside {verdict.remedies.baseline}")
        print_lines(_remedies(verdict.remedies), console)
    for one in verdict.spending:
        if one.arm is None and len(verdict.arms) > 1:
            print_lines([("all arms", one.statement)], console)
    console.print()
    for name, path in (("report", folder.report), ("verdict", folder.verdict), ("trials", folder.records_csv)):
        # A path is for copying: never broken into lines.
        console.print(f"{name:<8} {path}{'' if path.exists() else '  (not written yet)'}", soft_wrap=True)


def print_lines(lines: Iterable[tuple[str, str]], console: Console) -> None:
    """Print (name, text) pairs, the texts wrapped beside their names."""
    for name, text in lines:
        # An address is for copying, too.
        wrapped = textwrap.wrap(text, max(console.width - 14, 26), break_on_hyphens=False, break_long_words=False)
        console.print(f"  {name:<11} " + ("\n" + " " * 14).join(wrapped), soft_wrap=True)


def where(folder: StudyFolder) -> str:
    """Return one line: how many trials are measured, and where the results are."""
    if not folder.study.exists():  # after a dry-run
        return f"nothing is measured yet; results will be in {folder.root}"
    study = load_study(folder)
    measured, planned = len(folder.trial_files("record.json")), len(space.plan(study))
    report = f"report {folder.report}" if folder.report.exists() else f"no report yet in {folder.root}"
    return f"study {study.study}: {measured} of {planned} trials measured; {report}, `make ui` shows every run"


def _table(verdict: Verdict) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("arm", "stops paying at", "interval", "run", "what binds"):
        table.add_column(column, overflow="fold")
    for arm in verdict.arms:
        headline = arm.headline
        if headline is None:
            table.add_row(arm.arm, *_learning_row(arm), "")
        else:
            table.add_row(
                arm.arm,
                _threshold(arm, headline),
                threshold_interval(headline),
                _recommended(arm, headline),
                headline.binds,
            )
    return table


def _learning_row(arm: ArmVerdict) -> tuple[str, str, str]:
    """Return threshold, interval and soonest point of an arm that has learning trials alone.

    The threshold of the soonest point's series is told where there is one, and else another's, which is named.
    """
    ran = [limit for limit in arm.learning if limit.state != "no data"]
    if not ran:
        return "nothing timed yet", "", ""
    best = best_of(ran)
    run, soonest = "", ran[0].series
    if best is not None:
        soonest = Series(arm.arm, best.horizon, best.batch_size)
        run = (
            f"{best.num_envs:,} envs{arm.ranks.each}, horizon {best.horizon}, {shown_batch(best.batch_size)}:"
            f" target in {best.seconds_to_target.value:,.1f} s{best.caveat}"
        )
    ran.sort(key=lambda limit: limit.series != soonest)
    for limit in ran:
        if limit.threshold_num_envs is not None:
            of = limit.series if len(arm.learning) > 1 else f"horizon {limit.horizon}"
            return (
                f"{limit.threshold_num_envs:,} envs{arm.ranks.each}, {of}, to the target",
                threshold_interval(limit),
                run,
            )
    first = ran[0]
    if first.not_reached_by is None:
        return "too few seeds", "", run
    return f"not reached by {first.not_reached_by:,} envs{arm.ranks.each}", threshold_interval(first), run


def _threshold(arm: ArmVerdict, headline: Headline) -> str:
    if headline.threshold_num_envs is not None:
        return f"{headline.threshold_num_envs:,} envs{arm.ranks.each}"
    series = Series(arm.arm, headline.horizon, headline.batch_size)
    largest = next((limit.not_reached_by for limit in arm.throughput if limit.series == series), None)
    return f"not reached by {largest or headline.num_envs:,} envs{arm.ranks.each}"


def threshold_interval(headline: Headline | ThroughputLimit | LearningLimit) -> str:
    """Return `512 to 2,048`, `512 alone` or `512 or more`."""
    if headline.threshold_lowest is None:
        return "no doubling measured"
    if headline.threshold_highest is None:
        return f"{headline.threshold_lowest:,} or more"
    if headline.threshold_highest == headline.threshold_lowest:
        return f"{headline.threshold_lowest:,} alone"
    return f"{headline.threshold_lowest:,} to {headline.threshold_highest:,}"


def _recommended(arm: ArmVerdict, headline: Headline) -> str:
    return (
        f"{headline.num_envs:,} envs{arm.ranks.each}, horizon {headline.horizon}, {shown_batch(headline.batch_size)}:"
        f" {headline.fps:,.0f} FPS{arm.ranks.together} ({headline.fps_share_of_best:.0%} of best)"
    )


def _lines(arm: ArmVerdict, verdict: Verdict) -> list[tuple[str, str]]:
    """Return a line per limit, and what would move the one that binds."""
    lines = []
    headline = arm.headline
    if headline is not None:
        series = Series(arm.arm, headline.horizon, headline.batch_size)
        lines += [("throughput", f"{one.statement} ({series})") for one in arm.throughput if one.series == series]
    elif arm.throughput:
        lines.append(("throughput", arm.throughput[0].statement))
    else:
        lines.append(("throughput", "no throughput trials"))
    if headline is not None and headline.phases:
        lines.append(("phases", headline.phases))
    lines += [("scaling", _scaling(one, arm)) for one in verdict.scaling if one.arm == arm.arm]
    lines.append(
        ("learning", "; ".join([_learning(arm.learning, arm.ranks), *_critical_batch(arm), *_noise_scale(arm)]))
    )
    lines.append(("memory", arm.memory.statement if arm.memory else "no trial tells"))
    if headline is not None and (cards := _cards(arm, headline)):
        lines.append(("cards", cards))
    if headline is not None:
        lines.append(("next", headline.what_would_move_it))
    lines += [("cost", one.statement) for one in verdict.spending if one.arm == arm.arm]
    lines += [("note", note) for note in arm.notes]
    return lines


def _broken(broken: Broken) -> list[tuple[str, str]]:
    """Return what broke first, where the dump of it is, and what may help, a line each."""
    trials = (
        f"trial {broken.trials[0]}"
        if len(broken.trials) == 1
        else f"{len(broken.trials)} trials, as in {broken.trials[0]}"
    )
    dump = f"; last good state in {broken.dump}" if broken.dump else ""
    return [("broke", f"{trials}: {broken.reason}{dump}"), *(("may help", hint) for hint in broken.hints)]


def _remedies(remedies: Remedies) -> list[tuple[str, str]]:
    """Return what each arm buys beside the baseline, the best first, and what follows."""
    lines = [(str(place), one.statement) for place, one in enumerate(remedies.remedies, 1)]
    return [*lines, ("advice", remedies.statement), *(("note", note) for note in remedies.notes)]


def _noise_scale(arm: ArmVerdict) -> list[str]:
    """Return the gradient noise scale of the point where most trials tell it."""
    known = [noise for noise in arm.noise_scales if noise.scale.transitions is not None]
    if not known:
        return []
    most = max(known, key=lambda noise: noise.scale.samples)
    ends = "" if most.scale.lower is None else f" ({most.scale.lower:,.0f} to {_or_more(most.scale.upper)})"
    return [
        f"gradient noise scale {most.scale.transitions:,.0f}{ends} at {most.num_envs:,} envs, horizon {most.horizon}"
    ]


def _cards(arm: ArmVerdict, headline: Headline) -> str:
    """Return how many environments fit cards of other sizes, at the recommended horizon and batch."""
    point = (headline.horizon, headline.batch_size)
    cards = [card for card in arm.memory.cards if (card.horizon, card.batch_size) == point] if arm.memory else []
    sizes = " · ".join(f"{card.card.partition(' (')[0]}: {_fits(card)}" for card in cards)
    unsure = "" if any(card.largest_num_envs_lower is not None for card in cards) else " (no interval)"
    where = f"horizon {headline.horizon}, {shown_batch(headline.batch_size)}"
    return sizes and f"environments predicted to fit{unsure}, {where}: {sizes}"


def _fits(card: CardPrediction) -> str:
    """Return `788 (721 to 843)`."""
    if card.largest_num_envs_lower is None:
        return f"{card.largest_num_envs:,}"
    return f"{card.largest_num_envs:,} ({card.largest_num_envs_lower:,} to {_or_more(card.largest_num_envs_upper)})"


def _scaling(scaling: Scaling, arm: ArmVerdict) -> str:
    """Return the efficiency of an arm's ranks, and how far apart they are."""
    share, word = scaling.slowest_rank_share, arm.rank_word
    apart = f"; the slowest {word} collects at {percent(share, 0)} of the fastest {word}'s FPS" if share else ""
    return scaling.statement + apart


def _learning(limits: list[LearningLimit], ranks: Ranks) -> str:
    """Return what the learning trials say: the decision where there is one, and the soonest point."""
    if not limits:
        return "no learning trials"
    decided = [limit for limit in limits if limit.state == "reached"]
    reached = sum(point.reached for limit in limits for point in limit.points)
    seeds = sum(point.trials for limit in limits for point in limit.points)
    parts = [f"{limit.statement} ({limit.series})" for limit in decided]
    if not parts:
        ran = [limit for limit in limits if limit.state != "no data"]
        if not ran:
            return limits[0].statement
        few = all(limit.state == "too few seeds" for limit in ran)
        compared = any(limit.savings for limit in ran)
        why = "too few seeds to decide" if few else "no threshold is reached" if compared else "no doubling to compare"
        parts.append(f"{why}; {reached} of {seeds} trials reached the target")
    best = best_of(limits)
    if best is not None:
        parts.append(
            f"soonest {best.num_envs:,} envs{ranks.each}, horizon {best.horizon}, {shown_batch(best.batch_size)}"
            f" in {best.seconds_to_target.value:,.1f} s{best.caveat}"
        )
    return "; ".join(parts)


def _critical_batch(arm: ArmVerdict) -> list[str]:
    """Return B_noise with its interval, once for each num_envs and horizon at which it is known."""
    found = []
    for law in arm.batch:
        if law.used and law.b_noise is not None:
            where = "" if law.num_envs is None else f" at {law.num_envs:,} envs, horizon {law.horizon}"
            ends = "" if law.b_noise_lower is None else f" ({law.b_noise_lower:,.0f} to {_or_more(law.b_noise_upper)})"
            found.append(f"critical batch {law.b_noise:,.0f}{ends}{where}")
    return found


def _or_more(upper: float | None) -> str:
    return "no upper end" if upper is None else f"{upper:,.0f}"


def main() -> None:
    """Print what a study found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument(
        "--where", action="store_true", help="print one line: how far the study is, and where its results are"
    )
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    if arguments.where:
        print(where(folder))
        return
    remedy = f"Write it with `python -m envknee.limits.verdict {folder.root}`."
    verdict = read_model(folder.verdict, Verdict, remedy)
    print_summary(verdict, folder, Console(markup=False, highlight=False, emoji=False))


if __name__ == "__main__":
    run_command(main)
