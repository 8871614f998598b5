import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import tombola
from tombola.estimators import LinearClassifier, LinearRegressor
from tombola.problems import Logistic, SquaredHinge
from tombola.samplers.registry import NAMES

N = 150


def data(classes=2, n=N, seed=0):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=classes, flip_y=0.1, random_state=seed
    )
    return StandardScaler().fit_transform(X), y


def exact(X, y, alpha=1e-2, sample_weight=None, class_weight=None):
    """The optimum of the same objective by scikit-learn: C = 1 / (n alpha), weights of mean 1."""
    mean = 1.0 if sample_weight is None else np.mean(sample_weight)
    reference = LogisticRegression(
        C=1 / (len(y) * alpha * mean), tol=1e-10, max_iter=10_000, class_weight=class_weight
    )
    return reference.fit(X, y, sample_weight)


@pytest.mark.parametrize("solver", ["saga", "svrg"])
@pytest.mark.parametrize("sampler", ["auto", "vrb", "uniform"])
def test_variance_reduced_solvers_reach_the_optimum(solver, sampler):
    X, y = data()
    model = LinearClassifier(
        alpha=1e-2, solver=solver, sampler=sampler, max_iter=2000, tol=1e-11, random_state=0
    ).fit(X, y)
    reference = exact(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert model.n_iter_ < 2000


@pytest.mark.parametrize("solver", ["adagrad", "sgd"])
def test_the_others_come_near(solver):
    X, y = data()
    model = LinearClassifier(alpha=1e-2, solver=solver, max_iter=300, tol=None, random_state=0)
    model.fit(X, y)
    problem, reference = Logistic(X, y, alpha=1e-2, fit_intercept=True), exact(X, y)
    values = [problem.value(np.append(m.coef_[0], m.intercept_)) for m in (model, reference)]
    assert values[0] < values[1] * 1.02
    assert model.n_iter_ == 300
    assert model.t_ == 300 * N


def test_squared_hinge_is_the_linear_svm():
    X, y = data()
    model = LinearClassifier(
        "squared_hinge", alpha=0.1, fit_intercept=False, solver="saga", sampler="uniform",
        max_iter=2000, tol=1e-11, random_state=0,
    ).fit(X, y)  # fmt: skip
    # C sum loss + |w|^2 / 2, and ours is alpha n times less
    reference = LinearSVC(
        C=1 / (0.1 * N), fit_intercept=False, tol=1e-10, max_iter=100_000, random_state=0
    )
    assert model.coef_ == pytest.approx(reference.fit(X, y).coef_, abs=1e-5)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError):
        model.predict_log_proba(X)
    problem = SquaredHinge(X, y, alpha=0.1)
    assert problem.value(model.coef_[0]) <= problem.value(reference.coef_[0]) + 1e-9


def test_softmax_is_multinomial_logistic_regression():
    X, y = data(classes=3)
    model = LinearClassifier(
        multi_class="softmax", alpha=1e-2, solver="saga", max_iter=2000, tol=1e-11, random_state=0
    ).fit(X, y)
    reference = exact(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-4)
    assert model.predict_proba(X) == pytest.approx(reference.predict_proba(X), abs=1e-4)
    assert isinstance(model.gauge_, tombola.gauge.Gauge)


def test_one_vs_all_is_a_problem_for_each_class():
    X, y = data(classes=3)
    settings = dict(alpha=1e-2, solver="saga", max_iter=2000, tol=1e-11, random_state=0)
    model = LinearClassifier(multi_class="ovr", **settings).fit(X, y)
    assert model.coef_.shape == (3, 6)
    assert model.intercept_.shape == (3,)
    for k in range(3):
        assert model.coef_[k] == pytest.approx(exact(X, y == k).coef_[0], abs=1e-5)
    assert len(model.gauge_) == 3
    proba = model.predict_proba(X)
    assert proba.sum(axis=1) == pytest.approx(1.0)
    assert (proba.argmax(axis=1) == model.predict(X)).all()
    sigmoid = 1 / (1 + np.exp(-model.decision_function(X)))
    assert proba == pytest.approx(sigmoid / sigmoid.sum(axis=1, keepdims=True))
    assert np.exp(model.predict_log_proba(X)) == pytest.approx(proba)


@pytest.mark.parametrize("solver", ["saga", "svrg"])
def test_sample_weights_are_repeated_rows(solver):
    X, y = data()
    times = np.random.default_rng(1).integers(0, 4, N)
    settings = dict(alpha=1e-2, solver=solver, max_iter=1000, tol=None, random_state=0)
    weighted = LinearClassifier(**settings).fit(X, y, sample_weight=times)
    repeated = LinearClassifier(**settings).fit(X.repeat(times, axis=0), y.repeat(times))
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-6)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-6)
    assert weighted.coef_ == pytest.approx(exact(X, y, sample_weight=times).coef_, abs=1e-5)


def test_class_weights():
    X, y = data()
    settings = dict(alpha=1e-2, solver="saga", max_iter=1000, tol=None, random_state=0)
    given = {0: 1.0, 1: 5.0}
    model = LinearClassifier(class_weight=given, **settings).fit(X, y)
    weights = np.where(y == 1, 5.0, 1.0)
    assert model.coef_ == pytest.approx(exact(X, y, sample_weight=weights).coef_, abs=1e-5)
    rare = (y == 0) | (np.arange(N) % 5 == 0)
    model = LinearClassifier(class_weight="balanced", **settings).fit(X[rare], y[rare])
    reference = exact(X[rare], y[rare], class_weight="balanced")
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)


def test_sparse_is_dense_and_float32_is_near():
    X, y = data()
    X[np.abs(X) < 0.7] = 0.0
    settings = dict(solver="sdca", random_state=3, tol=None, max_iter=5)
    dense = LinearClassifier(**settings).fit(X, y)
    rows = sparse.csr_array(X)
    model = LinearClassifier(**settings).fit(rows, y)
    assert model.coef_ == pytest.approx(dense.coef_, rel=1e-6)
    assert model.decision_function(rows) == pytest.approx(dense.decision_function(X), rel=1e-6)
    small = LinearClassifier(**settings).fit(X.astype(np.float32), y)
    assert small.coef_ == pytest.approx(dense.coef_, rel=1e-2, abs=1e-2)


def test_labels_of_any_kind():
    X, y = data(classes=3)
    names = np.array(["cow", "ant", "bee"], dtype=object)[y]
    numbers = LinearClassifier(random_state=0, tol=None).fit(X, np.array([2, 0, 1])[y])
    model = LinearClassifier(random_state=0, tol=None).fit(X, names)
    assert model.classes_.tolist() == ["ant", "bee", "cow"]
    assert (model.coef_ == numbers.coef_).all()
    assert (model.predict(X) == model.classes_[numbers.predict(X)]).all()
    flags = LinearClassifier(random_state=0, tol=None).fit(X, y > 0)
    assert flags.predict(X).dtype == bool


def test_deterministic():
    X, y = data()
    fits = [
        LinearClassifier(solver="sdca", random_state=state, tol=None, max_iter=3).fit(X, y).coef_
        for state in (0, 0, np.random.RandomState(0), 1)
    ]
    assert (fits[0] == fits[1]).all()
    assert (fits[0] == fits[2]).all()
    assert (fits[0] != fits[3]).any()
    assert LinearClassifier(tol=None, max_iter=1).fit(X, y).coef_.shape == (1, 6)


# --- continuing -----------------------------------------------------------------------------------


def test_partial_fit_goes_on_with_rates_and_groups():
    X, y = data(n=300)
    y = ((y == 1) & (np.arange(300) % 4 == 0)).astype(int)
    model = LinearClassifier(alpha=1e-4, solver="adagrad", random_state=0, sampler="group-vrb")
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(X[:100], y[:100])
    model.partial_fit(X[:100], y[:100], classes=[0, 1])
    first = pickle.loads(pickle.dumps(model))
    past = first._past[0]
    assert set(past.levels) == {False, True}
    model.partial_fit(X[100:], y[100:])
    now = model._past[0]
    assert now.carried["rounds"] == 300
    assert model.t_ == 300
    assert (now.carried["squares"] >= past.carried["squares"]).all()
    # the new rows' sampler begins with the old levels: the rare class at once, not at random
    begun = tombola.GroupVRB(y[100:] == 1)
    before = begun.group_probabilities()
    begun.start_from(past.levels)
    assert begun.group_probabilities()[1] > before[1]
    # rows of one class only: nothing is forgotten of the other one
    common = y == 0
    model.partial_fit(X[common], y[common])
    assert model._past[0].levels[True] == now.levels[True]
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, y + 5)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3], y)


def test_partial_fit_of_several_classes_learns():
    X, y = data(classes=3, n=400)
    for multi_class in ("ovr", "softmax"):
        model = LinearClassifier(
            multi_class=multi_class, alpha=1e-4, solver="adagrad", random_state=0
        )
        for _ in range(3):
            for part in np.array_split(np.arange(400), 8):
                model.partial_fit(X[part], y[part], classes=np.unique(y))
        assert model.score(X, y) > exact(X, y).score(X, y) - 0.05
    with pytest.raises(ValueError, match="all rows at once"):
        LinearClassifier(solver="sgd", alpha=1e-4, class_weight="balanced").partial_fit(
            X, y, classes=np.unique(y)
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_partial_fit_does_not_leave_what_fit_has_found():
    """AdaGrad begins with the sums of an epoch, not with steps of 0.3 (which end at 0.81)."""
    X, y = data(n=400)
    X = X * 5.0
    model = LinearClassifier(alpha=0.0, random_state=0)
    model.fit(X, y)
    problem = Logistic(X, y == 1, fit_intercept=True)
    found = np.append(model.coef_[0], model.intercept_)
    before = problem.value(found)
    model.set_params(solver="adagrad").partial_fit(X, y)
    after = problem.value(np.append(model.coef_[0], model.intercept_))
    assert before < after < before + 0.1


def test_weights_count_over_calls_of_partial_fit():
    """Eight times the weight is eight times the step; shuffled draws do not depend on it."""
    X, y = data()
    start = LinearClassifier(
        solver="sgd", sampler="shuffle", alpha=0.0, max_iter=2, tol=None, random_state=0
    ).fit(X, y)
    moves = []
    for weight in (1.0, 8.0):
        model = pickle.loads(pickle.dumps(start))
        model.set_params(rate=1e-7)  # so small that gradients stay what they are
        model.partial_fit(X, y, sample_weight=np.full(N, weight))
        moves.append(model.coef_ - start.coef_)
    np.testing.assert_allclose(moves[1], 8 * moves[0], rtol=1e-2, atol=1e-14)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_intercept_does_not_hide_that_coefficients_still_move():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2)) * [1.0, 0.03]
    model = LinearRegressor(alpha=0.0, random_state=0, max_iter=3000).fit(X, 1e6 + 100 * X[:, 1])
    assert abs(model.coef_[1] - 100) < 5


def test_partial_fit_hands_group_levels_on(monkeypatch):
    X, y = data(n=400)
    handed = []
    real = tombola.GroupVRB.start_from

    def spy(self, levels):
        handed.append(levels)
        real(self, levels)

    monkeypatch.setattr(tombola.GroupVRB, "start_from", spy)
    model = LinearClassifier(alpha=1e-4, solver="adagrad", random_state=0)
    model.partial_fit(X[:200], y[:200], classes=[0, 1])
    model.partial_fit(X[200:], y[200:])
    assert len(handed) == 1  # there is nothing to hand on to the first call
    assert set(handed[0]) == {False, True}


def test_warm_start_goes_on():
    X, y = data()
    model = LinearClassifier(
        solver="adagrad", warm_start=True, max_iter=5, tol=None, random_state=0
    ).fit(X, y)
    start, carried = model.coef_.copy(), model._past[0].carried
    model.fit(X, y)
    assert np.abs(model.coef_ - start).max() < np.abs(start).max()
    assert carried["squares"].size == X.shape[1] + 1
    assert (model._past[0].carried["squares"] > carried["squares"]).all()
    model.set_params(solver="sgd").fit(X, y)  # sums of another solver are not taken over
    with pytest.raises(ValueError, match="warm_start needs"):
        model.fit(X, data(classes=3)[1])
    cold = LinearClassifier(solver="adagrad", max_iter=5, tol=None, random_state=0).fit(X, y)
    again = cold.fit(X, y)
    assert (again.coef_ == start).all()


# --- samplers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_samplers_by_name(name):
    X, y = data()
    settings = {"solver": "sdca", "max_iter": 3, "tol": None, "random_state": 0}
    model = LinearClassifier(sampler=name, **settings).fit(X, y)
    assert model.gauge_.count == model.t_ == 16 * 3 * math.ceil(N / 16)
    assert model.gauge_.quantity == "dual residual"
    assert model.n_iter_ == 3


def test_sampler_objects_stay_as_they_are():
    X, y = data()
    sampler = tombola.VRB(N, memory=4 * N, seed=5)
    model = LinearClassifier(sampler=sampler, max_iter=3, tol=None)
    first = model.fit(X, y).coef_
    assert sampler.gauge.count == 0
    assert (model.fit(X, y).coef_ == first).all()
    assert (clone(model).fit(X, y).coef_ == first).all()
    draw = sampler.draw(10)
    sampler.update(draw, np.ones(10))  # what it has learnt does not count
    assert (model.fit(X, y).coef_ == first).all()
    with pytest.raises(ValueError, match="over 150 items, X has 100 rows"):
        model.fit(X[:100], y[:100])


def test_sampler_functions():
    X, y = data()
    seen = []

    def make(n, seed, groups):
        seen.append((n, seed, groups.dtype))
        return tombola.VRB(n, seed=seed)

    model = LinearClassifier(
        solver="adagrad", sampler=make, max_iter=2, tol=None, random_state=0
    ).fit(X, y)
    named = LinearClassifier(
        solver="adagrad", sampler="vrb", max_iter=2, tol=None, random_state=0
    ).fit(X, y)
    assert (model.coef_ == named.coef_).all()
    assert seen[0][0] == N
    with pytest.raises(TypeError, match="must return a tombola sampler"):
        LinearClassifier(sampler=lambda n, seed, groups: None).fit(X, y)
    with pytest.raises(ValueError, match="'sampler' parameter"):
        LinearClassifier(sampler="best").fit(X, y)


# --- with scikit-learn --------------------------------------------------------------------------


def test_pipeline_and_grid_search():
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), LinearClassifier(tol=None, random_state=0))
    grid = {
        "linearclassifier__sampler": ["auto", "shuffle"],
        "linearclassifier__alpha": [1e-3, 1e-1],
    }
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    best = LogisticRegression(C=1000 / len(y)).fit(StandardScaler().fit_transform(X), y)
    assert search.score(X, y) > best.score(StandardScaler().fit_transform(X), y) - 0.02
    assert clone(search.best_estimator_).get_params() is not None


def test_pickles_are_read_by_another_process(tmp_path):
    X, y = data(classes=3)
    model = LinearClassifier(random_state=0, tol=None, max_iter=2).fit(X, y)
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((model, X)))
    assert path.stat().st_size < 20_000 + X.nbytes  # nothing for each row
    code = (
        "import pickle, sys; model, X = pickle.load(open(sys.argv[1], 'rb'));"
        "print(model.predict(X).tolist(), model.gauge_)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{model.predict(X).tolist()} {model.gauge_}"


def test_unfitted_estimators_with_a_sampler_pickle():
    model = LinearClassifier(sampler=tombola.GroupVRB([0, 1, 1]))
    copy = pickle.loads(pickle.dumps(model))
    assert copy.sampler.parameters["groups"].tolist() == [0, 1, 1]


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = LinearClassifier(tol=None, max_iter=1).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcdef")


def test_verbose(capsys):
    X, y = data(classes=3)
    settings = {"verbose": 1, "tol": None, "max_iter": 2, "random_state": 0}
    LinearClassifier(multi_class="ovr", solver="sdca", **settings).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("class 0, epoch 1: round 10, relative duality gap ")
    for solver in ("saga", "adagrad"):
        LinearClassifier(solver=solver, verbose=1, tol=None, max_iter=2).fit(X, y == 0)
        lines = capsys.readouterr().out.splitlines()
        assert [line[:19] for line in lines] == ["epoch 1: objective ", "epoch 2: objective "]
    LinearClassifier(tol=None, max_iter=2).fit(X, y)
    assert capsys.readouterr().out == ""


def test_convergence():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="max_iter=2 epochs"):
        LinearClassifier(solver="sdca", max_iter=2, random_state=0).fit(X, y)
    model = LinearClassifier(solver="sdca", max_iter=500, tol=1e-2, random_state=0).fit(X, y)
    assert 5 < model.n_iter_ < 500


def test_bad_input():
    X, y = data()
    with pytest.raises(ValueError, match="1 class"):
        LinearClassifier().fit(X, np.zeros(N))
    with pytest.raises(ValueError, match="softmax"):
        LinearClassifier("squared_hinge", multi_class="softmax").fit(X, y)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        LinearClassifier().fit(X, y, sample_weight=-np.ones(N))
    with pytest.raises(ValueError, match="'rate' parameter"):
        LinearClassifier(rate=0.0).fit(X, y)
    with pytest.raises(NotFittedError):
        LinearClassifier().predict(X)
    with pytest.raises(ValueError, match="NaN"):
        LinearClassifier().fit(np.full_like(X, np.nan), y)


def test_core_does_not_import_sklearn():
    code = "import sys, tombola, tombola.solvers; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_error_names_the_extra():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try:\n    import tombola.estimators\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install tombola[sklearn]" in done.stdout
