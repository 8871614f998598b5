"""The first load of the data: what a fit of a linear model must know of all rows before it begins.

Every partition is summed up by numbers that do not grow with its rows (`look_at`), and the driver
merges the sums (`merge`). What tasks must know besides their rows (`Setting`) and where the fit
begins (`begin`) follow from them.
"""

import hashlib
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tombola.dask.partition import Partition, check_targets, check_total, rows_of
from tombola.problems.rows import squared_norms
from tombola.solvers.choice import has_kinks
from tombola.solvers.dual.start import LONG, longest_usual
from tombola.solvers.gap import ROUNDING, best_constant
from tombola.state import Floats

__all__ = [
    "Beginning",
    "Overview",
    "Setting",
    "begin",
    "look_at",
    "lower_bound",
    "make_setting",
    "merge",
]

POINTS = 1024  # that stand for the targets of a partition in a regression
ALL_POINTS = 4096  # that stand for all of them
LITTLE = 1e-7  # of alpha: the l2 of steps, for l1 alone


class Overview(NamedTuple):
    """Sums over rows; those with L in their shape are apart for every label."""

    rows: int
    columns: int
    labels: NDArray[Any]  # (L,): in order; one, 0, for a regression or an indicator matrix
    masses: Floats  # (L,): the sums of weights
    usual: Floats  # (L,): the same of rows that are not long
    squares: Floats  # (L,): of those, the sums of weights times |x|^2
    sums: Floats  # (L, d): of those, the sums of weights times x
    median: float  # of the squared lengths, around the mean if rows are centred
    positive: Floats  # (K,): the weight of the ones in columns of an indicator matrix; else empty
    points: Floats  # targets of a regression, else empty
    shares: Floats  # the weight that each of them stands for
    mark: str  # a hash of targets, weights and lengths of all rows, and of their sums

    def mass(self, class_weights: Floats | None) -> float:
        """Return the sum of the weights of all rows."""
        return float(self.masses.sum() if class_weights is None else class_weights @ self.masses)


def look_at(partition: Partition, number: int, numeric: bool, centre: bool) -> Overview:
    """Sum up a partition, for a regression if `numeric`, and for centred rows if `centre`."""
    n, d = partition.X.shape
    y, weights = np.zeros(n) if partition.y is None else partition.y, partition.weights
    several = y.ndim == 2
    if n:
        check_targets(y, number, numeric)
    labels, codes = np.zeros(1), np.zeros(n, dtype=np.int64)
    if not numeric and not several:
        labels = sorted_labels(y, f"partition {number} of y")
        codes = np.searchsorted(labels, y)
    L = len(labels)
    empty = np.empty(0)
    lengths = squared_norms(rows_of(partition, number)) if n else empty
    shares = weights * (lengths <= longest_usual(lengths, weights))
    by_label = sparse.csr_matrix((shares, (codes, np.arange(n))), shape=(L, n))
    sums = by_label @ partition.X
    sums = np.asarray(sums.toarray() if sparse.issparse(sums) else sums, dtype=np.float64)
    around = lengths
    if centre and shares.any():
        mean = sums.sum(axis=0) / shares.sum()
        products = np.asarray(partition.X @ mean, dtype=np.float64)
        around = np.maximum(lengths - 2.0 * products + mean @ mean, 0.0)
    present = weights > 0
    points, masses = sketch(y, weights) if numeric else (empty, empty)
    return Overview(
        rows=n,
        columns=d,
        labels=labels,
        masses=sums_of(codes, weights, L),
        usual=sums_of(codes, shares, L),
        squares=sums_of(codes, shares * lengths, L),
        sums=sums,
        median=float(np.median(around[present])) if present.any() else 0.0,
        positive=weights @ (y > 0) if several else empty,
        points=points,
        shares=masses,
        mark=mark_of(labels, y if numeric or several else codes, weights, lengths, sums),
    )


def mark_of(*parts: NDArray[Any]) -> str:
    """Return a hash of arrays, the same in every process."""
    digest = hashlib.sha256()
    for part in parts:
        plain = part.dtype != object  # the bytes of objects are addresses
        digest.update(part.tobytes() if plain else repr(part.tolist()).encode())
    return digest.hexdigest()


def sorted_labels(y: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the labels that occur, in order."""
    try:
        return np.unique(y)
    except TypeError:
        raise TypeError(f"{name} has labels of several types, which have no order") from None


def sums_of(codes: Any, values: Any, count: int) -> Floats:
    """Return the sum of the values of each code."""
    return np.asarray(np.bincount(codes, values, count), dtype=np.float64)


def sketch(y: Floats, weights: Floats, points: int = POINTS) -> tuple[Floats, Floats]:
    """Return few targets with weights that stand for many: means of neighbours, in order."""
    order = np.argsort(y, kind="stable")
    y, weights = np.asarray(y, dtype=np.float64)[order], weights[order]
    if y.size > points:
        starts = np.arange(points) * y.size // points
        masses = np.add.reduceat(weights, starts)
        sums = np.add.reduceat(weights * y, starts)
        y, weights = sums[masses > 0] / masses[masses > 0], masses[masses > 0]
    return y[weights > 0], weights[weights > 0]


def merge(overviews: list[Overview]) -> Overview:
    """Return the overview of all partitions; the median is the one of their medians."""
    columns = max((o.columns for o in overviews), default=0)
    for k, o in enumerate(overviews):
        if o.columns != columns:
            raise ValueError(
                f"partition {k} has {o.columns} columns, others have {columns}: all must have the "
                "same"
            )
    some = [o for o in overviews if o.rows]
    if not some:
        raise ValueError("X has no rows")
    check_total([o.masses.sum() for o in some])
    numbers = {o.labels.dtype.kind in "biuf" for o in some}
    kind = None if len(numbers) == 1 else object  # or numbers would become text
    labels = sorted_labels(np.concatenate([o.labels for o in some], dtype=kind), "y")
    masses, usual, squares = np.zeros((3, len(labels)))
    sums = np.zeros((len(labels), columns))
    for o in some:
        at = np.searchsorted(labels, o.labels)
        masses[at] += o.masses
        usual[at] += o.usual
        squares[at] += o.squares
        sums[at] += o.sums
    medians = np.array([o.median for o in some])
    heavy = np.array([o.masses.sum() for o in some])
    order = np.argsort(medians, kind="stable")
    middle = np.searchsorted(np.cumsum(heavy[order]), 0.5 * heavy.sum())
    return Overview(
        rows=sum(o.rows for o in some),
        columns=columns,
        labels=labels,
        masses=masses,
        usual=usual,
        squares=squares,
        sums=sums,
        median=float(medians[order][min(middle, len(some) - 1)]),
        positive=np.sum([o.positive for o in some], axis=0),
        points=np.concatenate([o.points for o in some]),
        shares=np.concatenate([o.shares for o in some]),
        mark=" ".join(o.mark for o in some),
    )


class Setting(NamedTuple):
    """What a task must know besides its rows; it is sent to every worker once."""

    kind: Any  # of the problem, for example `tombola.problems.Logistic`
    options: dict[str, Any]  # alpha, l1_ratio, fit_intercept and those of the loss
    n: int  # rows of all partitions
    parts: int  # partitions that have rows
    factor: float  # of sample weights, which gives them the mean 1
    classes: NDArray[Any] | None  # in order; None for a regression or an indicator matrix
    class_weights: Floats | None
    outputs: int  # problems: one, or one for each class or column of y
    mean: Floats  # (d,): that rows are centred by, zeros if they are not
    length: float  # the mean squared length of rows
    longest: float  # the squared length above which rows count as long
    seed: int
    sampler: str  # how steps draw rows: see `tombola.dask.local.take_steps`

    @property
    def l1(self) -> float:
        """The factor of |w|_1."""
        return float(self.options["alpha"] * self.options["l1_ratio"])

    @property
    def l2(self) -> float:
        """The factor of |w|^2 / 2."""
        return float(self.options["alpha"] * (1.0 - self.options["l1_ratio"]))

    @property
    def softness(self) -> float:
        """The l2 that steps go by: for l1 alone a little of it, though bounds are without."""
        return self.l2 or LITTLE * float(self.options["alpha"])

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
    class_weights: Floats | None = None,
    outputs: int = 1,
    seed: int = 0,
    sampler: str = "auto",
) -> Setting:
    """Return the setting of a fit of rows that were summed up."""
    by_label = np.ones(len(overview.labels)) if class_weights is None else class_weights
    total = overview.mass(class_weights)
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
        sampler=sampler,
    )


def lower_bound(setting: Setting, pull: Any, conjugates: float, terms: float) -> float:
    """Return a bound on the minimum of the objective, by dual variables of all rows.

    `pull` is (1/n) sum_i s_i a_i x_i; `conjugates` is sum_i s_i phi*(-a_i), and `terms` the sum of
    their absolute values. For l1 alone, the dual variables are scaled until no |pull_j| is above
    it: phi* is convex, and at most 0 in 0.
    """
    l1, l2, dual, penalty = setting.l1, setting.l2, -float(conjugates) / setting.n, 0.0
    largest = float(np.abs(pull).max(initial=0.0))
    if l2 == 0.0:
        dual *= min(1.0, l1 / largest) if largest > 0.0 else 1.0
    else:
        excess = np.maximum(np.abs(pull) - l1, 0.0)
        penalty = float(excess @ excess) / (2.0 * l2)
    return dual - penalty - ROUNDING * (float(terms) / setting.n + penalty)


class Beginning(NamedTuple):
    """Where the fit of an output begins: at w = 0 and the best intercept."""

    intercept: float
    curvature: float  # the mean of s_i phi'' there; 1 where phi is not smooth


def begin(overview: Overview, setting: Setting) -> list[Beginning]:
    """Return where the fit of each output begins.

    For a regression, few points stand for all targets: the intercept is nearly the best one.
    """
    if setting.classes is None and not overview.positive.size:
        y, weights = sketch(overview.points, overview.shares, ALL_POINTS)
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


def _begin(setting: Setting, y: NDArray[Any], weights: Floats) -> Beginning:
    problem = setting.kind(np.zeros((len(y), 1)), y, sample_weight=weights, **setting.options)
    intercept, _ = best_constant(problem)
    model, curvature = problem.model, 1.0
    if not has_kinks(problem):
        bends = [model.curve(item, intercept) for item in range(problem.n)]
        curvature = float(np.mean(model.weights * bends))
    return Beginning(intercept, curvature)
