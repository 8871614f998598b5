"""Conjugates and one-row maximisations of all losses against scalar oracles.

The oracles know the losses alone, as formulas: a conjugate is a maximum over a fine grid of z, and
a maximisation is checked by the sign of a derivative on both sides.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from tombola.compiling import kernel
from tombola.problems import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    Softmax,
    SquaredHinge,
)

pytestmark = pytest.mark.kernels

EPSILON = 0.3
LOSSES = {  # the loss of an inner product z and a target y, and the domain of y a or a
    "Logistic": (Logistic, lambda z, y: np.logaddexp(0, -y * z), (0, 1)),
    "Hinge": (Hinge, lambda z, y: np.maximum(0, 1 - y * z), (0, 1)),
    "SquaredHinge": (SquaredHinge, lambda z, y: np.maximum(0, 1 - y * z) ** 2, (0, np.inf)),
    "LeastSquares": (LeastSquares, lambda z, y: (z - y) ** 2 / 2, (-np.inf, np.inf)),
    "Huber": (
        Huber,
        lambda z, y: np.where(
            abs(z - y) <= EPSILON, (z - y) ** 2 / 2, EPSILON * (abs(z - y) - EPSILON / 2)
        ),
        (-EPSILON, EPSILON),
    ),
    "EpsilonInsensitive": (
        EpsilonInsensitive,
        lambda z, y: np.maximum(0, abs(z - y) - EPSILON),
        (-1, 1),
    ),
}
CLASSIFIERS = ("Logistic", "Hinge", "SquaredHinge")
SMOOTH = ("Logistic", "SquaredHinge", "LeastSquares", "Huber")


def problem(name, targets=(1.0, -1.0)):
    kind = LOSSES[name][0]
    options = {"epsilon": EPSILON} if name in ("Huber", "EpsilonInsensitive") else {}
    return kind(np.ones((len(targets), 1)), np.array(targets), **options)


@kernel
def ascend_one(model, item, a, z, q):
    return model.ascend(item, a, z, q)


@kernel
def conjugate_one(model, item, a):
    return model.conjugate(item, a)


@kernel
def curve_one(model, item, z):
    return model.curve(item, z)


@kernel
def scalar_slope(model, item, z):
    return model.slope(item, z)


@kernel
def is_inside(model, item, a):
    return model.inside(item, a)


@kernel
def slope_one(model, item, z, out):
    return model.slopes(item, z, out)


def duals(name, y, rng, count):
    """Dual variables in the domain, its ends included where it has some."""
    low, high = LOSSES[name][2]
    ends = [end for end in (low, high) if np.isfinite(end)]
    inner = rng.uniform(max(low, -3), min(high, 3), size=count)
    return np.array([*ends, *inner]) * (y if name in CLASSIFIERS else 1.0)


@pytest.mark.parametrize("name", LOSSES)
def test_conjugates_are_maxima_over_a_grid(name):
    it, loss, rng = problem(name), LOSSES[name][1], np.random.default_rng(0)
    grid = np.linspace(-60, 60, 1_200_001)
    for item, y in enumerate((1.0, -1.0)):
        values = loss(grid, y)
        for a in duals(name, y, rng, 20):
            best = (-a * grid - values).max()
            tail = 1e-8 if name == "Logistic" else 1e-7  # a maximum at infinity; the grid's step
            assert conjugate_one(it.model, item, a) == pytest.approx(best, abs=tail)


@pytest.mark.parametrize("name", LOSSES)
def test_fenchel_young_is_tight_at_the_slope(name):
    """phi(z) + phi*(phi'(z)) = z phi'(z): what the certificate rests on."""
    it = problem(name)
    for item in (0, 1):
        for z in (-7.3, -1.0, -0.2, 0.0, 0.45, 1.0, 2.0, 30.0):
            out = np.empty(1)
            phi = slope_one(it.model, item, np.array([z]), out)
            assert scalar_slope(it.model, item, z) == out[0]
            assert is_inside(it.model, item, -out[0])
            dual = conjugate_one(it.model, item, -out[0])
            assert phi + dual - z * out[0] == pytest.approx(0.0, abs=1e-12 * max(1, phi, abs(z)))


@pytest.mark.parametrize("name", LOSSES)
def test_domains(name):
    it, (low, high) = problem(name), LOSSES[name][2]
    for item, y in enumerate((1.0, -1.0)):
        sign = y if name in CLASSIFIERS else 1.0
        for a in (low, high, -5.0, -1.5, -0.3, 0.0, 0.3, 0.7, 1.5, 5.0, 1 + 1e-12, -1e-12):
            if np.isfinite(a):
                assert is_inside(it.model, item, sign * a) == (low <= a <= high)


@pytest.mark.parametrize("name", SMOOTH)
def test_curves_are_second_derivatives(name):
    it, h = problem(name), 1e-6
    for item in (0, 1):
        for z in (-2.3, -0.9, 0.1, 0.6, 0.95, 1.15, 3.0):
            high, low = np.empty(1), np.empty(1)
            slope_one(it.model, item, np.array([z + h]), high)
            slope_one(it.model, item, np.array([z - h]), low)
            second = (high[0] - low[0]) / (2 * h)
            assert curve_one(it.model, item, z) == pytest.approx(second, abs=1e-8)
            assert curve_one(it.model, item, z) <= it.curvature


QS = [0.0, 1e-300, 1e-12, 1e-3, 0.3, 1.0, 7.0, 300.0, 1e6, 1e12, 1e300]
ZS = [0.0, -0.3, 0.7, 1.0, -1.0, 5.0, -40.0, 800.0, -800.0, 1e12, -1e12]


def value(name, it, item, y, a, z, q, b):
    return -conjugate_one(it.model, item, b) - b * z - q / 2 * (b - a) ** 2


@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("name", [name for name in LOSSES if name != "Logistic"])
def test_the_maximisation_is_not_beaten(name, q):
    """By scipy's bounded search, the ends, the old value, and neighbours of the result."""
    it, rng = problem(name), np.random.default_rng(1)
    low, high = LOSSES[name][2]
    for item, y in enumerate((1.0, -1.0)):
        for a in duals(name, y, rng, 4):
            for z in ZS:
                b = ascend_one(it.model, item, a, z, q)
                inside = y * b if name in CLASSIFIERS else b
                assert low <= inside <= high
                sign = y if name in CLASSIFIERS else 1.0
                left, right = max(low, inside - 2), min(high, inside + 2)
                others = [a, sign * left, sign * right, b * (1 + 1e-6), b * (1 - 1e-6)]
                found = minimize_scalar(
                    lambda t, s=sign, p=(name, it, item, y, a, z, q): -value(*p, s * t),
                    bounds=(left, right),
                    method="bounded",
                    options={"xatol": 1e-12},
                )
                others.append(sign * found.x)
                mine = value(name, it, item, y, a, z, q, b)
                for other in others:
                    there = y * other if name in CLASSIFIERS else other
                    if low <= there <= high:
                        theirs = value(name, it, item, y, a, z, q, other)
                        scale = abs(theirs) + abs(b * z) + q * (b * b + a * a) + 1
                        assert theirs <= mine + 1e-13 * scale


def root(alpha, margin, q):
    """The root in t = log(beta / (1 - beta)), where the equation is nearly linear."""

    def balance(t):
        beta = 1 / (1 + math.exp(-t)) if t > -700 else math.exp(t)
        return t + margin + q * (beta - alpha)

    reach = abs(margin) + q + 1
    t = brentq(balance, -reach, reach, xtol=1e-14, rtol=1e-15, maxiter=1000)
    return 1 / (1 + math.exp(-t)) if t > -700 else math.exp(max(t, -745))


@pytest.mark.parametrize("q", QS)
def test_the_logistic_step_is_the_root(q):
    it, rng = problem("Logistic"), np.random.default_rng(2)
    alphas = [0.0, 1.0, 5e-324, 1e-300, 1e-17, 1 - 2**-53, 0.5, 1e-5, *rng.uniform(size=20)]
    margins = [*ZS, *rng.normal(scale=5, size=20)]
    for item, y in enumerate((1.0, -1.0)):
        for alpha in alphas:
            for margin in margins:
                beta = y * ascend_one(it.model, item, y * alpha, y * margin, q)
                assert 0 <= beta <= 1
                if abs(margin) + q > 1e11:
                    continue  # brentq loses its digits there; see the next test
                right = root(alpha, margin, q)
                assert beta == pytest.approx(right, rel=1e-9, abs=2e-16)


def test_the_logistic_step_at_extremes():
    """Where margin and curvature are enormous the answer is known without solving anything."""
    it = problem("Logistic")
    assert ascend_one(it.model, 0, 0.25, 1e12, 1e300) == pytest.approx(0.25)
    assert ascend_one(it.model, 0, 0.0, -1e300, 1.0) == 1.0
    assert ascend_one(it.model, 0, 1.0, 1e300, 1.0) == 0.0
    assert ascend_one(it.model, 0, 0.0, -1e6, 1e12) == pytest.approx(1e-6, rel=1e-3)
    assert ascend_one(it.model, 0, 0.3, 0.0, math.inf) == 0.3
    # a root close to 1 keeps what float64 holds of it
    assert ascend_one(it.model, 0, 0.5, -30.0, 0.01) == pytest.approx(root(0.5, -30.0, 0.01))


def test_a_wrong_step_would_be_seen():
    """The tests above can fail: half of a step is beaten by far more than they allow."""
    it = problem("SquaredHinge")
    b = ascend_one(it.model, 0, 0.2, -1.0, 1.0)
    right = value("SquaredHinge", it, 0, 1.0, 0.2, -1.0, 1.0, b)
    wrong = value("SquaredHinge", it, 0, 1.0, 0.2, -1.0, 1.0, 0.2 + (b - 0.2) / 2)
    assert right - wrong > 0.1


def test_which_losses_have_a_dual():
    assert all(problem(name).has_dual for name in LOSSES)
    assert not Softmax(np.ones((2, 1)), [0, 1]).has_dual


@pytest.mark.parametrize("kind", [Huber, EpsilonInsensitive])
@pytest.mark.parametrize("epsilon", [-1.0, math.inf, math.nan, "1", None])
def test_a_bad_epsilon_is_named(kind, epsilon):
    with pytest.raises((ValueError, TypeError), match="epsilon must be"):
        kind([[1.0]], [1.0], epsilon=epsilon)
