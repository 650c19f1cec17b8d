"""The pool of a section with `workers`: its trials, which several processes ask for and measure, each trial once.

Input: the study and its folder. Output: requests, and the trial that a worker measures next.

Workers agree through files alone. Whoever looks for a trial holds the pool's lock meanwhile, and asks for requests in the order of their
numbers; whoever measures one holds that trial's lock. Both end with their process, so that a dead worker's trial is free for the next one
that looks. A request knows the records that its window names (`Slot.first_unknown`), and no others, whatever ended first.

Trials may be in lanes (`Slot.lane`), so that each lane stays on one device. A worker has a lane, by a lock. It measures trials of that
lane, and of lanes that nobody has.
"""

from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from enum import Enum

from envknee.ask import ask
from envknee.machine import lock
from envknee.run import attempts
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot


class NoTrial(Enum):
    """Why there is no trial for a worker."""

    ALL_MEASURED = "every trial of the pool has a record"
    LATER = "others measure the trials that must come first"
    NONE_LEFT = "the other trials ended without a result, or need the record of one that did"


class Pool:
    """The trials of one pool."""

    def __init__(self, study: Study, folder: StudyFolder, number: int) -> None:
        """Take the pool whose first trial is `number`.

        Raises:
            UserError: when the plan has no such pool.
        """
        pools = {slots[0].number: slots for slots in space.pools(space.plan(study))}
        if number not in pools:
            named = ", ".join(map(str, pools)) or "none, because no section has `workers`"
            raise UserError(f"trial {number} begins no pool of study '{study.study}'. Trials that do: {named}")
        self.slots: Sequence[Slot] = pools[number]
        self._study, self._folder = study, folder
        self._lock = folder.pool_lock(number)
        self._lane: int | None = None
        self._lane_lock = ExitStack()
        for slot in self.slots:
            self.trial(slot).root.mkdir(parents=True, exist_ok=True)

    def trial(self, slot: Slot) -> TrialFolder:
        """Return the folder of a trial."""
        return self._folder.trial(slot.number)

    def of_arm(self, arm: str) -> list[TrialFolder]:
        """Return the folders of an arm's trials."""
        return [self.trial(slot) for slot in self.slots if slot.arm == arm]

    def unrecorded(self) -> list[Slot]:
        """Return the trials without a record, in the order of their numbers."""
        return [slot for slot in self.slots if not self.trial(slot).record.exists()]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the pool, which others hold for moments."""
        with lock.locked_in_turn(self._lock):
            yield

    def forget_torn(self) -> None:
        """Remove the records of trials that must be measured again, so that they are taken like others without a record."""
        for slot in self.slots:
            if self.trial(slot).record.exists():
                attempts.forget_torn(self.trial(slot))

    def leave_lane(self) -> None:
        """Let other workers have the lane of this one."""
        self._lane = None
        self._lane_lock.close()

    @contextmanager
    def remakeable(self) -> Iterator[list[TrialFolder]]:
        """Yield the trials that have a whole result and lack only its record, locked.

        Snakemake removes records of a pool that is not complete when it goes on with it.
        """
        with ExitStack() as held:
            yield [
                trial
                for trial in map(self.trial, self.unrecorded())
                if trial.outcome.exists()
                and attempts.why_torn(trial) is None
                and held.enter_context(lock.locked_unless_held(trial.lock))
            ]

    def is_measured_now(self) -> bool:
        """Tell whether a worker measures a trial of the pool, or begins one."""
        with ExitStack() as held:
            locks = [lock.locked_unless_held(self.trial(slot).lock) for slot in self.unrecorded()]
            are_free = [held.enter_context(trial_lock) for trial_lock in locks]
            return not all(are_free)

    @contextmanager
    def next_trial(self, broken: Set[int], arm: str | None) -> Iterator[Slot | NoTrial]:
        """Yield the trial to measure next, locked and with its request, or why there is none.

        It is the one with the smallest number that has no record and that nobody else measures. Left out are `broken` trials, which ended
        without a result here, and the lanes of others. Trials of `arm` come first while the window lets them, of fresh seeds those of the
        same round: another arm needs processes of its own.
        """
        with ExitStack() as held:
            with self.locked():
                found = self._find(broken, arm, held)
            yield found

    def _find(self, broken: Set[int], arm: str | None, held: ExitStack) -> Slot | NoTrial:
        unrecorded = self.unrecorded()
        if not unrecorded:
            return NoTrial.ALL_MEASURED
        if self._lane not in {slot.lane for slot in unrecorded}:
            self.leave_lane()
        may_come_later = False
        for slot in sorted(unrecorded, key=lambda slot: (_round_of(slot), slot.arm != arm, slot.number)):
            if not self._may_begin(slot, unrecorded[0]):
                continue
            trial_lock = held.enter_context(ExitStack())
            if not self._may_take(slot, trial_lock):
                may_come_later = True
                trial_lock.close()
            elif slot.number in broken:
                trial_lock.close()
                if slot.lane == self._lane:
                    self.leave_lane()  # others may try the trial
            elif self._has_record_now(slot):
                may_come_later = True
                trial_lock.close()
            elif self._asked(slot):
                return slot
            else:
                may_come_later = True
                trial_lock.close()
        return NoTrial.LATER if may_come_later else NoTrial.NONE_LEFT

    def _may_take(self, slot: Slot, held: ExitStack) -> bool:
        """Tell whether no other worker measures a trial or has its lane. `held` has the locks then."""
        return self._may_take_lane(slot, held) and held.enter_context(lock.locked_unless_held(self.trial(slot).lock))

    def _may_take_lane(self, slot: Slot, held: ExitStack) -> bool:
        """Tell whether no other worker has a trial's lane. It becomes this worker's, if that has none; else it is `held` for this trial."""
        if slot.lane is None or slot.lane == self._lane:
            return True
        lane_lock = ExitStack()
        path = self._folder.lane_lock(self.slots[0].number, slot.lane)
        if not lane_lock.enter_context(lock.locked_unless_held(path)):
            return False
        if self._lane is None:
            self._lane, self._lane_lock = slot.lane, lane_lock
        else:
            held.enter_context(lane_lock)
        return True

    def _may_begin(self, slot: Slot, first_unrecorded: Slot) -> bool:
        """Tell whether a trial was asked for, or all records exist that its request must know."""
        return slot.first_unknown <= first_unrecorded.number or self.trial(slot).request.exists()

    def _has_record_now(self, slot: Slot) -> bool:
        """Tell whether a trial has a record, although it had none before its lock was taken.

        The folder is listed: a network file system may remember for a minute that a file was not there, until its folder is opened.
        """
        return self.trial(slot).record in list(self.trial(slot).root.iterdir())

    def _asked(self, slot: Slot) -> bool:
        """Write the requests up to a trial's own; return False if a record that they need was taken away meanwhile."""
        numbers = [
            earlier.number
            for earlier in self.slots
            if earlier.number <= slot.number and not self.trial(earlier).request.exists()
        ]
        before = self.unrecorded()
        try:
            if numbers:
                ask.write_requests(self._study, self._folder, numbers)
        except UserError:
            if self.unrecorded() == before:
                raise
            return False
        return True


def _round_of(slot: Slot) -> int:
    """Return the round of a fresh seed, and 0 of a trial of the search, which comes before.

    All fresh seeds may run at once. Round by round each arm has its share of whatever changes on the machine meanwhile.
    """
    return slot.repeat if slot.confirms else 0
