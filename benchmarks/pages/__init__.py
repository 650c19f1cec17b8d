"""The numbers of README.md and docs/*.md, from what was measured (results-published).

In:   records, verdicts decided today, and JSON files of results-published; pages with marks
Out:  the same pages, with the text between each pair of marks written anew

A module for each page has its tables: a function without arguments returns Markdown, or a value that stands in a sentence.
"""
