"""Files as they come: packed, from other tools, in other styles; and what is done about it."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import feather

from tombola.datasets import DataError, arrow_files, csv_files, read, read_table, sources
from tombola.datasets.dates import parse, written_as
from tombola.datasets.encode import HASHED
from tombola.datasets.reading import Reading

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "size": RNG.normal(size=60),
    "kind": RNG.choice(["cat", "dog", "owl"], size=60),
    "new": RNG.random(60) < 0.5,
    "when": pd.Timestamp("2020-02-28 06:00") + pd.to_timedelta(RNG.integers(0, 900, 60), "D"),
    "y": RNG.normal(size=60),
})  # fmt: skip
NAMES = ("size", "kind=cat", "kind=dog", "kind=owl", "new",
         "when.year", "when.month", "when.weekday", "when.days", "when.hour")  # fmt: skip


def expected(frame):
    """The matrix, by pandas."""
    when = frame["when"]
    days = (when - when.min().normalize()) / pd.Timedelta(days=1)
    parts = [frame["size"], *(frame["kind"] == it for it in ("cat", "dog", "owl")), frame["new"],
             when.dt.year, when.dt.month, when.dt.day_of_week, days, when.dt.hour]  # fmt: skip
    return np.column_stack([np.asarray(part, dtype=float) for part in parts])


WRITERS = {
    "t.csv": lambda f, p: f.to_csv(p, index=False),
    "t.tsv": lambda f, p: f.to_csv(p, index=False, sep="\t"),
    "t.txt": lambda f, p: f.to_csv(p, index=False, sep="|"),
    "t.data": lambda f, p: f.to_csv(p, index=False, sep=";"),
    "t.csv.gz": lambda f, p: f.to_csv(p, index=False, compression="gzip"),
    "packed.csv": lambda f, p: p.write_bytes(gzip.compress(f.to_csv(index=False).encode())),
    "index.csv": lambda f, p: f.to_csv(p),
    "t.parquet": lambda f, p: f.to_parquet(p, index=False),
    "t.arrow": lambda f, p: write_arrow(pa.Table.from_pandas(f), p, pa.ipc.new_file),
    "stream.arrow": lambda f, p: write_arrow(pa.Table.from_pandas(f), p, pa.ipc.new_stream),
    "t.feather": lambda f, p: feather.write_feather(f, p),
    "nameless": lambda f, p: f.to_parquet(p, index=False),
    "utf16.csv": lambda f, p: p.write_bytes(f.to_csv(index=False).encode("utf-16")),
    "t.parquet.gz": lambda f, p: gzipped(f, p),
    "t.csv.zst": lambda f, p: write_zstd(f.to_csv(index=False).encode(), p),
}


def gzipped(frame, path):
    frame.to_parquet(path, index=False)
    path.write_bytes(gzip.compress(path.read_bytes()))


def write_arrow(table, path, kind):
    with kind(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=25)


def write_zstd(data, path):
    with pa.output_stream(str(path), compression="zstd") as stream:
        stream.write(data)


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_the_same_in_all_formats(name, tmp_path):
    WRITERS[name](FRAME, tmp_path / name)
    data = read(tmp_path / name, "y")
    assert data.columns == NAMES
    np.testing.assert_allclose(data.X, expected(FRAME), rtol=1e-15)
    np.testing.assert_array_equal(data.y, FRAME["y"])
    assert data.name == name.split(".")[0]
    assert "The dates in 'when' became 5 numbers: year, month, weekday, days, hour." in data.notes
    noted = "The column 'column 0' numbers the rows and was left out"
    assert any(noted in note for note in data.notes) == (name == "index.csv")


SMALL = {
    "pyarrow": ("t.csv", csv_files, {"BLOCK": 200}),
    "python": ("t.csv", csv_files, {"WIDE": 1, "PIECE": 35}),
    "parquet": ("t.parquet", arrow_files, {"PIECE": 7}),
}


@pytest.mark.parametrize("reader", SMALL)
def test_pieces_make_a_whole(reader, tmp_path, monkeypatch):
    name, module, sizes = SMALL[reader]
    WRITERS[name](FRAME, tmp_path / name)
    whole = read(tmp_path / name, "y")
    for size, value in sizes.items():
        monkeypatch.setattr(module, size, value)
    file = module.ArrowFile if reader == "parquet" else module.CsvFile
    with sources.opened(tmp_path / name) as source:
        columns = range(5)
        assert len([*file(source, Reading.of()).batches(columns)]) > 5
    np.testing.assert_array_equal(read(tmp_path / name, "y").X, whole.X)


@pytest.mark.parametrize("late", ["7,x\n", "8,9,2\n", "k,2\n", "1.5,3,\n", '"a\nb",2\n', ""])
def test_both_readers_of_text_say_the_same(late, tmp_path, monkeypatch):
    """Where pyarrow stops, Python's reader goes on with the same rows, or the same error."""
    path = given(tmp_path, "a,y\n" + rows(300, lambda k: f"{k},{k % 3}") + late + "3,1\n" * 9)
    found = []
    for wide in (1000, 1):
        monkeypatch.setattr(csv_files, "WIDE", wide)
        for block in (150, 2**20):
            monkeypatch.setattr(csv_files, "BLOCK", block)
            try:
                data = read(path, "y")
                found.append((data.X.tolist(), data.y.tolist(), data.columns))
            except DataError as error:
                found.append(str(error))
    assert all(it == found[0] for it in found)
    assert isinstance(found[0], str) == (late not in ("1.5,3,\n", ""))


def test_a_column_that_begins_with_numbers_may_be_text(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 100)
    text = rows(100, lambda k: f"{k % 2 if k < 30 else 'ab'[k % 2]},{k},{k % 2}")
    data = read(given(tmp_path, "a,b,y\n" + text), "y")
    assert data.columns == ("a=0", "a=1", "a=a", "a=b", "b")


def test_types_that_are_said(tmp_path):
    text = rows(40, lambda k: f"{k % 2:03},{k % 3},1/{k % 9 + 1}/2020,{k % 2}")
    frame = pd.DataFrame({"zip": [k % 2 for k in range(40)], "y": [0, 1] * 20})
    frame.to_parquet(tmp_path / "t.parquet")
    path = given(tmp_path, "zip,b,d,y\n" + text)
    said = {"zip": "text", "b": "number", "d": "date"}
    data = read(path, "y", types=said, dates="day-first")
    assert data.columns[:3] == ("zip=000", "zip=001", "b")
    assert read(path, "y", dates="day-first").columns[:2] == ("zip", "b")
    assert read(path, "y", types={"d": "text"}).columns[2] == "d=1/1/2020"
    assert read(tmp_path / "t.parquet", "y", types={"zip": "text"}).columns == ("zip=0", "zip=1")
    with pytest.raises(DataError, match=r"line 2 of t.csv, column 'd': '1/1/2020' is not a number"):
        read(path, "y", types={"d": "number"})
    with pytest.raises(DataError, match=r"line 2 of t.csv, column 'zip': '000' is not a date"):
        read(path, "y", types={"zip": "date"})
    with pytest.raises(DataError, match=r"there is no column 'zap': did you mean 'zip'"):
        read(path, "y", types={"zap": "text"})
    with pytest.raises(DataError, match=r"types.zip must be one of number, text, date"):
        read(path, "y", types={"zip": "words"})


def test_rows_that_are_wrong(tmp_path, monkeypatch):
    bad = tmp_path / "bad.csv"
    bad.write_text("a,y\n" + "1,0\n2,1\n" * 20 + "x,1\n")
    monkeypatch.setattr(csv_files, "BLOCK", 20)
    with pytest.raises(DataError, match=r"line 42 of bad.csv, column 'a': 'x' is not a number"):
        read(bad, "y")


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FRAME.to_csv().encode())))
    data = read("-", "y")
    np.testing.assert_allclose(data.X, expected(FRAME), rtol=1e-15)
    assert (data.name, data.source) == ("stdin", "stdin")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(DataError, match=r"standard input is empty"):
        read("-", "y")


def test_a_damaged_package_is_named(tmp_path):
    whole = gzip.compress(b"a,y\n1,0\n2,1\n" * 1000)
    for name, data in (("t.csv.gz", whole[:-20]), ("no.csv.gz", b"a,y\n1,0\n"),
                       ("t.csv.zst", b"a,y\n1,0\n")):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=f"{name} is damaged"):
            read(tmp_path / name, "y")


@pytest.mark.parametrize("name", ["t.arrow", "stream.arrow", "t.feather", "t.csv.gz"])
def test_flipped_bytes_are_an_error_or_another_value(name, tmp_path):
    """pyarrow trusts the offsets of an Arrow file, and would read anywhere."""
    path = tmp_path / name
    WRITERS[name](FRAME, path)
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x9F]) + whole[at + 1 :])
        try:
            read_table(path, "y", impute=True)
        except DataError:
            refused += 1
    assert refused > 20


def test_arrays_by_any_key_and_any_shape(tmp_path):
    images, label = RNG.normal(size=(30, 4, 4)), np.arange(30) % 3
    np.savez(tmp_path / "t.npz", images=images, label=label, names=np.array(["x"] * 30))
    data = read(tmp_path / "t.npz", "label", features="images")
    np.testing.assert_array_equal(data.X, images.reshape(30, 16))
    np.testing.assert_array_equal(data.y, label)
    assert "images, of shape (30, 4, 4), was taken as 30 x 16." in data.notes
    with pytest.raises(DataError, match=r"no key 'imags': did you mean 'images'"):
        read(tmp_path / "t.npz", "label", features="imags")
    with pytest.raises(DataError, match=r"names in t.npz must be a table of numbers"):
        read(tmp_path / "t.npz", "label", features="names")
    np.save(tmp_path / "t.npy", np.column_stack([label, images[:, 0]]))
    data = read(tmp_path / "t.npy", "0", drop=["2"])
    np.testing.assert_array_equal(data.X, images[:, 0, [0, 2, 3]])
    assert data.columns == ("1", "3", "4")


def test_sparse_arrays_of_scipy(tmp_path):
    matrix = sp.random(30, 8, density=0.3, format="csr", random_state=0)
    for kind in ("csr", "csc"):
        sp.save_npz(tmp_path / f"{kind}.npz", matrix.asformat(kind))
        data = read(tmp_path / f"{kind}.npz", task="clustering")
        np.testing.assert_array_equal(data.X.toarray(), matrix.toarray())


# --- how cells are written ----------------------------------------------------------------------


def given(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_other_marks_in_numbers_and_other_words_for_missing(tmp_path):
    path = given(tmp_path, "a;b;y\n1,5;1.000;0\n-,;?;1\n2,25;-3.000.000,5;0\n1e3;n.a.;1\n")
    options = {"decimal": ",", "thousands": ".", "missing": ["?", "-,", "N.A."]}
    data = read(path, "y", impute=True, **options)
    np.testing.assert_array_equal(
        data.X, [[1.5, 1000], [np.nan, np.nan], [2.25, -3000000.5], [1000, np.nan]]
    )
    with pytest.raises(DataError, match=r"must be two different characters"):
        read(path, "y", decimal=",", thousands=",")
    commas = given(tmp_path, 'a,y\n"1,5",0\n"2,5",1\n"3,5",0\n')
    np.testing.assert_array_equal(read(commas, "y", decimal=",").X, [[1.5], [2.5], [3.5]])
    with pytest.raises(DataError, match=r"line 2 of .*'1,5' has a comma, .* with --decimal , or"):
        read(commas, "y")


def test_blanks_separate_where_nothing_else_does(tmp_path):
    path = given(tmp_path, "  a   b  y\n 1   2.5  0 \n3 4 1\n  5 6   0\n", "t.txt")
    data = read(path, "y")
    np.testing.assert_array_equal(data.X, [[1, 2.5], [3, 4], [5, 6]])


def test_marks_in_quoted_names_do_not_separate(tmp_path):
    path = given(tmp_path, '"a, yearly";"b, in years, whole";y\n1;2;0\n3;5;1\n5;6;0\n')
    data = read(path, "y")
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 5], [5, 6]])
    assert data.columns == ("a, yearly", "b, in years, whole")


def test_other_encodings(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,y\n1,0\n2,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"t.csv is not UTF-8 text: .* \(--encoding latin-1"):
        read(path, "y")
    assert read(path, "y", encoding="latin-1").columns == ("größe",)
    with pytest.raises(DataError, match=r"--encoding klingon is not the name of an encoding"):
        read(path, "y", encoding="klingon")


def test_separators_at_the_end_of_lines_and_empty_columns(tmp_path):
    data = read(given(tmp_path, "a,,y,\n1,,0,\n2,,1,\n"), "y")
    assert data.columns == ("a",)
    assert "The columns 'column 1' and 'column 3' are empty and were left out." in data.notes
    assert read(given(tmp_path, "a,y\n1,0,\n2,1,,\n3,0\n"), "y").X.shape == (3, 1)


def test_two_columns_of_one_name(tmp_path):
    data = read(given(tmp_path, "a,a,a.1,a,y\n1,2,3,5,0\n2,4,5,5,1\n"), "y")
    assert data.columns == ("a", "a.2", "a.1", "a.3")
    assert "Another column named 'a' is called 'a.2'." in data.notes


# --- columns ------------------------------------------------------------------------------------


def rows(n, make):
    return "".join(make(k) + "\n" for k in range(n))


@pytest.mark.parametrize(
    ("header", "make", "left_out"),
    [
        ("id,a,y", lambda k: f"{k},{k * k},{k % 2}", "numbers the rows"),
        (",a,y", lambda k: f"{k + 1},{k * k},{k % 2}", "numbers the rows"),
        ("Unnamed: 0,a,y", lambda k: f"{k},{k * k},{k % 2}", "numbers the rows"),
        ("user_id,a,y", lambda k: f"{k * 7919 % 1000},{k * k},{k % 2}", "is an identifier"),
        ("customerID,a,y", lambda k: f"{k * 7919 % 1000},{k * k},{k % 2}", "is an identifier"),
        ("hour,a,y", lambda k: f"{k},{k * k},{k % 2}", None),
        ("paid,a,y", lambda k: f"{k * 7919 % 1000},{k * k},{k % 2}", None),
        ("id,a,y", lambda k: f"{k % 5},{k * k},{k % 2}", None),
        ("id,a,y", lambda k: f"{k / 3},{k * k},{k % 2}", None),
        ("id,y", lambda k: f"{k},{k % 2}", None),  # there is nothing else
    ],
)
def test_columns_that_number_the_rows_are_left_out(header, make, left_out, tmp_path):
    path = given(tmp_path, header + "\n" + rows(30, make))
    first = header.split(",")[0] or "column 0"
    data = read(path, "y")
    assert (first not in data.columns) == (left_out is not None)
    assert any(str(left_out) in note for note in data.notes) == (left_out is not None)
    assert first in read(path, "y", keep=[first]).columns
    if header != "id,y":
        assert first not in read(path, "y", drop=[first]).columns
    assert (data.X.shape[1] == 1) == (left_out is not None or header == "id,y")


def test_a_file_without_a_header_may_number_its_rows(tmp_path):
    data = read(given(tmp_path, rows(20, lambda k: f"{k + 1},{k * k},{k % 2}")), "-1")
    assert data.columns == ("1",)


def test_names_that_do_not_exist_are_refused(tmp_path):
    path = given(tmp_path, "alpha,b,y\n1,2,0\n2,5,1\n")
    for option in ("drop", "keep"):
        with pytest.raises(DataError, match=r"no column 'alfa': did you mean 'alpha'"):
            read(path, "y", **{option: ["alfa"]})
    with pytest.raises(DataError, match=r"the target 'y' cannot be dropped"):
        read(path, "y", drop=["y"])


def many(n, different):
    return rows(n, lambda k: f"w{k * 7 % different},{k % 3}")


@pytest.mark.parametrize("encode", ["auto", "one-hot", "hash", "frequency", "drop"])
def test_text_with_many_values(encode, tmp_path):
    path = given(tmp_path, "city,a\n" + many(1500, 300))
    data = read(path, "1", task="regression", encode=encode, keep=["city"] * (encode == "drop"))
    words = np.array([f"w{k * 7 % 300}" for k in range(1500)])
    if encode == "one-hot":
        assert data.X.shape == (1500, 300)
        assert [data.columns[j] for j in data.X.argmax(axis=1)] == [f"city={w}" for w in words]
    elif encode == "hash":
        assert data.X.shape == (1500, HASHED)
        place = dict(zip(words, data.X.argmax(axis=1), strict=True))
        assert (data.X.sum(axis=1) == 1).all()
        assert all(place[w] == j for w, j in zip(words, data.X.argmax(axis=1), strict=True))
        assert len(set(place.values())) > HASHED / 2
    else:  # with --keep, dropping is overruled
        shares = pd.Series(words).map(pd.Series(words).value_counts(normalize=True))
        np.testing.assert_allclose(data.X[:, 0], shares)
    assert any("300 different values" in note or "300 columns" in note for note in data.notes)


def test_identifiers_are_dropped_unless_kept(tmp_path):
    path = given(tmp_path, "user,a,y\n" + rows(400, lambda k: f"u{k},{k * k % 7},{k % 2}"))
    data = read(path, "y")
    assert data.columns == ("a",)
    note = "'user' has 400 different values in 400 rows, like an identifier: it was left out"
    assert any(note in it for it in data.notes)
    assert read(path, "y", keep=["user"]).X.shape == (400, HASHED + 1)
    assert read(path, "y", encode="hash").X.shape == (400, HASHED + 1)
    few = given(tmp_path, "user,a,y\n" + rows(30, lambda k: f"u{k},{k * k % 7},{k % 2}"))
    assert read(few, "y").columns == ("a",)
    with pytest.raises(DataError, match=r"encode must be one of auto, one-hot"):
        read(few, "y", encode="target")


# --- dates --------------------------------------------------------------------------------------

DAY = 24 * 3600 * 10**6


@pytest.mark.parametrize(
    ("text", "form", "day"),
    [
        ("2020-03-01", "year-month-day", "2020-03-01"),
        ("2020/3/1", "year-month-day", "2020-03-01"),
        ("2020-03-01T06:30:00Z", "year-month-day", "2020-03-01T06:30"),
        ("2020-03-01 06:30:00.250+02:00", "year-month-day", "2020-03-01T04:30:00.250"),
        ("31.12.1999", "day-month-year", "1999-12-31"),
        ("31/12/99 11:59 pm", "day-month-year", "1999-12-31T23:59"),
        ("12/31/2021", "month-day-year", "2021-12-31"),
        ("5 March 2020", "day-name-year", "2020-03-05"),
        ("05-Mar-20", "day-name-year", "2020-03-05"),
        ("Mar 5, 2020", "name-day-year", "2020-03-05"),
    ],
)
def test_forms_of_dates(text, form, day):
    assert np.datetime64(parse(text, form), "us") == np.datetime64(day)
    assert written_as([text])[0] == form or form.startswith(("day-month", "month-day"))


@pytest.mark.parametrize(
    "text", ["2020-02-30", "2020-13-01", "12:30", "1.5", "v1.2.3", "2020", "hello", "1-2-3", ""]
)
def test_what_is_no_date(text):
    assert written_as([text]) is None


def test_the_order_of_day_and_month_is_shown_by_the_column(tmp_path):
    def months(text, **options):
        data = read(given(tmp_path, "d,y\n" + text), "y", **options)
        return data.X[:, data.columns.index("d.month")].tolist(), data.notes

    assert months("1/2/2020,1\n13/2/2020,0\n")[0] == [2, 2]
    assert months("1/2/2020,1\n1/13/2020,0\n")[0] == [1, 1]
    found, notes = months("1/2/2020,1\n3/4/2020,0\n")
    assert found == [1, 3]
    assert any("taken as month-day-year (--dates day-first takes the other" in it for it in notes)
    assert months("1/2/2020,1\n3/4/2020,0\n", dates="day-first")[0] == [2, 4]
    assert months("1.2.2020,1\n3.4.2020,0\n")[0] == [2, 4]


def test_a_column_of_dates_with_a_word_in_it(tmp_path):
    path = given(tmp_path, "when,y\n" + rows(9, lambda k: f"2020-01-0{k + 1},{k % 2}") + "soon,1\n")
    with pytest.raises(DataError, match=r"line 11 of t.csv, column 'when': 'soon' is not a date"):
        read(path, "y")
    assert np.isnan(read(path, "y", impute=True, missing=["soon"]).X[-1]).all()
    assert read(path, "y", skip_bad_rows=True).X.shape[0] == 9


# --- rows ---------------------------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_left_out_on_request(tmp_path):
    path = given(
        tmp_path,
        "a,b,y\n1,2,0\n2,x,1\n3,4\n4,inf,1\n5,6,\n6,,1\n7,8,1\n8,9,0\n9,3,0\n",
    )
    data = read(path, "y", skip_bad_rows=True)
    assert data.X[:, 0].tolist() == [1, 7, 8, 9]
    (note,) = (it for it in data.notes if "left out" in it)
    assert note.startswith("5 rows were left out: 1 with another number of fields (first line 4), ")
    assert "1 where 'b' is not a number (first line 3)" in note
    assert "1 where 'y' is missing (first line 6)" in note
    assert read(path, "y", skip_bad_rows=True, impute=True).X[:, 0].tolist() == [1, 6, 7, 8, 9]
    with pytest.raises(DataError, match=r"no row is left: 2 where 'y' is missing"):
        read(given(tmp_path, "a,y\n1,\n2,\n"), "y", skip_bad_rows=True)
    X = np.arange(12.0).reshape(6, 2)
    X[1, 1] = np.inf
    np.savez(tmp_path / "t.npz", X=X, y=[0, 1, np.nan, 1, 0, 1])
    assert read(tmp_path / "t.npz", skip_bad_rows=True).X[:, 0].tolist() == [0, 6, 8, 10]


def test_libsvm_may_be_packed_and_has_no_names(tmp_path):
    path = tmp_path / "t.svm.gz"
    path.write_bytes(gzip.compress(b"1 1:5 3:2\n0 2:7\n"))
    np.testing.assert_array_equal(read(path).X.toarray(), [[5, 0, 2], [0, 7, 0]])
    with pytest.raises(DataError, match=r"--drop is not for LIBSVM files"):
        read(path, drop=["1"])


def test_libsvm_lines_in_any_order(tmp_path):
    text = "1 3:1 1:2\n0 2:5 qid:3\n1 1:x\n1 1:1 # note\n0 4:2\n"
    path = given(tmp_path, text, "t.svm")
    with pytest.raises(DataError, match=r"line 3 of t.svm has '1:x'"):
        read(path)
    data = read(path, skip_bad_rows=True)
    np.testing.assert_array_equal(
        data.X.toarray(), [[2, 0, 1, 0], [0, 5, 0, 0], [1, 0, 0, 0], [0, 0, 0, 2]]
    )
    words = given(tmp_path, "spam 3:1 1:2\nham 0:5\nspam 1:1\nham 2:1\n", "w.svm")
    assert read(words).y.tolist() == ["spam", "ham", "spam", "ham"]
    assert read_table(words).read_as["first"] == 0


def test_fractions_may_be_labels(tmp_path):
    path = given(tmp_path, "a,y\n" + rows(40, lambda k: f"{k},{k % 4 / 2}"))
    data = read(path, "y", task="classification")
    assert data.y[:4].tolist() == ["0", "0.5", "1", "1.5"]
