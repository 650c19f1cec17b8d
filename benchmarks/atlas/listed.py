"""The list of programs and tasks (tasks.yaml), read and checked. Pure, except for the file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from envknee.study import presets
from envknee.study.errors import UserError, nearest
from envknee.study.load import explain
from envknee.study.plain import read_plain
from envknee.study.value_types import STUDY_NAME, Positive, Strict
from pydantic import Field, ValidationError

LIST = Path(__file__).with_name("tasks.yaml")

Words = Annotated[list[str], Field(min_length=1)]


class Program(Strict):
    """A training program of somebody else's."""

    about: str
    """Its name, for people."""
    version: str
    """Of the package, or of the repository that has its script."""
    preset: str
    """Its preset (`envknee presets`)."""
    start: Words
    """The words that start it, before a task's own."""
    install: str
    script: str | None = None
    """Where its script comes from, unless the package has it: repository, commit and path."""
    needs: str | None = None
    """What it needs of the machine, beside the package."""
    left_out: str | None = None
    """Why its tasks were not measured; None: they are. Delete it where they can be."""


class Task(Strict):
    """A task of a program, and how its search begins."""

    program: str
    about: str
    """What is simulated, in a few words."""
    command: Words
    """The words after the program's `start`. The last one is best the task's name: it names the study's task."""
    observations: Literal["state", "pixels"]
    contacts: bool
    """Whether bodies touch each other in it."""
    first_size: Positive = Field(default=256, alias="from")
    """The first num_envs of the climb."""
    horizon: Positive | None = None
    """None: the preset's."""
    num_envs: str | None = None
    """`512..4096`: sizes in place of a climb. A target reward needs them."""
    batch_size: str | None = None
    """`8192` or `8192,16384`: transitions per optimizer step; None: the program's own."""
    repeats: Positive | None = None
    """Of each size; None: what `knee` takes."""
    target_reward: float | None = None
    budget_s: Positive | None = None
    """Seconds of training for the target."""

    def _problems(self) -> Iterator[str]:
        if self.target_reward is not None and self.num_envs is None:
            yield "target_reward needs num_envs, such as 512..4096"
        if (self.target_reward is None) != (self.budget_s is None):
            yield "target_reward and budget_s belong together"


class Atlas(Strict):
    """Programs and tasks by name."""

    programs: dict[str, Program]
    tasks: dict[str, Task]

    def _problems(self) -> Iterator[str]:
        for name, task in self.tasks.items():
            if not STUDY_NAME.fullmatch(name):
                yield f"the task {name!r} names a study: expected lower-case letters, digits, - and _"
            if task.program not in self.programs:
                yield f"the task {name} has no program {task.program!r}{nearest(task.program, self.programs)}"
        for program in self.programs.values():
            presets.read(program.preset)  # raises a ValueError that names the nearest

    def program_of(self, task: str) -> Program:
        """Return the program of a task."""
        return self.programs[self.tasks[task].program]

    def left_out(self) -> dict[str, str]:
        """Return the tasks that are not run, and why: those of programs that are left out."""
        programs = {name: self.program_of(name) for name in self.tasks}
        return {name: program.left_out for name, program in programs.items() if program.left_out is not None}

    def named(self, names: Sequence[str]) -> list[str]:
        """Return these tasks, or all without any.

        Raises:
            UserError: for a name that is not in the list.
        """
        for name in names:
            if name not in self.tasks:
                raise UserError(
                    f"the atlas has no task {name!r}{nearest(name, self.tasks)}. Expected some of: {', '.join(self.tasks)}"
                )
        return list(names or self.tasks)


def read_atlas(path: Path = LIST) -> Atlas:
    """Return the list in a file.

    Raises:
        UserError: when it cannot be read, or says which key is wrong.
    """
    data = read_plain(path, "a list of programs and tasks", str(LIST))
    try:
        return Atlas.model_validate(data)
    except ValidationError as error:
        problems = "\n".join(f"  {explain(problem, _legal_keys)}" for problem in error.errors())
        raise UserError(f"{path} is no list of programs and tasks:\n{problems}\n{LIST} is one.") from error


def _legal_keys(location: list[str]) -> list[str]:
    """Return the keys that are legal at a place in the list."""
    model = {"programs": Program, "tasks": Task}.get(location[0], Atlas) if location else Atlas
    return [field.alias or name for name, field in model.model_fields.items()]
