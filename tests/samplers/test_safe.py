"""Safe sampling, against the saddle point by sorting and by trying other distributions."""

import itertools

import numpy as np
import pytest

from states import assert_same
from tombola import Draw, Safe, Uniform
from tombola.samplers.rivals import safe

pytestmark = pytest.mark.kernels


def saddle(low, up, s):
    """Try every piece between break-points: there m = sum c^2 / sum s c over the clipped."""
    points = np.sort(np.concatenate([[0], low / s, up[np.isfinite(up)] / s[np.isfinite(up)]]))
    edges = np.append(points, points[-1] + 1)
    for left, right in itertools.pairwise(np.unique(edges)):
        middle = (left + right) / 2
        c = np.clip(middle * s, low, up)
        clipped = c != middle * s
        if not (s * c)[clipped].any():
            return s * c / (s * c).sum()
        m = (c[clipped] ** 2).sum() / (s * c)[clipped].sum()
        if left * (1 - 1e-12) <= m <= right * (1 + 1e-12):
            c = np.clip(m * s, low, up)
            return s * c / (s * c).sum()
    raise AssertionError("no piece holds its own m")


def worst_case(p, low, up, s):
    """The largest sum s^2 c^2 / p / ||c||^2 over corners of the box; exact for few items."""
    n = len(p)
    corners = np.array([[low, up][k >> i & 1][i] for k in range(2**n) for i in range(n)])
    c2 = corners.reshape(-1, n) ** 2
    c2 = c2[c2.any(axis=1)]
    return ((c2 * s**2 / p).sum(axis=1) / c2.sum(axis=1)).max()


def everything(n):
    return Draw(np.arange(n), np.full(n, 1 / n), n)


def with_bounds(h, since, s=None, smoothness=1.0):
    """A sampler that saw h[i] when the solver had since[i] still to go, and solved after that."""
    n = len(h)
    sampler = Safe(
        n, smoothness=smoothness, curvature=None if s is None else s**2, mixing=0.0, resolve=1
    )
    order = np.argsort(-since, kind="stable")
    for i, following in zip(order, [*order[1:], None], strict=True):
        gap = since[i] - (0 if following is None else since[following])
        sampler.update(everything(n)[int(i)], [h[i]], moved=gap)
    safe.solve(sampler.state)
    return sampler


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_the_saddle_point(n, curved):
    rng = np.random.default_rng(n)
    for _ in range(30):
        h, since = rng.lognormal(0, 1, n), rng.lognormal(-1, 2, n)
        s = rng.lognormal(0, 1, n) if curved else np.ones(n)
        smooth = rng.lognormal(0, 1, n)
        sampler = with_bounds(h, since, s if curved else None, smooth)
        low, up = np.maximum(0, h - smooth * since), h + smooth * since
        np.testing.assert_allclose(sampler.probabilities(), saddle(low, up, s), rtol=1e-6)


def test_no_other_distribution_has_a_smaller_worst_case():
    rng = np.random.default_rng(0)
    for _ in range(20):
        h, since, s = rng.lognormal(0, 1, 4), rng.lognormal(-1, 1, 4), rng.lognormal(0, 0.5, 4)
        p = with_bounds(h, since, s).probabilities()
        low, up = np.maximum(0, h - since), h + since
        best = worst_case(p, low, up, s)
        for _ in range(200):
            other = p * rng.lognormal(0, 0.1, 4)
            assert worst_case(other / other.sum(), low, up, s) >= best * (1 - 1e-6)


def test_any_curvature_above_zero_is_one():
    sampler = Safe(2, smoothness=1.0, curvature=[5e-324, 5e-324])
    assert sampler.probabilities().tolist() == [0.5, 0.5]


def test_a_curvature_of_almost_nothing_beside_a_large_one():
    """s^2 is below the smallest number; what is known of such an item says nothing about m."""
    sampler = Safe(2, smoothness=1.0, curvature=[5e-324, 1e308], mixing=0.0, resolve=1)
    sampler.update(everything(2)[0], [1.0])
    np.testing.assert_allclose(sampler.probabilities(), [0.0, 1.0], atol=1e-12)


def test_nothing_is_solved_before_a_loss_above_zero():
    """However wide the bounds are."""
    sampler = Safe(2, smoothness=1e200, resolve=1)
    for _ in range(2):
        sampler.update(everything(2), [0.0, 0.0], moved=1e200)
    assert sampler.state.rule[0].level == 1.0
    assert sampler.probabilities().tolist() == [0.5, 0.5]


def test_nothing_known_and_everything_known():
    s = np.array([1.0, 2.0, 3.0])
    sampler = Safe(3, smoothness=1.0, curvature=s**2, mixing=0.0, resolve=1)
    np.testing.assert_allclose(sampler.probabilities(), s**2 / 14, rtol=1e-9)
    sampler.update(everything(3), [0.0, 0.0, 0.0], moved=3.0)
    np.testing.assert_allclose(sampler.probabilities(), s**2 / 14, rtol=1e-9)
    sampler.update(everything(3), [3.0, 1.0, 2.0])
    np.testing.assert_allclose(sampler.probabilities(), np.array([3, 2, 6]) / 11, rtol=1e-9)
    sampler.update(everything(3), [0.0, 0.0, 0.0])
    np.testing.assert_allclose(sampler.probabilities(), s**2 / 14, rtol=1e-6)


def test_bounds_hold_while_a_solver_runs():
    """Least squares: the gradient norm |x w - y| ||x|| has smoothness ||x||^2."""
    rng = np.random.default_rng(0)
    x, n = rng.normal(size=(60, 4)) * rng.lognormal(0, 1, (60, 1)), 60
    y, w = x @ rng.normal(size=4) + rng.normal(size=60), np.zeros(4)
    square = (x**2).sum(axis=1)
    sampler = Safe(n, smoothness=square)
    for _ in range(300):
        norms = np.abs(x @ w - y) * np.sqrt(square)
        bounds = np.array([safe.bounds(sampler.state, i) for i in range(n)])
        bounds /= sampler.state.rule[0].unit or 1.0
        assert (bounds[:, 0] <= norms * (1 + 1e-9)).all()
        assert (norms <= bounds[:, 1] * (1 + 1e-9)).all()
        draw = sampler.draw(2)
        step = 0.002 * draw.mean((x[draw.indices] @ w - y[draw.indices])[:, None] * x[draw.indices])
        sampler.update(draw, norms[draw.indices], moved=np.linalg.norm(step))
        w = w - step
    assert sampler.gauge.second_moment_ratio < 0.8


def test_weights_stay_between_solutions_and_a_giant_brings_the_next_forward():
    n = 100
    sampler = Safe(n, smoothness=1.0, mixing=0.0, resolve=1000)
    sampler.update(everything(n), np.ones(n))
    due = sampler.state.rule[0].due
    sampler.update(everything(n)[:5], np.full(5, 3.0))
    assert sampler.state.rule[0].due == due
    np.testing.assert_allclose(sampler.probabilities()[[0, 99]], [3 / 110, 1 / 110], rtol=1e-6)
    sampler.update(everything(n)[6], [1e6])
    assert sampler.state.rule[0].due > due


def test_mixing_is_a_floor():
    sampler = Safe(10, smoothness=0.0, mixing=0.2)
    for _ in range(10):
        draw = sampler.draw(20)
        sampler.update(draw, (draw.indices == 3) * 1.0)
    p = sampler.probabilities()
    assert p.min() >= 0.02
    assert p[3] == pytest.approx(0.82, abs=1e-6)
    assert Safe(10, smoothness=0.0, mixing=1.0).draw(5).importances == pytest.approx(1)


def test_a_batch_is_its_losses_one_by_one():
    whole, single = Safe(50, smoothness=0.1), Safe(50, smoothness=0.1)
    for round_number in range(3):
        draw = Uniform(50, seed=round_number).draw(60)
        losses = np.linspace(0, 1, 60)
        whole.update(draw, losses, moved=0.5)
        for j, part in enumerate(draw):
            single.update(part, [losses[j]], moved=0.5 if j == 59 else 0.0)
    assert (whole.probabilities() == single.probabilities()).all()


@pytest.mark.parametrize("scale", [1e-307, 1e-200, 1e200, 1e300])
def test_the_unit_of_losses_does_not_matter(scale):
    factor = 2.0 ** np.round(np.log2(scale))
    ours, scaled = Safe(30, smoothness=1.0), Safe(30, smoothness=factor)
    for _ in range(30):
        draw = ours.draw(8)
        assert scaled.draw(8) == draw
        ours.update(draw, 1.0 + draw.indices % 7, moved=0.01)
        scaled.update(draw, (1.0 + draw.indices % 7) * factor, moved=0.01)
    assert ours.probabilities().std() > 0


def test_zeros_giants_and_back():
    sampler = Safe(40, smoothness=1e100, mixing=0.1)
    for loss, moved in ((0.0, 1e200), (1e-200, 0.0), (1e200, 1e300), (0.0, 1e-300), (1.0, 1e300)):
        for _ in range(30):
            draw = sampler.draw(32)
            sampler.update(draw, np.full(32, loss), moved=moved)
        p = sampler.probabilities()
        assert p.sum() == pytest.approx(1)
        assert p.min() >= 0.1 / 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"smoothness": -1}, r"smoothness\[0\] is -1.0, not finite and at least 0"),
        ({"smoothness": [1, 2]}, "smoothness must be one number or one for each of 3 items, got 2"),
        (
            {"smoothness": 1, "curvature": [1, 0, 1]},
            r"curvature\[1\] is 0.0, not finite and above 0",
        ),
        ({"smoothness": 1, "mixing": -0.1}, "mixing must be from 0 to 1, got -0.1"),
        ({"smoothness": 1, "resolve": 0}, "resolve must be a positive number of losses, got 0"),
    ],
)
def test_bad_parameters(given, message):
    with pytest.raises(ValueError, match=message):
        Safe(3, **given)


@pytest.mark.parametrize(
    ("losses", "moved", "message"),
    [
        ([1.0, np.nan], 1.0, r"losses\[1\] is nan"),
        ([1.0, 1.0], -1.0, "moved must be finite and not negative, got -1"),
        ([1.0, 1.0], np.nan, "moved must be finite and not negative, got nan"),
        ([1.0, 1.0], np.inf, "moved must be finite and not negative, got inf"),
    ],
)
def test_errors_change_nothing(losses, moved, message):
    sampler = Safe(5, smoothness=1.0)
    draw = sampler.draw(2)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=message):
        sampler.update(draw, losses, moved=moved)
    after = sampler.state_dict()
    assert_same(before, after)
