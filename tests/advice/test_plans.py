"""What is raced, what is printed and what is fitted are the same plan."""

import numpy as np
import pytest
from samples import PLENTY, clustered, imbalanced, regression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tombola.advice import advise
from tombola.advice.data import open_contests
from tombola.advice.entrants import line_up
from tombola.advice.race import run
from tombola.estimators import MeanNormScaler, linear, mini_batch_kmeans

DATA = {"classification": imbalanced, "regression": regression, "clustering": clustered}


def opened(task, grouped=False, factor=1.0, scaled_by=()):
    X, y = DATA[task]()
    groups = np.arange(len(X)) % 3 if grouped else None
    return open_contests(factor * X, y, task, groups, 4, 0, scaled_by), factor * X, y, groups


def executed(plan, **names):
    exec(plan.code(), names)
    return names["model"]


@pytest.mark.parametrize("task", DATA)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_printed_code_is_the_plan(task, grouped):
    data, X, y, groups = opened(task, grouped, factor=1000.0)  # so that linear models are scaled
    for entrant in line_up(data):
        plan = entrant.plan
        plan.estimator.set_params(max_iter=2, random_state=3)
        model = executed(plan, X=X, y=y, groups=groups)
        mine = plan.model().fit(X, y)
        assert type(model) is type(mine)
        np.testing.assert_array_equal(model.predict(X), mine.predict(X))


@pytest.mark.parametrize("task", DATA)
def test_the_race_runs_the_solver_and_sampler_of_the_estimator(task, monkeypatch):
    data, *_ = opened(task)
    contest = data.contests[0]
    for module in (linear, mini_batch_kmeans):
        monkeypatch.setattr(module, "draw_seeds", lambda *others: [7])
    for entrant in line_up(data):
        estimator = entrant.plan.estimator.set_params(max_iter=1, tol=None)
        kind, seen = type(estimator.make_solver(contest.problem)), []
        real = kind.minimize

        def minimize(self, problem, *, sampler, seen=seen, real=real, **others):
            seen.append((repr(self), repr(sampler), repr(problem)))
            return real(self, problem, sampler=sampler, **others)

        with monkeypatch.context() as patch:
            patch.setattr(kind, "minimize", minimize)
            run(contest, entrant, 7, {1})
            estimator.fit(data.X, data.y)
        raced, fitted = seen
        assert raced == fitted


def test_scaling_is_in_the_plan_and_in_the_code():
    data, X, *_ = opened("classification", factor=1000.0, scaled_by=[StandardScaler()])
    plan = data.plan()
    assert [type(step) for step in plan.scaling] == [StandardScaler, MeanNormScaler]
    assert isinstance(plan.model(), Pipeline)
    code = plan.code()
    assert "    StandardScaler(),\n    MeanNormScaler(),\n    LinearClassifier(),\n" in code
    scaler = MeanNormScaler().fit(X)
    np.testing.assert_array_equal(data.X, scaler.transform(X))


def test_a_target_that_was_standardised_is_so_in_the_code():
    data, X, y, _ = opened("regression")
    plan = data.plan()
    assert "TransformedTargetRegressor(model, transformer=StandardScaler())" in plan.code()
    model = executed(plan, X=X, y=y)
    assert model.score(X, y) > 0.9
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.01)  # in the unit of y
    problem = data.contests[0].problem
    np.testing.assert_allclose(problem.model.targets, (y - y.mean()) / y.std())


def test_the_code_of_advice_is_that_of_the_recommended_plan(even_clock):
    X, y = imbalanced()
    advice = advise(X, y, task="classification", budget=PLENTY)
    data, *_ = opened("classification")
    plans = {entrant.label: entrant.plan for entrant in line_up(data)}
    assert advice.code == plans[advice.verdict.method].code()
