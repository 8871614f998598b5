"""Quadratics with an l1 penalty: against the best of all sign patterns."""

import itertools

import numpy as np
import pytest

from players import draw_one, update_one
from tombola import Cyclic
from tombola.problems.rows import Dense, Sparse
from tombola.samplers import VRB, Shuffle
from tombola.solvers.gap import Penalty
from tombola.solvers.lasso.quadratic import (
    decrease_left,
    minimise_by_columns,
    minimise_quadratic,
    new_model,
    search_faces,
    step_on_face,
    sweep,
)

PENALTIES = [Penalty(0.3, 0.0), Penalty(0.3, 0.2), Penalty(0.3, 0.0, True)]


def value(G, c, w, penalty):
    return w @ G @ w / 2 - c @ w + penalty.value(w)


def best_of_all_faces(G, c, penalty):
    """Try every pattern of signs: the minimum on its face, where that has these signs."""
    best = np.zeros(len(c))
    for signs in itertools.product((0, 1) if penalty.positive else (-1, 0, 1), repeat=len(c)):
        face = np.flatnonzero(signs)
        s = np.array(signs)[face]
        system = G[np.ix_(face, face)] + penalty.l2 * np.eye(face.size)
        w = np.zeros(len(c))
        w[face] = np.linalg.lstsq(system, c[face] - penalty.l1 * s, rcond=None)[0]
        if (w[face] * s >= 0).all() and value(G, c, w, penalty) < value(G, c, best, penalty):
            best = w
    return best


def quadratic(seed, rows=12, k=5, copies=False):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rows, k)) + 0.8 * rng.normal(size=(rows, 1))
    if copies:
        A[:, 3] = A[:, 0]
    return A, A.T @ A / rows, A.T @ (A @ rng.normal(size=k) + rng.normal(size=rows)) / rows


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("copies", [False, True])
def test_the_minimum_over_all_faces(penalty, copies):
    for seed in range(20):
        _, G, c = quadratic(seed, copies=copies)
        best = best_of_all_faces(G, c, penalty)
        w, gradient = np.zeros(5), -c
        minimise_quadratic(G, gradient, w, penalty, Shuffle(5, seed=seed).state, 1e-15)
        assert value(G, c, w, penalty) == pytest.approx(value(G, c, best, penalty), abs=1e-12)
        assert gradient == pytest.approx(G @ w - c, abs=1e-12)


@pytest.mark.parametrize("make", [Shuffle, VRB, Cyclic])
def test_room_beyond_the_matrix_is_not_read(make):
    _, G, c = quadratic(1)
    room = np.full((9, 9), np.nan)
    room[:5, :5] = G
    w = np.zeros(5)
    minimise_quadratic(room, -c, w, PENALTIES[0], make(5).state, 1e-15)
    best = best_of_all_faces(G, c, PENALTIES[0])
    assert w == pytest.approx(best, abs=1e-7)


def test_a_step_on_a_face_never_ascends_and_keeps_signs():
    cut = 0
    for seed in range(50):
        _, G, c = quadratic(seed)
        rng = np.random.default_rng(seed)
        w = rng.normal(size=5) * rng.integers(0, 2, 5)
        before, gradient = w.copy(), G @ w - c
        step_on_face(G, gradient, w, PENALTIES[0])
        assert value(G, c, w, PENALTIES[0]) <= value(G, c, before, PENALTIES[0]) + 1e-14
        assert (w * before >= 0).all()
        assert (w[before == 0] == 0).all()
        assert gradient == pytest.approx(G @ w - c, abs=1e-12)
        cut += bool(((w == 0) & (before != 0)).any())
    assert 10 < cut < 50  # both kinds of step were seen


def slow_step(G, c, w, penalty, entering):
    """The best of all points on the way to the minimum of a face where a sign changes, and of it.

    Also return whether none changes.
    """
    signs = np.sign(w)
    if entering >= 0:
        signs[entering] = -np.sign((G @ w - c)[entering])
    face = np.flatnonzero(signs)
    goal = w.copy()
    system = G[np.ix_(face, face)] + penalty.l2 * np.eye(face.size)
    goal[face] = np.linalg.solve(system, c[face] - penalty.l1 * signs[face])
    crossing = np.full(w.size, np.inf)
    for j in face:
        if goal[j] * signs[j] <= 0:
            crossing[j] = w[j] / (w[j] - goal[j])
    best = w
    for stop in [*np.sort(crossing[crossing < np.inf]), 1.0]:
        point = np.where(crossing <= stop, 0.0, w + stop * (goal - w))
        if value(G, c, point, penalty) < value(G, c, best, penalty):
            best = point
    return best, not (crossing < np.inf).any()


@pytest.mark.parametrize("penalty", PENALTIES[:2])
def test_a_step_on_a_face_is_the_best_on_its_way(penalty):
    kinds = set()
    for seed in range(60):
        _, G, c = quadratic(seed)
        rng = np.random.default_rng(seed)
        start = rng.normal(size=5) * rng.integers(0, 2, 5)
        free = np.flatnonzero(start == 0)
        entering = int(free[0]) if free.size and seed % 2 else -1
        expected, reached = slow_step(G, c, start, penalty, entering)
        w, gradient = start.copy(), G @ start - c
        found = step_on_face(G, gradient, w, penalty, entering)
        np.testing.assert_allclose(w, expected, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(gradient, G @ w - c, atol=1e-12)
        moved = bool((expected != start).any())
        assert found == (reached or not moved)
        kinds.add((entering >= 0, found, moved))
    assert len(kinds) >= 4


@pytest.mark.parametrize("penalty", PENALTIES)
def test_from_face_to_face_alone(penalty):
    """Also where a column is 0, and as near to the minimum as asked for."""
    for seed in range(10):
        _, G, c = quadratic(seed)
        G[4] = G[:, 4] = c[4] = 0.0
        best = best_of_all_faces(G[:4, :4], c[:4], penalty)
        w, gradient = np.zeros(5), -c
        search_faces(G, gradient, w, penalty, 0.0)
        np.testing.assert_allclose(w, [*best, 0.0], atol=1e-8)
        np.testing.assert_allclose(gradient, G @ w - c, atol=1e-12)
        w = np.zeros(5)
        search_faces(G, -c, w, penalty, 1e9)  # nothing that could be gained is worth it
        assert not w.any()


def best_in(G, gradient, w, penalty, j):
    """The minimum of Q in one coordinate."""
    if G[j, j] == 0:
        return 0.0
    v = G[j, j] * w[j] - gradient[j]
    after = np.sign(v) * max(abs(v) - penalty.l1, 0.0) / (G[j, j] + penalty.l2)
    return max(after, 0.0) if penalty.positive else after


@pytest.mark.parametrize("penalty", PENALTIES)
def test_sweeps(penalty):
    """Changes, and what is fed back, are those of coordinate descent in numpy."""
    for seed in range(6):
        _, G, c = quadratic(seed)
        G[2] = G[:, 2] = c[2] = 0.0
        ours, theirs = VRB(5, seed=seed), VRB(5, seed=seed)
        w = np.abs(np.random.default_rng(seed).normal(size=5)) * [1, 0, 1, 0, 1]
        slow, gradient = w.copy(), G @ w - c
        for _ in range(4):
            changes, moved = 0, False
            for _ in range(5):
                j, p = draw_one(theirs.state)
                after = best_in(G, G @ slow - c, slow, penalty, j)
                change = after - slow[j]
                update_one(theirs.state, j, p, ((G[j, j] + penalty.l2) * change**2) ** 0.25)
                changes += abs(change) > 1e-14
                moved |= abs(change) > 1e-14 and (after == 0) != (slow[j] == 0)
                slow[j] = after
            found = sweep(G, gradient, w, penalty, ours.state)
            assert found[0] >= changes  # one that is left by rounding may be counted
            assert found[1] == moved
            np.testing.assert_allclose(w, slow, atol=1e-13)
            np.testing.assert_allclose(gradient, G @ w - c, atol=1e-12)
            np.testing.assert_allclose(ours.probabilities(), theirs.probabilities(), rtol=1e-6)
            steps = [best_in(G, G @ slow - c, slow, penalty, j) - slow[j] for j in range(5)]
            left = sum((np.diag(G) + penalty.l2) / 2 * np.square(steps))
            found = decrease_left(G, gradient, w, penalty)
            assert found == pytest.approx(left, rel=1e-8, abs=1e-20)


def as_sparse(lines):
    d, n = lines.shape
    places = [np.flatnonzero(line).astype(np.int32) for line in lines]
    starts = np.cumsum([0, *map(len, places)])
    return Sparse(lines[lines != 0], np.concatenate(places), starts, np.array([d, n]))


@pytest.mark.parametrize("kind", [Dense, as_sparse])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("intercept", [False, True])
def test_by_columns_is_by_matrix(kind, penalty, intercept):
    rng = np.random.default_rng(3)
    lines = rng.normal(size=(7, 30)) * (rng.random((7, 30)) < 0.6)
    places = np.array([5, 0, 2, 6])
    h, slopes = rng.uniform(0, 2, 30), rng.normal(size=30)
    A = lines[places]
    means = A @ h / h.sum() if intercept else np.zeros(4)
    centred = A - means[:, None]
    G = (centred * h) @ centred.T / 30
    start = np.array([0.0, 0.5, 0.0, 1.0])
    gradient = centred @ slopes / 30
    model = new_model(kind(lines), places, h, slopes, means, (A * A) @ h)
    w = start.copy()
    minimise_by_columns(model, w, penalty, Shuffle(4).state, 1e-18)
    best = best_of_all_faces(G, G @ start - gradient, penalty)
    assert w == pytest.approx(best, abs=1e-7)
    assert model.sums[0].moved == pytest.approx(means @ (w - start), abs=1e-9)
