"""VRM: exact probabilities, independent draws, and the Newton step against a generic solver."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

import budget
import tombola
from tombola import VRM, Draw
from tombola.checkpoint import CheckpointError
from tombola.index.layout import build
from tombola.samplers.rivals.vrm import build_members, take_step

pytestmark = pytest.mark.kernels


def overlapping(n):
    """Three distributions: two that overlap, and one that is the same everywhere."""
    return [np.arange(1.0, n + 1) ** 2, np.arange(n) % 2 == 0, np.full(n, 7.0)]


def fed(sampler, scale=1.0, rounds=30):
    """Feedback that is late, in part, and for draws of another sampler."""
    losses = scale * np.linspace(0.1, 1.0, sampler.n) ** 2
    other = tombola.Static(np.arange(sampler.n, 0.0, -1.0), mixing=0.5, seed=9)
    for _ in range(rounds):
        late, foreign = sampler.draw(3), other.draw(1)
        sampler.update(sampler.draw(2), np.full(2, 0.3 * scale))
        sampler.update(late[:2], losses[late.indices[:2]])
        sampler.update(foreign, losses[foreign.indices])
    return sampler


def integers(sampler):
    """The integer weights of the mixture, and of each component, the uniform one last."""
    state, n = sampler.state, sampler.n
    members, starts = state.components.members, state.components.starts
    table = np.zeros((len(starts), n), dtype=object)
    for c in range(len(starts) - 1):
        part = slice(starts[c], starts[c + 1])
        table[c, state.components.items[part]] = members.weights[part]
    table[-1] = 1
    return state.index.weights, table


def chance(weights, table, item):
    """The exact probability of an item: a component by its weight, then an item of it."""
    total = int(weights.sum())
    return sum(
        Fraction(int(weight), total) * Fraction(int(row[item]), int(row.sum()))
        for weight, row in zip(weights, table, strict=True)
    )


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
@pytest.mark.parametrize("n", range(1, 7))
def test_reported_probabilities_are_exact(n, scale):
    sampler = fed(VRM(overlapping(n), seed=1), scale)
    weights, table = integers(sampler)
    exact = [chance(weights, table, item) for item in range(n)]
    assert sum(exact) == 1
    draw = sampler.draw(64)
    for item, reported in zip(draw.indices, draw.probabilities, strict=True):
        assert abs(Fraction(float(reported)) / exact[item] - 1) < Fraction(1, 2**49)
    values = [Fraction(7 * item + 3, 5) for item in range(n)]
    terms = zip(exact, sampler.probabilities(), values, strict=True)
    expectation = sum(p * v / (n * Fraction(float(r))) for p, r, v in terms)
    assert abs(expectation / (sum(values) / n) - 1) < Fraction(1, 2**48)


def test_the_probability_within_the_component_is_rejected():
    """The wrong report: that of the component drawn alone, as if components did not overlap."""
    weights, table = integers(VRM(overlapping(6), seed=1))
    values, expectation = range(1, 7), Fraction(0)
    for weight, row in zip(weights, table, strict=True):
        share = Fraction(int(weight), int(weights.sum()))
        expectation += share * sum(Fraction(v, 6) for v, a in zip(values, row, strict=True) if a)
    assert abs(expectation / (Fraction(sum(values), 6)) - 1) > Fraction(1, 20)


def test_the_draws_of_a_batch_are_independent():
    """Pairs of items from two halves; the wrong one draws one component for the whole batch."""
    halves = np.arange(6) < 3
    sampler = VRM([halves, ~halves], mixing=0.01, seed=4)
    sampler.state.shares[:] = [0.5, 0.49, 0.01]
    sampler.state.load(sampler.state.saved())
    p = sampler.probabilities()
    pairs = sampler.draw(40_000).indices.reshape(-1, 2)
    counts = np.bincount(6 * pairs[:, 0] + pairs[:, 1], minlength=36)
    assert budget.chi_square_excess(counts, np.outer(p, p).ravel()) < 1
    rng = np.random.default_rng(0)
    wrong = rng.integers(3, size=(20_000, 2)) + 3 * (rng.random(20_000) < p[3:].sum())[:, None]
    counts = np.bincount(6 * wrong[:, 0] + wrong[:, 1], minlength=36)
    assert budget.chi_square_excess(counts, np.outer(p, p).ravel()) > 1


def test_what_has_no_weight_is_never_drawn():
    """Neither a component nor an item of one, however small the other weights."""
    sampler = VRM([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], seed=8)
    members = sampler.state.components.members
    members.weights[:] = [1, 0, 1]
    build_members(sampler.state.components)
    sampler.state.index.weights[:] = [1, 0, 0]
    build(sampler.state.index)
    assert sampler.draw(50).indices.tolist() == [0] * 50


class Oracle:
    """The rule, with dense matrices and a generic solver."""

    def __init__(self, components, step, mixing):
        rows = np.array(components, dtype=float)
        rows = np.vstack([rows / rows.sum(axis=1, keepdims=True), np.full(rows.shape[1], 0)])
        rows[-1] = 1 / rows.shape[1]
        self.p, self.step, self.mixing, self.gradients = rows, step, mixing, []
        self.w = np.full(len(rows), 1 / len(rows))

    def learn(self, item, probability, loss):
        gradient = -self.p[:, item] * loss**2 / (self.w @ self.p[:, item]) ** 2 / probability
        self.gradients.append(gradient)
        scaled = np.array(self.gradients) / np.abs(self.gradients).max()
        matrix = 0.1 * np.eye(len(self.w)) + scaled.T @ scaled
        g, old = scaled[-1] * self.step, self.w
        found = minimize(
            lambda v: g @ (v - old) + (v - old) @ matrix @ (v - old) / 2,
            old,
            jac=lambda v: g + matrix @ (v - old),
            bounds=[(0, 1)] * (len(old) - 1) + [(self.mixing, 1)],
            constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 500},
        )
        self.w = found.x


@pytest.mark.parametrize("step", [0.02, 1.0])
def test_the_step_is_that_of_a_generic_solver(step):
    """Also where components reach their least share, and return."""
    sampler = VRM(overlapping(5), step=step, mixing=0.05, seed=2)
    oracle = Oracle(overlapping(5), step, 0.05)
    losses, bound = np.array([0.5, 3.0, 0.1, 1.0, 2.0]), []
    for turn in range(40):
        draw = sampler.draw(2)
        fed_losses = losses[draw.indices] * (1 + turn % 3)
        sampler.update(draw, fed_losses)
        for item, p, loss in zip(draw.indices, draw.probabilities, fed_losses, strict=True):
            oracle.learn(item, p, loss)
        np.testing.assert_allclose(sampler.mixture, oracle.w, atol=2e-5)
        oracle.w = sampler.mixture
        bound.append(sampler.mixture[-1] == 0.05 or sampler.mixture.min() == 0.0)
    assert step < 1 or 0 < sum(bound) < 40


def test_a_component_that_gives_all_its_room_is_left_with_its_least_share():
    """To the last digit, also if a step moves just that much."""
    sampler = VRM([[1.0, 0.0]], mixing=0.17)
    state = sampler.state
    state.shares[:] = [1 - 0.78, 0.78]
    state.slope[:] = [0.0, 2.0 * 0.1 * (0.78 - 0.17)]
    take_step(state)
    assert sampler.mixture.tolist() == [0.83, 0.17]


def test_it_finds_the_best_mixture():
    """Shares n_c rms_c, from a start that is far from it."""
    labels = np.repeat(np.arange(4), [400, 300, 200, 100])
    losses = np.repeat([0.1, 0.3, 1.0, 3.0], [400, 300, 200, 100])
    sampler = VRM.over(labels, seed=3)
    for _ in range(300):
        draw = sampler.draw(64)
        sampler.update(draw, losses[draw.indices])
    cost = (losses**2 / sampler.probabilities()).sum() / losses.sum() ** 2
    start = (losses**2 / VRM.over(labels).probabilities()).sum() / losses.sum() ** 2
    assert cost < 1.1 < 1.5 < start


def test_units_do_not_matter():
    draws = []
    for unit in (1.0, 2.0**300, 2.0**-300):
        sampler = VRM(overlapping(30), seed=5)
        for _ in range(50):
            draw = sampler.draw(8)
            sampler.update(draw, unit * (1.0 + draw.indices % 7))
        draws.append(sampler.draw(100).indices.tolist())
    assert draws[0] == draws[1] == draws[2]


def test_zeros_teach_nothing_and_the_floor_is_kept():
    sampler = VRM([[1.0, 0.0, 0.0, 0.0]], mixing=0.2, seed=6)
    before = sampler.mixture
    sampler.update(sampler.draw(50), np.zeros(50))
    assert (sampler.mixture == before).all()
    for _ in range(50):
        sampler.update(Draw([0], [0.5], 4), [10.0])
    assert sampler.mixture == pytest.approx([0.8, 0.2])
    assert sampler.probabilities() == pytest.approx([0.85, 0.05, 0.05, 0.05])
    assert sampler.gauge.importance_limit * (1 + 1e-9) >= 1 / (4 * 0.05)


def test_a_foreign_draw_of_any_probability_is_taken():
    sampler = VRM(overlapping(4), seed=7)
    for p in (1e-300, 1e-12, 1.0):
        sampler.update(Draw([3], [max(p, 2.0**-199)], 4), [1e200])
    assert np.isfinite(sampler.mixture).all()
    assert sampler.mixture.sum() == pytest.approx(1)


def test_components_are_a_copy_that_cannot_be_written():
    given = np.array([[1.0, 3.0]])
    sampler = VRM(given)
    given[:] = 1.0
    assert sampler.parameters["components"].tolist() == [[1.0, 3.0]]
    with pytest.raises(ValueError, match="read-only"):
        sampler.parameters["components"][0, 0] = 2.0


def test_groups_of_any_labels():
    sampler = VRM.over(["a", "b", "b", "b"])
    assert sampler.mixture == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    expected = np.array([1 / 3 + 1 / 12] + [1 / 9 + 1 / 12] * 3)
    assert sampler.probabilities() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("components", "options", "message"),
    [
        ([1.0, 2.0], {}, r"components must have shape \(k, n\), both at least 1, got \(2,\)"),
        (np.zeros((0, 3)), {}, r"got \(0, 3\)"),
        ([[1.0, -1.0]], {}, r"components\[0, 1\] is -1.0, not finite and at least 0"),
        ([[1.0, 1.0], [np.nan, 1.0]], {}, r"components\[1, 0\] is nan"),
        ([[1.0, 1.0], [0.0, 0.0]], {}, r"components\[1\] has no weight above 0"),
        ([[1.0]], {"step": 0.0}, "step must be positive and finite, got 0.0"),
        ([[1.0]], {"mixing": 0.0}, "mixing"),
    ],
)
def test_bad_arguments(components, options, message):
    with pytest.raises(ValueError, match=message):
        VRM(components, **options)
    with pytest.raises(TypeError, match="components must hold numbers"):
        VRM([["a", "b"]])


@pytest.mark.parametrize(
    "mixture",
    [[0.5, 0.2, 0.2, 0.2], [0.4, 0.3, 0.25, 0.05], [0.4, 0.3, 0.2, 0.1 + 1.5e-6]],
)
def test_a_state_without_a_mixture_is_refused(mixture):
    sampler = fed(VRM(overlapping(5)))
    state = sampler.state_dict()
    state["parts"]["shares"] = np.array(mixture)
    with pytest.raises(CheckpointError, match="shares has a sum of"):
        sampler.load_state_dict(state)
