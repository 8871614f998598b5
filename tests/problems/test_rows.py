"""Which data is accepted, which is copied, and which is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from tombola.problems import LeastSquares, Logistic, Softmax, SquaredHinge

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0], [4.0, 5.0, 6.0]])
Y = np.array([1.0, -1.0, 1.0, -1.0])
W = np.array([0.5, -1.0, 0.25])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_in_order_are_not_copied(kind):
    given = X.astype(kind)
    assert np.shares_memory(LeastSquares(given, Y).model.rows.values, given)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_compressed_rows_are_not_copied(make, index):
    given = make(X)
    given.indices, given.indptr = given.indices.astype(index), given.indptr.astype(index)
    rows = LeastSquares(given, Y).model.rows
    assert np.shares_memory(rows.values, given.data)
    assert np.shares_memory(rows.columns, given.indices)
    assert np.shares_memory(rows.starts, given.indptr)
    assert rows.columns.dtype == index


def shuffled(make=sp.csr_matrix):
    """The entries of a row in the wrong order, and 5.0 as 2.0 + 3.0."""
    return make(
        (
            np.array([2.0, 1.0, 3.0, 6.0, 2.0, 4.0, 3.0]),
            np.array([2, 0, 1, 2, 1, 0, 1]),
            np.array([0, 2, 3, 3, 7]),
        ),
        shape=(4, 3),
    )


@pytest.mark.parametrize(
    "given",
    [
        X.tolist(),
        X.astype(np.int8),
        X.astype(np.uint64),
        X.astype(np.float16),
        X.astype(">f8"),
        X.astype(np.longdouble),
        np.asfortranarray(X),
        np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
        sp.csr_matrix(X),
        sp.csr_array(X),
        sp.coo_matrix(X),
        sp.coo_array(X),
        sp.csc_matrix(X),
        sp.csr_matrix(X.astype(np.int32)),
        shuffled(),
        shuffled(sp.csr_array),
    ],
)
def test_the_same_data_in_any_form_is_the_same_problem(given):
    problem = LeastSquares(given, Y, alpha=0.5)
    assert problem.value(W) == pytest.approx(LeastSquares(X, Y, alpha=0.5).value(W), rel=1e-15)
    np.testing.assert_allclose(problem.norms(W), LeastSquares(X, Y).norms(W), rtol=1e-14)
    lipschitz = problem.coordinate_lipschitz(), LeastSquares(X, Y, alpha=0.5).coordinate_lipschitz()
    np.testing.assert_allclose(*lipschitz, rtol=1e-14)


def test_booleans_are_numbers():
    assert LeastSquares(X > 0, Y).value(W) == LeastSquares((X > 0) * 1.0, Y).value(W)


def test_rows_that_cannot_be_written_to_are_read():
    given = X.copy()
    given.flags.writeable = False
    assert LeastSquares(given, Y).value(W) == LeastSquares(X, Y).value(W)


def test_entries_given_twice_are_added_in_a_copy():
    given = shuffled()
    before = given.data.copy(), given.indices.copy()
    LeastSquares(given, Y)
    np.testing.assert_array_equal(given.data, before[0])
    np.testing.assert_array_equal(given.indices, before[1])


def with_value(place, value):
    given = X.copy()
    given[place] = value
    return given


def corrupt(**parts):
    given = sp.csr_matrix(X)
    for name, (place, value) in parts.items():
        getattr(given, name)[place] = value
    return given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (with_value((1, 2), np.nan), r"X\[1, 2\] is nan"),
        (with_value((3, 0), np.inf), r"X\[3, 0\] is inf"),
        (np.array([[np.inf, -np.inf]] * 4), r"X\[0, 0\] is inf"),
        (sp.csr_matrix(with_value((3, 1), -np.inf)), r"X\[3, 1\] is -inf"),
        (np.empty((0, 3)), "at least one row"),
        (np.empty((4, 0)), "at least one row and one column"),
        (sp.csr_matrix((4, 0)), "at least one row and one column"),
        (X[0], r"X must have 2 dimensions, got shape \(3,\)"),
        (X[None], "X must have 2 dimensions"),
        (sp.coo_array(X[0]), "X must have 2 dimensions"),
        # kernels do not check: these would read and write out of bounds
        (corrupt(indices=(0, 7)), r"X\.indices\[0\] is 7"),
        (corrupt(indices=(1, -1)), r"X\.indices\[1\] is -1"),
        (corrupt(indptr=(1, 5)), r"X\.indptr"),
        (corrupt(indptr=(4, 100)), r"X\.indptr"),
        (sp.csc_matrix((np.ones(1), [9], [0, 1, 1, 1]), shape=(4, 3)), r"X\.indices\[0\] is 9"),
    ],
)
def test_bad_rows_are_refused_with_their_place(given, message):
    with pytest.raises(ValueError, match=message):
        LeastSquares(given, Y)


def test_rows_that_are_no_numbers_are_refused():
    for given in (X.astype(str), X.astype(complex), X.astype(object)):
        with pytest.raises(TypeError, match="X must hold numbers"):
            LeastSquares(given, Y)


def test_large_rows_are_no_infinite_rows():
    """Their sum is infinite, they are not."""
    assert np.isfinite(LeastSquares(np.full((4, 3), 1.5e308), Y).model.rows.values).all()
    large = np.full((4, 3), 3e38, dtype=np.float32)
    assert LeastSquares(large, Y).norms(np.zeros(3)) == pytest.approx([3e38 * 3**0.5] * 4)


@pytest.mark.parametrize("kind", [Logistic, SquaredHinge])
def test_labels(kind):
    same = kind(X, Y)
    for labels in (Y > 0, (Y > 0) * 1, (Y > 0).astype(np.uint8), Y.astype(int), Y.tolist()):
        np.testing.assert_array_equal(kind(X, labels).model.targets, same.model.targets)
    for labels, message in [
        ([1, 0, 2, 0], r"y\[2\] is 2: labels must be"),
        ([1, 0, -1, 0], r"y\[2\] is -1"),
        ([1, -1, 0.5, 1], r"y\[2\] is 0.5"),
        ([1, -1, np.nan, 1], r"y\[2\] is nan"),
        (["a", "b", "a", "b"], r"y\[0\] is 'a'"),
        ([1, -1, 1], r"y must have shape \(4,\)"),
        (Y[:, None], r"y must have shape \(4,\).*got \(4, 1\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            kind(X, labels)


def test_classes():
    assert Softmax(X, [0, 1, 2, 1]).shape == (3, 3)
    assert Softmax(X, [0, 1, 2, 1], n_classes=5, fit_intercept=True).shape == (5, 4)
    assert Softmax(X, [0.0, 1.0, 2.0, 1.0]).outputs == 3
    for labels, options, message in [
        ([0, 1, 2, -1], {}, r"y\[3\] is -1"),
        ([0, 1, 0.5, 1], {}, r"y\[2\] is 0.5"),
        ([0, 1, 2, 1], {"n_classes": 2}, r"y\[2\] is 2"),
        ([0, 1, np.nan, 1], {}, r"y\[2\] is nan"),
        ([0, 1, 2], {}, r"y must have shape \(4,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            Softmax(X, labels, **options)
    for classes in (2.5, "3", True):
        with pytest.raises(TypeError, match="n_classes must be an integer"):
            Softmax(X, [0, 1, 1, 1], n_classes=classes)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": -1.0}, ValueError, "alpha must be finite and not negative, got -1"),
        ({"alpha": -1e-9}, ValueError, "alpha must be finite and not negative"),
        ({"alpha": np.nan}, ValueError, "alpha must be finite"),
        ({"alpha": np.inf}, ValueError, "alpha must be finite"),
        ({"alpha": "1"}, TypeError, "alpha must be a number"),
        ({"alpha": None}, TypeError, "alpha must be a number"),
        ({"l1_ratio": -1e-9}, ValueError, "l1_ratio must be from 0 to 1, got -1e-09"),
        ({"l1_ratio": 1.5}, ValueError, "l1_ratio must be from 0 to 1, got 1.5"),
        ({"l1_ratio": np.nan}, ValueError, "l1_ratio must be from 0 to 1"),
        ({"l1_ratio": "1"}, TypeError, "l1_ratio must be a number"),
        ({"l1_ratio": None}, TypeError, "l1_ratio must be a number"),
        ({"sample_weight": [1, 1, -2, 1]}, ValueError, r"sample_weight\[2\] is -2"),
        ({"sample_weight": [1, np.nan, 1, 1]}, ValueError, r"sample_weight\[1\] is nan"),
        ({"sample_weight": [0, 0, 0, 0]}, ValueError, "all sample weights are 0"),
        ({"sample_weight": [1, 1, 1]}, ValueError, r"sample_weight must have shape \(4,\)"),
        ({"sample_weight": np.ones((4, 1))}, ValueError, "sample_weight must have 1 dim"),
        ({"sample_weight": ["a"] * 4}, TypeError, "sample_weight must hold numbers"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        Logistic(X, Y, **options)


def test_bad_targets_are_refused_by_place():
    with pytest.raises(ValueError, match=r"y\[1\] is nan"):
        LeastSquares(X, [0.0, np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"y must have shape"):
        LeastSquares(X, [0.0, 0.0])


def test_bad_places_are_refused():
    problem = LeastSquares(X, Y, fit_intercept=True)
    with pytest.raises(ValueError, match=r"a solution has shape \(4,\), got \(3,\)"):
        problem.value(W)
    with pytest.raises(ValueError, match="not finite"):
        problem.value([0.0, np.nan, 0.0, 0.0])
    for item in (4, -1, 10**6):
        with pytest.raises(IndexError, match=f"item must be from 0 to 3, got {item}"):
            problem.item_gradient(item, None)
