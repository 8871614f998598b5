"""Solve positive definite systems, by Cholesky's factorisation."""

import math
from typing import Any

from tombola.compiling import kernel

__all__ = ["factorise", "substitute"]

TINY = 1e-14  # a pivot below this share of its diagonal entry is raised to it
SMALLEST = 1e-300  # of a pivot


@kernel(inner=True, fast=True)
def inner_product(left: Any, right: Any, size: int) -> Any:
    """Return the sum of the first products."""
    total = 0.0
    for k in range(size):
        total += left[k] * right[k]
    return total


@kernel(inner=True)
def factorise(matrix: Any) -> None:
    """Replace the lower triangle of A by L, A = L L'; only the lower triangle is read.

    If rounding makes A indefinite, pivots are raised.
    """
    for j in range(matrix.shape[0]):
        row = matrix[j]
        for k in range(j):
            row[k] = (row[k] - inner_product(row, matrix[k], k)) / matrix[k, k]
        pivot = row[j] - inner_product(row, row, j)
        row[j] = math.sqrt(max(pivot, TINY * row[j], SMALLEST))


@kernel(inner=True)
def substitute(factor: Any, vector: Any) -> None:
    """Replace a vector by the x of L L' x = vector."""
    for j in range(vector.size):
        vector[j] = (vector[j] - inner_product(factor[j], vector, j)) / factor[j, j]
    for j in range(vector.size - 1, -1, -1):
        vector[j] /= factor[j, j]
        for k in range(j):
            vector[k] -= factor[j, k] * vector[j]
