"""The squared hinge loss of support vector machines."""

from typing import Any

import numpy as np

from tombola.problems.linear import Linear, TwoClasses
from tombola.state import Floats

__all__ = ["SquaredHinge"]


class SquaredHingeModel(Linear):
    """phi(z, y) = max(0, 1 - y z)^2."""

    def loss(self, item: int, z: Any) -> Any:
        """Return max(0, 1 - y z)^2."""
        short = max(0.0, 1.0 - self.targets[item] * z)
        return short * short

    def slope(self, item: int, z: Any) -> Any:
        """Return -2 y max(0, 1 - y z)."""
        y = self.targets[item]
        return -2.0 * y * max(0.0, 1.0 - y * z)

    def curve(self, item: int, z: Any) -> Any:
        """Return 2 if the margin is below 1, else 0."""
        return 2.0 if self.targets[item] * z < 1.0 else 0.0

    def derivatives(self, items: Any, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return phi, phi' and phi'' at inner products z."""
        y = self.targets[items]
        short = np.maximum(0.0, 1.0 - y * z)
        return short * short, -2.0 * y * short, 2.0 * (short > 0.0)

    def conjugate(self, item: int, a: Any) -> Any:
        """Return alpha^2 / 4 - alpha, for alpha = y a >= 0."""
        alpha = self.targets[item] * a
        return alpha * (0.25 * alpha - 1.0)

    def inside(self, item: int, a: Any) -> Any:
        """Return whether y a is at least 0."""
        return self.targets[item] * a >= 0.0

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return y max(0, (1 - y z + q alpha) / (1/2 + q))."""
        y = self.targets[item]
        alpha = y * a
        return y * max(0.0, alpha + (1.0 - y * z - 0.5 * alpha) / (0.5 + q))


class SquaredHinge(TwoClasses):
    """Squared hinge: phi(z, y) = max(0, 1 - y z)^2, labels -1 and 1 (or 0 and 1).

    Parameters and attributes are those of `LinearProblem`.

    Examples
    --------
    >>> problem = SquaredHinge([[1.0], [2.0]], [1, -1])
    >>> problem.losses([1.0])
    array([0., 9.])
    """

    model_class = SquaredHingeModel
    curvature = 2.0
