"""Logistic regression with two classes."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import Linear, LinearProblem, signs

__all__ = ["Logistic"]


class LogisticModel(Linear):
    """phi(z, y) = log(1 + exp(-y z))."""

    __slots__ = ()

    @staticmethod
    def slopes(model: Any, item: Any, z: Any, out: Any) -> Any:
        """Return phi; its derivative is -y / (1 + exp(y z))."""
        y = model.targets[item]
        margin = y * z[0]
        if margin >= 0.0:
            small = math.exp(-margin)
            out[0] = -y * small / (1.0 + small)
            return math.log1p(small)
        small = math.exp(margin)
        out[0] = -y / (1.0 + small)
        return math.log1p(small) - margin


class Logistic(LinearProblem):
    """Logistic regression: phi(z, y) = log(1 + exp(-y z)), labels -1 and 1 (or 0 and 1).

    Parameters and attributes are those of `LinearProblem`.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Logistic([[1.0, 0.0], [0.0, 2.0]], [1, 0], alpha=0.1)
    >>> round(problem.value([0.0, 0.0]), 3)               # log 2
    0.693
    >>> problem.norms([0.0, 0.0])                         # |slope| |x|
    array([0.5, 1. ])
    """

    model_class = LogisticModel
    curvature = 0.25

    def _checked_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return signs(y, self.n)
