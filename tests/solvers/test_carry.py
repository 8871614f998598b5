"""The hooks for estimators: stop early, and continue on other rows."""

import numpy as np
import pytest
import scipy.sparse as sp

import tombola
from tombola.checkpoint import CheckpointError
from tombola.problems import KMeans, Logistic
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad, MiniBatchKMeans


def problem(n=60, seed=0, **others):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return Logistic(
        X, X[:, 0] + 0.3 * rng.normal(size=n) > 0, alpha=1e-2, fit_intercept=True, **others
    )


@pytest.mark.parametrize(
    "solver",
    [AdaGrad(0.3), AdaGrad(0.3, version="norm"), SGD(0.3, schedule="root"), SGD(0.1)],
    ids=str,
)
def test_two_runs_with_carry_are_one(solver):
    """On the same items, with the same draws, solution and carry determine the rest."""
    whole = solver.minimize(problem(), sampler=tombola.Uniform(60), rounds=200)
    first = solver.minimize(problem(), sampler=tombola.Uniform(60), rounds=80)
    second = solver.minimize(
        problem(), sampler=first.sampler, rounds=120,
        start=first.solution, carry=first.state["carried"],
    )  # fmt: skip
    assert second.solution == pytest.approx(whole.solution, rel=1e-12)
    assert second.state["carried"]["rounds"] == 200


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_two_runs_of_clusters_with_carry_are_one(form):
    """Counts are carried. One cluster is empty."""
    X = np.random.default_rng(0).normal(size=(60, 4)) + 3.0 * (np.arange(60)[:, None] % 3)
    start = np.array([X[0], X[1], X[2], np.full(4, 90.0)])
    solver, it = MiniBatchKMeans(5), KMeans(form(X), 4)
    whole = solver.minimize(it, sampler=tombola.Uniform(60), rounds=30, start=start)
    first = solver.minimize(it, sampler=tombola.Uniform(60), rounds=12, start=start)
    second = solver.minimize(
        it, sampler=first.sampler, rounds=18, start=first.solution, carry=first.state["carried"]
    )
    np.testing.assert_allclose(second.solution, whole.solution, rtol=1e-10)
    centres, expected = (each.state["parts"]["centres"] for each in (second, whole))
    for name in ("counts", "w"):
        np.testing.assert_allclose(centres[name], expected[name], rtol=1e-9, err_msg=name)
    with pytest.raises(ValueError, match=r"carry\.counts must be an array of 3 float64"):
        solver.minimize(KMeans(form(X), 3), rounds=1, start=start[:3], carry=first.state["carried"])


@pytest.mark.parametrize("solver", [SAGA(), SVRG()], ids=str)
def test_stored_slopes_are_not_carried(solver):
    first = solver.minimize(problem(), rounds=100)
    second = solver.minimize(
        problem(40, seed=1), rounds=100, start=first.solution, carry=first.state["carried"]
    )
    assert problem(40, seed=1).value(second.solution) < problem(40, seed=1).value(first.solution)


def test_carry_that_does_not_fit():
    first = AdaGrad().minimize(problem(), rounds=10)
    with pytest.raises(ValueError, match="carry has an unknown entry 'square_sum'"):
        SGD().minimize(problem(), rounds=10, carry=first.state["carried"])
    with pytest.raises(ValueError, match="not both"):
        AdaGrad().minimize(problem(), rounds=20, resume=first, carry=first.state["carried"])


def test_until_is_called_every_epoch_and_stops():
    seen = []

    def stop(rounds, solution, loss):
        seen.append((rounds, problem().value(solution), loss))
        return rounds == 240

    solver = AdaGrad(0.01, batch_size=4)
    result = solver.minimize(
        problem(), sampler=tombola.Shuffle(60), rounds=1000, until=stop, every=60
    )
    assert [rounds for rounds, _, _ in seen] == [60, 120, 180, 240]
    assert result.rounds == 240
    assert not result.interrupted
    solver.minimize(problem(), rounds=45, until=lambda rounds, *_: seen.append(rounds))
    assert seen[4:] == [15, 30, 45]


def test_the_loss_on_the_way_is_an_estimate_of_the_mean_loss():
    """With a tiny rate and whole shuffled epochs it is exact."""
    seen = []
    AdaGrad(1e-12).minimize(
        problem(sample_weight=np.arange(60)), sampler=tombola.Shuffle(60), rounds=120,
        until=lambda rounds, solution, loss: seen.append(loss),
    )  # fmt: skip
    assert seen == pytest.approx([np.log(2)] * 2, rel=1e-9)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"squares": np.full((1, 5), np.nan)}, r"carry.squares\[0, 0\] must be from 0"),
        ({"squares": np.zeros(5)}, "carry.squares must be an array of 1 x 5"),
        ({"rounds": -1}, "carry.rounds must be an integer from 0"),
        ({"square_sum": np.inf}, "carry.square_sum must be a float from 0"),
        ({"squares": np.array([["a"] * 5])}, "carry.squares must be an array"),
    ],
    ids=str,
)
def test_carried_numbers_are_checked(odd, message):
    carried = AdaGrad(0.3).minimize(problem(), rounds=5).state["carried"]
    with pytest.raises(CheckpointError, match=message):
        AdaGrad(0.3).minimize(problem(), rounds=5, carry={**carried, **odd})


def test_carry_is_a_dict():
    with pytest.raises(CheckpointError, match="carry must be a dict, got 'text'"):
        AdaGrad(0.3).minimize(problem(), rounds=5, carry="text")
