"""scikit-learn estimators that draw their rows by a sampler; ``pip install tombola[sklearn]``."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tombola.estimators needs scikit-learn: pip install tombola[sklearn]"
    ) from error

from tombola.estimators.coreset_kmeans import KMeans
from tombola.estimators.kmeans import MiniBatchKMeans
from tombola.estimators.lasso import Lasso
from tombola.estimators.linear_classifier import LinearClassifier
from tombola.estimators.linear_regressor import LinearRegressor
from tombola.estimators.scaling import MeanNormScaler

__all__ = [
    "KMeans",
    "Lasso",
    "LinearClassifier",
    "LinearRegressor",
    "MeanNormScaler",
    "MiniBatchKMeans",
]
