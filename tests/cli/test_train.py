"""`tombola train`: the estimator's model, to the bit; and a run that is interrupted ends alike."""

import argparse
import csv
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from states import leaves
from tombola import estimators
from tombola.checkpoint import read as read_checkpoint
from tombola.cli import train, train_fit, train_report
from tombola.cli.data import open_data
from tombola.cli.main import main
from tombola.datasets import prepare, split
from tombola.estimators.plan import Plan
from tombola.estimators.solver_table import SOLVERS
from tombola.solvers import Result


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ran(*arguments):
    assert main(["train", *arguments]) == 0


def scaled(X, labels, share=0.2, seed=0):
    rows, held = split(len(X), share, seed, labels)
    ready = prepare(X[rows])
    return ready.apply(X[rows]), ready.apply(X[held]), rows, held


def code_in(page):
    """Return the blocks of code in a page."""
    text = Path(page).read_text()
    return [
        block.replace("&#x27;", "'")
        .replace("&quot;", '"')
        .replace("&gt;", ">")
        .replace("&amp;", "&")
        for block in re.findall(r"<pre><code>(.*?)</code></pre>", text, re.DOTALL)
    ]


# --- what is fitted and saved -------------------------------------------------------------------


def test_the_model_is_that_of_the_estimator(capsys):
    ran("breast_cancer", "--epochs", "5", "--seed", "3")
    bunch = load_breast_cancer()
    y = bunch.target_names[bunch.target]
    X, X_test, rows, held = scaled(bunch.data, y, seed=3)
    expected = estimators.LinearClassifier(max_iter=5, tol=None, random_state=3).fit(X, y[rows])
    model = np.load("out/train-breast_cancer/model.npz")
    np.testing.assert_array_equal(model["coef"], expected.coef_)
    np.testing.assert_array_equal(model["intercept"], expected.intercept_)
    assert model["classes"].tolist() == ["benign", "malignant"]
    assert model["columns"].tolist() == list(bunch.feature_names)
    record = json.loads(Path("out/train-breast_cancer/run.json").read_text())
    assert record["finished"] is True
    assert record["scores"]["accuracy"] == expected.score(X_test, y[held])
    assert record["data"]["rows"] == len(rows)
    assert len(record["data"]["checksum"]) == 64
    assert record["settings"]["solver"] == "auto"
    output = capsys.readouterr().out
    assert f"accuracy {record['scores']['accuracy']:.4g}" in output
    assert "569 rows were held out" in output


def test_the_lines_in_the_report_predict_and_fit_the_same(capsys):
    ran("digits", "--epochs", "3", "--alpha", "0.01")
    bunch = load_digits()
    X, X_test, rows, held = scaled(bunch.data, bunch.target)
    predict, fit = code_in("out/train-digits/report.html")
    names = {"X": X, "y": bunch.target[rows]}
    exec(fit, names)
    kept = np.ptp(bunch.data[rows], axis=0) > 0
    raw = {"X": bunch.data[held][:, kept]}
    exec(predict.replace("model.npz", "out/train-digits/model.npz"), raw)
    np.testing.assert_array_equal(raw["predicted"], names["model"].predict(X_test))
    np.testing.assert_array_equal(raw["model"]["coef"], names["model"].coef_)
    record = json.loads(Path("out/train-digits/run.json").read_text())
    assert record["scores"]["accuracy"] == (raw["predicted"] == bunch.target[held]).mean()


def test_clustering_is_that_of_the_estimator(capsys):
    wanted = ["--task", "clustering", "--n-clusters", "3", "--epochs", "4", "--test", "0.1"]
    ran("iris", *wanted, "--scale")
    predict, fit = code_in("out/train-iris/report.html")
    from sklearn.datasets import load_iris

    raw = load_iris().data
    X, X_test, _, held = scaled(raw, None, share=0.1)
    names = {"X": X}
    exec(fit, names)
    model = np.load("out/train-iris/model.npz")
    np.testing.assert_array_equal(model["centres"], names["model"].cluster_centers_)
    new = {"X": raw[held]}
    exec(predict.replace("model.npz", "out/train-iris/model.npz"), new)
    np.testing.assert_array_equal(new["predicted"], names["model"].predict(X_test))
    record = json.loads(Path("out/train-iris/run.json").read_text())
    (score,) = record["scores"].values()
    assert score == pytest.approx(-names["model"].score(X_test) / len(X_test))


def test_the_trace_goes_from_the_start_to_the_end():
    ran("breast_cancer", "--epochs", "5", "--test", "0")
    with Path("out/train-breast_cancer/trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epoch"]) for row in rows][::4] == pytest.approx([0, 1, 2, 3, 4, 5], abs=0.02)
    share = (load_breast_cancer().target == 0).mean()  # with the best intercept
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert float(rows[0]["objective"]) == pytest.approx(entropy)
    assert float(rows[-1]["objective"]) < 0.2
    assert json.loads(Path("out/train-breast_cancer/run.json").read_text())["scores"] == {}


def test_a_file_with_some_dirt_that_may_be_imputed(tmp_path, capsys):
    rng = np.random.default_rng(0)
    size, kind = rng.normal(size=200), rng.integers(3, size=200)
    lines = [f"{s},{'abc'[k]},7,{int(s + k > 1)}" for s, k in zip(size, kind, strict=True)]
    lines[4] = ",b,7,1"
    Path("t.csv").write_text("size,kind,same,y\n" + "\n".join(lines) + "\n")
    ran("t.csv", "--target", "y", "--impute", "median", "--epochs", "3")
    output = capsys.readouterr().out
    assert "1 missing value became the median of its column." in output
    assert "The column 'same' is constant and was left out." in output
    assert "The text in 'kind' became 3 columns of 0 and 1." in output
    model = np.load("out/train-t/model.npz")
    assert model["columns"].tolist() == ["size", "kind=a", "kind=b", "kind=c"]
    known = np.delete(size, 4)
    train_rows = split(200, 0.2, 0, (np.array([line[-1] for line in lines])))[0]
    chosen = np.array([s for k, s in enumerate(size) if k != 4 and k in set(train_rows)])
    assert model["fill"][0] == np.median(chosen) != np.median(known)


def test_the_page_and_the_record_name_no_place_outside():
    ran("breast_cancer", "--epochs", "1")
    page = Path("out/train-breast_cancer/report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!#)|url\((?!#)", page)
    assert os.getcwd() not in page + Path("out/train-breast_cancer/run.json").read_text()


# --- interrupted and resumed --------------------------------------------------------------------


class Interrupting(train_fit.Progress):
    """Presses Ctrl-C a few times on the way, over all instances."""

    pressed = 0

    def __call__(self, done, total):
        if done < Interrupting.pressed:  # of the next class
            Interrupting.pressed = 0
        if done < total and done >= Interrupting.pressed + total / 7:
            Interrupting.pressed = done
            os.kill(os.getpid(), signal.SIGINT)


def outcome(folder):
    """Everything that a run leaves, without the times."""
    folder = Path(folder)
    with np.load(folder / "model.npz") as model:
        found = {f"model {name}": model[name].tolist() for name in model.files}
    with (folder / "trace.csv").open() as file:
        found["trace"] = [
            [value for name, value in row.items() if name != "seconds"]
            for row in csv.DictReader(file)
        ]
    for path in sorted((folder / "state").iterdir()):
        state = read_checkpoint(path)["state"]
        for name, part in leaves(state).items():
            found[f"{path.name} {name}"] = np.asarray(part).tobytes()
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["breast_cancer", "--epochs", "40"],
        ["breast_cancer", "--epochs", "1", "--solver", "saga"],
        ["iris", "--epochs", "2", "--solver", "adagrad", "--sampler", "vrb"],
        ["iris", "--task", "clustering", "--n-clusters", "3", "--epochs", "200"],
    ],
    ids=["sdca", "saga", "three classes by adagrad", "k-means"],
)
def test_after_ctrl_c_a_run_goes_on_to_the_same_end(arguments, monkeypatch, capsys):
    ran(*arguments, "--out", "whole")
    with monkeypatch.context() as patch:
        patch.setattr(train_fit, "Progress", Interrupting)
        patch.setattr(Interrupting, "pressed", 0)
        codes = [main(["train", *arguments, "--out", "parts"])]
        while codes[-1] == 130 and len(codes) < 100:
            assert "--resume continues" in capsys.readouterr().err
            record = json.loads(Path("parts/run.json").read_text())
            assert record["finished"] is False
            codes.append(main(["train", *arguments, "--out", "parts", "--resume"]))
    assert codes[-1] == 0
    assert codes.count(130) >= 4
    assert outcome("parts") == outcome("whole")


def test_the_comparison_sees_a_different_run():
    ran("breast_cancer", "--epochs", "2", "--out", "one")
    ran("breast_cancer", "--epochs", "2", "--out", "same")
    ran("breast_cancer", "--epochs", "2", "--seed", "1", "--out", "other")
    assert outcome("one") == outcome("same") != outcome("other")


def test_a_finished_run_is_left_as_it_is_by_resume():
    ran("breast_cancer", "--epochs", "2", "--out", "one")
    before = outcome("one")
    states = {path: path.read_bytes() for path in Path("one/state").iterdir()}
    ran("breast_cancer", "--epochs", "2", "--out", "one", "--resume")
    assert outcome("one") == before
    assert {path: path.read_bytes() for path in Path("one/state").iterdir()} == states


def test_resume_without_a_run_begins_one():
    ran("breast_cancer", "--epochs", "1", "--out", "new", "--resume")
    assert Path("new/model.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["breast_cancer", "--epochs", "3"], "one was begun with epochs = 2, this is 3"),
        (
            ["breast_cancer", "--epochs", "2", "--no-scale"],
            "begun with scale = True, this is False",
        ),
        (["wine", "--epochs", "2"], "one was begun with other data than scikit-learn's load_wine"),
    ],
)
def test_a_run_goes_on_with_the_same_settings_alone(arguments, said, capsys):
    ran("breast_cancer", "--epochs", "2", "--out", "one")
    before = {path: path.read_bytes() for path in Path("one").rglob("*") if path.is_file()}
    assert main(["train", *arguments, "--out", "one", "--resume"]) == 2
    assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("one").rglob("*") if path.is_file()} == before


def test_a_damaged_state_is_refused(capsys):
    ran("breast_cancer", "--epochs", "2", "--out", "one")
    path = Path("one/state/0.npz")
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["train", "breast_cancer", "--epochs", "2", "--out", "one", "--resume"]) == 2
    assert "the saved run cannot be continued" in capsys.readouterr().err


def test_a_run_is_saved_on_the_way(monkeypatch):
    saved = []
    monkeypatch.setattr(train_fit, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(Result, "save", lambda self, path: saved.append(self.rounds))
    ran("breast_cancer", "--epochs", "200", "--out", "one")
    assert len(saved) > 2
    assert saved == sorted(saved)


def test_divergence_is_said_plainly(monkeypatch, capsys):
    from tombola.solvers import SDCA, DivergenceError

    def diverge(*others, **more):
        raise DivergenceError("SDCA diverged in round 7: numbers overflow: scale the data")

    monkeypatch.setattr(SDCA, "minimize", diverge)
    assert main(["train", "breast_cancer"]) == 2
    assert "diverged in round 7" in capsys.readouterr().err


def test_the_solvers_are_those_of_the_estimators():
    assert ("auto", *SOLVERS) == train.SOLVERS


def test_a_solver_that_ends_within_its_tolerance_ends_the_run(tmp_path, monkeypatch):
    """Each class ends at a round of its own; pauses to save and a second start change nothing."""
    options = argparse.Namespace(
        file="iris", target=None, task=None, impute=None, scale=None, data=None, download=False
    )
    data = open_data(options)
    plan = Plan(estimators.LinearClassifier(tol=1e-6, alpha=1e-3, max_iter=30, random_state=0))
    whole, parts = train_fit.Fit(data, plan), train_fit.Fit(data, plan)
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    whole.run(tmp_path / "whole", resume=False)
    monkeypatch.setattr(train_fit, "SAVE_EVERY", 0.0)
    parts.run(tmp_path / "parts", resume=False)
    expected = plan.model().fit(data.X, data.y)
    for fit in (whole, parts):
        np.testing.assert_array_equal(fit.model()["coef"], expected.coef_)
        assert [outcome.gap for outcome in fit.outcomes] == expected.dual_gap_.tolist()
        assert len({len(outcome.trace) for outcome in fit.outcomes}) > 1
        for part, outcome in zip(fit.parts, fit.outcomes, strict=True):
            assert outcome.trace.objective[-1] == part.make().value(outcome.solution)
    before = {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    again = train_fit.Fit(data, plan)
    again.run(tmp_path / "parts", resume=True)
    np.testing.assert_array_equal(again.solution, whole.solution)
    assert {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()} == before
    record = {"scores": {}, "settings": {}, "versions": {}, "seconds": 0.0}
    page = train_report.report(whole, record).html()
    assert "relative duality gap" in page
