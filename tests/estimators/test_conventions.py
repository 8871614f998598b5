"""scikit-learn's own checks, over all estimators."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from tombola.estimators import (
    Lasso,
    LinearClassifier,
    LinearRegressor,
    MeanNormScaler,
    MiniBatchKMeans,
)

# what scikit-learn excuses its own LinearClassifier, LinearRegressor and MiniBatchKMeans from
RANDOM = {
    f"check_sample_weight_equivalence_on_{kind}_data": "draws depend on the number of rows"
    for kind in ("dense", "sparse")
}


def excused(estimator):
    return {} if isinstance(estimator, Lasso | MeanNormScaler) else RANDOM


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        LinearClassifier(),
        LinearClassifier(multi_class="softmax", solver="adagrad"),
        LinearRegressor(),
        Lasso(),
        MiniBatchKMeans(),
        MeanNormScaler(),
    ],
    expected_failed_checks=excused,
)
def test_conventions(estimator, check):
    check(estimator)
