"""What the linear models on Dask collections share: parameters, the fit, predictions."""

import math
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tombola.dask.checkpoint import Checkpoint, folder_at
from tombola.dask.collections import Blocks, blocks_of, check_columns, lazily
from tombola.dask.overview import Overview, look_at, merge
from tombola.dask.partition import Partition, check_targets, plain
from tombola.dask.progress import Bar
from tombola.dask.refinement import Refinement
from tombola.dask.rounds import Ascent
from tombola.dask.runners import make_runner
from tombola.dask.setting import begin, make_setting
from tombola.estimators.base import checks_parameters, draw_seeds

__all__ = ["DaskLinear", "Target"]

NO_TARGETS = "y must be a Dask array or series, got None"
DRAWS = {"auto": "adaptive", "shuffle": "shuffled"}


class Target(NamedTuple):
    """What y asks for.

    Attributes
    ----------
    labels : ndarray or None
        Those of outputs: classes, or columns of an indicator matrix; None for a regression.
    classes : ndarray or None
        The labels; None for a regression and for an indicator matrix.
    class_weights : ndarray or None
    outputs : int
        The number of problems.
    """

    labels: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    class_weights: NDArray[np.float64] | None = None
    outputs: int = 1


@dataclass(kw_only=True, eq=False, repr=False)
class DaskLinear(BaseEstimator):
    """A linear model of rows in partitions: `LinearClassifier` and `LinearRegressor`."""

    alpha: float = 1e-4
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    sampler: str = "auto"
    local_epochs: float = 5.0
    max_iter: int = 100
    tol: float = 1e-4
    random_state: Any = None
    verbose: int = 0
    client: Any = None
    checkpoint: Any = None
    checkpoint_every: int = 1

    numeric: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="left")],
        "fit_intercept": ["boolean"],
        "sampler": [StrOptions(set(DRAWS))],
        "local_epochs": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "client": "no_validation",  # type: ignore[dict-item]
        "checkpoint": "no_validation",  # type: ignore[dict-item]
        "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
    }

    # --- to be written by a model -----------------------------------------------------------------

    def _problem(self) -> tuple[Any, dict[str, Any]]:
        """Return the class of the problem, and its parameters."""
        raise NotImplementedError

    def _target(self, overview: Overview) -> Target:
        """Return what y asks for, or raise an error that says what is wrong with it."""
        raise NotImplementedError

    def _local(self) -> Any:
        """Return the estimator for data in memory, not fitted."""
        raise NotImplementedError

    # --- the fit ----------------------------------------------------------------------------------

    @checks_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model, at once.

        Parameters
        ----------
        X : Dask array or data frame, shape (n, d)
            Rows in partitions of NumPy arrays, of sparse matrices or of pandas frames. They are
            read once in a round: where they fit into the memory of the workers, ``X.persist()``
            keeps them there. Sizes of partitions may be unknown or differ.
        y : Dask array or series
            In the partitions of X.
        sample_weight : Dask array or series, optional
            A weight of 2 is the same as the row twice.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(NO_TARGETS)
        folder = None if self.checkpoint is None else folder_at(self.checkpoint)
        blocks = blocks_of(X, y, sample_weight)
        kind, options = self._problem()
        centre = self.fit_intercept and self.l1_ratio == 0
        runner = make_runner(blocks.parts, self.client)
        parts = runner.map(look_at, self.numeric, centre)
        overview = merge(parts)
        target = self._target(overview)
        setting = make_setting(
            overview,
            sum(bool(part.masses.sum() > 0) for part in parts),
            kind,
            options,
            classes=target.classes,
            class_weights=target.class_weights,
            outputs=target.outputs,
            seed=draw_seeds(self.random_state, 1)[0],
            draws=DRAWS[self.sampler],
        )
        fit: Ascent | Refinement
        beginnings = begin(overview, setting)
        if math.isfinite(kind.curvature):
            fit = Ascent(setting, beginnings, len(parts), runner, self.tol, self.local_epochs)
        else:
            fit = Refinement(setting, beginnings, runner, self.tol)
        fit.counts[0].loads += 1
        fit.counts[0].visits += overview.rows * target.outputs
        try:
            saved = None
            if folder is not None:
                sizes = [part.rows for part in parts]
                saved = Checkpoint(folder, fit, sizes, overview.mark)
            self._run(fit, saved)
        finally:
            runner.close()
        self._set_fitted(fit, target, blocks)
        return self

    def _run(self, fit: Ascent | Refinement, saved: Checkpoint | None) -> None:
        """Carry out rounds until all outputs are within the tolerance, or `max_iter`."""
        bar = Bar(self.tol) if self.verbose else None
        if saved is not None:
            saved.restore()
        done = not fit.active
        try:
            while not done and fit.progress.rounds < self.max_iter:
                done = fit.step()
                if bar is not None:
                    bar(fit.progress)
                if saved is not None and fit.progress.rounds % self.checkpoint_every == 0:
                    saved.save()
            if saved is not None and fit.progress.rounds % self.checkpoint_every:
                saved.save()  # not after the last certificate, which a round to come makes again
            if not done:
                done = fit.step(last=True)
        finally:
            if bar is not None:
                bar.close()
        if not done and self.tol > 0:
            warnings.warn(
                f"{type(self).__name__} has not converged in max_iter={self.max_iter} rounds "
                f"(relative duality gap {fit.progress.gap:.2g}, tol={self.tol:g}): allow more "
                "of them, or scale the columns of X",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _set_fitted(self, fit: Ascent | Refinement, target: Target, blocks: Blocks) -> None:
        """Set the attributes that end in an underscore."""
        progress, outputs, columns = fit.progress, fit.outputs, blocks.columns
        self.n_features_in_ = columns
        set_names(self, blocks.names)
        if target.labels is not None:
            self.classes_, self.multilabel_ = target.labels, target.classes is None
        solution = np.array([output.best for output in outputs])
        if self.numeric:
            solution = solution[0]
        self.coef_ = np.ascontiguousarray(solution[..., :columns])
        free = np.zeros(solution.shape[:-1])
        self.intercept_ = (solution[..., columns].copy() if self.fit_intercept else free)[()]
        gaps = np.array([output.relative_gap for output in outputs])
        self.dual_gap_ = float(gaps[0]) if len(gaps) == 1 else gaps
        self.n_iter_, self.progress_ = progress.rounds, progress

    # --- after the fit ----------------------------------------------------------------------------

    def to_local(self) -> Any:
        """Return the fitted estimator of `tombola.estimators`, for rows in memory."""
        check_is_fitted(self)
        model = self._local()
        names = ("coef_", "intercept_", "dual_gap_", "n_iter_", "n_features_in_")
        for name in (*names, "feature_names_in_", "classes_", "multilabel_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model.solver_, model.gauge_, model.t_ = "sdca", None, 0
        return model

    def _lazily(self, X: Any, method: str) -> Any:
        """Return a Dask array of what a method of the local estimator returns."""
        model = self.to_local()
        check_columns(X, model)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # blocks are plain arrays there
        like = np.asarray(getattr(model, method)(np.zeros((1, model.n_features_in_))))
        return lazily(X, Predict(model, method), like)


def set_names(model: Any, names: list[str] | None) -> None:
    """Set the names of the columns that a model was fitted to, where they have any."""
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


class Predict:
    """A method of a local estimator, as a function of blocks that may be empty."""

    def __init__(self, model: Any, method: str) -> None:
        self.model, self.method = model, method
        self.__name__ = method  # the name of the layer in Dask's graphs

    def __call__(self, block: Any) -> NDArray[Any]:
        """Return what the method returns for a block."""
        rows = plain(block)
        call = getattr(self.model, self.method)
        if rows.shape[0] == 0:
            return np.asarray(call(np.zeros((1, self.model.n_features_in_))))[:0]
        return np.asarray(call(rows))


class Moments(NamedTuple):
    """Sums for a score: weights, squared errors, and mean and squares of the targets."""

    weight: float
    errors: float
    mean: float
    squares: float

    def __add__(self, other: Any) -> "Moments":
        """Return the sums over both."""
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        away = other.mean - self.mean
        mean = self.mean + away * (other.weight / weight)
        cross = away * away * self.weight * other.weight / weight
        return Moments(
            weight, self.errors + other.errors, mean, self.squares + other.squares + cross
        )


def squared_errors(partition: Partition, number: int, predict: Predict) -> Moments:
    """Return the sums of a regression's score over a partition."""
    y = np.asarray(partition.y)
    weights = np.ones(len(y)) if partition.weights is None else partition.weights
    total = float(weights.sum())
    if total == 0.0:
        return Moments(0.0, 0.0, 0.0, 0.0)
    check_targets(y, number, numeric=True)
    mean = float(weights @ y) / total
    away = y - predict(partition.X)
    return Moments(total, float(weights @ away**2), mean, float(weights @ (y - mean) ** 2))


def hits(partition: Partition, number: int, predict: Predict) -> Moments:
    """Return the weight of a partition's rows, and of those that are predicted wrongly."""
    y = np.asarray(partition.y)
    weights = np.ones(len(y)) if partition.weights is None else partition.weights
    if not len(y):
        return Moments(0.0, 0.0, 0.0, 0.0)
    check_targets(y, number, numeric=False)
    predicted = predict(partition.X)
    if predicted.shape != y.shape:
        raise ValueError(
            f"partition {number}: y has shape {y.shape}, predictions have {predicted.shape}"
        )
    wrong = predicted != y
    wrong = wrong.any(axis=1) if wrong.ndim == 2 else wrong
    return Moments(float(weights.sum()), float(weights @ wrong), 0.0, 0.0)


def summed(model: Any, task: Any, X: Any, y: Any, sample_weight: Any, client: Any) -> Moments:
    """Return the sums of a score over all rows."""
    if y is None:
        raise ValueError(NO_TARGETS)
    local = model.to_local()
    check_columns(X, local)
    blocks = blocks_of(X, y, sample_weight)
    if hasattr(local, "feature_names_in_"):
        del local.feature_names_in_
    total = Moments(0.0, 0.0, 0.0, 0.0)
    for part in make_runner(blocks.parts, client).map(task, Predict(local, "predict")):
        total = total + part
    if not total.weight > 0:
        raise ValueError("there are no rows of positive weight to score")
    return total
