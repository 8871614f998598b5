"""Least squares; with l1 the lasso, with l2 ridge regression."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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

    def gap(self, solution: ArrayLike | None) -> float:
        """Return a duality gap: an upper bound on the distance of F from its minimum.

        With r = y - X w, u = X'(s r) / n and < > for a mean over items, it is F(w) minus the
        larger of

            l1 > 0:  c <s y r> - c^2/2 (<s r^2> + l2 |w|^2),   c = min(1, l1 / max_j |u - l2 w|_j)
            l2 > 0:  <s y r> - <s r^2> / 2 - sum_j max(|u_j| - l1, 0)^2 / (2 l2)

        The first is that of scikit-learn's lasso: r, scaled to be dual feasible, with l2 as d
        more rows. The second needs no scaling.

        Parameters
        ----------
        solution : array-like, shape (d,)
            With an intercept (d + 1,); the dual point is then that of the best intercept for w.

        Examples
        --------
        >>> lasso = LeastSquares([[1.0], [2.0]], [1.0, 0.0], alpha=0.1, l1_ratio=1.0)
        >>> lasso.gap([0.16]) < 1e-15, round(lasso.gap([0.2]), 4)
        (True, 0.02)

        References
        ----------
        Kim, Koh, Lustig, Boyd, Gorinevsky (2007). An Interior-Point Method for Large-Scale
        l1-Regularized Least Squares.
        """
        if self.alpha == 0:
            raise ValueError("a duality gap needs a problem with alpha above 0")
        w = self.as_matrix(solution)
        losses, slopes, gradient = self.evaluate(solution)
        value = float(losses.mean()) + self.penalty(solution)
        if self.fit_intercept:
            w[0, -1] -= slopes.mean()  # a dual point is orthogonal to ones
            losses, slopes, gradient = self.evaluate(w.reshape(self.shape))
        w, u = w[0, : self.d], -gradient[0, : self.d]
        squares, product = 2.0 * losses.mean(), -(self.model.targets * slopes[:, 0]).mean()
        duals = []
        if self.l1 > 0:
            largest = np.abs(u - self.l2 * w).max()
            c = min(1.0, self.l1 / largest) if largest > 0 else 1.0
            duals.append(c * product - c * c / 2.0 * (squares + self.l2 * (w * w).sum()))
        if self.l2 > 0:
            excess = np.maximum(np.abs(u) - self.l1, 0.0)
            duals.append(product - squares / 2.0 - (excess * excess).sum() / (2.0 * self.l2))
        return max(0.0, value - float(max(duals)))
