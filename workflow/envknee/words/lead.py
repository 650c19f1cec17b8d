"""Which arm is ahead, in one sentence: the last line of a summary. Pure."""

from collections.abc import Mapping

from envknee.base.fields import Kind
from envknee.verdict.schema.lead import Behind, Lead, Order, Standing
from envknee.words.answer import Answer
from envknee.words.ranks import each, together


def lead_sentence(lead: Lead | None, answers: Mapping[str, Answer]) -> str:
    """Return `lean is fastest: 61,000 FPS at 8,192 environments, 3.86 times stock.`; of a single arm, the answer: what to run.

    Of arms that are asked different questions it returns what to run with each. `answers` are by arm.
    """
    if lead is None:
        return "No result yet: no trial has ended with one."
    if lead.behind:
        return f"{ahead(lead)}."
    if not lead.beside:
        return f"Run {_what_to_run(answers[lead.first.arm])}."
    arms = [standing.arm for standing in (lead.first, *lead.beside)]
    return f"{'; '.join(f'{arm}: run {_what_to_run(answers[arm])}' for arm in arms)}."


def _what_to_run(answer: Answer) -> str:
    return f"{answer.run_in_full} ({answer.series}): {answer.gives_in_full}"


def ahead_in(lead: Lead | None, kind: Kind) -> str | None:
    """Return what `ahead` says of a lead by trials of `kind`; None if no arm is behind, or another kind decides who leads."""
    if lead is None or not lead.behind or lead.first.kind != kind:
        return None
    return ahead(lead)


def ahead(lead: Lead) -> str:
    """Return `lean is fastest: 61,000 FPS at 8,192 environments, 3.86 times stock`, of a lead with arms behind it."""
    environments = _environments(lead.first)
    if lead.first.kind == "throughput":
        fps = f"{lead.first.value:,.0f} FPS{together(lead.first.ranks)}"
        return f"{lead.first.arm} is fastest: {fps} at {environments}, {_against(lead)}"
    seconds = f"{lead.first.value:,.1f} s"
    return f"{lead.first.arm} reaches the target soonest: in {seconds} with {environments}, {_against(lead)}"


def _environments(standing: Standing) -> str:
    return f"{standing.num_envs:,} environments{each(standing.ranks)}"


def _against(lead: Lead) -> str:
    """Return the distance to the next arm and to the last one, and which arms no distance is shown to."""
    is_faster = lead.first.kind == "throughput"
    ends = lead.behind[:1] + lead.behind[1:][-1:]
    parts = [_times(behind, is_faster) for behind in ends if behind.order == "shown"]
    if open_ones := _arms(lead, "open"):
        parts.append(f"not told apart from {open_ones}")
    if untold := _arms(lead, "no interval"):
        parts.append(f"with too few {'repeats' if is_faster else 'seeds'} to compare it with {untold}")
    return ", ".join(parts)


def _arms(lead: Lead, order: Order) -> str:
    """Return the arms of one order as words, such as `a, b and c`; nothing without any."""
    arms = [behind.standing.arm for behind in lead.behind if behind.order == order]
    if len(arms) < 2:
        return "".join(arms)
    return f"{', '.join(arms[:-1])} and {arms[-1]}"


def _times(behind: Behind, is_faster: bool) -> str:
    times = f"{_rounded(behind.times)} times"
    return f"{times} {behind.standing.arm}" if is_faster else f"{times} as fast as {behind.standing.arm}"


def _rounded(times: float) -> str:
    """Return a factor as a sentence has it, with two digits or three: the card has its interval."""
    decimals = 2 if times < 2.0 else 1
    return f"{times:.{decimals}f}" if times < 10.0 else f"{times:.0f}"
