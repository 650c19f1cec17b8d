"""Every sentence of a verdict: what limits, laws and remedies say to a reader. Pure.

In: the models of `schema` and what the limits know beside them. Out: strings. A number is written by `numbers` alone.
"""
