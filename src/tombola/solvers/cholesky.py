"""Solve positive definite systems, by Cholesky's factorisation."""

import math
from typing import Any

from tombola.compiling import kernel

__all__ = ["solve_positive"]

TINY = 1e-14  # a pivot below this share of its diagonal entry is raised to it


@kernel(inner=True, fast=True)
def inner_product(left: Any, right: Any, size: Any) -> Any:
    """Return the sum of the first products."""
    total = 0.0
    for k in range(size):
        total += left[k] * right[k]
    return total


@kernel(inner=True)
def solve_positive(matrix: Any, vector: Any) -> None:
    """Replace a vector by the solution x of A x = vector; A's lower triangle becomes L, A = L L'.

    Only the lower triangle is read. Where rounding makes A indefinite, pivots are raised.
    """
    size = vector.size
    for j in range(size):
        row = matrix[j]
        for k in range(j):
            row[k] = (row[k] - inner_product(row, matrix[k], k)) / matrix[k, k]
        pivot = row[j] - inner_product(row, row, j)
        row[j] = math.sqrt(max(pivot, TINY * row[j], 1e-300))
        vector[j] = (vector[j] - inner_product(row, vector, j)) / row[j]
    for j in range(size - 1, -1, -1):
        vector[j] /= matrix[j, j]
        for k in range(j):
            vector[k] -= matrix[j, k] * vector[j]
