"""Least squares; with l1 the lasso, with l2 ridge regression."""

from typing import Any

import numpy as np

from tombola.problems.linear import Linear, LinearProblem
from tombola.state import Floats

__all__ = ["LeastSquares"]


class LeastSquaresModel(Linear):
    """phi(z, y) = (z - y)^2 / 2."""

    def loss(self, item: int, z: Any) -> Any:
        """Return (z - y)^2 / 2."""
        residual = z - self.targets[item]
        return 0.5 * residual * residual

    def slope(self, item: int, z: Any) -> Any:
        """Return z - y."""
        return z - self.targets[item]

    def curve(self, item: int, z: Any) -> Any:
        """Return 1."""
        return 1.0

    def derivatives(self, items: Any, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return phi, phi' and phi'' at inner products z."""
        residuals = z - self.targets[items]
        return 0.5 * residuals * residuals, residuals, np.ones_like(residuals)

    def conjugate(self, item: int, a: Any) -> Any:
        """Return a^2 / 2 - a y, for any a."""
        return a * (0.5 * a - self.targets[item])

    def inside(self, item: int, a: Any) -> Any:
        """Return True."""
        return True

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return (y - z + q a) / (1 + q)."""
        return a + (self.targets[item] - z - a) / (1.0 + q)


class LeastSquares(LinearProblem):
    """Least squares: phi(z, y) = (z - y)^2 / 2; with l1 the lasso.

    Parameters and attributes are those of `LinearProblem`.

    Examples
    --------
    >>> problem = LeastSquares([[1.0], [2.0]], [1.0, 0.0])
    >>> problem.value([1.0]), problem.gradient([1.0])
    (1.0, array([2.]))
    """

    model_class = LeastSquaresModel
    curvature = 1.0
