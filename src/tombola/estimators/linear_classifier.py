"""Linear classifiers, fitted by draws of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import (
    _check_partial_fit_first_call,
    check_classification_targets,
    is_multilabel,
)
from sklearn.utils.validation import check_is_fitted

from tombola.estimators.base import Part, checked_rows, checked_weights, checks_parameters
from tombola.estimators.linear_estimator import LinearEstimator, of_descents
from tombola.estimators.parameters import (
    ClassificationLoss,
    balanced,
    check_ones,
    gives_probabilities,
    names_ours,
    one_of,
    parameter,
)
from tombola.problems import Softmax
from tombola.samplers import Sampler
from tombola.samplers.registry import NAMES

__all__ = ["LinearClassifier"]


@names_ours
@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(ClassifierMixin, ClassificationLoss, LinearEstimator):
    """Logistic regression or a linear support vector machine, by adaptive draws of rows.

        (1/n) sum_i s_i loss(x_i w + b, y_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    By default it is solved by Newton's method, on samples where rows are many, or by dual
    coordinate ascent where rows are long. Rows that matter most are drawn most often, there is no
    rate to choose, and the duality gap says when to stop.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"}, default="log_loss"
    multi_class : {"auto", "ovr", "softmax"}, default="auto"
        With more than two classes: a binary problem for each class against the rest, or one problem
        for all of them (log_loss only). "auto" is softmax for log_loss, unless y is an indicator
        matrix or solver="sdca", and one-vs-rest otherwise.
    class_weight : dict, "balanced" or None, default=None
        The weight of each class; it multiplies the sample weights of its rows.
    alpha : float, optional
        The strength of the penalty, by default 1 / n: the model of scikit-learn's
        `LogisticRegression`. With weights of rows or classes, n is their sum.
    C : float, optional
        scikit-learn's name of the penalty, alpha = 1 / (C n); give one of the two.
    l1_ratio : float, default=0.0
        The share of l1 in the penalty, from 0 (ridge) to 1 (lasso).
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    solver : {"auto", "newton", "sdca", "saga", "svrg", "adagrad", "sgd"}, default="auto"
        "auto" is newton (Newton's method, on samples of rows if they are many) for smooth losses
        with l1_ratio=0: if there are 30 rows or more for each column (250 if they are sparse), if
        there are few of both, if alpha is 0, or if sdca would be slow, as with columns in large
        units. Otherwise it is
        sdca (dual coordinate ascent), which needs alpha above 0, l1_ratio below 1, and not softmax.
        With l1_ratio=1 `fit` goes by columns in place of rows (`tombola.solvers.WorkingSets`).
        Elsewhere it is saga, or adagrad for the hinge loss. All but adagrad and sgd converge
        without a tuned rate; these two can go on with new rows by `partial_fit`.
    sampler : str, Sampler or callable, default="auto"
        How rows are drawn. "auto" is the solver's own rule. newton and sdca: half in shuffled
        order, half by how much each row matters (`tombola.Latest`), which is its curvature
        and slope for newton and its dual residual for sdca. saga and svrg: half by
        the curvature of their loss, which allows larger steps. adagrad and sgd: "group-vrb", which
        is `GroupVRB` over the class labels (one-vs-rest: the two sides). Other names: "vrb"
        (`VRB`), "epoch-vrb" (`EpochVRB`, shuffled epochs whose items are chosen), "shuffle"
        (shuffled epochs), "uniform", "balanced" (all classes equally often). saga and svrg need
        independent draws, so they refuse "epoch-vrb" and "shuffle". A sampler over the rows of X
        is left unchanged: a new one is made with its parameters and seed. A function (n, seed,
        groups) returns a sampler.
    max_iter : int, default=100
        Epochs: of n draws each, for newton one pass over all rows and one sample.
    tol : float or None, default=1e-4
        The relative duality gap at which newton, sdca, saga and svrg stop: the objective is then
        above its minimum by at most tol times its value at w = 0 with the best intercept. (If
        alpha is 0 there is no such gap: newton stops when a step is expected to gain less than
        half of that, saga and svrg when no coefficient has moved in an epoch by more than tol times
        the largest one.) adagrad and sgd stop when, for 5 epochs, the
        objective as estimated from the draws has not fallen by tol relative to the best one. None
        or 0: after max_iter epochs.
    n_jobs : int or None, default=None
        Threads, over classes; -1 is all cores. The model does not depend on it.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` continues from the last solution; adagrad and sgd continue with the rates
        that were reached and with what was learnt about the groups.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.
    rate : float, optional
        For adagrad and sgd: by default 0.3 for adagrad; for sgd 1 / (max L + alpha) at first, with
        L the curvature of the loss of a row, falling as 1 / sqrt(t).
    batch_size : int, default=1
        For adagrad and sgd.
    average : bool, default=False
        For adagrad and sgd: whether the solution is the average of the iterates.
    early_stopping : bool, default=False
        For adagrad and sgd: whether to hold rows out, stop when the accuracy on them has not risen
        by tol for `n_iter_no_change` epochs, and keep the best solution. One-vs-rest: for each
        class by itself.
    validation_fraction : float, default=0.1
        The share of rows held out for early stopping, the same of each class.
    n_iter_no_change : int, default=5
        For early stopping.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels; for an indicator matrix the numbers of its columns.
    coef_ : ndarray of shape (1, d) or (K, d)
    intercept_ : ndarray of shape (1,) or (K,)
    dual_gap_ : float, or ndarray of shape (K,)
        The relative duality gap that was reached, as in `tol`; one-vs-rest: of each class. NaN for
        adagrad and sgd.
    solver_ : str
        The solver that was used.
    multilabel_ : bool
        Whether y was an indicator matrix.
    gauge_ : Gauge, or list of Gauge
        The worth of the sampling for estimates of gradients, which sdca does not make; one-vs-rest:
        for each class. None where no rows were drawn.
    n_iter_ : int
        Epochs run (one-vs-rest: the most that a class took).
    t_ : int
        Draws, over all classes and calls of `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Notes
    -----
    y may be an indicator matrix of 0 and 1, dense or sparse, with a column for each label: each
    column is a problem of its own, and so is its probability. A column that is 0 or 1 in every row
    is an error: there is nothing to learn from it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, weights=[0.97], random_state=0)
    >>> model = LinearClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.97, model.solver_, model.dual_gap_ <= 1e-4
    (True, 'newton', True)
    >>> rough = LinearClassifier(solver="adagrad", random_state=0).fit(X, y)
    >>> rough.gauge_.second_moment_ratio < 0.5          # what adapting saves
    True
    """

    multi_class: str = parameter("auto", one_of("auto", "ovr", "softmax"))
    n_jobs: int | None = parameter(None, Integral, None)
    sampler: Any = parameter("auto", one_of(*NAMES), Sampler, callable)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.multi_class != "softmax"
        return tags

    def _targets(self, y: Any, columns: int, again: bool) -> tuple[Any, Callable[..., list[Part]]]:
        y = checked_labels(y)
        if y.ndim == 2:
            check_ones(y.mean(axis=0))
        classes = np.arange(y.shape[1]) if y.ndim == 2 else distinct(y)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, y has 1 class: {classes[0]}"
            )
        if again:
            one = len(classes) == 2 and y.ndim == 1
            shape = (1 if one else len(classes), columns)
            known = getattr(self, "classes_", classes)
            if not np.array_equal(classes, known) or np.shape(self.coef_) != shape:
                raise ValueError(
                    "warm_start needs the classes and the number of columns of the last fit"
                )
        self.classes_: NDArray[Any] = classes
        self.multilabel_ = y.ndim == 2
        return y, partial(self.parts, classes=classes)

    @of_descents
    @checks_parameters
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "LinearClassifier":
        """Continue with one epoch over these rows, which may be new; for adagrad and sgd.

        The solution, the rates that were reached and what was learnt about the groups are kept.
        Sample weights are not normalised: they count in the same unit over all calls.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, optional
            All labels that any call will have; needed in the first call, unless y is an indicator
            matrix.
        """
        self._check_partial_fit()
        fresh = not hasattr(self, "coef_")
        X, y = checked_rows(self, X, y, reset=fresh, multi_output=True)
        y = checked_labels(y)
        if fresh:
            self.multilabel_ = y.ndim == 2
            classes = np.arange(y.shape[1]) if self.multilabel_ else classes
        _check_partial_fit_first_call(self, classes)
        if len(self.classes_) < 2:
            raise ValueError(f"at least two classes are needed, got {len(self.classes_)} class")
        if y.shape[1:] != (len(self.classes_),) * self.multilabel_:
            raise ValueError(f"y has shape {y.shape}, which is not that of the first call")
        unknown = np.setdiff1d(y, np.arange(2) if self.multilabel_ else self.classes_)
        if len(unknown):
            raise ValueError(f"y holds {unknown[0]!r}, which is not among the classes")
        weights = checked_weights(sample_weight, X)
        parts = self.parts(X, y, weights, classes=self.classes_, normalise=False)
        self._run(parts, fresh=fresh, epochs=1)
        return self

    def _check_partial_fit(self) -> None:
        super()._check_partial_fit()
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" needs all rows at once; for partial_fit give a dict, '
                "for example from compute_class_weight"
            )

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
            As in `fit`, already validated; an indicator matrix is one of booleans.
        classes : ndarray, optional
            All classes, sorted; by default those of y.
        normalise : bool, default=True
            Whether sample weights are divided by their mean.
        """
        if self.multi_class == "softmax" and self.loss != "log_loss":
            raise ValueError(f'multi_class="softmax" is for log_loss, got loss={self.loss!r}')
        if y.ndim == 2:
            self._check_indicators()
            make = self._maker(X, sample_weight, normalise)
            return [Part(k, make(side), side) for k, side in enumerate(np.ascontiguousarray(y.T))]
        classes = distinct(y) if classes is None else classes
        K = len(classes)
        numbers = np.searchsorted(classes, y) if K > 2 else (y == classes[-1]).astype(np.int64)
        if self.class_weight == "balanced":
            factors = balanced(np.bincount(numbers, sample_weight, K))
        elif self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=classes, y=y)
        if self.class_weight is not None:
            by_class = factors[numbers]
            sample_weight = by_class if sample_weight is None else sample_weight * by_class
        make = self._maker(X, sample_weight, normalise)
        if K > 2 and self._shares_problem():
            return [Part(None, make(numbers, Softmax, n_classes=K), numbers)]
        sides = {None: numbers == 1} if K == 2 else {c: numbers == k for k, c in enumerate(classes)}
        return [Part(c, make(side), side) for c, side in sides.items()]

    def _shares_problem(self) -> bool:
        """Return whether labels of more than two classes are one problem, softmax."""
        if self.multi_class != "auto":
            return self.multi_class == "softmax"
        return self.loss == "log_loss" and self.solver != "sdca"

    def _check_indicators(self) -> None:
        if self.multi_class == "softmax":
            raise ValueError(
                'multi_class="softmax" needs one label for each row, y is an indicator matrix: use '
                'multi_class="ovr"'
            )
        super()._check_indicators()

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return scores of shape (n,) for two classes (above 0: the second), else (n, K)."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row; for an indicator matrix y, one of shape (n, K)."""
        scores = self.decision_function(X)
        if self.multilabel_:
            return (scores > 0).astype(np.int64)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n, K); log_loss only.

        In one-vs-rest, the probabilities of the binary problems are divided by their sum; for an
        indicator matrix y they are independent.
        """
        return np.exp(self._log_probabilities(X))

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each class; log_loss only."""
        return self._log_probabilities(X)

    def _log_probabilities(self, X: Any) -> NDArray[np.float64]:
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        # log softmax of the scores, or of the logarithms of the sigmoids
        softmax = self._shares_problem() and not self.multilabel_
        logs = scores if softmax else -np.logaddexp(0.0, -scores)
        if self.multilabel_:
            return np.asarray(logs)
        logs = logs - logs.max(axis=1, keepdims=True)
        return np.asarray(logs - np.log(np.exp(logs).sum(axis=1, keepdims=True)))


def distinct(y: NDArray[Any]) -> NDArray[Any]:
    """Return what `numpy.unique` does; without sorting if there are two classes of numbers."""
    if y.dtype.kind in "biu" and y.size > 0:
        ends = np.array([y.min(), y.max()])
        if ((y == ends[0]) | (y == ends[1])).all():
            return np.unique(ends)
    return np.unique(y)


def checked_labels(y: Any) -> NDArray[Any]:
    """Return labels of shape (n,), or an indicator matrix as booleans of shape (n, K)."""
    if y.ndim == 1 and y.dtype.kind in "biu" and 2 * distinct(y).size <= y.size:
        return np.asarray(y)  # labels, without a doubt
    if not is_multilabel(y):
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return np.asarray(y)
    dense = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    wrong = (dense != 0) & (dense != 1)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"y[{row}, {column}] is {dense[row, column]}: an indicator matrix holds 0 and 1"
        )
    return np.asarray(dense == 1)
