"""scikit-learn's own checks, over all estimators."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from tombola.estimators import (
    ElasticNet,
    KMeans,
    Lasso,
    LassoCV,
    LinearClassifier,
    LinearRegressor,
    MeanNormScaler,
    MiniBatchKMeans,
)

# They compare predictions to 1e-7: a fit that stops within tol depends on its draws, and these on
# the number of rows. scikit-learn excuses its own SGDClassifier and all k-means; for linear
# models `test_weights_are_repeated_rows` has the same two checks, at the optimum.
STOPPED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "stops within tol of the optimum"
    for kind in ("dense", "sparse")
}

try:
    from tombola import dask as on_dask
except ImportError:
    ON_DASK = []  # not installed
else:
    ON_DASK = [on_dask.LinearClassifier(), on_dask.LinearRegressor(), on_dask.KMeans()]

EXACT = (ElasticNet, Lasso, LassoCV, MeanNormScaler)
LINEAR = (LinearClassifier, LinearRegressor)


def excused(estimator):
    exact = isinstance(estimator, EXACT)
    newton = isinstance(estimator, LINEAR) and estimator.solver == "auto"  # few rows: it takes all
    return {} if exact or newton else STOPPED


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        LinearClassifier(),
        LinearRegressor(),
        Lasso(),
        KMeans(),
        KMeans(2, coreset_size=10),
        ElasticNet(),
        LassoCV(alphas=5),
        MiniBatchKMeans(),
        MeanNormScaler(),
        *ON_DASK,
    ],
    expected_failed_checks=excused,
)
def test_conventions(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        LinearClassifier(solver="saga"),
        LinearClassifier(alpha=1e-4, solver="adagrad"),
        LinearClassifier(multi_class="softmax"),
        LinearRegressor(solver="saga"),
        LinearRegressor(alpha=1e-4, solver="adagrad"),
    ],
    expected_failed_checks=excused,
)
def test_conventions_of_other_solvers(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", [LinearClassifier, LinearRegressor])
@pytest.mark.parametrize(
    "check",
    [
        check_sample_weight_equivalence_on_dense_data,
        check_sample_weight_equivalence_on_sparse_data,
    ],
)
def test_weights_are_repeated_rows(kind, check):
    """The checks themselves, with no excuse: sdca runs on to the optimum with tol=0."""
    check(kind.__name__, kind(tol=0, max_iter=1000))
