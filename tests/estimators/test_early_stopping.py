"""Early stopping and averages, of the solvers with a rate."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from tombola.estimators import LinearClassifier, LinearRegressor
from tombola.estimators.stopping import EarlyStopping, HeldOut, split_rows
from tombola.problems import LeastSquares, Logistic, Softmax


def classes(n=300, k=2):
    X, y = make_classification(n, 6, n_informative=4, n_classes=k, flip_y=0.2, random_state=0)
    return StandardScaler().fit_transform(X), y


class Scores:
    """Scores that come in a given order."""

    def __init__(self, scores):
        self.scores = iter(scores)

    def score(self, solution):
        return next(self.scores)


@pytest.mark.parametrize(
    ("scores", "tol", "epochs", "best"),
    [
        ([0.5, 0.6, 0.6, 0.6, 0.9], 0.01, 4, 1),
        ([0.5, 0.6, 0.601, 0.602, 0.9], 0.01, 4, 3),  # the best is kept, though too little
        ([0.5, 0.6, 0.605, 0.611, 0.7], 0.01, 4, 3),  # as in scikit-learn: over the best so far
        ([0.5, 0.4, 0.6, 0.4, 0.7], 0.01, 5, 4),  # begins anew after each rise
        ([0.5, 0.4, 0.3, 0.2, 0.1], None, 5, 0),
    ],
)
def test_it_stops_after_epochs_without_a_rise_and_keeps_the_best(scores, tol, epochs, best):
    rule = EarlyStopping(Scores(scores), tol, 2, None)
    for k in range(len(scores)):
        if rule(k, np.array([float(k)]), 0.0):
            break
    assert rule.epoch == epochs
    assert rule.solution == best
    assert rule.best == max(scores[:epochs])
    assert rule.converged == (epochs < 5)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_scores(convert):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 3)), rng.integers(1, 4, 40).astype(float)
    w = rng.normal(size=4)
    z = X @ w[:3] + w[3]
    y = z + rng.normal(size=40)
    rows = convert(X)
    settings = {"fit_intercept": True, "sample_weight": weights}
    held = HeldOut(rows, LeastSquares(rows, y, **settings), True)
    assert held.score(w) == pytest.approx(r2_score(y, z, sample_weight=weights))
    held = HeldOut(rows, Logistic(rows, y > 0, **settings), False)
    assert held.score(w) == pytest.approx(np.average((z > 0) == (y > 0), weights=weights))
    w = rng.normal(size=(3, 3))
    labels = np.arange(40) % 3
    held = HeldOut(rows, Softmax(rows, labels, sample_weight=weights), False)
    right = (X @ w.T).argmax(axis=1) == labels
    assert held.score(w) == pytest.approx(np.average(right, weights=weights))


def test_rows_are_split_by_class():
    y = np.repeat([0, 1], [180, 20])
    train, held = split_rows(y, 0.1, True, np.random.RandomState(0))
    assert sorted([*train, *held]) == list(range(200))
    assert np.bincount(y[held]).tolist() == [18, 2]


@pytest.mark.parametrize("multi_class", ["ovr", "softmax"])
@pytest.mark.parametrize("solver", ["sgd", "adagrad"])
def test_the_model_is_the_best_on_the_rows_held_out(solver, multi_class, capsys):
    X, y = classes(k=3)
    settings = dict(solver=solver, multi_class=multi_class, random_state=0, max_iter=200)
    model = LinearClassifier(early_stopping=True, verbose=1, **settings).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert model.n_iter_ < 200
    assert model.n_iter_ >= 6
    train, held = split_rows(y, 0.1, True, np.random.RandomState(0))
    if multi_class == "softmax":
        best = max(float(line.split()[-1]) for line in lines)
        assert len(lines) == model.n_iter_
        assert model.score(X[held], y[held]) == pytest.approx(best)
    else:
        for k in range(3):
            mine = [line for line in lines if line.startswith(f"class {k}, ")]
            best = max(float(line.split()[-1]) for line in mine)
            found = model.decision_function(X[held])[:, k] > 0
            assert (found == (y[held] == k)).mean() == pytest.approx(best)
    again = LinearClassifier(early_stopping=True, **settings).fit(X, y)
    assert (again.coef_ == model.coef_).all()
    assert model.t_ < 3 * 200 * len(train)


def test_regression_and_indicator_matrices():
    X, y = make_regression(200, 5, noise=10.0, random_state=0)
    settings = dict(solver="adagrad", rate=5.0, early_stopping=True, random_state=0)
    model = LinearRegressor(max_iter=300, **settings).fit(X, y)
    assert model.n_iter_ < 300
    assert model.score(X, y) > 0.9
    X, y = classes()
    Y = np.column_stack([y, X[:, 0] > 0])
    settings["rate"] = None
    both = LinearClassifier(max_iter=100, **settings).fit(X, Y)
    assert (both.predict(X) == Y).mean() > 0.8


def test_too_few_epochs_and_too_few_rows():
    X, y = classes()
    settings = dict(solver="adagrad", early_stopping=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 epochs: allow more"):
        LinearClassifier(max_iter=2, **settings).fit(X, y)
    with pytest.raises(ValueError, match="test_size = 1"):
        LinearClassifier(**settings).fit(X[:10], np.arange(10) % 2)
    with pytest.raises(ValueError, match="early_stopping=True needs all rows at once"):
        LinearClassifier(**settings).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="'validation_fraction' parameter"):
        LinearClassifier(validation_fraction=1.0, **settings).fit(X, y)


def test_averages_vary_less_between_seeds():
    X, y = classes()
    settings = dict(solver="sgd", rate=0.5, tol=None, max_iter=5)
    spread = {}
    for average in (False, True):
        fits = [
            LinearClassifier(average=average, random_state=seed, **settings).fit(X, y)
            for seed in range(8)
        ]
        spread[average] = np.std([fit.coef_ for fit in fits], axis=0).mean()
    assert spread[True] < 0.7 * spread[False]
    problem = Logistic(X, y)
    for average in (False, True):
        model = LinearClassifier(solver="adagrad", average=average)
        assert model.choose(problem).solver.average is average


def test_batches_are_steps_of_several_rows():
    X, y = classes()
    model = LinearClassifier(solver="sgd", batch_size=7, tol=None, max_iter=3).fit(X, y)
    assert model.t_ == 3 * 43 * 7
    assert model._past[0].carried["rounds"] == 3 * 43


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "log_loss"])
def test_the_first_rate_of_sgd_suits_the_loss(loss):
    X, y = classes()
    model = LinearClassifier(loss, solver="sgd", tol=None, max_iter=30, random_state=0).fit(X, y)
    exact = LinearClassifier(loss, random_state=0).fit(X, y)
    assert model.score(X, y) > exact.score(X, y) - 0.05
