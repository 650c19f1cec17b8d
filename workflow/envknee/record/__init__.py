"""The record: what a trial leaves, as frozen models.

In: request.json, metrics.jsonl, outcome.json, cost.json. Out: record.json.
May use: `study`.

schema     every file of a trial, with units
metric     what a figure of a row is: declared with its field
status     how a trial ended, and which endings belong together
build      the record, from the others; pure
read       records and rows of a results folder
"""
