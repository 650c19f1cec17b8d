"""Which endings of a trial belong together. Pure."""

from typing import Literal

from envknee.study.rules import Kind

Status = Literal["ok", "target_reached", "oom", "nan", "diverged", "timeout", "refused", "skipped", "invalid"]
"""How a trial ended. Each is a result:

ok              a throughput trial timed all its iterations
target_reached  a learning trial's mean episode reward reached the target
oom             memory ran out: the point is infeasible on this device
nan             a state, observation, reward or loss became NaN or infinite, or a state or reward exploded
diverged        a loss or the action noise grew past any useful size
timeout         the budget was spent first: the time to target is censored, not zero
refused         not run, because it cannot fit the memory of the device
invalid         it ran to its end, and its own log says that the simulation was not what was asked for (fast but wrong)
skipped         not run, because what was measured before it decides already (sampler: adaptive)
"""

SUCCESS: dict[Kind, Status] = {"throughput": "ok", "learning": "target_reached"}
"""What each kind of trial is started for."""

SUCCEEDED: tuple[Status, ...] = ("ok", "target_reached")

TRAINED: tuple[Status, ...] = (*SUCCEEDED, "timeout")
"""The policy at the end is worth keeping: it trained as long as it was asked to, or as its budget lasted."""

DID_NOT_FIT: tuple[Status, ...] = ("oom", "refused")
"""The point is infeasible on its device: measured, or foretold by the memory model."""

BROKE: tuple[Status, ...] = ("nan", "diverged", "invalid")
"""The simulation or the learner left the range of useful numbers, or of what it was asked to simulate."""

CRASHED: tuple[Status, ...] = ("oom", "nan", "diverged")
"""Training could not go on. One rank that ends so ends its trial for all ranks."""
