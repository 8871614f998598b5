"""What all estimators on Dask collections share: the client, and predictions block by block."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tombola.dask.collections import check_columns, dtype_of, is_lazy, lazily
from tombola.dask.partition import plain
from tombola.estimators.base import AcceptsSparse
from tombola.estimators.parameters import Declared, parameter, shared_parameters

__all__ = ["DaskEstimator", "Predict", "set_names"]


@dataclass(kw_only=True, eq=False, repr=False)
class DaskEstimator(AcceptsSparse, Declared):
    """An estimator of rows in partitions, with a twin in `tombola.estimators`."""

    client: Any = parameter(None)

    local: ClassVar[Any]  # the twin: it has the parameters of the same classes
    learnt: ClassVar[tuple[str, ...]]  # attributes of a fit that the twin has, too

    def to_local(self) -> Any:
        """Return the fitted estimator of `tombola.estimators`, for rows in memory."""
        check_is_fitted(self)
        model = self.local(**shared_parameters(self, self.local))
        for name in (*self.learnt, "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        return model

    def _lazily(self, X: Any, method: str) -> Any:
        """Return what a method of the local estimator returns: of Dask, or at once if X is not."""
        if not is_lazy(X):
            return getattr(self.to_local(), method)(X)
        predict = self._predictor(X, method)
        like = predict(np.zeros((1, predict.model.n_features_in_), dtype_of(X)))
        return lazily(X, predict, like)

    def _predictor(self, X: Any, method: str) -> "Predict":
        """Return a method of the local estimator, after a check of the columns of X."""
        model = self.to_local()
        check_columns(X, model)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # blocks are plain arrays there
        return Predict(model, method)


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
            return np.asarray(call(np.zeros((1, self.model.n_features_in_), rows.dtype)))[:0]
        return np.asarray(call(rows))


def set_names(model: Any, names: list[str] | None) -> None:
    """Set the names of the columns that a model was fitted to, if they have any."""
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_
