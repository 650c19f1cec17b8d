"""`envknee knee`: measure a training command, without writing a study by hand.

Input: a preset and the command after `--`; sizes, if they are known. Output: results/<name>/knee.yaml, a study like any other, and its
verdict.

    envknee knee --preset mjlab -- train Mjlab-Cartpole-Balance
    envknee knee --num-envs 512..16384 --preset mjlab -- train Mjlab-Cartpole-Balance

Trials run on every GPU of this machine, each on its own. With --profile slurm they are jobs, and with --profile allocation steps of a job.

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

from envknee.base.fields import KINDS
from envknee.machine.processes import own_python_first
from envknee.run import deadline, knee_places, sweep
from envknee.run.knee_study import (
    CLIMB_REPEATS,
    DOUBLINGS,
    FIRST_SIZE,
    GRID_REPEATS,
    layout_again,
    layout_of,
    name_for,
    study_of,
    without_placeholders,
)
from envknee.study import presets
from envknee.study.errors import UserError
from envknee.study.files import write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.trainers.command import program
from envknee.words.numbers import counted

RANGE = re.compile(r"(\d+)\.\.(\d+)")
LIST = re.compile(r"\d+(,\d+)*")
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smh])")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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


def _studied(given: argparse.Namespace, argv: list[str], horizon: int, path: Path) -> dict[str, Any]:
    """Return the study of these options, as its file has it if there is one; only the number of workers may have changed.

    Raises:
        UserError: where the options make no study, or the place of the trials is not there.
    """
    at_once = given.workers or knee_places.at_once(given.profile, given.gpus, searches=given.num_envs is None)
    before: Any = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None
    is_study = isinstance(before, dict) and "throughput" in before
    layout = layout_again(before, at_once) if is_study else layout_of(given, argv, horizon, at_once)
    study = study_of(given, argv, horizon, layout)
    parse_study(study, "the study that these options make")
    return study


def _without_numbers_of_workers(study: dict[str, Any]) -> dict[str, Any]:
    """Return a study without what may change in its folder."""
    sections = {
        kind: study[kind] | ({"workers": 1} if "workers" in study[kind] else {}) for kind in KINDS if kind in study
    }
    return study | sections


def write(study: dict[str, Any], path: Path) -> None:
    """Write a study into its folder of results. Raises a UserError if another one is there."""
    folder = path.parent
    text = yaml.safe_dump(study, sort_keys=False, allow_unicode=True)
    before = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else study
    if not isinstance(before, dict) or _without_numbers_of_workers(before) != _without_numbers_of_workers(study):
        raise UserError(
            f"{path} holds another study of that name. Give this one another (--name {study['study']}-2), or go on with that one:"
            " the same command as before"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, f"# Written by `envknee knee`. Change `study:` when you change anything else.\n{text}")


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


def _check_place(given: argparse.Namespace) -> None:
    """Make sure that the options about where trials run fit the others."""
    if given.workers is not None and given.workers < 1:
        raise UserError(f"--workers {given.workers}: expected at least 1 trial at once")
    if given.profile is not None and given.time is not None:
        raise UserError(
            f"--time {given.time.text} is for trials on this machine: in a queue, nobody knows when a trial begins. Take it out, or"
            " take --profile out"
        )
    if given.profile == "slurm" and given.num_envs is not None and given.workers is not None:
        raise UserError(
            f"--workers {given.workers}: with --profile slurm and --num-envs each trial is a job. max_gpus of the site says how many run"
            f" at once ({knee_places.SITE}). Take --workers out"
        )


def _say_how_many(study: Study) -> None:
    """Print how many trials run at once, if several do."""
    workers = max((sweep.workers or 1 for sweep in study.sections.values()), default=1)
    if workers > 1:
        gpus = study.arms["command"].gpus
        each = "" if gpus == 0 else f", each on {counted(knee_places.gpus_each(gpus), 'GPU')} of its own"
        print(f"envknee: {workers} trials run at once{each}", flush=True)


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
        "--gpus",
        type=lambda text: text if text == "auto" else int(text),
        default="auto",
        help="of a trial: auto (one), 0 (the CPU), 2, ...",
    )
    parser.add_argument(
        "--ranks",
        type=int,
        help="processes with num_envs environments each: 1 if one process uses all GPUs (default: one for each GPU)",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help=f"of each size, in processes of their own (default: {GRID_REPEATS}; without --num-envs at most {CLIMB_REPEATS}, or 2 a GPU)",
    )
    parser.add_argument("--iterations", type=int, default=5, help="that are timed at least (default: 5)")
    parser.add_argument(
        "--limit-s", type=float, default=900.0, help="a trial that takes longer is ended (default: 900)"
    )
    parser.add_argument("--target-reward", type=float, help="also measure the time to this reward")
    parser.add_argument("--budget-s", type=float, default=600.0, help="seconds of training for that (default: 600)")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="trials at once, each on GPUs of its own (default: as many as there are GPUs for; slurm: 4 at most)",
    )
    parser.add_argument(
        "--profile",
        choices=knee_places.PROFILES,
        help="slurm: trials are jobs of the cluster; allocation: steps on nodes of your job (default: on this machine)",
    )
    parser.add_argument("--dry-run", action="store_true", help="write the study and stop")
    parser.add_argument(
        "argv", nargs="+", metavar="COMMAND", help="the command that you run; behind --, what begins with - is its"
    )
    given = parser.parse_args()
    environment = None if given.time is None else deadline.ends_in(given.time.seconds)
    _check_range(given)
    _check_place(given)
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
    path = Path("results") / given.name / "knee.yaml"
    study = _studied(given, argv, preset.horizon, path)
    if not given.dry_run:
        knee_places.check_room(given.profile, given.gpus, given.workers)
    write(study, path)
    print(f"envknee: wrote {path}", flush=True)
    if given.dry_run:
        return 0
    _say_how_many(parse_study(study))
    own_python_first()
    status = sweep.run_snakemake(knee_places.snakemake_words(path, given.profile, given.gpus), environment)
    from envknee.run import knee_alone, knee_end  # seconds of SciPy that a dry run does not need

    typed = shlex.join(["envknee", "knee", *sys.argv[1:]])
    search = None
    if given.profile != "slurm":  # there nobody knows what else runs on a job's node
        search = knee_alone.Search(path, given.profile, deadline.left_s(environment))
    return knee_end.close(StudyFolder(path.parent), status, given.time and given.time.text, typed, search)
