"""The epsilon-insensitive loss of support vector regression."""

import math
from typing import Any

from numpy.typing import ArrayLike

from tombola.problems.huber import EpsilonSettings
from tombola.problems.linear import Linear, LinearProblem
from tombola.state import Cell, derived
from tombola.validation import number

__all__ = ["EpsilonInsensitive"]


class EpsilonInsensitiveModel(Linear):
    """phi(z, y) = max(0, |z - y| - epsilon)."""

    settings: Cell[EpsilonSettings] = derived("penalties and epsilon")

    def loss(self, item: int, z: Any) -> Any:
        """Return max(0, |z - y| - epsilon)."""
        return max(0.0, abs(z - self.targets[item]) - self.settings[0].epsilon)

    def slope(self, item: int, z: Any) -> Any:
        """Return the sign of z - y beyond epsilon, else 0."""
        residual = z - self.targets[item]
        return math.copysign(1.0, residual) if abs(residual) > self.settings[0].epsilon else 0.0

    def curve(self, item: int, z: Any) -> Any:
        """Return 0."""
        return 0.0

    def conjugate(self, item: int, a: Any) -> Any:
        """Return epsilon |a| - a y, for |a| <= 1."""
        return self.settings[0].epsilon * abs(a) - a * self.targets[item]

    def inside(self, item: int, a: Any) -> Any:
        """Return whether |a| is at most 1."""
        return abs(a) <= 1.0

    def clearance(self, item: int, z: Any) -> Any:
        """Return the distance of |z - y| from epsilon."""
        return abs(abs(z - self.targets[item]) - self.settings[0].epsilon)

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return t = q a + y - z, moved towards 0 by epsilon, over q, moved into [-1, 1]."""
        if not q < math.inf:
            return a
        t = q * a + self.targets[item] - z
        beyond = abs(t) - self.settings[0].epsilon
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

    def _settings(self) -> EpsilonSettings:
        return EpsilonSettings(**vars(super()._settings()), epsilon=self.epsilon)
