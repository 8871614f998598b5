"""The rows that are raced on, and the problems and plans that they make."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from tombola.estimators import MeanNormScaler
from tombola.estimators.plan import ESTIMATORS, Plan
from tombola.problems.rows import as_rows, checked_array
from tombola.random import Stream
from tombola.solvers.plus_plus import plus_plus

__all__ = ["Contest", "Data", "open_contests"]

NORMS = (0.3, 10.0)  # mean norms of rows that the default rate of AdaGrad suits
SCALES = 100.0  # columns differ in scale: the longest is this many times as long as the median
ENTRIES = 5 * 10**7  # the most entries of X; further rows are left out


class Contest(NamedTuple):
    """A problem of the race."""

    name: str
    problem: Any
    groups: NDArray[Any] | None  # for GroupVRB
    subsample: int | None  # the rows that k-means++ chooses from; None for linear models

    def start(self, seed: int) -> Any:
        """Return the solution at the start, None for zeros."""
        if self.subsample is None:
            return None
        return plus_plus(self.problem, self.subsample, Stream(seed))


@dataclass
class Data:
    """The rows that are raced on, and the problems that they make."""

    X: Any
    y: NDArray[Any] | None
    groups: NDArray[Any] | None
    task: str
    n_clusters: int
    rows: int  # the number that was given
    kept: NDArray[np.int64]  # which of them are raced on
    scaling: tuple[Any, ...]  # the transformers that X has been through
    target_scaling: Any = None
    classes: list[Any] = field(default_factory=list)  # those raced, each against the rest
    notes: list[str] = field(default_factory=list)
    contests: list[Contest] = field(default_factory=list)

    @property
    def n(self) -> int:
        """The number of rows that are raced on."""
        return len(self.kept)

    def plan(self, **parameters: Any) -> Plan:
        """Return the plan of the estimator for the task, with these parameters."""
        if self.task == "clustering":
            parameters["n_clusters"] = self.n_clusters
        return Plan(ESTIMATORS[self.task](**parameters), self.scaling, self.target_scaling)

    def keep(self, size: int, seed: int) -> None:
        """Keep `size` of the rows, at random; of each class the same share, and at least one."""
        order = np.random.default_rng(seed).permutation(self.n)
        first = order[:0]
        if self.task == "classification":
            _, numbers = np.unique(np.asarray(self.y), return_inverse=True)
            order = order[np.argsort(numbers[order], kind="stable")]
            first = order[np.unique(numbers[order], return_index=True)[1]]
        places = order[np.linspace(0, self.n - 1, size).astype(np.int64)]
        places = np.union1d(places, first)
        self.X, self.kept = self.X[places], self.kept[places]
        self.y = None if self.y is None else self.y[places]
        self.groups = None if self.groups is None else self.groups[places]

    def make_contests(self) -> None:
        """Make the problems, as the estimator does, of the rows that are kept."""
        estimator = self.plan().estimator
        parts = {part.label: part for part in estimator.parts(self.X, self.y)}
        self.contests = []
        for label in self.classes or [None]:
            part = parts[label if label in parts else None]
            name = "least squares"
            if self.task == "clustering":
                name = f"{self.n_clusters} clusters"
            elif self.task == "classification":
                size = (np.asarray(self.y) == label).sum()
                name = f"{label} against the rest ({size:,} of {self.n:,} rows)"
            groups = part.groups if self.groups is None else self.groups
            subsample = getattr(estimator, "subsample", None)
            self.contests.append(Contest(name, part.make(), groups, subsample))


def open_contests(
    X: Any, y: Any, task: str, groups: Any, n_clusters: int, seed: int, scaled_by: Sequence[Any]
) -> Data:
    """Check the arguments, scale the data, and make the problems."""
    if task not in ESTIMATORS:
        raise ValueError(f"task must be one of {', '.join(ESTIMATORS)}, got {task!r}")
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        as_rows(X)  # raises an error that names the fault
    else:
        X = checked_array(X, "X", dimensions=2)
    n = X.shape[0]
    targets = None
    if task != "clustering":
        if y is None:
            raise ValueError(f"{task} needs y, what is to be predicted")
        targets = _column("y", y, n)
    elif n_clusters > n:
        raise ValueError(f"n_clusters must be from 1 to the {n} rows, got {n_clusters}")
    names = None if groups is None else _column("groups", groups, n)
    data = Data(X, targets, names, task, n_clusters, n, np.arange(n), tuple(scaled_by))
    if task == "classification":
        _choose_classes(data)
    elif task == "regression":
        _standardise_target(data)
    entries = X.nnz if hasattr(X, "tocsr") else X.size
    if entries > ENTRIES:
        data.keep(max(n_clusters, int(n * ENTRIES / entries)), seed)
    if task != "clustering":
        _scale(data)
    data.make_contests()
    return data


def _column(name: str, values: Any, n: int) -> NDArray[Any]:
    """Return a value for each row, or raise an error that names the fault."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each row of X, got {array.shape}")
    if array.dtype.kind in "fO":
        for place in np.flatnonzero(array != array)[:1]:
            raise ValueError(f"{name}[{place}] is missing: {array[place]}")
    if array.dtype.kind == "O":
        for place, value in enumerate(array):
            if value is None:
                raise ValueError(f"{name}[{place}] is missing: None")
        array = array.astype(str)
    return array


def _choose_classes(data: Data) -> None:
    labels, counts = np.unique(np.asarray(data.y), return_counts=True)
    if len(labels) < 2:
        raise ValueError(f"y has one class only, {labels[0]!s}: there is nothing to learn")
    if len(labels) > max(2, data.n // 2):
        raise ValueError(
            f"y has {len(labels):,} classes in {data.n:,} rows: is it a number, to be predicted "
            'with task="regression"?'
        )
    order = np.argsort(counts, kind="stable")
    data.classes = [labels[order[0]]]
    if len(labels) > 2:
        data.classes.append(labels[order[-1]])
        data.notes.append(
            f"Of {len(labels)} classes the rarest and the commonest were raced, each against the "
            "rest; their times are added up."
        )


def _standardise_target(data: Data) -> None:
    y = checked_array(data.y, "y", dimensions=1).astype(np.float64)
    if y.min() == y.max():
        raise ValueError(f"y is {y[0]:g} in every row: there is nothing to predict")
    data.target_scaling = StandardScaler()
    data.y = data.target_scaling.fit_transform(y[:, None])[:, 0]
    data.notes.append("The target was standardised.")


def _scale(data: Data) -> None:
    """Bring rows to a norm that suits the rate of AdaGrad; note columns that differ in scale."""
    X = data.X
    scaler = MeanNormScaler().fit(X)
    if hasattr(X, "tocsr"):
        squares = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2)
    else:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    lengths = np.sqrt(squares)
    lengths = lengths[lengths > 0]
    if len(lengths) and lengths.max() > SCALES * np.median(lengths):
        data.notes.append(
            f"The longest column of X is {lengths.max() / np.median(lengths):.0f} times as long as "
            "the median one: standardise the columns, and ask again."
        )
    if not NORMS[0] <= scaler.scale_ <= NORMS[1]:
        data.X, data.scaling = scaler.transform(X), (*data.scaling, scaler)
        data.notes.append(f"X was divided by {scaler.scale_:.4g}, the mean norm of its rows.")
