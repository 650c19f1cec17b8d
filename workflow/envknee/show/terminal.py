"""The verdict of a study in the terminal: answer, evidence and next step in a few lines, or all details.

Input: verdict.json (for --where, study.json and the names of records). Output: text, without colours when piped.

    envknee summary results/<study>             at most 12 lines of 100 characters
    envknee summary results/<study> --all       every limit, phase, prediction and note
    envknee summary results/<study> --where     one line: progress of the study, and the path of its results
"""

import argparse
import io
import textwrap
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.show import words
from envknee.show.answer import Answer, answer, answered_series, answers_table
from envknee.show.evidence import read_verdict
from envknee.study import space
from envknee.study.errors import printable
from envknee.study.paths import StudyFolder
from envknee.verdict.learning import best_of
from envknee.verdict.read import load_study
from envknee.verdict.schema.scaling import Scaling, ScalingPoint
from envknee.verdict.schema.study import ArmVerdict, Broken, Verdict
from envknee.verdict.series import Series
from envknee.verdict.words.numbers import percent

Lines = list[tuple[str, str]]
"""(name, text) of each line."""

MOST_LINES, MOST_WIDTH = 12, 100
"""Size of the answer."""


def print_answer(verdict: Verdict, folder: StudyFolder, console: Console) -> None:
    """Print the answer for each arm in at most `MOST_LINES` lines, which are cut where they would wrap."""
    width = min(console.width, MOST_WIDTH) if console.is_terminal else MOST_WIDTH
    series = answered_series(verdict)
    known = [verdict.drill, verdict.study, f"{verdict.trials_measured} of {verdict.trials_planned} trials"]
    known += [*words.hardware_of(verdict), None if series is None else str(series)]
    advice = [("advice", section.statement) for section in (verdict.remedies, verdict.rules) if section is not None]
    # Other lines: title, column heads, a rule, report, more.
    room = MOST_LINES - 5 - 2 * len(advice)
    gains = [_scaling_in_short(own.arm, own.fastest, verdict) for own in verdict.scaling if own.fastest is not None]
    gains = gains[: room - 2]  # an arm and the number of the others come first
    most = room - len(gains)
    shown = verdict.arms if len(verdict.arms) <= most else verdict.arms[: most - 1]
    table = answers_table(verdict, shown)
    if len(verdict.arms) == 1:  # a single arm needs no name
        table = words.Table("", table.columns[1:], [row[1:] for row in table.rows])
    lines = [" · ".join(part for part in known if part), *_unwrapped(table, width)]
    if len(shown) < len(verdict.arms):
        lines.append(f"and {len(verdict.arms) - len(shown)} more arms")
    lines += gains
    for word, said in advice:
        lines += _wrapped(f"{word:<8} {said}", width, 2)
    lines += _why({arm.arm: answer(arm) for arm in shown}, MOST_LINES - 2 - len(lines), width)
    lines = [line if len(line) <= width else f"{line[: width - 2].rstrip()} …" for line in map(printable, lines)]
    written = "" if folder.report.exists() else "  (not written yet)"
    for line in (*lines, f"report   {folder.report}{written}", f"more     envknee summary --all {folder.root}"):
        console.print(line, soft_wrap=True)


def _scaling_in_short(name: str, fastest: ScalingPoint, verdict: Verdict) -> str:
    """Return what the ranks of an arm gain at its fastest point, on one line."""
    word = next(arm.rank_word for arm in verdict.arms if arm.arm == name)
    sure = "one repeat"
    if fastest.efficiency_lower is not None and fastest.efficiency_upper is not None:
        sure = f"efficiency {percent(fastest.efficiency_lower, 0)} to {percent(fastest.efficiency_upper, 0)}"
    return f"scaling  {name}: {fastest.speedup:.2f} times one {word}'s FPS at {fastest.num_envs:,} environments each, {sure}"


def _unwrapped(table: words.Table, width: int) -> list[str]:
    """Return a table as lines, which are cut where they would wrap."""
    stream = io.StringIO()
    Console(file=stream, width=width, markup=False, highlight=False, emoji=False).print(_table(table, wrap=False))
    return [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()]


def _why(answers: dict[str, Answer], room: int, width: int) -> list[str]:
    """Return evidence and next steps in `room` lines: first one line for each arm, then more."""

    def told(word: str, arm: str, text: str) -> str:
        return f"{word:<8} {arm}: {text}" if len(answers) > 1 else f"{word:<8} {text}"

    first = [told("why", arm, said) for arm, own in answers.items() for said in own.evidence[:1]]
    later = [told("why", arm, said) for arm, own in answers.items() for said in own.evidence[1:]]
    steps = [told("next", arm, own.next_step) for arm, own in answers.items() if own.next_step]
    lines = first[:room]
    steps = steps[: room - len(lines)]
    lines += later[: room - len(lines) - len(steps)]
    for place, step in enumerate(steps):
        free = (room - len(lines)) // (len(steps) - place)
        lines += _wrapped(step, width, free)
    return lines


def _wrapped(text: str, width: int, most: int) -> list[str]:
    return textwrap.wrap(
        printable(text), width, subsequent_indent=" " * 9, max_lines=most, placeholder=" …", break_on_hyphens=False
    )


def print_summary(verdict: Verdict, folder: StudyFolder, console: Console) -> None:
    """Print the verdict of a study: a table of answers, then a line for each limit of each arm."""
    if verdict.drill:
        _print(verdict.drill, console)
    pays = [f"brings {verdict.delta:.0%} more FPS"] * any(arm.throughput for arm in verdict.arms)
    pays += [f"saves {verdict.delta_learning:.0%} of the time to the target"] * any(
        arm.learning for arm in verdict.arms
    )
    _print(
        f"{verdict.study}: {verdict.trials_measured} of {verdict.trials_planned} trials;"
        f" a doubling pays if it {' or '.join(pays)}; confidence {verdict.confidence:.0%}",
        console,
    )
    console.print(_table(answers_table(verdict, verdict.arms)))
    for arm in verdict.arms:
        _print(f"{arm.arm} on {', '.join(arm.hardware) or 'no hardware yet'}", console)
        print_lines(_lines(arm, verdict), console)
    if verdict.remedies is not None:
        _print(f"compared with {verdict.remedies.baseline}", console)
        print_lines(
            [(str(place), remedy.statement) for place, remedy in enumerate(verdict.remedies.remedies, 1)], console
        )
        print_lines([("advice", verdict.remedies.statement), *_notes(verdict.remedies.notes)], console)
    if verdict.rules is not None:
        _print("rules side by side", console)
        print_lines([(rule.arm, rule.statement) for rule in verdict.rules.rules], console)
        print_lines([("rules", verdict.rules.statement)], console)
    if len(verdict.arms) > 1:
        print_lines(
            [("all arms", spending.statement) for spending in verdict.spending if spending.arm is None], console
        )
    console.print()
    for name, path in (("report", folder.report), ("verdict", folder.verdict), ("trials", folder.records_csv)):
        # A path must not be broken into lines: users copy it.
        console.print(f"{name:<8} {path}{'' if path.exists() else '  (not written yet)'}", soft_wrap=True)


def print_lines(lines: Iterable[tuple[str, str]], console: Console) -> None:
    """Print (name, text) pairs, with the texts wrapped beside their names."""
    for name, text in lines:
        width = max(console.width - 14, 26)
        wrapped = textwrap.wrap(printable(text), width, break_on_hyphens=False, break_long_words=False)
        console.print(f"  {printable(name):<11} " + ("\n" + " " * 14).join(wrapped), soft_wrap=True)


def where(folder: StudyFolder) -> str:
    """Return one line: the number of measured trials, and the path of the results."""
    if not folder.study.exists():  # after a dry-run
        return f"nothing is measured yet; results will be in {folder.root}"
    study = load_study(folder)
    measured, planned = len(folder.trial_files("record.json")), len(space.plan(study))
    report = f"report {folder.report}" if folder.report.exists() else f"no report yet in {folder.root}"
    return f"study {study.study}: {measured} of {planned} trials measured; {report}, `make ui` shows every run"


def _print(text: str, console: Console) -> None:
    console.print(printable(text))


def _table(content: words.Table, wrap: bool = True) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in content.columns:
        table.add_column(column, overflow="fold" if wrap else "ellipsis", no_wrap=not wrap)
    for row in content.rows:
        table.add_row(*map(printable, row))
    return table


def _lines(arm: ArmVerdict, verdict: Verdict) -> Lines:
    """Return a line per limit of an arm, and lines on the next step, cost and failures."""
    headline, limit = arm.headline, words.recommended(arm)
    unrecommended = arm.throughput[0].statement if arm.throughput else "no throughput trials"
    lines = [("throughput", f"{limit.statement} ({limit.series})" if limit else unrecommended)]
    if headline is not None and headline.phases:
        lines.append(("phases", headline.phases))
    lines += [("scaling", _scaling(scaling, arm)) for scaling in verdict.scaling if scaling.arm == arm.arm]
    lines.append(("learning", "; ".join([*_learning(arm), *_critical_batch(arm), *_noise_scale(arm)])))
    lines.append(("memory", arm.memory.statement if arm.memory else "no trial measured it"))
    if headline is not None and limit is not None:
        lines += [*_cards(arm, limit.series), ("next", headline.what_would_move_it)]
    lines += [("cost", spending.statement) for spending in verdict.spending if spending.arm == arm.arm]
    lines += _notes(arm.notes)
    return lines + [line for broken in verdict.broken if broken.arm == arm.arm for line in _broken(broken)]


def _notes(notes: Iterable[str]) -> Lines:
    return [("note", note) for note in notes]


def _broken(broken: Broken) -> Lines:
    """Return the first failure with its dump, and hints."""
    first = broken.trials[0]
    trials = f"trial {first}" if len(broken.trials) == 1 else f"{len(broken.trials)} trials, as in {first}"
    dump = f"; last good state in {broken.dump}" if broken.dump else ""
    return [("broke", f"{trials}: {broken.reason}{dump}"), *(("may help", hint) for hint in broken.hints)]


def _cards(arm: ArmVerdict, series: Series) -> Lines:
    """Return the numbers of environments that fit other cards, at the recommended horizon and batch size."""
    cards = arm.memory.cards if arm.memory else []
    cards = [card for card in cards if (card.horizon, card.batch_size) == series[1:]]
    if not cards:
        return []
    unsure = "" if any(card.largest_num_envs_lower is not None for card in cards) else " (no interval)"
    sizes = " · ".join(f"{card.card.partition(' (')[0]}: {words.fitting(card)}" for card in cards)
    return [("cards", f"environments predicted to fit{unsure}, {series}: {sizes}")]


def _scaling(scaling: Scaling, arm: ArmVerdict) -> str:
    """Return the efficiency of an arm's ranks, and the ratio of the slowest to the fastest."""
    share, word = scaling.slowest_rank_share, arm.rank_word
    apart = f"; the slowest {word} collects at {percent(share, 0)} of the fastest {word}'s FPS" if share else ""
    return scaling.statement + apart


def _learning(arm: ArmVerdict) -> list[str]:
    """Return the findings of the learning trials: the decision if there is one, and the soonest point."""
    limits = arm.learning
    ran = [limit for limit in limits if limit.state != "no data"]
    if not ran:
        return [limits[0].statement if limits else "no learning trials"]
    parts = [f"{limit.statement} ({limit.series})" for limit in limits if limit.state in ("reached", "still pays")]
    if not parts:
        why = "undecided" if any(limit.savings for limit in ran) else "no doubling to compare"
        parts.append(f"{why}; {words.reached(limits)} reached the target")
    best = best_of(limits)
    if best is not None:
        parts.append(f"soonest {words.soonest(arm, best)}")
    return parts


def _critical_batch(arm: ArmVerdict) -> list[str]:
    """Return B_noise with its interval, for each num_envs and horizon at which it is known."""
    return [
        f"critical batch {words.with_interval(law.b_noise, law.b_noise_lower, law.b_noise_upper)}"
        + ("" if law.num_envs is None else f" at {law.num_envs:,} envs, horizon {law.horizon}")
        for law in arm.batch
        if law.used and law.b_noise is not None
    ]


def _noise_scale(arm: ArmVerdict) -> list[str]:
    """Return the gradient noise scale at the point with the most samples."""
    known = [noise for noise in arm.noise_scales if noise.scale.transitions is not None]
    if not known:
        return []
    most = max(known, key=lambda noise: noise.scale.samples)
    scale = words.with_interval(most.scale.transitions or 0.0, most.scale.lower, most.scale.upper)
    return [f"gradient noise scale {scale} at {most.num_envs:,} envs, horizon {most.horizon}"]


def main() -> None:
    """Print the verdict of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument("--all", action="store_true", help="print every limit, phase, prediction and note")
    parser.add_argument(
        "--where", action="store_true", help="print one line: how far the study is, and where its results are"
    )
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    if arguments.where:
        print(where(folder))
    else:
        show = print_summary if arguments.all else print_answer
        show(read_verdict(folder), folder, Console(markup=False, highlight=False, emoji=False))
