"""`tombola advise`: from a file to the verdict; what is refused, in one sentence."""

import html
import json
import os

import numpy as np
import pytest

from tombola.cli.main import main


@pytest.fixture
def folder(tmp_path):
    """A folder with data.csv: two classes in `label`, a number in `price`, and more columns."""
    rng = np.random.default_rng(0)
    n = 400
    label = np.where(np.arange(n) % 10 == 0, "rare", "common")
    X = rng.normal(size=(n, 3)) + 2.0 * (label == "rare")[:, None]
    lines = ["label,price,a,b,c,same"]
    lines += [f"{name},{row.sum():.6g},{row[0]},{row[1]},{row[2]},7"
              for name, row in zip(label, X, strict=True)]  # fmt: skip
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "one.csv").write_text("label,a\n" + "same,1.5\nsame,2.5\n" * 20)
    return tmp_path


def advise(capsys, folder, *arguments, file="data.csv"):
    """Run the command with a budget of a second or so; return exit code, stdout and stderr."""
    code = main(["advise", str(folder / file), "--budget", "2", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_the_text_begins_with_the_verdict(folder, capsys):
    code, out, _ = advise(capsys, folder, "--target", "label")
    first = out.split("\n")[0]
    assert code == 0
    assert first.startswith("data: ")
    assert first.endswith(".")
    assert len(out.rstrip("\n").split("\n")) <= 25
    for part in (
        "Adaptive draws",
        "where less than 0.9 pays",
        "make_pipeline(",
        "times as long  passes",
    ):
        assert part in out


def test_machines_get_strict_json_and_nothing_else_on_stdout(folder, capsys):
    page = folder / "page.html"
    code, out, err = advise(capsys, folder, "--target", "label", "--json", "--html", page)
    record = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert code == 0
    assert record["command"] == "advise"
    assert record["data"]["rows"] == 320
    assert record["data"]["columns"] == 4
    assert len(record["data"]["checksum"]) == 64
    assert record["advice"]["task"] == "classification"
    assert record["advice"]["use"] in ("scikit-learn", "tombola", "undecided")
    assert record["advice"]["groups"][0]["group"] == "rare"
    assert str(page) in err


def test_the_page_is_saved_and_says_the_same(folder, capsys):
    page = folder / "page.html"
    code, out, _ = advise(capsys, folder, "--target", "label", "--html", page)
    text = page.read_text(encoding="utf-8")
    assert code == 0
    assert text.count("<svg") == 3
    assert "://" not in text
    assert out.split("\n")[0].removeprefix("data: ") in html.unescape(text)
    assert "SHA-256" in text
    assert "'same' is constant" in html.unescape(text)
    assert sorted(os.listdir(folder)) == ["data.csv", "one.csv", "page.html"]


def test_regression_and_clustering_are_advised_about(folder, capsys):
    code, out, _ = advise(capsys, folder, "--target", "price", "--task", "regression")
    assert code == 0
    assert "Ridge(" in out
    assert "tombola's LinearRegressor" in out
    code, out, _ = advise(capsys, folder, "--target", "label", "--task", "clustering",
                          "--n-clusters", 5)  # fmt: skip
    assert code == 0
    assert "KMeans(n_clusters=5" in out


@pytest.mark.parametrize(
    ("file", "arguments", "words"),
    [
        ("nowhere.csv", ["--target", "label"], "there is no file"),
        ("data.csv", ["--target", "lable"], "label"),
        ("one.csv", ["--target", "label"], "one value only"),
        ("data.csv", ["--target", "label", "--n-clusters", "3"], "--n-clusters is not for"),
        ("data.csv", ["--task", "clustering", "--target", "label", "--n-clusters", "401"],
         "--n-clusters must be from 1 to 320"),
        ("data.csv", ["--target", "label", "--seed", "-1"], "--seed"),
        ("data.csv", ["--task", "clustering", "--target", "label", "--l1"], "--l1 is not for"),
        ("data.csv", ["--task", "clustering", "--target", "label", "--alpha", "1"],
         "--alpha is not for"),
        ("data.csv", ["--target", "label", "--html", "{folder}/data.csv"], "exists already"),
        ("data.csv", ["--target", "label", "--html", "{folder}/no/page.html"], "no folder"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_changes_nothing(folder, capsys, file, arguments, words):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    given = [word.format(folder=folder) for word in arguments]
    code, out, err = advise(capsys, folder, *given, file=file)
    assert code == 2
    assert out == ""
    assert err.startswith("tombola: ")
    assert err.count("\n") == 1
    assert words in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
