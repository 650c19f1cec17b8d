"""From a results folder to verdict.json: a study becomes plain settings, `verdict` decides, files are read and written here.

In: study.json and records. Out: verdict.json and records.csv. May use: `verdict`, `record`, `study`.
"""
