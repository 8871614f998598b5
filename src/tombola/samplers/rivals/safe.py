"""Safe adaptive importance sampling from bounds on gradients; Stich, Raj, Jaggi (2017)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel, prefetch
from tombola.draws import Draw
from tombola.samplers.arithmetic import learnt_unit, normalised, unit_after
from tombola.samplers.bounds import as_argument, numbers_for_items
from tombola.samplers.rivals.projections import value_of_others
from tombola.samplers.weighted import Rule, Weighted, WeightedSampler, rebuild
from tombola.state import Cell, Floats, array, cell, count, derived, real
from tombola.validation import positive_count, share

__all__ = ["Safe"]

CRUMB = 2.0**-40  # of m s: the value of an item whose bounds say that its gradient is zero
PASSES = 100


class SafeRule(Rule):
    """The level m, and when it is computed."""

    unit: float = learnt_unit()
    drift: float = real("how far the solver has moved", default=0.0)
    level: float = real("m", default=1.0)
    solved_total: float = real("sum of all values when m was computed", default=0.0)
    interval: int = derived("losses between two computations of m")
    due: int = count("the number of losses at which the next one is due")


class SafeState(Weighted):
    """Bounds on gradient norms, and the level m of their saddle point."""

    rule: Cell[SafeRule]
    norms: Floats = array("the norm of each item at its last visit", 0.0, 2.0**250)
    visited: Floats = array("how far the solver had moved then; -1 before any visit")
    curvature: Floats = derived("s of each item")
    smoothness: Floats = derived("the Lipschitz constant of each item's gradient")

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with a visit: it cannot be further than the solver has moved."""
        visited, drift = saved["visited"], saved["rule"]["drift"]
        return "" if visited.max() <= drift else f"visited has {visited.max()}, beyond {drift}"

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """Make the bounds of the item exact; when due, recompute m."""
        rule = self.rule[0]
        rule.unit = unit_after(rule.unit, loss)
        self.norms[item] = normalised(loss, rule.unit)
        self.visited[item] = rule.drift
        grown = value_of_others(self, item) + self.value(item) > 2.0 * rule.solved_total
        if grown or rule.fed + 1 >= rule.due:
            solve(self)

    def value(self, item: int) -> float:
        """Return s(i) c(i) with c(i) = m s(i) clipped to the bounds; s(i)^2 before any loss."""
        s = self.curvature[item]
        if self.rule[0].unit == 0.0:
            return s * s
        low, high = bounds(self, item)
        wanted = self.rule[0].level * s
        return s * max(min(max(wanted, low), high), CRUMB * wanted)

    def fetch(self, item: int) -> None:
        """Prefetch the norm."""
        prefetch(self.norms, item)


@kernel
def bounds(state: SafeState, item: int) -> Any:
    """Return the bounds on the loss of an item, given how far the solver has moved."""
    since, norm = state.visited[item], state.norms[item]
    if since < 0.0:
        return 0.0, np.inf
    width = (state.rule[0].drift - since) * state.smoothness[item] * state.rule[0].unit
    return max(0.0, norm - width), norm + width


@kernel
def saddle_level(state: SafeState) -> Any:
    """Return m = ||c||^2 / sum_i s(i) c(i), where c(i) is m s(i) clipped to the bounds.

    In ||c||^2 - m sum_i s(i) c(i) only clipped items contribute. The function is piecewise linear
    and decreasing in m: its root is found by Newton's method, with a bisection step whenever Newton
    leaves the bracket.
    """
    level, below, above = state.rule[0].level, 0.0, np.inf
    for _ in range(PASSES):
        squares = 0.0
        products = 0.0
        for item in range(state.norms.size):
            s = state.curvature[item]
            low, high = bounds(state, item)
            if not low <= level * s <= high:
                c = low if level * s < low else high
                squares += c * c
                products += s * c
        if products <= 0.0 or squares <= 0.0 or squares / products == level:
            break
        following = squares / products
        if following > level:
            below = level
        else:
            above = level
        level = following if below < following < above else 0.5 * (below + above)
    return level


@kernel
def solve(state: SafeState) -> None:
    """Compute m, then recompute all weights."""
    rule = state.rule[0]
    rule.due = rule.fed + 1 + rule.interval
    if rule.unit > 0.0:
        rule.level = saddle_level(state)
    rebuild(state)
    rule.solved_total = state.index.sums[0].total / state.sweep[0].scale


class Safe(WeightedSampler):
    """Draws from the best worst-case p, given bounds on the gradient norm of each item.

    The gradient norm c(i) of an item is known exactly when the item is visited. While the solver
    moves by d, it changes by at most smoothness(i) d, so that low(i) <= c(i) <= up(i) at all times.
    The p that minimises the worst case of sum_i s(i)^2 c(i)^2 / p(i) / ||c||^2 is

        c(i) = m s(i), clipped to [low(i), up(i)],   m = ||c||^2 / sum_i s(i) c(i)
        p(i) = s(i) c(i) / sum_j s(j) c(j)

    If nothing is known, p(i) is proportional to s(i)^2; if everything is known, to s(i) c(i).

    Pass gradient norms, and how far the solver moves afterwards: ``update(draw, norms, moved=d)``.

    Cost: a draw takes O(1). An update sets the weight of its item in O(1); every `resolve` losses,
    m is computed exactly and all weights are recomputed, in O(n). With the default, this takes
    about 300 to 600 ns per loss on average, with pauses of about 50 ns per item. Memory is 48 bytes
    per item.

    Guarantee: if the bounds hold, no fixed p is better in the worst case that they allow. If large
    steps make the bounds useless before the next visit, p returns to being proportional to s(i)^2.

    Deviations: between two computations of m, only the weights of visited items change; a weight
    that doubles the total triggers the next computation early. m is found by Newton's method
    instead of sorting. A `mixing` of uniform draws protects against bounds that do not hold (a
    wrong smoothness, a missing `moved`, losses that are not gradient norms); the published rule has
    none. The solvers of this library do not pass `moved`: with them, bounds are those of the last
    visit, and the mixing ensures that all items are still drawn. Before the first loss above zero,
    p is proportional to s(i)^2. Feedback is taken as measured at the solver's current position: if
    it is late, the bounds are too narrow by the distance moved meanwhile.

    Parameters
    ----------
    n : int
        The number of items.
    smoothness : float or array-like of shape (n,)
        The largest change of an item's gradient norm per unit distance that the solver moves;
        beta ||x_i||^2 for a generalised linear model whose loss is beta-smooth.
    curvature : array-like of shape (n,), optional
        L_i, for coordinate descent: s(i) = sqrt(L_i). By default s(i) = 1, for SGD.
    mixing : float in [0, 1], default=0.1
        The share of uniform draws.
    resolve : int, optional
        The number of losses between two computations of m; n/10 by default.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> norms = np.array([0.1] * 9 + [2.0])
    >>> sampler = Safe(10, smoothness=1.0, mixing=0.0)
    >>> sampler.update(sampler.draw(200), np.ones(200), moved=0.5)  # all within [0.5, 1.5]
    >>> sampler.update(sampler.draw(0), [], moved=1.0)              # all within [0, 2.5]
    >>> sampler.probabilities().round(3).tolist() == [0.1] * 10
    True
    >>> draw = sampler.draw(200)
    >>> sampler.update(draw, norms[draw.indices])
    >>> sampler.probabilities().round(3)[8:].tolist()               # 0.1 / 2.9 and 2 / 2.9
    [0.034, 0.69]

    References
    ----------
    Stich, Raj, Jaggi (2017). Safe Adaptive Importance Sampling.
    """

    state: SafeState

    def __init__(
        self,
        n: int,
        *,
        smoothness: ArrayLike,
        curvature: ArrayLike | None = None,
        mixing: float = 0.1,
        resolve: int | None = None,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        mixing = share("mixing", mixing)
        if resolve is not None:
            resolve = positive_count("resolve", resolve, "losses")
        given = {"mixing": mixing, "resolve": resolve}
        super().__init__(n, seed, given, quantity=quantity)
        smooth, curved = numbers_for_items("smoothness", smoothness, self.n), None
        if curvature is not None:
            curved = numbers_for_items("curvature", curvature, self.n, positive=True)
        self.parameters.update(smoothness=as_argument(smooth), curvature=curved)
        interval = max(1, self.n // 10) if resolve is None else resolve
        rule = SafeRule(mixing=mixing, interval=interval, due=interval)
        roots = 1.0 if curved is None else np.sqrt(curved / curved.max())
        self._begin(
            SafeState,
            rule=cell(rule),
            norms=np.full(self.n, 0.0),
            visited=np.full(self.n, -1.0),
            curvature=np.full(self.n, 1.0) * roots,
            smoothness=np.full(self.n, 1.0) * smooth,
        )
        solved = self.state.index.sums[0].total / self.state.sweep[0].scale
        self.state.rule[0].solved_total = solved

    def update(self, draw: Draw, losses: ArrayLike, *, moved: float = 0.0) -> None:
        """Learn from gradient norms, then widen all bounds by the following step.

        Parameters
        ----------
        draw, losses
            As in `Sampler.update`; the draw may be empty.
        moved : float, default=0.0
            How far the solver moves after these losses: the norm of its step.
        """
        drift = float(self.state.rule[0].drift) + float(moved)
        if not (moved >= 0 and math.isfinite(drift)):
            raise ValueError(f"moved must be finite and not negative, got {moved}")
        super().update(draw, losses)
        self.state.rule[0].drift = drift
