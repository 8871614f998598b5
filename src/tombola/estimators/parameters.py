"""Parameters that estimators in memory and those on Dask collections share."""

from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from tombola import problems

__all__ = [
    "ClassificationLoss",
    "KMeansParameters",
    "LinearParameters",
    "RegressionLoss",
    "balanced",
    "gives_probabilities",
    "shared_parameters",
]

LEAST, PER_CLUSTER = 2000, 100  # draws of a coreset of automatic size


@dataclass(kw_only=True, eq=False, repr=False)
class LinearParameters:
    """The objective of a linear model, how near its minimum to stop, and the seed."""

    alpha: float | None = None
    C: float | None = None
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    tol: float | None = 1e-4
    random_state: Any = None

    losses: ClassVar[dict[str, Any]]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [None, Interval(Real, 0, None, closed="left")],
        "C": [None, Interval(Real, 0, None, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "fit_intercept": ["boolean"],
        "tol": [None, Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _validate_params(self) -> None:
        if self.alpha is not None and self.C is not None:
            raise ValueError(
                f"alpha={self.alpha!r} and C={self.C!r} are two names of one penalty, "
                "alpha = 1 / (C n): give one of them"
            )
        super()._validate_params()  # type: ignore[misc]

    def _problem(self, total: float) -> tuple[Any, dict[str, Any]]:
        """Return the class of the problem, and its parameters.

        `total` is the sum of the sample weights, those of classes included: with C, and by default
        with C = 1, the penalty |w|^2 / (2 C) is added to the sum of the losses, as scikit-learn's
        classifiers do.
        """
        alpha = self.alpha
        if alpha is None:  # if all weights are 0, that is an error to come
            alpha = 1.0 / ((self.C or 1.0) * total) if total > 0.0 else 0.0
        kind = self.losses[self.loss]  # type: ignore[attr-defined]
        names = ("l1_ratio", "fit_intercept")
        return kind, {"alpha": alpha, **{name: getattr(self, name) for name in names}}


@dataclass(eq=False, repr=False)
class ClassificationLoss(LinearParameters):
    """The loss of a classifier, and the weights of classes."""

    loss: str = "log_loss"
    _: KW_ONLY
    class_weight: Any = None

    losses: ClassVar[dict[str, Any]] = {
        "log_loss": problems.Logistic,
        "hinge": problems.Hinge,
        "squared_hinge": problems.SquaredHinge,
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearParameters._parameter_constraints,
        "loss": [StrOptions(set(losses))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
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


def gives_probabilities(estimator: Any) -> bool:
    """Return True if a classifier gives probabilities; else raise an error that says why not."""
    if estimator.loss != "log_loss":
        raise AttributeError(f"there are no probabilities for loss={estimator.loss!r}")
    return True


@dataclass(eq=False, repr=False)
class RegressionLoss(LinearParameters):
    """The loss of a regression, and its parameter."""

    loss: str = "squared_error"
    _: KW_ONLY
    epsilon: float | None = None

    losses: ClassVar[dict[str, Any]] = {
        "squared_error": problems.LeastSquares,
        "huber": problems.Huber,
        "epsilon_insensitive": problems.EpsilonInsensitive,
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearParameters._parameter_constraints,
        "loss": [StrOptions(set(losses))],
        "epsilon": [None, Interval(Real, 0, None, closed="left")],
    }

    def _problem(self, total: float) -> tuple[Any, dict[str, Any]]:
        kind, options = super()._problem(total)
        if self.epsilon is None:
            return kind, options
        if self.loss == "squared_error":
            raise ValueError(
                f'epsilon={self.epsilon!r} is for loss="huber" or "epsilon_insensitive", got '
                'loss="squared_error"'
            )
        return kind, {**options, "epsilon": self.epsilon}


@dataclass(eq=False, repr=False)
class KMeansParameters:
    """The parameters of k-means on coresets."""

    n_clusters: int = 8
    _: KW_ONLY
    init: Any = "k-means++"
    n_init: Any = "auto"
    max_iter: int = 300
    tol: float = 1e-4
    coreset_size: Any = "auto"
    polish: int = 10
    algorithm: str = "lloyd"
    verbose: int = 0
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means++", "random"}), callable, "array-like"],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "coreset_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "polish": [Interval(Integral, 0, None, closed="left")],
        "algorithm": [StrOptions({"lloyd", "elkan"})],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

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
