"""`envknee knee`: measure a training command, without writing a study by hand.

Input: a preset and the command after `--`; sizes, if they are known. Output: results/<name>/knee.yaml, a study like any other, and its
verdict.

    envknee knee --preset mjlab -- train Mjlab-Cartpole-Balance
    envknee knee --num-envs 512..16384 --preset mjlab -- train Mjlab-Cartpole-Balance

Without --num-envs one trial of each size climbs from --from until two doublings in a row gain little, memory is full or the program
breaks. Then only the doublings that decide are repeated (`sampler: adaptive` with `ascending`).

The same call again continues where it stopped. `snakemake --configfile results/<name>/knee.yaml` does the same in a checkout.
"""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from envknee.machine.processes import own_python_first
from envknee.run import deadline, sweep
from envknee.study import presets
from envknee.study.errors import UserError
from envknee.study.files import write_atomically
from envknee.study.load import parse_study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import STUDY_NAME
from envknee.trainers.command import program

RANGE = re.compile(r"(\d+)\.\.(\d+)")
LIST = re.compile(r"\d+(,\d+)*")
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}

DOUBLINGS = 12
"""How many doublings of the first size a search without a range may climb."""

FIRST_SIZE = 256

GRID_REPEATS = 3
TIMED = {"timed_share": 0.333, "precision": 0.015}
"""A start of half a minute is worth ten seconds of timing, unless the median is known sooner."""

CLIMB_REPEATS = 8
"""Most repeats of a size without a range: only those that decide get them."""


def sizes(text: str) -> Any:
    """Read `512..16384` as doublings and `512,1000` as a list, for argparse."""
    if match := RANGE.fullmatch(text):
        return {"from": int(match[1]), "to": int(match[2])}
    if LIST.fullmatch(text):
        return [int(number) for number in text.split(",")]
    raise argparse.ArgumentTypeError(
        f"{text!r}: expected A..B for A, 2A, 4A, ... up to B, or numbers with commas between them"
    )


class Duration(NamedTuple):
    """A time as a user typed it, and in seconds."""

    text: str
    seconds: float


def duration(text: str) -> Duration:
    """Read `90s`, `15m` or `1.5h`, for argparse."""
    match = DURATION.fullmatch(text)
    seconds = float(match[1]) * SECONDS[match[2]] if match else 0.0
    if seconds <= 0.0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time above 0 with its unit, such as 90s, 15m or 1.5h")
    return Duration(text, seconds)


def name_for(preset: str, argv: list[str]) -> str:
    """Return a name for a study, from the preset and the command's last word. Pure."""
    words = [Path(preset).stem, *(Path(word).name for word in argv[-1:])]
    name = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:64].strip("-")
    return name if STUDY_NAME.fullmatch(name) else "knee"


def study_of(given: argparse.Namespace, argv: list[str], horizon: int) -> dict[str, Any]:
    """Return the study as plain data. Pure."""
    climbs = given.num_envs is None
    first = FIRST_SIZE if given.first_size is None else given.first_size
    shared = {
        "num_envs": {"from": first, "to": given.last_size or first * 2**DOUBLINGS} if climbs else given.num_envs,
        "horizon": [horizon if given.horizon is None else given.horizon],
        "batch_size": "library" if given.batch_size is None else given.batch_size,
    }
    most = CLIMB_REPEATS if climbs else GRID_REPEATS
    repeats = most if given.repeats is None else given.repeats
    # One worker asks trial by trial, each knowing all before it.
    search = {"sampler": "adaptive", "adaptive": {"ascending": True}, "workers": 1} if climbs else {}
    command: dict[str, Any] = {"preset": given.preset, "argv": argv}
    if given.ranks is not None:
        command["ranks"] = given.ranks
    study: dict[str, Any] = {
        "study": given.name,
        "task": {"id": " ".join([Path(argv[0]).name, argv[-1]])},
        "arms": {"command": {"trainer": "command", "gpus": given.gpus, "command": command}},
        "throughput": shared
        | {"repeats": repeats, "iterations": given.iterations}
        | TIMED
        | {"limit_s": given.limit_s}
        | search,
    }
    if climbs:
        study["window"] = 1
    if given.target_reward is not None:
        study["learning"] = shared | {
            "repeats": max(2, repeats), "target_reward": given.target_reward, "budget_s": given.budget_s,
            "limit_s": given.budget_s + given.limit_s,
        }  # fmt: skip
    return study


def without_placeholders(word: str, place: str) -> str:
    """Return the place of the file that a word names, with braces doubled in its folders: they are no placeholders. Pure."""
    if place == word:
        return word
    in_word = word if place.endswith(word) else ""
    folders = place.removesuffix(in_word) if in_word else place
    return folders.replace("{", "{{").replace("}", "}}") + in_word


def write(study: dict[str, Any], folder: Path) -> Path:
    """Write a study into its folder of results, unless it is there. Raises a UserError if another one is."""
    path = folder / "knee.yaml"
    text = yaml.safe_dump(study, sort_keys=False, allow_unicode=True)
    if path.exists() and yaml.safe_load(path.read_text(encoding="utf-8")) != study:
        raise UserError(
            f"{path} holds another study of that name. Give this one another (--name {study['study']}-2), or go on with that one:"
            " the same command as before"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"# Written by `envknee knee`. Change `study:` when you change anything else.\n{text}")
    return path


def _check_range(given: argparse.Namespace) -> None:
    """Make sure that the options about sizes fit each other."""
    if given.num_envs is not None and given.first_size is not None:
        raise UserError(
            f"--from {given.first_size} begins a search without a range, and --num-envs gives one. Take one of them out"
        )
    if given.num_envs is not None and given.last_size is not None:
        raise UserError(
            f"--to {given.last_size} ends a search without a range, and --num-envs gives one. Take one of them out"
        )
    first = FIRST_SIZE if given.first_size is None else given.first_size
    if first < 1:
        raise UserError(f"--from {first}: expected at least 1 environment")
    if given.last_size is not None and given.last_size < 2 * first:
        default = "" if given.first_size is not None else ", its default"
        raise UserError(
            f"--from {first}{default}, and --to {given.last_size}: no doubling lies between them. Expected --to {2 * first} or"
            f" more, or a smaller --from"
        )
    if given.target_reward is not None and given.num_envs is None:
        raise UserError(
            f"--target-reward {given.target_reward:g} needs --num-envs A..B: the seconds to a reward do not tell how far to climb."
            f" Run without it first; its answer names the size. Then add sizes around that: --num-envs {first}..{16 * first}"
            f" --target-reward {given.target_reward:g}"
        )


def main() -> int:
    """Measure where more environments stop paying, for a command that you already run."""
    parser = argparse.ArgumentParser(
        description=main.__doc__,
        usage="%(prog)s [--num-envs A..B] --preset NAME [options] -- COMMAND ...",
        epilog="`envknee presets` lists the presets. A preset may also be the path of your own copy (mine.yaml).",
    )
    parser.add_argument(
        "--num-envs",
        type=sizes,
        help="512..16384: doublings; 512,1000: a list (default: double from --from until it is known)",
    )
    parser.add_argument(
        "--from",
        dest="first_size",
        metavar="N",
        type=int,
        help=f"first num_envs without --num-envs (default: {FIRST_SIZE})",
    )
    parser.add_argument(
        "--to",
        dest="last_size",
        metavar="N",
        type=int,
        help=f"largest num_envs without --num-envs (default: {DOUBLINGS} doublings of --from)",
    )
    parser.add_argument(
        "--time",
        type=duration,
        metavar="15m",
        help="end the whole search by then, with what is known: 90s, 15m or 1.5h (default: no limit)",
    )
    parser.add_argument("--preset", required=True, help="flags and log of the program: a name, or a YAML file")
    parser.add_argument("--horizon", type=int, help="environment steps per rollout (default: the preset's)")
    parser.add_argument("--batch-size", type=sizes, help="transitions per optimizer step (default: the program's own)")
    parser.add_argument("--name", help="of the study and its folder below results/")
    parser.add_argument(
        "--gpus", type=lambda text: text if text == "auto" else int(text), default="auto", help="auto, 0 (CPU), k"
    )
    parser.add_argument(
        "--ranks",
        type=int,
        help="processes with num_envs environments each: 1 if one process uses all GPUs (default: one for each GPU)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help=f"of each size, in processes of their own (default: {GRID_REPEATS}; without --num-envs {CLIMB_REPEATS} at most)",
    )
    parser.add_argument("--iterations", type=int, default=5, help="that are timed at least (default: 5)")
    parser.add_argument(
        "--limit-s", type=float, default=900.0, help="a trial that takes longer is ended (default: 900)"
    )
    parser.add_argument("--target-reward", type=float, help="also measure the time to this reward")
    parser.add_argument("--budget-s", type=float, default=600.0, help="seconds of training for that (default: 600)")
    parser.add_argument("--dry-run", action="store_true", help="write the study and stop")
    parser.add_argument(
        "argv", nargs="+", metavar="COMMAND", help="the command that you run; behind --, what begins with - is its"
    )
    given = parser.parse_args()
    environment = None if given.time is None else deadline.ends_in(given.time.seconds)
    _check_range(given)
    try:
        preset = presets.read(given.preset)
    except ValueError as error:
        raise UserError(f"--preset {error}") from error
    given.name = given.name or name_for(given.preset, given.argv)
    if presets.is_file(given.preset):
        given.preset = str(Path(given.preset).resolve())
    # With whole paths the command can be run from anywhere.
    found = program.located(given.argv, program.users_path(os.environ), Path.cwd())
    argv = [without_placeholders(word, place) for word, place in zip(given.argv, found, strict=True)]
    study = study_of(given, argv, preset.horizon)
    parse_study(study, "the study that these options make")
    path = write(study, Path("results") / given.name)
    print(f"envknee: wrote {path}", flush=True)
    if given.dry_run:
        return 0
    words = sweep.snakemake_words(path, str(sweep.SHIPPED / "default"), sweep.devices_here())
    own_python_first()
    status = sweep.run_snakemake(words, environment)
    from envknee.run import knee_end  # seconds of SciPy that a dry run does not need

    typed = shlex.join(["envknee", "knee", *sys.argv[1:]])
    return knee_end.close(StudyFolder(path.parent), status, given.time and given.time.text, typed)
