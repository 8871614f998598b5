"""Bad input to `tombola train`: exit code 2, one sentence, no traceback, nothing written."""

import numpy as np
import pytest

from tombola.cli.main import COMMANDS, main

ROWS = "1,2,0\n2,1,1\n3,4,0\n4,3,1\n5,5,0\n6,7,1\n"
GOOD = "a,b,y\n" + ROWS


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


SIX = np.arange(12.0).reshape(6, 2)
HALF = np.array([0, 1] * 3)

# name and content of the file, arguments, part of the expected error
DIRT = {
    "no such file": ("t.csv", None, [], "there is no file 't.csv', and no data set of that name"),
    "a near name": ("digts", None, [], "did you mean 'digits'?"),
    "empty": ("t.csv", "", ["--target", "y"], "t.csv is empty"),
    "blank": ("t.csv", "\n\n", ["--target", "y"], "t.csv is empty: it has only blank lines"),
    "a header alone": ("t.csv", "a,y\n", ["--target", "y"], "t.csv has a header but no rows"),
    "too few fields": (
        "t.csv", GOOD + "7,8\n", ["--target", "y"],
        "line 8 of t.csv has 2 fields, but the first line has 3",
    ),
    "too many fields": (
        "t.csv", "a,b,y\n1,2,0\n1,2,3,1\n", ["--target", "y"], "line 3 of t.csv has 4 fields",
    ),
    "not a number": (
        "t.csv", GOOD + "7,many,0\n", ["--target", "y"],
        "line 8 of t.csv, column 'b': 'many' is not a number, unlike 6 other values",
    ),
    "no target": ("t.csv", GOOD, [], "choose the target with --target: a, b and y"),
    "unknown target": (
        "t.csv", "age,price,size\n" + ROWS, ["--target", "prise"],
        "there is no column 'prise': did you mean 'price'? There are age, price and size",
    ),
    "a number out of range": ("t.csv", GOOD, ["--target", "3"], "there is no column '3'"),
    "one class": (
        "t.csv", "a,y\n1,7\n2,7\n", ["--target", "y"], "the target 'y' has one value only, 7",
    ),
    "one word": ("t.csv", "a,y\n1,x\n2,x\n", ["--target", "y"], "one value only, x"),
    "labels like names": (
        "t.csv", "a,y\n1,ann\n2,bob\n3,cem\n", ["--target", "y"], "too many for classes",
    ),
    "missing values": (
        "t.csv", GOOD + ",,1\nNA,1,0\n", ["--target", "y"],
        "3 values are missing, in 'a' (2, first in line 8) and 'b' (1, first in line 8): fill",
    ),
    "missing text": (
        "t.csv", "k,y\nu,0\n,1\nv,0\n", ["--target", "y"], "in 'k' (1, first in line 3)",
    ),
    "missing target": (
        "t.csv", GOOD + "1,2,\n", ["--target", "y", "--impute", "mean"],
        "the target 'y' is missing in 1 row, first in line 8",
    ),
    "infinite": (
        "t.csv", GOOD + "1e999,2,0\n", ["--target", "y"],
        "1 value of 'a' is infinite or too large, first in line 8",
    ),
    "infinite target": (
        "t.csv", GOOD + "1,2,-inf\n", ["--target", "y"], "1 value of 'y' is infinite",
    ),
    "constant columns alone": (
        "t.csv", "a,y\n" + "1,0\n1,1\n" * 5, ["--target", "y"],
        "'a': constant, so there is nothing to learn from",
    ),
    "no column but the target": (
        "t.csv", "y\n0\n1\n", ["--target", "y"], "t.csv has no column besides the target",
    ),
    "two columns of one name": (
        "t.csv", "a,a,y\n" + ROWS, ["--target", "y"], "t.csv has two columns named 'a'",
    ),
    "an identifier": (
        "t.csv", "id,y\n" + "".join(f"user{k},{k % 2}\n" for k in range(201)), ["--target", "y"],
        "no column is left that can be used. The text in 'id' has 201 different values",
    ),
    "more clusters than rows": (
        "t.csv", GOOD, ["--task", "clustering", "--n-clusters", "7", "--test", "0"],
        "--n-clusters must be from 1 to 6, the number of rows, got 7",
    ),
    "text for regression": (
        "t.csv", "a,y\n1,u\n2,v\n3,u\n4,v\n", ["--target", "y", "--task", "regression"],
        "regression needs numbers, and the target 'y' holds text: 'u'",
    ),
    "fractions for classification": (
        "t.csv", "a,y\n1,.5\n2,1\n", ["--target", "y", "--task", "classification"],
        "the target 'y' has numbers that are not integers",
    ),
    "bytes": ("t.csv", b"a,y\n\xff\xfe\x00,1\n", ["--target", "y"], "t.csv is not UTF-8 text"),
    "an unknown kind": ("t.xlsx", "PK", [], "t.xlsx has no known format"),
    "too few rows to hold out": (
        "t.csv", "a,y\n1,0.5\n2,1\n", ["--target", "y"], "2 rows are too few to hold out 0.2",
    ),
    "numbers that overflow": (
        "t.csv", "a,b\n1e200,1\n-1e200,2\n1,3\n4,4\n5,5\n",
        ["--task", "clustering", "--n-clusters", "2", "--no-scale"], "too long",
    ),
    "no Parquet": ("t.parquet", "PAR1", ["--target", "y"], "t.parquet is not a readable Parquet"),
    "no archive": ("t.npz", "nothing", [], "t.npz is not a readable npz archive"),
    "objects": (
        "t.npz", npz(X=SIX, y=np.array([{}] * 6, dtype=object)), [], "not a readable npz archive",
    ),
    "no X": ("t.npz", npz(Z=SIX, y=HALF), [], "neither X nor indices, indptr and shape, but Z"),
    "no y": ("t.npz", npz(X=SIX, z=HALF), [], "t.npz has no y"),
    "no such key": (
        "t.npz", npz(X=SIX, label=HALF), ["--target", "labels"],
        "there is no key 'labels': did you mean 'label'?",
    ),
    "a flat X": ("t.npz", npz(X=HALF, y=HALF), [], "X in t.npz must be a table of numbers"),
    "an empty X": ("t.npz", npz(X=SIX[:0], y=HALF[:0]), [], "X in t.npz is empty: its shape"),
    "a short y": ("t.npz", npz(X=SIX, y=HALF[:5]), [], "'y' in t.npz must have 6 entries"),
    "NaN in y": (
        "t.npz", npz(X=SIX, y=np.where(SIX[:, 0] > 5, np.nan, 0.5)), [],
        "'y' is missing or infinite in 3 rows, first in row 4",
    ),
    "NaN in X": (
        "t.npz", npz(X=np.where(SIX == 5, np.nan, SIX), y=HALF), [],
        "1 value is missing, in 'column 1' (1, first in row 3)",
    ),
    "a broken CSR": (
        "t.npz", npz(indices=[5], indptr=[0, 1], shape=[1, 5], y=[0]), [], "not a valid CSR",
    ),
    "NaN in CSR": (
        "t.npz", npz(indices=[1, 2], indptr=[0, 1, 2], shape=[2, 5], data=[1.0, np.nan], y=[0, 1]),
        [], "column 2 of sparse data is nan in row 2",
    ),
    "a bad LIBSVM line": (
        "t.libsvm", "1 1:0.5 2:1\n0 1:x\n", [], "line 2 of t.libsvm has '1:x', which is not column",
    ),
    "a bad LIBSVM label": (
        "t.libsvm", "1 1:1\nyes 1:1\n", [], "line 2 of t.libsvm begins with 'yes'",
    ),
    "LIBSVM columns that fall": (
        "t.libsvm", "1 1:1\n0 3:1 2:1\n", [], "line 2 of t.libsvm has column 2 after column 3",
    ),
    "NaN in LIBSVM": ("t.libsvm", "1 1:1\n0 1:nan\n", [], "line 2 of t.libsvm has '1:nan'"),
    "a target for LIBSVM": (
        "t.libsvm", "1 1:1\n0 1:2\n", ["--target", "y"], "leave out --target y",
    ),
    "a target for a set with one": ("iris", None, ["--target", "kind"], "iris needs no --target"),
    "a set without classes": (
        "diabetes", None, ["--task", "classification"], "diabetes is for regression",
    ),
    "a set without numbers": ("iris", None, ["--task", "regression"], "iris is for classification"),
    "alpha for clusters": (
        "iris", None, ["--task", "clustering", "--alpha", "1"], "--alpha is not for clustering",
    ),
    "clusters for classes": ("iris", None, ["--n-clusters", "3"], "--n-clusters is not for"),
    "groups for numbers": (
        "diabetes", None, ["--sampler", "group-vrb"], "--sampler group-vrb needs classes",
    ),
    "no epochs": ("iris", None, ["--epochs", "0"], "'0' is not an integer of at least 1"),
    "all held out": ("iris", None, ["--test", "1"], "number of at least 0 and less than 1"),
    "a negative penalty": ("iris", None, ["--alpha", "-1"], "'-1' is not a number of at least 0"),
    "a folder for public sets that is not there": (
        "kdd", None, ["--data", "/nowhere"], "there is no folder /nowhere",
    ),
}  # fmt: skip


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", DIRT)
def test_bad_input_gets_one_sentence(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name, content, arguments, said = DIRT[kind]
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        content(path)
    before = everything(tmp_path)
    assert main(["train", name, *arguments]) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert output.err.startswith("tombola: ")
    assert output.err.count("\n") == 1
    assert output.out == ""
    assert everything(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_folder_is_not_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").mkdir()
    assert main(["train", "t.csv"]) == 2
    assert "t.csv is a folder, not a file" in capsys.readouterr().err


def test_a_used_folder_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(GOOD)
    out = tmp_path / "out" / "train-t"
    out.mkdir(parents=True)
    (out / "mine.txt").write_text("keep")
    before = everything(tmp_path)
    for resume in ([], ["--resume"]):
        assert main(["train", "t.csv", "--target", "y", *resume]) == 2
        error = capsys.readouterr().err
        assert str(out.relative_to(tmp_path)) in error
        assert ("--resume" in error) == (not resume)
        assert everything(tmp_path) == before
    (tmp_path / "file").write_text("")
    assert main(["train", "t.csv", "--target", "y", "--out", "file"]) == 2
    assert "file is a file, not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "datasets"])
def test_every_command_refuses_arguments_that_it_does_not_know(command, capsys):
    what = {"reproduce": "regret"}.get(command, "iris")
    assert main([command, what, "--colour", "red"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--colour" in error
