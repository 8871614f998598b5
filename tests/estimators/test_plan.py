"""Plans: the printed code makes the model of the plan, and its scaling is a step of it."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tombola.estimators import LinearClassifier, LinearRegressor, MeanNormScaler, MiniBatchKMeans
from tombola.estimators.plan import Plan

X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 5.0, 20.0] + 3.0
Y = X @ [1.0, 2.0, 0.5] + 100.0


@pytest.mark.parametrize(
    "plan",
    [
        Plan(
            LinearClassifier(solver="adagrad", sampler="vrb", max_iter=3, tol=None, random_state=1)
        ),
        Plan(
            LinearClassifier(l1_ratio=0.5, max_iter=3, tol=None, random_state=1),
            (StandardScaler(), MeanNormScaler()),
        ),
        Plan(
            LinearRegressor(alpha=0.1, max_iter=3, tol=None, random_state=1),
            (StandardScaler(with_mean=False),),
            StandardScaler(),
        ),
        Plan(MiniBatchKMeans(3, sampler="shuffle", random_state=1), (StandardScaler(),)),
    ],
)
def test_the_code_makes_and_fits_the_model(plan):
    y = Y.mean() < Y if plan.task == "classification" else Y
    names = {"X": X, "y": y}
    exec(plan.code(), names)
    mine = plan.model().fit(X, y)
    np.testing.assert_array_equal(names["model"].predict(X), mine.predict(X))
    assert repr(names["model"]) == repr(mine)


def test_a_plan_is_not_fitted_with_its_model():
    plan = Plan(LinearClassifier(max_iter=2, tol=None), (StandardScaler(),))
    model = plan.model().fit(X, Y.mean() < Y)
    assert isinstance(model, Pipeline)
    assert not hasattr(plan.estimator, "coef_")
    assert not hasattr(plan.scaling[0], "mean_")


@pytest.mark.parametrize("convert", [np.asarray, np.float32, sparse.csr_array])
def test_rows_get_mean_norm_one(convert):
    rows = convert(X)
    scaler = MeanNormScaler().fit(rows)
    assert scaler.scale_ == pytest.approx(np.linalg.norm(X, axis=1).mean(), rel=1e-6)
    scaled = scaler.transform(rows)
    assert scaled.dtype == rows.dtype
    dense = scaled.toarray() if sparse.issparse(scaled) else scaled
    assert np.linalg.norm(dense, axis=1).mean() == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(dense * scaler.scale_, X, rtol=1e-6)


def test_rows_that_cannot_be_scaled():
    assert MeanNormScaler().fit(np.zeros((4, 2))).scale_ == 1.0
    with pytest.raises(ValueError, match="their squares overflow"):
        MeanNormScaler().fit(np.full((4, 2), 1e200))
