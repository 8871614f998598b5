"""Which solver runs, what it reaches, and what `tol` and `dual_gap_` say about it."""

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from scipy.optimize import minimize
from sklearn import datasets
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

import tombola
from tombola.estimators import LinearClassifier, LinearRegressor
from tombola.problems import Logistic
from tombola.solvers.choice import choose

N, ALPHA = 150, 1e-2


def classes():
    X, y = make_classification(N, 6, n_informative=4, flip_y=0.1, random_state=0)
    return StandardScaler().fit_transform(X), y


def numbers():
    X, y = make_regression(N, 6, n_informative=4, noise=20.0, bias=30.0, random_state=0)
    return StandardScaler().fit_transform(X), y / 50.0


def problem_of(model, X, y, **weights):
    (part,) = model.parts(X, y, **weights)
    return part.make()


def value(problem, model):
    return problem.value(np.append(model.coef_.ravel(), model.intercept_))


@pytest.mark.parametrize(
    ("model", "solver"),
    [
        (LinearClassifier(), "newton"),
        (LinearClassifier("hinge"), "sdca"),
        (LinearClassifier("squared_hinge", l1_ratio=0.9), "sdca"),
        (LinearClassifier(l1_ratio=1.0), "saga"),
        (LinearClassifier(alpha=0.0), "newton"),
        pytest.param(LinearClassifier("hinge", alpha=0.0), "adagrad", marks=pytest.mark.slow),
        (LinearRegressor(), "newton"),
        (LinearRegressor("huber"), "newton"),
        (LinearRegressor("epsilon_insensitive"), "sdca"),
        (LinearRegressor("epsilon_insensitive", l1_ratio=1.0), "adagrad"),
    ],
)
def test_auto(model, solver):
    X, y = numbers() if isinstance(model, LinearRegressor) else classes()
    model.set_params(max_iter=2, tol=None, random_state=0).fit(X, y)
    assert model.solver_ == solver
    assert np.isnan(model.dual_gap_) == (solver == "adagrad" or model.alpha == 0)
    same = model.coef_
    assert (model.set_params(solver=solver).fit(X, y).coef_ == same).all()


@pytest.mark.parametrize(
    "loss", ["log_loss", pytest.param("squared_hinge", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_l1_alone_goes_by_columns(loss, kind, capsys):
    """The same minimum as by rows; labels, weights, an intercept, several classes, a warm start."""
    X, y = make_classification(N, 8, n_informative=5, n_classes=3, random_state=0)
    X, y = StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    settings = {"l1_ratio": 1.0, "alpha": 0.02, "multi_class": "ovr", "random_state": 0}
    model = LinearClassifier(loss, tol=1e-7, **settings).fit(kind(X), y, weights)
    assert (model.solver_, model.gauge_) == ("working_sets", [None] * 3)
    assert (model.dual_gap_ <= 1e-7).all()
    assert (model.coef_ == 0).any()
    rows = LinearClassifier(loss, tol=1e-7, solver="saga", max_iter=5000, **settings)
    rows.fit(kind(X), y, weights)
    assert rows.solver_ == "saga"
    assert model.coef_ == pytest.approx(rows.coef_, abs=2e-3)
    assert model.intercept_ == pytest.approx(rows.intercept_, abs=2e-3)
    model.set_params(warm_start=True, verbose=1).fit(kind(X), y, weights)
    assert model.n_iter_ == 1
    assert "class a, round 0: duality gap" in capsys.readouterr().out


def test_what_is_asked_for_goes_by_rows():
    X, y = classes()
    for settings in ({"sampler": "uniform"}, {"solver": "saga"}, {"l1_ratio": 0.9}, {"tol": None}):
        model = LinearClassifier(**{"l1_ratio": 1.0, "max_iter": 2, **settings})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        assert model.solver_ in ("saga", "sdca")
        assert model.gauge_ is not None


def test_columns_warn_of_too_few_rounds():
    X, y = classes()
    with pytest.warns(ConvergenceWarning, match="has not converged in max_iter=1 epochs"):
        LinearClassifier(l1_ratio=1.0, max_iter=1, tol=1e-9).fit(X, y)


@pytest.mark.parametrize(
    ("model", "rows", "solver"),
    [
        (LinearClassifier(), 2880, "newton"),  # 30 for each of 96 columns
        (LinearClassifier(), 2879, "sdca"),
        (LinearClassifier(fit_intercept=False), 2850, "newton"),
        (LinearClassifier(), 910, "newton"),  # a Hessian of all rows costs little
        (LinearClassifier(), 911, "sdca"),
        (LinearClassifier("squared_hinge"), 2880, "newton"),
        (LinearClassifier("hinge"), 2880, "sdca"),
        (LinearClassifier(l1_ratio=0.1), 2880, "sdca"),
        (LinearRegressor(), 2880, "newton"),
        (LinearRegressor("huber"), 2880, "newton"),
    ],
)
def test_auto_is_newton_where_rows_are_many_or_few(model, rows, solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 95)) / 10
    y = X[:, 0] + rng.normal(size=rows)
    y = y if isinstance(model, LinearRegressor) else y > 0
    model.set_params(random_state=0, alpha=0.1).fit(X, y)
    assert model.solver_ == solver
    assert model.dual_gap_ <= model.tol


@pytest.mark.parametrize(
    ("rows", "columns", "unit", "alpha", "name"),
    [
        (2000, 200, 1.0, 1e-1, "sdca"),
        (2000, 200, 1.0, 1e-4, "newton"),  # hardly any penalty: sdca is slow
        (2000, 200, 100.0, 1e-1, "newton"),  # nor in large units
        (100, 400, 100.0, 1e-1, "newton"),
        (99, 400, 100.0, 1e-1, "sdca"),  # too few rows for the Hessian ...
        (2000, 5000, 100.0, 1e-1, "sdca"),  # ... and too many columns
    ],
)
def test_auto_is_newton_where_sdca_would_be_slow(rows, columns, unit, alpha, name):
    X = sparse.random(rows, columns, density=min(1.0, 200 / columns), random_state=0, format="csr")
    X.data = unit * np.random.default_rng(0).normal(size=X.data.size)
    y = np.arange(rows) % 2
    assert LinearClassifier().choose(Logistic(X, y, alpha=alpha)).name == name


@pytest.mark.parametrize(
    ("settings", "solver"),
    [({}, "newton"), ({"l1_ratio": 0.5}, "saga")],
)
def test_softmax(settings, solver):
    X, y = datasets.load_wine(return_X_y=True)
    settings = {"alpha": 1 / len(y), "multi_class": "softmax", "random_state": 0, **settings}
    model = LinearClassifier(**settings)
    (part,) = model.parts(X, y)
    problem = part.make()
    assert model.choose(problem).name == solver
    if solver == "newton":
        model.fit(X, y)
        assert model.dual_gap_ <= 1e-4
        peer = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y)
        theirs = problem.value(np.column_stack([peer.coef_, peer.intercept_]))
        model.set_params(tol=1e-9).fit(X, y)
        ours = problem.value(np.column_stack([model.coef_, model.intercept_]))
        assert ours == pytest.approx(theirs, rel=1e-6)


RAW = ("wine", "iris", "breast_cancer", "digits")


@pytest.mark.parametrize("alpha", [None, 1e-4])
@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("name", RAW)
def test_raw_columns(name, loss, alpha):
    """Within tol of the optimum by default; the same optimum as Newton's method elsewhere."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    y = y == 1
    alpha = 1 / len(y) if alpha is None else alpha
    model = LinearClassifier(loss, alpha=alpha, random_state=0).fit(X, y)
    assert (model.solver_, model.dual_gap_ <= 1e-4) == ("newton", True)
    problem = problem_of(model, X, y)
    model.set_params(tol=1e-9).fit(X, y)
    if loss == "log_loss":
        peer = LogisticRegression(
            C=1 / (alpha * len(y)), solver="newton-cholesky", tol=1e-12, max_iter=1000
        ).fit(X, y)
        assert value(problem, model) <= value(problem, peer) * (1 + 1e-6)
    assert model.dual_gap_ <= 1e-9


@pytest.mark.parametrize("loss", ["squared_error", "huber"])
@pytest.mark.parametrize("scaled", [False, True])
def test_raw_columns_of_a_regression(loss, scaled):
    X, y = datasets.load_diabetes(return_X_y=True, scaled=scaled)
    model = LinearRegressor(loss, alpha=1 / len(y), random_state=0).fit(X, y)
    assert (model.solver_, model.dual_gap_ <= 1e-4) == ("newton", True)
    if loss == "squared_error":
        problem, peer = problem_of(model, X, y), Ridge(alpha=1.0).fit(X, y)
        assert value(problem, model) == pytest.approx(value(problem, peer), rel=1e-6)


def test_columns_of_any_unit():
    """Of 1e8 and 1e-8 in one table, far from zero too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = X @ [1.0, 2.0, -1.0, 0.0, 1.0, 0.5] + rng.logistic(size=3000) > 1
    raw = X * [1e8, 1e-8, 1.0, 1e4, 1.0, 1.0] + [1e9, 0.0, 1e3, 1e8, 0.0, -5.0]
    model = LinearClassifier(alpha=1e-6, random_state=0).fit(raw, y)
    assert (model.solver_, model.dual_gap_ <= 1e-4) == ("newton", True)
    kept = [0, 2, 3, 4, 5]  # the penalty leaves nothing of a column of 1e-8
    free = LinearClassifier(alpha=1e-12, random_state=0).fit(X[:, kept], y)
    assert (model.predict(raw) == free.predict(X[:, kept])).mean() > 0.99


def test_a_rule_that_was_asked_for_draws_rows():
    X, y = classes()
    few, many = Logistic(X, y, alpha=0.1), Logistic(np.tile(X, (20, 1)), np.tile(y, 20), alpha=0.1)
    for sampler in ("shuffle", tombola.Uniform(few.n)):
        assert choose(few, sampler=sampler).name == "sdca"
    assert choose(few).name == choose(many).name == "newton"
    assert choose(many).solver._rows_drawn(many) == many.n
    assert choose(many, sampler="shuffle").solver._rows_drawn(many) == many.n // 8


def test_long_rows_and_sparse_ones_need_more_of_them():
    def solver(X):
        return LinearClassifier().choose(Logistic(X, np.arange(X.shape[0]) % 2, alpha=0.1)).name

    def sparse_rows(n, d):
        return sparse.random(n, d, 0.1, format="csr", random_state=0)

    rng = np.random.default_rng(0)
    assert solver(rng.normal(size=(6200, 200))) == "sdca"
    assert solver(rng.normal(size=(6200, 60))) == "newton"
    assert solver(sparse_rows(6200, 60)) == "sdca"
    assert solver(sparse_rows(15_250, 60)) == "newton"
    assert solver(sparse_rows(1000, 60)) == "newton"  # its Hessian is cheap
    assert solver(1e3 * sparse_rows(6200, 60)) == "newton"  # sdca would be slow


@pytest.mark.parametrize(
    ("settings", "name", "stop", "epoch"),
    [
        ({"solver": "sdca"}, "sdca", "certified", 10),
        ({}, "newton", "certified", 1),
        ({"solver": "svrg"}, "svrg", "reduced", N),
        ({"solver": "sgd", "batch_size": 7}, "sgd", "descent", 22),
        ({"l1_ratio": 1.0}, "working_sets", "columns", 1),
        ({"l1_ratio": 1.0, "sampler": "uniform"}, "saga", "reduced", N),
    ],
)
def test_a_choice_says_how_a_fit_runs(settings, name, stop, epoch):
    """Rounds are those of max_iter epochs; a number of epochs leaves out the stopping rule."""
    X, y = classes()
    model = LinearClassifier(max_iter=3, tol=0.01, **settings)
    (part,) = model.parts(X, y)
    problem = part.make()
    choice = model.choose(problem, 5, part.groups)
    assert (choice.name, choice.stop, choice.epoch) == (name, stop, epoch)
    assert (choice.rounds, choice.tol) == (3 * epoch, 0.01)
    assert (choice.sampler is None) == (stop == "columns")
    other = model.choose(problem, 5, part.groups, epochs=2)
    assert (other.rounds, other.tol) == (2 * other.epoch, None)
    assert other.sampler.n == N
    assert getattr(other.solver, "tol", 0.0) == 0.0


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LinearClassifier("hinge"), 'needs a smooth loss, Hinge has kinks: use "sdca"'),
        (LinearClassifier(l1_ratio=0.5), 'needs l1_ratio=0: use "sdca"'),
    ],
)
def test_newton_says_what_it_needs(model, words):
    X, y = classes()
    with pytest.raises(ValueError, match=words):
        model.set_params(solver="newton").fit(X, y)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LinearClassifier(alpha=0.0), 'alpha above 0 and l1_ratio below 1, got alpha=0.*"saga"'),
        (LinearClassifier("hinge", l1_ratio=1.0), 'and l1_ratio=1: use "adagrad"'),
        (
            LinearClassifier(multi_class="softmax"),
            'needs one output, Softmax has 3: use "newton" or "saga", or multi_class="ovr"',
        ),
    ],
)
def test_sdca_says_what_it_needs(model, words):
    X, y = make_classification(N, 6, n_informative=4, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match=words):
        model.set_params(solver="sdca").fit(X, y)


@pytest.mark.parametrize("solver", ["saga", "svrg"])
def test_saga_needs_a_smooth_loss(solver):
    X, y = classes()
    with pytest.raises(ValueError, match=f'solver="{solver}" needs a smooth loss, Hinge has kinks'):
        LinearClassifier("hinge", solver=solver).fit(X, y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_the_default_reaches_the_optimum(convert, weighted):
    X, y = classes()
    times = np.random.default_rng(1).integers(0, 4, N) if weighted else np.ones(N)
    model = LinearClassifier(alpha=ALPHA, tol=1e-10, max_iter=5000, random_state=0)
    model.fit(convert(X), y, sample_weight=times)
    reference = LogisticRegression(C=1 / (ALPHA * times.sum()), tol=1e-10, max_iter=10_000)
    reference.fit(X, y, sample_weight=times)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert model.dual_gap_ <= 1e-10
    again = LinearClassifier(alpha=ALPHA, tol=1e-10, max_iter=5000, random_state=0)
    again.fit(convert(X.repeat(times.astype(int), axis=0)), y.repeat(times.astype(int)))
    assert again.coef_ == pytest.approx(model.coef_, abs=1e-5)


@pytest.mark.parametrize(
    ("model", "reference"),
    [
        (
            LinearClassifier("hinge", fit_intercept=False),
            LinearSVC(C=1 / (N * ALPHA), loss="hinge", fit_intercept=False),
        ),
        (
            LinearClassifier("squared_hinge", fit_intercept=False),
            LinearSVC(C=1 / (N * ALPHA), fit_intercept=False),
        ),
        (LinearRegressor(), Ridge(alpha=N * ALPHA)),
        (
            LinearRegressor("epsilon_insensitive", epsilon=0.3, fit_intercept=False),
            LinearSVR(C=1 / (N * ALPHA), epsilon=0.3, fit_intercept=False),
        ),
    ],
    ids=["hinge", "squared hinge", "least squares", "epsilon-insensitive"],
)
def test_losses(model, reference):
    X, y = numbers() if isinstance(model, LinearRegressor) else classes()
    model.set_params(alpha=ALPHA, tol=1e-8, max_iter=20_000, random_state=0).fit(X, y)
    if "max_iter" in reference.get_params() and not isinstance(reference, Ridge):
        reference.set_params(tol=1e-9, max_iter=1_000_000, random_state=0)
    reference.fit(X, y)
    intercept = [model.intercept_] if model.fit_intercept else []
    problem = problem_of(model, X, y)
    found = problem.value(np.append(model.coef_.ravel(), intercept))
    theirs = problem.value(
        np.append(reference.coef_.ravel(), reference.intercept_ if intercept else [])
    )
    assert found == pytest.approx(theirs, rel=1e-6)


def test_huber_is_at_its_minimum():
    X, y = numbers()
    y[:5] += 100.0
    model = LinearRegressor("huber", alpha=ALPHA, epsilon=0.5, tol=1e-9, max_iter=20_000).fit(X, y)

    def objective(w):
        r = np.abs(X @ w[:-1] + w[-1] - y)
        losses = np.where(r <= 0.5, r * r / 2, 0.5 * (r - 0.25))
        return losses.mean() + ALPHA / 2 * w[:-1] @ w[:-1]

    best = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-9})
    assert objective(np.append(model.coef_, model.intercept_)) == pytest.approx(best.fun, rel=1e-6)
    assert LinearRegressor("huber").parts(X, y)[0].make().epsilon == 1.35


def test_epsilon_belongs_to_two_losses():
    X, y = numbers()
    with pytest.raises(ValueError, match=r'epsilon=0.5 is for loss="huber" or "epsilon_insens'):
        LinearRegressor(epsilon=0.5).fit(X, y)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_tol_is_the_relative_gap(tol):
    """The objective is within tol of the minimum, and looser than a hundredth of it."""
    X, y = classes()
    settings = {"alpha": ALPHA, "solver": "sdca", "max_iter": 10_000, "random_state": 0}
    model = LinearClassifier(tol=tol, **settings).fit(X, y)
    exact = LinearClassifier(tol=1e-12, **settings).fit(X, y)
    problem = problem_of(model, X, y)
    share = y.mean()
    unit = -share * np.log(share) - (1 - share) * np.log(1 - share)  # at w = 0
    true = (value(problem, model) - value(problem, exact)) / unit
    assert -1e-12 <= true <= model.dual_gap_ <= tol
    assert model.dual_gap_ > 1e-4 * tol
    assert model.t_ <= 16 * np.ceil(N / 16) * model.n_iter_


@pytest.mark.parametrize("tol", [None, 0, 0.0])
def test_without_tol_all_epochs_run(tol, recwarn):
    X, y = classes()
    for solver, draws in (("sdca", 16 * 100), ("saga", 1500), ("adagrad", 1500)):
        model = LinearClassifier(solver=solver, tol=tol, max_iter=10, random_state=0).fit(X, y)
        assert (model.n_iter_, model.t_) == (10, draws)
    assert not recwarn.list


def test_the_warning_says_the_gap():
    X, y = classes()
    with pytest.warns(
        ConvergenceWarning, match=r"max_iter=1 epochs \(relative duality gap \d.*, tol=0.0001\)"
    ):
        model = LinearClassifier(max_iter=1, solver="sdca").fit(X, y)
    assert model.dual_gap_ > 1e-4


@pytest.mark.parametrize("solver", ["newton", "sdca"])
def test_a_line_for_each_epoch_changes_nothing(solver, capsys):
    X, y = classes()
    quiet = LinearClassifier(random_state=0, solver=solver).fit(X, y)
    assert capsys.readouterr().out == ""
    loud = LinearClassifier(random_state=0, solver=solver, verbose=1).fit(X, y)
    assert (loud.coef_ == quiet.coef_).all()
    assert (loud.n_iter_, loud.t_, loud.dual_gap_) == (quiet.n_iter_, quiet.t_, quiet.dual_gap_)
    assert str(loud.gauge_) == str(quiet.gauge_)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].endswith(f"relative duality gap {loud.dual_gap_:.3g}")
    assert abs(len(lines) - loud.n_iter_) <= 1


def test_warm_start_begins_near_the_end():
    X, y = classes()
    model = LinearClassifier(tol=1e-6, warm_start=True, solver="sdca", random_state=0).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first / 2
    assert model.dual_gap_ <= 1e-6


def test_one_row_more_or_less_is_no_problem():
    model = LinearRegressor().fit([[1.0, 2.0]], [3.0])  # the constant fits it
    assert model.dual_gap_ == 0.0
    assert model.predict([[5.0, 5.0]]) == pytest.approx([3.0])
    with pytest.raises(ValueError, match=r"y must be one column, got shape \(4, 2\)"):
        LinearRegressor().fit(np.eye(4), np.ones((4, 2)))


def test_a_choice_makes_its_sampler_when_asked():
    X, y = classes()
    made = []

    def sampler(n, seed, labels):
        made.append((n, seed))
        return tombola.Uniform(n, seed=seed)

    choice = choose(Logistic(X, y, alpha=0.1), solver="adagrad", sampler=sampler, seed=7)
    assert (choice.name, choice.solver.batch_size, made) == ("adagrad", 1, [])
    assert choice.sampler.n == N
    assert choice.sampler is choice.sampler
    assert made == [(N, 7)]


def test_an_unknown_solver_is_refused_with_the_known_ones():
    X, y = classes()
    with pytest.raises(ValueError, match=r'one of "auto", "newton", .*"sgd", got \'lbfgs\''):
        choose(Logistic(X, y, alpha=0.1), solver="lbfgs")
