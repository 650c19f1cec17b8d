"""The setting of a study's answer, for a shell or a script.

Input: a study's folder, or with --task the store of earlier answers. Output: the setting on standard output, and nothing else there; what
limits it on standard error. While the study is undecided nothing is printed, and the exit status is 4.

    envknee best results/<study>                       arguments for the study's program
    envknee best results/<study> --only num_envs       one value alone
    envknee best results/<study> --for fps --gpu 24GB --format json
    envknee best --task Isaac-Ant                      what an earlier study on this machine decided
"""

import argparse
import re
import shlex
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import yaml

from envknee import trainers
from envknee.decide.verdict_file import read_verdict
from envknee.machine.environment import device_name
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.run.answers import store, stored_answers, study_answers
from envknee.study.errors import EXIT_UNDECIDED, UserError, nearest, printable, tell
from envknee.study.files import canonical_json
from envknee.verdict.best import AXES, best_of, chosen, default_aim, gpu_memory_gb
from envknee.verdict.schema.best import ANSWERED_BY, Aim, Answer, Best
from envknee.words.best import answer_words, composed_line, lacks_line, origin_line, undecided_line

Format = Literal["args", "env", "json", "yaml"]

UNITS_GB = {"MIB": 2**20 / 1e9, "GIB": 2**30 / 1e9, "MB": 1e-3}
"""Units of --gpu beside GB, in GB (1e9 bytes)."""

SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


class Found(NamedTuple):
    """What was chosen from, and where it is looked at further."""

    answers: Sequence[Answer]
    place: str


def memory_gb(text: str) -> float:
    """Return the GB (1e9 bytes) of `24GB`, `24 GiB` or `24576MiB`, for argparse. Pure."""
    match = SIZE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0.0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size with its unit, such as 24GB, 24GiB or 24576MiB")
    size, unit = float(match[1]), match[2].upper()
    if not unit:
        raise argparse.ArgumentTypeError(f"{text!r} has no unit: write {match[1]}GB, {match[1]}GiB or {match[1]}MiB")
    if unit == "GB":
        return gpu_memory_gb(size)
    if unit not in UNITS_GB:
        raise argparse.ArgumentTypeError(f"{text!r}: expected the unit GB, GiB, MB or MiB")
    return size * UNITS_GB[unit]


def of_study(root: Path) -> Found:
    """Return the answers of a study's folder.

    Raises:
        UserError: when it has no verdict, or nothing in it is a result.
    """
    folder = study_folder(root)
    verdict, records = read_verdict(folder), load_records(folder)
    if verdict.drill is not None:
        raise UserError(f"{root} is a drill ({verdict.drill}): nothing in it is a result. Name another study")
    answers = study_answers(verdict, records)
    if not answers:
        raise UserError(f"{root} has no result: no trial of it ran. `envknee summary {root}` says why")
    return Found(answers, str(root))


def of_task(task: str, device: str) -> Found:
    """Return the stored answers for a task on a device, those of the newest study of each arm and question.

    Raises:
        UserError: when there is none.
    """
    known = stored_answers()
    of_this = [answer for answer in known if answer.task_id == task]
    if not of_this:
        tasks = sorted({answer.task_id for answer in known})
        others = f" It has answers for {', '.join(map(repr, tasks))}{nearest(task, tasks)}." if tasks else ""
        raise UserError(f"{store()} has no answer for the task {task!r}.{others} Measure it: `envknee init` or `knee`")
    here = [answer for answer in of_this if device.lower() in answer.device.lower()]
    if not here:
        devices = ", ".join(sorted({answer.device for answer in of_this}))
        raise UserError(
            f"{store()} has no answer for {task} on {device}. It has one for {devices}: name it with --on, such as"
            f" --on {shlex.quote(of_this[0].device)}"
        )
    return Found(_newest(here), f"--task {task}")


def _newest(answers: Sequence[Answer]) -> list[Answer]:
    """Return the newest answer for each device, program, arm and question; the input has the newest first. Pure."""
    newest: dict[tuple[str, ...], Answer] = {}
    for answer in answers:
        newest.setdefault((answer.device, answer.program, answer.arm, answer.kind), answer)
    return list(newest.values())


def of_arms(found: Found, arms: Sequence[str]) -> list[Answer]:
    """Return the answers of the named arms. Pure.

    Raises:
        UserError: when an arm is not there, or none is named and there are several.
    """
    known = list(dict.fromkeys(answer.arm for answer in found.answers))
    for arm in arms:
        if arm not in known:
            raise UserError(f"--arm {arm}: no such arm{nearest(arm, known)}. Expected {', '.join(known)}")
    if not arms and len(known) > 1:
        raise UserError(
            f"{found.place} has {len(known)} arms: {', '.join(known)}. Name one, such as --arm {known[0]}, or several to get the"
            " best of them"
        )
    return [answer for answer in found.answers if not arms or answer.arm in arms]


def best_for(found: Found, answers: Sequence[Answer], aim: Aim, room_gb: float | None) -> Best:
    """Return the best setting for an aim, on a GPU of `room_gb` if given. Pure.

    Raises:
        UserError: when it was not measured, nothing fits, or answers cannot be told apart or compared.
    """
    asked = [answer for answer in answers if answer.kind == ANSWERED_BY[aim]]
    if not asked:
        other = "fps" if ANSWERED_BY[aim] == "learning" else "soonest"
        raise UserError(
            f"--for {aim}: {found.place} has no {ANSWERED_BY[aim]} trials. Ask --for {other}, or measure a `{ANSWERED_BY[aim]}` section"
        )
    if len({(answer.program, answer.device) for answer in asked}) > 1 and found.place.startswith("--task"):
        raise UserError(
            f"{found.place} has several answers: {', '.join(map(answer_words, asked))}. Name a device with --on, or a study's folder"
        )
    if aim == "cheapest" and len({answer.gpus > 0 for answer in asked}) > 1:
        raise UserError("--for cheapest: some of these arms ran on GPUs and others on a CPU. Name one kind with --arm")
    if room_gb is not None:
        _check_gpu(asked, room_gb)
    candidates = [best for answer in asked if (best := chosen(answer, aim, room_gb)) is not None]
    if not candidates:
        raise Undecided(f"{found.place} has no setting yet: no trial reached a result for `--for {aim}`")
    return best_of(candidates)


def _check_gpu(answers: Sequence[Answer], room_gb: float) -> None:
    """Make sure that some setting fits a GPU."""
    if any(answer.gpus == 0 for answer in answers):
        raise UserError("--gpu: these trials ran on a CPU, and the memory that they took there is not that of a GPU")
    peaks = [option.peak_gb for answer in answers for option in answer.options if option.peak_gb is not None]
    if not peaks:
        raise UserError("--gpu: the memory of these trials was not measured, so that nothing is known to fit")
    margin = max(answer.memory_margin for answer in answers)
    if min(peaks) > room_gb * (1.0 - margin):
        raise UserError(
            f"--gpu: no measured setting fits {room_gb:,.1f} GB with {margin:.0%} kept free: the smallest takes {min(peaks):,.2f} GB."
            " Measure smaller sizes, or `memory.memory_cap_gb` in an arm"
        )


class Undecided(UserError):
    """A study has no answer yet."""

    exit_status = EXIT_UNDECIDED


def one_value(best: Best, axis: str) -> int:
    """Return the value of an axis that was swept. Pure.

    Raises:
        UserError: when there is no such axis, or all trials had the same value.
    """
    if axis not in AXES:
        raise UserError(f"--only {axis}: no such axis{nearest(axis, AXES)}. Expected {', '.join(AXES)}")
    value = getattr(best, axis)
    if axis not in best.swept:
        fixed = "the library's own" if value is None else f"{value}"
        swept = ", ".join(best.swept) or "none"
        raise UserError(f"--only {axis}: it was not swept, and is {fixed} in every trial. Swept: {swept}")
    return value


def printed(best: Best, shape: Format) -> str:
    """Return the answer as text. Pure.

    Raises:
        UserError: with `args`, when no command of the program is known.
    """
    if shape == "json":
        return canonical_json(best)
    if shape == "yaml":
        plain = best.model_dump(mode="json")
        setting_first = {name: plain[name] for name in (*AXES, *plain)}
        return yaml.safe_dump(setting_first, sort_keys=False, allow_unicode=True)
    if shape == "env":
        values = ((axis, getattr(best, axis)) for axis in AXES)
        return "".join(f"{axis.upper()}={value}\n" for axis, value in values if value is not None)
    if best.command is None or not best.command.of_setting:
        raise UserError(
            f"--format args: no arguments are known for the program {best.program}. Take --format env, json or yaml, or --only"
        )
    return f"{printable(shlex.join(best.command.of_setting))}\n"


def installed(best: Best) -> dict[str, str | None]:
    """Return the versions here of the packages that an answer names; none for a program that has an environment of its own."""
    if best.program not in trainers.names():
        return {}
    here: dict[str, str | None] = {}
    for package in best.versions:
        try:
            here[package] = version(package)
        except PackageNotFoundError:
            here[package] = None
    return here


def arguments() -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(
        description="Print the setting of a study's answer. Exit 0: decided; 4: undecided, and nothing is printed."
    )
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument("--task", help="instead of a folder: answer from what earlier studies of this task decided")
    parser.add_argument(
        "--on", metavar="DEVICE", help="with --task: the device, such as H200 (default: this machine's)"
    )
    parser.add_argument(
        "--for", dest="aim", choices=get_args(Aim),
        help="soonest to the target, most FPS, or fewest GPU-seconds to the target"
        " (default: soonest if learning was measured, else fps)",
    )  # fmt: skip
    parser.add_argument(
        "--arm",
        action="append",
        default=[],
        metavar="NAME",
        help="the arm; may be given again: the best one of several",
    )
    parser.add_argument(
        "--gpu", type=memory_gb, metavar="SIZE", help="the best setting that fits a GPU of this size, such as 24GB"
    )
    parser.add_argument("--only", metavar="AXIS", help=f"one value alone: {', '.join(AXES)}")
    parser.add_argument(
        "--format", choices=get_args(Format), default="args",
        help="args: options of the study's program; env: NUM_ENVS=... (default: args)",
    )  # fmt: skip
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    parser.add_argument(
        "--allow-undecided", action="store_true", help="print the best setting so far of an undecided study, too"
    )
    given = parser.parse_args()
    if (given.folder is None) == (given.task is None):
        parser.error("expected the folder of a study, or --task")
    if given.on is not None and given.task is None:
        parser.error("--on goes with --task: a folder has its own device")
    if given.on == "" or (given.only is not None and given.format != "args"):
        parser.error("--only prints one value: take --format out" if given.only else "--on needs a name")
    return given


def main() -> int:
    """Print the setting of a study's answer."""
    given = arguments()
    found = of_study(given.folder) if given.task is None else of_task(given.task, given.on or device_name())
    answers = of_arms(found, given.arm)
    best = best_for(found, answers, given.aim or default_aim(answers), given.gpu)
    said = printed(best, given.format) if given.only is None else f"{one_value(best, given.only)}\n"
    if given.task is not None:
        tell(origin_line(best, time.time(), installed(best)))
    if best.state != "decided":
        tell(undecided_line(best))
        if not given.allow_undecided:
            tell("nothing is printed; --allow-undecided prints it")
            return EXIT_UNDECIDED
    if given.format in ("args", "env"):  # the other formats have it among their fields
        for line in filter(None, (composed_line(best), lacks_line(best))):
            tell(line)
    sys.stdout.write(said)
    return 0
