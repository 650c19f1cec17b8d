"""Everything that is said about results, in English. Pure: from a verdict's numbers to sentences.

In: the models of `verdict.schema`. Out: strings, for terminal, report, figures, MLflow and answers about tables. Computes no result, and
nothing reads a sentence again. May use: `verdict.schema`, `record`.

numbers, intervals     numbers as a reader sees them
series, ranks          horizon and batch size, and ranks that train together
throughput, learning, memory, phases, batch, scaling, remedies, levers, rules, machines, spending    each part of a verdict
headline, answer, lead, next_measurement    the recommendation, and the next step
requests               why a trial was not run
plan                   what a study would measure and could show
progress, runs         lines of a sweep; names and descriptions of MLflow's runs
card                   what terminal, report and MLflow open with
best                   what `envknee best` says beside the setting
statements, sentences  which function says which part, and all sentences of a verdict
study, statuses, tables, cards, gpu_peaks    what terminal, report and figures share
table, compare         answers about tables, and comparisons
"""
