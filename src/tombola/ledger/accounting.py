"""The ledger: what a player's distributions cost, and what others would have cost.

`tombola.gauge` estimates what sampling is worth from the losses of drawn items alone. A ledger
computes it exactly, and needs the losses of all n items for that.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.ledger.hindsight import best_fixed
from tombola.state import Cell, Floats, Record, State, array, cell, derived, real
from tombola.validation import whole

__all__ = ["Ledger", "Sheet", "account", "new_sheet"]


class Totals(Record):
    """Sums over all items."""

    cost: float = real("sum_t f_t(p_t)", default=0.0)
    ideal: float = real("sum_t (sum_i l_t(i))^2", default=0.0)


class Sheet(State):
    """Sums over some rounds that kernels accumulate, and the current round."""

    squares: Floats = array("sum_t l_t(i)^2, for each item", 0.0)
    totals: Cell[Totals]
    probabilities: Floats = derived("those of the current round")
    losses: Floats = derived("those of the current round")


def new_sheet(n: int) -> Sheet:
    """Return an empty sheet for n items."""
    return Sheet(np.zeros(n), cell(Totals()), np.full(n, 1.0 / n), np.zeros(n))


@kernel
def account(sheet: Sheet, rounds: Any) -> Any:
    """Add the current round `rounds` times; return the first item with a bad loss, or -1.

    A loss of 0 costs nothing, even if its item has probability 0.
    """
    cost, total = 0.0, 0.0
    for item in range(sheet.losses.size):
        loss = sheet.losses[item]
        if not 0.0 <= loss < np.inf:
            return item
        if loss > 0.0:
            # f_t(p) = sum_i l_t(i)^2 / p(i)
            squared = loss * loss
            probability = sheet.probabilities[item]
            cost += squared / probability if probability > 0.0 else np.inf
            total += loss
            sheet.squares[item] += rounds * squared
    sheet.totals[0].cost += rounds * cost
    sheet.totals[0].ideal += rounds * (total * total)
    return -1


class Ledger:
    """The exact account of a player's costs, compared with those of other distributions.

    With the cost of a round f_t(p) = sum_i l_t(i)^2 / p(i):

        regret_T   = (1/n^2) (sum_t f_t(p_t) - min_p sum_t f_t(p))
        variance_T = (1/n^2) (sum_t f_t(p_t) - sum_t (sum_i l_t(i))^2)

    The minimum is (sum_i sqrt(sum_t l_t(i)^2))^2, at p(i) ~ sqrt(sum_t l_t(i)^2). One sum for
    each item is enough to compute it, so memory is O(n), plus five numbers for each mark.

    Parameters
    ----------
    n : int
        The number of items.
    marks : {"all", "geometric"} or sequence of int, default="all"
        The rounds whose totals are kept for the table: all rounds, rounds that grow by a third,
        or the given ones. The last row of the table is always the current round.

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
    Losses are squared without rescaling: keep them below 1e150.

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
        self.n = whole("n", n, 1)
        if isinstance(marks, str) and marks not in ("all", "geometric"):
            raise ValueError(f'marks must be "all", "geometric" or rounds, got {marks!r}')
        self.rounds = 0
        self.cost = 0.0
        self.ideal_cost = 0.0
        self.squares = np.zeros(self.n)
        self._marks = marks if isinstance(marks, str) else sorted({int(mark) for mark in marks})
        self._rows: list[tuple[float, ...]] = []

    def record(self, probabilities: ArrayLike, losses: ArrayLike) -> None:
        """Record one round or several.

        Parameters
        ----------
        probabilities : array-like of float, shape (n,) or (rounds, n)
            The distribution played.
        losses : array-like of float, of the same shape
            Non-negative and finite.
        """
        played = np.atleast_2d(np.asarray(probabilities, dtype=np.float64))
        values = np.atleast_2d(np.asarray(losses, dtype=np.float64))
        if played.shape != values.shape or values.ndim != 2 or values.shape[1] != self.n:
            raise ValueError(
                f"probabilities and losses must have shape ({self.n},) or (rounds, {self.n}), "
                f"got {np.shape(probabilities)} and {np.shape(losses)}"
            )
        _refuse("losses", values, ~((values >= 0) & (values < np.inf)), "not finite and at least 0")
        _refuse("probabilities", played, ~((played >= 0) & (played <= 1)), "not from 0 to 1")
        sums = played.sum(axis=1)
        _refuse("the sum of probabilities", sums, ~(np.abs(sums - 1) < 1e-9), "not 1")
        sheet = new_sheet(self.n)
        for p, loss in zip(played, values, strict=True):
            sheet.probabilities[:], sheet.losses[:] = p, loss
            account(sheet, 1.0)
            self.add(sheet, 1)

    def add(self, sheet: Sheet, rounds: int) -> None:
        """Add the sums of a sheet over this number of rounds, and clear the sheet."""
        self.squares += sheet.squares
        self.cost += float(sheet.totals[0].cost)
        self.ideal_cost += float(sheet.totals[0].ideal)
        sheet.squares[:] = 0.0
        sheet.totals[0].cost = sheet.totals[0].ideal = 0.0
        due = self.rounds_to_mark()
        self.rounds += rounds
        if rounds >= due:
            self._rows.append(self._row())

    def rounds_to_mark(self) -> float:
        """Return the number of rounds until the next mark, or infinity if there is none."""
        if self._marks == "all":
            return 1
        if self._marks == "geometric":
            last = int(self._rows[-1][0]) if self._rows else 0
            return max(last + 1, last * 4 // 3) - self.rounds
        return min((int(mark) - self.rounds for mark in self._marks if int(mark) > self.rounds),
                   default=math.inf)  # fmt: skip

    # --- the current round ------------------------------------------------------------------

    @property
    def uniform_cost(self) -> float:
        """The cost of uniform draws: n sum_i sum_t l_t(i)^2."""
        return float(self.n * self.squares.sum())

    def best_distribution(self, p_min: float = 0.0) -> NDArray[np.float64]:
        """Return the best fixed distribution in hindsight with p(i) >= p_min."""
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

    # --- the table --------------------------------------------------------------------------

    def _row(self) -> tuple[float, ...]:
        return (self.rounds, self.cost, self.best_cost(), self.ideal_cost, self.uniform_cost)

    def history(self) -> dict[str, NDArray[np.float64]]:
        """Return the columns of the table, with an entry for each mark and the current round."""
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
        """Return the rows of the table."""
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


def _refuse(name: str, array: NDArray[Any], wrong: NDArray[Any], reason: str) -> None:
    if wrong.any():
        position = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"{name}{position} is {array[tuple(position)]}, {reason}")
