"""Quadratics with an l1 penalty: against the best of all sign patterns."""

import itertools

import numpy as np
import pytest

from tombola.problems.rows import Dense, Sparse
from tombola.samplers import VRB, Shuffle
from tombola.solvers import Cyclic
from tombola.solvers.column_steps import minimise_by_columns, new_model
from tombola.solvers.face import minimise_quadratic, step_on_face
from tombola.solvers.screening import Penalty

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
