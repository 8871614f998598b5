"""Linear classifiers, fitted by draws of rows."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tombola.estimators.base import Part, checked_rows, checked_weights
from tombola.estimators.linear import LinearEstimator
from tombola.problems import Logistic, Softmax, SquaredHinge
from tombola.samplers import Sampler
from tombola.samplers.registry import NAMES

__all__ = ["SGDClassifier"]


def _gives_probabilities(estimator: Any) -> bool:
    if estimator.loss != "log_loss":
        raise AttributeError(f"there are no probabilities for loss={estimator.loss!r}")
    return True


@dataclass(eq=False, repr=False)
class SGDClassifier(ClassifierMixin, LinearEstimator):
    """Logistic regression or a linear support vector machine, by adaptive draws of rows.

        (1/n) sum_i s_i loss(x_i w + b, y_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    Rows are drawn more often where that allows larger or less noisy steps; importances keep
    every step unbiased.

    Parameters
    ----------
    loss : {"log_loss", "squared_hinge"}, default="log_loss"
    multi_class : {"ovr", "softmax"}, default="ovr"
        With more than two classes: a binary problem for each class, with its own sampler, or one
        problem for all of them (log_loss only).
    alpha : float, default=1e-4
        The strength of the penalty.
    l1_ratio : float, default=0.0
        The share of l1 in the penalty, from 0 (ridge) to 1 (lasso).
    fit_intercept : bool, default=True
    solver : {"saga", "svrg", "adagrad", "sgd"}, default="saga"
        saga and svrg converge without a tuned rate; adagrad is quicker to a rough solution.
    rate : float, optional
        By default 1 / (3 (max L / (n p) + l2)) for saga and svrg, with L the Lipschitz constant
        of the gradient of a row, p its probability and l2 = alpha (1 - l1_ratio); 0.3 for
        adagrad; 1 / (max L + l2) at first for sgd, falling as 1 / sqrt(t).
    batch_size : int, default=1
    max_iter : int, default=100
        Epochs, of n draws each.
    tol : float or None, default=1e-3
        saga and svrg stop when no coefficient has moved in an epoch by more than tol times the
        largest one; adagrad and sgd when, for 5 epochs, the objective as estimated from the draws
        has not fallen by tol relative to the best one. None: after max_iter epochs.
    sampler : str, Sampler or callable, default="auto"
        How rows are drawn. "auto" is what was fastest by the clock. With saga and svrg: half of
        the draws by L, half uniformly, which allows larger steps; all uniformly where no L is
        above twice the mean. With adagrad and sgd, and in `partial_fit`: "group-vrb", which is
        `GroupVRB` over the class labels (in one-vs-all over the two sides). Other names: "vrb"
        (`VRB`), "shuffle" (shuffled epochs; not recommended with saga and svrg), "uniform",
        "balanced" (all classes equally often). A sampler over the rows of X is left unchanged: a
        new one is made with its parameters and seed. A function (n, seed, groups) returns a
        sampler.
    class_weight : dict, "balanced" or None, default=None
        The weight of each class; it multiplies the sample weights of its rows.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` continues from the last solution, with the rates that were reached and what
        was learnt about the groups.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    coef_ : ndarray of shape (1, d) or (K, d)
    intercept_ : ndarray of shape (1,) or (K,)
    gauge_ : Gauge, or list of Gauge
        The worth of the sampling; in one-vs-all one for each class.
    n_iter_ : int
        Epochs run (one-vs-all: the most that a class took).
    t_ : int
        Draws, over all classes and calls of `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

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

    loss: str = "log_loss"
    _: KW_ONLY
    multi_class: str = "ovr"
    class_weight: Any = None

    samplers = NAMES

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions({"log_loss", "squared_hinge"})],
        "multi_class": [StrOptions({"ovr", "softmax"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
    }

    def _fit(self, X: Any, y: Any, weights: NDArray[np.float64], again: bool) -> None:
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, y has 1 class: {classes[0]}"
            )
        if again:
            shape = (1 if len(classes) == 2 else len(classes), X.shape[1])
            if not np.array_equal(classes, self.classes_) or self.coef_.shape != shape:
                raise ValueError(
                    "warm_start needs the classes and the number of columns of the last fit"
                )
        self.classes_: NDArray[Any] = classes
        parts = self.parts(X, y, weights, classes=classes)
        self._run(parts, by=self, fresh=not again, epochs=self.max_iter, tol=self.tol)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "SGDClassifier":
        """Continue with one epoch over these rows, which may be new.

        The solution, the rates that were reached and what was learnt about the groups are kept.
        With saga and svrg, whose tables belong to rows, it steps by adagrad at its default rate.
        Sample weights are not normalised: they count in the same unit over all calls.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            All labels that any call will have; needed in the first call.

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
                "for example from compute_class_weight"
            )
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds {unknown[0]!r}, which is not among the classes")
        weights = checked_weights(sample_weight, X)
        parts = self.parts(X, y, weights, classes=self.classes_, normalise=False)
        self._run(parts, by=self._for_new_rows(), fresh=fresh, epochs=1, tol=None)
        return self

    def parts(
        self,
        X: Any,
        y: Any,
        sample_weight: NDArray[np.float64] | None = None,
        *,
        classes: NDArray[Any] | None = None,
        normalise: bool = True,
    ) -> list[Part]:
        """Return the problems that `fit` solves: one, or one for each class.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`, already validated.
        classes : ndarray, optional
            All classes, sorted; by default those of y.
        normalise : bool, default=True
            Whether sample weights are divided by their mean.
        """
        if self.multi_class == "softmax" and self.loss != "log_loss":
            raise ValueError(f'multi_class="softmax" is for log_loss, got loss={self.loss!r}')
        classes = np.unique(y) if classes is None else classes
        numbers = np.searchsorted(classes, y)
        weights = sample_weight
        if self.class_weight is not None:
            by_class = compute_class_weight(self.class_weight, classes=classes, y=y)[numbers]
            weights = by_class if weights is None else weights * by_class
        settings = {name: getattr(self, name) for name in ("alpha", "l1_ratio", "fit_intercept")}
        settings |= {"sample_weight": weights, "normalise": normalise}
        K = len(classes)
        if K > 2 and self.multi_class == "softmax":
            return [Part(None, partial(Softmax, X, numbers, n_classes=K, **settings), numbers)]
        kind = Logistic if self.loss == "log_loss" else SquaredHinge
        sides = {None: numbers == 1} if K == 2 else {c: numbers == k for k, c in enumerate(classes)}
        return [Part(c, partial(kind, X, side, **settings), side) for c, side in sides.items()]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return scores of shape (n,) for two classes (above 0: the second), else (n, K)."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n, K); log_loss only.

        In one-vs-all, the probabilities of the binary problems are divided by their sum.
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
