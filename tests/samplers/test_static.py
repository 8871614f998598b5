"""Static: the weights that were given, exactly, for ever."""

from fractions import Fraction

import numpy as np
import pytest

from budget import chi_square_excess
from players import update_one
from tombola import Static, Uniform
from tombola.samplers.weighted import uniform_weight

pytestmark = pytest.mark.kernels


def oracle(weights, mixing=0.0):
    """The formula of the docstring."""
    weights = np.asarray(weights, dtype=float)
    return (1 - mixing) * weights / weights.sum() + mixing / len(weights)


@pytest.mark.parametrize("mixing", [0.0, 0.1, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("weights", [[3.0], [1, 2, 5], [0.0, 1e-3, 7.0, 7.0, 0.0], range(1, 40)])
def test_rule(weights, mixing):
    sampler = Static(list(weights), mixing=mixing)
    assert sampler.probabilities() == pytest.approx(oracle(list(weights), mixing), abs=1e-12)
    assert sampler.probabilities().sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("mixing", [0.0, 0.25])
def test_reported_probability_is_that_of_the_integers(mixing):
    sampler = Static([0.1, 0.7, 1 / 3, 0.0], mixing=mixing)
    weights = [int(weight) for weight in sampler.state.index.weights]
    extra = int(uniform_weight(sampler.state))
    total = sum(weights) + 4 * extra
    exact = [float(Fraction(weight + extra, total)) for weight in weights]
    assert sampler.probabilities().tolist() == exact
    draw = sampler.draw(100)
    assert draw.probabilities.tolist() == [exact[item] for item in draw.indices]


def test_draws_follow_the_weights():
    weights = np.arange(50) % 7
    sampler = Static(weights, seed=4)
    counts = np.bincount(sampler.draw(20_000).indices, minlength=50)
    assert chi_square_excess(counts, weights) < 1
    wrong = np.bincount(Static(np.sqrt(weights), seed=4).draw(20_000).indices, minlength=50)
    assert chi_square_excess(wrong, weights) > 1


def test_weight_zero_is_never_drawn_and_weight_tiny_can_be():
    sampler = Static([0.0, 1e300, 1e-300, 0.0])
    assert (sampler.state.index.weights > 0).tolist() == [False, True, True, False]
    assert sampler.probabilities()[[0, 3]].tolist() == [0.0, 0.0]
    assert set(sampler.draw(1000).indices) <= {1, 2}
    other = Uniform(4).draw(200)  # feedback on items of weight 0 does not bring them back
    sampler.update(other, np.ones(200))
    for item in range(4):
        update_one(sampler.state, item, 0.25, 1.0)
    assert sampler.probabilities()[[0, 3]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("scale", [5e-324, 1e-308, 1.0, 2.0**1020])
def test_unit_does_not_matter(scale):
    weights = np.array([1.0, 2.0, 4.0, 8.0]) * scale
    assert Static(weights).probabilities() == pytest.approx(np.array([1, 2, 4, 8]) / 15, abs=1e-12)


def test_learns_nothing():
    sampler, silent = Static([1, 2, 3], seed=1), Static([1, 2, 3], seed=1)
    for _ in range(20):
        draw = sampler.draw(10)
        assert draw == silent.draw(10)
        sampler.update(draw, 1e200 * np.arange(10))
    assert sampler.gauge.count == 200


def test_partially_biased():
    lipschitz = np.array([0.0, 1.0, 2.0, 9.0])
    sampler = Static.partially_biased(lipschitz)
    chances = sampler.probabilities()
    assert chances == pytest.approx(1 / 8 + lipschitz / 24, abs=1e-12)
    assert sampler.gauge.importance_limit == 1 / (4 * chances.min()) <= 2
    ours = Static.partially_biased([1.0, 1.0], seed=3)
    assert ours.draw(5) == Static([1, 1], mixing=0.5, seed=3).draw(5)


@pytest.mark.parametrize(
    "groups",
    [
        ["a", "b", "b", "a", "c", "b"],
        np.array([0, 1, 1, 0, 2, 1]),
        np.array(["x", "yy", "yy", "x", "z", "yy"]),
        [(0, "a"), "b", "b", (0, "a"), 1.5, "b"],
    ],
)
def test_balanced(groups):
    sampler = Static.balanced(groups)
    expected = np.array([3, 2, 2, 3, 6, 2]) / 18
    assert sampler.probabilities() == pytest.approx(expected, abs=1e-12)


def test_largest_importance_skips_what_is_never_drawn():
    assert Static([0.0, 1.0, 3.0])._largest_importance() == pytest.approx(4 / 3)
    assert Static([0.0, 1.0, 3.0], mixing=1.0)._largest_importance() == pytest.approx(1)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1.0, np.nan], ValueError, r"weights\[1\] is nan, not finite and at least 0"),
        ([1.0, 2.0, -3.0], ValueError, r"weights\[2\] is -3.0, not finite"),
        ([np.inf, 1.0], ValueError, r"weights\[0\] is inf"),
        ([0.0, 0.0], ValueError, "all 2 weights are 0"),
        ([], ValueError, r"weights must have shape \(n,\) with n at least 1, got \(0,\)"),
        ([[1.0]], ValueError, r"got \(1, 1\)"),
        (3.0, ValueError, r"got \(\)"),
        (["a"], TypeError, "weights must hold numbers, got dtype <U1"),
    ],
)
def test_bad_weights(weights, error, message):
    with pytest.raises(error, match=message):
        Static(weights)


@pytest.mark.parametrize("mixing", [-0.1, 1.1, np.nan])
def test_bad_mixing(mixing):
    with pytest.raises(ValueError, match=f"mixing must be from 0 to 1, got {mixing}"):
        Static([1.0], mixing=mixing)


def test_bad_groups():
    with pytest.raises(ValueError, match=r"groups\[1\] is nan: that item has no group"):
        Static.balanced([1.0, np.nan])
    with pytest.raises(ValueError, match=r"one dimension, got shape \(1, 2\)"):
        Static.balanced(np.array([[1, 2]]))
    with pytest.raises(ValueError, match="groups is empty"):
        Static.balanced(np.array([], dtype=int))


def test_the_weights_are_a_copy():
    mine = np.array([1.0, 3.0])
    sampler = Static(mine)
    mine[:] = 7.0
    sampler.reset()
    assert sampler.probabilities().tolist() == [0.25, 0.75]


def test_the_weights_that_it_keeps_cannot_be_changed():
    given = np.array([1.0, 2.0])
    sampler = Static(given)
    given[0] = 5.0
    assert sampler.parameters["weights"].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        sampler.parameters["weights"][0] = 5.0
