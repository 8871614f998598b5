"""Files of each format are read back equal; guesses are reported in notes."""

import csv
import decimal

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import parquet
from sklearn.datasets import dump_svmlight_file

from tombola.datasets import DataError, read
from tombola.datasets.base import checksum_of_file

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 1e-30, 1e30]
Y = RNG.integers(0, 3, size=40)
NAMES = ("first", "second", "third")


def write_csv(path, separator=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow([*NAMES, "label"])
        writer.writerows(
            [[*map(repr, row.tolist()), label] for row, label in zip(X, Y, strict=True)]
        )


def write_parquet(path):
    columns = dict(zip(NAMES, X.T, strict=True))
    parquet.write_table(pa.table({**columns, "label": Y}), path)


def written(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("target", ["label", "3", "-1"])
@pytest.mark.parametrize("form", ["comma", "semicolon", "tab", "parquet"])
def test_tables_are_read_back_equal(tmp_path, form, target):
    path = tmp_path / ("t.parquet" if form == "parquet" else "t.csv")
    if form == "parquet":
        write_parquet(path)
    else:
        write_csv(path, {"comma": ",", "semicolon": ";", "tab": "\t"}[form])
    data = read(path, target)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.columns == NAMES
    assert (data.task, data.name, data.source) == ("classification", "t", path.name)
    assert data.X.flags.c_contiguous
    assert data.checksum == checksum_of_file(path)
    assert data.notes == (
        "Taken as classification, since the target 'label' has 3 different integers.",
    )


def test_npz_is_read_back_equal(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=X, y=Y, other=X[:, 0], name=np.array(["a", "b"] * 20))
    data = read(path)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    other = read(path, "other")
    assert other.task == "regression"
    np.testing.assert_array_equal(other.y, X[:, 0])
    assert read(path, "name").y.tolist() == ["a", "b"] * 20
    column = read(path, "1", task="regression")
    np.testing.assert_array_equal(column.y, X[:, 1])
    np.testing.assert_array_equal(column.X, X[:, [0, 2]])
    assert column.columns == ("0", "2")
    assert read(path, task="clustering").y is None


@pytest.mark.parametrize("ones", [False, True])
def test_sparse_npz_is_read_back_equal(tmp_path, ones):
    matrix = sp.random(30, 8, density=0.2, format="csr", random_state=0)
    parts = {"data": matrix.data}
    if ones:
        matrix.data[:] = 1.0
        parts = {}
    path = tmp_path / "t.npz"
    np.savez(path, indices=matrix.indices, indptr=matrix.indptr, shape=matrix.shape,
             y=np.arange(30) % 2, **parts)  # fmt: skip
    data = read(path)
    np.testing.assert_array_equal(data.X.toarray(), matrix.toarray())
    assert data.X.indices.dtype == np.int32


@pytest.mark.parametrize("name", ["t.libsvm", "t.svm", "t"])
def test_libsvm_is_read_back_equal(tmp_path, name):
    matrix = sp.random(30, 8, density=0.4, format="csr", random_state=0)
    dump_svmlight_file(matrix, np.arange(30) % 2, str(tmp_path / name), zero_based=False)
    data = read(tmp_path / name)
    np.testing.assert_allclose(data.X.toarray(), matrix.toarray(), rtol=1e-15)
    assert data.y.tolist() == [0, 1] * 15
    assert data.task == "classification"


# --- CSV ----------------------------------------------------------------------------------------


def test_text_becomes_columns_of_0_and_1(tmp_path):
    path = written(tmp_path / "t.csv", "colour,size,y\nred,1,a\nblue,2,b\nred,3,a\n7,4,b\n")
    data = read(path, "y")
    assert data.columns == ("colour=7", "colour=blue", "colour=red", "size")
    np.testing.assert_array_equal(data.X[:, :3], [[0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert data.y.tolist() == ["a", "b", "a", "b"]
    assert "The text in 'colour' became 3 columns of 0 and 1." in data.notes


def test_booleans_become_0_and_1(tmp_path):
    path = written(tmp_path / "t.csv", "new,y\nTrue,1\nfalse,0\nTRUE,1\n")
    data = read(path, "y")
    assert data.columns == ("new",)
    assert data.X[:, 0].tolist() == [1.0, 0.0, 1.0]


def test_without_a_header_columns_have_numbers(tmp_path):
    path = written(tmp_path / "t.csv", "1,2,0\n3,4,1\n")
    data = read(path, "2")
    assert data.columns == ("0", "1")
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert "There is no header: columns are numbered from 0." in data.notes


def test_a_first_line_with_fractions_is_no_header(tmp_path):
    path = written(tmp_path / "t.csv", "5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,3,other\n5,3,other\n")
    data = read(path, "-1")
    assert data.X.shape == (4, 2)
    assert data.y.tolist() == ["setosa", "setosa", "other", "other"]


def test_integers_can_be_names(tmp_path):
    path = written(tmp_path / "t.csv", "0,1,label\n3,4,1\n5,6,0\n")
    assert read(path, "label").columns == ("0", "1")


def test_quotes_blank_lines_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"a, b",y\r\n\r\n"1",0\r\n \r\n2,1\r\n')
    data = read(path, "y")
    assert data.columns == ("a, b",)
    assert data.X[:, 0].tolist() == [1.0, 2.0]


def test_lines_are_counted_in_the_file_and_not_in_records(tmp_path):
    path = written(tmp_path / "t.csv", 'a,note,y\n\n1,"two\nlines",0\n2,x,1\nbad,x,1\n3,x,0\n')
    with pytest.raises(DataError, match=r"line 6 of t.csv, column 'a': 'bad' is not a number"):
        read(path, "y")


def test_numbers_have_no_underscores(tmp_path):
    path = written(tmp_path / "t.csv", "a,y\n1,0\n2,1\n1_000,0\n")
    with pytest.raises(DataError, match=r"line 4.*'1_000' is not a number, unlike 2 other values"):
        read(path, "y")


def test_missing_values_are_kept_for_imputation(tmp_path):
    path = written(tmp_path / "t.csv", "a,b,y\n1,red,0\n,NA,1\nNaN,blue,0\n")
    data = read(path, "y", impute=True)
    assert data.columns == ("a", "b=blue", "b=red", "b=(missing)")
    np.testing.assert_array_equal(np.isnan(data.X[:, 0]), [False, True, True])
    np.testing.assert_array_equal(data.X[1, 1:], [0, 0, 1])


def test_progress_is_reported(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,0\n2,1\n" * 40_000)
    seen = []
    read(path, "y", progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 30
    assert all(total == path.stat().st_size for _, total in seen)
    assert 0 < seen[0][0] < seen[-1][0] <= path.stat().st_size


# --- Parquet ------------------------------------------------------------------------------------


def test_parquet_types(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({
        "small": pa.array([1, 2, None], pa.int8()),
        "flag": pa.array([True, None, False]),
        "money": pa.array([decimal.Decimal("1.5")] * 2 + [None], pa.decimal128(5, 2)),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
        "y": pa.array(["no", "yes", "no"], pa.large_string()),
    })  # fmt: skip
    parquet.write_table(table, path)
    data = read(path, "y", impute=True)
    assert data.columns == ("small", "flag", "money", "kind=a", "kind=b")
    np.testing.assert_array_equal(
        data.X, [[1, 1, 1.5, 1, 0], [2, np.nan, 1.5, 0, 1], [np.nan, 0, np.nan, 1, 0]]
    )
    with pytest.raises(DataError, match=r"3 values are missing, in 'small' \(1, first in row 3\)"):
        read(path, "y")


def test_what_cannot_be_used_is_named_and_may_be_dropped(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"pair": [[1, 2], [3]], "a": [1, 2], "y": [1, 0]}), path)
    with pytest.raises(DataError, match=r"'pair' of t.parquet holds list.*--drop pair leaves it"):
        read(path, "y")
    assert read(path, "y", drop=["pair"]).columns == ("a",)


# --- the task -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0, 1] * 30, "classification"),
        (list(range(20)) * 3, "classification"),
        (list(range(21)) * 3, "regression"),
        ([0.5, 1.0] * 30, "regression"),
        (["yes", "no"] * 30, "classification"),
    ],
)
def test_the_task_is_guessed_from_the_target_and_noted(tmp_path, values, task):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{k},{value}\n" for k, value in enumerate(values)))
    data = read(path, "y")
    assert data.task == task
    assert data.notes[-1].startswith(f"Taken as {task}, since the target 'y' has ")
    assert (data.y.dtype == np.float64) == (task == "regression")


def test_a_given_task_needs_no_note(tmp_path):
    path = written(tmp_path / "t.csv", "a,y\n1,0\n2,1\n")
    assert read(path, "y", task="regression").notes == ()
    assert read(path, "y", task="clustering").X.shape == (2, 1)
    assert read(path, task="clustering").X.shape == (2, 2)
    with pytest.raises(DataError, match="task must be classification, regression or clustering"):
        read(path, "y", task="ranking")
