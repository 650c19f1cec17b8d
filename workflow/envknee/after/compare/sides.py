"""The two sides of a comparison: the trials of a folder, an arm or a commit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict.decide import decide
from envknee.verdict.read import load_measured
from envknee.verdict.schema.study import ArmVerdict

SHORTEST_HASH = 4
"""Fewest digits that name a commit or an image."""


@dataclass(frozen=True)
class Side:
    """A study, or one arm of it."""

    name: str
    study: Study
    records: list[Record]
    arm: str | None
    """None: every arm."""

    @staticmethod
    def read(text: str) -> "Side":
        """Read what a user names: `FOLDER`, then maybe `@BUILD` (a commit or an image), then maybe `:ARM`.

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
        return Side(text, study, _of_build(records, build, path) if build else records, arm or None)

    @property
    def arms(self) -> list[str]:
        """The named arm, or all arms with a finished trial."""
        return [self.arm] if self.arm else sorted({record.request.arm for record in self.records})

    @property
    def verdict(self) -> ArmVerdict:
        """The verdict on this side alone, which is one arm."""
        return next(arm for arm in decide(self.records, self.study).arms if arm.arm == self.arm)

    def of(self, arm: str, several: bool) -> "Side":
        """Return one arm of this side. Its name includes the arm if there are `several`."""
        own = [record for record in self.records if record.request.arm == arm]
        if not own:
            raise UserError(f"{self.name} holds no finished trial of arm {arm!r}. Run the sweep first")
        return replace(self, name=f"{self.name}:{arm}" if several else self.name, records=own, arm=arm)


def sides(a: Side, b: Side) -> list[tuple[Side, Side]]:
    """Return the pairs of arms to compare: the named arms, the only arms, or every common arm.

    Raises:
        UserError: when it is not clear which arm is meant.
    """
    if len(a.arms) == len(b.arms) == 1:
        return [(a.of(a.arms[0], False), b.of(b.arms[0], False))]
    common = sorted(set(a.arms) & set(b.arms))
    if not common or a.name == b.name:
        known = a if len(a.arms) > 1 else b
        names = ", ".join(f"{known.name}:{name}" for name in known.arms)
        raise UserError(f"{known.name} has {len(known.arms)} arms. Name one of them: {names}")
    return [(a.of(arm, a.arm is None), b.of(arm, b.arm is None)) for arm in common]


def _builds(record: Record) -> list[str]:
    """Return the hashes of a trial's git commit, and of its image's content and file."""
    environment = record.outcome.environment
    if environment is None:
        return []
    image = environment.image
    builds = [environment.git_commit, *((image.content_sha256, image.sif_sha256) if image else ())]
    return [build.removeprefix("sha256:") for build in builds if build]


def _of_build(records: Sequence[Record], build: str, path: str) -> list[Record]:
    """Return the records of one commit or image, named by the first digits of its hash."""
    wanted = build.lower().removeprefix("sha256:")
    known = Counter(name for record in records for name in _builds(record))
    matching = [name for name in known if name.startswith(wanted)]
    if len(matching) != 1 or len(wanted) < SHORTEST_HASH:
        why = "is too short" if len(wanted) < SHORTEST_HASH else "fits none" if not matching else "fits several"
        listed = ", ".join(f"{name[:12]} ({count} trials)" for name, count in known.most_common())
        raise UserError(
            f"{path}@{build}: {build!r} {why} of the commits and images that its trials ran with: {listed or 'none known'}."
            f" Give at least {SHORTEST_HASH} digits of one of them"
        )
    return [record for record in records if matching[0] in _builds(record)]
