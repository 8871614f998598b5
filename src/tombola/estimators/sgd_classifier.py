"""Linear classifiers, fitted by draws of rows."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from tombola.estimators.base import LinearEstimator, checked_rows
from tombola.problems import Logistic, Softmax, SquaredHinge
from tombola.samplers import Sampler

__all__ = ["SGDClassifier"]


def _gives_probabilities(estimator: Any) -> bool:
    if estimator.loss != "log_loss":
        raise AttributeError(f"there are no probabilities for loss={estimator.loss!r}")
    return True


class SGDClassifier(ClassifierMixin, LinearEstimator):
    """Logistic regression or a linear support vector machine, by draws of rows that matter.

        (1/n) sum_i s_i loss(x_i w + b, y_i) + l2/2 |w|^2 + l1 |w|_1

    Rows are drawn more often where that makes steps larger or less noisy, and importances keep
    every step unbiased.

    Parameters
    ----------
    loss : {"log_loss", "squared_hinge"}, default="log_loss"
    multi_class : {"ovr", "softmax"}, default="ovr"
        With more than two classes: a binary problem for each, with its own sampler; or one
        problem for all (log_loss only).
    l2, l1 : float, default=1e-4 and 0.0
    fit_intercept : bool, default=True
    solver : {"saga", "svrg", "adagrad", "sgd"}, default="saga"
        saga needs no rate to be tuned and settles; adagrad is quicker to a rough solution.
    rate : float, optional
        By default 1 / (3 (max L / (n p) + l2)) for saga and svrg, with L how fast the gradient of
        a row changes and p its probability; 0.3 for adagrad; 1 / (max L + l2) at first for sgd
        (it falls as 1 / sqrt(t)).
    batch_size : int, default=1
    max_iter : int, default=100
        Epochs, of n draws each.
    tol : float or None, default=1e-3
        adagrad and sgd stop when the objective, as the draws see it, has for 5 epochs not fallen
        by tol relative to the best one; saga and svrg when no coefficient has moved in an epoch
        by more than tol times the largest one. None: after max_iter epochs.
    sampler : str, Sampler or callable, default="auto"
        "auto" is the fastest by the clock, as far as we know. With adagrad and sgd, and in
        `partial_fit`, "group-vrb": `GroupVRB` over class labels, in one-vs-all over the two sides.
        With saga and svrg, which have little variance left, rows of large L are drawn more often
        (half of the draws by L, half uniformly), which allows larger steps; all alike where no L
        is above twice the mean. Others: "vrb", "shuffle" (not good with saga and svrg), "uniform",
        "balanced" (each class equally often). A sampler over as many items as X has rows: a fresh
        one with its parameters and its seed is used, and it stays as it is. Or a function
        (n, seed, groups) that returns one.
    class_weight : dict, "balanced" or None, default=None
        Rows count as much as their class, times their sample weight.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` goes on from the last solution, with the rates that were reached and what
        was learnt of the groups.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    coef_ : ndarray of shape (1, d) or (K, d)
    intercept_ : ndarray of shape (1,) or (K,)
    gauge_ : Gauge, or list of Gauge
        What the sampling was worth; in one-vs-all one for each class.
    n_iter_ : int
        Epochs done (one-vs-all: of the class that took most).
    t_ : int
        Draws, over all classes and calls of `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray, where X had names

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, weights=[0.97], random_state=0)
    >>> model = SGDClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.97, model.n_iter_ < 50
    (True, True)
    >>> rough = SGDClassifier(solver="adagrad", random_state=0).fit(X, y)
    >>> rough.gauge_.second_moment_ratio < 0.5          # what adapting saves
    True
    """

    classes_: NDArray[Any]

    samplers = ("auto", "vrb", "group-vrb", "shuffle", "uniform", "balanced")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions({"log_loss", "squared_hinge"})],
        "multi_class": [StrOptions({"ovr", "softmax"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
    }

    def __init__(
        self,
        loss: str = "log_loss",
        *,
        multi_class: str = "ovr",
        l2: float = 1e-4,
        l1: float = 0.0,
        fit_intercept: bool = True,
        solver: str = "saga",
        rate: float | None = None,
        batch_size: int = 1,
        max_iter: int = 100,
        tol: float | None = 1e-3,
        sampler: Any = "auto",
        class_weight: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.multi_class = multi_class
        self.l2 = l2
        self.l1 = l1
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.rate = rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.sampler = sampler
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "SGDClassifier":
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are used where they lie.
        y : array-like, shape (n,)
            Labels of any kind.
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.

        Returns
        -------
        self
        """
        again = self.warm_start and hasattr(self, "coef_")
        shape = self.coef_.shape if again else None
        X, y = checked_rows(self, X, y, reset=True)
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, y has 1 class: {classes[0]}"
            )
        if again:
            outputs = 1 if len(classes) == 2 else len(classes)
            if not np.array_equal(classes, self.classes_) or shape != (outputs, X.shape[1]):
                raise ValueError(
                    "warm_start needs the classes and the number of columns of the last fit"
                )
        self.classes_ = classes
        return self._fit(X, y, sample_weight, not again, self.max_iter, self.tol)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "SGDClassifier":
        """Go on with one epoch over these rows, which may be new.

        With saga and svrg, whose tables belong to rows, it steps by adagrad, at its default rate.
        Sample weights count over all calls: 2 here is as much as twice the row there.

        The solution, the rates that were reached and what was learnt of the groups are kept.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            All labels that will ever come; needed in the first call.

        Returns
        -------
        self
        """
        fresh = not hasattr(self, "coef_")
        _check_partial_fit_first_call(self, classes)
        if len(self.classes_) < 2:
            raise ValueError(f"at least two classes are needed, got {len(self.classes_)} class")
        X, y = checked_rows(self, X, y, reset=fresh)
        check_classification_targets(y)
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs all rows at once; for partial_fit give a dict, '
                "of compute_class_weight, say"
            )
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds {unknown[0]!r}, which is not among the classes")
        return self._fit(X, y, sample_weight, fresh, 1, None, new_rows=True)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        fresh: bool,
        epochs: int,
        tol: float | None,
        new_rows: bool = False,
    ) -> "SGDClassifier":
        if self.multi_class == "softmax" and self.loss != "log_loss":
            raise ValueError(f'multi_class="softmax" is for log_loss, got loss={self.loss!r}')
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        numbers = np.searchsorted(self.classes_, y)
        if self.class_weight is not None:
            weights = (
                weights
                * compute_class_weight(self.class_weight, classes=self.classes_, y=y)[numbers]
            )
        common = {
            "l2": self.l2,
            "l1": self.l1,
            "sample_weight": weights,
            "normalise": not new_rows,
            "intercept": self.fit_intercept,
        }
        K = len(self.classes_)
        if K > 2 and self.multi_class == "softmax":
            makers, names = [lambda: (Softmax(X, numbers, classes=K, **common), numbers)], [""]
        else:
            kind = Logistic if self.loss == "log_loss" else SquaredHinge

            def maker(label: int) -> Any:
                side = numbers == label
                return lambda: (kind(X, side, **common), side)

            labels = [1] if K == 2 else range(K)
            makers = [maker(label) for label in labels]
            names = [""] if K == 2 else [f"class {label}, " for label in self.classes_]
        self._run(makers, names, fresh=fresh, epochs=epochs, tol=tol, new_rows=new_rows)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return scores of shape (n,) for two classes (above 0: the second), else (n, K)."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n, K); log_loss only.

        In one-vs-all those of the binary problems are divided by their sum.
        """
        return np.exp(self._log_probabilities(X))

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class; log_loss only."""
        return self._log_probabilities(X)

    def _log_probabilities(self, X: Any) -> NDArray[np.float64]:
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        # log softmax of the scores, or of the logarithms of the sigmoids
        logs = scores if self.multi_class == "softmax" else -np.logaddexp(0.0, -scores)
        logs = logs - logs.max(axis=1, keepdims=True)
        return np.asarray(logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)))
