"""Losses with kinks: what a model of the objective promises, its bound, its steps, its draws."""

import math

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")

from scipy import sparse, stats
from simulated import NUMERIC, finished, split, started

from budget import ALPHA
from tombola import problems
from tombola.dask import near_kinks, refinement
from tombola.dask.fit import bytes_of
from tombola.dask.kink_model import KinkModel
from tombola.dask.near_kinks import REACHES, Request, extract
from tombola.solvers import SDCA

KINKED = ("Hinge", "EpsilonInsensitive")
N, D = 900, 4


def data(kind, n=N):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, D)) + 0.3
    z = X @ np.array([1.0, -2.0, 0.5, 0.0])
    if kind in NUMERIC:
        return X, z + rng.normal(size=n)
    return X, (z + rng.normal(size=n) > 0.5).astype(float)


def request_at(fit, point, rows, number=1, start=None, width=0.0):
    start, widths = point if start is None else start, np.array([width])
    return Request(number, np.array([0]), start[None], point[None], widths, np.array([rows]), 1e9)


def model_at(fit, point, rows=100, number=1, width=0.0):
    """The model of a fit at a point, and all that partitions returned for it."""
    request = request_at(fit, point, rows, number, width=width)
    found = fit.runner.map(extract, fit.setting, request)
    near = [part.near[0] for part in found if part.near[0] is not None]
    duals = np.sum([part.duals[0] for part in found], axis=0)
    conjugates = np.sum([part.conjugates[0] for part in found], axis=0)
    terms = float(sum(part.terms[0] for part in found))
    return KinkModel(fit.setting, point, near, duals, conjugates, terms, tilted=number > 0), found


def value(model, point):
    """A model at a point, without the constant that it leaves out; no penalty."""
    problem = model._problem(model.weights / model.probabilities)
    linear = model.tilt[: point.size] @ point
    return problem.value(point) - problem.penalty(point) - linear


def whole(kind, **options):
    return getattr(problems, kind)(*data(kind), alpha=1e-3, fit_intercept=True, **options)


def a_point(kind):
    return SDCA(tol=1e-2).minimize(whole(kind), rounds=1000).solution


@pytest.mark.parametrize("kind", KINKED)
@pytest.mark.parametrize("count", [1, 3])
def test_a_model_is_the_objective_where_only_certain_rows_cross_a_kink(kind, count):
    problem, point = whole(kind), a_point(kind)
    fit = started(split(*data(kind), count), getattr(problems, kind))
    model, _ = model_at(fit, point)
    assert 10 < model.sure.sum() < len(model.sure) < N
    away, crossed = np.random.default_rng(0).normal(size=(2, point.size))
    losses = lambda w: problem.losses(w).mean()  # noqa: E731
    slope = lambda w: problem.evaluate(w)[1].ravel()  # noqa: E731
    step = 1.0
    while True:  # the longest step, by halves, that takes no other row across a kink
        end = point + step * away
        moved = np.flatnonzero(slope(end) != slope(point))
        rows = problem.model.rows.values[moved]
        known = {row.tobytes() for row in model.X[model.sure]}
        if all(row.tobytes() in known for row in rows):
            break
        step /= 2
    assert len(moved) >= 3
    fall = value(model, end) - value(model, point)
    assert np.isclose(fall, losses(end) - losses(point), rtol=0, atol=1e-13)
    far = point + crossed
    assert abs(value(model, far) - value(model, point) - losses(far) + losses(point)) > 1e-6


@pytest.mark.parametrize("kind", KINKED)
def test_a_model_is_unbiased_far_from_its_point(kind):
    problem, point = whole(kind), a_point(kind)
    far = point + np.random.default_rng(1).normal(size=point.size)
    right = problem.losses(far).mean() - problem.losses(point).mean()
    errors, wrong = [], []
    for seed in range(400):
        fit = started(split(*data(kind), 2), getattr(problems, kind), seed=seed)
        model, _ = model_at(fit, point)
        errors.append(value(model, far) - value(model, point) - right)
        model.probabilities = np.full(model.probabilities.size, model.sure.size / N)
        wrong.append(value(model, far) - value(model, point) - right)
    limit = stats.norm.isf(ALPHA / 2)

    def z_value(errors):
        return abs(np.mean(errors)) / (np.std(errors) / math.sqrt(len(errors)))

    assert z_value(errors) < limit
    assert z_value(wrong) > limit  # as if all rows had been equally likely


@pytest.mark.parametrize("kind", KINKED)
def test_sums_are_those_of_all_rows(kind):
    problem, point = whole(kind), a_point(kind)
    fit = started(split(*data(kind), 4, uneven=True), getattr(problems, kind))
    _, found = model_at(fit, point)
    losses, slopes, _ = problem.evaluate(point)
    a, model = -slopes[:, 0], problem.model
    assert np.isclose(sum(part.losses[0, 0] for part in found), losses.sum())
    sums = np.sum([part.duals[0] for part in found], axis=0)
    conjugates = np.sum([part.conjugates[0] for part in found], axis=0)
    for side, sign in enumerate((1.0, -1.0)):
        mine = np.where(a * sign > 0, a, 0.0)
        assert np.allclose(sums[side], np.append(mine @ model.rows.values, mine.sum()))
        terms = [type(model).conjugate(model, i, a[i]) for i in range(N) if a[i] * sign > 0]
        assert np.isclose(conjugates[side], sum(terms))


@pytest.mark.parametrize("kind", KINKED)
def test_losses_along_a_step(kind):
    problem, end = whole(kind), a_point(kind)
    start = np.linspace(-1.0, 1.0, end.size)
    fit = started(split(*data(kind), 3), getattr(problems, kind))
    found = fit.runner.map(extract, fit.setting, request_at(fit, end, 0, start=start))
    losses = sum(part.losses[0] for part in found) / N
    right = [problem.losses(start + t * (end - start)).mean() for t in REACHES]
    assert np.allclose(losses, right, rtol=1e-12)
    assert all(part.near == [None] for part in found)


@pytest.mark.parametrize("kind", KINKED)
@pytest.mark.parametrize("intercept", [False, True])
def test_every_bound_is_below_the_minimum(kind, intercept, monkeypatch):
    options = {"alpha": 1e-3, "fit_intercept": intercept}
    problem = getattr(problems, kind)(*data(kind), **options)
    lowest = problem.value(SDCA(tol=1e-10).minimize(problem, rounds=500_000).solution)
    parts = split(*data(kind), 3)
    seen = []

    class Seen(KinkModel):
        def minimise(self, *args):
            least = super().minimise(*args)
            seen.append(least.bound)
            return least

    monkeypatch.setattr(refinement, "KinkModel", Seen)
    for seed in range(5):
        finished(started(parts, getattr(problems, kind), rows=40, seed=seed, **options), 40)
    assert len(seen) > 20
    assert max(seen) <= lowest + 1e-12
    assert max(seen) >= lowest - 1e-6

    class Wrong(Seen):
        """Takes the dual variables of rows that were not certain as well."""

        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            self.sure = np.ones(self.sure.size, dtype=bool)

    seen.clear()
    monkeypatch.setattr(refinement, "KinkModel", Wrong)
    for seed in range(5):
        finished(started(parts, getattr(problems, kind), rows=40, seed=seed, **options), 40)
    assert max(seen) > lowest + 1e-3


@pytest.mark.parametrize("kind", KINKED)
def test_the_minimum_of_a_model(kind):
    """By SDCA, for weights and a linear term, with a penalty on the distance from the point."""
    fit = started(split(*data(kind), 2), getattr(problems, kind))
    point, rng = a_point(kind), np.random.default_rng(0)
    model, _ = model_at(fit, point)
    for kappa in (0.0, 0.1):
        least = model.minimise(kappa, 1e-10, 0)

        def objective(w, kappa=kappa):
            step = w - point
            return value(model, w) + 5e-4 * w[:D] @ w[:D] + kappa / 2 * step[:D] @ step[:D]

        lowest = objective(least.point)
        assert np.isclose(objective(point) - lowest, least.fall, rtol=0, atol=1e-12)
        for size in (1e-4, 1e-2, 1.0):
            for _ in range(50):
                other = least.point + size * rng.normal(size=point.size)
                assert objective(other) > lowest - 1e-10


def test_a_step_that_is_too_long_is_taken_in_part():
    fit = started(split(*data("Hinge"), 2), problems.Hinge)
    fit.step()
    output, setting = fit.outputs[0], fit.setting
    output.best[:], output.point[:] = 0.0, 8.0
    output.bounds[0].primal = 1.0
    output.trust[0].firm, rows = 0.5, int(output.trust[0].rows)
    penalties = setting.l2 / 2 * D * (8.0 * REACHES) ** 2
    losses = np.full(REACHES.size, 2.0)
    losses[3] = 0.25  # after an eighth of the step
    assert not output.settle(setting, N * (losses - penalties))
    assert np.allclose(output.best, 1.0)
    assert np.array_equal(output.point, output.best)
    assert (output.bounds[0].primal, output.trust[0].kappa) == (0.25, 0.5)
    assert output.trust[0].rows == min(2 * rows, N)
    output.point[:] = 3.0
    assert not output.settle(setting, N * np.ones(REACHES.size))  # none of it is better
    assert np.allclose(output.best, 1.0)
    assert (output.bounds[0].primal, output.trust[0].kappa) == (0.25, 4.0)
    assert output.settle(setting, N * np.ones(REACHES.size))  # no step: the same point again
    assert output.trust[0].kappa == 4.0
    output.point[:] = 0.9
    assert output.settle(setting, N * np.linspace(0.1, 0.2, REACHES.size))  # all of it
    assert np.allclose(output.best, 0.9)
    assert output.trust[0].kappa == 0.5


def test_rows_near_a_kink_come_with_certainty_and_long_ones_sooner():
    X = np.full((400, 1), 1e-3)
    X[:, 0] += np.linspace(0.0, 2.0, 400)  # margins from 0 to 2, the kink in the midst
    parts = split(X, np.ones(400), 1)
    fit = started(parts, problems.Hinge, fit_intercept=False)
    (found,) = fit.runner.map(extract, fit.setting, request_at(fit, np.ones(1), 40))
    near, margins = found.near[0], found.near[0].X[:, 0]
    order = np.argsort(np.abs(1.0 - margins))
    assert len(margins) == 40
    assert near.probabilities[order[0]] == 1.0
    expected = margins / np.abs(1.0 - margins)  # s_i |x_i| / r_i
    some = near.probabilities < 1.0
    scale = near.probabilities[some] / expected[some]
    assert np.ptp(scale) < 1e-6 * scale.mean()
    assert (expected[~some] * scale.mean() > 1.0 - 1e-6).all()


@pytest.mark.parametrize("kind", KINKED)
@pytest.mark.parametrize("rows", [100, 10**6])
def test_columns_far_from_zero_and_of_unlike_scale(kind, rows):
    X, y = data(kind)
    X = X * np.array([1.0, 3.0, 10.0, 30.0]) + 1e3
    problem = getattr(problems, kind)(X, y, alpha=1e-3, fit_intercept=True)
    lowest = problem.value(SDCA(tol=1e-9).minimize(problem, rounds=2_000_000).solution)
    fit = finished(started(split(X, y, 2), getattr(problems, kind), rows=rows), 40)
    assert fit.progress.gap <= 1e-6
    assert fit.progress.rounds <= 20
    assert problem.value(fit.outputs[0].best) <= lowest + 2e-6


def test_the_rows_of_a_round_do_not_grow_with_partitions():
    sizes = []
    for count in (2, 60):
        fit = started(split(*data("Hinge"), count), problems.Hinge, rows=120)
        found = fit.runner.map(extract, fit.setting, request_at(fit, np.zeros(D + 1), 120))
        sizes.append(sum(len(part.near[0].targets) for part in found))
    assert sizes == [120, 120]


def test_the_first_rows_are_from_both_classes():
    X, y = data("Hinge")
    y = (np.arange(N) < 9).astype(float)  # one in a hundred
    fit = started(split(X, y, 1), problems.Hinge)
    (found,) = fit.runner.map(extract, fit.setting, request_at(fit, np.zeros(D + 1), 100, 0))
    assert (found.near[0].targets > 0).sum() == 9
    assert np.isclose((1.0 / found.near[0].probabilities).sum(), N, rtol=0.2)


def test_rows_fit_into_what_a_round_may_hold(monkeypatch):
    monkeypatch.setattr(refinement, "NUMBERS", 4096)
    fit = started(split(*data("Hinge"), 3), problems.Hinge, rows=10**6)
    finished(fit, 60)
    assert fit.progress.gap <= 1e-6
    assert fit.progress.bytes < 3 * fit.progress.rounds * 8 * (4096 + 100)


def test_all_that_is_returned_is_counted():
    X, y = data("Hinge")
    for rows in (X, sparse.csr_matrix(X)):
        fit = started(split(rows, y, 1), problems.Hinge)
        point = np.zeros(D + 1)
        (found,) = fit.runner.map(extract, fit.setting, request_at(fit, point, 50))
        near = found.near[0]
        parts = ("data", "indices", "indptr") if rows is not X else ()
        arrays = [*found, *near, *(getattr(near.X, name) for name in parts)]
        assert bytes_of(found) == sum(it.nbytes for it in arrays if isinstance(it, np.ndarray))


def test_rows_of_length_zero_and_equal_rows():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(-1, 2, size=(12, 3)), 60, axis=0).astype(float)
    X[:60] = 0.0
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(float)
    problem = problems.Hinge(X, y, alpha=1e-3, fit_intercept=True)
    lowest = problem.value(SDCA(tol=1e-10).minimize(problem, rounds=500_000).solution)
    for rows in (X, sparse.csr_matrix(X)):
        fit = finished(started(split(rows, y, 4), problems.Hinge, rows=50), 60)
        assert fit.progress.gap <= 1e-6
        assert problem.value(fit.outputs[0].best) <= lowest + 1e-6


def tied(n=3000):
    """No w is better than 0: rows of the larger class are all at the kink."""
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 5 == 0).astype(float)
    return rng.normal(size=(n, D)) + 0.2 * y[:, None], y


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_more_rows_at_a_kink_than_can_be_drawn(monkeypatch, alpha, intercept):
    monkeypatch.setattr(refinement, "NUMBERS", 300 * (D + 4))
    X, y = tied()
    if not intercept:
        X = np.c_[X, np.ones(len(X))]  # nearly without penalty, if alpha is small
    options = {"alpha": alpha, "fit_intercept": intercept}
    problem = problems.Hinge(X, y, **options)
    lowest = problem.value(SDCA(tol=1e-9).minimize(problem, rounds=400_000).solution)
    fit = started(split(X, y, 3), problems.Hinge, rows=60, **options)
    wide = 0
    for _ in range(40):
        done = fit.step()
        wide += fit.outputs[0].trust[0].width > 0
        bounds = fit.outputs[0].bounds[0]
        assert bounds.dual <= lowest + 1e-12
        if done:
            break
    assert fit.progress.gap <= 1e-6
    assert np.isclose(bounds.primal, lowest, atol=1e-6)
    if intercept:
        assert wide >= 3
        monkeypatch.setattr(refinement, "COLUMNS", 0)  # without Newton's method
        without = finished(started(split(X, y, 3), problems.Hinge, rows=60, **options), 40)
        assert without.progress.gap > 1e-3


@pytest.mark.parametrize(
    ("kind", "options"),
    [("Hinge", {}), ("EpsilonInsensitive", {}), ("EpsilonInsensitive", {"epsilon": 0.0})],
)
def test_dual_variables_in_a_width_around_a_kink(kind, options):
    model, width = whole(kind, **options).model, 0.5
    for item in (0, 1, 2):
        y, seen = model.targets[item], 0
        grid = np.linspace(-1.0, 1.0, 20_001)
        grid = np.array([b for b in grid if type(model).inside(model, item, b)])
        conjugates = np.array([type(model).conjugate(model, item, b) for b in grid])
        for z in y + np.linspace(-2.0, 2.0, 401):
            distance = type(model).clearance(model, item, z)
            if distance >= width:
                continue
            middle = 0.5 * (y if kind == "Hinge" else np.sign(y - z) * (not options))
            dual = -conjugates - grid * z - width / 2 * (grid - middle) ** 2
            found = between_at(model, item, z, distance, width)
            assert abs(found - grid[np.argmax(dual)]) < 2e-4
            seen += 1
        assert seen > 50


def between_at(model, item, z, distance, width):
    function = near_kinks.between
    return getattr(function, "py_func", function)(model, item, z, distance, width)


def test_newton_steps_end_at_the_minimum_with_rounded_kinks():
    """With all rows drawn: the gradient of the rounded objective becomes 0."""
    fit = started(split(*data("Hinge"), 2), problems.Hinge)
    point, sizes = a_point("Hinge"), []
    for _ in range(12):
        model, _ = model_at(fit, point, rows=10**6, width=0.5)
        penalty = np.append(np.full(D, 1e-3), 0.0)
        sizes.append(np.abs(penalty * point - model.total / N).max())
        point, _ = model.untie(0.5)
    assert sizes[0] > 1e-3
    assert sizes[-1] < 1e-12
    dense = model.untie(0.5)[0]
    model.X = sparse.csr_matrix(model.X)
    assert np.allclose(model.untie(0.5)[0], dense)


def test_more_columns_than_rows_in_a_model(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 80))
    y = (X[:, :5].sum(axis=1) + rng.normal(size=600) > 0).astype(float)
    monkeypatch.setattr(refinement, "NUMBERS", 60 * 84)
    monkeypatch.setattr(near_kinks, "FULL", 0)
    fit = finished(started(split(X, y, 2), problems.Hinge, alpha=1.0, tol=1e-3), 40)
    assert fit.progress.gap <= 1e-3


def test_shuffled_draws_have_the_same_optimum():
    parts = split(*data("Hinge"), 2)
    first = finished(started(parts, problems.Hinge), 40)
    other = finished(started(parts, problems.Hinge, sampler="shuffle"), 40)
    assert other.progress.gap <= 1e-6
    assert not np.array_equal(first.outputs[0].best, other.outputs[0].best)
    assert np.allclose(first.outputs[0].best, other.outputs[0].best, atol=1e-2)


def test_conjugates_are_linear_on_either_side():
    """What the bound relies on where it scales the heavier side down."""
    for kind in KINKED:
        model = whole(kind).model
        for item in (0, 1, 2):
            for a in (1.0, -1.0):
                if type(model).inside(model, item, a):
                    once = type(model).conjugate(model, item, a)
                    assert np.isclose(type(model).conjugate(model, item, 0.3 * a), 0.3 * once)


def test_clearance_is_the_distance_from_the_nearest_kink():
    for kind in KINKED:
        model = whole(kind).model
        grid = np.linspace(-6.0, 6.0, 120_001)
        for item in (0, 1, 2):
            slopes = np.array([type(model).slope(model, item, z) for z in grid])
            kinks = (grid[1:] + grid[:-1])[slopes[1:] != slopes[:-1]] / 2
            for z in (-2.3, 0.1, 1.7):
                right = np.abs(kinks - z).min()
                assert np.isclose(type(model).clearance(model, item, z), right, atol=1e-4)
