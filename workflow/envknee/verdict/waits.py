"""What an iteration mostly waits for, by its phase laws: the limit that more environments spread. Pure."""

from envknee.verdict.schema.headline import Waits
from envknee.verdict.schema.phases import PhaseLaws

MOST = 0.5
"""Smallest fixed share of an iteration that is reported as the limit."""


def waits(num_envs: int, laws: PhaseLaws | None) -> Waits | None:
    """Return what an iteration mostly waits for at `num_envs`, if that does not grow with num_envs; else None."""
    if laws is None or laws.few_wait_for is None:
        return None
    if not all(law.used for law in laws.laws if (law.share_of_t0 or 0) > 0.1):
        return None
    fixed = sum(law.t0_s for law in laws.laws)
    share = fixed / (fixed + num_envs * sum(law.s_per_env for law in laws.laws))
    if share < MOST:
        return None
    phase = laws.few_wait_for
    return Waits(share=share, phase=phase, phase_share=laws.law(phase).share_of_t0 or 0.0)
