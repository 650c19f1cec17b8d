"""A real sweep under fire: processes of every kind are killed at random, and nothing may be lost, doubled or left behind.

Input: how many kills. Output: a line per event, then counts; exit status 1 unless all are 0 and every request is the one that a
sweep which nobody disturbs asks for (`envknee replay --verify`). Trials are real, on the CPU and tiny (24 x 24 pixels), in blocks and
in processes of their own: a kill takes about half a minute on an idle machine.

    python -m envknee drill --kills 50
    python -m envknee drill --kills 50 --trainer command
    python -m envknee drill --kills 50 --workers            two workers in place of blocks and of a process for each trial
    python -m envknee drill --soak 2000 --kills 20          a long sweep instead: memory, and runs in MLflow (see benchmarks/soak.py)

With `--trainer command`, trials run a program of somebody else's (`drilled_trainer.sh`): below a shell, with a daemon, deaf to SIGTERM.
It looks for others of its kind, so that a trial which is measured beside a left one is found.

Once all trials are measured, another repeat is asked for. Between kills a second sweep of the same study is started, which must
refuse, and a sweep whose files may not grow past a few kilobytes, as on a full disk. The clock of all Python processes (`time.time`)
jumps: an hour back, a year on. A power cut ends everything at once, and takes the end of a trial's rows.
"""

import argparse
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from envknee.after.replay import verify
from envknee.record.read import read_rows
from envknee.record.schema import Cost, Outcome
from envknee.study.errors import UserError, run_command
from envknee.study.files import read_model, sha256_of
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.study.space import plan

from benchmarks import soak

ROOT = Path(__file__).parents[1]
STUDY: dict[str, Any] = {
    "study": "drill",
    "task": {"overrides": {"env.scene.tiled_camera.width": 24, "env.scene.tiled_camera.height": 24}},
    "arms": {"stock": {"gpus": 0}},
    "throughput": {
        "num_envs": [2, 4], "horizon": 4, "batch_size": 8, "repeats": 2, "iterations": 1, "block": "all",
    },
    "learning": {
        "num_envs": [2, 4], "horizon": 4, "batch_size": 8, "repeats": 1, "target_reward": 1000.0, "budget_s": 2.0,
    },
}  # fmt: skip
COMMAND = Path(__file__).with_name("drilled_trainer.sh")
PROGRAM = COMMAND.with_suffix(".py")


def study_of_commands(folder: Path, name: str) -> dict[str, Any]:
    """Return a study whose trials run `drilled_trainer.sh`, in which the clock is as wrong as in all other processes."""
    names = {"fps": "fps", "collect_s": "collect", "learn_s": "learn", "reward": "reward"}
    command = {
        "argv": ["bash", str(COMMAND), sys.executable, str(PROGRAM), name, "{iterations}", "{num_envs}"],
        "env": {"PYTHONPATH": str(folder)},
        "rows": {"source": "jsonl", "path": "log.jsonl", "step": "iterations", "time_name": "time", "names": names},
    }
    sizes = {"num_envs": [2, 4], "horizon": 4, "batch_size": "library"}
    return {
        "study": "drill",
        "arms": {"program": {"trainer": "command", "gpus": 0, "command": command}},
        "throughput": sizes | {"repeats": 2, "iterations": 4},
        "learning": sizes | {"repeats": 1, "target_reward": 1000.0, "budget_s": 3.0},
    }


WORKERS = 2


def with_workers(study: dict[str, Any]) -> dict[str, Any]:
    """Return a study of which two workers measure each section: the second one waits for the CPU until the first is killed."""
    asked = {"sampler": "tpe", "block": 1, "workers": WORKERS}
    return study | {kind: study[kind] | asked for kind in ("throughput", "learning")}


def at_once(*, workers: bool, soaked: bool) -> int:
    """How many trials, or workers, Snakemake starts at once."""
    if workers:
        return WORKERS
    return soak.DEVICES if soaked else 1


OF_WORKERS = {"what starts workers": "envknee workers", "the worker": "envknee work "}
KEEPER = "the keeper"
OF_COMMANDS = {
    "the command's shell": COMMAND.name,
    "the command's daemon": f"{PROGRAM.name} daemon",
    "the command": PROGRAM.name,
}
KINDS = {
    KEEPER: "machine/keeper.py",
    "the block": "envknee.run.process --meeting", "the trial": "envknee.run.process", "the launcher": "envknee launch",
    "preparing": "envknee prepare", "asking": "envknee ask", "the verdict": "envknee verdict", "figures": "envknee figures",
    "publishing": "envknee publish", "the report": "envknee report", "Snakemake": "snakemake",
}  # fmt: skip
"""Kinds of processes, and what their command lines have in them: the first that fits counts."""

SHELL = "the shell"
"""In which Snakemake starts most of them."""

SMALL_DISK_BYTES = 4_096
JUMPS_S = (0.0, -3600.0, 365 * 86400.0)
"""By how much the clock is wrong."""

CLOCK = """
import os, time
right = time.time
def wrong():
    try:
        with open(os.environ["ENVKNEE_DRILL_CLOCK"]) as file:
            return right() + float(file.read())
    except (OSError, ValueError):
        return right()
time.time, time.time_ns = wrong, lambda: int(wrong() * 1e9)
"""
"""What every Python process of the sweep imports at its start (sitecustomize.py)."""

say = partial(print, flush=True)

LOOKS_S = 0.1
ENDS_S, LEAVES_S = 3600.0, 60.0


class Drill:
    """One sweep that is disturbed, in a folder of its own."""

    def __init__(
        self, folder: Path, dice: random.Random, of_commands: bool, soaked: int | None = None, workers: bool = False
    ) -> None:
        """Take an empty folder; `dice` decides what is killed when.

        `of_commands`: trials run a program of somebody else's. `soaked`: they do, so many, and each for milliseconds. `workers` measure
        them.
        """
        self.folder, self.dice = folder, dice
        self.name = str(folder / "program")
        self.study = study_of_commands(folder, self.name) if of_commands else STUDY
        if soaked is not None:
            self.study, of_commands = soak.study_of(soaked), True
        self.names = (OF_COMMANDS if of_commands else {}) | KINDS
        """Kinds of processes of this drill, and what their command lines have in them: the first that fits counts."""
        if of_commands:
            del self.names["the block"]
        if workers:
            self.study = with_workers(self.study)
            self.names = OF_WORKERS | {
                kind: words for kind, words in self.names.items() if kind not in ("the launcher", "asking")
            }
        self.first = ["preparing", *(["the worker"] if workers else [])]
        """What is killed first: there is no preparing once the first trial runs."""
        self.cuts = 0
        """Number of power cuts."""
        self.at_once = at_once(workers=workers, soaked=soaked is not None)
        self.file = folder / "drill.yaml"
        self.more_repeats = 0
        self.write_study()
        self.results = StudyFolder(folder / "results/drill")
        self.doubled: set[str] = set()
        """Trials whose outcome was measured once more."""
        self.killed: Counter[str] = Counter()
        """How often each kind was killed."""
        self._outcomes: dict[Path, str] = {}
        """The digest of each outcome that was seen."""
        self._torn: dict[Path, str] = {}
        """The digest of each outcome whose rows a power cut took: it stays where it is until its trial is measured once more."""
        self.began_s = time.monotonic()
        self.clock = folder / "clock"
        (folder / "sitecustomize.py").write_text(CLOCK, encoding="utf-8")
        paths = os.pathsep.join([str(folder), str(ROOT / "workflow")])
        self.variables = os.environ | {"PYTHONPATH": paths, "ENVKNEE_DRILL_CLOCK": str(self.clock)}

    def write_study(self) -> None:
        """Write the study file, with the further repeats that are asked for by now."""
        study = self.study | {
            kind: self.study[kind] | {"more_repeats": self.more_repeats}
            for kind in ("throughput", "learning")
            if kind in self.study
        }
        self.file.write_text(yaml.safe_dump(study), encoding="utf-8")

    def start(self, most_bytes: int | None = None) -> "subprocess.Popen[bytes]":
        """Start a sweep; with `most_bytes` no file that it writes can be larger."""
        words = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", str(self.file)]
        command = [sys.executable, "-m", "snakemake", *words, "--resources", f"device={self.at_once}"]
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most_bytes, most_bytes)) if most_bytes else None
        with (self.folder / "sweep.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.variables, stdout=log, stderr=log, start_new_session=True, preexec_fn=limit
            )  # fmt: skip

    def processes(self) -> list[psutil.Process]:
        """Return everything that runs in this folder."""
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes

    def kinds(self) -> dict[str, list[psutil.Process]]:
        """Return everything that runs here, by kind."""
        kinds: dict[str, list[psutil.Process]] = {}
        for process in self.processes():
            with suppress(psutil.Error):
                command = " ".join(process.cmdline())
                kind = self.kind_of(process.name(), command)
                if kind:
                    kinds.setdefault(kind, []).append(process)
        return kinds

    def kind_of(self, name: str, command: str) -> str | None:
        """Return the kind of a process, by its name and its command line."""
        if KINDS[KEEPER] in command:  # which has the words of another kind behind its own
            return KEEPER
        kind = next((kind for kind, words in self.names.items() if words in command), None)
        if name in ("bash", "sh") and kind not in OF_COMMANDS:
            return SHELL
        return kind

    def kill_one(self, at_once: bool = False) -> str | None:
        """Kill a process and return its kind: one that was killed least often, if it is met within a while.

        `at_once` waits for no kind: the sweep could be over before it is met.
        """
        # Snakemake and its shells run all the time: by chance alone, the others would hardly be met.
        fewest = min(self.killed[kind] for kind in (*self.names, SHELL))
        done = sum(self.killed.values())
        give_up_s = time.monotonic() + (0.0 if at_once else self.dice.uniform(1.0, 40.0))
        if not at_once and done < len(self.first) and self.first[done] in OF_WORKERS:
            give_up_s = math.inf  # a worker comes in every sweep that goes on, however long its start takes
        while True:
            met = self.kinds()
            if done < len(self.first):
                wanted = [kind for kind in met if kind == self.first[done]]
            else:
                wanted = sorted(kind for kind in met if self.killed[kind] == fewest)
            if wanted or not met or time.monotonic() > give_up_s:
                break
            time.sleep(LOOKS_S)
        if not met:
            return None
        kind = self.dice.choice(wanted or [min(sorted(met), key=lambda kind: self.killed[kind])])
        most_s = 2.0 if kind == "preparing" else 10.0  # which takes some six
        if not at_once:
            time.sleep(self.dice.choice([0.0, self.dice.uniform(0.0, most_s)]))  # at its start, or anywhere
        for process in self.dice.sample(met[kind], len(met[kind])):
            with suppress(psutil.Error):
                process.kill()
                self.killed[kind] += 1
                return kind
        return None

    def cut_power(self) -> None:
        """End everything at once, and tear the rows of a trial: zeros in place of the end of the file, or nothing there."""
        while running := self.processes():
            for process in running:
                with suppress(psutil.Error):
                    process.kill()
            time.sleep(LOOKS_S)
        self.cuts += 1
        paths = list(self.results.trial_files("metrics.jsonl"))
        if not paths:
            return
        path = self.dice.choice(paths)
        rows = path.read_bytes()
        left = rows[: self.dice.randrange(len(rows) + 1)].removesuffix(b"\n")
        path.write_bytes(left + self.dice.choice([b"", b"\0" * (len(rows) - len(left))]))
        outcome = path.with_name("outcome.json")
        if outcome.exists():
            self._torn[outcome] = sha256_of(outcome)
            self._outcomes.pop(outcome, None)  # that it is measured once more is right

    def beside(self) -> int:
        """Return how often a program met another one of its kind, which a killed launcher had left."""
        path = Path(f"{self.name}.beside")
        return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0

    def look(self) -> None:
        """Note outcomes, and which of those noted before are others now."""
        for path in self.results.trial_files("outcome.json"):
            with suppress(FileNotFoundError):
                digest = sha256_of(path)
                if self._torn.get(path) == digest:
                    continue
                if self._outcomes.setdefault(path, digest) != digest and path.parent.name not in self.doubled:
                    self.doubled.add(path.parent.name)
                    say(
                        f"measured twice: {path.parent.name}, which has {', '.join(sorted(file.name for file in path.parent.iterdir()))}"
                    )

    def disturb(self, kills: int) -> None:
        """Kill so many processes, starting the sweep again whenever it has ended."""
        done, sweep = 0, self.start()
        while done < kills:
            time.sleep(self.dice.uniform(0.5, 10.0))
            self.look()
            if sweep.poll() is not None:
                if not self.lost():
                    self.more_repeats += 1
                    self.write_study()
                is_full = self.dice.random() < 0.2
                say(f"{'a sweep on a full disk' if is_full else 'the sweep'} starts again")
                sweep = self.start(SMALL_DISK_BYTES if is_full else None)
            elif self.dice.random() < 0.1:
                second = self.start().wait(ENDS_S)
                say(f"a second sweep ended with status {second}")
            elif self.dice.random() < 0.1:
                jump_s = self.dice.choice(JUMPS_S)
                self.clock.write_text(str(jump_s), encoding="ascii")
                say(f"the clock is wrong by {jump_s:+,.0f} s")
            elif self.dice.random() < 0.1:
                self.cut_power()
                sweep.wait(ENDS_S)
                say("a power cut")
            elif kind := self.kill_one():
                done += 1
                say(f"kill {done} of {kills}: {kind}")
                if done == kills // 2:
                    sweep.wait(ENDS_S)
                    sweep = self.start()
                    # From here on there are verdicts to make, and runs to publish.
                    if status := sweep.wait(ENDS_S):
                        raise UserError(
                            f"a sweep that nothing disturbed ended with status {status}, and 0 was expected. Mend that first:\n"
                            f"{self.said()}"
                        )
        sweep.wait(ENDS_S)

    def said(self) -> str:
        """Return what sweeps printed last."""
        return (self.folder / "sweep.log").read_text(errors="replace")[-2000:]

    def planned(self) -> list[int]:
        """Return the numbers of all trials."""
        return [slot.number for slot in plan(read_study(self.file))]

    def lost(self) -> int:
        """Return how many trials have no record."""
        return sum(not self.results.trial(number).record.exists() for number in self.planned())

    def crashed(self) -> int:
        """Return how many trials are said to have crashed. No program of a drill does so by itself."""
        recorded = [self.results.trial(number).outcome for number in self.planned()]
        return sum(read_model(path, Outcome, "").status == "crashed" for path in recorded if path.exists())

    def wrong_durations(self) -> list[str]:
        """Return each recorded duration that is negative, or longer than this drill."""
        most_s = time.monotonic() - self.began_s
        wrong = []
        for number in self.planned():
            trial = self.results.trial(number)
            outcome = read_model(trial.outcome, Outcome, "")
            cost = read_model(trial.cost, Cost, "")
            durations = {"total_s": outcome.total_s, "held_s": cost.held_s, "lost held_s": cost.lost.held_s}
            for row in read_rows(trial):
                durations |= {
                    f"row {row.iteration}'s wall_s": row.wall_s,
                    f"row {row.iteration}'s iteration_s": row.iteration_s or 0.0,
                }
            bad = {name: value for name, value in durations.items() if not 0 <= value <= most_s}
            wrong += [f"trial {number}: {name} {value}" for name, value in bad.items()]
        return wrong

    def end(self) -> tuple[int, int]:
        """Sweep once more, undisturbed; return its exit status and how many processes are still there a while after."""
        status = self.start().wait(ENDS_S)
        self.look()
        give_up_s = time.monotonic() + LEAVES_S
        while self.processes() and time.monotonic() < give_up_s:
            time.sleep(0.5)
        return status, len(self.processes())

    def clear(self) -> None:
        """Kill whatever runs here still, and say what it is."""
        for process in self.processes():
            with suppress(psutil.Error):
                say(f"left behind: {process.pid} {' '.join(process.cmdline())[:120]}")
                process.kill()


def main() -> int:
    """Sweep a tiny study while its processes are killed at random."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many processes to kill (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what is killed, and when (default: %(default)s)")
    parser.add_argument(
        "--trainer", choices=["rsl_rl", "command"], default="rsl_rl", help="what trials run (default: %(default)s)"
    )
    parser.add_argument(
        "--soak", type=int, metavar="TRIALS", help="sweep so many trials of 40 ms, and watch memory and MLflow"
    )
    parser.add_argument("--workers", action="store_true", help=f"{WORKERS} workers measure the trials")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the sweep ends, too
    with tempfile.TemporaryDirectory(prefix="envknee-drill-") as folder:
        dice = random.Random(given.seed)  # noqa: S311  draws no secret
        drill = Drill(Path(folder).resolve(), dice, given.trainer == "command", given.soak, given.workers)
        samples = list[soak.Sample]()
        try:
            if given.soak is None:
                drill.disturb(given.kills)
            else:
                samples = soak.soak(drill, given.kills, say)
            status, orphaned = drill.end()
        finally:
            drill.clear()
        lost = drill.lost()
        if status:
            say(drill.said())
        requests, findings = verify(drill.results)
        wrong = [] if lost else drill.wrong_durations()
        say("killed: " + ", ".join(f"{kind} {drill.killed[kind]}" for kind in (*drill.names, SHELL)))
        beside = drill.beside()
        crashed = drill.crashed()
        left = f"lost {lost}, doubled {len(drill.doubled)}, orphaned {orphaned}, measured beside others {beside}, crashed {crashed}"
        say(f"power cuts: {drill.cuts}")
        say(f"{left}; the last sweep ended with status {status}")
        say(f"{requests} requests, {len(findings)} of them others than an undisturbed sweep asks for")
        missing = 0
        if given.soak is not None:
            took_s, runs = time.monotonic() - drill.began_s, soak.published(drill.results)
            missing = given.soak - runs
            say(f"{given.soak} trials in {took_s:,.0f} s; MLflow holds {runs} of them")
            say("\n".join(soak.memory_lines(samples)))
        say("".join([f"{len(wrong)} durations that cannot be", *(f"\n  {duration}" for duration in wrong)]))
        return int(
            bool(lost or drill.doubled or orphaned or beside or crashed or status or findings or wrong or missing)
        )


if __name__ == "__main__":
    run_command(main)
