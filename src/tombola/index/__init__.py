"""Exact, constant-time draws in proportion to integer weights that may change."""

from tombola.index.weight_index import WeightIndex

__all__ = ["WeightIndex"]
