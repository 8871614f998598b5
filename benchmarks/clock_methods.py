"""The methods of clock.py: for each, ladders of settings from cheap to dear."""

import time
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tombola.estimators import LinearClassifier

OURS = "ours"
OURS_SHUFFLED = "ours, shuffle"
SDCA = "sdca"
SDCA_SHUFFLED = "sdca, shuffle"
RIVALS = ("saga", "lbfgs", "liblinear", "SGDClassifier")  # the best of them, on each set
NEWTON = "newton-cholesky"
SVC = "LinearSVC"
HALF_DECADES = [float(f"{10 ** (-k / 2):.2g}") for k in range(2, 17)]  # 1e-1 to 1e-8
DECADES = [10.0**-k for k in range(1, 9)]
STEPS = [1, 2, 3, 4, 6, 8, 11, *(round(2 ** (k / 2)) for k in range(8, 29))]  # to 16,384
LAST_TRIED = "last tried"
SCALINGS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Method:
    """An estimator, its fixed parameters, and ladders of those that decide how far it goes.

    `strength` names the parameter of the penalty: alpha = lambda, or C = 1 / (lambda n).
    `order` is the power of 1 / seconds at which the distance falls, if it is known to fall no
    faster: a search need not follow it to the end.
    """

    name: str
    estimator: Any
    fixed: dict
    ladders: list
    strength: str = "C"
    order: float = np.inf

    def fit(self, task, setting, seed, threads):
        """Fit once; return seconds of the whole fit, and the distance that is left."""
        penalty = {self.strength: task.lam if self.strength == "alpha" else 1 / (task.lam * task.n)}
        model = self.estimator(**self.fixed, **setting, **penalty, random_state=seed)
        with threadpool_limits(threads):
            numba.set_num_threads(threads)
            began = time.perf_counter()
            model.fit(task.X, task.labels)
            seconds = time.perf_counter() - began
        return seconds, task.distance(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]))


def grid(name, values, **others):
    """A ladder: settings that differ in one parameter."""
    return [{**others, name: value} for value in values]


def ours(name, **fixed):
    """`LinearClassifier` over tol, with as many epochs as that takes."""
    return Method(
        name, LinearClassifier, {"max_iter": 1000, **fixed}, [grid("tol", HALF_DECADES)], "alpha"
    )


def logistic_regression(solver):
    """scikit-learn's `LogisticRegression` over max_iter, and over tol.

    Where tol decides, max_iter is the last that was tried of the other ladder: saga can take
    minutes to a tol that it hardly ever meets.
    """
    ladders = [grid("max_iter", STEPS, tol=1e-15), grid("tol", DECADES, max_iter=LAST_TRIED)]
    return Method(solver, LogisticRegression, {"solver": solver}, ladders)


def log_loss_methods():
    """Ours first, then scikit-learn's."""
    sgd = [grid("max_iter", STEPS, average=average) for average in (False, True)]
    scaled = [grid("tol", DECADES, intercept_scaling=scaling) for scaling in SCALINGS]
    return [
        ours(OURS),
        ours(OURS_SHUFFLED, sampler="shuffle"),
        ours(SDCA, solver="sdca"),
        ours(SDCA_SHUFFLED, solver="sdca", sampler="shuffle"),
        logistic_regression("saga"),
        logistic_regression("lbfgs"),
        Method("liblinear", LogisticRegression, {"solver": "liblinear"}, scaled),
        Method(
            "SGDClassifier", SGDClassifier, {"loss": "log_loss", "tol": None}, sgd, "alpha", order=2
        ),
        logistic_regression(NEWTON),
    ]


def squared_hinge_methods():
    """Ours and scikit-learn's `LinearSVC`; its dual="auto" is dual=False where n > d, as here."""
    primal = [grid("tol", DECADES, dual=False, intercept_scaling=s) for s in SCALINGS]
    dual = [grid("max_iter", STEPS, tol=1e-15, dual=True, intercept_scaling=s) for s in SCALINGS]
    return [
        ours(OURS, loss="squared_hinge"),
        Method(SVC, LinearSVC, {"loss": "squared_hinge"}, primal + dual),
    ]


def shape_methods():
    """Ours, and the two of scikit-learn that are fast on small sets."""
    return [ours(OURS), logistic_regression("lbfgs"), logistic_regression(NEWTON)]


METHODS = {
    "log_loss": log_loss_methods,
    "squared_hinge": squared_hinge_methods,
    "shapes": shape_methods,
}
