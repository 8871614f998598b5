"""`tombola train`: the estimator's fit, saved; an interrupted run ends as one left alone."""

import argparse
import csv
import json
import os
import re
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning

from states import leaves
from tombola import estimators
from tombola.checkpoint import read as read_checkpoint
from tombola.cli import train, train_fit
from tombola.cli.data import open_data
from tombola.cli.main import main
from tombola.datasets import prepare, split
from tombola.estimators.plan import Plan
from tombola.solvers.choice import STOPS


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ran(*arguments):
    assert main(["train", *arguments]) == 0


def fitted(model, X, y):
    """Fit a model whose epochs may be too few."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def scaled(X, labels, share=0.2, seed=0):
    rows, held = split(len(X), share, seed, labels)
    ready = prepare(X[rows])
    return ready.apply(X[rows]), ready.apply(X[held]), rows, held


def arrays_of(path):
    """Return the arrays of a file, which is closed."""
    with np.load(path) as file:
        return dict(file)


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
    expected = fitted(estimators.LinearClassifier(max_iter=5, random_state=3), X, y[rows])
    model = arrays_of("out/train-breast_cancer/model.npz")
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
    _, predict, fit = code_in("out/train-digits/report.html")
    names = {"X": X, "y": bunch.target[rows]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of three epochs
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
    _, predict, fit = code_in("out/train-iris/report.html")
    from sklearn.datasets import load_iris

    raw = load_iris().data
    X, X_test, _, held = scaled(raw, None, share=0.1)
    names = {"X": X}
    exec(fit, names)
    model = arrays_of("out/train-iris/model.npz")
    np.testing.assert_array_equal(model["centres"], names["model"].cluster_centers_)
    new = {"X": raw[held]}
    exec(predict.replace("model.npz", "out/train-iris/model.npz"), new)
    np.testing.assert_array_equal(new["predicted"], names["model"].predict(X_test))
    record = json.loads(Path("out/train-iris/run.json").read_text())
    (score,) = record["scores"].values()
    assert score == pytest.approx(-names["model"].score(X_test) / len(X_test))


def test_the_trace_goes_from_the_start_to_the_end():
    ran("breast_cancer", "--solver", "sdca", "--epochs", "5", "--tol", "0", "--test", "0")
    with Path("out/train-breast_cancer/trace.csv").open() as file:
        rows = list(csv.DictReader(file))
    epochs = [0, 0.25, 0.5, 0.75, 1, 2, 3, 4, 5]
    assert [float(row["epoch"]) for row in rows] == pytest.approx(epochs, abs=0.02)
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
    model = arrays_of("out/train-t/model.npz")
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
    """Presses Ctrl-C after each fifteenth of the way, over all instances."""

    pressed = 0

    def __call__(self, done, total):
        if done < total and done >= Interrupting.pressed + total / 15:
            Interrupting.pressed = done
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)  # the main thread notes it


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
    for path in sorted((folder / "state").glob("*.npz")):
        state = read_checkpoint(path)
        state = {"state": state.get("result", {}).get("state", {}), "rule": state.get("rule")}
        for name, part in leaves(state).items():
            found[f"{path.name} {name}"] = np.asarray(part).tobytes()
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["breast_cancer", "--epochs", "40", "--tol", "0"],
        ["breast_cancer", "--epochs", "1", "--solver", "saga"],
        ["breast_cancer", "--epochs", "40", "--solver", "adagrad"],
        ["iris", "--epochs", "40", "--solver", "saga", "--alpha", "0", "--tol", "0.03"],
        ["iris", "--epochs", "2", "--solver", "adagrad", "--sampler", "vrb"],
        ["iris", "--epochs", "30", "--solver", "sdca", "--tol", "0", "--jobs", "2"],
        ["iris", "--task", "clustering", "--n-clusters", "3", "--epochs", "200", "--tol", "0"],
    ],
    ids=["sdca", "saga", "adagrad until it falls no more", "saga until nothing moves",
         "three classes by adagrad", "in threads", "k-means"],
)  # fmt: skip
def test_after_ctrl_c_a_run_goes_on_to_the_same_end(arguments, monkeypatch, capsys, request):
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
    assert codes.count(130) >= 3
    assert outcome("parts") == outcome("whole")
    if "until" in request.node.callspec.id:  # the rule has ended it, not the last epoch
        records = [json.loads(Path(place, "run.json").read_text()) for place in ("parts", "whole")]
        assert all(part["ended"] for record in records for part in record["parts"])
        assert records[0]["verdict"] == records[1]["verdict"]


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
    monkeypatch.setattr(train_fit.Recorder, "keep", lambda _, result: saved.append(result.rounds))
    ran("breast_cancer", "--epochs", "200", "--tol", "0", "--out", "one")
    assert len(saved) > 2
    assert saved == sorted(saved)


def test_divergence_is_said_plainly(monkeypatch, capsys):
    from tombola.solvers import SDCA, DivergenceError

    def diverge(*others, **more):
        raise DivergenceError("SDCA diverged in round 7: numbers overflow: scale the data")

    monkeypatch.setattr(SDCA, "minimize", diverge)
    assert main(["train", "breast_cancer", "--solver", "sdca"]) == 2
    assert "diverged in round 7" in capsys.readouterr().err


def test_the_solvers_are_those_of_the_estimators():
    assert ("auto", *STOPS) == train.SOLVERS


def opened(name):
    options = argparse.Namespace(
        file=name, target=None, task=None, impute=None, scale=None, data=None, download=False
    )
    return open_data(options)


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "sdca", "tol": 1e-6, "alpha": 1e-3, "max_iter": 30},
        {"solver": "saga", "alpha": 0.1, "tol": 1e-2},
        {"solver": "adagrad", "alpha": 1e-4, "tol": 1e-2},
        {"l1_ratio": 1.0, "alpha": 1e-2},
    ],
    ids=["sdca", "saga", "adagrad", "columns"],
)
def test_pauses_and_threads_do_not_change_the_fit(settings, tmp_path, monkeypatch):
    """Each class ends at a round of its own; it is the fit of an estimator that nobody observes."""
    data = opened("iris")
    plan = Plan(estimators.LinearClassifier(multi_class="ovr", random_state=0, **settings))
    expected = plan.model().fit(data.X, data.y)
    for name, jobs in (("whole", 1), ("parts", 3)):
        (tmp_path / name).mkdir()
        trained = train_fit.fit(data, plan, jobs, tmp_path / name, resume=False)
        monkeypatch.setattr(train_fit, "SAVE_EVERY", 0.0)
        np.testing.assert_array_equal(trained.model.coef_, expected.coef_)
        records = [recorder.record for recorder in trained.recorders]
        assert all(record.ended for record in records)
        if settings.get("solver") != "adagrad":  # the estimator has no gap then
            assert [record.gap for record in records] == expected.dual_gap_.tolist()
        assert len({record.epochs for record in records}) > 1
        solutions = np.column_stack([trained.model.coef_, trained.model.intercept_])
        parts = plan.estimator.parts(data.X, data.y)
        for part, record, solution in zip(parts, records, solutions, strict=True):
            assert record.objective == part.make().value(solution)
    before = {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    again = train_fit.fit(data, plan, 1, tmp_path / "parts", resume=True)
    np.testing.assert_array_equal(again.model.coef_, expected.coef_)
    assert {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()} == before


def test_threads_fit_the_same(capsys):
    ran("iris", "--solver", "sdca", "--out", "one")
    ran("iris", "--solver", "sdca", "--jobs", "3", "--out", "three")
    assert outcome("one") == outcome("three")


def test_a_class_that_fails_in_a_thread_ends_the_run(monkeypatch, capsys):
    from tombola.solvers import SDCA, DivergenceError

    minimize = SDCA.minimize

    def diverge(self, problem, **more):
        if problem.model.targets[0] > 0:
            raise DivergenceError("SDCA diverged in round 7: numbers overflow: scale the data")
        return minimize(self, problem, **more)

    monkeypatch.setattr(SDCA, "minimize", diverge)
    assert main(["train", "iris", "--solver", "sdca", "--jobs", "3", "--out", "one"]) == 2
    assert "diverged in round 7" in capsys.readouterr().err
    assert not Path("one").exists()


def test_clusters_have_no_tolerance(capsys):
    assert main(["train", "iris", "--task", "clustering", "--tol", "0.1"]) == 2
    assert "--tol 0.1 is not for clustering" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--l1-ratio", "1"], ["--solver", "saga"]])
def test_the_loss_on_rows_held_out_is_in_the_trace(arguments):
    ran("breast_cancer", "--epochs", "20", "--out", "one", *arguments)
    bunch = load_breast_cancer()
    y = bunch.target_names[bunch.target]
    _, X_test, _, held = scaled(bunch.data, y)
    model = arrays_of("one/model.npz")
    margins = (X_test @ model["coef"][0] + model["intercept"][0]) * np.where(
        y[held] == "malignant", 1, -1
    )
    with Path("one/trace.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["held_out_loss"]) == pytest.approx(np.logaddexp(0, -margins).mean())
