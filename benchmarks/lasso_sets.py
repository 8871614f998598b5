"""Wide data for lasso.py, and what a point on it is worth: objective and duality gap, by numpy.

Nothing here is from tombola: objectives and gaps are computed apart from all methods compared.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from clock_sets import VOC_CLASSES, file_of, load

SETS = ("a9a", "text", "VOC vgg", "VOC effnet")


def text(seed, n=10_000, d=50_000, words=60):
    """Return rows like those of tf-idf: words by Zipf's law, and a target of 100 of them."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, d + 1) ** 0.9
    columns = rng.choice(d, size=n * words, p=chances / chances.sum())
    rows = np.repeat(np.arange(n), words)
    X = sp.csr_matrix((np.ones(n * words), (rows, columns)), shape=(n, d))
    X.sum_duplicates()
    seen = np.maximum(np.bincount(X.indices, minlength=d), 1)
    X.data = np.log1p(X.data) * np.log(n / seen)[X.indices]
    X = sp.csr_matrix(sp.diags(1 / np.sqrt(X.multiply(X).sum(axis=1)).A1) @ X)
    w = np.zeros(d)
    w[rng.choice(2000, 100, replace=False)] = rng.normal(size=100)
    z = X @ w
    return X, z + 0.3 * z.std() * rng.normal(size=n)


def rows_and_target(name, folder, seed):
    """Return rows and a target: another class, another set or other rows for each seed."""
    if name == "text":
        return text(seed)
    if name in VOC_CLASSES:
        kind, _ = VOC_CLASSES[name]
        parts = file_of(folder, f"voc2007_{kind}*.npz")
        X = parts["Xtrain"].astype(np.float64)
        X /= np.linalg.norm(X, axis=1).mean()
        return X, np.where(parts["Ytrain"][:, (14 + 3 * seed) % 20] > 0, 1.0, -1.0)
    X, y = load(name, folder)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(y))[: len(y) * 9 // 10])
    return sp.csr_matrix(X[chosen]), np.where(y[chosen], 1.0, -1.0)


@dataclass
class Task:
    """A lasso with or without an intercept, or an l1 logistic regression without one.

    A gap is relative: to the mean of (y - mean)^2 for the lasso, which is the unit of
    scikit-learn's `tol`, and to log 2, the objective at w = 0, for logistic regression.
    """

    X: Any
    y: np.ndarray
    logistic: bool = False
    intercept: bool = False
    deadline: float = np.inf  # on the clock of time.perf_counter: what runs longer has lost

    def __post_init__(self):
        self.n = len(self.y)
        if self.logistic:
            self.y = np.where(self.y > 0, 1.0, -1.0)
        self.middle = self.y.mean() if self.intercept else 0.0
        start = self.y / 2 if self.logistic else self.y - self.middle
        self.unit = np.log(2.0) if self.logistic else float((start**2).mean())
        self.largest = float(np.abs(self.X.T @ start).max()) / self.n

    def value(self, w, b, alpha):
        """The objective."""
        z = self.X @ w + b
        losses = np.logaddexp(0.0, -self.y * z) if self.logistic else (self.y - z) ** 2 / 2
        return float(losses.mean() + alpha * np.abs(w).sum())

    def gap(self, w, b, alpha):
        """The relative duality gap, with the slopes scaled to be feasible."""
        z = self.X @ w + b
        if self.logistic:
            duals = self.y / (1 + np.exp(np.minimum(self.y * z, 700)))
        else:
            duals = self.y - z
            if self.intercept:
                duals = duals - duals.mean()
        largest = float(np.abs(self.X.T @ duals).max()) / self.n
        duals = duals * min(1.0, alpha / max(largest, 1e-300))
        if self.logistic:
            p = np.clip(self.y * duals, 1e-300, 1 - 1e-16)
            dual = -float((p * np.log(p) + (1 - p) * np.log1p(-p)).mean())
        else:
            dual = float((duals * (self.y - self.middle) - duals**2 / 2).mean())
        return (self.value(w, b, alpha) - dual) / self.unit


def centred(X, y):
    """Return dense columns and a target less their means; sparse columns as they are."""
    return (X - X.mean(axis=0) if isinstance(X, np.ndarray) else X), y - y.mean()
