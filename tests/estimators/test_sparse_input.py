"""Every estimator refuses a damaged sparse matrix, in any format, before a kernel reads it."""

import numpy as np
import pytest
from scipy import sparse

from tombola import estimators

CLASSES = [
    member for name in estimators.__all__ if isinstance(member := getattr(estimators, name), type)
]
try:
    from tombola import dask as on_dask
except ImportError:
    pass  # not installed
else:
    CLASSES += [on_dask.KMeans, on_dask.LinearClassifier, on_dask.LinearRegressor]

FORMATS = ("csr", "csc", "coo", "bsr", "lil")
LARGE, NEGATIVE, FALLING = "too large", "negative", "falling"
TARGET = (np.arange(60) % 3 == 0).astype(int)


def damaged(form, fault):
    """Return a matrix of 60 rows with one place outside of its shape or arrays."""
    matrix = sparse.random(60, 5, 0.5, format=form, random_state=0)
    if fault == FALLING:
        matrix.indptr[2] = matrix.indptr[1] - 1
    else:
        place = 10**6 if fault == LARGE else -1
        if form == "lil":
            matrix.rows[3][0] = place
        else:
            (matrix.col if form == "coo" else matrix.indices)[4] = place
    return matrix


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("fault", [LARGE, NEGATIVE, FALLING])
@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_sparse_matrix_is_refused(form, fault, kind):
    if fault == FALLING and form in ("coo", "lil"):
        pytest.skip(f"{form} has no indptr")
    with pytest.raises(ValueError, match=r"X\.(indices|indptr|row|col)"):
        kind().fit(damaged(form, fault), TARGET)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("method", ["predict", "transform"])
def test_a_fitted_estimator_refuses_it_as_well(method, kind):
    if not hasattr(kind, method):
        pytest.skip(f"{kind.__name__} has no {method}")
    X = sparse.random(60, 5, 0.5, format="csr", random_state=0)
    model = kind().fit(X, TARGET)
    with pytest.raises(ValueError, match=r"X\.indices\[4\] is 1000000, not from 0 to 4"):
        getattr(model, method)(damaged("csr", LARGE))
