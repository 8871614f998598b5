"""Least squares; with l1 the lasso, with l2 ridge regression."""

from typing import Any

from tombola.problems.linear import Linear, LinearProblem

__all__ = ["LeastSquares"]


class LeastSquaresModel(Linear):
    """phi(z, y) = (z - y)^2 / 2."""

    __slots__ = ()

    @staticmethod
    def slopes(model: Any, item: Any, z: Any, out: Any) -> Any:
        """Return phi; its derivative is z - y."""
        residual = z[0] - model.targets[item]
        out[0] = residual
        return 0.5 * residual * residual

    @staticmethod
    def slope(model: Any, item: Any, z: Any) -> Any:
        """Return z - y."""
        return z - model.targets[item]

    @staticmethod
    def curve(model: Any, item: Any, z: Any) -> Any:
        """Return 1."""
        return 1.0

    @staticmethod
    def conjugate(model: Any, item: Any, a: Any) -> Any:
        """Return a^2 / 2 - a y, for any a."""
        return a * (0.5 * a - model.targets[item])

    @staticmethod
    def inside(model: Any, item: Any, a: Any) -> Any:
        """Return True."""
        return True

    @staticmethod
    def ascend(model: Any, item: Any, a: Any, z: Any, q: Any) -> Any:
        """Return (y - z + q a) / (1 + q)."""
        return a + (model.targets[item] - z - a) / (1.0 + q)


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
