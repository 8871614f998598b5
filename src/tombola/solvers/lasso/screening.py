"""What dual variables prove: a lower bound on the minimum, and columns that are 0 there.

Slopes are dual variables, a_i = -phi'(z_i), and u_j = (1/n) sum_i s_i a_i x_ij. Scaled by a factor
that makes them feasible, they prove (`tombola.solvers.gap`)

    min F >= D(a) = -(1/n) sum_i s_i phi*(-a_i) - sum_j max(|u_j| - l1, 0)^2 / (2 l2)

D is strongly concave, so that its maximum a* is near where F - D is small, and with it u*. Where
|u*_j| < l1 for all of these, w_j = 0 at the minimum: gap-safe screening.

References
----------
Fercoq, Gramfort, Salmon (2015). Mind the Duality Gap: Safer Rules for the Lasso.
Ndiaye, Fercoq, Gramfort, Salmon (2017). Gap Safe Screening Rules for Sparsity Enforcing Penalties.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.problems.linear import Linear
from tombola.solvers.dual.full_pass import ROUNDING
from tombola.state import Floats

__all__ = ["Bound", "Penalty", "balanced", "best_bound", "may_matter"]


class Penalty(NamedTuple):
    """l1 |w|_1 + l2/2 |w|^2, and w >= 0 if `positive`."""

    l1: float
    l2: float
    positive: bool = False

    def value(self, w: Floats) -> float:
        """Return the penalty of w."""
        return float(self.l1 * np.abs(w).sum() + 0.5 * self.l2 * (w @ w))

    def size(self, u: Floats) -> Floats:
        """Return what has to stay below l1 for w = 0: |u|, or u if w cannot be negative."""
        return u if self.positive else np.abs(u)


class Bound(NamedTuple):
    """A lower bound on the minimum, and the factor of the dual variables that prove it."""

    value: float
    factor: float


def balanced(slopes: Floats, weights: Floats, exact: bool) -> Floats:
    """Return a = -phi' moved to where sum_i s_i a_i = 0, as an intercept needs.

    Those of least squares (`exact`) are centred; of others, the heavier sign is scaled down, which
    keeps them in their domain.
    """
    duals = -slopes
    if exact:
        return np.asarray(duals - weights @ duals / weights.sum())
    gain = float(weights @ np.maximum(duals, 0.0))
    loss = float(weights @ np.maximum(-duals, 0.0))
    if gain > loss:
        duals[duals > 0.0] *= loss / gain
    elif loss > gain:
        duals[duals < 0.0] *= gain / loss
    return duals


def best_bound(model: Linear, duals: Floats, u: Floats, w: Floats, penalty: Penalty) -> Bound:
    """Return the better of two bounds: of a itself if l2 > 0, and of a scaled to |u| <= l1."""
    n, l1, l2, _ = duals.size, *penalty
    largest = float(penalty.size(u - l2 * w).max(initial=0.0))
    factors = [l1 / largest if largest > l1 else 1.0]
    if l2 > 0.0:
        factors.append(1.0)
    bounds = []
    for factor in factors:
        total, terms = conjugate_sum(model, duals, factor)
        over = 0.0
        if l2 > 0.0:
            excess = np.maximum(factor * penalty.size(u) - l1, 0.0)
            over = float(excess @ excess) / (2.0 * l2)
        rounding = ROUNDING * (terms / n + over)
        bounds.append(Bound(float(-total / n - over - rounding), factor))
    return max(bounds)


def may_matter(
    u: Floats, lengths: Floats, gap: float, curvature: float, penalty: Penalty
) -> NDArray[np.bool_]:
    """Return which w_j may be other than 0 at the minimum.

    Parameters
    ----------
    u : ndarray
        Of the dual point whose bound is `gap` below the objective.
    lengths : ndarray
        The roots of (1/n) sum_i s_i x_ij^2; with an intercept, of columns less their means.
    gap, curvature : float
        -phi* is strongly concave with 1 / curvature, so (1/n) sum_i s_i (a_i - a*_i)^2 is at most
        2 curvature gap.
    penalty : Penalty
    """
    reach = lengths * math.sqrt(2.0 * curvature * max(gap, 0.0))
    return np.asarray(penalty.size(u) + reach >= penalty.l1)


@kernel
def conjugate_sum(model: Linear, duals: Floats, factor: float) -> Any:
    """Return the sum of s_i phi*(-factor a_i), and that of the absolute values of its terms."""
    total = terms = 0.0
    for i in range(duals.size):
        term = model.weights[i] * model.conjugate(i, factor * duals[i])
        total += term
        terms += abs(term)
    return total, terms
