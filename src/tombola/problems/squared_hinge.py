"""The squared hinge loss of support vector machines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import Linear, LinearProblem, signs

__all__ = ["SquaredHinge"]


class SquaredHingeModel(Linear):
    """phi(z, y) = max(0, 1 - y z)^2."""

    __slots__ = ()

    @staticmethod
    def slopes(model: Any, item: Any, z: Any, out: Any) -> Any:
        """Return phi; its derivative is -2 y max(0, 1 - y z)."""
        y = model.targets[item]
        short = max(0.0, 1.0 - y * z[0])
        out[0] = -2.0 * y * short
        return short * short


class SquaredHinge(LinearProblem):
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

    def _checked_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return signs(y, self.n)
