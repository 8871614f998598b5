"""The script that `tombola advise` prints gives the score that it shows, on five kinds of file."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from tombola.cli.main import main


def dense(folder, rng):
    """Text columns, missing values and a constant; three classes, and one that is too small."""
    n = 400
    label = rng.choice(["one", "two", "three"], n)
    label[:4] = "tiny"
    shift = np.array([{"one": 0.0, "two": 1.0, "three": 2.0, "tiny": 9.0}[name] for name in label])
    colour = np.where(rng.random(n) < 0.3 + 0.2 * (shift == 1), "red", "blue")
    lines = ["label,colour,a,b,same"]
    for k in range(n):
        a = "" if k % 17 == 0 else f"{100 * (shift[k] + rng.normal()):.6g}"
        lines.append(f"{label[k]},{colour[k]},{a},{rng.normal():.6g},7")
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    return "data.csv", ["--target", "label", "--impute", "median"]


def text_like(folder, rng):
    """A LIBSVM file, whose rows are far from norm 1."""
    X = sparse.random(300, 500, 0.02, random_state=1, format="csr") * 50.0
    y = np.asarray(X @ rng.normal(size=500)).ravel() > 0
    dump_svmlight_file(X, y.astype(int), str(folder / "data.svm"))
    return "data.svm", []


def rare(folder, rng):
    n = 1000
    y = np.arange(n) % 25 == 0
    X = rng.normal(size=(n, 4)) + y[:, None]
    lines = ["x,y,z,w,found", *(",".join(f"{v:.6g}" for v in row) + f",{('no', 'yes')[int(t)]}"
                                for row, t in zip(X, y, strict=True))]  # fmt: skip
    (folder / "data.csv").write_text("\n".join(lines) + "\n")
    return "data.csv", ["--target", "found"]


def regression(folder, rng):
    X = rng.normal(size=(300, 5)) * [1, 10, 100, 1, 1]
    y = 3e5 + 1e4 * X[:, 0] + 10 * X[:, 2] + 1e3 * rng.normal(size=300)
    np.savez(folder / "data.npz", X=X, y=y)
    return "data.npz", ["--task", "regression"]


def clustering(folder, rng):
    X = rng.normal(size=(600, 3)) + 5 * rng.integers(0, 3, (600, 1))
    np.savez(folder / "data.npz", X=X)
    return "data.npz", ["--task", "clustering", "--n-clusters", "4"]


@pytest.mark.parametrize(
    "make", [dense, rare, regression, clustering, pytest.param(text_like, marks=pytest.mark.slow)]
)
def test_the_printed_script_prints_the_score_that_is_shown(make, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, arguments = make(tmp_path, np.random.default_rng(0))
    code = main(["advise", file, *arguments, "--budget", "1", "--seed", "3", "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    advice = json.loads(out)["advice"]
    script = tmp_path / "script.py"
    script.write_text(advice["code"])
    names = {}
    exec(compile(advice["code"], "script.py", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith(advice["score_name"] + ": ")
    assert float(printed.rsplit(" ", 1)[1]) == pytest.approx(advice["score"], abs=1e-6)
    chosen = next(m for m in advice["models"] if m["name"] == advice["method"])
    assert advice["score"] == pytest.approx(chosen["score"], abs=1e-12)
    if make is dense:
        assert "tiny" not in names["y"]
        assert any("tiny (" in note for note in advice["notes"])
    if make is regression:  # in a process of its own, too
        result = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert result.stdout == printed


ODD = {
    "train(1).csv": (["a b", "class", "label"], ["no", "yes"]),
    """it's "2" [x] {y}.csv""": (['x"y', "lambda'", "im port"], ["it's", 'a "b"']),
    "Größe данные 数据.csv": (["größe", "число", "标签"], ["да", "нет"]),
    "exit() print(2)\\n.csv": (["a(1)", "\\n", "from"], ["quit()", "\\t"]),
}


@pytest.mark.parametrize("file", ODD)
def test_the_script_runs_whatever_files_columns_and_labels_are_named(
    file, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    columns, labels = ODD[file]
    rng, y = np.random.default_rng(0), np.arange(200) % 4 == 0
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        for truth, row in zip(y, rng.normal(size=(200, 2)) + y[:, None], strict=True):
            writer.writerow([*map(repr, map(float, row)), labels[int(truth)]])
    code = main(["advise", file, "--target", columns[-1], "--budget", "1"])
    said, err = capsys.readouterr()
    assert code == 0, err
    begin = next(k for k, line in enumerate(said.split("\n")) if line.startswith("    from"))
    lines = [line[4:] for line in said.split("\n")[begin:] if line.startswith("    ")]
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-X", "utf8", script], capture_output=True, text=True, check=True,
        cwd=tmp_path, encoding="utf-8",
    )  # fmt: skip
    (line,) = (line for line in said.split("\n") if "printed by this script: " in line)
    assert float(result.stdout.rsplit(" ", 1)[1]) == pytest.approx(
        float(line.rsplit(" ", 1)[1]), abs=1e-6
    )
    assert f"average precision of {labels[1]}" in result.stdout


@pytest.mark.parametrize("make", [rare, regression])
def test_our_model_in_the_race_is_the_one_that_train_fits(make, tmp_path, capsys, monkeypatch):
    """The same rows held out, columns, penalty, tolerance and seed: the same held-out score."""
    monkeypatch.chdir(tmp_path)
    file, arguments = make(tmp_path, np.random.default_rng(0))
    assert main(["advise", file, *arguments, "--budget", "1", "--seed", "3", "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)["advice"]
    (ours,) = (m for m in advice["models"] if m["name"].startswith("tombola's Linear"))
    assert main(["train", file, *arguments, "--seed", "3", "--out", "run"]) == 0
    scores = json.loads((tmp_path / "run" / "run.json").read_text())["scores"]
    name = "R squared" if make is regression else "average precision of yes"
    assert scores[name] == pytest.approx(ours["score"], abs=1e-12)
    assert 0.1 < ours["score"] < 1.0 - 1e-9
