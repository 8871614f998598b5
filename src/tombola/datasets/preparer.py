"""From a table to a matrix, as a transformer of scikit-learn."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tombola.datasets.arrow_files import as_table
from tombola.datasets.assemble import refuse_missing
from tombola.datasets.base import DataError, count
from tombola.datasets.encode import Encoding, fit_encoding
from tombola.datasets.prepare import IMPUTE, Preparation, fit_preparation
from tombola.datasets.table import Table

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
        nothing. "auto" is "frequency", but drops identifiers: text with more than 20 values that
        differ in most rows.
    keep : sequence of str, default=()
        Columns that are not dropped as identifiers.
    impute : {"median", "mean"} or None, default=None
        The statistic of a column that replaces its missing values; None refuses them. Missing text
        is a value of its own.
    scale : bool, default=True
        Whether to scale each column to mean 0 and standard deviation 1.

    Attributes
    ----------
    encoding_ : Encoding or None
        The rule of each column; None if the training rows were an array.
    preparation_ : Preparation or None
        Imputed values, means and scales; None if the training rows were sparse.
    notes_ : tuple of str
        What is done, in one sentence each.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where the training rows had column names.

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
        X : Table, pandas frame, ndarray or sparse matrix
        y : ignored
        names : sequence of str, optional
            The columns of an array.

        Returns
        -------
        self
        """
        if self.impute is not None and self.impute not in IMPUTE:
            raise DataError(f"impute must be one of {', '.join(IMPUTE)} or None, got {self.impute}")
        self.encoding_: Encoding | None = None
        self.preparation_: Preparation | None = None
        self.notes_: tuple[str, ...] = ()
        table = as_table(X)
        if table is not None:
            self._check_missing(table, table.names)
            self.encoding_ = fit_encoding(table, self.encode, self.keep)
            self.n_features_in_ = table.shape[1]
            self.feature_names_in_ = np.array(table.names, dtype=object)
            if not self.encoding_.names:
                reasons = " ".join(self.encoding_.notes)
                raise DataError(f"no column is left that can be used. {reasons}")
            self._fit_columns(self.encoding_.columns(table), self.encoding_.names)
            self.notes_ = self.encoding_.notes + self.notes_
            return self
        if not hasattr(X, "tocsr"):
            X = _rows(X)
            labels = tuple(names or ()) or tuple(map(str, range(X.shape[1])))
            self._fit_columns(iter(X.T), labels)
        self.n_features_in_ = X.shape[1]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def _fit_columns(self, columns: Iterator[NDArray[Any]], names: Sequence[str]) -> None:
        self.preparation_ = fit_preparation(columns, names, impute=self.impute, scale=self.scale)
        self.notes_ = self.preparation_.notes

    def transform(self, X: Any) -> Any:
        """Return rows as numbers: a matrix in C order; sparse rows as they are."""
        check_is_fitted(self, "n_features_in_")
        table = as_table(X, settle=False)
        if self.preparation_ is None:
            self._check_width(X.shape[1])
            return X
        if self.encoding_ is not None:
            if table is None:
                raise DataError(
                    "the preparation was fitted to a table: pass a table or a frame with the same "
                    f"columns, got {type(X).__name__}"
                )
            self._check_missing(table, self.encoding_.used)
            return self.preparation_.apply_columns(self.encoding_.columns(table), len(table))
        X = _rows(self._array(table) if table is not None else X)
        self._check_width(X.shape[1])
        if self.impute is None and np.isnan(X).any():
            row, j = np.argwhere(np.isnan(X))[0]
            raise DataError(f"row {row}, column {j} of X is missing, but impute is None")
        return self.preparation_.apply(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of numbers."""
        check_is_fitted(self, "n_features_in_")
        if self.preparation_ is None:
            known = getattr(self, "feature_names_in_", map(str, range(self.n_features_in_)))
            return np.array(list(known), dtype=object)
        return np.array(self.preparation_.columns, dtype=object)

    @property
    def kinds(self) -> dict[str, str]:
        """The columns that are used, and for each "number", "text" or "date"."""
        check_is_fitted(self, "n_features_in_")
        if self.encoding_ is not None:
            return {rule.column: rule.kind for rule in self.encoding_.rules if rule.names}
        names = getattr(self, "feature_names_in_", map(str, range(self.n_features_in_)))
        return dict.fromkeys(names, "number")

    def _array(self, table: Table) -> NDArray[np.float64]:
        """Return a table as the array of columns that the preparation was fitted to."""
        rules = fit_encoding(Table({name: np.zeros(1) for name in self.kinds}))
        self._check_missing(table, rules.used)
        return np.column_stack(list(rules.columns(table)))

    def _check_width(self, width: int) -> None:
        if width != self.n_features_in_:
            raise DataError(
                f"there are {count(width, 'column')}, but there were {self.n_features_in_:,} when "
                "the preparation was fitted"
            )

    def _check_missing(self, table: Table, used: Sequence[str]) -> None:
        """Refuse missing values unless they are imputed."""
        if self.impute is None:
            there = [name for name in used if name in table.columns]
            columns = [table.columns[name] for name in there]
            refuse_missing(there, columns, table.place, ways=["median"])

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
