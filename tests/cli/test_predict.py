"""`tombola predict`: what the model predicts in Python, for files of any format, by pieces."""

import gzip
import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from tombola.cli import predict as predict_module
from tombola.cli.main import main
from tombola.datasets import csv_files, read_table
from tombola.datasets.encode import RULES
from tombola.estimators import LinearClassifier
from tombola.models import load_model, read_model
from tombola.state import CheckpointError
from tombola.state.archive import read, write


def frame(n, seed):
    rng = np.random.default_rng(seed)
    size, kind = rng.normal(size=n), rng.choice(["cat", "dog", "owl"], size=n)
    return pd.DataFrame({
        "id": np.arange(n) + 1,
        "size": np.where(rng.random(n) < 0.05, np.nan, size),
        "kind": kind,
        "city": [f"c{k}" for k in rng.integers(0, 250, size=n)],
        "when": [f"{d}.{m}.2021" for d, m in rng.integers(1, 13, size=(n, 2))],
        "flag": rng.random(n) < 0.5,
        "label": np.where(size + (kind == "cat") > 0.5, "yes", np.where(size < -1, "never", "no")),
        "price": 3 * size + (kind == "dog"),
    })  # fmt: skip


TASKS = {
    "classification": ["--target", "label", "--drop", "price"],
    "regression": ["--target", "price", "--drop", "label"],
    "clustering": ["--task", "clustering", "--drop", "label,price", "--n-clusters", "4"],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with new rows, and a run for each task."""
    folder = tmp_path_factory.mktemp("predict")
    frame(900, 0).to_csv(folder / "train.csv", index=False)
    new = frame(100, 1).drop(columns=["label", "price"])
    new.loc[3, "kind"] = "yak"
    new.loc[4, "city"] = "elsewhere"
    new.to_csv(folder / "new.csv", index=False)
    new.to_parquet(folder / "new.parquet", index=False)
    (folder / "new.csv.gz").write_bytes(gzip.compress((folder / "new.csv").read_bytes()))
    for task, arguments in TASKS.items():
        common = ["--impute", "median", "--epochs", "5", "--out", str(folder / task)]
        assert main(["train", str(folder / "train.csv"), *arguments, *common]) == 0
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def predict(home, task, file="new.csv", out="p.csv", *more):
    return main(["predict", str(home / task), str(home / file), "--out", out, *more])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("file", ["new.csv", "new.parquet", "new.csv.gz"])
def test_the_file_holds_what_the_model_predicts(home, task, file, capsys, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK", 500)
    assert predict(home, task, file) == 0
    found = pd.read_csv("p.csv")
    model = load_model(home / task)
    new = pd.read_csv(home / "new.csv")
    first = {"clustering": "cluster"}.get(task, "predicted")
    if task == "regression":
        np.testing.assert_allclose(found["predicted"], model.predict(new), rtol=1e-12)
    else:
        np.testing.assert_array_equal(found[first], model.predict(new))
    if task == "classification":
        names = [f"probability of {it}" for it in ("never", "no", "yes")]
        assert list(found.columns) == ["predicted", *names]
        np.testing.assert_allclose(found[names], model.predict_proba(new), rtol=1e-12)
    output = capsys.readouterr().out
    assert f"new: 100 rows, {task}" in output
    assert "The column 'id' was not used in training: ignored." in output


def test_the_model_is_that_of_the_estimator_on_the_same_rows(home):
    data = read_table(home / "train.csv", "label", drop=["price"], impute=True)
    model = load_model(home / "classification")
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    from tombola.datasets import hold_out

    data = hold_out(data)
    again = make_pipeline(
        clone(model[0]), LinearClassifier(max_iter=5, random_state=0)
    ).fit(data.X, data.y)
    np.testing.assert_array_equal(again.predict(data.X_test), model.predict(data.X_test))
    np.testing.assert_allclose(
        again.predict_proba(data.X_test), model.predict_proba(data.X_test), rtol=1e-4, atol=1e-6
    )
    record = json.loads((home / "classification" / "run.json").read_text())
    assert record["scores"]["accuracy"] == model.score(data.X_test, data.y_test)


def test_predictions_in_other_formats(home):
    for name in ("p.csv", "p.tsv", "p.parquet", "p.npz"):
        assert predict(home, "classification", "new.csv", name) == 0
    whole = pd.read_csv("p.csv")
    pd.testing.assert_frame_equal(pd.read_csv("p.tsv", sep="\t"), whole)
    pd.testing.assert_frame_equal(pd.read_parquet("p.parquet"), whole)
    with np.load("p.npz") as arrays:
        assert arrays["predicted"].tolist() == whole["predicted"].tolist()
        assert arrays["classes"].tolist() == ["never", "no", "yes"]
        probabilities = whole[whole.columns[1:]]
        np.testing.assert_allclose(  # old versions of pandas parse the last bit otherwise
            arrays["probabilities"], probabilities, rtol=4e-16, atol=4e-16
        )


def test_arrays_sparse_rows_and_sets_with_a_name(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((120, 6)) < 0.5, rng.normal(size=(120, 6)), 0)
    y = (X[:, 0] > 0).astype(int)
    dump_svmlight_file(X, y, "t.libsvm", zero_based=False)
    narrow = X[:20].copy()
    narrow[:, 5] = 0  # the last column does not occur
    dump_svmlight_file(narrow, np.zeros(20), "new.libsvm", zero_based=False)
    np.savez("t.npz", X=np.column_stack([y, X]))
    np.savez("new.npz", X=narrow)
    for file, arguments, new in (("t.libsvm", [], "new.libsvm"),
                                 ("t.npz", ["--target", "0"], "new.npz")):  # fmt: skip
        run = file.replace(".", "-")
        assert main(["train", file, *arguments, "--epochs", "3", "--out", run]) == 0
        assert main(["predict", run, new, "--out", f"{run}.csv"]) == 0
        import scipy.sparse as sp

        rows = sp.csr_matrix(narrow) if file == "t.libsvm" else narrow
        model = load_model(run)
        assert pd.read_csv(f"{run}.csv")["predicted"].tolist() == model.predict(rows).tolist()
    assert main(["predict", "t-npz", "t.npz", "--out", "more.csv"]) == 0  # with the target
    assert pd.read_csv("more.csv")["predicted"].tolist() == model.predict(X).tolist()
    capsys.readouterr()
    assert main(["predict", "t-npz", "new.libsvm", "--out", "no.csv"]) == 2
    assert "sparse rows, but the model was trained on dense ones" in capsys.readouterr().err


# --- what is refused ----------------------------------------------------------------------------

HEADER = "size,kind,city,when,flag\n"
REFUSED = {
    "a lost column": ("sise,kind,city,when,flag\n1,cat,c1,1.2.2021,True\n",
                      "there is no column 'size': did you mean 'sise'?"),
    "lost columns": ("kind,city,flag\ncat,c1,True\n",
                     "new.csv lacks 2 columns of the training rows: 'size' and 'when'"),
    "text for numbers": (HEADER + "1,cat,c1,1.2.2021,True\nbig,cat,c1,1.2.2021,True\n",
                         "line 3 of new.csv, column 'size': 'big' is not a number"),
    "no date": (HEADER + "1,cat,c1,2021-02-03,True\n",
                "line 2 of new.csv, column 'when': '2021-02-03' is not a date written as day-mon"),
    "infinite": (HEADER + "1,cat,c1,1.2.2021,True\ninf,cat,c1,1.2.2021,True\n",
                 "1 value of 'size' is infinite or too large, first in line 3 of new.csv"),
    "no rows": (HEADER, "new.csv has a header but no rows"),
    "too few fields": (HEADER + "1,cat,c1\n", "line 2 of new.csv has 3 fields"),
    "no header": ("1,cat,c1,1.2.2021,True\n",
                  "'when' and 'flag' (its first line names '1', 'cat', 'c1', "),
    "neither names nor columns": ("1,2\n3,4\n", "new.csv has no header, so its columns must be"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_new_rows_that_do_not_fit_are_refused(kind, home, tmp_path, capsys):
    text, said = REFUSED[kind]
    (tmp_path / "new.csv").write_text(text)
    assert main(["predict", str(home / "classification"), "new.csv", "--out", "p.csv"]) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert output.err.count("\n") == 1
    assert set(re.findall(r"--[\w-]+", output.err)) <= {"--out", "--impute"}  # flags that it has
    assert sorted(it.name for it in tmp_path.iterdir()) == ["new.csv"]


def test_missing_values_as_in_training_or_on_request(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,k,y\n" + "1,u,0\n2,v,1\n3,u,0\n5,v,1\n" * 5)
    (tmp_path / "new.csv").write_text("a,k\n1,u\n,u\n2,\n")
    assert main(["train", "t.csv", "--target", "y", "--epochs", "2", "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "new.csv"]) == 2
    error = capsys.readouterr().err
    assert "2 values are missing, in 'a' (1, first in line 3 of new.csv) and 'k' (1," in error
    assert error.endswith("with --impute median\n")
    assert main(["predict", "run", "new.csv", "--impute", "median"]) == 0
    model = load_model("run")
    expected = model.predict(pd.DataFrame({"a": [2.5], "k": ["u"]}))
    assert pd.read_csv("predictions.csv")["predicted"][1] == expected[0]


def test_the_folder_and_the_output_are_checked_first(home, tmp_path, capsys):
    def said(*arguments):
        assert main(["predict", *map(str, arguments)]) == 2
        return capsys.readouterr().err

    new, run = home / "new.csv", home / "classification"
    assert "there is no folder nowhere" in said("nowhere", new)
    assert "holds no model of `tombola train`" in said(tmp_path, new)
    assert "must end in .csv, .tsv, .parquet or .npz" in said(run, new, "--out", "p.xlsx")
    assert "there is no folder a" in said(run, new, "--out", "a/p.csv")
    (tmp_path / "p.csv").write_text("mine")
    assert "p.csv exists already" in said(run, new, "--out", "p.csv")
    assert "there is no file no.csv" in said(run, "no.csv")
    shutil.copytree(run, "copy")
    record = json.loads((tmp_path / "copy" / "run.json").read_text())
    (tmp_path / "copy" / "run.json").write_text(json.dumps({**record, "finished": False}))
    assert "the run in copy is not finished: continue it with --resume" in said("copy", new)


# --- models that are damaged or crafted ---------------------------------------------------------


def test_a_damaged_model_is_refused(home, tmp_path, capsys):
    shutil.copytree(home / "classification", "copy")
    path = tmp_path / "copy" / "model.npz"
    whole = path.read_bytes()
    for wrong in (
        whole[:-9],
        whole[: len(whole) // 2],
        bytes([whole[0], whole[1] ^ 1]) + whole[2:],
    ):
        path.write_bytes(wrong)
        with pytest.raises(CheckpointError):
            load_model("copy")
    assert main(["predict", "copy", str(home / "new.csv")]) == 2
    assert "the model cannot be used" in capsys.readouterr().err
    write(path, {"class": "Draw"})
    with pytest.raises(CheckpointError, match="does not describe a model: the state is of 'Draw'"):
        read_model(path)


def changed(state, at, value):
    *way, last = at
    for key in way:
        state = state[key]
    state[last] = value


CRAFTED = [
    (["format"], 99),
    (["task"], "ranking"),
    (["parameters"], {"alpha": -1.0}),
    (["parameters"], {"nothing": 1}),
    (["coef"], np.ones((3, 2))),
    (["coef"], np.full((3, 9), np.nan)),
    (["intercept"], np.ones(2)),
    (["classes"], np.array(["a", "b"])),
    (["classes"], np.array(["a", "a", "b"])),
    (["kept"], np.array([0, 1, 99])),
    (["kept"], np.array([1, 0])),
    (["scale"], np.zeros(9)),
    (["fill"], np.array(["x"] * 9)),
    (["prepare", "width"], -1),
    (["prepare", "names"], ["a"]),
    (["prepare", "parameters"], {"nothing": 1, "keep": []}),
    (["prepare", "encoding"], None),
    (["prepare", "encoding", 0, "rule"], "eval"),
    (["prepare", "encoding", 0, "column"], "unheard"),
    (["prepare", "encoding", 1, "values"], [1, 2, 3]),
    (["prepare", "encoding", 2, "shares"], np.ones(2)),
    (["prepare", "encoding", 3, "form"], "(a+)+$"),
    (["prepare", "encoding", 3, "first"], "x"),
    (["read_as", "reading"], {"nothing": 1}),
    (["read_as", "first"], 7),
    (["read_as", "first"], 1.0),
    (["read_as", "other"], 7),
    (["read_as"], []),
    (["read_as", "reading"], [1]),
    (["read_as", "reading"], {"decimal": 5}),
    (["read_as", "reading"], {"decimal": ",,"}),
    (["read_as", "reading"], {"thousands": None}),
    (["read_as", "reading"], {"encoding": 5}),
    (["read_as", "reading"], {"encoding": "utf\0"}),
    (["read_as", "reading"], {"missing": [1]}),
    (["read_as", "reading"], {"drop": [[1]]}),
    (["read_as", "reading"], {"drop": 5}),
    (["read_as", "reading"], {"target": ["a"]}),
    (["read_as", "reading"], {"impute": "yes"}),
    (["class"], np.array(["model", "model"])),
    (["format"], np.array([1, 1])),
    (["format"], True),
    (["task"], np.array(["classification"])),
    (["parameters"], [1]),
    (["parameters", "loss"], "hinge"),
    (["coef"], np.full((3, 9), 1e308)),
    (["coef"], "x"),
    (["intercept"], np.full(3, -1e308)),
    (["classes"], np.array([1, 2, 0x7FFFFFFF], dtype=np.uint32).view("<U1")),
    (["classes"], np.array([1, 2, 0xD800], dtype=np.uint32).view("<U1")),
    (["classes"], np.array([1, 2, 0xD800], dtype=">u4").view(">U1")),
    (["classes"], np.array([1.0, 2.0, np.nan])),
    (["classes"], np.array([b"a", b"b", b"c"])),
    (["kept"], 5),
    (["mean"], np.zeros(9, dtype=np.float32)),
    (["prepare"], None),
    (["prepare", "width"], 10**12),
    (["prepare", "names"], 5),
    (["prepare", "parameters", "keep"], 5),
    (["prepare", "parameters", "keep"], ["\ud800"]),
    (["prepare", "parameters", "impute"], np.zeros(2)),
    (["prepare", "parameters", "encode"], "other"),
    (["prepare", "parameters", "scale"], 1),
    (["prepare", "encoding"], 5),
    (["prepare", "encoding", 0], np.zeros(3)),
    (["prepare", "encoding", 0], {}),
    (["prepare", "encoding", 0, "rule"], ["AsIs"]),
    (["prepare", "encoding", 2, "shares"], None),
    (["prepare", "encoding", 3, "first"], 10**30),
    (["prepare", "encoding", 3, "form"], np.zeros(2)),
]


@pytest.mark.parametrize("at", range(len(CRAFTED)))
def test_a_crafted_model_is_refused(home, at, tmp_path):
    state = read(home / "classification" / "model.npz")
    write(tmp_path / "same.npz", state)
    read_model(tmp_path / "same.npz")
    changed(state, *CRAFTED[at])
    write(tmp_path / "model.npz", state)
    with pytest.raises(CheckpointError, match=r"model.npz"):
        read_model(tmp_path / "model.npz")


@pytest.mark.parametrize("width", [2**17, 10**12])
def test_columns_without_names_are_not_more_than_the_file_holds(width, tmp_path):
    """Of an array without names, constant columns are left out: the width is above the kept."""
    assert main(["train", "imbalanced", "--epochs", "1", "--out", "run"]) == 0
    state = read("run/model.npz")
    assert state["prepare"]["names"] == []
    changed(state, ["prepare", "width"], 100)
    write("run/model.npz", state)
    assert read_model("run").prepare.n_features_in_ == 100
    changed(state, ["prepare", "width"], width)
    write("run/model.npz", state)
    with pytest.raises(CheckpointError, match=f"of {width} columns, it keeps 50"):
        read_model("run")


def hashed(column, size=64):
    return {"rule": "Hashed", "column": column, "size": size}


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([hashed("a", 2**16)], "size must be .*, got 65536"),
        ([hashed("a")] * 200, "its encoding is not that of its columns"),
        ([hashed("a"), hashed("b")], "its encoding is not that of its columns"),
        ([hashed("b")], "its encoding is not that of its columns"),
        ([hashed("a" * 2**18)], "the names of its columns are too long"),
    ],
)
def test_an_encoding_makes_no_more_columns_than_the_file_holds(rules, said, home, tmp_path):
    state = read(home / "classification" / "model.npz")
    names = [rules[0]["column"]] if len(rules[0]["column"]) > 1 else ["a"]
    state["prepare"] |= {"encoding": [hashed(names[0])], "width": 1, "names": names}
    if "long" not in said:
        write(tmp_path / "model.npz", state)
        made = read_model(tmp_path / "model.npz").prepare.preparation_.columns
        assert made == tuple(f"a#{k}" for k in state["kept"])
    state["prepare"]["encoding"] = rules
    write(tmp_path / "model.npz", state)
    with pytest.raises(CheckpointError, match=said):
        read_model(tmp_path / "model.npz")


def test_long_classes_and_many_of_them_are_predicted_in_parts(home, monkeypatch):
    assert predict(home, "classification") == 0
    monkeypatch.setattr(predict_module, "ANSWER", 500)
    seen = []
    monkeypatch.setattr(
        LinearClassifier, "predict", spied(LinearClassifier.predict, lambda X: seen.append(len(X)))
    )
    assert predict(home, "classification", "new.csv", "parts.csv") == 0
    pd.testing.assert_frame_equal(pd.read_csv("parts.csv"), pd.read_csv("p.csv"))
    assert len(seen) > 5
    assert sum(seen) == 100


def spied(method, note):
    def call(self, X):
        note(X)
        return method(self, X)

    return call


@pytest.mark.parametrize("change", [{"scale": 5e-324}, {"mean": 1e308, "scale": 1e-5}])
def test_numbers_that_overflow_are_said_plainly(change, home, tmp_path, capsys):
    shutil.copytree(home / "classification", "copy")
    state = read("copy/model.npz")
    for name, value in change.items():
        state[name][:] = value
    write("copy/model.npz", state)
    assert main(["predict", "copy", str(home / "new.csv")]) == 2
    assert "too large for the model" in capsys.readouterr().err
    assert not (tmp_path / "predictions.csv").exists()


def test_probabilities_that_overflow_are_said_plainly(home, capsys):
    shutil.copytree(home / "classification", "copy")
    state = read("copy/model.npz")
    state["coef"][:] = 1e154 * (-1.0) ** np.arange(state["kept"].size)
    state["mean"][:], state["scale"][:] = 1.0, 1e-200
    write("copy/model.npz", state)
    assert main(["predict", "copy", str(home / "new.csv")]) == 2
    assert "too large for the model" in capsys.readouterr().err


def test_the_model_of_the_tests_has_all_kinds_of_rules(home):
    state = read(home / "classification" / "model.npz")
    rules = {rule["rule"] for rule in state["prepare"]["encoding"]}
    assert rules == set(RULES) - {"Hashed", "Dropped"}


@pytest.mark.parametrize("at", ["parameters", "prepare.parameters", "read_as.reading"])
def test_messages_do_not_repeat_what_a_model_holds(at, home, tmp_path, capsys):
    """They are one line that a terminal only shows, however long the names in the file are."""
    state = read(home / "classification/model.npz")
    holder = state
    for key in at.split("."):
        holder = holder.setdefault(key, {})
    holder["\x1b[2J\n" + "k" * 10**5] = 1
    write(tmp_path / "model.npz", state)
    with pytest.raises(CheckpointError) as raised:
        read_model(tmp_path / "model.npz")
    assert len(str(raised.value)) < 6000
    assert main(["predict", str(tmp_path), str(home / "new.csv")]) == 2
    message = capsys.readouterr().err
    assert len(message) < 6000
    assert message.removesuffix("\n").isprintable()


@pytest.mark.parametrize("out", ["p.csv", "p.npz", "p.parquet"])
def test_rows_that_cannot_be_used_are_left_out_on_request(out, home, capsys):
    lines = (home / "new.csv").read_text().splitlines()
    lines[3:3] = [lines[1].replace(lines[1].split(",")[1], wrong) for wrong in ("big", "inf")]
    lines.insert(5, "1,2")
    cells = lines[7].split(",")
    cells[4] = "2021-02-03"
    lines[7] = ",".join(cells)
    (home / "dirty.csv").write_text("\n".join(lines) + "\n")
    assert predict(home, "classification", "dirty.csv", "no.csv") == 2
    assert predict(home, "classification", "dirty.csv", out, "--skip-bad-rows") == 0
    assert "4 rows were left out: the first column of the answer says" in capsys.readouterr().out
    assert predict(home, "classification", "new.csv", "whole.csv") == 0
    whole = pd.read_csv("whole.csv").drop(index=[3])
    places = [f"line {k + 1}" for k in range(1, len(lines)) if k not in (3, 4, 5, 7)]
    if out == "p.npz":
        with np.load(out) as found:
            assert found["place"].tolist() == places
            assert (found["predicted"] == whole["predicted"]).all()
            assert found["probabilities"].shape == (len(places), 3)
        return
    found = pd.read_csv(out) if out == "p.csv" else pd.read_parquet(out)
    assert found["place"].tolist() == places
    pd.testing.assert_frame_equal(found.drop(columns="place"), whole.reset_index(drop=True))
