"""When a law through measured points is fitted and used: numbers that readers of a law are told."""

from envknee.verdict.rule import affine

LEAST_SIZES = affine.LEAST_SIZES
"""Fewest different sizes to which a law is fitted."""

LARGEST_ERROR = affine.ERROR_LIMIT
"""A law with a larger relative error at any point is shown, but not used."""
