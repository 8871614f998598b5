"""The models that are fitted to convergence, scikit-learn's and ours, and what they minimise."""

from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn import cluster, linear_model
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from tombola.estimators import KMeans, Lasso, LinearClassifier, LinearRegressor, MiniBatchKMeans

__all__ = ["Candidate", "Penalty", "candidates", "constant_objective", "losses_of", "objective_of"]

WIDE = 1000  # newton-cholesky solves systems of at most this many unknowns
SAGA = 4  # a pass of saga takes several times as long as one of lbfgs: it may take fewer
FEWEST = 20  # passes, whatever the limit


class Penalty(NamedTuple):
    """The penalty that all models share: alpha |w|^2 / 2, or alpha |w|_1 with l1.

    alpha = None is the default of the estimators, 1 / n.
    """

    alpha: float | None
    l1: bool

    def of(self, n: int) -> float:
        """Return alpha for a fit of n rows."""
        return 1.0 / n if self.alpha is None else self.alpha


class Candidate(NamedTuple):
    """A model to fit, as a user would write it."""

    name: str
    estimator: Any
    library: str  # "scikit-learn" or "tombola"
    family: str  # the objective, for people

    def model(self, seed: int) -> Any:
        """Return the model, not fitted, with this seed."""
        model = clone(self.estimator)
        names = [name for name in model.get_params() if name.endswith("random_state")]
        return model.set_params(**dict.fromkeys(names, seed))  # also of the model inside


def candidates(
    task: str, penalty: Penalty, n: int, width: int, n_classes: int, n_clusters: int, passes: int
) -> list[Candidate]:
    """Return the models for a task, those that users have already first.

    Parameters
    ----------
    task : {"classification", "regression", "clustering"}
    penalty : Penalty
    n, width : int
        Rows and columns that are fitted.
    n_classes, n_clusters : int
    passes : int
        The most iterations that scikit-learn's slower solvers may take.
    """
    if task == "clustering":
        kinds = [cluster.KMeans, cluster.MiniBatchKMeans, KMeans, MiniBatchKMeans]
        return [_candidate(kind(n_clusters=n_clusters), "squared distance") for kind in kinds]
    if task == "regression":
        return _regressors(penalty, n)
    return _classifiers(penalty, n, width, n_classes, passes)


def _regressors(penalty: Penalty, n: int) -> list[Candidate]:
    alpha, family = penalty.of(n), "least squares"
    sgd = linear_model.SGDRegressor(alpha=alpha, penalty="l1" if penalty.l1 else "l2")
    ridge = 1.0 if penalty.alpha is None else alpha * n
    models = [linear_model.Ridge(alpha=ridge), LinearRegressor(alpha=penalty.alpha)]
    if penalty.l1:
        models = [linear_model.Lasso(alpha=alpha), Lasso(alpha=alpha)]
    else:  # the rate of SGDRegressor needs a target of spread 1; for ridge that is the same model
        sgd = TransformedTargetRegressor(sgd, transformer=StandardScaler())
    return [_candidate(model, family) for model in (models[0], sgd, models[1])]


def _classifiers(
    penalty: Penalty, n: int, width: int, n_classes: int, passes: int
) -> list[Candidate]:
    alpha, several = penalty.of(n), n_classes > 2
    family = "softmax" if several else "log loss"
    C, most = 1.0 if penalty.alpha is None else 1.0 / (alpha * n), {"max_iter": passes}
    own: dict[str, Any] = {"C": C}
    if penalty.l1:
        kind = linear_model.LogisticRegression
        new = signature(kind).parameters["penalty"].default == "deprecated"
        own |= {"l1_ratio": 1.0} if new else {"penalty": "l1"}
    make = linear_model.LogisticRegression
    found = []
    if not penalty.l1:
        found.append(_candidate(make(**own, **most), family))
        if (width + 1) * (n_classes if several else 1) <= WIDE:
            found.append(_candidate(make(**own, solver="newton-cholesky"), family))
    few = {"max_iter": max(passes // SAGA, FEWEST)}
    found.append(_candidate(make(**own, **few, solver="saga"), family))
    each = "one-vs-rest" if several else family
    if several and not penalty.l1:
        found.append(_candidate(OneVsRestClassifier(make(**own, **most)), each))
    sgd = linear_model.SGDClassifier(
        loss="log_loss", alpha=alpha, penalty="l1" if penalty.l1 else "l2"
    )
    ours = LinearClassifier(alpha=penalty.alpha, l1_ratio=1.0 if penalty.l1 else 0.0)
    return [*found, _candidate(sgd, each), _candidate(ours, family)]


def _candidate(estimator: Any, family: str) -> Candidate:
    library = "tombola" if type(estimator).__module__.startswith("tombola") else "scikit-learn"
    inner = getattr(estimator, "estimator", getattr(estimator, "regressor", estimator))
    solver = getattr(inner, "solver", "auto")
    name = f"{library}'s {type(inner).__name__}" + ("" if solver == "auto" else f" ({solver})")
    if isinstance(estimator, OneVsRestClassifier):
        name += ", one-vs-rest"
    return Candidate(name, estimator, library, family)


def coefficients(model: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weights of shape (K, d) and intercepts of shape (K,), in the unit of y."""
    if hasattr(model, "estimators_"):  # one-vs-rest
        pairs = [coefficients(part) for part in model.estimators_]
        return np.vstack([w for w, _ in pairs]), np.concatenate([b for _, b in pairs])
    if hasattr(model, "regressor_"):  # a standardised target
        weights, free = coefficients(model.regressor_)
        scaler = model.transformer_
        return weights * scaler.scale_[0], free * scaler.scale_[0] + scaler.mean_[0]
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    return weights, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))


def objective_of(model: Any, family: str, X: Any, y: Any, penalty: Penalty) -> float:
    """Return the objective of a fitted model on X and y; infinite where it is not a number."""
    if family == "squared distance":
        return -float(model.score(X)) / float(X.shape[0])
    weights, free = coefficients(model)
    with np.errstate(over="ignore", invalid="ignore"):
        margins = np.asarray(X @ weights.T) + free
        norm = np.abs(weights).sum() if penalty.l1 else 0.5 * (weights**2).sum()
        found = float(losses_of(margins, family, y).mean() + penalty.of(X.shape[0]) * norm)
    return found if np.isfinite(found) else np.inf


def constant_objective(family: str, y: Any) -> float:
    """Return the objective of the best constant prediction."""
    if family == "least squares":
        return float(np.var(y)) / 2.0
    shares = np.unique(y, return_counts=True)[1] / len(y)
    if family == "softmax":
        return float(-(shares * np.log(shares)).sum())
    sides = shares[:1] if len(shares) == 2 else shares
    return float(-(sides * np.log(sides) + (1 - sides) * np.log1p(-sides)).sum())


def losses_of(margins: NDArray[np.float64], family: str, y: Any) -> NDArray[np.float64]:
    """Return the loss of each row."""
    if family == "least squares":
        return np.asarray((margins[:, 0] - y) ** 2 / 2.0)
    labels, numbers = np.unique(y, return_inverse=True)
    if family == "softmax":
        rows = np.arange(len(numbers))
        return np.asarray(logsumexp(margins, axis=1) - margins[rows, numbers])
    sides = np.arange(1, 2) if len(labels) == 2 else np.arange(len(labels))
    signs = np.where(numbers[:, None] == sides, 1.0, -1.0)
    return np.asarray(np.logaddexp(0.0, -signs * margins).sum(axis=1))
