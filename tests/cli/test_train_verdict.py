"""What `tombola train` says about its end is true, whatever the trace looks like."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from tombola.cli.main import main
from tombola.cli.runs import Course
from tombola.cli.verdict import percent, verdict
from tombola.datasets import Preparer


def course(objective, *, gap=np.nan, epochs=None, rule="gap", ended=False, unit=1.0, name="a"):
    objective = np.asarray(objective, dtype=float)
    epochs = np.arange(len(objective), dtype=float) if epochs is None else np.asarray(epochs)
    nan = np.full(len(objective), np.nan)
    gaps = nan.copy()
    gaps[-1] = gap
    return Course(name, epochs, epochs, objective, nan, gaps, nan, unit, rule, ended)


CASES = {
    "a certificate within the tolerance": (
        course([1.0, 0.5, 0.39001], gap=1e-5, ended=True),
        "settled: the objective is at most 0.0026% above its minimum (certificate)",
    ),
    "a minimum of about 0": (
        course([1.0, 1e-5], gap=1e-5, ended=True),
        "settled: the objective is above its minimum by at most 0.001% of its value at w = 0 "
        "(certificate)",
    ),
    "a certificate, too few epochs": (
        course([1.0, 0.5, 0.4], gap=0.01),
        "not settled: the objective is at most 2.6% above its minimum (certificate); it still "
        "falls 20% an epoch: use more --epochs",
    ),
    "a certificate that proves little": (
        course([1.0, 0.5, 0.4], gap=0.3),
        "not settled: the objective is 0.4, its minimum 0.1 or more (certificate); it still falls "
        "20% an epoch: use more --epochs",
    ),
    "a certificate that proves nothing": (
        course([1.0, 0.5, 0.4], gap=np.inf),
        "not settled: it still falls 20% an epoch: use more --epochs",
    ),
    "an objective that overflows": (
        course([np.inf, np.nan]),
        "not settled: use more --epochs",
    ),
    "one epoch": (
        course([1.0, 0.9, 0.6], epochs=[0, 0.5, 1.0]),
        "not settled: it still falls 40% an epoch: use more --epochs",
    ),
    "three epochs": (
        course([1.0, 0.6, 0.5, 0.45]),
        "not settled: it still falls 10% an epoch: use more --epochs",
    ),
    "the pace is that of the last tenth": (
        course([1.0, *np.full(9, 0.5), 0.4], epochs=[0, *range(81, 90), 100]),
        "not settled: it still falls 2% an epoch: use more --epochs",
    ),
    "no longer falling": (
        course([1.0, 0.5, 0.6, 0.55, 0.56, 0.6], rule="objective"),
        "not settled: it is no lower than 4 epochs before",
    ),
    "never fallen": (
        course([1.0, 1.1, 1.2]),
        "not settled: it is no lower than at the start: try another --solver, or --scale",
    ),
    "hardly falling": (
        course([1.0, 0.5, 0.5 - 1e-9]),
        "not settled: it falls by less than 0.0001% an epoch",
    ),
    "adagrad has stopped": (
        course([1.0, 0.5, 0.4], rule="objective", ended=True),
        "stopped: as estimated from the draws it has not fallen by 0.01% for 5 epochs: a smaller "
        "--tol goes on",
    ),
    "adagrad has stopped, and a certificate": (
        course([1.0, 0.5, 0.4], gap=5e-5, rule="objective", ended=True),
        "settled: the objective is at most 0.013% above its minimum (certificate)",
    ),
    "saga without penalty": (
        course([1.0, 0.5, 0.4], rule="change", ended=True),
        "stopped: no coefficient has moved by more than 0.01% of the largest one in an epoch; "
        "there is no certificate",
    ),
    "k-means": (
        course([1.0, 0.5, 0.4], rule="batches", ended=True, unit=np.nan),
        "stopped: the mean squared distance has not fallen for 10 mini-batches; it is a local "
        "minimum at best, another --seed may end lower",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_words(case):
    given, words = CASES[case]
    assert verdict([given], 1e-4) == words


def test_several_classes():
    good = course([1.0, 0.4], gap=1e-5, ended=True)
    better = course([1.0, 0.8], gap=2e-5, ended=True)  # its gap is larger, but not in percent
    slow = course([1.0, 0.5], gap=0.1, name="b")
    slower = course([1.0, 0.5], gap=0.2, name="c")
    assert verdict([good, better], 1e-4) == (
        "settled: the objective of each of 2 classes is at most 0.0026% above its minimum "
        "(certificate)"
    )
    assert verdict([good, slow, slower], 1e-4) == (
        "not settled: 2 of 3 classes, for example 'c': the objective is at most 67% above its "
        "minimum (certificate); it still falls 50% an epoch: use more --epochs"
    )
    stopped = course([1.0, 0.4], rule="objective", ended=True, name="d")
    assert verdict([good, stopped], 1e-4).startswith("stopped: 1 of 2 classes, for example 'd': as")


def test_all_epochs_are_measured_by_the_usual_tolerance():
    assert verdict([course([1.0, 0.4], gap=9e-5)], None).startswith("settled")
    assert verdict([course([1.0, 0.4], gap=2e-4)], None).startswith("not settled")


def test_percentages_that_are_bounds_are_rounded_up():
    for share in np.random.default_rng(0).lognormal(-4, 4, size=200):
        assert float(percent(share, up=True)[:-1]) >= 100 * share * (1 - 1e-9)
        assert float(percent(share)[:-1]) == pytest.approx(100 * share, rel=0.06)


@pytest.mark.parametrize("solver", ["sdca", "adagrad"])
def test_what_is_said_holds_against_a_tight_solve(solver, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = load_breast_cancer(return_X_y=True)
    X = Preparer().fit_transform(X)
    alpha = 1e-3
    model = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-9, max_iter=10_000).fit(X, y == 0)

    def objective(w, b):
        return np.logaddexp(0, -(X @ w + b) * np.where(y == 0, 1, -1)).mean() + alpha / 2 * (w @ w)

    least = objective(model.coef_[0], model.intercept_[0])
    settled = []
    for epochs in (1, 3, 200):
        wanted = ["--epochs", str(epochs), "--solver", solver, "--alpha", str(alpha), "--test", "0"]
        assert main(["train", "breast_cancer", *wanted, "--out", f"{epochs}"]) == 0
        record = json.loads(Path(f"{epochs}/run.json").read_text())
        said = record["verdict"]
        assert said in capsys.readouterr().out
        with np.load(f"{epochs}/model.npz") as fitted:
            above = objective(fitted["coef"][0], fitted["intercept"][0]) / least - 1
        bound = re.search(r"at most ([\d.]+)% above its minimum", said)
        if bound:
            assert 100 * above <= float(bound[1])
        floor = re.search(r"its minimum ([\d.]+) or more", said)
        if floor:
            assert float(floor[1]) <= least * 1.005  # as printed, to three digits
        settled.append(said.startswith("settled"))
        assert not settled[-1] or above < 1e-2
    assert not settled[0]
    assert settled[-1] == (solver == "sdca")
