"""The hinge loss of support vector machines."""

import math
from typing import Any

from tombola.problems.linear import Linear, TwoClasses

__all__ = ["Hinge"]


class HingeModel(Linear):
    """phi(z, y) = max(0, 1 - y z)."""

    def loss(self, item: int, z: Any) -> Any:
        """Return max(0, 1 - y z)."""
        return max(0.0, 1.0 - self.targets[item] * z)

    def slope(self, item: int, z: Any) -> Any:
        """Return -y if the margin is below 1, else 0."""
        y = self.targets[item]
        return -y if y * z < 1.0 else 0.0

    def curve(self, item: int, z: Any) -> Any:
        """Return 0."""
        return 0.0

    def conjugate(self, item: int, a: Any) -> Any:
        """Return -alpha, for alpha = y a from 0 to 1."""
        return -self.targets[item] * a

    def inside(self, item: int, a: Any) -> Any:
        """Return whether y a is from 0 to 1."""
        return 0.0 <= self.targets[item] * a <= 1.0

    def clearance(self, item: int, z: Any) -> Any:
        """Return |1 - y z|."""
        return abs(1.0 - self.targets[item] * z)

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return y times alpha + (1 - y z) / q, moved into [0, 1]."""
        y = self.targets[item]
        short = 1.0 - y * z
        if short == 0.0:
            return a
        if abs(short) >= q:
            return y if short > 0.0 else 0.0
        return y * min(max(y * a + short / q, 0.0), 1.0)


class Hinge(TwoClasses):
    """Hinge: phi(z, y) = max(0, 1 - y z), labels -1 and 1 (or 0 and 1).

    It is not smooth: `SDCA` and `SGD` minimise it, `SAGA`, `SVRG` and coordinate descent do not.
    Parameters and attributes are those of `LinearProblem`.

    Examples
    --------
    >>> problem = Hinge([[1.0], [2.0]], [1, -1])
    >>> problem.losses([1.0])
    array([0., 3.])
    """

    model_class = HingeModel
    curvature = math.inf
