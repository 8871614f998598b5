"""Parameters: declared, checked, and shared by estimators in memory and on Dask collections.

Words that users of scikit-learn know and that mean something else here are refused by errors that
name ours.
"""

import functools
import inspect
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils._param_validation import Interval, StrOptions

from tombola import problems

__all__ = [
    "COUNT",
    "FROM_0",
    "POSITIVE",
    "SHARE",
    "WHOLE",
    "ClassificationLoss",
    "ClusterStarts",
    "Declared",
    "KMeansParameters",
    "LinearParameters",
    "RegressionLoss",
    "balanced",
    "check_ones",
    "check_values",
    "check_words",
    "gives_probabilities",
    "names_ours",
    "one_of",
    "parameter",
    "shared_parameters",
]

LEAST, PER_CLUSTER = 2000, 100  # draws of a coreset of automatic size
FROM_0 = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="both")
COUNT = Interval(Integral, 1, None, closed="left")
WHOLE = Interval(Integral, 0, None, closed="left")


def parameter(default: Any, *allowed: Any) -> Any:
    """Declare a parameter: its default, and what it may be, as scikit-learn checks it.

    With nothing that it may be, it is not checked.
    """
    return field(default=default, metadata={"allowed": list(allowed) or "no_validation"})


def one_of(*words: str) -> StrOptions:
    """Return that a parameter may be one of these words."""
    return StrOptions(set(words))


class Declared(BaseEstimator):
    """An estimator that is a dataclass: its fields are its parameters.

    A constructor of scikit-learn only sets its arguments as attributes, as that of a dataclass.
    """

    @property
    def _parameter_constraints(self) -> dict[str, Any]:
        return {each.name: each.metadata["allowed"] for each in fields(self)}


@dataclass(kw_only=True, eq=False, repr=False)
class LinearParameters(Declared):
    """The objective of a linear model, how near its minimum to stop, and the seed."""

    alpha: float | None = parameter(None, FROM_0, None)
    C: float | None = parameter(None, POSITIVE, None)
    l1_ratio: float = parameter(0.0, SHARE)
    fit_intercept: bool = parameter(True, "boolean")
    tol: float | None = parameter(1e-4, FROM_0, None)
    random_state: Any = parameter(None, "random_state")

    losses: ClassVar[dict[str, Any]]

    def _validate_params(self) -> None:
        if self.alpha is not None and self.C is not None:
            raise ValueError(
                f"alpha={self.alpha!r} and C={self.C!r} are two names of one penalty, "
                "alpha = 1 / (C n): give one of them"
            )
        super()._validate_params()

    def _problem(self, total: float) -> tuple[Any, dict[str, Any]]:
        """Return the class of the problem, and its parameters.

        `total` is the sum of the sample weights, those of classes included: with C, and by default
        with C = 1, the penalty |w|^2 / (2 C) is added to the sum of the losses, as scikit-learn's
        classifiers do.
        """
        alpha = self.alpha
        if alpha is None:  # if all weights are 0, that is an error to come
            alpha = 1.0 / ((self.C or 1.0) * total) if total > 0.0 else 0.0
        kind = self.losses[self.loss]
        names = ("l1_ratio", "fit_intercept")
        return kind, {"alpha": alpha, **{name: getattr(self, name) for name in names}}

    def _set_solution(self, solution: NDArray[Any], dtype: Any) -> None:
        """Set coefficients and intercept, in a precision, by a solution for each output."""
        d, both = self.n_features_in_, np.asarray(solution, dtype=dtype)
        both = both[0] if is_regressor(self) else both  # one output, without an axis of its own
        self.coef_: Any = np.ascontiguousarray(both[..., :d])
        free = both[..., d].copy() if self.fit_intercept else np.zeros(both.shape[:-1], dtype)
        self.intercept_: Any = free[()]


@dataclass(eq=False, repr=False)
class ClassificationLoss:
    """The loss of a classifier, and the weights of classes."""

    loss: str = parameter("log_loss", one_of("log_loss", "hinge", "squared_hinge"))
    _: KW_ONLY
    class_weight: Any = parameter(None, one_of("balanced"), dict, None)

    losses: ClassVar[dict[str, Any]] = {
        "log_loss": problems.Logistic,
        "hinge": problems.Hinge,
        "squared_hinge": problems.SquaredHinge,
    }

    def _check_indicators(self) -> None:
        """Raise an error that names a parameter that has no meaning for an indicator matrix."""
        if self.class_weight is not None:
            raise ValueError(
                f"class_weight={self.class_weight!r} needs one label for each row, y is an "
                "indicator matrix: use class_weight=None"
            )


def balanced(masses: NDArray[Any]) -> NDArray[np.float64]:
    """Return the weight of each class, with which all of them weigh the same."""
    return np.asarray(masses.sum() / (masses.size * np.where(masses > 0.0, masses, 1.0)))


def check_ones(shares: NDArray[np.float64]) -> None:
    """Raise an error that names a column of an indicator matrix with one value, by shares of 1."""
    same = (shares <= 0.0) | (shares >= 1.0 - 1e-15)
    if same.any():
        k = int(same.argmax())
        raise ValueError(
            f"column {k} of y is {shares[k]:.0f} in every row: there is nothing to learn from it, "
            "leave it out"
        )


def gives_probabilities(estimator: Any) -> bool:
    """Return True if a classifier gives probabilities; else raise an error that says why not."""
    if estimator.loss != "log_loss":
        raise AttributeError(f"there are no probabilities for loss={estimator.loss!r}")
    return True


@dataclass(eq=False, repr=False)
class RegressionLoss:
    """The loss of a regression, and its parameter."""

    loss: str = parameter("squared_error", one_of("squared_error", "huber", "epsilon_insensitive"))
    _: KW_ONLY
    epsilon: float | None = parameter(None, FROM_0, None)

    losses: ClassVar[dict[str, Any]] = {
        "squared_error": problems.LeastSquares,
        "huber": problems.Huber,
        "epsilon_insensitive": problems.EpsilonInsensitive,
    }

    def _problem(self, total: float) -> tuple[Any, dict[str, Any]]:
        kind, options = super()._problem(total)  # type: ignore[misc]
        if self.epsilon is None:
            return kind, options
        if self.loss == "squared_error":
            raise ValueError(
                f'epsilon={self.epsilon!r} is for loss="huber" or "epsilon_insensitive", got '
                'loss="squared_error"'
            )
        return kind, {**options, "epsilon": self.epsilon}


@dataclass(eq=False, repr=False)
class ClusterStarts:
    """How many clusters, and where they start."""

    n_clusters: int = parameter(8, COUNT)
    _: KW_ONLY
    init: Any = parameter("k-means++", one_of("k-means++", "random"), callable, "array-like")
    n_init: Any = parameter("auto", one_of("auto"), COUNT)


@dataclass(kw_only=True, eq=False, repr=False)
class KMeansParameters(ClusterStarts, Declared):
    """The parameters of k-means on coresets."""

    max_iter: int = parameter(300, COUNT)
    tol: float = parameter(1e-4, FROM_0)
    coreset_size: Any = parameter("auto", one_of("auto"), COUNT)
    polish: int = parameter(10, WHOLE)
    algorithm: str = parameter("lloyd", one_of("lloyd", "elkan"))
    verbose: int = parameter(0, "verbose")
    random_state: Any = parameter(None, "random_state")

    def _draws(self) -> int:
        """Return the number of draws of a coreset, by default 100 for each cluster or 2000."""
        if isinstance(self.coreset_size, str):
            return max(LEAST, PER_CLUSTER * self.n_clusters)
        if self.coreset_size < self.n_clusters:
            raise ValueError(
                f"coreset_size must be at least n_clusters={self.n_clusters}, got "
                f"{self.coreset_size}"
            )
        return int(self.coreset_size)


def shared_parameters(estimator: Any, kind: type) -> dict[str, Any]:
    """Return the parameters that an estimator and a class of estimators declare in common."""
    bases = (base for base in type(estimator).__mro__ if issubclass(kind, base))
    names = {field.name for base in bases if is_dataclass(base) for field in fields(base)}
    return {name: getattr(estimator, name) for name in names}


# --- words of scikit-learn ------------------------------------------------------------------------

Kind = TypeVar("Kind", bound=type)

PARAMETERS = {
    "dual": 'solver="sdca" for the dual problem',
    "eta0": 'rate, with solver="sgd" or "adagrad"',
    "learning_rate": 'rate, with solver="sgd" or "adagrad"',
    "n_alphas": "alphas",
    "n_iter": "max_iter",
    "normalize": "StandardScaler() before it, in a pipeline",
    "penalty": "alpha, and l1_ratio: 0 for l2, 1 for l1, between them for elasticnet",
    "positive": "Lasso or ElasticNet, with positive=True",
    "shuffle": 'sampler="shuffle", or "uniform"',
}
PENALTIES = {
    "l1": "l1_ratio=1.0",
    "l2": "l1_ratio=0.0",
    "elasticnet": "l1_ratio from 0 to 1",
    None: "alpha=0.0",
}
VALUES = {
    ("loss", "log"): "log_loss",
    ("loss", "squared_loss"): "squared_error",
    ("multi_class", "multinomial"): "softmax",
    ("solver", "cholesky"): "auto",
    ("solver", "lbfgs"): "auto",
    ("solver", "liblinear"): "sdca",
    ("solver", "newton-cg"): "auto",
    ("solver", "newton-cholesky"): "auto",
    ("solver", "lsqr"): "auto",
    ("solver", "sag"): "saga",
    ("solver", "sparse_cg"): "auto",
    ("solver", "svd"): "auto",
}


def check_words(given: Mapping[str, Any], name: str, error: type[Exception] = TypeError) -> None:
    """Raise an error that names our parameter for the first familiar one of another meaning."""
    for word, value in given.items():
        if word not in PARAMETERS:
            continue
        ours = PARAMETERS[word]
        if word == "penalty" and (value is None or isinstance(value, str)):
            ours = PENALTIES.get(value, ours)
        raise error(f"{name} has no parameter {word}, got {word}={value!r}: use {ours}")


def check_values(given: Mapping[str, Any], name: str) -> None:
    """Raise a ValueError that names our value for the first familiar one of another meaning."""
    for word, value in given.items():
        ours = VALUES.get((word, value)) if isinstance(value, str) else None
        if ours is not None:
            raise ValueError(f'{word}={value!r} is not a choice of {name}: use {word}="{ours}"')


def names_ours(kind: Kind) -> Kind:
    """Make the constructor of a class refuse familiar parameters by an error that names ours."""
    init: Any = kind.__init__  # type: ignore[misc]
    own = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked(self: Any, *values: Any, **given: Any) -> None:
        check_words({word: given[word] for word in given if word not in own}, kind.__name__)
        init(self, *values, **given)

    kind.__init__ = checked  # type: ignore[misc]
    return kind
