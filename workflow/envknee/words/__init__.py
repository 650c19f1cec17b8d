"""Everything that is said about results, in English. Pure: from a verdict's numbers to sentences.

In: the models of `verdict.schema`. Out: strings, for terminal, report, figures, MLflow and answers about tables. Computes no result, and
nothing reads a sentence again. May use: `verdict.schema`, `record`.

numbers        numbers as a reader sees them
series, ranks  horizon and batch size, and ranks that train together
"""
