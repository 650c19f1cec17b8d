"""Showing: what a verdict says, for a person. Decides nothing.

In: verdict.json, records. Out: figures, report.html, the terminal's table. May use: `study`, `record`, `verdict`.
"""
