"""K-Vib: every item is included or not, by a coin of its own."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.draws import Draw
from tombola.random import Words, next_below
from tombola.samplers.algorithm_1 import checked_theta
from tombola.samplers.arithmetic import normalised
from tombola.samplers.base import Sampler
from tombola.samplers.bounds import bound_unit, checked_bounds, unit_for
from tombola.samplers.compiled import Compiled
from tombola.samplers.water_filling import TOTAL_BITS, fill_chances
from tombola.state import Cell, Floats, Ints, Record, array, cell, derived, integer

__all__ = ["KVib"]

LARGEST_DRAW = 2**31  # the largest nominal size


class Constants(Record):
    """The parameters."""

    mixing: float = derived("theta, the share of uniform inclusions")
    unit: float = bound_unit()
    bound: float = derived("L, in that unit")


class LatestDraw(Record):
    """The latest draw."""

    nominal: int = integer("the nominal size of the latest draw", 1, LARGEST_DRAW, default=1)


class KVibState(Compiled):
    """The scores of all items, from which each draw computes its chances."""

    constants: Cell[Constants] = derived("the parameters")
    latest: Cell[LatestDraw]
    scores: Floats = array("w", 0.0, 2.0**1020)


@kernel(allocates=True)
def compute_chances(state: KVibState, size: int, unit: Any) -> Any:
    """Return the expected number of times of every item, in units, in a draw of nominal size.

    pi minimises sum_i (w(i) + L n / (theta K)) / pi(i) over pi <= 1 with sum K, by water filling
    of the *roots*; the result is (1 - theta) pi + theta K / n.
    """
    constants, n = state.constants[0], state.scores.size
    total, theta = size * unit, constants.mixing
    uniform = min(total // n, np.int64(theta * (total // n)) + 1)
    # 1 - theta, or a unit more, which rounding may need; together with the uniform share at most 1
    most = min(unit - uniform, unit - np.int64(theta * unit) + 1) if size <= n else total
    prior = constants.bound * n / (theta * size)
    values, chances = np.empty(n), np.empty(n, dtype=np.int64)
    for item in range(n):
        values[item] = math.sqrt(state.scores[item] + prior)
    fill_chances(values, np.int64(0), most, total - n * uniform, chances)
    for item in range(n):
        chances[item] += uniform
    return chances


@kernel(allocates=True)
def flip_coins(chances: NDArray[np.int64], unit: Any, stream: Cell[Words], size: int) -> Any:
    """Return the items of a draw: each as often as its chance says, rounded up by a coin."""
    items, count = np.empty(size + chances.size, dtype=np.int64), 0
    for item in range(chances.size):
        times = chances[item] // unit
        if next_below(stream, np.uint64(unit)) < chances[item] % unit:
            times += 1
        for _ in range(times):
            items[count] = item
            count += 1
    return items[:count].copy()


@kernel
def absorb_all(
    state: KVibState, items: Ints, probabilities: Floats, losses: Floats, size: int
) -> None:
    """w(i) <- w(i) + l(i)^2 / pi~(i), for each item included."""
    for j in range(items.size):
        loss = normalised(losses[j], state.constants[0].unit)
        state.scores[items[j]] += loss * loss / (size * probabilities[j])


class KVib(Sampler):
    """K-Vib (Zeng et al.): includes every item independently, by what was learnt about it.

    ``draw(K)`` includes item i with probability pi~(i), by a coin of its own. With a bound L on the
    *squared* losses and mixing theta:

        pi      = argmin sum_i (w(i) + L n / (theta K)) / pi(i)   over  pi <= 1, sum_i pi(i) = K
        pi~(i)  = (1 - theta) pi(i) + theta K / n
        w(i)   += l(i)^2 / pi~(i), for each item included

    The size of a draw is random, K on average, and may be 0. A draw carries K as its nominal size,
    which `Draw.mean` divides by: with importances 1 / (n p) and p = pi~ / K, the estimate is the
    sum over the items included of their values over n pi~(i). No item comes twice.

    Parameters
    ----------
    n : int
        The number of items.
    bound : float
        L, an upper bound on the squared losses. If it is too small, the guarantee does not hold;
        estimates are unbiased in any case.
    mixing : float in (0, 1], optional
        theta, the uniform share.
    horizon : int, optional
        The number of draws planned, T rounds of K: theta = min(1, (n / (T K))^(1/3)). Give this
        or `mixing`.
    seed : int, default=0

    Notes
    -----
    Guarantee: with the horizon T K, regret O(n^(1/3) T^(2/3) / K^(4/3)) up to logarithms, by the
    abstract of the paper. The variance of an estimate is below that of K independent draws by the
    same probabilities.

    Cost: O(n) for a draw (a coin for every item), O(1) for an update of one loss; memory is 8 bytes
    per item. Solvers and loaders, whose batches have a fixed size, refuse it.

    Deviations: the published code minimises without the root, and gives one item pi > 1, which
    biases it; this follows the paper. The pi~ are integers over a power of two that sum to K
    exactly. K may be above n: then pi has no cap, and an item comes floor(pi~) or ceil(pi~) times.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 90 + [2.0] * 10)
    >>> sampler = KVib(100, bound=4.0, mixing=0.2)
    >>> for _ in range(300):
    ...     draw = sampler.draw(15)
    ...     sampler.update(draw, losses[draw.indices])
    >>> draw.size, len(draw), bool(sampler.probabilities().argmax() >= 90)
    (15, 21, True)

    References
    ----------
    Zeng et al. (2025). Enhanced Federated Optimization: Adaptive Unbiased Client Sampling with
    Reduced Variance.
    """

    fixed_size = False

    state: KVibState

    def __init__(
        self,
        n: int,
        *,
        bound: float,
        mixing: float | None = None,
        horizon: int | None = None,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        if (mixing is None) == (horizon is None):
            raise ValueError(f"give one of mixing and horizon, got {mixing} and {horizon}")
        limit = float(checked_bounds(bound, 1)[0])
        given = {"bound": limit, "mixing": mixing, "horizon": horizon}
        super().__init__(n, seed, given, quantity=quantity)
        unit = unit_for(limit)
        self.state = KVibState(
            stream=self._stream.state,
            constants=cell(
                Constants(
                    mixing=checked_theta(self.n, mixing, horizon, None)[0],
                    unit=unit,
                    bound=limit * unit * unit,
                )
            ),
            latest=cell(LatestDraw()),
            scores=np.zeros(self.n),
        )

    def _draw(self, size: int) -> Draw:
        if size > LARGEST_DRAW:
            raise ValueError(f"size must be at most 2^31, got {size}")
        if size == 0:
            nothing = np.empty(0, dtype=np.int64)
            return Draw.made(nothing, np.empty(0), self.n, self.rounds)
        unit = _unit(size)
        chances = compute_chances(self.state, size, unit)
        items = flip_coins(chances, unit, self.state.stream, size)
        self.state.latest[0].nominal = size
        probabilities = chances[items] / (size * unit)
        return Draw.made(items, probabilities, self.n, self.rounds, nominal=size)

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        absorb_all(self.state, draw.indices, draw.probabilities, losses, draw.size)

    def probabilities(self) -> NDArray[np.float64]:
        """Return pi~ / K for the nominal size K of the latest draw, in O(n)."""
        size = int(self.state.latest[0].nominal)
        shares: NDArray[np.float64] = compute_chances(self.state, size, _unit(size)) / (
            size * _unit(size)
        )
        return shares

    def _largest_importance(self) -> float:
        return 1.0 / float(self.state.constants[0].mixing) * (1.0 + 1e-9)


def _unit(size: int) -> int:
    """Return the chance of an item that comes once in every draw of this size."""
    return 1 << (TOTAL_BITS - size.bit_length())
