"""Scaling of X as a whole, for solvers with a fixed rate."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tombola.estimators.base import AcceptsSparse, checked_rows
from tombola.problems.rows import as_rows, squared_norms

__all__ = ["MeanNormScaler"]


class MeanNormScaler(OneToOneFeatureMixin, TransformerMixin, AcceptsSparse, BaseEstimator):
    """Divide X by the mean norm of its rows.

        X / c,  c = (1/n) sum_i |x_i|

    Gradients of a linear model grow with the norms of the rows, so a rate such as the default of
    solver="adagrad" suits rows of norm about 1. Ratios between rows and between columns stay the
    same, and so does the sparsity of X.

    Attributes
    ----------
    scale_ : float
        c, or 1 where all rows are 0.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Examples
    --------
    >>> MeanNormScaler().fit_transform([[3.0, 4.0], [0.0, 15.0]])
    array([[0.3, 0.4],
           [0. , 1.5]])
    """

    def fit(self, X: Any, y: Any = None) -> "MeanNormScaler":
        """Compute the mean norm; return self.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : ignored
        """
        X = checked_rows(self, X, reset=True)
        norm = float(np.sqrt(squared_norms(as_rows(X))).mean())
        self.scale_ = norm if norm > 0 else 1.0
        return self

    def transform(self, X: Any) -> NDArray[Any] | Any:
        """Return X / c, of the kind and type of X."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        return X / self.scale_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
