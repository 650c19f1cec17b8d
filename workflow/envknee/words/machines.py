"""What may look like an effect of num_envs, and an arm's other notes. Pure."""

from envknee.verdict.schema.study import ArmVerdict, MachineEffects, MachineMix, OtherGpus
from envknee.words.series import series_words

MEASURED = {"throughput": "FPS", "learning": "seconds to the target"}
"""What each kind of trial measures."""


def arm_notes(arm: ArmVerdict) -> list[str]:
    """Return notes on an arm, a sentence each."""
    notes = []
    if len(arm.hardware) > 1:
        notes.append(f"measured on {len(arm.hardware)} kinds of hardware: FPS across them are not comparable")
    notes += machine_notes(arm.machines, several_series=len(arm.learning) > 1)
    if not arm.trials:
        notes.append("no trial of this arm is finished")
    return notes + arm.warnings


def machine_notes(effects: MachineEffects, *, several_series: bool) -> list[str]:
    """Return notes on the machines of an arm; `several_series`: whether a note on learning must name its series."""
    return [
        *(note for mix in effects.mixes for note in _mixed(mix)),
        *(
            f"trials of {series_words(limit.series)} ran in the order of their num_envs:"
            " drift of the machine may pass for a gain"
            for limit in effects.in_order
        ),
        *(_on_other_gpus(found, several_series) for found in effects.other_gpus),
    ]


def _mixed(mix: MachineMix) -> list[str]:
    notes, of = [], MEASURED[mix.kind]
    if mix.host_cpus:
        hosts = "; ".join(f"{host.model}, {host.cores} cores" for host in mix.host_cpus)
        notes.append(
            f"{mix.kind} was measured on {len(mix.host_cpus)} kinds of host CPU ({hosts}):"
            f" differences of {of} may be the hosts'"
        )
    if mix.commits:
        notes.append(
            f"{mix.kind} was measured on {len(mix.commits)} commits ({', '.join(mix.commits)}):"
            f" differences of {of} may be the code's"
        )
    return notes


def _on_other_gpus(found: OtherGpus, several_series: bool) -> str:
    series = f" ({series_words(found.series)})" if several_series else ""
    alike = " of the same kind" if found.same_kind else ""
    return (
        f"learning at sizes {found.num_envs:,} and {found.doubled:,}{series} ran on different GPUs{alike}:"
        " their difference may be the machines'"
    )
