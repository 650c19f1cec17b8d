"""Every command of envknee: name, module and a line of what it does.

`envknee NAME ...` runs one. The names of earlier versions (`python -m envknee.compare ...`) still answer: Python finds their modules
through this table.
"""

import sys
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
"""The folder with benchmarks/, where there is one."""


class Command(NamedTuple):
    """A command: the module that has its `main`, and what it does."""

    module: str
    does: str
    old_name: str | None = None
    """Module name of earlier versions, where that is not `envknee.NAME`."""

    def let_python_find_it(self) -> None:
        """Put benchmarks/ on the path for a command that lies there: TorchRL 0.14 installs a folder of the same name."""
        if self.module.startswith("benchmarks.") and sys.path[0] != str(PROJECT):
            sys.path.insert(0, str(PROJECT))


COMMANDS = {
    "knee": Command("envknee.run.knee", "measure a command that you already run, without a study file"),
    "presets": Command("envknee.study.presets", "list the programs whose flags and logs are known"),
    "check": Command("envknee.study.load", "check a study file", "envknee.config"),
    "plan": Command("envknee.ask.plan", "say what a study would measure and could show"),
    "prepare": Command("envknee.run.prepare", "check every arm of a study before its first trial"),
    "ask": Command("envknee.ask.ask", "write the next request of a study"),
    "launch": Command("envknee.run.launch", "run one trial and write its record"),
    "trial": Command("envknee.run.process", "run one trial without launcher, time limit and record"),
    "record": Command("envknee.record.read", "write a trial's record again from its measurements"),
    "verdict": Command("envknee.decide.study", "decide: verdict.json and records.csv", "envknee.limits.verdict"),
    "figures": Command("envknee.show.figures.draw", "draw every figure"),
    "report": Command("envknee.show.report", "write report.html"),
    "summary": Command("envknee.show.terminal", "print what a study found"),
    "limits": Command("envknee.after.csv.command", "a verdict over your own table of measurements"),
    "compare": Command("envknee.after.compare.print", "compare two studies, arms or commits"),
    "replay": Command("envknee.after.replay", "run recorded requests again, or verify a study's decisions"),
    "repeats": Command("envknee.after.repeats", "say whether trials came out the same, bit for bit"),
    "keep": Command("envknee.after.keep", "copy a study's measurements, to be committed"),
    "archive": Command("envknee.after.archive", "pack a study as one file, or unpack one"),
    "optuna": Command("envknee.after.optuna_export", "write a study as an Optuna journal", "envknee.optuna_export"),
    "bundle": Command("envknee.after.isaaclab_export", "write trials as Isaac Lab's own benchmark would"),
    "publish": Command("envknee.tracking.__main__", "publish a study to MLflow, or open its page"),
    "server": Command("envknee.tracking.server", "start a tracking server for a group", "envknee.tracking.server"),
    "tasks": Command("envknee.tasks.table", "list every registered task: what runs, with which preset, what it lacks"),
    "gpus": Command("envknee.machine.gpus", "print how many trials this machine runs side by side"),
    "image": Command("envknee.run.container.apptainer", "print what an image is: hashes and labels"),
    "docker": Command("envknee.run.container.docker", "pin the image that Docker or Podman runs trials in"),
    "prove": Command(
        "benchmarks.prove", "show how often verdicts are right, in simulated studies", "envknee.limits.prove"
    ),
    "drill": Command("benchmarks.drill", "kill processes of a real sweep at random, and count what is lost"),
    "blocks": Command("benchmarks.blocks", "compare trials in blocks with trials in fresh processes"),
    "neighbours": Command("benchmarks.neighbours", "measure what trials on a machine's other GPUs cost"),
    "overhead": Command("benchmarks.overhead", "measure what measuring costs"),
    "economy-replay": Command(
        "benchmarks.economy_replay", "show what sampler: adaptive would have saved in a grid", "envknee.economy_replay"
    ),
}


def usage() -> str:
    """Return the list of commands, a line each."""
    lines = [f"  {name:<16}{command.does}" for name, command in COMMANDS.items()]
    return "usage: envknee COMMAND ...\n\n" + "\n".join(lines) + "\n\n`envknee COMMAND --help` explains one.\n"


class OldName(InspectLoader):
    """Runs a command by its old name, so that no command's module needs lines of its own for that."""

    def __init__(self, module: str) -> None:
        self.module = module

    def get_source(self, fullname: str) -> str:
        """Return what `python -m` runs. Nothing is run in multiprocessing's children, which go through it under another name."""
        run = f"from envknee.study.errors import run_command; from {self.module} import main; run_command(main)"
        return f"if __name__ == '__main__': {run}"

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where the command called `name` lies, or None for any other module."""
        wanted = name.removesuffix(".__main__")  # what Python runs of a package
        for short, command in COMMANDS.items():
            if wanted == (command.old_name or f"envknee.{short}"):
                command.let_python_find_it()
                has_others = name == "envknee.limits"  # below it, such as envknee.limits.verdict: this finder answers
                return ModuleSpec(name, OldName(command.module), origin=command.module, is_package=has_others)
        return None
