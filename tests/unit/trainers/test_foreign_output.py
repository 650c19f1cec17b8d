"""What a foreign program prints and logs, when it means harm: each string comes through a reader that bounds it."""

import io
import json
import math
import random
import re
import struct
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from envknee.measure import validity
from envknee.measure.out_of_memory import requested_gb
from envknee.run import printed
from envknee.study.command import Rows
from envknee.trainers.command import bounded, ends, sources
from envknee.trainers.command.bounded import MOST_LINE_BYTES, Unreadable, WholeLines
from envknee.trainers.command.clock import LogClock
from envknee.trainers.command.rows import Builder
from envknee.trainers.command.scan import Scan

JSONL = Rows.model_validate({"source": "jsonl", "path": "log.jsonl", "step": "frames", "time_name": "time"})
CSV = Rows.model_validate({"source": "csv", "path": "log.csv", "step": "frames", "time_name": "time"})
TAGS = Rows.model_validate({"source": "tensorboard", "step": "iterations", "names": {"fps": "fps"}})


def test_lines_are_the_same_however_they_arrive():
    dice = random.Random(1)  # noqa: S311  draws no secret
    text = "".join(dice.choice(["a", "bb", "\n", "\r", "é", "\r\n"]) for _ in range(5_000))
    expected = re.split("[\r\n]", text)
    for largest in (1, 7, 300):
        data, whole, lines = text.encode(), WholeLines(), list[str]()
        while data:
            size = dice.randint(1, largest)
            lines += [line for line in whole.take(data[:size]).split("\n") if line]
            data = data[size:]
        assert [*lines, *filter(None, [whole.last()])] == [line for line in expected if line]


def test_a_long_line_is_cut_and_takes_no_longer_for_each_byte_than_a_shorter_one():
    def seconds(megabytes: int) -> float:
        whole, chunk = WholeLines(), b"x" * MOST_LINE_BYTES
        began_s = time.process_time()
        for _ in range(megabytes * 1_000_000 // len(chunk)):
            assert whole.take(chunk) == ""
        spent_s = time.process_time() - began_s
        first, second = whole.take(b"y\nnext\n").split("\n")[:2]
        assert (len(first), second, whole.cut_lines) == (MOST_LINE_BYTES, "next", 1)
        return spent_s

    seconds(10)
    # In time that grows with the square, it would be a hundred times as long.
    assert min(seconds(100) for _ in range(3)) < 40 * min(seconds(10) for _ in range(3))


DEEP = "[" * 30_000
HOSTILE_JSON = {
    "time is NaN": '{"step": 256, "time": NaN, "fps": 1}',
    "time is infinite": '{"step": 256, "time": 1e999, "fps": 1}',
    "time is far off": '{"step": 256, "time": 1e300, "fps": 1}',
    "step is NaN": '{"step": NaN, "time": 5.0, "fps": 1}',
    "step is infinite": '{"step": -Infinity, "time": 5.0, "fps": 1}',
    "400 digits": '{"step": 256, "time": 5.0, "fps": ' + "9" * 400 + "}",
    "5,000 digits": '{"step": 256, "time": 5.0, "fps": ' + "9" * 5_000 + "}",
    "a step of 400 digits": '{"step": ' + "9" * 400 + ', "time": 5.0}',
    "nested lists": '{"step": 256, "time": 5.0, "fps": ' + DEEP,
    "nested objects": '{"a":' * 10_000 + "1" + "}" * 10_000,
    "no object": "[1, 2]",
    "no JSON": "{",
    "an escape sequence": "\x1b]0;title\x07\x1b[2J{",
    "a lone surrogate": '{"\\ud800": 1, "step": NaN, "time": 5.0}',
}


@pytest.mark.parametrize("line", HOSTILE_JSON.values(), ids=HOSTILE_JSON)
def test_a_line_of_json_that_cannot_be_is_left_out_and_named(line: str, tmp_path: Path):
    good = '{"step": %d, "time": %d.0, "fps": 1}\n'
    (tmp_path / "log.jsonl").write_text(good % (1, 1) + line + "\n" + good % (2, 2), encoding="utf-8")
    log = sources.Lines(tmp_path, JSONL)
    assert [event.step for event in log.poll(9.0)] == [1.0, 2.0]
    assert log.problems.count == 1 and log.problems.unreadable is not None
    assert len(log.problems.unreadable) < 3 * bounded.MOST_SHOWN and log.problems.unreadable.isprintable()
    json.dumps(log.problems.unreadable).encode()


@pytest.mark.parametrize(
    "cells", ["nan,5.0,1", "1,nan,1", "1,inf,1", "9" * 400 + ",5.0,1", "1," + "9" * 400 + ",1", '"' + "a" * 65_000]
)
def test_a_line_of_csv_that_cannot_be_is_left_out_and_named(cells: str, tmp_path: Path):
    (tmp_path / "log.csv").write_text(f"step,time,fps\n1,1.0,1\n{cells}\n2,2.0,1\n", encoding="utf-8")
    log = sources.Lines(tmp_path, CSV)
    events = list(log.poll(9.0))
    assert [event.step for event in events if event.step is not None] == [1.0, 2.0]
    assert all(math.isfinite(event.unix_time_s) for event in events)
    assert log.problems.count == 1 or len(events) == 3, "without a number in it, a line is a row of nothing"


def test_a_figure_may_be_no_number_because_that_is_a_result(tmp_path: Path):
    (tmp_path / "log.jsonl").write_text('{"step": 1, "time": 1.0, "loss": NaN}\n', encoding="utf-8")
    (event,) = sources.Lines(tmp_path, JSONL).poll(9.0)
    assert math.isnan(event.values["loss"])


def test_a_printed_row_that_cannot_be_is_left_out_and_named():
    log = sources.Printed([re.compile(r"step (?P<step>\S+) at (?P<time>\S+)")])
    log.take(1.0, f"step 1 at 1.0\nstep nan at 2.0\nstep {'9' * 400} at 3.0\nstep 2 at -inf\n\x1b[31mstep 3 at 4.0\n")
    assert [event.step for event in log.poll(9.0)] == [1.0, 3.0] and log.problems.count == 3


def test_a_file_that_never_ends_is_not_read(tmp_path: Path):
    (tmp_path / "log.jsonl").symlink_to("/dev/zero")
    assert list(sources.Lines(tmp_path, JSONL).poll(9.0)) == []


def records(path: Path, *payloads: bytes) -> None:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    with path.open("ab") as file:
        for payload in payloads:
            header = struct.pack("<Q", len(payload))
            file.write(
                header + struct.pack("<I", masked_crc32c(header)) + payload + struct.pack("<I", masked_crc32c(payload))
            )


def an_event(step: int, wall_time: float, **summary: Any) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]  # made by protobuf when imported

    value = Summary.Value(tag="fps", **(summary or {"simple_value": 1.0}))
    return Event(wall_time=wall_time, step=step, summary=Summary(value=[value])).SerializeToString()


def test_bad_records_of_tensorboard_are_left_out_and_named(tmp_path: Path):
    from tensorboard.compat.proto.tensor_pb2 import TensorProto  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # type: ignore[attr-defined]  # made by protobuf

    torn = TensorProto(dtype=1, tensor_content=b"abc")  # three bytes of a number that has four
    wide = TensorProto(dtype=1, float_val=[1.0], tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**40)]))
    records(
        tmp_path / "events.out.tfevents.1",
        an_event(1, 1.0),
        b"\xff" * 50,
        an_event(2, float("nan")),
        an_event(3, float("inf")),
        an_event(4, 4.0, tensor=torn),
        an_event(5, 5.0, tensor=wide),
        an_event(6, 6.0),
    )
    log = sources.TensorBoard(tmp_path, TAGS.path)
    assert [event.step for event in log.poll(9.0)] == [1, 6]
    assert log.problems.count == 4, "a tensor of 2^40 numbers is one that is no scalar, and never made"
    records(tmp_path / "events.out.tfevents.1", an_event(7, 7.0))
    assert [event.step for event in log.poll(9.0)] == [7]
    records(tmp_path / "events.out.tfevents.2", *[b"\xff" * 5] * 3_000, an_event(8, 8.0))
    assert list(log.poll(9.0)) == [] and log.problems.count == 4 + sources.MOST_BAD_RECORDS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1,234.5", 1234.5),
        (" 7 ", 7.0),
        ("", None),
        ("x", None),
        (None, None),
        (True, None),
        (10**400, None),
        ([1], None),
    ],
)
def test_numbers_are_finite_or_none(value: object, expected: float | None):
    assert bounded.number(value) == expected


def test_a_message_cannot_be_steered_or_filled():
    assert bounded.shown("\x1b[2J\x1b]0;evil\x07 a\r\n\tb\u202e") == "[2J]0;evil a b"
    assert len(bounded.shown("x" * 10_000_000)) == bounded.MOST_SHOWN + 1


PATTERNS = [
    r"loss \d+",
    r"^begins",
    r"ends$",
    r"(?i)NaN",
    r"(?<!not )found",
    r"a.*z",
    r"x++y",
    r"(?P<a>q)(?P=a)",
    r"\Aonly\Z",
    r"one\s+two",
]


def test_searching_a_block_finds_the_lines_that_searching_each_line_finds():
    dice = random.Random(2)  # noqa: S311  draws no secret
    words = ["loss 12", "begins", "ends", "nan", "not found", "found", "a", "z", "xxy", "qq", "only", "one", "two", ""]
    for _ in range(300):
        lines = [" ".join(dice.choices(words, k=dice.randint(0, 4))).strip() for _ in range(dice.randint(1, 6))]
        patterns = [re.compile(text) for text in dice.sample(PATTERNS, 3)]
        expected = [line for line in lines if any(pattern.search(line) for pattern in patterns)]
        assert list(Scan(patterns).matching("\n".join(lines))) == expected


def test_every_line_that_a_pattern_of_ours_matches_has_a_text_that_is_looked_for():
    of_memory = ["cudaErrorMemoryAllocation", "can't allocate memory", "failed to allocate", "Out of Memory", "CUBLAS_STATUS_ALLOC_FAILED",
                 "OutOfMemoryError", "RESOURCE_EXHAUSTED", "ERROR_OUT_OF_DEVICE_MEMORY", "PxgCudaDeviceMemoryAllocator fail", "MemoryError",
                 "std::bad_alloc", "RuntimeError: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "CUDA_ERROR_OUT_OF_MEMORY: x",
                 "Unable to allocate 12 GiB for an array", "Array allocation failed on device: cuda:0 for 4 bytes"]  # fmt: skip
    nan = ["NaN detected", "inf values found", "infinite encountered", "loss contains nan", "value is inf", "actions became NaN",
           "normal expects all elements of std >= 0.0", "to satisfy the constraint Real() but found invalid values:",
           "invalid values: tensor([nan])", "The observation group 'actor' contains NaN values.",
           "FloatingPointError: invalid value (nan) encountered in log", "FloatingPointError: invalid value encountered in log",
           "probability tensor contains either `inf`, `nan` or element < 0", "The total norm of gradients is non-finite"]  # fmt: skip
    wrong = ["overflow - please increase nconmax", "nconmax overflow", "Kamino world 3: contact capacity exceeded", "patch buffer overflow",
             "Force buffer overflow detected", "Too many contacts. The arena memory is full", "Insufficient arena memory for constraints",
             "collisionStackSize", "PxGpuDynamicsMemoryConfig::x"]  # fmt: skip
    for line in of_memory:
        output = ends.Output([], {})
        output.take(f"before\n{line}\nafter")
        assert output.oom_line == line
    for line in nan:
        output = ends.Output([], {})
        output.take(f"before\n{line}\nafter")
        assert output.nan_line == line
    for line in wrong:
        output = ends.Output([], {})
        output.take(f"before\n{line}\nafter")
        assert list(output.invalid_lines.values()) == [line]
    assert len(validity.OVERFLOWS) == 5 and len(ends.OUT_OF_MEMORY) == 13, "a new pattern needs a line here"


@pytest.mark.parametrize(
    "line",
    [
        "an illegal memory access was encountered", "error 700", "memcpy failed fail! 2  700", "GPU Narrowphase failed! 700",
        "Result = 700", "CUDA error: 700", "device-side assert triggered",
        "block: [1,0,0], thread: [2,0,0] Assertion `x` failed.", "SynchronizeStreams cuEventRecord failed",
        "fail to launch kernel stage 1", "unspecified launch failure",
    ],
)  # fmt: skip
def test_after_a_crash_of_the_gpu_an_allocation_that_fails_is_no_lack_of_memory(line: str):
    output = ends.Output([], {})
    output.take(f"before\n{line}\nUnable to allocate memory of size 4")
    assert output.oom_line is None
    output = ends.Output([], {})
    output.take(f"Unable to allocate memory of size 4\n{line}")
    assert output.oom_line == "Unable to allocate memory of size 4"


def test_a_row_of_a_table_and_advice_are_no_errors():
    output = ends.Output([], {})
    output.take(
        "| error rate | 0.1 |\n|   error    | 0.2 |\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
    )
    assert output.error_line is None


def test_patterns_of_a_study_are_looked_for_in_every_line():
    output = ends.Output(["my arena is full"], {"^bad physics$": "a wrong simulation"})
    output.take("fine\nMy Arena Is Full\nbad physics\nfine")
    assert output.oom_line == "My Arena Is Full" and output.invalid_lines == {"a wrong simulation": "bad physics"}


@pytest.mark.parametrize("size", ["1.2.3 GiB", "9" * 400 + " GiB", ". bytes", "1.5 GiB"])
def test_a_size_that_an_error_names_is_a_number_or_nothing(size: str):
    named = requested_gb(f"CUDA out of memory. Tried to allocate {size}")
    assert named is None or math.isfinite(named)


def test_a_log_keeps_the_beginning_and_the_end_of_a_long_output(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(printed, "MOST_LOG_BYTES", 1_000)
    monkeypatch.setattr(printed, "LAST_LOG_BYTES", 100)
    file = io.BytesIO()
    log = printed.BoundedLog(file)
    for number in range(1_000):
        log.add(f"line {number:04}\n".encode())
    log.close()
    text = file.getvalue().decode()
    assert text.startswith("line 0000\n") and text.endswith("line 0999\n\n") and len(text) < 1_300
    assert "printed more than 1,000 bytes" in text and f"[{log.left_out:,} bytes are left out here.]" in text
    assert log.left_out == 10_000 - 1_000 - 100


def test_a_full_disk_does_not_stop_the_reading():
    with Path("/dev/full").open("wb", buffering=0) as full:
        log = printed.BoundedLog(full)  # unbuffered, so that each line fails at once
        log.add(b"a line\n")
        log.add(b"a line\n")
        log.close()
        assert log.error is not None and log.error.strerror == "No space left on device"


def times(
    own_s: list[float], arrived_s: list[float], most_late_s: float = 150.0
) -> tuple[list[float | None], LogClock]:
    """Return the seconds from row to row."""
    clock = LogClock(most_late_s)
    rows = [clock.time(own, arrived) for own, arrived in zip(own_s, arrived_s, strict=True)]
    return [row.elapsed_s if row else None for row in rows][1:], clock


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0, 365 * 86400.0, -1.7e9])
def test_a_clock_that_jumps_changes_no_seconds_of_rows_that_arrive_one_by_one(jump_s: float):
    right = [1e9 + 2.0 * row for row in range(8)]
    own = [time_s + (jump_s if row >= 4 else 0.0) for row, time_s in enumerate(right)]
    elapsed, clock = times(own, [time_s + 0.1 for time_s in right])
    assert elapsed == pytest.approx([2.0] * 7) and len(clock.jumps) == 1
    assert f"jumped by {jump_s:+,.0f} s" in clock.jumps[0] and "timed by its arrival" in clock.jumps[0]


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_jump_among_rows_that_are_kept_back_leaves_one_row_without_a_time(jump_s: float):
    right = [1e9 + row for row in range(40)]
    own = [time_s + (jump_s if row >= 25 else 0.0) for row, time_s in enumerate(right)]
    arrived = [1e9 + 10.0 * (1 + row // 10) for row in range(40)]
    elapsed, clock = times(own, arrived)
    assert elapsed.count(None) == 1 and elapsed[24] is None and len(clock.jumps) == 1
    assert [seconds for seconds in elapsed if seconds is not None] == pytest.approx([1.0] * 38)


def test_rows_that_are_kept_back_for_two_minutes_have_their_own_times():
    right = [1e9 + row for row in range(600)]
    arrived = [1e9 + 120.0 * (1 + row // 120) for row in range(600)]
    elapsed, clock = times(right, arrived)
    assert elapsed == pytest.approx([1.0] * 599) and clock.jumps == []


def test_a_clock_of_whole_seconds_and_one_that_begins_at_zero_are_no_jumps():
    elapsed, clock = times([1e9, 1e9, 1e9, 1e9 + 1.0], [1e9 + 0.3 * row for row in range(4)])
    assert elapsed == [None, None, 1.0] and clock.jumps == []
    elapsed, clock = times([0.5, 1.5, 2.5], [1e9 + row for row in range(3)])
    assert elapsed == pytest.approx([1.0, 1.0]) and clock.jumps == []
    first, last = (clock.time(own, 1e9 + own) for own in (3.5, 4.5))
    assert first is not None and last is not None and last.unix_time_s == pytest.approx(1e9 + 4.0), (
        "in seconds since 1970"
    )


def test_times_after_a_jump_go_on_from_those_before():
    clock = LogClock(150.0)
    rows = [clock.time(1e9 + row + (7200.0 if row >= 3 else 0.0), 1e9 + row) for row in range(6)]
    unix_s = [row.unix_time_s for row in rows if row is not None]
    assert [later - earlier for earlier, later in pairwise(unix_s)] == pytest.approx([1.0] * 5)


def test_a_log_of_many_names_is_not_remembered_whole():
    builder = Builder(JSONL)
    for number in range(3 * bounded.MOST_NAMES):
        builder.add([sources.Event(float(number), {f"name{number}": 1.0}, number, is_whole=True, begins_row=True)])
    assert len(builder.missing()) < 5_000


def test_the_reason_of_an_unreadable_line_is_a_sentence():
    with pytest.raises(Unreadable, match="its step is nan"):
        bounded.step(float("nan"))


def test_folders_that_are_renamed_while_they_are_listed_lose_no_row(tmp_path: Path):
    """Checkpoints are written into a folder that then gets its name."""
    folders = [tmp_path / f"checkpoint-{number}" for number in range(50)]
    for folder in folders:
        (folder / "state").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    log = tmp_path / "run/log.jsonl"
    reader = sources.of(Rows.model_validate({"source": "jsonl", "path": "**/log.jsonl", "step": "frames"}), tmp_path)
    ended = threading.Event()

    def rename() -> None:
        while not ended.is_set():
            for folder in folders:
                folder.rename(folder.with_suffix(".tmp")).rename(folder)

    renaming = threading.Thread(target=rename)
    renaming.start()
    read: list[float] = []
    try:
        for number in range(100):
            with log.open("a") as lines:
                lines.write(json.dumps({"loss": number}) + "\n")
            read += [event.values["loss"] for event in reader.poll(0.0)]
    finally:
        ended.set()
        renaming.join()
    read += [event.values["loss"] for event in reader.poll(0.0)]
    assert read == list(range(100))


def test_a_log_whose_folder_is_renamed_before_it_is_opened_is_read_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reader = sources.of(JSONL, tmp_path)
    renamed = tmp_path / "checkpoint/log.jsonl"
    renamed.parent.mkdir()
    renamed.write_text('{"frames": 8, "time": 1.0}\n')
    found = [[tmp_path / "checkpoint.tmp/log.jsonl"], [renamed]]
    monkeypatch.setattr(sources, "_files", lambda *_: found.pop(0))
    assert [[event.values["frames"] for event in reader.poll(0.0)] for _ in range(2)] == [[], [8.0]]
    assert reader.problems.count == 0


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A log of TensorBoard's with one number."""
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path / "run"))
    summary = Summary(value=[Summary.Value(tag="fps", simple_value=7.0)])
    writer.add_event(Event(wall_time=1.0, step=0, summary=summary))
    writer.close()
    (path,) = tmp_path.glob("run/*")
    return path


@pytest.mark.parametrize("was_read", [False, True])
def test_a_log_of_tensorboards_that_vanishes_is_no_crash_and_is_read_once_it_is_back(
    events: Path, was_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reader = sources.TensorBoard(tmp_path, "run/events*")
    if was_read:
        assert [event.values for event in reader.poll(0.0)] == [{"fps": 7.0}]
    monkeypatch.setattr(sources, "_files", lambda *_: [events])
    away = events.rename(tmp_path / "away")
    assert list(reader.poll(0.0)) == []
    away.rename(events)
    assert [event.values for event in reader.poll(0.0)] == [{"fps": 7.0}]
    assert reader.problems.count == 0
