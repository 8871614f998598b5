"""The methods of clock.py: for each, ladders of settings from cheap to dear."""

import time
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tombola.estimators import LinearClassifier, LinearRegressor

OURS = "ours"
AS_IT_IS = "ours, as it is"  # with the default tolerance and number of iterations
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
ROUNDING = 1e-7  # of a distance: the minimum that it is taken from is not exact
SCALINGS = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Method:
    """An estimator, its fixed parameters, and ladders of those that decide how far it goes.

    `strength` names the parameter of the penalty: alpha = lambda, C = 1 / (lambda n), or Ridge's
    alpha = lambda n.
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
        name, amount = {
            "alpha": ("alpha", task.lam), "C": ("C", 1 / (task.lam * task.n)),
            "alpha n": ("alpha", task.lam * task.n),
        }[self.strength]  # fmt: skip
        model = self.estimator(**self.fixed, **setting, **{name: amount}, random_state=seed)
        with threadpool_limits(threads):
            numba.set_num_threads(threads)
            began = time.perf_counter()
            model.fit(task.X, task.labels)
            seconds = time.perf_counter() - began
        distance = task.distance(np.atleast_2d(model.coef_), np.ravel(model.intercept_))
        gap = getattr(model, "dual_gap_", np.inf) * task.start / (task.start - task.minimum)
        if gap + ROUNDING < distance:
            raise RuntimeError(f"{task.name}: certified {gap:.3g}, but {distance:.3g} is left")
        return seconds, distance


def grid(name, values, **others):
    """A ladder: settings that differ in one parameter."""
    return [{**others, name: value} for value in values]


def ours(name, estimator=LinearClassifier, **fixed):
    """An estimator of ours over tol, with as many epochs as that takes."""
    return Method(
        name, estimator, {"max_iter": 1000, **fixed}, [grid("tol", HALF_DECADES)], "alpha"
    )


def logistic_regression(solver):
    """scikit-learn's `LogisticRegression` over max_iter, and over tol.

    Where tol decides, max_iter is the last that was tried of the other ladder: saga can take
    minutes to a tol that it hardly ever meets.
    """
    ladders = [grid("max_iter", STEPS, tol=1e-15), grid("tol", DECADES, max_iter=LAST_TRIED)]
    return Method(solver, LogisticRegression, {"solver": solver}, ladders)


def liblinear():
    """scikit-learn's `LogisticRegression` by liblinear, whose intercept is penalised."""
    scaled = [grid("tol", DECADES, intercept_scaling=scaling) for scaling in SCALINGS]
    return Method("liblinear", LogisticRegression, {"solver": "liblinear"}, scaled)


def log_loss_methods():
    """Ours first, then scikit-learn's."""
    sgd = [grid("max_iter", STEPS, average=average) for average in (False, True)]
    return [
        ours(OURS),
        ours(OURS_SHUFFLED, sampler="shuffle"),
        ours(SDCA, solver="sdca"),
        ours(SDCA_SHUFFLED, solver="sdca", sampler="shuffle"),
        logistic_regression("saga"),
        logistic_regression("lbfgs"),
        liblinear(),
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


def against_all(loss):
    """Ours, also as it is, and all of scikit-learn for the same objective."""
    if loss == "squared_error":
        mine, fixed = LinearRegressor, {}
        solvers = ("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")
        ladders = [grid("tol", DECADES)]
        rivals = [Method(s, Ridge, {"solver": s}, ladders, "alpha n") for s in solvers]
    else:
        mine, fixed = LinearClassifier, {"multi_class": "softmax" if loss == "softmax" else "ovr"}
        solvers = ("lbfgs", "newton-cg", NEWTON, "sag", "saga")
        rivals = [logistic_regression(solver) for solver in solvers]
        if loss == "log_loss":
            rivals.append(liblinear())
    plain = Method(AS_IT_IS, mine, fixed, [[{}]], "alpha")
    return [ours(OURS, mine, **fixed), plain, *rivals]


def softmax_methods():
    """Ours, also as it is, and scikit-learn's lbfgs."""
    return [method for method in against_all("softmax") if method.name in (OURS, AS_IT_IS, "lbfgs")]


METHODS = {
    "log_loss": log_loss_methods,
    "squared_hinge": squared_hinge_methods,
    "shapes": shape_methods,
    "softmax": softmax_methods,
}
