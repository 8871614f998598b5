"""Logistic regression with two classes."""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.problems.linear import Linear, TwoClasses
from tombola.state import Floats

__all__ = ["Logistic"]


STEPS = 60  # of Halley's method, at most; 1 to 3 are usual
FAR = 3.0  # how much the first step may multiply alpha by
SMALL = 1e-3  # it ends with a relative change below this: what is left is about its cube


@kernel
def balanced(alpha: Any, margin: Any, q: Any) -> Any:
    """Return the root of f(beta) = log(beta / (1 - beta)) + margin + q (beta - alpha) in [0, 1].

    A root above 1/2 is that of the reflected equation below it, where f is concave and rises:
    Newton's method approaches the root from below there, and Halley's in fewer steps. It begins at
    alpha, or at a lower bound of the root if alpha is too far from it: if the first step
    leads below 0, or multiplies a small alpha.
    """
    if not q < math.inf:
        return alpha
    reflected = margin + q * (0.5 - alpha) < 0.0
    if reflected:
        alpha, margin = 1.0 - alpha, -margin
    first, step = min(alpha, 0.5), 1.0
    beta = first
    if first > 0.0:
        step = halley_step(first, alpha, margin, q)
        beta = min(first - step, 0.5)
    if not 0.0 < beta <= FAR * first:
        beta, step = max(beta, lower_bound(alpha, margin, q)), 1.0
    for _ in range(STEPS):
        if abs(step) <= SMALL * beta or beta <= 0.0:  # 0: below the smallest number
            break
        step = halley_step(beta, alpha, margin, q)
        beta = min(max(beta - step, 0.1 * beta), 0.5)
    return 1.0 - beta if reflected else beta


@kernel(inline=True)
def halley_step(beta: Any, alpha: Any, margin: Any, q: Any) -> Any:
    """Return (f / f') / (1 - f f'' / (2 f'^2)), with a denominator of at least 1/2."""
    rest = beta * (1.0 - beta)
    f, slope = math.log(beta / (1.0 - beta)) + margin + q * (beta - alpha), 1.0 + q * rest
    return f * rest / max(slope + f * (0.5 - beta) / slope, 0.5 * slope)


@kernel
def lower_bound(alpha: Any, margin: Any, q: Any) -> Any:
    """Return a number below a root beta <= 1/2, close to it if beta is small.

    beta >= exp(q (alpha - beta) - margin) / 2, so q beta >= W(x), with Lambert's W and
    log(x) = log(q / 2) + q alpha - margin; W(x) is at least log(x) - log(log(x)) for x >= e, and
    at least x / (1 + x).
    """
    if q <= 0.0:
        return 0.5 * math.exp(-max(margin, 0.0))
    log_x = math.log(0.5 * q) + q * alpha - margin
    if log_x >= 1.0:
        return min((log_x - math.log(log_x)) / q, 0.5)
    x = math.exp(log_x)
    return x / (1.0 + x) / q


class LogisticModel(Linear):
    """phi(z, y) = log(1 + exp(-y z))."""

    def slopes(self, item: int, z: Floats, out: Floats) -> Any:
        """Return phi; its derivative is -y / (1 + exp(y z))."""
        y = self.targets[item]
        margin = y * z[0]
        if margin >= 0.0:
            small = math.exp(-margin)
            out[0] = -y * small / (1.0 + small)
            return math.log1p(small)
        small = math.exp(margin)
        out[0] = -y / (1.0 + small)
        return math.log1p(small) - margin

    def slope(self, item: int, z: Any) -> Any:
        """Return -y / (1 + exp(y z))."""
        y = self.targets[item]
        margin = y * z
        if margin >= 0.0:
            small = math.exp(-margin)
            return -y * small / (1.0 + small)
        return -y / (1.0 + math.exp(margin))

    def curve(self, item: int, z: Any) -> Any:
        """Return 1 / ((1 + exp(z)) (1 + exp(-z)))."""
        small = math.exp(-abs(z))
        return small / ((1.0 + small) * (1.0 + small))

    def derivatives(self, items: Any, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return phi, phi' and phi'' at inner products z."""
        y = self.targets[items]
        margins = y * z
        small = np.exp(-np.abs(margins))
        share = 1.0 / (1.0 + small)
        slopes = -y * (np.maximum(small, margins < 0.0) * share)
        return np.log1p(small) - np.minimum(margins, 0.0), slopes, small * share * share

    def conjugate(self, item: int, a: Any) -> Any:
        """Return alpha log(alpha) + (1 - alpha) log(1 - alpha), for alpha = y a from 0 to 1."""
        alpha = self.targets[item] * a
        if alpha <= 0.0 or alpha >= 1.0:
            return 0.0
        return alpha * math.log(alpha) + (1.0 - alpha) * math.log1p(-alpha)

    def inside(self, item: int, a: Any) -> Any:
        """Return whether y a is from 0 to 1."""
        return 0.0 <= self.targets[item] * a <= 1.0

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return y beta, where log(beta / (1 - beta)) + y z + q (beta - alpha) = 0."""
        y = self.targets[item]
        return y * balanced(y * a, y * z, q)


class Logistic(TwoClasses):
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
