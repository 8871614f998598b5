"""Linear models and k-means on Dask collections; ``pip install tombola[dask]``."""

try:
    import dask.array
    import dask.dataframe  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("tombola.dask needs Dask: pip install tombola[dask]") from error

from tombola.dask.coreset import coreset
from tombola.dask.kmeans import KMeans
from tombola.dask.linear_classifier import LinearClassifier
from tombola.dask.linear_regressor import LinearRegressor

__all__ = ["KMeans", "LinearClassifier", "LinearRegressor", "coreset"]
