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
from scipy.optimize import minimize
from scipy.special import expit, logsumexp
from sklearn import datasets

from tombola.estimators import LinearClassifier

CHOSEN_ON = ("mammography", "shuttle", "a9a", "campaign", "ALOI", "cover", "http", "VOC effnet")
OTHERS = ("skin", "smtp", "mushrooms", "VOC vgg", "MNIST")
SETS = (*CHOSEN_ON, *OTHERS)
SPARSE = ("a9a", "mushrooms")
SHAPES = tuple((n, d) for n in (500, 2000, 10_000, 50_000) for d in (5, 20, 60, 150, 400)
               if n * d <= 10**7)  # fmt: skip
# unscaled: those above that have units, and sets of scikit-learn
RAW = (*(name for name in SETS if name not in SPARSE), "wine", "iris", "breast_cancer", "digits",
       "diabetes")  # fmt: skip
SOFTMAX = ("digits", "MNIST", "rare classes")
SMALL = tuple((n, d) for n in (100, 500, 2000, 5000) for d in (2, 10, 30, 60))
VOC_CLASSES = {"VOC effnet": ("efficientnet", 14), "VOC vgg": ("vgg19", 3)}
CHUNK = 10_000  # rows of a Hessian at a time
PROVED = 1e-8  # of the way from P0 to P*: how well P* is known for softmax


def file_of(folder, pattern):
    """The one file of a pattern, or an error that says what is missing."""
    found = sorted(glob.glob(str(folder / pattern)))
    if not found:
        raise SystemExit(f"--data {folder} has no file {pattern}")
    return np.load(found[0])


def load(name, folder, raw=False):
    """Return the rows and the labels, True or False, of a set; raw: in the units of the file."""
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
        return X if raw else X / np.linalg.norm(X, axis=1).mean(), labels[labels != 0] > 0
    if name == "MNIST":
        X, y = third_of_mnist(folder)
        return X if raw else X / 255.0, y == 8
    data = file_of(folder, f"adbench_*_{name}.npz")
    X = np.ascontiguousarray(data["X"], dtype=np.float64)
    if raw:
        return X, data["y"] > 0
    spread = X.std(axis=0)
    spread[spread == 0] = 1
    return np.ascontiguousarray((X - X.mean(axis=0)) / spread), data["y"] > 0


def third_of_mnist(folder):
    """Return every third row of MNIST, from 0 to 255, and its digit: all of them take long."""
    data = file_of(folder, "mnist_full_uint8.npz")
    return data["X"][:60_000:3].astype(np.float64), data["y"][:60_000:3]


def load_raw(name, folder):
    """Return rows in the units they came in, targets, and the loss."""
    if name in SETS:
        return *load(name, folder, raw=True), "log_loss"
    if name == "diabetes":
        return *datasets.load_diabetes(return_X_y=True, scaled=False), "squared_error"
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, y, "log_loss" if y.max() == 1 else "softmax"


def load_classes(name, folder):
    """Return rows and labels of several classes, for softmax."""
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        return X / 16.0, y
    if name == "MNIST":
        X, y = third_of_mnist(folder)
        return X / 255.0, y
    return rare_classes(50_000)


def rare_classes(n):
    """Return rows like covertype's, ten numbers and two categories, of 23 classes, ten rare."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n, 10)) + 0.5 * rng.normal(size=(n, 1))
    categories = [np.eye(k)[rng.choice(k, n, p=rng.dirichlet(np.ones(k)))] for k in (4, 40)]
    X = np.hstack([numbers, *categories])
    w = rng.normal(size=(X.shape[1], 23))
    levels = np.where(np.arange(23) < 10, -6.0, 0.0)
    return X, (X @ w + levels + rng.gumbel(size=(n, 23))).argmax(axis=1)


def generated(n, d):
    """Return rows of a normal distribution, correlated, and labels of a logistic model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[:, 1:] += 0.5 * X[:, :1]
    w = 2 * rng.normal(size=d) / np.sqrt(d)
    return X, X @ w + rng.logistic(size=n) > 1.5


def logistic(z, y):
    """The loss at an inner product z, for y = 1 or -1, its derivative and its curvature."""
    chance = expit(-y * z)
    return np.logaddexp(0.0, -y * z), -y * chance, chance * (1 - chance)


def squared_hinge(z, y):
    """The loss at an inner product z, for y = 1 or -1, its derivative and its curvature."""
    short = np.maximum(0.0, 1 - y * z)
    return short**2, -2 * y * short, 2.0 * (short > 0)


def squared_error(z, y):
    """The loss at an inner product z, its derivative and its curvature."""
    return (z - y) ** 2 / 2, z - y, np.ones_like(z)


def softmax(z, y):
    """The losses at inner products z, (n, K), for the labels y, and the chances of all classes."""
    logs = logsumexp(z, axis=1)
    return logs - z[np.arange(len(y)), y], np.exp(z - logs[:, None])


LOSSES = {
    "log_loss": logistic, "squared_hinge": squared_hinge, "squared_error": squared_error,
    "softmax": softmax,
}  # fmt: skip


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
        if self.loss == "squared_error":
            self.labels = self.targets = self.y
        else:
            self.labels = self.targets = self.y.astype(np.int64)
        if self.loss in ("log_loss", "squared_hinge"):
            self.targets = np.where(self.labels == 1, 1.0, -1.0)
        self.start = self.best(intercept_only=True)
        self.minimum = self.kept_minimum()

    def value(self, w, b):
        z = self.X @ w.T + b
        losses = LOSSES[self.loss](z if self.loss == "softmax" else z[:, 0], self.targets)[0]
        return float(losses.mean() + self.lam / 2 * (w * w).sum())

    def distance(self, w, b):
        """The share of the way from P0 to P* that is left; 0 at the minimum, 1 at w = 0."""
        if not (np.isfinite(w).all() and np.isfinite(b).all()):
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
            file.write_text(repr(self.best()))
        return float(file.read_text())

    def best(self, intercept_only=False):
        """The minimum of P, or P0."""
        if self.loss != "softmax":
            return self.newton(intercept_only)
        if intercept_only:
            shares = np.bincount(self.labels) / self.n
            return float(-(shares * np.log(shares)).sum())
        return self.trust_region()

    def trust_region(self):
        """The minimum of P for softmax, by scipy, with columns shifted and scaled: the same P.

        From 0 that takes minutes, so it starts from a fit of ours. That it ends within PROVED of
        the way is checked: P is strongly convex in w, and nearly quadratic in the intercepts.
        """
        spread = np.ptp(self.X, axis=0)
        spread[spread == 0] = 1
        Z = np.hstack([(self.X - self.X.mean(axis=0)) / spread, np.ones((self.n, 1))])
        penalty = np.append(self.lam / spread**2, 0.0)[:, None]
        shape = self.d + 1, int(self.labels.max()) + 1
        ones = np.eye(shape[1])[self.labels]
        kept = {}

        def evaluated(v):
            if not np.array_equal(v, kept.get("at")):
                kept["at"], kept["found"] = v.copy(), softmax(Z @ v.reshape(shape), self.labels)
            return kept["found"]

        def value(v):
            losses, chances = evaluated(v)
            w = v.reshape(shape)
            gradient = Z.T @ (chances - ones) / self.n + penalty * w
            return float(losses.mean() + (penalty * w**2).sum() / 2), gradient.ravel()

        def product(v, u):
            chances, u = evaluated(v)[1], u.reshape(shape)
            z = Z @ u
            z = chances * (z - (chances * z).sum(axis=1, keepdims=True))
            return (Z.T @ z / self.n + penalty * u).ravel()

        fit = LinearClassifier(alpha=self.lam, tol=1e-8, max_iter=1000).fit(self.X, self.labels)
        gtol = max(1e-7 * self.start, np.sqrt(PROVED * self.start * penalty[:-1].min()) / 2)
        first = fit.intercept_ + fit.coef_ @ self.X.mean(axis=0)
        found = minimize(
            value, np.vstack([fit.coef_.T * spread[:, None], first]).ravel(), jac=True,
            hessp=product, method="trust-ncg", options={"gtol": gtol, "maxiter": 500},
        )  # fmt: skip
        slopes, chances = found.jac.reshape(shape), evaluated(found.x)[1]
        bend = np.diag(chances.mean(axis=0)) - chances.T @ chances / self.n
        left = (slopes[:-1] ** 2 / penalty[:-1]).sum() / 2
        left += slopes[-1] @ np.linalg.lstsq(bend, slopes[-1])[0] / 2
        if not left <= PROVED * (self.start - found.fun):
            raise RuntimeError(f"{self.name}: the minimum is only known to {left}")
        return float(found.fun)

    def newton(self, intercept_only=False):
        """The minimum of P, by Newton steps, halved until P falls.

        A step promises g H^-1 g / 2; it ends where that is 1e-12 of the way gone so far, or where
        rounding hides it.
        """
        d = 0 if intercept_only else self.d
        X, penalty = self.X[:, :d], np.append(np.full(d, self.lam), 0.0)
        loss, targets, u = LOSSES[self.loss], self.targets, np.zeros(d + 1)

        def value(u):
            losses = loss(X @ u[:d] + u[d], targets)[0]
            return float(losses.mean() + penalty @ u**2 / 2)

        first = now = value(u)
        for _ in range(200):
            _, slopes, curves = loss(X @ u[:d] + u[d], targets)
            slopes = slopes / self.n
            gradient = np.append(X.T @ slopes, slopes.sum()) + penalty * u
            H = self.hessian(X, curves, penalty)
            unit = 1 / np.sqrt(np.maximum(np.diag(H), 1e-300))
            # a hair on the diagonal: an intercept of squared hinge may have no curvature
            H = H * unit * unit[:, None] + 1e-14 * np.eye(d + 1)
            step = unit * np.linalg.solve(H, unit * gradient)
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
        return H + np.diag(penalty)
