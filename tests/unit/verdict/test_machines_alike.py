"""Machines that look alike: an arm measured on several hosts, commits or GPUs of one name says so."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.verdict import learning, machines, throughput
from envknee.verdict.disturbed import other_load
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule.contrasts import Process
from envknee.verdict.series import by_series
from envknee.verdict.statistical_blocks import blocks_of
from envknee.words.machines import machine_notes
from envknee.words.throughput import throughput_notes
from records import CPU, GPU, Trial, a_trial, fps_trials, known, learning_trials, records_of

OTHER = GPU.model_copy(update={"uuid": "GPU-2"})
SMALL, LARGE = {16: [100.0, 101.0, 102.0]}, {32: [103.0, 104.0, 105.0]}
"""From one to the other gains less than delta."""

OTHER_GPUS = "learning at sizes 16 and 32 ran on different GPUs of the same kind: their difference may be the machines'"


def found(trials: Sequence[Trial]) -> list[str]:
    records = records_of(trials)
    settings = Decide()
    learned = learning.analyse(measurements_of(records), settings)
    return machine_notes(machines.analyse(measurements_of(records), learned), several_series=len(learned) > 1)


def elsewhere(trials: Sequence[Trial], **environment: Any) -> list[Trial]:
    return [trial.on(**environment) for trial in trials]


def on_two_gpus(fps: Mapping[int, Sequence[float]], uuids: Sequence[str], first: int = 0) -> list[Trial]:
    """Return trials of two ranks whose GPUs have these identities."""
    gpus = [GPU.model_copy(update={"uuid": uuid}) for uuid in uuids]
    return [trial.on_gpus(*gpus) for trial in fps_trials(fps, first=first, gpus=2, device=gpus[0])]


def test_one_machine_says_nothing():
    assert found(fps_trials(SMALL | LARGE, device=GPU)) == []
    assert found([]) == []


def by_size(records: Sequence[Record]) -> dict[int, list[Record]]:
    (grouped,) = by_series(records, "throughput").values()
    return grouped


def blocks(trials: Sequence[Trial]) -> dict[int, set[object]]:
    return {size: set(own) for size, own in blocks_of(by_size(records_of(trials))).items()}


def test_a_block_is_what_all_ranks_ran_on():
    small, both = on_two_gpus(SMALL, ["GPU-1", "GPU-2"]), {("GPU-1", "GPU-2")}
    assert blocks([*small, *on_two_gpus(LARGE, ["GPU-2", "GPU-1"], first=9)]) == {16: both, 32: both}


def test_the_gpus_of_one_host_are_one_block_where_none_has_both_ends():
    def spread(size: int, first: int) -> list[Trial]:
        gpus = [(n, GPU.model_copy(update={"uuid": f"GPU-{n}"})) for n in range(first, first + 3)]
        return [trial for n, gpu in gpus for trial in fps_trials({size: [100.0]}, first=n, device=gpu)]

    assert len({block for own in blocks([*spread(16, 0), *spread(32, 10)]).values() for block in own}) == 1
    own_gpu = [*fps_trials(SMALL, device=GPU), *fps_trials(LARGE, first=9, device=OTHER)]
    assert blocks(own_gpu)[16].isdisjoint(blocks(own_gpu)[32]), "a GPU for each size may pass for a gain"


def in_processes(orders: Sequence[Sequence[int]]) -> list[Record]:
    """Return records of processes that measured these sizes one after the other."""
    return records_of(
        trial.asked(block=block)
        for block, order in enumerate(orders)
        for place, size in enumerate(order)
        for trial in fps_trials({size: [100.0 + size]}, first=100 * block + place, device=GPU)
    )


def test_a_process_that_measured_several_sizes_is_a_block_on_its_machine():
    mixed = by_size([*in_processes([[16, 32]]), *records_of(fps_trials({16: [100.0]}, first=300, device=OTHER))])
    own = Process(("GPU-1",), 0)
    assert blocks_of(mixed) == {16: [own, ("GPU-2",)], 32: [own]}
    record = mixed[16][0]
    mixed[16][0] = record.model_copy(update={"request": record.request.model_copy(update={"fresh": True})})
    assert blocks_of(mixed) == {16: [("GPU-1",), ("GPU-2",)], 32: [own]}, "its process measured one size"


def test_processes_that_all_measured_in_the_order_of_num_envs_are_told():
    ascending = machines.analyse(measurements_of(in_processes([[16, 32, 64, 128, 16], [16, 32, 64, 128, 16]])))
    assert [(series.arm, series.horizon, series.batch_size) for series in ascending.in_order] == [("stock", 8, 128)]
    assert machine_notes(ascending, several_series=False) == [
        "trials of horizon 8, batch 128 ran in the order of their num_envs: drift of the machine may pass for a gain"
    ]
    mixed = in_processes([[16, 32, 128, 64, 16], [64, 16, 32, 128, 64], [32, 128, 64, 16, 32]])
    assert machines.analyse(measurements_of(mixed)).in_order == []


def test_gpus_of_unknown_identity_and_cpus_have_no_note():
    unknown = GPU.model_copy(update={"uuid": None})
    assert found([*fps_trials(SMALL, device=unknown), *fps_trials(LARGE, first=9, device=OTHER)]) == []
    assert found(fps_trials(SMALL | LARGE, device=CPU)) == []


def test_several_hosts_and_commits_of_throughput_trials_are_told():
    here = fps_trials(SMALL, device=GPU)
    assert found([*here, *elsewhere(fps_trials(LARGE, first=9, device=GPU), cpu_cores=64, git_commit="1" * 40)]) == [
        "throughput was measured on 2 kinds of host CPU (AMD EPYC, 2 cores; AMD EPYC, 64 cores):"
        " differences of FPS may be the hosts'",
        "throughput was measured on 2 commits (0000000, 1111111): differences of FPS may be the code's",
    ]
    # Another host of the same kind, an unknown commit, and learning trials elsewhere change no FPS that is compared.
    same_kind = elsewhere(fps_trials(LARGE, first=9, device=GPU), host="node2", git_commit=None)
    learned = elsewhere(learning_trials({16: [9.0]}, first=20, device=GPU), cpu_model="Other", git_commit="1" * 40)
    assert found([*here, *same_kind, *learned]) == []


def test_several_hosts_commits_and_gpus_of_learning_trials_are_told():
    soon, late = {16: [9.0, 9.1, 9.2]}, {32: [9.5, 9.6, 9.7]}
    here = learning_trials(soon, device=GPU)
    assert found([*here, *learning_trials(late, first=9, device=GPU)]) == []
    there = elsewhere(learning_trials(late, first=9, device=OTHER), cpu_cores=64, git_commit="1" * 40)
    assert found([*here, *there]) == [
        "learning was measured on 2 kinds of host CPU (AMD EPYC, 2 cores; AMD EPYC, 64 cores):"
        " differences of seconds to the target may be the hosts'",
        "learning was measured on 2 commits (0000000, 1111111): differences of seconds to the target may be the code's",
        OTHER_GPUS,
    ]


def test_where_the_cpu_is_the_device_its_kinds_are_told_as_hardware():
    moved = elsewhere(fps_trials(LARGE, first=9, device=CPU), cpu_cores=64)
    assert found([*fps_trials(SMALL, device=CPU), *moved]) == []


def beside(cores: Sequence[float], num_envs: int = 64, first: int = 0, fps: float = 1000.0) -> list[Record]:
    return [
        a_trial(num_envs, number=first + place, fps=fps * (1 + 0.001 * place)).with_rows(others_cpu_percent=100 * busy).record
        for place, busy in enumerate(cores)
    ]  # fmt: skip


def test_few_trials_beside_a_busy_neighbour_leave_the_calm_ones_to_decide_and_the_verdict_says_so():
    small = beside([0.0, 0.1, 0.0, 0.9])
    large = beside([0.1, 0.0, 0.1], num_envs=128, first=10, fps=1900.0)
    limit, *_ = throughput.analyse(measurements_of([*small, *large]), Decide())
    calm, *_ = throughput.analyse(measurements_of([*small[:3], *large]), Decide())
    assert [len(point.fps_repeats) for point in limit.points] == [4, 3], "all are shown"
    assert (limit.gains[0].of_calm, limit.gains[0].repeats) == (True, 3)
    assert limit.gains[0].gain == calm.gains[0].gain and limit.gains[0].p_value == calm.gains[0].p_value
    load = known(limit.other_load)
    assert (load.is_high, load.touched, load.trials, load.unknown) == (False, 1, 7, 0)
    assert throughput_notes(limit)[-1] == (
        "During 1 of 7 trials others took over half a core more than during the calmest. Doubling 64: below 6 repeats only the"
        " calm ones count."
    )


def test_too_few_calm_trials_decide_nothing():
    limit, *_ = throughput.analyse(
        measurements_of([*beside([0.0, 0.9, 1.0, 0.9]), *beside([0.1] * 4, 128, 10)]), Decide()
    )
    assert (limit.gains[0].decides, limit.state) == (False, "undecided")
    assert limit.more_repeats == 2, "six of any kind would do"
    assert throughput_notes(limit)[-1].endswith("Doubling 64: too few calm repeats; 6 of any kind would do.")


def test_from_six_on_all_count_corrected_to_the_least_load():
    # By hand: without noise, a core costs a fifth at 64 and a tenth at 128; the plain ratio of geometric means is far off.
    cores = [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    small = [fps for place, busy in enumerate(cores) for fps in beside([busy], 64, place, 1000.0 * 0.8**busy)]
    large = [fps for place, busy in enumerate(cores) for fps in beside([busy], 128, 10 + place, 1050.0 * 0.9**busy)]
    limit, *_ = throughput.analyse(measurements_of([*small, *large]), Decide())
    assert limit.gains[0].gain == pytest.approx(0.05)
    assert (limit.gains[0].repeats, limit.gains[0].of_calm, limit.gains[0].loaded) == (6, False, True)
    assert (limit.state, limit.threshold_num_envs) == ("reached", 64)
    assert throughput_notes(limit)[-1].endswith("Doubling 64: all repeats count, corrected to the least load.")


def test_an_end_that_was_always_beside_others_cannot_be_corrected():
    limit, *_ = throughput.analyse(measurements_of([*beside([0.0] * 7), *beside([1.0] * 7, 128, 10)]), Decide())
    assert not limit.gains[0].decides and limit.state == "undecided"


def test_a_neighbour_who_is_always_there_is_said():
    limit = throughput.analyse(measurements_of([*beside([1.0] * 3), *beside([0.9] * 3, 128, 10)]), Decide())[0]
    load = known(limit.other_load)
    assert (load.is_high, load.touched, load.cores) == (True, 0, pytest.approx(0.9))
    assert (
        throughput_notes(limit)[-1]
        == "Other processes kept 0.9 cores busy or more: this holds for a machine that busy."
    )
    assert not limit.gains[0].loaded


def test_where_the_load_of_one_end_is_not_known_it_is_taken_as_noise():
    some = [*beside([0.0, 0.9, 0.0]), *fps_records_without_load()]
    limit, *_ = throughput.analyse(measurements_of(some), Decide())
    assert not limit.gains[0].loaded
    assert throughput_notes(limit)[-1].endswith("Of 3 more trials the load is not known.")


def fps_records_without_load() -> list[Record]:
    return records_of(fps_trials({128: [1900.0, 1901.0, 1902.0]}, first=20))


def test_where_it_was_not_measured_nothing_is_said():
    plain = [a_trial(64, number=number).record for number in range(3)]
    assert other_load(plain) is None
