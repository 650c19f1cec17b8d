"""Showing: a verdict for people. Decides nothing.

In: verdict.json, records. Out: figures, report.html, the terminal's text. May use: `study`, `record`, `verdict`.

terminal     `envknee summary`: the answer, or everything
short        the answer on one screen
grid         a table as lines that fit a width
report       report.html
scripts      the scripts of a page, and the policy that runs these alone
page_data    what they read
about        when and on what trials were measured
trials       the table of all trials
watch/       the live view of a sweep, and the process beside it that refreshes the report
evidence     what figures and report are made from
figures/     a file each
charts/      data of the report's interactive charts
"""
