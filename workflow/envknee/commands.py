"""Every command of envknee: name, module and a line of what it does. `envknee NAME ...` runs one."""

import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple

from envknee.study.errors import UserError, nearest
from envknee.study.paths import shipped

CHECKOUT = Path(__file__).parents[2]
"""The folder with benchmarks/, unless envknee was installed from a wheel."""

ISAAC_LAB = "isaaclab"
"""A package that a command may need. envknee measures programs of others without it."""


class Command(NamedTuple):
    """A command: the module that has its `main`, and what it does."""

    module: str
    does: str
    needs: str | None = None
    """The package without which the command does nothing."""
    prints: str | None = None
    """`module:type` of what it prints with --json; None without that option."""

    @property
    def is_ready(self) -> bool:
        """Whether the package that the command needs is installed."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


COMMANDS = {
    "knee": Command("envknee.run.knee", "measure a command that you already run, without a study file"),
    "presets": Command("envknee.trainers.command.known", "list the programs whose flags and logs are known"),
    "init": Command("envknee.run.init", "write a first study of your task, or a project for a cluster"),
    "check": Command("envknee.run.check", "check a study file"),
    "plan": Command(
        "envknee.ask.plan",
        "say what a study would measure and could show",
        prints="envknee.verdict.schema.plan:StudyPlan",
    ),
    "sweep": Command("envknee.run.sweep", "run a study, or go on with it, and say what was found"),
    "prepare": Command("envknee.run.prepare", "check every arm of a study before its first trial"),
    "ask": Command("envknee.ask.ask", "write the next request of a study"),
    "workers": Command("envknee.run.workers", "start the workers of a pool, and wait for their records"),
    "work": Command(
        "envknee.run.work", "be one worker: ask for trials of a pool and measure them, one after the other"
    ),
    "launch": Command("envknee.run.launch", "run one trial and write its record"),
    "trial": Command("envknee.run.process", "run one trial without launcher, time limit and record"),
    "record": Command("envknee.record.trial_files", "write a trial's record again from its measurements"),
    "verdict": Command("envknee.decide.study", "decide: verdict.json and records.csv"),
    "figures": Command("envknee.show.figures.draw", "draw every figure"),
    "report": Command("envknee.show.report", "write report.html"),
    "summary": Command(
        "envknee.show.terminal", "print what a study found", prints="envknee.verdict.schema.study:Verdict"
    ),
    "best": Command(
        "envknee.after.best",
        "print the setting of a study's answer, for a shell or a script",
        prints="envknee.verdict.schema.best:Best",
    ),
    "watch": Command("envknee.show.watch.command", "show a sweep as it runs, here or elsewhere"),
    "limits": Command(
        "envknee.after.csv.command",
        "a verdict over your own table of measurements",
        prints="envknee.verdict.schema.table:TableAnswer",
    ),
    "compare": Command(
        "envknee.after.compare.print",
        "compare two studies, arms or commits",
        prints="envknee.verdict.schema.comparison:Comparisons",
    ),
    "history": Command(
        "envknee.after.history.command",
        "say where a task became faster or slower over versions, and gate the last ones",
        prints="envknee.verdict.schema.history:History",
    ),
    "replay": Command("envknee.after.replay", "run recorded requests again, or verify a study's decisions"),
    "repeats": Command("envknee.after.repeats", "say whether trials came out the same, bit for bit"),
    "keep": Command("envknee.after.keep", "copy a study's measurements, to be committed"),
    "archive": Command("envknee.after.archive", "pack a study as one file, or unpack one"),
    "optuna": Command("envknee.after.optuna_export", "write a study as an Optuna journal"),
    "bundle": Command("envknee.after.isaaclab_export", "write trials as Isaac Lab's own benchmark would", ISAAC_LAB),
    "publish": Command("envknee.tracking.__main__", "publish a study to MLflow, or open its page"),
    "server": Command("envknee.tracking.server", "start a tracking server for a group"),
    "tasks": Command(
        "envknee.tasks.table", "list every registered task: what runs, with which preset, what it lacks", ISAAC_LAB
    ),
    "gpus": Command("envknee.machine.gpus", "print how many trials this machine runs side by side"),
    "image": Command("envknee.run.container.apptainer", "print what an image is: hashes and labels"),
    "docker": Command("envknee.run.container.docker", "pin the image that Docker or Podman runs trials in"),
}
"""Commands of the package, in the order of the list."""

BENCHMARKS = {
    "prove": Command("benchmarks.prove", "show how often verdicts are right, in simulated studies"),
    "prove-joint": Command("benchmarks.joint.command", "show how often joint answers are right, in simulated studies"),
    "numbers": Command(
        "benchmarks.pages.command", "write the numbers of README and docs from the records, or check them"
    ),
    "drill": Command("benchmarks.drill", "kill processes of a real sweep at random, and count what is lost"),
    "worker-time": Command("benchmarks.workers", "seconds a trial with a worker, and with a process for each"),
    "blocks": Command("benchmarks.blocks", "compare trials in blocks with trials in fresh processes"),
    "neighbours": Command("benchmarks.neighbours", "measure what trials on a machine's other GPUs cost"),
    "overhead": Command("benchmarks.overhead", "measure what measuring costs"),
    "economy-replay": Command("benchmarks.economy_replay", "show what sampler: adaptive would have saved in a grid"),
    "probes": Command("benchmarks.probes", "show how well two sizes predict the knee of published curves"),
}
"""Commands that lie beside the package, so that only a checkout has them."""


def is_in_checkout() -> bool:
    """Tell whether this is a checkout, which has the benchmarks."""
    return (CHECKOUT / "benchmarks" / "prove.py").is_file()


def how_to_install() -> str:
    """Return what a user types to install Isaac Lab as it was tested: on a CPU, and with fewer packages than it declares."""
    locks = [shipped(f"containers/{name}.lock") for name in ("requirements", "requirements-cpu")]
    return f"pip install --no-deps --ignore-requires-python {' '.join(f'-r {lock}' for lock in locks)}"


def listed() -> dict[str, Command]:
    """Return the commands of this place: benchmarks only in a checkout."""
    return COMMANDS | BENCHMARKS if is_in_checkout() else COMMANDS


def usage() -> str:
    """Return the list of the commands that run here, a line each, and of those that need another package."""
    lines = ["usage: envknee COMMAND ...", ""]
    lines += [_line(name, command) for name, command in listed().items() if command.is_ready]
    waiting = {name: command for name, command in listed().items() if not command.is_ready}
    if waiting:
        lines += ["", "With Isaac Lab, which is not installed here (each says how to install it):", ""]
        lines += [_line(name, command) for name, command in waiting.items()]
    lines += ["", "`envknee COMMAND --help` explains one."]
    return "\n".join(lines) + "\n"


def _line(name: str, command: Command) -> str:
    return f"  {name:<16}{command.does}"


def find(name: str) -> Command:
    """Return the command of this name, ready to be imported.

    Raises:
        UserError: when there is none. For a command that does not run here, it says where it does, or what to install.
    """
    if name in BENCHMARKS:
        if not is_in_checkout():
            raise UserError(
                f"`envknee {name}` runs only in a checkout of envknee, whose benchmarks/ has its file: clone the repository and run"
                " it there"
            )
        # First, because TorchRL 0.14 installs a folder of the same name.
        sys.path.insert(0, str(CHECKOUT))
        return BENCHMARKS[name]
    if name not in COMMANDS:
        raise UserError(f"no command {name!r}{nearest(name, listed())}. `envknee --help` lists them.")
    command = COMMANDS[name]
    if not command.is_ready:
        raise UserError(_how_to_get_isaac_lab(f"envknee {name}"))
    return command


def has_isaac_lab() -> bool:
    """Tell whether Isaac Lab is installed here."""
    return importlib.util.find_spec(ISAAC_LAB) is not None


def need_isaac_lab(typed: str) -> None:
    """Check that Isaac Lab is installed, for a command that needs it only with some options.

    Raises:
        UserError: when it is not; says how to install it.
    """
    if not has_isaac_lab():
        raise UserError(_how_to_get_isaac_lab(typed))


def _how_to_get_isaac_lab(typed: str) -> str:
    return (
        f"`{typed}` needs Isaac Lab, and the package {ISAAC_LAB} is not installed here. Run it in a checkout of envknee after"
        f" `make setup`; or install `envknee[isaaclab]`, on Python 3.12; or Isaac Lab as `make setup` installs it: {how_to_install()}"
        " (with a GPU requirements-cuda.lock instead of requirements-cpu.lock)"
    )
