"""What all estimators share: validated rows, seeds, and the parts of a fit."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tombola.estimators.parameters import COUNT, Declared, one_of, parameter
from tombola.samplers import Sampler
from tombola.samplers.registry import UNGROUPED
from tombola.validation import LARGEST, check_finite, checked_sparse, without_duplicates

__all__ = [
    "AcceptsSparse",
    "DrawingEstimator",
    "LinearPrediction",
    "Observer",
    "Part",
    "checked_rows",
    "checked_weights",
    "checks_parameters",
    "draw_seeds",
    "narrowed",
    "one_column",
]

FEW = 2**20  # entries; the 64-bit indices of a smaller sparse matrix are copied to 32 bits
NO_TARGET = "no_validation"  # scikit-learn's word for: there is no y, and none is needed

Method = TypeVar("Method", bound=Callable[..., Any])


def checks_parameters(fit: Method) -> Method:
    """Validate the parameters before a fit, as scikit-learn does; type checkers see the method."""
    checked: Method = _fit_context(prefer_skip_nested_validation=True)(fit)
    return checked


class Part(NamedTuple):
    """One problem of a fit: the only one, or one class against the others."""

    label: Any  # the class, None if there is one problem only
    make: Callable[[], Any]  # makes the problem
    groups: NDArray[Any] | None  # of rows: class labels, or in one-vs-rest the two sides


class Observer:
    """What a caller sees of the fit of a part, and may do to it; this one lets it run."""

    marks: Sequence[int] = ()  # rounds after which the objective is evaluated, for the trace
    # called after each epoch, or round by columns, with the rounds done, the solution (None by
    # columns) and the duality gap if the solver has just computed it, else NaN
    epoch: Callable[[int, Any, float], None] | None = None

    def begin(self, problem: Any, choice: Any, rule: Any) -> Any:
        """Return the result to continue from, with the stopping rule as it was then; or None."""

    def progress(self, share: float) -> bool:
        """Note the share of rounds that is done; return whether to pause, which calls `keep`."""
        return False

    def keep(self, result: Any) -> None:
        """Note what was reached at a pause, or at the end."""

    def end(self, result: Any, gap: float, converged: bool) -> None:
        """Note the result, its relative duality gap (NaN if unknown), and if it is within tol."""


class Legacy(threading.local):
    """numpy's old generator, one for each thread: to seed it takes a tenth of making another."""

    def __init__(self) -> None:
        self.generator = np.random.RandomState()


LEGACY = Legacy()


def draw_seeds(random_state: Any, count: int, calls: int = 0) -> list[int]:
    """Return a seed for each part of a fit.

    `calls` counts the calls of `partial_fit` so far: each has other seeds for the same
    `random_state`.
    """
    if isinstance(random_state, Integral):
        rng = LEGACY.generator
        rng.seed(int(random_state))
    else:
        rng = check_random_state(random_state)
    return [int(seed) + (calls << 64) for seed in rng.randint(2**31, size=count)]


def checked_rows(estimator: Any, X: Any, y: Any = NO_TARGET, *, reset: bool, **others: Any) -> Any:
    """Return X (and y) validated: float32 or float64, C order or CSR, copied only if it is not.

    Other arguments are those of scikit-learn's `validate_data`. Every matrix that a user passes
    to an estimator comes through here.
    """
    if hasattr(X, "tocsr"):
        X = checked_sparse(X, "X")
    alone = isinstance(y, str) and y == NO_TARGET
    settings = {"accept_sparse": "csr", "order": "C", **others}
    checked = validate_data(
        estimator, X, y, dtype=[np.float64, np.float32], reset=reset, **settings
    )
    X = checked if alone else checked[0]
    if hasattr(X, "tocsr"):
        X = narrowed(without_duplicates(X))
    if reset:
        check_finite(X, "X", LARGEST)
    return X if alone else (X, checked[1])


def narrowed(X: Any) -> Any:
    """Return a sparse matrix (CSR or CSC), with 32-bit indices if it is small.

    Kernels are compiled for each index type, which takes longer than the copy.
    """
    if not (X.indices.dtype == np.int64 and X.nnz < FEW and max(X.shape) < 2**31):
        return X
    parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return type(X)(parts, shape=X.shape)


def one_column(y: Any) -> NDArray[Any]:
    """Return the target of a regression, or raise an error that says what to do with several."""
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y must be one column, got shape {y.shape}: fit a model for each column, for example "
            "by MultiOutputRegressor"
        )
    column: NDArray[Any] = np.asarray(column_or_1d(y, warn=True))
    if column.dtype.kind == "f":
        check_finite(column, "y", LARGEST)
    return column


def checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Return a weight for each row, 1 if none are given."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    weights = np.asarray(
        _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    )
    check_finite(weights, "sample_weight", LARGEST)
    return weights


class AcceptsSparse:
    """The tag of estimators that take sparse matrices."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class DrawingEstimator(AcceptsSparse, Declared):
    """An estimator that draws rows: the parameters that all of them have."""

    sampler: Any = parameter("auto", one_of(*UNGROUPED), Sampler, callable)
    max_iter: int = parameter(100, COUNT)
    random_state: Any = parameter(None, "random_state")
    warm_start: bool = parameter(False, "boolean")
    verbose: int = parameter(0, "verbose")

    # makes the observer of the k-th part of a fit, perhaps in a thread
    observe: ClassVar[Any] = staticmethod(lambda k, part: Observer())


class LinearPrediction:
    """Prediction by `coef_` and `intercept_`: `LinearRegressor` and `Lasso`."""

    coef_: NDArray[np.float64]
    intercept_: Any  # a number

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the prediction for each row."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        found = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        found = found.ravel() if found.ndim == 2 and found.shape[1] == 1 else found
        return np.asarray(found + self.intercept_)

    def _check_warm_start(self, columns: int) -> None:
        """Refuse to continue from a solution with another number of columns."""
        if np.prod(np.shape(self.coef_)) != columns:
            raise ValueError("warm_start needs the number of columns of the last fit")
