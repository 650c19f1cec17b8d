"""The study: what a user asks for, parsed once.

In: a study file. Out: a frozen `Study`, its legal points, the paths of its results. May use: nothing else of envknee.
"""
