"""Damage files of tables and arrays by the thousand, and train on them and predict for them.

    python tests/fuzz_files.py --count 10000

Each attempt must end in an answer, or in one line that says what is wrong: no traceback, no other
lines, no number that is not finite. The same seed makes the same files; `--first N --count 1`
repeats attempt N.
"""

import argparse
import collections
import contextlib
import csv
import faulthandler
import gzip
import io
import os
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

ODD = ["", "NA", "nan", "inf", "-inf", "1e999", "=1+1", "\x1b[2J", "\u202e", "1,5", "1.234,5",
       "x" * 5000, "31.2.2020", "2020-01-01T25:00", "'", '"', '"a', "\x00", "0x1F", "1_000", "true",
       "é", "\ufeff", "9" * 400, "-", "#", "qid:1", "1:2"]  # fmt: skip
ENCODINGS = ["utf-16", "utf-16-le", "latin-1", "utf-8-sig", "utf-32", "cp1252"]
TASKS = [["--target", "y"], ["--target", "a", "--task", "regression"],
         ["--task", "clustering", "--n-clusters", "2"], ["--target", "k"],
         ["--target", "-1"], []]  # fmt: skip
OPTIONS = [[], ["--impute", "median"], ["--impute", "mean", "--skip-bad-rows"], ["--skip-bad-rows"],
           ["--encode", "hash"], ["--encode", "one-hot"], ["--decimal", ","], ["--thousands", ","],
           ["--missing", "?"], ["--dates", "day-first"], ["--type", "k=text"], ["--rows", "20"],
           ["--drop", "k"], ["--encoding", "latin-1"], ["--no-scale"]]  # fmt: skip


def frame(rng, n=40):
    """A table with numbers, text, dates, missing values and a target."""
    a = rng.normal(size=n).round(3)
    return pd.DataFrame({
        "a": np.where(rng.random(n) < 0.05, np.nan, a),
        "k": rng.choice(["u", "v", "wö"], size=n),
        "when": [f"{1 + j % 28}.{1 + j % 12}.2021" for j in range(n)],
        "b": rng.integers(0, 9, size=n),
        "y": np.where(a + rng.normal(size=n) > 0, "yes", "no"),
    })  # fmt: skip


def written(table, kind, path):
    """Write a table as one kind of file."""
    numbers = table[["a", "b"]].fillna(0).to_numpy()
    labels = (table["y"] == "yes").to_numpy().astype(int)
    if kind in ("csv", "tsv", "csv.gz", "semicolons.csv"):
        mark = {"tsv": "\t", "semicolons.csv": ";"}.get(kind, ",")
        text = table.to_csv(index=False, sep=mark, decimal="," if mark == ";" else ".").encode()
        path.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    elif kind == "parquet":
        table.to_parquet(path, index=False)
    elif kind == "arrow":
        table.to_feather(path)
    elif kind == "npz":
        np.savez(path, X=numbers, y=labels)
    elif kind == "npy":
        np.save(path, np.column_stack([numbers, labels]))
    else:
        rows = zip(labels, numbers, strict=True)
        path.write_text("".join(f"{y} 1:{a} 3:{b}\n" for y, (a, b) in rows))


KINDS = [
    "csv",
    "csv",
    "csv",
    "tsv",
    "semicolons.csv",
    "csv.gz",
    "parquet",
    "arrow",
    "npz",
    "npy",
    "libsvm",
]


# --- damage -------------------------------------------------------------------------------------


def flipped(data, rng):
    for at in rng.integers(len(data), size=rng.integers(1, 9)):
        data[at] ^= 1 << int(rng.integers(8))


def cut(data, rng):
    del data[int(rng.integers(len(data))) :]


def without_a_piece(data, rng):
    at = int(rng.integers(len(data)))
    del data[at : at + int(rng.integers(1, 60))]


def with_a_piece(data, rng):
    at = int(rng.integers(len(data)))
    data[at:at] = rng.bytes(int(rng.integers(1, 30)))


def doubled(data, rng):
    at = int(rng.integers(len(data)))
    data[at:at] = data[: int(rng.integers(len(data)))]


def encoded(data, rng):
    with contextlib.suppress(UnicodeError):
        data[:] = bytes(data).decode().encode(str(rng.choice(ENCODINGS)))


def with_other_cells(data, rng):
    """Cells that hold something odd, or columns that have changed places in some rows."""
    try:
        rows = [line.split(",") for line in bytes(data).decode().split("\n")]
    except UnicodeError:
        return flipped(data, rng)
    for _ in range(int(rng.integers(1, 6))):
        row = rows[int(rng.integers(len(rows)))]
        at = int(rng.integers(len(row)))
        row[at] = str(rng.choice(ODD))
        if rng.random() < 0.3:
            rng.shuffle(row)
    data[:] = "\n".join(",".join(row) for row in rows).encode()
    return None


DAMAGE = [flipped, cut, without_a_piece, with_a_piece, doubled, encoded, with_other_cells]


def damaged(rng, folder, name):
    """Write a damaged file; return its path."""
    kind = str(rng.choice(KINDS))
    path = folder / f"{name}.{kind}"
    written(frame(rng), kind, path)
    data = bytearray(path.read_bytes())
    for _ in range(int(rng.choice([0, 1, 1, 1, 2, 3]))):
        DAMAGE[int(rng.integers(len(DAMAGE)))](data, rng)
        if not data:
            break
    path.write_bytes(data)
    return path


# --- attempts -----------------------------------------------------------------------------------


def said_by(command):
    """Run a command in this process: "answer", "refused", or what is wrong with how it ended."""
    from tombola.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(command)
    except BaseException:
        return traceback.format_exc(limit=-6)
    lines = [*out.getvalue().splitlines(), *err.getvalue().splitlines()]
    odd = [line for line in lines if not line.isprintable() or len(line) > 6000]
    if odd:
        return f"a line that a terminal does not only show: {odd[0][:200]!r}"
    if code == 0 and not err.getvalue():
        return "answer"
    if code == 2 and len(err.getvalue().splitlines()) == 1 and not out.getvalue():
        return "refused"
    return f"code {code}: {err.getvalue()[:300]!r}"


def sound(path):
    """Whether all probabilities in a file of predictions are finite, in rows of one length."""
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    at = [j for j, name in enumerate(names) if name.startswith("probability")]
    return all(len(row) == len(names) and all(0 <= float(row[j]) <= 1 for j in at) for row in rows)


def attempt(number, seed, folder, model):
    """Train on a damaged file, or predict for one; return what was done, and how it ended."""
    rng = np.random.default_rng([seed, number])
    path = damaged(rng, folder, str(number))
    if number % 2:
        task = TASKS[0] if rng.random() < 0.5 else TASKS[int(rng.integers(len(TASKS)))]
        more = [*task, *OPTIONS[int(rng.integers(len(OPTIONS)))]]
        if number % 4 == 1:
            more += ["--impute", "median", "--skip-bad-rows"]
        command = [
            "train",
            str(path),
            *more,
            "--epochs",
            "1",
            "--out",
            str(folder / f"run{number}"),
        ]
    else:
        out = folder / f"{number}-predicted.csv"
        command = ["predict", str(model), str(path), "--out", str(out), "--impute", "median"]
        command += ["--skip-bad-rows"] * int(rng.integers(2))
    ended = said_by(command)
    if ended == "answer" and command[0] == "predict" and not sound(out):
        ended = "a prediction that is not sound"
    return command, ended


def campaign(first, count, seed, folder):
    """Make attempts; return how often each outcome was seen, and the faults."""
    from tombola.cli.progress import Progress
    from tombola.report import Page

    Progress.FIRST = 600.0  # the first fit compiles
    Page.figure = lambda page, *drawn: None  # takes most of the time, and sees no text of the file
    model = folder / "model"
    frame(np.random.default_rng(0), 200).to_csv(folder / "honest.csv", index=False)
    honest = ["train", str(folder / "honest.csv"), "--target", "y", "--impute", "median"]
    assert said_by([*honest, "--epochs", "2", "--out", str(model)]) == "answer"
    seen, faults = collections.Counter(), []
    for number in range(first, first + count):
        (folder / "now").write_text(str(number))  # a crash of the process leaves it behind
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            command, ended = attempt(number, seed, folder, model)
        fine = ended in ("answer", "refused")
        seen[f"{command[0]}: {ended if fine else 'FAULT'}"] += 1
        if not fine:
            faults.append(f"{number}: {' '.join(command)}\n{ended}")
    return seen, faults


def main():
    parser = argparse.ArgumentParser(description="Train on damaged files, and predict for them.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    faulthandler.enable()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen, faults = campaign(options.first, options.count, options.seed, Path(folder))
    print(*faults, sep="\n\n")
    print(f"{options.count:,} files, {time.monotonic() - began:.0f} s:", dict(sorted(seen.items())))
    return int(bool(faults))


if __name__ == "__main__":
    os.environ["TOMBOLA_QUIET"] = "1"
    sys.exit(main())
