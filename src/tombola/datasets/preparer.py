"""From rows to numbers that can be learnt from, as a transformer of scikit-learn."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tombola.datasets.base import IMPUTE, DataError, about, check_encode, count, in_words
from tombola.datasets.cells import missing_in
from tombola.datasets.checks import refuse_missing
from tombola.datasets.encode import AsIs, Rule, fit_rules, numbers_of
from tombola.datasets.table import Table, as_table

__all__ = ["Preparer"]


class Preparer(TransformerMixin, BaseEstimator):
    """Turn rows into numbers: encode text and dates, impute, drop constant columns, and scale.

    All of it is fitted to the training rows. Numbers stay, text becomes columns of 0 and 1, and
    dates become year, month, day of the week and elapsed days. Sparse matrices are left as they
    are.

    Parameters
    ----------
    encode : {"auto", "one-hot", "hash", "frequency", "drop"}, default="auto"
        What becomes of text with more than 200 different values: a column of 0 and 1 for each,
        64 columns of 0 and 1 by its CRC-32, the share of training rows that have the same text, or
        nothing. "auto" is a column for each of the most common values and one for all others, if
        most rows have a common value (of at most 200, in at least 10 rows each), else "frequency".
        It drops identifiers: text with more than 20 values that differ in most rows.
    keep : sequence of str, default=()
        Columns that are not dropped as identifiers; "auto" hashes them.
    impute : {"median", "mean"} or None, default=None
        The statistic of a column that replaces its missing values; None refuses them. Missing text
        is a value of its own.
    scale : bool, default=True
        Whether to scale each column to mean 0 and standard deviation 1.

    Attributes
    ----------
    rules_ : tuple of Rule, or None
        How each column of a table becomes numbers; None if the training rows were an array.
    kept_ : ndarray of int, or None
        The columns of numbers that are used, constant ones are not; None if the rows were sparse.
    fill_, mean_, scale_ : ndarray of float64
        For each of these: the value that replaces NaN, and the offset and divisor applied.
    notes_ : tuple of str
        What is done, in one sentence each.
    n_features_in_ : int
    feature_names_in_ : ndarray
        If the training rows had column names.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"kind": ["cat", "dog", "cat"], "kilos": [4.0, 20.5, np.nan]})
    >>> prepare = Preparer(impute="mean", scale=False).fit(frame)
    >>> prepare.transform(frame)
    array([[ 1.  ,  0.  ,  4.  ],
           [ 0.  ,  1.  , 20.5 ],
           [ 1.  ,  0.  , 12.25]])
    >>> prepare.get_feature_names_out().tolist()
    ['kind=cat', 'kind=dog', 'kilos']
    """

    def __init__(
        self,
        *,
        encode: str = "auto",
        keep: Sequence[str] = (),
        impute: str | None = None,
        scale: bool = True,
    ) -> None:
        self.encode = encode
        self.keep = keep
        self.impute = impute
        self.scale = scale

    def fit(self, X: Any, y: Any = None, names: Sequence[str] | None = None) -> "Preparer":
        """Fit the preparation to training rows.

        Parameters
        ----------
        X : Table, frame of pandas or another library, ndarray or sparse matrix
        y : ignored
        names : sequence of str, optional
            The columns of an array.

        Returns
        -------
        self
        """
        if self.impute is not None and self.impute not in IMPUTE:
            raise DataError(f"impute must be one of {', '.join(IMPUTE)} or None, got {self.impute}")
        check_encode(self.encode)
        table = as_table(X)
        self.rules_: tuple[Rule, ...] | None = None
        self.kept_: NDArray[np.int64] | None = None
        self.notes_: tuple[str, ...] = ()
        if table is not None:
            self._check_missing(table, table.names)
            self.rules_, self.notes_ = fit_rules(table, self.encode, self.keep)
            if not any(rule.parts for rule in self.rules_):
                reasons = " ".join(self.notes_)
                raise DataError(f"no column is left that can be used. {reasons}")
            names, self.n_features_in_ = table.names, table.shape[1]
            self._fit(numbers_of(self.rules_, table), self._made)
        else:
            X = X if hasattr(X, "tocsr") else _rows(X)
            self.n_features_in_ = X.shape[1]
            if not hasattr(X, "tocsr"):
                self._fit(X.T, names or tuple(map(str, range(X.shape[1]))))
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def _fit(self, columns: Iterable[NDArray[Any]], names: Sequence[str]) -> None:
        """Fit the numbers to columns, one at a time."""
        fitted, dropped, holes = [], [], 0
        for j, (name, given) in enumerate(zip(names, columns, strict=True)):
            column = given.astype(np.float64)
            missing = np.isnan(column)
            known, lost = column[~missing], int(missing.sum())
            if not known.size or known.min() == known.max():
                dropped.append(name)
                continue
            if lost and self.impute is None:
                raise DataError(f"{count(lost, 'value')} of {name!r} missing, but impute is None")
            fill = np.mean(known) if self.impute == "mean" else np.median(known)
            column[missing] = fill
            holes += lost
            fitted.append((j, fill, *(_mean_and_spread(column) if self.scale else (0.0, 1.0))))
        if not fitted:
            raise DataError(
                f"{in_words(map(repr, dropped))}: constant, so there is nothing to learn from"
            )
        kept, self.fill_, self.mean_, self.scale_ = map(np.array, zip(*fitted, strict=True))
        self.kept_ = kept
        notes = []
        if holes:
            whose = "its" if holes == 1 else "their"
            filled = count(holes, "missing value")
            notes.append(f"{filled} became the {self.impute} of {whose} column.")
        if dropped:
            gone = "is constant and was left out.", "are constant and were left out."
            notes.append(about(dropped, *gone))
        if self.scale:
            notes.append("Columns were scaled to mean 0 and standard deviation 1.")
        self.notes_ += tuple(notes)

    def transform(self, X: Any) -> Any:
        """Return rows as numbers: a matrix in C order; sparse rows as they are."""
        check_is_fitted(self, "n_features_in_")
        table = as_table(X, settle=False)
        columns: Iterable[NDArray[Any]]
        if self.kept_ is None:
            self._check_width(X.shape[1])
            return X
        if self.rules_ is None and table is None:
            X = _rows(X)
            self._check_width(X.shape[1])
            if self.impute is None and np.isnan(X).any():
                row, j = np.argwhere(np.isnan(X))[0]
                raise DataError(f"row {row}, column {j} of X is missing, but impute is None")
            columns = X.T
        elif table is None:
            raise DataError(
                "the preparation was fitted to a table: pass a table or a frame with the same "
                f"columns, got {type(X).__name__}"
            )
        else:
            rules = self.rules_ or [AsIs(rule="AsIs", column=name) for name in self.kinds]
            self._check_missing(table, [rule.column for rule in rules if rule.parts])
            columns = numbers_of(rules, table)
        rows = X if table is None else table
        out = np.empty((len(rows), self.kept_.size), getattr(rows, "dtype", np.float64))
        places = {int(j): k for k, j in enumerate(self.kept_)}
        for j, given in enumerate(columns):
            if (k := places.get(j)) is not None:
                column = given.astype(np.float64)
                column[np.isnan(column)] = self.fill_[k]
                column -= self.mean_[k]
                out[:, k] = column / self.scale_[k]
        return out

    @property
    def _made(self) -> Sequence[str]:
        """The names of the columns of numbers, before constant ones are left out."""
        if self.rules_ is not None:
            return [name for rule in self.rules_ for name in rule.names]
        return list(getattr(self, "feature_names_in_", map(str, range(self.n_features_in_))))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of numbers."""
        check_is_fitted(self, "n_features_in_")
        names = np.array(self._made, dtype=object)
        return names if self.kept_ is None else names[self.kept_]

    @property
    def kinds(self) -> dict[str, str]:
        """The columns that are used, and for each "number", "text" or "date"."""
        check_is_fitted(self, "n_features_in_")
        if self.rules_ is not None:
            return {rule.column: rule.kind for rule in self.rules_ if rule.parts}
        return dict.fromkeys(self._made, "number")

    def _check_width(self, width: int) -> None:
        if width != self.n_features_in_:
            raise DataError(
                f"there are {count(width, 'column')}, but there were {self.n_features_in_:,} when "
                "the preparation was fitted"
            )

    def _check_missing(self, table: Table, used: Sequence[str]) -> None:
        """Refuse missing values unless they are imputed."""
        if self.impute is None:
            there = {name: table.columns[name] for name in used if name in table.columns}
            missing = ((name, missing_in(column)) for name, column in there.items())
            refuse_missing(missing, table.place, ways=["median"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = self.impute is not None
        return tags


def _rows(rows: Any) -> NDArray[Any]:
    """Return X as an array of float32 or float64 with two axes."""
    X: NDArray[Any] = np.asarray(rows)
    if X.dtype != np.float32:
        X = X.astype(np.float64, copy=False)
    if X.ndim != 2:
        raise DataError(f"X must have two axes, got shape {X.shape}")
    return X


def _mean_and_spread(column: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation, even if squares overflow."""
    unit = float(np.abs(column).max())
    relative = column / unit
    spread = float(relative.std()) * unit
    return float(relative.mean()) * unit, spread if spread > 0 else 1.0
