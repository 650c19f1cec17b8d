"""How a trial ended, and groups of such endings. Pure."""

from typing import Literal

from envknee.base.fields import Kind

Status = Literal[
    "ok", "target_reached", "oom", "nan", "diverged", "timeout", "refused", "skipped", "invalid", "crashed"
]
"""Every status is a result:

ok              a throughput trial timed all its iterations
target_reached  a learning trial's mean episode reward reached the target
oom             memory ran out: the point is infeasible on this device
nan             a state, observation, reward or loss became NaN or infinite, or a state or reward exploded
diverged        a loss or the action noise grew past any useful size
timeout         the budget was spent first: the time to target is censored, not zero
refused         not run, because it cannot fit the memory of the device
invalid         it ran to its end, but the simulation was wrong (fast but wrong)
crashed         its program broke, twice, without a result: the size does not run here
skipped         not run, because earlier trials already decide
"""

SUCCESS: dict[Kind, Status] = {"throughput": "ok", "learning": "target_reached"}
"""The intended end of each kind of trial."""

SUCCEEDED: tuple[Status, ...] = ("ok", "target_reached")

TRAINED: tuple[Status, ...] = (*SUCCEEDED, "timeout")
"""Training came to its end, so that the policy is worth keeping."""

DID_NOT_FIT: tuple[Status, ...] = ("oom", "refused")
"""The point does not fit its device: measured, or predicted."""

DOES_NOT_RUN: tuple[Status, ...] = (*DID_NOT_FIT, "crashed")
"""The point cannot be measured on its device, for lack of memory or because its program breaks there."""

BROKE: tuple[Status, ...] = ("nan", "diverged", "invalid")
"""The simulation or the learner went wrong."""

CRASHED: tuple[Status, ...] = ("oom", "nan", "diverged")
"""Training could not go on. One such rank ends the trial for all ranks."""
