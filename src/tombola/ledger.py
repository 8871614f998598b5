"""The exact account of costs and regret, for when all losses are known.

`tombola.gauge` estimates what the sampling is worth from the losses of drawn items alone; a
ledger knows it, and needs the losses of all n items to do so.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel

__all__ = ["Estimate", "Ledger", "best_fixed", "mean_estimate", "pseudo_regret"]

# Layout of the totals of a sheet: float64[2].
COST = 0  # sum_t f_t(p_t)
IDEAL = 1  # sum_t (sum_i l_t(i))^2


class Sheet(NamedTuple):
    """One page of a ledger: sums over some rounds, and the round under way."""

    squares: NDArray[np.float64]  # sum_t l_t(i)^2, for each item
    totals: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    losses: NDArray[np.float64]


def new_sheet(n: int) -> Sheet:
    """Return an empty page for n items."""
    return Sheet(np.zeros(n), np.zeros(2), np.full(n, 1.0 / n), np.zeros(n))


@kernel
def account(sheet: Sheet, rounds: Any) -> Any:
    """Add the round under way, `rounds` times over; return the first item with a bad loss, or -1.

    A loss of 0 costs nothing, whatever the probability of its item.
    """
    cost, total = 0.0, 0.0
    for item in range(sheet.losses.size):
        loss = sheet.losses[item]
        if not 0.0 <= loss < np.inf:
            return item
        if loss > 0.0:
            # f_t(p) = sum_i l_t(i)^2 / p(i)
            squared = loss * loss
            chance = sheet.probabilities[item]
            cost += squared / chance if chance > 0.0 else np.inf
            total += loss
            sheet.squares[item] += rounds * squared
    sheet.totals[COST] += rounds * cost
    sheet.totals[IDEAL] += rounds * (total * total)
    return -1


class Ledger:
    """The exact account of a player: what its distributions cost, and what others would have.

    With the cost of a round f_t(p) = sum_i l_t(i)^2 / p(i):

        regret_T   = (1/n^2) (sum_t f_t(p_t) - min_p sum_t f_t(p))
        variance_T = (1/n^2) (sum_t f_t(p_t) - sum_t (sum_i l_t(i))^2)

    The minimum is (sum_i sqrt(sum_t l_t(i)^2))^2, at p(i) ~ sqrt(sum_t l_t(i)^2): the ledger
    needs no more than a sum for each item, so memory is O(n), and five numbers for each mark.

    Parameters
    ----------
    n : int
        The number of items.
    marks : {"all", "geometric"} or sequence of int, default="all"
        The rounds after which the account is kept for the table: every round, rounds that grow
        by a third, or those given. The present round is always the last row.

    Attributes
    ----------
    n, rounds : int
    cost : float
        sum_t f_t(p_t).
    uniform_cost, ideal_cost : float
        The same for the uniform distribution, and for the best distribution of *each* round,
        (sum_i l_t(i))^2, which has no variance.
    squares : ndarray of float64, shape (n,)
        sum_t l_t(i)^2.

    Notes
    -----
    Losses are squared as they are: keep them below 1e150.

    Examples
    --------
    >>> ledger = Ledger(2)
    >>> ledger.record([0.5, 0.5], [1.0, 3.0])       # 1/0.5 + 9/0.5 = 20; at best (1 + 3)^2 = 16
    >>> ledger.cost, ledger.best_cost(), ledger.regret
    (20.0, 16.0, 1.0)
    >>> ledger.best_distribution()
    array([0.25, 0.75])
    >>> ledger.record([[0.25, 0.75], [0.25, 0.75]], [[1.0, 3.0], [1.0, 3.0]])
    >>> print(ledger)
    rounds  cost  best cost  ideal cost  uniform cost  regret  variance
         1    20         16          16            20       1         1
         2    36         32          32            40       1         1
         3    52         48          48            60       1         1

    References
    ----------
    Borsos, Krause, Levy (2018). Online Variance Reduction for Stochastic Optimization, section 2
    and the proof of Lemma 6.
    """

    def __init__(self, n: int, marks: str | Iterable[int] = "all") -> None:
        if isinstance(n, (bool, np.bool_)) or not isinstance(n, (int, np.integer)) or n < 1:
            raise ValueError(f"n must be a positive integer, got {n!r}")
        if isinstance(marks, str) and marks not in ("all", "geometric"):
            raise ValueError(f'marks must be "all", "geometric" or rounds, got {marks!r}')
        self.n = int(n)
        self.rounds = 0
        self.squares = np.zeros(self.n)
        self._totals = np.zeros(2)
        self._marks = marks if isinstance(marks, str) else sorted({int(mark) for mark in marks})
        self._rows: list[tuple[float, ...]] = []

    def record(self, probabilities: ArrayLike, losses: ArrayLike) -> None:
        """Account for a round, or for several.

        Parameters
        ----------
        probabilities : array-like of float, shape (n,) or (rounds, n)
            The distribution played.
        losses : array-like of float, of the same shape
            Non-negative and finite.
        """
        chances = np.atleast_2d(np.asarray(probabilities, dtype=np.float64))
        values = np.atleast_2d(np.asarray(losses, dtype=np.float64))
        if chances.shape != values.shape or values.ndim != 2 or values.shape[1] != self.n:
            raise ValueError(
                f"probabilities and losses must have shape ({self.n},) or (rounds, {self.n}), "
                f"got {np.shape(probabilities)} and {np.shape(losses)}"
            )
        _refuse("losses", values, ~((values >= 0) & (values < np.inf)), "not finite and at least 0")
        _refuse("probabilities", chances, ~((chances >= 0) & (chances <= 1)), "not from 0 to 1")
        sums = chances.sum(axis=1)
        _refuse("the sum of probabilities", sums, ~(np.abs(sums - 1) < 1e-9), "not 1")
        sheet = new_sheet(self.n)
        for chance, value in zip(chances, values, strict=True):
            sheet.probabilities[:], sheet.losses[:] = chance, value
            account(sheet, 1.0)
            self.add(sheet, 1)

    def add(self, sheet: Sheet, rounds: int) -> None:
        """Take over the sums of a page over so many rounds, and clear it."""
        self.squares += sheet.squares
        self._totals += sheet.totals
        sheet.squares[:] = 0.0
        sheet.totals[:] = 0.0
        due = self.rounds_to_mark()
        self.rounds += rounds
        if rounds >= due:
            self._rows.append(self._row())

    def rounds_to_mark(self) -> float:
        """Return how many rounds lie between now and the next mark; inf where there is none."""
        if self._marks == "all":
            return 1
        if self._marks == "geometric":
            last = int(self._rows[-1][0]) if self._rows else 0
            return max(last + 1, last * 4 // 3) - self.rounds
        return min((int(mark) - self.rounds for mark in self._marks if int(mark) > self.rounds),
                   default=math.inf)  # fmt: skip

    # --- now --------------------------------------------------------------------------------

    @property
    def cost(self) -> float:
        """sum_t f_t(p_t)."""
        return float(self._totals[COST])

    @property
    def ideal_cost(self) -> float:
        """sum_t (sum_i l_t(i))^2: the cost of the best distribution of each round."""
        return float(self._totals[IDEAL])

    @property
    def uniform_cost(self) -> float:
        """What uniform draws would have cost: n sum_i sum_t l_t(i)^2."""
        return float(self.n * self.squares.sum())

    def best_distribution(self, p_min: float = 0.0) -> NDArray[np.float64]:
        """Return the best fixed distribution in hindsight, with no probability below p_min."""
        return best_fixed(self.squares, p_min)

    def best_cost(self, p_min: float = 0.0) -> float:
        """Return the cost of that distribution; (sum_i sqrt(sum_t l_t(i)^2))^2 for p_min = 0."""
        if p_min == 0:
            return float(np.sqrt(self.squares).sum() ** 2)
        return float((self.squares / self.best_distribution(p_min)).sum())

    @property
    def regret(self) -> float:
        """(1/n^2) (cost - cost of the best fixed distribution)."""
        return (self.cost - self.best_cost()) / self.n**2

    @property
    def variance(self) -> float:
        """sum_t Var(l(I_t) / (n p_t(I_t))) = (1/n^2) (cost - ideal cost)."""
        return (self.cost - self.ideal_cost) / self.n**2

    # --- at the marks -----------------------------------------------------------------------

    def _row(self) -> tuple[float, ...]:
        return (self.rounds, self.cost, self.best_cost(), self.ideal_cost, self.uniform_cost)

    def history(self) -> dict[str, NDArray[np.float64]]:
        """Return the account at each mark, and now: an array for each column of the table."""
        rows = list(self._rows)
        if self.rounds and (not rows or rows[-1][0] != self.rounds):
            rows.append(self._row())
        rounds, cost, best, ideal, uniform = np.array(rows, dtype=np.float64).reshape(-1, 5).T
        return {
            "rounds": rounds.astype(np.int64),
            "cost": cost,
            "best_cost": best,
            "ideal_cost": ideal,
            "uniform_cost": uniform,
            "regret": (cost - best) / self.n**2,
            "variance": (cost - ideal) / self.n**2,
        }

    def table(self) -> list[dict[str, Any]]:
        """Return the same by rows."""
        history = self.history()
        return [
            {name: column[k].item() for name, column in history.items()}
            for k in range(len(history["rounds"]))
        ]

    def __str__(self) -> str:
        rows = self.table()
        header = [name.replace("_", " ") for name in self.history()]
        cells = [[f"{row[name]:.6g}" if name != "rounds" else str(row[name]) for name in row]
                 for row in rows]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in [header, *cells]
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Ledger({self.n} items, {self.rounds} rounds, regret {self.regret:.6g})"


def best_fixed(squares: ArrayLike, p_min: float = 0.0) -> NDArray[np.float64]:
    """Return the distribution of least cost, sum_i a_i / p(i), with no probability below p_min.

        p(i) = max(p_min, sqrt(a_i) / s),   s such that the sum is 1

    Found by sorting: O(n log n).

    Parameters
    ----------
    squares : array-like of float, shape (n,)
        a: the sums of squared losses.
    p_min : float from 0 to 1/n, default=0.0

    Examples
    --------
    >>> best_fixed([1.0, 9.0, 0.0])
    array([0.25, 0.75, 0.  ])
    >>> best_fixed([1.0, 9.0, 0.0], p_min=0.2)
    array([0.2, 0.6, 0.2])

    References
    ----------
    Borsos, Krause, Levy (2018), proof of Lemma 6: s is the root of its alpha.
    """
    roots = np.sqrt(np.asarray(squares, dtype=np.float64))
    n = len(roots)
    if not 0 <= p_min <= (1 + 1e-12) / n:
        raise ValueError(f"p_min must be from 0 to 1/n = {1 / n}, got {p_min}")
    falling = np.sort(roots)[::-1]
    # with the k largest above p_min: s = (their sum of roots) / (1 - (n - k) p_min)
    scales = np.cumsum(falling) / (1.0 - (n - np.arange(1, n + 1)) * p_min)
    above = np.flatnonzero(falling > scales * p_min)
    if not len(above):
        return np.full(n, 1.0 / n)  # all zero, or p_min is 1/n
    return np.asarray(np.maximum(p_min, roots / scales[above[-1]]))


class Estimate(NamedTuple):
    """A number estimated over repetitions, and its confidence interval."""

    value: float
    low: float
    high: float


def mean_estimate(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the mean over repetitions, with Student's interval.

    >>> [round(number, 3) for number in mean_estimate([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(mean, -math.inf, math.inf)
    margin = student(confidence, len(array) - 1) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return Estimate(mean, mean - margin, mean + margin)


def pseudo_regret(ledgers: Sequence[Ledger], confidence: float = 0.95) -> Estimate:
    """Estimate the pseudo-regret from repetitions of the same game.

        (1/n^2) (E sum_t f_t(p_t) - min_p E sum_t f_t(p))

    Both expectations are means over the ledgers. The interval is Student's, with the variance
    of the jackknife, since the minimum is not linear in the means. Where the losses are the
    same in all repetitions, this is the mean of the regrets.

    Parameters
    ----------
    ledgers : sequence of Ledger
        Over the same n and number of rounds, played with different seeds.
    confidence : float, default=0.95

    Examples
    --------
    >>> first, second = Ledger(2), Ledger(2)
    >>> first.record([0.5, 0.5], [1.0, 0.0])
    >>> second.record([0.5, 0.5], [0.0, 1.0])
    >>> first.regret, second.regret, abs(pseudo_regret([first, second]).value) < 1e-12
    (0.25, 0.25, True)

    References
    ----------
    Borsos, Krause, Levy (2018), equation before Theorem 7.
    """
    shapes = {(ledger.n, ledger.rounds) for ledger in ledgers}
    if len(shapes) != 1:
        raise ValueError(f"ledgers must share n and rounds, got {sorted(shapes)}")
    n, count = ledgers[0].n, len(ledgers)
    costs = np.array([ledger.cost for ledger in ledgers])
    squares = np.array([ledger.squares for ledger in ledgers])

    def value(cost: Any, square: Any) -> Any:
        return (cost - np.sqrt(square).sum(axis=-1) ** 2) / n**2

    centre = float(value(costs.mean(), squares.mean(axis=0)))
    if count < 2:
        return Estimate(centre, -math.inf, math.inf)
    left_out = value(
        (costs.sum() - costs) / (count - 1),
        np.maximum(squares.sum(axis=0) - squares, 0.0) / (count - 1),
    )
    error = math.sqrt((count - 1) * float(left_out.var()))
    margin = student(confidence, count - 1) * error
    return Estimate(centre, centre - margin, centre + margin)


def student(confidence: float, freedom: int) -> float:
    """Return t with P(|T| <= t) = confidence, for Student's distribution.

    >>> round(student(0.95, 2), 3), round(student(0.95, 9), 3)
    (4.303, 2.262)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if _within(angle, freedom) < confidence:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """P(|T| <= tan(angle) sqrt(freedom)): Abramowitz, Stegun (1964), 26.7.3 and 26.7.4."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(freedom // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _refuse(name: str, array: NDArray[Any], wrong: NDArray[Any], reason: str) -> None:
    if wrong.any():
        position = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"{name}{position} is {array[tuple(position)]}, {reason}")
