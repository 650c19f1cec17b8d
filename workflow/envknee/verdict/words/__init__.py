"""Sentences of a verdict, where there are too many for the module that decides. Pure.

In: the models of `schema`, and data of the limits. Out: strings. `numbers` formats the numbers.
"""
