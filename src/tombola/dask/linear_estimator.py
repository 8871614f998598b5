"""What the linear models on Dask collections share: parameters, the fit, and scores."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tombola.dask.base import DaskEstimator, Predict, set_names
from tombola.dask.checkpoint import Checkpoint, folder_at
from tombola.dask.collections import Blocks, blocks_of
from tombola.dask.fit import Bar
from tombola.dask.overview import Overview, begin, look_at, make_setting, merge
from tombola.dask.partition import Partition, check_targets
from tombola.dask.refinement import Refinement
from tombola.dask.rounds import Ascent
from tombola.dask.runners import make_runner
from tombola.estimators.base import checks_parameters, draw_seeds
from tombola.estimators.parameters import (
    COUNT,
    FROM_0,
    POSITIVE,
    LinearParameters,
    one_of,
    parameter,
)
from tombola.solvers.choice import has_kinks
from tombola.state import Floats

__all__ = ["DaskLinear", "Target"]

NO_TARGETS = "{} requires y to be passed, but the target y is None"


class Target(NamedTuple):
    """What y asks for."""

    labels: NDArray[Any] | None = None  # classes, or the numbers of columns of an indicator matrix
    classes: NDArray[Any] | None = None  # None for an indicator matrix
    class_weights: Floats | None = None
    outputs: int = 1  # the number of problems


@dataclass(kw_only=True, eq=False, repr=False)
class DaskLinear(LinearParameters, DaskEstimator):
    """A linear model of rows in partitions: `LinearClassifier` and `LinearRegressor`."""

    alpha: float | None = parameter(None, POSITIVE, None)  # for a certificate by dual variables
    tol: float = parameter(1e-4, FROM_0)
    sampler: str = parameter("auto", one_of("auto", "shuffle"))
    local_epochs: float = parameter(5.0, POSITIVE)
    max_iter: int = parameter(100, COUNT)
    verbose: int = parameter(0, "verbose")
    checkpoint: Any = parameter(None)
    checkpoint_every: int = parameter(1, COUNT)

    numeric: ClassVar[bool] = False
    learnt: ClassVar[tuple[str, ...]] = (
        "coef_", "intercept_", "dual_gap_", "n_iter_", "classes_", "multilabel_",
    )  # fmt: skip

    def _target(self, overview: Overview) -> Target:
        """Return what y asks for, or raise an error that says what is wrong with it."""
        raise NotImplementedError

    @checks_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model, at once; return self.

        Parameters
        ----------
        X : Dask array or data frame, shape (n, d)
            Rows in partitions of NumPy arrays, of sparse matrices or of pandas frames. They are
            read once in a round: if they fit into the memory of the workers, ``X.persist()``
            keeps them there. Sizes of partitions may be unknown or differ. An array, a sparse
            matrix or a data frame in memory is one partition.
        y : Dask array or series, or one in memory
            In the partitions of X.
        sample_weight : as y, optional
            A weight of 2 is the same as the row twice.
        """
        if y is None:
            raise ValueError(NO_TARGETS.format(type(self).__name__))
        folder = None if self.checkpoint is None else folder_at(self.checkpoint)
        blocks = blocks_of(X, y, sample_weight)
        centre = self.fit_intercept and self.l1_ratio == 0
        runner = make_runner(blocks.parts, self.client)
        parts = runner.map(look_at, self.numeric, centre)
        overview = merge(parts)
        target = self._target(overview)
        kind, options = self._problem(overview.mass(target.class_weights))
        setting = make_setting(
            overview, sum(bool(part.masses.sum() > 0) for part in parts), kind, options,
            classes=target.classes, class_weights=target.class_weights, outputs=target.outputs,
            seed=draw_seeds(self.random_state, 1)[0], sampler=self.sampler,
        )  # fmt: skip
        fit: Ascent | Refinement
        beginnings = begin(overview, setting)
        if has_kinks(kind):
            fit = Refinement(setting, beginnings, runner, self.tol)
        else:
            fit = Ascent(setting, beginnings, len(parts), runner, self.tol, self.local_epochs)
        fit.counts[0].loads += 1
        fit.counts[0].visits += overview.rows * target.outputs
        try:
            sizes = [part.rows for part in parts]
            own = (fit, sizes, overview.mark)
            self._run(fit, None if folder is None else Checkpoint(folder, *own))
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
        progress, outputs = fit.progress, fit.outputs
        self.n_features_in_ = blocks.columns
        set_names(self, blocks.names)
        if target.labels is not None:
            self.classes_, self.multilabel_ = target.labels, target.classes is None
        self._set_solution(np.array([output.best for output in outputs]), blocks.dtype)
        gaps = np.array([output.relative_gap for output in outputs])
        self.dual_gap_ = float(gaps[0]) if len(gaps) == 1 else gaps
        self.n_iter_, self.progress_ = progress.rounds, progress

    def to_local(self) -> Any:
        """Return the fitted estimator of `tombola.estimators`, for rows in memory."""
        model = super().to_local()
        model.solver_, model.gauge_, model.t_ = "sdca", None, 0
        return model


def errors_of(
    partition: Partition, number: int, predict: Predict, numeric: bool
) -> tuple[float, ...]:
    """Return sums over a partition: weights, squared errors, and mean and squares of the targets.

    For classes an error is 1, and targets count as 0.
    """
    y, weights = np.asarray(partition.y), partition.weights
    total = weights.sum()
    if total == 0.0:
        return 0.0, 0.0, 0.0, 0.0
    check_targets(y, number, numeric)
    predicted = predict(partition.X)
    if predicted.shape != y.shape:
        raise ValueError(
            f"partition {number}: y has shape {y.shape}, predictions have {predicted.shape}"
        )
    if not numeric:
        wrong = (predicted != y).reshape(y.shape[0], -1).any(axis=1)
        return total, weights @ wrong, 0.0, 0.0
    mean = weights @ y / total
    return total, weights @ (y - predicted) ** 2, mean, weights @ (y - mean) ** 2


def mean_errors(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    """Return the mean squared error over all rows, and the variance of the targets."""
    if y is None:
        raise ValueError(NO_TARGETS.format(type(model).__name__))
    predict = model._predictor(X, "predict")
    blocks = blocks_of(X, y, sample_weight)
    found = make_runner(blocks.parts, model.client).map(errors_of, predict, model.numeric)
    weights, errors, means, squares = np.array(found).T
    total = weights.sum()
    if not total > 0:
        raise ValueError("there are no rows of positive weight to score")
    around = squares.sum() + weights @ (means - weights @ means / total) ** 2
    return float(errors.sum() / total), float(around / total)
