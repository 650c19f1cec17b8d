"""Every sentence of a verdict. Pure.

In: the models of `schema`, and data of the limits. Out: strings. `numbers` formats the numbers.
"""
