"""Every estimator on hostile input: a right answer, or an error that says what is wrong.

Damaged sparse matrices have a file of their own: `test_sparse_input.py`.
"""

import os
import pickle
import re
import signal
import threading
import traceback
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

import joblib
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import has_fit_parameter

from tombola import estimators
from tombola.solvers.base import DivergenceError

N, D = 60, 5
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(N, D)) + 0.3, 1).astype(np.float16).astype(np.float64)
Y = (X @ np.arange(D) + RNG.normal(size=N) > 1.0).astype(int)

NAMES = [name for name in estimators.__all__ if isinstance(getattr(estimators, name), type)]
MODELS = {name: getattr(estimators, name)() for name in NAMES}
MODELS |= {
    f"LinearClassifier-{word}-{value}": estimators.LinearClassifier(**{word: value})
    for word, value in (
        ("solver", "saga"), ("solver", "svrg"), ("solver", "sgd"), ("solver", "adagrad"),
        ("solver", "newton"), ("loss", "hinge"), ("l1_ratio", 1.0), ("multi_class", "softmax"),
    )
}  # fmt: skip
MODELS |= {
    f"LinearRegressor-{word}-{value}": estimators.LinearRegressor(**{word: value})
    for word, value in (
        ("solver", "sdca"), ("solver", "sgd"), ("loss", "huber"), ("loss", "epsilon_insensitive"),
        ("l1_ratio", 1.0),
    )
}  # fmt: skip
try:
    from tombola import dask as on_dask
except ImportError:
    pass  # not installed
else:
    MODELS |= {
        f"dask-{name}": getattr(on_dask, name)() for name in on_dask.__all__ if name[0] < "a"
    }

for model in MODELS.values():
    for word, value in (("random_state", 0), ("n_clusters", 3), ("cv", 3), ("alphas", 5)):
        if word in model.get_params():
            model.set_params(**{word: value})

pytestmark = pytest.mark.parametrize("name", MODELS)

UNKNOWN = dict.fromkeys(("sgd", "adagrad"), ("dual_gap_",))  # NaN: they have no certificate
CLEAR = (ValueError, TypeError, DivergenceError, ArithmeticError, OverflowError)


def fitted(name, X=X, y=Y, **others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(MODELS[name]).fit(X, y, **others)


def answers(model, X):
    """What a model says of rows."""
    methods = ("predict", "decision_function", "predict_proba", "transform")
    found = {each: getattr(model, each)(X) for each in methods if hasattr(model, each)}
    return {
        name: value.toarray() if sparse.issparse(value) else np.asarray(value)
        for name, value in found.items()
    }


def learnt(model):
    """The fitted attributes that are numbers."""
    found, params = {}, model.get_params()
    for name, value in vars(model).items():
        if name.endswith("_") and name[0] != "_" and not isinstance(value, (str, tuple, dict)):
            array = np.asarray(value)
            if array.dtype.kind in "fiu" and name not in UNKNOWN.get(params.get("solver"), ()):
                found[name] = array
    return found


def same(found, right, within=1e-6):
    assert found.keys() == right.keys()
    for name, value in right.items():
        assert np.allclose(found[name], value, rtol=within, atol=within), name


def sound(model, X):
    """All that was learnt and all that is predicted is finite."""
    for name, value in {**learnt(model), **answers(model, X)}.items():
        assert np.isfinite(value).all(), f"{name} is {value}"


def sound_or_refused(name, X, y=Y, **others):
    """Return the model, or None after an error that names another cause than NaN."""
    try:
        model = fitted(name, X, y, **others)
    except CLEAR as error:
        message = str(error)
    else:
        sound(model, X)
        return model
    assert message
    assert not re.search("(?i)input .*contains|nan", message), message  # what was given is finite
    return None


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def wide(kind):
    """Sparse rows or columns, with 64-bit indices."""
    matrix = kind(X)
    matrix.indices, matrix.indptr = (
        each.astype(np.int64) for each in (matrix.indices, matrix.indptr)
    )
    return matrix


def read_only_sparse():
    matrix = sparse.csr_array(X)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def unsorted():
    """CSR with each entry in two halves, in falling order of their columns."""
    columns = np.tile(np.repeat(np.arange(D)[::-1], 2), N)
    data = np.repeat(0.5 * X[:, ::-1].ravel(), 2)
    return sparse.csr_array((data, columns, np.arange(0, 2 * N * D + 1, 2 * D)), shape=(N, D))


def strided():
    array = np.zeros((2 * N, 3 * D))
    array[::2, ::3] = X
    return array[::2, ::3]


def polars():
    return pytest.importorskip("polars").DataFrame(X, schema=[f"c{j}" for j in range(D)])


def arrow():
    pa = pytest.importorskip("pyarrow")
    return pa.table({f"c{j}": X[:, j] for j in range(D)})


SAME = {
    "float16": lambda: X.astype(np.float16),
    "longdouble": lambda: X.astype(np.longdouble),
    "foreign bytes": lambda: X.astype(">f8"),
    "fortran": lambda: np.asfortranarray(X),
    "strided": strided,
    "read-only": lambda: read_only(X),
    "lists": X.tolist,
    "objects": lambda: X.astype(object),
    "pandas": lambda: pd.DataFrame(X, columns=list("abcde")),
    "nullable pandas": lambda: pd.DataFrame(X, columns=list("abcde")).astype("Float64"),
    "polars": polars,
    "arrow": arrow,
    "csr 64": lambda: wide(sparse.csr_array),
    "csc 64": lambda: wide(sparse.csc_matrix),
    "read-only csr": read_only_sparse,
    "unsorted csr": unsorted,
    "coo": lambda: sparse.coo_array(X),
    "lil": lambda: sparse.lil_array(X),
}
SPARSE = ("csr 64", "csc 64", "read-only csr", "unsorted csr", "coo", "lil")
STEPS = ("saga", "svrg", "sgd", "adagrad")  # on dense rows, steps are in centred columns
NAMED = ("pandas", "nullable pandas", "polars", "arrow")  # their columns have names


@pytest.fixture(scope="module")
def plain():
    """The model of plain rows, once for each name; of sparse ones where that is another."""
    models = {}

    def of(name, kind=""):
        key = name, kind in SPARSE and name.endswith(STEPS)
        if key not in models:
            models[key] = fitted(name, sparse.csr_array(X) if key[1] else X)
        return models[key]

    return of


@pytest.mark.parametrize("kind", SAME)
def test_the_same_rows_in_another_form_make_the_same_model(name, kind, plain):
    right = plain(name, kind)
    rows = SAME[kind]()
    model = fitted(name, rows)
    # k-means and descents: the order of sums; they start and stop equally on equal rows
    same(answers(model, rows), answers(right, X), 1e-4)
    if kind not in NAMED:
        same(answers(model, X[:7]), answers(right, X[:7]), 1e-4)


WRONG = {
    "nan": lambda: np.where(X > 1, np.nan, X),
    "inf": lambda: np.where(X > 1, -np.inf, X),
    "sparse nan": lambda: sparse.csr_array(np.where(X > 1, np.nan, X)),
    "sparse inf": lambda: sparse.csc_array(np.where(X > 1, np.inf, X)),
    "complex": lambda: X + 1j,
    "text": lambda: X.astype(str).astype(object) + np.array("a", dtype=object),
    "no rows": lambda: X[:0],
    "no columns": lambda: X[:, :0],
    "one dimension": lambda: X[:, 0],
    "three dimensions": lambda: X[:, :, None],
    "nothing": lambda: None,
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_no_model_can_be_made_of_is_refused(name, kind, plain):
    rows = WRONG[kind]()
    y = Y[: rows.shape[0]] if rows is not None else Y
    with pytest.raises((ValueError, TypeError)) as caught:
        clone(MODELS[name]).fit(rows, y)
    assert str(caught.value)
    if kind in ("no rows",):
        return
    with pytest.raises((ValueError, TypeError)):
        answers(plain(name), rows)


@pytest.mark.parametrize("scale", [1e140, 1e160, 1e300, 1e-200, 1e-310])
@pytest.mark.parametrize("target", [False, True])
def test_numbers_at_the_ends_of_their_range(name, scale, target):
    y = Y
    if target:
        if "Classifier" in name or "KMeans" in name or "Scaler" in name:
            pytest.skip("it has no target of any size")
        y = scale * Y
    sound_or_refused(name, X if target else scale * X, y)


@pytest.mark.parametrize("kind", ["row", "column"])
@pytest.mark.parametrize("scale", [1e160, 1e-200])
def test_one_row_or_column_of_another_size(name, kind, scale):
    rows = X.copy()
    rows[(3, slice(None)) if kind == "row" else (slice(None), 3)] *= scale
    sound_or_refused(name, rows)


@pytest.mark.parametrize("kind", ["zeros", "constant", "equal columns", "one row", "one column"])
def test_rows_with_nothing_in_them(name, kind):
    rows, y = {
        "zeros": (0 * X, Y),
        "constant": (0 * X + 3.0, Y),
        "equal columns": (np.repeat(X[:, :1], 4, axis=1), Y),
        "one row": (X[:1], Y[:1]),
        "one column": (X[:, 2:3], Y),
    }[kind]
    model = sound_or_refused(name, rows, y)
    if kind in ("equal columns", "one column"):
        assert model is not None
    sparsely = sound_or_refused(name, sparse.csr_array(rows), y)
    assert (model is None) == (sparsely is None)


def test_weights(name, plain):
    if not has_fit_parameter(MODELS[name], "sample_weight"):
        pytest.skip("it takes no weights")
    for weights in (
        np.where(Y, 1.0, np.nan),
        np.where(Y, 1.0, -1.0),
        np.full(N, np.inf),
        np.ones(3),
    ):
        with pytest.raises((ValueError, TypeError)):
            fitted(name, sample_weight=weights)
    sound_or_refused(name, X, sample_weight=np.zeros(N))
    for scale in (1e300, 1e-300):
        sound_or_refused(name, X, sample_weight=np.full(N, scale))
    some = np.where(np.arange(N) % 3, 1.0, 0.0)
    strange = X.copy()
    strange[::3] = 1e3  # of weight 0
    sound(fitted(name, strange, sample_weight=some), X)


def test_targets(name):
    if "KMeans" in name or "Scaler" in name:
        pytest.skip("it has no target")
    for y in (Y[:-1], np.where(X[:, 0] > 1, np.nan, Y), np.where(X[:, 0] > 1, np.inf, Y), None):
        with pytest.raises((ValueError, TypeError)):
            fitted(name, y=y)


def test_not_fitted(name):
    for method in ("predict", "transform"):
        if hasattr(MODELS[name], method):
            with pytest.raises((NotFittedError, AttributeError)):
                getattr(clone(MODELS[name]), method)(X)


def test_an_error_leaves_a_fitted_model(name, plain):
    model = (
        clone(MODELS[name]).fit(X, Y) if "dask" in name else pickle.loads(pickle.dumps(plain(name)))
    )
    before = answers(model, X)
    with pytest.raises((ValueError, TypeError)):
        model.fit(np.where(X > 1, np.nan, X), Y)
    same(answers(model, X), before, 0.0)


def test_clones_pickles_and_other_processes(name, plain):
    model = plain(name)
    right = answers(model, X)
    same(answers(pickle.loads(pickle.dumps(model)), X), right, 0.0)
    copy = clone(model)
    assert not learnt(copy)
    assert str(copy) == str(MODELS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        same(answers(copy.fit(X, Y), X), right, 1e-9)


def test_threads(name, plain):
    right, found = answers(plain(name), X), [None] * 4

    def fit(k):
        found[k] = answers(clone(MODELS[name]).fit(X, Y), X)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=fit, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for each in found:
        same(each, right, 1e-9)


def test_another_process_makes_the_same_model(name, plain):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = joblib.delayed(clone(MODELS[name]).fit)
        (model,) = joblib.Parallel(n_jobs=2)([call(X, Y)])
    same(answers(model, X), answers(plain(name), X), 1e-9)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_the_same_model(name, plain):
    right = answers(plain(name), X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, of forks beside threads
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that hangs is killed
            try:
                same(answers(fitted(name), X), right, 1e-9)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
