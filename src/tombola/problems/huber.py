"""The Huber loss: squares of small residuals, absolute values of large ones."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tombola.problems.linear import Linear, LinearProblem, Settings
from tombola.state import Cell, Floats, derived
from tombola.validation import number

__all__ = ["EpsilonSettings", "Huber"]


class EpsilonSettings(Settings):
    """The numbers of a problem whose loss has a parameter epsilon."""

    epsilon: float = derived("a size of residuals, in the unit of y")


class HuberModel(Linear):
    """phi(z, y) = r^2 / 2 for r = |z - y| up to epsilon, then epsilon (r - epsilon / 2)."""

    settings: Cell[EpsilonSettings] = derived("penalties and epsilon")

    def loss(self, item: int, z: Any) -> Any:
        """Return phi, with the slope s: s (z - y - s / 2)."""
        slope = self.slope(item, z)
        return slope * (z - self.targets[item] - 0.5 * slope)

    def slope(self, item: int, z: Any) -> Any:
        """Return z - y, moved into [-epsilon, epsilon]."""
        epsilon = self.settings[0].epsilon
        return min(max(z - self.targets[item], -epsilon), epsilon)

    def curve(self, item: int, z: Any) -> Any:
        """Return 1 for residuals below epsilon, else 0."""
        return 1.0 if abs(z - self.targets[item]) < self.settings[0].epsilon else 0.0

    def derivatives(self, items: Any, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return phi, phi' and phi'' at inner products z."""
        residuals, epsilon = z - self.targets[items], self.settings[0].epsilon
        slopes = np.clip(residuals, -epsilon, epsilon)
        return slopes * (residuals - 0.5 * slopes), slopes, 1.0 * (np.abs(residuals) < epsilon)

    def conjugate(self, item: int, a: Any) -> Any:
        """Return a^2 / 2 - a y, for |a| <= epsilon."""
        return a * (0.5 * a - self.targets[item])

    def inside(self, item: int, a: Any) -> Any:
        """Return whether |a| is at most epsilon."""
        return abs(a) <= self.settings[0].epsilon

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return (y - z + q a) / (1 + q), moved into [-epsilon, epsilon]."""
        epsilon = self.settings[0].epsilon
        b = a + (self.targets[item] - z - a) / (1.0 + q)
        return min(max(b, -epsilon), epsilon)


class Huber(LinearProblem):
    """Huber regression: with r = |z - y|, phi = r^2 / 2 up to epsilon, then linear.

    Parameters
    ----------
    X, y, **options
        Those of `LinearProblem`.
    epsilon : float, default=1.35
        The residual at which phi becomes linear, in the unit of y.

    Examples
    --------
    >>> problem = Huber([[1.0], [1.0]], [0.0, 10.0], epsilon=1.0)
    >>> problem.losses([1.0])
    array([0.5, 8.5])
    """

    model_class = HuberModel
    curvature = 1.0

    def __init__(self, X: Any, y: ArrayLike, *, epsilon: float = 1.35, **options: Any) -> None:
        if not 0 < number("epsilon", epsilon) < math.inf:
            raise ValueError(f"epsilon must be positive and finite, got {epsilon!r}")
        self.epsilon = float(epsilon)
        super().__init__(X, y, **options)

    def _settings(self) -> EpsilonSettings:
        return EpsilonSettings(**vars(super()._settings()), epsilon=self.epsilon)
