"""The two sides of a comparison: the trials of a folder, an arm or a commit."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
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
    """One arm of a study."""

    name: str
    study: Study
    records: list[Record]
    """Records of this arm."""
    arm: str

    @property
    def verdict(self) -> ArmVerdict:
        """The verdict on this side alone."""
        return next(arm for arm in decide(self.records, self.study).arms if arm.arm == self.arm)


@dataclass(frozen=True)
class Given:
    """A side as the user names it: `FOLDER`, then maybe `@BUILD` (a commit or an image), then maybe `:ARM`."""

    text: str
    study: Study
    records: list[Record]
    arm: str | None

    @staticmethod
    def read(text: str) -> "Given":
        """Read a side's study and records.

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
        return Given(text, study, _of_build(records, build, path) if build else records, arm or None)

    def arms(self) -> list[str]:
        """Return the named arm, or all arms with a finished trial."""
        return [self.arm] if self.arm else sorted({record.request.arm for record in self.records})

    def side(self, arm: str, several: bool) -> Side:
        """Return one arm as a side, whose name includes the arm if there are `several`."""
        own = [record for record in self.records if record.request.arm == arm]
        if not own:
            raise UserError(f"{self.text} holds no finished trial of arm {arm!r}. Run the sweep first")
        return Side(f"{self.text}:{arm}" if several else self.text, self.study, own, arm)


def sides(a: Given, b: Given) -> list[tuple[Side, Side]]:
    """Return the pairs of sides to compare: the named arms, the only arms, or every common arm.

    Raises:
        UserError: when it is not clear which arm is meant.
    """
    of_a, of_b = a.arms(), b.arms()
    if len(of_a) == len(of_b) == 1:
        return [(a.side(of_a[0], False), b.side(of_b[0], False))]
    common = sorted(set(of_a) & set(of_b))
    if not common or a.text == b.text:
        known = a if len(of_a) > 1 else b
        names = ", ".join(f"{known.text}:{name}" for name in known.arms())
        raise UserError(f"{known.text} has {len(known.arms())} arms. Name one of them: {names}")
    return [(a.side(arm, a.arm is None), b.side(arm, b.arm is None)) for arm in common]


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
