"""The race of draws on a table, in numpy: nothing compiles but the samplers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.cluster import kmeans_plusplus

from tombola.advice.data import Data
from tombola.advice.fits import clock
from tombola.advice.models import losses_of
from tombola.advice.race import LOOKS, Contender, Look
from tombola.samplers.registry import make_sampler

__all__ = ["BATCH", "CONTENDERS", "Game", "GameRun", "Possible", "steps_for"]

BATCH = 16
CONTENDERS = (Contender("shuffle"), Contender("vrb", "gradient norms"),
              Contender("group-vrb", "gradient norms"))  # fmt: skip
RATE = 0.3  # of AdaGrad, where rows have norm 1; see docs/decisions/estimator_defaults.md
STEPS = 3000  # of a run, for ten seconds, where steps take a nominal time
STEP, ENTRY, SPARSE = 6e-5, 1e-9, 1e-8  # nominal seconds of a step, and of an entry of its rows
EPOCHS = 4  # of a run, at least: rows that are too many for that are left out
SUBSAMPLE = 3072  # rows that k-means++ chooses from


@dataclass
class Possible:
    """The second moments that other distributions would have had, along a run that shuffles.

    Each is relative to that of uniform draws: ideal <= best_fixed <= best_group <= 1.

    Attributes
    ----------
    ideal : float
        Draws in proportion to the current gradient norms, at each moment.
    best_fixed : float
        The best distribution that never changes, in hindsight.
    best_group : float or None
        The best fixed one with equal probabilities within each group; None without groups.
    steps, ideals : list of float
        The moments, and the ideal at each of them.
    """

    ideal: float
    best_fixed: float
    best_group: float | None
    steps: list[int]
    ideals: list[float]


class Game:
    """A problem of `advise`, as a race needs it: AdaGrad, or mini-batch k-means.

    AdaGrad moves a weight by about its rate, whatever the gradients, so that the rate is in units
    of y over those of X: it is divided by the mean norm of rows, and for least squares multiplied
    by the spread of y.
    """

    def __init__(self, data: Data, family: str) -> None:
        X, y = data.rows()
        self.X, self.family, self.data = X, family, data
        self.sparse = hasattr(X, "tocsr")
        squares = X.multiply(X).sum(axis=1) if self.sparse else np.einsum("ij,ij->i", X, X)
        self.norms = np.sqrt(1.0 + np.asarray(squares, dtype=np.float64).ravel())
        self.n, self.width = X.shape
        self.alpha, self.l1, self.unit = data.penalty.of(self.n), data.penalty.l1, 1.0
        self.groups = None if data.groups is None else data.groups[data.kept]
        self.outputs = 1
        if family == "least squares":
            self.y, self.unit = y - y.mean(), float(y.std()) or 1.0
        elif family != "squared distance":
            labels, self.y = np.unique(y, return_inverse=True)
            self.outputs = len(labels) if len(labels) > 2 else 1
            self.groups = self.y if self.groups is None else self.groups

    def slopes(self, margins: NDArray[np.float64], items: Any) -> NDArray[np.float64]:
        """Return the derivatives of the losses of items in their margins."""
        y = self.y[items]
        if self.family == "least squares":
            return np.asarray(margins - y[:, None])
        if self.outputs == 1:
            return np.asarray(expit(margins) - y[:, None])
        found = softmax(margins, axis=1)
        found[np.arange(len(y)), y] -= 1.0
        return np.asarray(found)


class GameRun:
    """A run of a way to draw: steps, and looks at the objective over all rows."""

    def __init__(self, game: Game, contender: Contender, rate: float, seed: int) -> None:
        self.game, self.feed = game, contender.feed
        self.sampler = make_sampler(contender.sampler, game.n, seed, game.groups)
        self.seconds: list[float] = []
        self.squares = np.zeros(game.n)  # sum over looks of the squared gradient norms
        self.ideal = 0.0
        self.ideals: list[float] = []
        if game.family == "squared distance":
            some = np.random.default_rng(seed).permutation(game.n)[:SUBSAMPLE]
            k = game.data.n_clusters
            self.w = kmeans_plusplus(game.X[some], min(k, len(some)), random_state=seed)[0]
            self.w = np.asarray(self.w.todense() if hasattr(self.w, "todense") else self.w)
            self.counts = np.zeros(len(self.w))
        else:
            self.rate = RATE * rate * game.unit / float(game.norms.mean())
            self.w = np.zeros((game.width + 1, game.outputs))
            self.total = np.full(self.w.shape, np.finfo(float).tiny)
        self.looks = [self._look(0)]

    def advance(self, steps: int) -> None:
        """Make steps until there are this many, and look."""
        before = self.looks[-1].step
        move = self._cluster if self.game.family == "squared distance" else self._descend
        began = clock()
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(steps - before):
                draw = self.sampler.draw(BATCH)
                fed = move(draw.indices, draw.importances)
                if self.feed and np.isfinite(fed).all():
                    self.sampler.update(draw, fed)
        self.seconds.append((clock() - began) / (steps - before))
        self.looks.append(self._look(steps))

    def _descend(self, items: Any, importances: Any) -> NDArray[np.float64]:
        """Make a step of AdaGrad; return the gradient norms of the losses."""
        game, w = self.game, self.w
        rows = game.X[items]
        slopes = game.slopes(rows @ w[:-1] + w[-1], items)
        shares = slopes * (importances / len(items))[:, None]
        gradient = np.vstack([rows.T @ shares, shares.sum(axis=0)])
        if not game.l1:
            gradient[:-1] += game.alpha * w[:-1]
        self.total += gradient * gradient
        paces = self.rate / np.sqrt(self.total)
        w -= paces * gradient
        if game.l1:
            w[:-1] = np.sign(w[:-1]) * np.maximum(np.abs(w[:-1]) - game.alpha * paces[:-1], 0.0)
        return np.asarray(np.sqrt((slopes * slopes).sum(axis=1)) * game.norms[items])

    def _cluster(self, items: Any, importances: Any) -> NDArray[np.float64]:
        """Move centres to the mean of what was assigned to them; return gradient norms."""
        rows = self.game.X[items]
        squares = self._distances(rows)
        nearest = squares.argmin(axis=1)
        shares = np.zeros((len(self.w), len(items)))
        shares[nearest, np.arange(len(items))] = importances
        masses = shares.sum(axis=1)
        self.counts += masses
        moved = masses > 0
        pull = np.asarray(shares @ rows) - masses[:, None] * self.w
        self.w[moved] += pull[moved] / self.counts[moved, None]
        return np.asarray(2.0 * np.sqrt(squares.min(axis=1)))

    def _distances(self, rows: Any) -> NDArray[np.float64]:
        """Return the squared distances of rows to centres."""
        lengths = rows.multiply(rows).sum(axis=1) if self.game.sparse else (rows * rows).sum(axis=1)
        lengths = np.asarray(lengths).ravel()
        products = np.asarray(rows @ self.w.T)
        found = lengths[:, None] - 2.0 * products + (self.w * self.w).sum(axis=1)
        return np.asarray(np.maximum(found, 0.0))

    def _look(self, step: int) -> Look:
        """Evaluate the objective, and what other distributions would have here."""
        game = self.game
        with np.errstate(over="ignore", invalid="ignore"):
            if game.family == "squared distance":
                squares = self._distances(game.X).min(axis=1)
                objective, norms = float(squares.mean()), 2.0 * np.sqrt(squares)
            else:
                margins = np.asarray(game.X @ self.w[:-1]) + self.w[-1]
                slopes = game.slopes(margins, slice(None))
                norms = np.sqrt((slopes * slopes).sum(axis=1)) * game.norms
                w = self.w[:-1]
                size = np.abs(w).sum() if game.l1 else 0.5 * (w * w).sum()
                losses = losses_of(margins, game.family, game.y)
                objective = float(losses.mean() + game.alpha * size)
            self.squares += norms * norms
            self.ideal += float(norms.sum()) ** 2
            now = game.n * float((norms * norms).sum())
            self.ideals.append(ratio_of(float(norms.sum()) ** 2, now))
        self.norms = norms
        return Look(step, objective)

    def possible(self) -> Possible:
        """Return the second moments of other distributions, over that of uniform draws."""
        uniform = self.game.n * float(self.squares.sum())
        best_group = None
        if self.game.groups is not None:  # p(i) = q_c / n_c costs least at q_c ~ sqrt(n_c S_c)
            _, numbers = np.unique(self.game.groups, return_inverse=True)
            sums = np.bincount(numbers, weights=self.squares)
            best_group = ratio_of(float(np.sqrt(np.bincount(numbers) * sums).sum()) ** 2, uniform)
        return Possible(
            ideal=ratio_of(self.ideal, uniform),
            best_fixed=ratio_of(float(np.sqrt(self.squares).sum()) ** 2, uniform),
            best_group=best_group,
            steps=[look.step for look in self.looks],
            ideals=self.ideals,
        )


def ratio_of(cost: float, uniform: float) -> float:
    """Return a ratio of second moments; 1 where all losses are 0, or overflow."""
    return min(cost / uniform, 1.0) if 0 < uniform < math.inf and cost == cost else 1.0


def steps_for(data: Data, budget: float) -> tuple[int, int]:
    """Return the steps of a run and the rows to race on, at a nominal pace: no clock is asked."""
    X = data.X
    entries = (X.nnz if hasattr(X, "tocsr") else X.size) / X.shape[0]
    outputs = data.n_clusters if data.task == "clustering" else 1
    if data.task == "classification" and len(data.labels) > 2:
        outputs = len(data.labels)
    pace = (
        STEP * (1 if outputs == 1 else 2)
        + BATCH * entries * (SPARSE if hasattr(X, "tocsr") else ENTRY) * outputs
    )
    if data.task != "clustering":  # AdaGrad touches all weights
        pace += 20 * ENTRY * X.shape[1] * outputs
    steps = max(int(STEPS * STEP / pace * budget / 10.0) // LOOKS, 1) * LOOKS
    rows = max(steps * BATCH // EPOCHS, 1000, data.n_clusters)
    return steps, min(rows, X.shape[0])
