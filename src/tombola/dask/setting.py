"""What holds for a whole fit of a linear model: the problem, and the constants of its solver."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.dask.overview import Overview, sketch
from tombola.solvers.dual.start import LONG
from tombola.solvers.gap import best_constant

__all__ = ["Beginning", "Setting", "begin", "make_setting"]

POINTS = 4096  # that stand for all targets of a regression


class Setting(NamedTuple):
    """What a task must know besides its rows; it is sent to every worker once.

    Attributes
    ----------
    kind : type
        The problem, for example `tombola.problems.Logistic`.
    options : dict
        Its parameters: alpha, l1_ratio, fit_intercept and those of the loss.
    n : int
        Rows of all partitions.
    parts : int
        Partitions that have rows.
    factor : float
        Sample weights are multiplied by this, which gives them the mean 1.
    classes : ndarray or None
        The labels, in order; None for a regression or an indicator matrix.
    class_weights : ndarray or None
        A weight for each class.
    outputs : int
        The number of problems: one, or one for each class or column of y.
    mean : ndarray of shape (d,)
        That rows are centred by, zeros if they are not.
    length, longest : float
        The mean squared length of rows, and that above which they count as long.
    seed : int
    draws : {"adaptive", "shuffled"}
    """

    kind: Any
    options: dict[str, Any]
    n: int
    parts: int
    factor: float
    classes: NDArray[Any] | None
    class_weights: NDArray[np.float64] | None
    outputs: int
    mean: NDArray[np.float64]
    length: float
    longest: float
    seed: int
    draws: str

    @property
    def l1(self) -> float:
        """The factor of |w|_1."""
        return float(self.options["alpha"] * self.options["l1_ratio"])

    @property
    def l2(self) -> float:
        """The factor of |w|^2 / 2."""
        return float(self.options["alpha"] * (1.0 - self.options["l1_ratio"]))

    @property
    def width(self) -> int:
        """The number of entries of a solution."""
        return int(self.mean.size) + bool(self.options["fit_intercept"])


def make_setting(
    overview: Overview,
    parts: int,
    kind: Any,
    options: dict[str, Any],
    *,
    classes: NDArray[Any] | None = None,
    class_weights: NDArray[np.float64] | None = None,
    outputs: int = 1,
    seed: int = 0,
    draws: str = "adaptive",
) -> Setting:
    """Return the setting of a fit of rows that were summed up."""
    by_label = np.ones(len(overview.labels)) if class_weights is None else class_weights
    total = float(by_label @ overview.masses)
    usual = float(by_label @ overview.usual)
    sums, squares = by_label @ overview.sums, float(by_label @ overview.squares)
    mean = np.zeros(overview.columns)
    if options["fit_intercept"] and options["l1_ratio"] == 0 and usual > 0:
        mean = sums / usual
    longest = LONG * overview.median if overview.median > 0 else math.inf
    length = max(squares - 2.0 * float(mean @ sums) + usual * float(mean @ mean), 0.0)
    if total > usual and math.isfinite(longest):
        length += (total - usual) * longest
    return Setting(
        kind=kind,
        options=options,
        n=overview.rows,
        parts=parts,
        factor=overview.rows / total,
        classes=classes,
        class_weights=class_weights,
        outputs=outputs,
        mean=mean,
        length=length / total,
        longest=longest,
        seed=seed,
        draws=draws,
    )


class Beginning(NamedTuple):
    """Where the fit of an output begins: at w = 0 and the best intercept."""

    intercept: float
    curvature: float  # the mean of s_i phi'' there; 1 where phi is not smooth


def begin(overview: Overview, setting: Setting) -> list[Beginning]:
    """Return where the fit of each output begins.

    For a regression, few points stand for all targets: the intercept is nearly the best one.
    """
    if setting.classes is None and not overview.positive.size:
        y, weights = sketch(overview.points, overview.shares, POINTS)
        return [_begin(setting, y, weights)]
    if setting.classes is None:
        masses, total = overview.positive, overview.masses.sum()
    else:
        by_class = np.ones(len(setting.classes))
        if setting.class_weights is not None:
            by_class = setting.class_weights
        masses = by_class * overview.masses
        total = masses.sum()
        masses = masses[1:] if len(masses) == 2 else masses
    return [
        _begin(setting, np.arange(2), np.array([max(total - mass, 0.0), mass])) for mass in masses
    ]


def _begin(setting: Setting, y: NDArray[Any], weights: NDArray[np.float64]) -> Beginning:
    problem = setting.kind(np.zeros((len(y), 1)), y, sample_weight=weights, **setting.options)
    intercept, _ = best_constant(problem)
    model, curvature = problem.model, 1.0
    if math.isfinite(problem.curvature):
        bends = [model.curve(item, intercept) for item in range(problem.n)]
        curvature = float(np.mean(model.weights * bends))
    return Beginning(intercept, curvature)
