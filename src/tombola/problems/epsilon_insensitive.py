"""The epsilon-insensitive loss of support vector regression."""

import math
from typing import Any

from numpy.typing import ArrayLike

from tombola.problems.linear import Linear, LinearProblem
from tombola.validation import number

__all__ = ["EpsilonInsensitive"]


class EpsilonInsensitiveModel(Linear):
    """phi(z, y) = max(0, |z - y| - epsilon)."""

    __slots__ = ()

    @staticmethod
    def slopes(model: Any, item: Any, z: Any, out: Any) -> Any:
        """Return phi; its derivative is the sign of z - y beyond epsilon, else 0."""
        residual = z[0] - model.targets[item]
        beyond = abs(residual) - model.settings[0].epsilon
        out[0] = math.copysign(1.0, residual) if beyond > 0.0 else 0.0
        return max(0.0, beyond)

    @staticmethod
    def slope(model: Any, item: Any, z: Any) -> Any:
        """Return the sign of z - y beyond epsilon, else 0."""
        residual = z - model.targets[item]
        if abs(residual) <= model.settings[0].epsilon:
            return 0.0
        return math.copysign(1.0, residual)

    @staticmethod
    def curve(model: Any, item: Any, z: Any) -> Any:
        """Return 0."""
        return 0.0

    @staticmethod
    def conjugate(model: Any, item: Any, a: Any) -> Any:
        """Return epsilon |a| - a y, for |a| <= 1."""
        return model.settings[0].epsilon * abs(a) - a * model.targets[item]

    @staticmethod
    def inside(model: Any, item: Any, a: Any) -> Any:
        """Return whether |a| is at most 1."""
        return abs(a) <= 1.0

    @staticmethod
    def clearance(model: Any, item: Any, z: Any) -> Any:
        """Return the distance of |z - y| from epsilon."""
        return abs(abs(z - model.targets[item]) - model.settings[0].epsilon)

    @staticmethod
    def ascend(model: Any, item: Any, a: Any, z: Any, q: Any) -> Any:
        """Return t = q a + y - z, moved towards 0 by epsilon, over q, moved into [-1, 1]."""
        if not q < math.inf:
            return a
        t = q * a + model.targets[item] - z
        beyond = abs(t) - model.settings[0].epsilon
        if beyond <= 0.0:
            return 0.0
        return math.copysign(beyond / q if beyond < q else 1.0, t)


class EpsilonInsensitive(LinearProblem):
    """Support vector regression: phi = max(0, |z - y| - epsilon).

    It is not smooth: `SDCA` and `SGD` minimise it, `SAGA`, `SVRG` and coordinate descent do not.

    Parameters
    ----------
    X, y, **options
        Those of `LinearProblem`.
    epsilon : float, default=0.1
        Residuals up to this size cost nothing, in the unit of y.

    Examples
    --------
    >>> problem = EpsilonInsensitive([[1.0], [1.0]], [0.0, 3.0], epsilon=0.5)
    >>> problem.losses([0.5])
    array([0., 2.])
    """

    model_class = EpsilonInsensitiveModel
    curvature = math.inf

    def __init__(self, X: Any, y: ArrayLike, *, epsilon: float = 0.1, **options: Any) -> None:
        if not 0 <= number("epsilon", epsilon) < math.inf:
            raise ValueError(f"epsilon must be finite and not negative, got {epsilon!r}")
        self.epsilon = float(epsilon)
        super().__init__(X, y, **options)

    def _own_settings(self) -> dict[str, float]:
        return {"epsilon": self.epsilon}
