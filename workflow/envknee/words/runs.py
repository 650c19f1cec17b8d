"""Runs of MLflow in words: their names, and the description of an arm. Pure."""

import re
from collections.abc import Mapping, Sequence

from envknee.record.schema import Device, Environment, Record, Request
from envknee.verdict.schema.card import Card
from envknee.verdict.schema.joint import Setting
from envknee.verdict.schema.study import ArmVerdict
from envknee.verdict.series import Ranks
from envknee.words.card import card_parts
from envknee.words.headline import headline_statement, what_would_move_it, why_there
from envknee.words.joint import joint_evidence, joint_next, joint_statement
from envknee.words.joint_costs import short_setting
from envknee.words.statuses import STATUS_WORDS

GPU_NAME = re.compile(r"(?:NVIDIA |Tesla |GeForce |Quadro )*(.+?)(?=[ -](?:\d+GB|SXM|PCIE|NVL|HBM)|$)", re.IGNORECASE)
"""A GPU's short name, between the maker's name and the form factor."""


def run_name(request: Request) -> str:
    """Return a run's name: its arm, its num_envs, horizon and batch, and its seed.

    `lean · 1,024 × 32 × 8,192 · seed 7`, or for an FPS trial `lean · 1,024 × 32 × 8,192 · FPS · seed 7`.
    """
    parts = [request.arm, short_setting(Setting.at(request.num_envs, request), Ranks.of(request))]
    if request.batch_size is None:
        parts[-1] += " × library"
    if request.kind == "throughput":
        parts.append("FPS")
    if request.inject:
        parts.append("DRILL")
    return " · ".join([*parts, f"seed {request.seed}"])


def short_name(device: Device) -> str:
    """Return a device's short name: `CPU`, `H100`, `RTX 4090`."""
    if device.type == "cpu":
        return "CPU"
    match = GPU_NAME.match(device.name)
    return match[1] if match else device.name


def devices_of(environment: Environment | None, ranks: int) -> str:
    """Return the devices of a trial: `H100`, `2 x H100`, or `CPU, 2 ranks`."""
    if environment is None:
        return "not run"
    device = short_name(environment.device)
    if ranks == 1:
        return device
    return f"CPU, {ranks} ranks" if device == "CPU" else f"{ranks} x {device}"


def arm_name(arm: str, devices: Sequence[str]) -> str:
    """Return the name of an arm's run, such as `stock · H100`."""
    return " · ".join([arm, ", ".join(devices)]) if devices else arm


def trials_done(finished: int, planned: int) -> str:
    """Return `3 of 5`."""
    return f"{finished} of {planned}"


def study_description(card: Card, arms: Sequence[ArmVerdict]) -> str:
    """Return the description of a study in Markdown: its card, then each arm's answer, a paragraph for each."""
    parts = card_markdown(card)
    for arm in arms:
        answers = [joint_statement(found, arm.ranks) for found in arm.joint]
        if arm.headline is not None:
            answers.append(headline_statement(arm, arm.headline))
        parts += [f"**{arm.arm}**: {answer}" for answer in answers]
    return "\n\n".join(parts)


def card_markdown(card: Card) -> list[str]:
    """Return a card in Markdown: for each question its heading, a list, and the command."""
    blocks = list[str]()
    for part in card_parts(card):
        blocks.append(f"**{part.heading}**")
        if part.lines:
            blocks.append("\n".join(f"* {name}: {text}" for name, text in part.lines))
        if part.command is not None:
            blocks.append(f"```sh\n{part.command}\n```")
    return blocks


def arm_description(
    arm: ArmVerdict | None,
    trials: str,
    statuses: Mapping[str, int],
    best: Record | None,
    card: Card | None = None,
) -> str:
    """Return the description of an arm in Markdown: its card and its verdict (if any), its trials, and the best one."""
    how = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in sorted(statuses.items()))
    parts = [f"{trials} trials have finished: {how}."]
    if arm is not None and arm.headline is not None:
        headline = arm.headline
        recommended = f"**{headline_statement(arm, headline)}**"
        parts = [recommended, f"Why there: {why_there(arm, headline)}", what_would_move_it(arm, headline), *parts]
    if arm is not None:
        parts = [*_joint(arm), *parts]
    if card is not None:
        parts = [*card_markdown(card), *parts]
    if best is not None:
        parts.append(f"Best single trial: {best.request.number:04d}, {run_name(best.request)} (artifacts: best).")
    return "\n\n".join(parts)


def _joint(arm: ArmVerdict) -> list[str]:
    """Return the joint answers of an arm in Markdown."""
    parts = []
    for found in arm.joint:
        evidence = "\n".join(f"* {said}" for said in joint_evidence(found))
        parts += [f"**{joint_statement(found, arm.ranks)}**", evidence, joint_next(found)]
    return [part for part in parts if part]
