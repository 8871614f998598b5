"""Files as they come, and orders as they are given: what `tombola train` says to each.

As a script, this file writes the table of docs/command_line.md:

    python tests/cli/dirt.py
"""

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
MARK = "<!-- the table: python tests/cli/dirt.py -->\n"
ROWS = "1,2,0\n2,1,1\n3,4,0\n4,3,1\n5,5,0\n6,7,1\n"
GOOD = "a,b,y\n" + ROWS
SIX = np.arange(12.0).reshape(6, 2)
HALF = np.array([0, 1] * 3)
Y = ["--target", "y"]


class Case(NamedTuple):
    """A file and what happens to it.

    Attributes
    ----------
    file : str
        Its name.
    content : str, bytes, callable or None
        A function writes the file at a path; None: there is no file.
    arguments : list of str
    said : str
        Part of the error; of a note, if the file is read.
    then : list of str, str or None
        The arguments that let the file in, or the reason why there are none; None if it is read.
    """

    file: str
    content: Any
    arguments: list[str]
    said: str
    then: list[str] | str | None

    def write(self, folder):
        """Write the file into a folder."""
        path = folder / self.file
        if isinstance(self.content, str):
            path.write_text(self.content, encoding="utf-8")
        elif isinstance(self.content, bytes):
            path.write_bytes(self.content)
        elif self.content is not None:
            self.content(path)


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def nested(path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"pair": [[1, 2]] * 6, "a": SIX[:, 0], "y": HALF}), path)


def csv(text, arguments, said, then):
    return Case("t.csv", text, arguments, said, then)


def lines(header, make, n=12):
    return header + "\n" + "".join(make(k) + "\n" for k in range(n))


SKIP = [*Y, "--skip-bad-rows"]
DAMAGED = "it is damaged"
NOTHING = "there is nothing to learn from it"

DIRT = {
    # --- files that are not there, or hold nothing
    "no such file": csv(
        None, [], "there is no file 't.csv', and no data set of that name", "there is no file"),
    "a near name": Case("digts", None, [], "did you mean 'digits'?", "there is no file"),
    "empty": csv("", Y, "t.csv is empty", "it holds nothing"),
    "blank": csv("\n\n", Y, "t.csv is empty: it has only blank lines", "it holds nothing"),
    "a header alone": csv("a,y\n", Y, "t.csv has a header but no rows", "it has no rows"),
    # --- fields
    "too few fields": csv(
        GOOD + "7,8\n", Y, "line 8 of t.csv has 2 fields, but the first line has 3", SKIP),
    "too many fields": csv(
        "a,b,y\n1,2,0\n1,2,3,1\n" + ROWS, Y, "line 3 of t.csv has 4 fields", SKIP),
    "separators at the ends of lines": csv(
        "a,b,y\n1,2,0,\n2,1,1,\n" + ROWS, Y, "Taken as classification", None),
    "blanks between fields": Case(
        "t.txt", GOOD.replace(",", "   "), Y, "Taken as classification", None),
    "bars, and a name that says nothing": Case(
        "t.data", GOOD.replace(",", "|"), Y, "Taken as classification", None),
    "no header": csv(
        ROWS, ["--target", "2"], "There is no header: columns are numbered from 0.", None),
    "two columns of one name": csv(
        "a,a,y\n" + ROWS, Y, "Another column named 'a' is called 'a.1'.", None),
    "an empty column": csv(
        "a,,y\n1,,0\n2,,1\n3,,0\n4,,1\n", [*Y, "--test", "0"],
        "The column 'column 1' is empty and was left out.", None),
    # --- numbers
    "not a number": csv(
        GOOD + "7,many,0\n", Y,
        "line 8 of t.csv, column 'b': 'many' is not a number, unlike 6 other values",
        [*Y, "--missing", "many", "--impute", "median"]),
    "question marks": csv(
        GOOD + "?,2,0\n", Y, "'?' is not a number, unlike 6 other values of the column (--missing",
        [*Y, "--missing", "?", "--impute", "median"]),
    "decimal commas": csv(
        lines("a;y", lambda k: f"{k},5;{k % 2}"), Y,
        "'0,5' has a comma, as have all values of the column: read it with --decimal ,",
        [*Y, "--decimal", ","]),
    "marks between thousands": csv(
        lines("a,y", lambda k: f'"{k + 1},000",{k % 2}'), Y, "read it with --decimal , or --thous",
        [*Y, "--thousands", ","]),
    "infinite": csv(
        GOOD + "1e999,2,0\n", Y, "1 value of 'a' is infinite or too large, first in line 8", SKIP),
    "numbers that overflow": csv(
        "a,b\n1e200,1\n-1e200,2\n1,3\n4,4\n5,5\n",
        ["--task", "clustering", "--n-clusters", "2", "--no-scale"], "too long",
        ["--task", "clustering", "--n-clusters", "2", "--scale"]),
    # --- missing values
    "missing values": csv(
        GOOD + ",,1\nNA,1,0\n", Y,
        "3 values are missing, in 'a' (2, first in line 8) and 'b' (1, first in line 8): fill",
        [*Y, "--impute", "median"]),
    "missing text": csv(
        "k,y\nu,0\n,1\nv,0\nv,1\nu,1\n", Y, "in 'k' (1, first in line 3)",
        [*Y, "--impute", "mean"]),
    "missing target": csv(
        GOOD + "1,2,\n", [*Y, "--impute", "mean"],
        "the target 'y' is missing in 1 row, first in line 8", SKIP),
    # --- columns
    "row numbers": csv(
        lines(",a,y", lambda k: f"{k},{k * k},{k % 2}"), Y,
        "The column 'column 0' numbers the rows and was left out", None),
    "numbers of customers": csv(
        lines("customer_id,a,y", lambda k: f"{k * 7919 % 1000},{k * k},{k % 2}"), Y,
        "The column 'customer_id' is an identifier", None),
    "an identifier among others": csv(
        lines("user,a,y", lambda k: f"u{k},{k * k},{k % 2}", 60), Y, "like an identifier", None),
    "an identifier": csv(
        lines("id,y", lambda k: f"user{k},{k % 2}", 201), Y,
        "no column is left that can be used. The text in 'id' has 161 different values",
        [*Y, "--encode", "hash"]),
    "text with many values": csv(
        lines("city,a,y", lambda k: f"c{k % 300},{k * k},{k % 2}", 900), Y,
        "became the share of rows that have the same.", None),
    "dates": csv(
        lines("when,y", lambda k: f"2024-{k + 1:02}-03,{k % 2}"), Y,
        "The dates in 'when' became 4 numbers: year, month, weekday, days.", None),
    "dates with the day or the month first": csv(
        lines("when,y", lambda k: f"{k + 1}/3/2024,{k % 2}"), Y,
        "were taken as month-day-year (--dates day-first takes the other order).", None),
    "a word among dates": csv(
        lines("when,a,y", lambda k: f"2024-{k + 1:02}-03,{k},{k % 2}") + "soon,3,1\n", Y,
        "line 14 of t.csv, column 'when': 'soon' is not a date, unlike most values",
        [*Y, "--missing", "soon", "--impute", "median"]),
    "constant columns alone": csv(
        "a,y\n" + "1,0\n1,1\n" * 5, Y, "'a': constant, so there is nothing to learn from", NOTHING),
    "no column but the target": csv(
        "y\n0\n1\n", Y, "t.csv has no column besides the target", NOTHING),
    "a column to drop that is not there": csv(
        GOOD, [*Y, "--drop", "c"], "there is no column 'c'", [*Y, "--drop", "b"]),
    # --- the target
    "no target": csv(GOOD, [], "choose the target with --target: a, b and y", Y),
    "unknown target": csv(
        "age,price,size\n" + ROWS, ["--target", "prise"],
        "there is no column 'prise': did you mean 'price'? There are age, price and size",
        ["--target", "price", "--task", "regression"]),
    "an unknown separator": csv(
        "a^b^y\n1^2^0\n2^3^1\n", Y,
        "there is one column only, 'a^b^y': fields are separated by a comma",
        "write the file with one of these"),
    "a number out of range": csv(
        GOOD, ["--target", "3"], "there is no column '3'", ["--target", "2"]),
    "one class": csv(
        "a,y\n1,7\n2,7\n", Y, "the target 'y' has one value only, 7", NOTHING),
    "one word": csv("a,y\n1,x\n2,x\n", Y, "one value only, x", NOTHING),
    "labels like names": csv(
        "a,y\n1,ann\n2,bob\n3,cem\n", Y, "too many for classes", NOTHING),
    "infinite target": csv(GOOD + "1,2,-inf\n", Y, "1 value of 'y' is infinite", SKIP),
    "text for regression": csv(
        "a,y\n1,u\n2,v\n3,u\n4,v\n", [*Y, "--task", "regression"],
        "regression needs numbers, and the target 'y' holds text: 'u'", [*Y, "--test", "0.5"]),
    "fractions for classification": csv(
        "a,y\n1,.5\n2,1\n", [*Y, "--task", "classification"],
        "the target 'y' has numbers that are not integers", [*Y, "--test", "0"]),
    "grades for classification": csv(
        lines("a,y", lambda k: f"{k},{k % 3 / 2}"), [*Y, "--task", "classification"],
        "The numbers in the target 'y' were taken as labels.", None),
    "too few rows to hold out": csv(
        "a,y\n1,0.5\n2,1\n", Y, "2 rows are too few to hold out 0.2", [*Y, "--test", "0"]),
    "more clusters than rows": csv(
        GOOD, ["--task", "clustering", "--n-clusters", "7", "--test", "0"],
        "--n-clusters must be from 1 to 6, the number of rows, got 7",
        ["--task", "clustering", "--n-clusters", "3"]),
    # --- bytes
    "bytes": csv(
        "größe,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n".encode("latin-1"), Y, "t.csv is not UTF-8 text",
        [*Y, "--encoding", "latin-1"]),
    "UTF-16": csv(GOOD.encode("utf-16"), Y, "Taken as classification", None),
    "packed by gzip": Case(
        "t.csv.gz", gzip.compress(GOOD.encode()), Y, "Taken as classification", None),
    "a broken package": Case(
        "t.csv.gz", gzip.compress(GOOD.encode())[:-12], Y, "t.csv.gz is damaged", DAMAGED),
    "a spreadsheet": Case(
        "t.xlsx", "PK", Y, "t.xlsx is a spreadsheet: save it as CSV", "save it as CSV"),
    # --- Parquet and arrays
    "no Parquet": Case(
        "t.parquet", "PAR1", Y, "t.parquet is not a readable Parquet", DAMAGED),
    "lists in Parquet": Case(
        "t.parquet", nested, Y, "the column 'pair' of t.parquet holds list",
        [*Y, "--drop", "pair"]),
    "no archive": Case("t.npz", "nothing", [], "t.npz is not a readable npz archive", DAMAGED),
    "objects": Case(
        "t.npz", npz(X=SIX, y=np.array([{}] * 6, dtype=object)), [], "not a readable npz archive",
        "objects could run code"),
    "no X": Case(
        "t.npz", npz(Z=SIX, y=HALF), [],
        "neither X nor indices, indptr and shape, but Z and y: choose one with --features",
        ["--features", "Z"]),
    "no y": Case("t.npz", npz(X=SIX, z=HALF), [], "t.npz has no y", ["--target", "z"]),
    "no such key": Case(
        "t.npz", npz(X=SIX, label=HALF), ["--target", "labels"],
        "there is no key 'labels': did you mean 'label'?", ["--target", "label"]),
    "a flat X": Case("t.npz", npz(X=np.arange(6), y=HALF), [], "was taken as 6 x 1", None),
    "images": Case(
        "t.npz", npz(X=np.arange(24).reshape(6, 2, 2), y=HALF), [], "was taken as 6 x 4", None),
    "an empty X": Case(
        "t.npz", npz(X=SIX[:0], y=HALF[:0]), [], "X in t.npz is empty: its shape",
        "it has no rows"),
    "a short y": Case(
        "t.npz", npz(X=SIX, y=HALF[:5]), [], "'y' in t.npz must have 6 entries",
        "rows and targets do not match"),
    "NaN in y": Case(
        "t.npz", npz(X=SIX, y=np.where(SIX[:, 0] > 5, np.nan, SIX[:, 1] / 2)), [],
        "the target 'y' is missing in 3 rows, first in row 4", ["--skip-bad-rows", "--test", "0"]),
    "NaN in X": Case(
        "t.npz", npz(X=np.where(SIX == 5, np.nan, SIX), y=HALF), [],
        "1 value is missing, in '1' (1, first in row 3)", ["--impute", "mean"]),
    "a broken CSR": Case(
        "t.npz", npz(indices=[5], indptr=[0, 1], shape=[1, 5], y=[0]), [], "not a valid CSR",
        DAMAGED),
    "NaN in CSR": Case(
        "t.npz", npz(indices=[1, 2, 1, 2], indptr=[0, 1, 2, 3, 4], shape=[4, 5],
                     data=[1.0, np.nan, 2.0, 3.0], y=[0, 1, 0, 1]),
        [], "column 2 of sparse data is nan in row 2", ["--skip-bad-rows", "--test", "0"]),
    # --- LIBSVM
    "a bad LIBSVM line": Case(
        "t.libsvm", "1 1:0.5 2:1\n0 1:x\n1 2:1\n0 1:3\n", [],
        "line 2 of t.libsvm has '1:x', which is not column", ["--skip-bad-rows", "--test", "0"]),
    "a bad LIBSVM label": Case(
        "t.libsvm", "1 1:1\nyes 1:1\n0 1:2\n", [], "line 2 of t.libsvm begins with 'yes'",
        ["--skip-bad-rows", "--test", "0"]),
    "LIBSVM labels that are words": Case(
        "t.libsvm", "yes 1:1\nno 1:2\n" * 5, [], "t.libsvm was read line by line", None),
    "LIBSVM columns that fall": Case(
        "t.libsvm", "1 1:1\n0 3:1 2:1\n" * 5, [], "t.libsvm was read line by line", None),
    "NaN in LIBSVM": Case(
        "t.libsvm", "1 1:1\n0 1:nan\n0 1:2\n", [], "line 2 of t.libsvm has '1:nan'",
        ["--skip-bad-rows", "--test", "0"]),
    "a target for LIBSVM": Case(
        "t.libsvm", "1 1:1\n0 1:2\n", Y, "leave out --target y", ["--test", "0"]),
    # --- orders
    "a target for a set with one": Case(
        "iris", None, ["--target", "kind"], "iris needs no --target", []),
    "a column of a set to drop": Case(
        "iris", None, ["--drop", "kind"], "--drop is for files, and iris is a data set by name",
        []),
    "a set without classes": Case(
        "diabetes", None, ["--task", "classification"], "diabetes is for regression", []),
    "a set without numbers": Case(
        "iris", None, ["--task", "regression"], "iris is for classification", []),
    "alpha for clusters": Case(
        "iris", None, ["--task", "clustering", "--alpha", "1"], "--alpha is not for clustering",
        ["--task", "clustering"]),
    "clusters for classes": Case(
        "iris", None, ["--n-clusters", "3"], "--n-clusters is not for",
        ["--task", "clustering", "--n-clusters", "3"]),
    "groups for numbers": Case(
        "diabetes", None, ["--sampler", "group-vrb"], "--sampler group-vrb needs classes",
        ["--sampler", "vrb"]),
    "no epochs": Case(
        "iris", None, ["--epochs", "0"], "'0' is not an integer of at least 1", ["--epochs", "1"]),
    "all held out": Case(
        "iris", None, ["--test", "1"], "number of at least 0 and less than 1", ["--test", "0.9"]),
    "a negative penalty": Case(
        "iris", None, ["--alpha", "-1"], "'-1' is not a number of at least 0", ["--alpha", "1"]),
    "a folder for public sets that is not there": Case(
        "kdd", None, ["--data", "/nowhere"], "there is no folder /nowhere", "there is no file"),
}  # fmt: skip


def table():
    """Return the table of all cases in Markdown."""
    text = ["| what it is | what is said | what lets it in |", "|---|---|---|"]
    for name, case in DIRT.items():
        said = case.said.replace("|", "\\|")
        if case.then is None:
            then = "it is read, with this note"
        elif isinstance(case.then, str):
            then = f"nothing: {case.then}"
        else:
            shown = " ".join(f'"{it}"' if it in "?," else it for it in case.then)
            then = f"`{shown}`" if shown else "to leave that out"
        text.append(f"| {name} | {said} | {then} |")
    return "\n".join(text) + "\n"


def summary():
    """Return how many cases have which end, in words."""
    ends = [case.then for case in DIRT.values()]
    read = sum(then is None for then in ends)
    let_in = sum(isinstance(then, list) for then in ends)
    return (
        f"Of these {len(ends)}, {read} are read, {let_in} are refused with a sentence that says "
        f"what lets them in, and {len(ends) - read - let_in} hold nothing that could be read or "
        "learnt from.\n"
    )


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").split(MARK)[0]
    PAGE.write_text(f"{before}{MARK}\n{summary()}\n{table()}", encoding="utf-8")
