"""The rows that are raced on, and the problems that they make."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.problems import KMeans, LeastSquares, Logistic
from tombola.problems.rows import as_rows, checked_array, squared_norms
from tombola.random import Stream
from tombola.solvers.plus_plus import plus_plus

__all__ = ["START", "Contest", "Data", "open_contests"]

L2 = 1e-4  # as in the estimators
START = 1000  # rows that k-means++ chooses from
NORMS = (0.3, 10.0)  # mean norms of rows that the default rate of AdaGrad suits
SCALES = 100.0  # columns are said to differ in scale: the longest is so many times the median
ENTRIES = 5 * 10**7  # of X; rows beyond are left out


class Contest(NamedTuple):
    """A problem to be raced on."""

    name: str
    problem: Any
    groups: NDArray[np.int64] | None  # for GroupVRB
    centres: Callable[[int], Any]  # where to start, by seed


@dataclass
class Data:
    """The rows that are raced on, and the problems that they make."""

    X: Any
    y: NDArray[Any] | None
    groups: NDArray[Any] | None
    task: str
    clusters: int
    rows: int  # that were given
    kept: NDArray[np.int64]  # their numbers
    classes: list[Any]  # that are raced, each against the rest
    notes: list[str]
    scaled: bool = False
    contests: list[Contest] = field(default_factory=list)

    @property
    def n(self) -> int:
        """The number of rows that are raced on."""
        return len(self.kept)

    def keep(self, size: int, seed: int) -> None:
        """Go on with so many of the rows, at random; of each class as large a share."""
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
        """Make the problems, of the rows that are kept."""
        given = None if self.groups is None else np.unique(self.groups, return_inverse=True)[1]

        def nowhere(seed: int) -> Any:
            return None

        if self.task == "clustering":
            problem = KMeans(self.X, self.clusters)

            def centres(seed: int) -> Any:
                return plus_plus(problem, START, Stream(seed))

            self.contests = [Contest(f"{self.clusters} clusters", problem, given, centres)]
            return
        assert self.y is not None
        if self.task == "regression":
            least = LeastSquares(self.X, self.y, l2=L2, intercept=True)
            self.contests = [Contest("least squares", least, given, nowhere)]
            return
        self.contests = []
        for label in self.classes:
            side = self.y == label
            self.contests.append(
                Contest(
                    f"{label} against the rest ({side.sum():,} of {self.n:,} rows)",
                    Logistic(self.X, side, l2=L2, intercept=True),
                    side.astype(np.int64) if given is None else given,
                    nowhere,
                )
            )


def open_contests(X: Any, y: Any, task: str, groups: Any, clusters: int, seed: int) -> Data:
    """Check what was given, and make the problems."""
    tasks = ("classification", "regression", "clustering")
    if task not in tasks:
        raise ValueError(f"task must be one of {', '.join(tasks)}, got {task!r}")
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
    names = None if groups is None else _column("groups", groups, n)
    data = Data(X, targets, names, task, clusters, n, np.arange(n), [], [])
    if task == "classification":
        _choose_classes(data)
    elif task == "regression":
        _standardise_target(data)
    entries = X.nnz if hasattr(X, "tocsr") else X.size
    if entries > ENTRIES:
        data.keep(max(clusters, int(n * ENTRIES / entries)), seed)
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
        raise ValueError(f"y has one class only, {labels[0]!s}: there is nothing to tell apart")
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
    spread = float(y.std())
    if spread == 0:
        raise ValueError(f"y is {y[0]:g} in every row: there is nothing to predict")
    data.y = (y - y.mean()) / spread
    data.notes.append("The target was standardised.")


def _scale(data: Data) -> None:
    """Bring rows to a norm that suits the rate of AdaGrad; say so where columns differ a lot."""
    X = data.X
    with np.errstate(over="ignore"):
        norm = float(np.sqrt(squared_norms(as_rows(X))).mean())
    if not np.isfinite(norm):
        raise ValueError("X holds numbers so large that their squares overflow: scale its columns")
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
    if norm > 0 and not NORMS[0] <= norm <= NORMS[1]:
        data.X, data.scaled = X / norm, True
        data.notes.append(f"X was divided by {norm:.4g}, the mean norm of its rows.")
