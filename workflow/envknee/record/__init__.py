"""The record: a trial's files as frozen models.

In: request.json, metrics.jsonl, outcome.json, cost.json, or an archive of them. Out: record.json.
May use: `study`.

schema         every file of a trial, with units
metric         how a figure of a row is combined over ranks and shown
status         how a trial ended, and groups of such endings
build          makes the record from the other files; pure
read           records and rows of a results folder
trial_files    a trial's files: reads and writes each in one place, in their order
archive_file   reads a study's archive, with hashes checked and sizes bounded
packed         a study whose trials lie in an archive, as published ones do
"""
