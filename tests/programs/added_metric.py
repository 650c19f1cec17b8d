"""Checks that a metric of a row, gpu_temperature_c, is recorded and shown once it is declared: ROOT of the project."""

import sys
from pathlib import Path

from envknee.decide.records_csv import records_csv
from envknee.record.build import build_record
from envknee.record.packed import study_folder
from envknee.record.read import load_records, read_rows
from envknee.tracking.system import system_metrics

folder = study_folder(Path(sys.argv[1]) / "results-published/cartpole-one-gpu")
record = next(record for record in load_records(folder) if record.fps_total)
rows = read_rows(folder.trial(record.request.number))
warm = [row.model_copy(update={"gpu_temperature_c": 50.0 + row.iteration}) for row in rows]
again = build_record(record.request, warm, record.outcome)
median = again.metrics["gpu_temperature_c"].median
assert 50.0 < median <= 50.0 + warm[-1].iteration
header, values = (line.split(",") for line in records_csv([again]).splitlines()[:2])
assert float(values[header.index("gpu_temperature_c")]) == median
environment = record.outcome.environment
assert environment is not None
shown = system_metrics(warm[0], environment.device)
assert [name for name in shown if "temp" in name] == ["system/gpu_0_temp_c"]
assert build_record(record.request, rows, record.outcome).metrics == {}
