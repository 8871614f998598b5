"""Files of each format are read back equal; guesses are reported in notes."""

import csv
import decimal
import io
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import parquet
from sklearn.datasets import dump_svmlight_file

from tombola.datasets import DataError, arrow_files, csv_files, read, read_table, sample
from tombola.datasets.base import checksum_of_file
from tombola.datasets.cells import words_of
from tombola.datasets.reading import Reading

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


def test_progress_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1.0000,0\n2.0000,1\n" * 500_000)
    seen = []
    monkeypatch.setattr(csv_files, "BLOCK", 2**18)
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
    with pytest.raises(DataError, match="task must be one of classification, reg"):
        read(path, "y", task="ranking")


# --- files that somebody crafted ----------------------------------------------------------------


def npy(header, data=b""):
    """An npy file with this header, whatever it says."""
    text = header.encode().ljust(117) + b"\n"
    return np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text + data


def npy_of(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array))
    return stream.getvalue()


def shaped(shape, kind="<f8"):
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}")


HEADERS = [
    (npy("-" * 9000), "nested too deeply"),
    (shaped((10**12,)), "has only 0 bytes"),
    (shaped((10**12,), "<U0"), "has only 0 bytes"),
    (shaped((-5,)), r"of shape \(-5,\)"),
    (b"\x93NUMPY\x07\x00" + shaped((1,))[8:], "version 7.0 of the npy format"),
    (npy("{"), ""),
]


@pytest.mark.parametrize("at", range(len(HEADERS)))
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_crafted_header_is_refused(at, suffix, tmp_path):
    content, said = HEADERS[at]
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("X.npy", content)
    with pytest.raises(DataError, match=rf"a.{suffix} is not a readable .*{said}"):
        read(path, task="clustering")


def test_arrays_after_which_there_is_more_are_read(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy_of(X) + b"more")
    np.testing.assert_array_equal(read(tmp_path / "a.npy", task="clustering").X, X)
    np.savez_compressed(tmp_path / "a.npz", X=np.eye(500), y=np.arange(500.0))
    assert read(tmp_path / "a.npz").X.shape == (500, 500)


def test_a_member_cannot_say_that_it_is_larger_than_deflate_can_make_it(tmp_path):
    header = shaped((10**10,))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("X.npy", header)
        packed.filelist[0].file_size = len(header) + 8 * 10**10
    with pytest.raises(DataError, match=r"'X.npy' cannot have 80,000,000,"):
        read(tmp_path / "a.npz", task="clustering")


@pytest.mark.parametrize("wrong", ["text", "damaged"])
def test_members_that_are_no_arrays_are_refused(wrong, tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("X.npy", npy_of(np.arange(3000.0).reshape(-1, 3)))
        if wrong == "text":
            packed.writestr("y", "hello")
    if wrong == "damaged":
        content = bytearray(path.read_bytes())
        content[60:90] = b"\xff" * 30
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"a.npz is not a readable npz archive"):
        read(path, task="clustering")


def test_an_archive_without_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"has neither X nor indices, .*, but nothing: choose one"):
        read(tmp_path / "a.npz", task="clustering")


CSR = {"indices": np.array([0, 1]), "indptr": np.array([0, 1, 2, 2]), "shape": np.array([3, 2])}
WRONG_CSR = [
    {"shape": np.array([3, 2**62])},
    {"shape": np.array([2**62, 2])},
    {"shape": np.array([-1, 2]), "indptr": np.zeros(0, dtype=int)},
    {"shape": np.array([3.0, 2.0])},
    {"shape": np.array(["3", "2"])},
    {"indices": np.array(["a", "b"])},
    {"indptr": np.array([0.0, 1.0, 2.0, 2.0])},
    {"data": np.array(["a", "b"])},
    {"format": np.array("csc"), "shape": np.array([2**62, 3])},
    {"format": np.array("csc"), "shape": np.array([2**30, 3])},
    {"format": np.array(["csc", "csc"]), "shape": np.array([3, 1])},
]


@pytest.mark.parametrize("at", range(len(WRONG_CSR)))
def test_a_crafted_sparse_matrix_is_refused(at, tmp_path):
    np.savez(tmp_path / "a.npz", **CSR)
    assert read(tmp_path / "a.npz", task="clustering").X.shape == (3, 2)
    np.savez(tmp_path / "a.npz", **{**CSR, **WRONG_CSR[at]})
    with pytest.raises(DataError, match=r"not a valid CSR matrix|columns, more than|rows, but far"):
        read(tmp_path / "a.npz", task="clustering")


def test_a_sparse_matrix_may_be_wide_but_then_columns_have_no_names(tmp_path):
    np.savez(tmp_path / "a.npz", **{**CSR, "shape": np.array([3, 2**39])})
    assert read(tmp_path / "a.npz", task="clustering").X.shape == (3, 2**39)
    with pytest.raises(DataError, match="too many for --drop and --keep"):
        read(tmp_path / "a.npz", task="clustering", drop=["5"])


@pytest.mark.parametrize("column", [2**40, 2**62, 10**30, "1" * 5000])
def test_a_libsvm_column_that_is_too_large_is_refused(column, tmp_path):
    path = written(tmp_path / "a.libsvm", f"1 3:2\n0 {column}:1\n")
    with pytest.raises(DataError, match=r"line 2 of a.libsvm has column \d{1,30}, which is not"):
        read(path)
    path = written(tmp_path / "b.libsvm", f"1 3:2\n0 000{2**40 - 1}:1\n")
    assert read(path).X.shape == (2, 2**40 - 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"decimal": 5},
        {"thousands": None},
        {"encoding": 5},
        {"encoding": "utf\0"},
        {"missing": [1]},
        {"drop": [["a"]]},
        {"drop": 5},
        {"target": ["a"]},
        {"impute": "yes"},
    ],
)
def test_options_of_another_type_are_named(wrong):
    with pytest.raises(DataError, match=next(iter(wrong))):
        Reading.of(**wrong)


def test_there_is_progress_within_wide_files(tmp_path):
    path, seen = tmp_path / "t.csv", []
    rows = [",".join(f"{j}.{k}" for j in range(9000)) for k in range(1, 30)]
    path.write_text("\n".join([",".join(f"c{j}" for j in range(9000)), *rows]))
    read_table(path, task="clustering", progress=lambda done, total: seen.append(done / total))
    assert len({round(share, 1) for share in seen}) > 4
    assert seen[-1] == 1.0


# --- a sample of the rows -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.csv.gz"])
def test_a_sample_of_rows_is_drawn_in_one_pass(name, tmp_path, monkeypatch):
    n = 5000
    frame = pd.DataFrame({"row": np.arange(n) * 1.5, "k": [f"k{j % 7}" for j in range(n)]})
    frame["late"] = [str(j) if j < n // 3 else f"w{j % 5}" for j in range(n)]  # text further down
    getattr(frame, "to_parquet" if "parquet" in name else "to_csv")(tmp_path / name, index=False)
    monkeypatch.setattr(csv_files, "BLOCK", 4000)
    monkeypatch.setattr(arrow_files, "PIECE", 300)
    whole = read_table(tmp_path / name, task="clustering").X.columns
    data = read_table(tmp_path / name, task="clustering", rows=700)
    drawn = (data.X.columns["row"].to_numpy() / 1.5).astype(int)
    assert len(drawn) == 700
    assert (np.diff(drawn) > 0).all()
    assert abs(drawn.mean() - n / 2) < 5 * n / np.sqrt(12 * 700)  # of draws at random
    for column in ("k", "late"):
        expected = whole[column].take(pa.array(drawn)).to_pylist()
        assert data.X.columns[column].to_pylist() == expected
    assert data.notes[0] == "700 of 5,000 rows were drawn at random (--rows 700)."
    assert data.read_as["reading"]["rows"] == 700
    again = read_table(tmp_path / name, task="clustering", rows=700)
    np.testing.assert_array_equal(again.X.columns["row"], data.X.columns["row"])
    assert len(read_table(tmp_path / name, task="clustering", rows=n).X) == n


def test_a_dictionary_may_hold_more_than_its_rows(tmp_path):
    text = "a;k;y\n" + "".join(f"{j},5;{'uv'[j % 2]};{j % 3}\n" for j in range(400))
    (tmp_path / "t.csv").write_text(text)  # decimal commas, of which a sample has a few
    with pytest.raises(DataError, match=r"has a comma, as have all values of the column"):
        read_table(tmp_path / "t.csv", "y", rows=20)
    kinds = pd.Categorical(["u", "v", "u"], categories=["x", "v", "u"])
    pd.DataFrame({"k": kinds, "a": [1, 2, 3]}).to_parquet(tmp_path / "t.parquet")
    column = read_table(tmp_path / "t.parquet", task="clustering").X.columns["k"]
    assert (column.to_pylist(), words_of(column)[1]) == (["u", "v", "u"], ["v", "u"])


def test_rows_that_memory_cannot_hold_are_drawn_from(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{j},{j % 9}\n" for j in range(4000)))
    monkeypatch.setattr(sample, "_available", lambda: 64 * 2 * 1234)
    data = read_table(path, task="clustering")
    assert data.X.shape == (1200, 2)
    assert data.notes[0] == (
        "1,200 of 4,000 rows were drawn at random (--rows 1200), since memory holds no more."
    )
    with path.open("a") as file:
        file.write("x,1\n" * 3000)
    with pytest.raises(DataError, match=r"line [45]\d\d\d of t.csv, column 'a': 'x' is not a num"):
        read_table(path, task="clustering")
    np.savez(tmp_path / "t.npz", X=np.eye(3))
    assert read_table(tmp_path / "t.npz", task="clustering", rows=2).X.shape == (2, 3)
    (tmp_path / "t.libsvm").write_text("1 1:2\n0 1:3\n")
    with pytest.raises(DataError, match="--rows is for tables"):
        read_table(tmp_path / "t.libsvm", task="clustering", rows=2)
