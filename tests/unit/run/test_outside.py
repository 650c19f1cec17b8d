"""What ended a program: a fault of its own, or something outside of it."""

import signal

import pytest
from envknee.run.outside import why_ended

TORCHRUN = " traceback : Signal {} ({}) received by PID 4711"
DATA_LOADER = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: {}. "


@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU, signal.SIGXFSZ]
)
def test_a_signal_that_others_send_is_named(sent: signal.Signals):
    assert why_ended(-sent, []) == why_ended(128 + sent, []) == f"{sent.name} ended it"


@pytest.mark.parametrize("status", [0, 1, 3, *(-own for own in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)), 139])
def test_an_end_of_its_own_is_none_from_outside(status: int):
    assert why_ended(status, ["KeyError: 'no such robot'", "the disk is a device with space left"]) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (TORCHRUN.format(9, "SIGKILL"), "a signal ended one of its processes"),
        (TORCHRUN.format(11, "SIGSEGV"), None),
        (DATA_LOADER.format("Killed"), "a signal ended one of its processes"),
        (DATA_LOADER.format("Segmentation fault"), None),
        ("OSError: [Errno 28] No space left on device: 'model.pt'", "the disk was full"),
        ("cp: error writing 'model.pt': Disk quota exceeded", "the disk was full"),
        ("OSError: [Errno 27] File too large", "the disk was full"),
        ("ValueError: File too large for this importer", None),
    ],
)
def test_what_a_program_says_of_its_end_tells_whose_fault_it_was(line: str, why: str | None):
    assert why_ended(1, ["Traceback (most recent call last)", line, "RuntimeError: training failed"]) == why
