"""Linear classifiers of rows in partitions."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from tombola import estimators
from tombola.dask.linear_estimator import DaskLinear, Target, mean_errors
from tombola.dask.overview import Overview
from tombola.estimators.parameters import (
    ClassificationLoss,
    balanced,
    check_ones,
    gives_probabilities,
)

__all__ = ["LinearClassifier"]


@dataclass(eq=False, repr=False)
class LinearClassifier(ClassifierMixin, ClassificationLoss, DaskLinear):
    """Logistic regression or a linear support vector machine, on a Dask array or data frame.

        (1/n) sum_i s_i loss(x_i w + b, y_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    In a round every partition evaluates the present solution and takes steps of dual coordinate
    ascent on its own rows, drawn by how much they matter; the driver adds up the results. With the
    hinge loss it returns slopes and a few rows near the kink instead, and the driver takes the
    steps. Data is read once in a round, and the duality gap says when to stop. The model is the
    same on any number of workers, and a worker that dies costs a round or two, or none.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"}, default="log_loss"
        With the hinge loss, some rows of X are sent to the driver.
    alpha, C, l1_ratio, class_weight, fit_intercept, random_state
        As in `tombola.estimators.LinearClassifier`; alpha is above 0.
    sampler : {"auto", "shuffle"}, default="auto"
        How the rows of steps are drawn: half of them by their dual residuals, or all in shuffled
        order.
    local_epochs : float, default=5.0
        Draws of a partition in a round, in units of its rows. More of them save rounds. Not used
        with the hinge loss.
    max_iter : int, default=100
        The largest number of rounds.
    tol : float, default=1e-4
        The relative duality gap to stop at: the objective is then above its minimum by at most tol
        times its value at w = 0 with the best intercept.
    verbose : int, default=0
        Above 0, a bar shows round, gap, loads of the data and bytes moved.
    multi_class : "ovr"
        Not a parameter: with more than two classes, there is a binary problem for each class
        against the rest, also for log_loss, unlike in memory. A round works on all of them with
        one load of the data.
    client : distributed.Client, optional
        By default the current one; without any, Dask's threads on this machine, where every thread
        has one partition in memory at a time.
    checkpoint : path, optional
        A folder; a fit that finds its own checkpoint there goes on from it.
    checkpoint_every : int, default=1
        Rounds between two checkpoints.

    Attributes
    ----------
    classes_, coef_, intercept_, dual_gap_, multilabel_, n_features_in_, feature_names_in_
        As in `tombola.estimators.LinearClassifier`.
    n_iter_ : int
        Rounds.
    progress_ : Progress
        Rounds, gap, loads of the data, passes over it, bytes moved, and restarts of partitions.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(2000, random_state=0)
    >>> X, y = da.from_array(X, chunks=(500, 20)), da.from_array(y, chunks=500)
    >>> model = LinearClassifier(random_state=0).fit(X, y)
    >>> model.dual_gap_ <= 1e-4, bool(model.score(X, y) > 0.8)
    (True, True)
    >>> model.predict(X)                                   # lazy
    dask.array<predict, shape=(2000,), dtype=int64, chunksize=(500,), chunktype=numpy.ndarray>
    >>> type(model.to_local()).__module__
    'tombola.estimators.linear_classifier'
    """

    local: ClassVar[Any] = estimators.LinearClassifier
    multi_class: ClassVar[str] = "ovr"

    def _target(self, overview: Overview) -> Target:
        if overview.positive.size > 0:
            return self._columns(overview)
        classes = overview.labels
        if len(classes) < 2:
            raise ValueError(
                f"LinearClassifier needs at least two classes, y has 1 class: {classes[0]}"
            )
        weights = None
        if self.class_weight == "balanced":
            weights = balanced(overview.masses)
        elif self.class_weight is not None:
            weights = self._class_weights(overview)
        return Target(classes, classes, weights, 1 if len(classes) == 2 else len(classes))

    def to_local(self) -> Any:
        """Return the fitted estimator of `tombola.estimators`, for rows in memory."""
        return super().to_local().set_params(multi_class=self.multi_class)

    def _class_weights(self, overview: Overview) -> NDArray[np.float64]:
        """Return the weight of each class, or raise an error that names one that is wrong."""
        labels = overview.labels.tolist()
        for label, weight in self.class_weight.items():
            if label not in labels:
                raise ValueError(f"class_weight names {label!r}, which is not in y")
            if not (isinstance(weight, Real) and 0.0 <= float(weight) < math.inf):
                raise ValueError(f"class_weight[{label!r}] is {weight!r}, not a number from 0 on")
        weights = np.array([self.class_weight.get(label, 1.0) for label in labels], float)
        if not weights @ overview.masses > 0:
            raise ValueError(f"class_weight={self.class_weight} leaves no row of positive weight")
        return weights

    def _columns(self, overview: Overview) -> Target:
        """Return what an indicator matrix asks for."""
        self._check_indicators()
        check_ones(overview.positive / overview.masses.sum())
        count = overview.positive.size
        return Target(np.arange(count), outputs=count)

    def decision_function(self, X: Any) -> Any:
        """Return scores of shape (n,) for two classes (above 0: the second), else (n, K); lazy."""
        return self._lazily(X, "decision_function")

    def predict(self, X: Any) -> Any:
        """Return the class of each row; for an indicator matrix y, one of shape (n, K); lazy."""
        return self._lazily(X, "predict")

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, shape (n, K); log_loss only; lazy."""
        return self._lazily(X, "predict_proba")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows that are predicted rightly; computed at once."""
        return 1.0 - mean_errors(self, X, y, sample_weight)[0]
