"""scikit-learn estimators that draw their rows by a sampler; ``pip install tombola[sklearn]``."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "tombola.estimators needs scikit-learn: pip install tombola[sklearn]"
    ) from error

from tombola.estimators.kmeans import KMeans
from tombola.estimators.lasso import ElasticNet, Lasso
from tombola.estimators.lasso_path import ElasticNetCV, LassoCV, enet_path, lasso_path
from tombola.estimators.linear_classifier import LinearClassifier
from tombola.estimators.linear_regressor import LinearRegressor
from tombola.estimators.mini_batch_kmeans import MiniBatchKMeans
from tombola.estimators.scaling import MeanNormScaler

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "KMeans",
    "Lasso",
    "LassoCV",
    "LinearClassifier",
    "LinearRegressor",
    "MeanNormScaler",
    "MiniBatchKMeans",
    "enet_path",
    "lasso_path",
]
