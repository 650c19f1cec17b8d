"""Showing: a verdict for people. Decides nothing.

In: verdict.json, records. Out: figures, report.html, the terminal's table. May use: `study`, `record`, `verdict`.
"""
