"""Public sets for clock.py, and what a linear model on them is worth: its distance from the best.

The distance of a model is (P(w) - P*) / (P0 - P*), with P the mean loss plus lambda/2 |w|^2, P0 its
value at w = 0 with the best intercept, and P* its minimum.
"""

import glob
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

CHOSEN_ON = ("mammography", "shuttle", "a9a", "campaign", "ALOI", "cover", "http", "VOC effnet")
OTHERS = ("skin", "smtp", "mushrooms", "VOC vgg", "MNIST")
SETS = (*CHOSEN_ON, *OTHERS)
SPARSE = ("a9a", "mushrooms")
SHAPES = tuple((n, d) for n in (500, 2000, 10_000, 50_000) for d in (5, 20, 60, 150, 400)
               if n * d <= 10**7)  # fmt: skip
VOC_CLASSES = {"VOC effnet": ("efficientnet", 14), "VOC vgg": ("vgg19", 3)}
CHUNK = 10_000  # rows of a Hessian at a time


def file_of(folder, pattern):
    """The one file of a pattern, or an error that says what is missing."""
    found = sorted(glob.glob(str(folder / pattern)))
    if not found:
        raise SystemExit(f"--data {folder} has no file {pattern}")
    return np.load(found[0])


def load(name, folder):
    """Return the rows and the labels, True or False, of a set."""
    if name in SPARSE:
        file = {"a9a": "libsvm_a9a.npz", "mushrooms": "mushrooms_agaricus.npz"}[name]
        data = file_of(folder, file)
        parts = np.ones(len(data["indices"])), data["indices"].astype(np.int32), data["indptr"]
        rows = int(data["n_train"])
        X = sp.csr_matrix(parts, shape=tuple(data["shape"]))[:rows]
        X.indptr = X.indptr.astype(np.int32)
        return X, data["y"][:rows] > 0
    if name in VOC_CLASSES:
        kind, column = VOC_CLASSES[name]
        data = file_of(folder, f"voc2007_{kind}*.npz")
        labels = data["Ytrain"][:, column]
        X = data["Xtrain"][labels != 0].astype(np.float64)
        return X / np.linalg.norm(X, axis=1).mean(), labels[labels != 0] > 0
    if name == "MNIST":
        data = file_of(folder, "mnist_full_uint8.npz")
        return data["X"][:60_000:3] / 255.0, data["y"][:60_000:3] == 8  # a third: it takes long
    data = file_of(folder, f"adbench_*_{name}.npz")
    X = data["X"].astype(np.float64)
    spread = X.std(axis=0)
    spread[spread == 0] = 1
    return np.ascontiguousarray((X - X.mean(axis=0)) / spread), data["y"] > 0


def generated(n, d):
    """Return rows of a normal distribution, correlated, and labels of a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, 1:] += 0.5 * X[:, :1]
    w = 2 * rng.normal(size=d) / np.sqrt(d)
    return X, X @ w + rng.logistic(size=n) > 1.5


def logistic(margins):
    """The loss of a margin y z, its derivative and its curvature."""
    chance = expit(-margins)
    return np.logaddexp(0.0, -margins), -chance, chance * (1 - chance)


def squared_hinge(margins):
    """The loss of a margin y z, its derivative and its curvature."""
    short = np.maximum(0.0, 1 - margins)
    return short**2, -2 * short, 2.0 * (short > 0)


LOSSES = {"log_loss": logistic, "squared_hinge": squared_hinge}


@dataclass
class Task:
    """A linear model on a set: P, its value P0 at w = 0, and its minimum."""

    name: str
    X: Any
    y: np.ndarray
    lam: float
    loss: str = "log_loss"

    def __post_init__(self):
        self.n, self.d = self.X.shape
        self.labels = self.y.astype(np.int64)
        self.signs = np.where(self.y, 1.0, -1.0)
        self.start = self.newton(intercept_only=True)
        self.minimum = self.kept_minimum()

    def value(self, w, b):
        losses = LOSSES[self.loss](self.signs * (self.X @ w + b))[0]
        return float(losses.mean() + self.lam / 2 * (w @ w))

    def distance(self, w, b):
        """The share of the way from P0 to P* that is left; 0 at the minimum, 1 at w = 0."""
        if not (np.isfinite(w).all() and np.isfinite(b)):
            return np.inf
        return (self.value(w, b) - self.minimum) / (self.start - self.minimum)

    def kept_minimum(self):
        """P*, from a temporary file where an earlier run has left it."""
        digest = hashlib.sha1(self.labels.tobytes())
        digest.update(np.ascontiguousarray(self.X[: CHUNK // 10].sum(axis=0)).tobytes())
        digest.update(repr((self.X.shape, self.lam, self.loss)).encode())
        folder = Path(tempfile.gettempdir()) / "tombola_clock"
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.name.replace(' ', '_')}_{digest.hexdigest()[:16]}.txt"
        if not file.exists():
            file.write_text(repr(self.newton()))
        return float(file.read_text())

    def newton(self, intercept_only=False):
        """The minimum of P, by Newton steps, halved until P falls.

        A step promises g H^-1 g / 2; it ends where that is 1e-12 of the way gone so far, or where
        rounding hides it.
        """
        d = 0 if intercept_only else self.d
        X, penalty = self.X[:, :d], np.append(np.full(d, self.lam), 0.0)
        loss, signs, u = LOSSES[self.loss], self.signs, np.zeros(d + 1)

        def value(u):
            losses = loss(signs * (X @ u[:d] + u[d]))[0]
            return float(losses.mean() + penalty @ u**2 / 2)

        first = now = value(u)
        for _ in range(200):
            _, slopes, curves = loss(signs * (X @ u[:d] + u[d]))
            slopes = signs * slopes / self.n
            gradient = np.append(X.T @ slopes, slopes.sum()) + penalty * u
            step = np.linalg.solve(self.hessian(X, curves, penalty), gradient)
            promise = float(gradient @ step) / 2
            if promise <= max(1e-12 * (first - now), 4e-16 * now):
                return now
            size = 1.0
            while (ahead := value(u - size * step)) > now - 0.1 * size * promise:
                size /= 2
                if size < 1e-6:
                    if promise <= 1e-9 * (first - now):
                        return now
                    raise RuntimeError(f"{self.name}: Newton steps stall at a promise of {promise}")
            u, now = u - size * step, ahead
        raise RuntimeError(f"{self.name}: the minimum was not found in 200 Newton steps")

    def hessian(self, X, curves, penalty):
        d = X.shape[1]
        H = np.zeros((d + 1, d + 1))
        for at in range(0, self.n, CHUNK):
            part, c = X[at : at + CHUNK], curves[at : at + CHUNK] / self.n
            if sp.issparse(part):
                square, column = (part.T @ part.multiply(c[:, None])).toarray(), part.T @ c
            else:
                square, column = part.T @ (part * c[:, None]), part.T @ c
            H[:d, :d] += square
            H[:d, d] += column
            H[d, d] += c.sum()
        H[d, :d] = H[:d, d]
        # a hair on the diagonal: an intercept of squared hinge may have no curvature
        return H + np.diag(penalty + 1e-14 * np.trace(H) / (d + 1) + 1e-300)
