"""The example with Burgers' equation: solution, constraints, residual, draws, and a tiny run."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

PATH = Path(__file__).parents[2] / "examples" / "burgers.py"


@pytest.fixture(scope="module")
def burgers():
    spec = importlib.util.spec_from_file_location("burgers", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tiny(burgers):
    return burgers.Task(
        cells=(4, 8), per_cell=4, layers=2, width=8, batch=16, steps=120, every=40, rate=1e-2,
        seeds=2, grid=(6, 16),
    )  # fmt: skip


# --- the exact solution ---------------------------------------------------------------------------


def by_trapezoids(t, x, nu):
    """Cole-Hopf by the trapezoidal rule on a wide and fine grid: it knows nothing of Hermite."""
    eta = np.linspace(-2, 2, 40_001)
    exponent = -np.cos(np.pi * (x - eta)) / (2 * np.pi * nu) - eta**2 / (4 * nu * t)
    weights = np.exp(exponent - exponent.max())
    return -(weights * np.sin(np.pi * (x - eta))).sum() / weights.sum()


def by_finite_differences(nu, places, until):
    """Integrate the PDE itself on x in [0, 1], where u is odd: central differences and RK4.

    Points are denser where the front is: x = sinh(5 s) / sinh(5).
    """
    s = np.linspace(0, 1, places)
    x, slope = np.sinh(5 * s) / np.sinh(5), 5 * np.cosh(5 * s) / np.sinh(5)
    between = 5 * np.cosh(5 * (s[1:] + s[:-1]) / 2) / np.sinh(5)
    h = s[1]

    def rate(u):
        flux = np.diff(u) / h / between  # u_x half-way
        change = np.zeros_like(u)
        change[1:-1] = nu * np.diff(flux) / h - (u[2:] ** 2 - u[:-2] ** 2) / (4 * h)
        change[1:-1] /= slope[1:-1]
        return change

    u = -np.sin(np.pi * x)
    steps = int(np.ceil(until / (0.5 * (x[1] - x[0]) ** 2 / (2 * nu))))
    dt = until / steps
    for _ in range(steps):
        a = rate(u)
        b = rate(u + dt / 2 * a)
        c = rate(u + dt / 2 * b)
        u = u + dt / 6 * (a + 2 * b + 2 * c + rate(u + dt * c))
    return x, u


def test_the_exact_solution_agrees_with_another_quadrature(burgers):
    random = np.random.default_rng(0)
    t = np.concatenate([random.uniform(0.01, 1, 100), random.uniform(0.3, 1, 100)])
    x = np.concatenate([random.uniform(-1, 1, 100), random.uniform(-0.02, 0.02, 100)])
    other = [by_trapezoids(*point, burgers.NU) for point in zip(t, x, strict=True)]
    np.testing.assert_allclose(burgers.exact(t, x), other, atol=1e-9)
    too_few = np.abs(burgers.exact(t, x, nodes=10) - other).max()
    assert too_few > 1e-3, "the comparison would not notice a bad quadrature"


@pytest.mark.parametrize("until", [0.3, 0.7])
def test_the_exact_solution_solves_the_equation(burgers, until):
    x, u = by_finite_differences(burgers.NU, 100, until)
    ours = burgers.exact(np.full_like(x, until), x)
    assert np.abs(ours - u).max() < 2e-3
    assert np.abs(burgers.exact(np.full_like(x, until + 0.02), x) - u).max() > 1e-2


def test_the_front_is_as_steep_as_published(burgers):
    """Basdevant et al. (1986): the slope at x = 0 is largest at pi t = 1.6037, and 152.00516."""
    t, h = np.array([1.5, 1.6037, 1.7]) / np.pi, 1e-5
    slopes = -(burgers.exact(t, np.full(3, h)) - burgers.exact(t, np.full(3, -h))) / (2 * h)
    assert slopes[1] == pytest.approx(152.00516, rel=1e-5)
    assert slopes[1] == slopes.max()


def test_the_exact_solution_has_the_initial_and_boundary_values(burgers):
    x = np.linspace(-1, 1, 41)
    np.testing.assert_allclose(burgers.exact(np.zeros(41), x), -np.sin(np.pi * x), atol=1e-14)
    ends = burgers.exact(np.repeat(np.linspace(0, 1, 11), 2), np.tile([-1.0, 1.0], 11))
    np.testing.assert_allclose(ends, 0, atol=1e-12)


# --- the network ----------------------------------------------------------------------------------


def test_constraints_hold_whatever_the_network(burgers, tiny):
    network = burgers.new_network(tiny, 0)
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=3)
        x, t = torch.linspace(-1, 1, 101), torch.linspace(0, 1, 101)
        start = burgers.solution(network, torch.zeros(101), x)
        assert torch.equal(start, -torch.sin(torch.pi * x))
        for side in (-1.0, 1.0):
            assert burgers.solution(network, t, torch.full((101,), side)).abs().max() < 1e-6
        assert burgers.solution(network, t, x).std() > 0.1


def test_the_residual_agrees_with_finite_differences(burgers, tiny):
    network = burgers.new_network(tiny, 1).double()
    random = torch.Generator().manual_seed(1)
    t = 0.1 + 0.8 * torch.rand(50, generator=random, dtype=torch.float64)
    x = 1.8 * torch.rand(50, generator=random, dtype=torch.float64) - 0.9
    points, h = torch.stack([t, x], dim=1), 1e-4

    def u(t, x):
        return burgers.solution(network, t, x).detach()

    u_t = (u(t + h, x) - u(t - h, x)) / (2 * h)
    u_x = (u(t, x + h) - u(t, x - h)) / (2 * h)
    u_xx = (u(t, x + h) - 2 * u(t, x) + u(t, x - h)) / h**2
    expected = u_t + u(t, x) * u_x - burgers.NU * u_xx
    for training in (False, True):
        found = burgers.residual(network, points, training)
        torch.testing.assert_close(found.detach(), expected, rtol=0, atol=1e-6)
        assert found.requires_grad == training
    assert (burgers.NU * u_xx).abs().min() > 1e-5, "the last term would not be noticed"


def test_the_residual_of_the_solution_is_zero(burgers):
    """Not of a network: the equation is that of the exact solution, its signs included."""
    t, x, h = np.full(50, 0.2), np.linspace(-0.9, 0.9, 50), 1e-3
    u, u_x, u_xx = derivatives(lambda place: burgers.exact(t, place), x, h)
    u_t = derivatives(lambda time: burgers.exact(time, x), t, h)[1]
    assert np.abs(u_t + u * u_x - burgers.NU * u_xx).max() < 1e-3
    assert np.abs(u_t).max() > 0.5


def derivatives(function, at, h):
    """A function, its first and its second derivative, by central differences of order four."""
    values = [function(at + k * h) for k in (-2, -1, 0, 1, 2)]
    first = np.dot([1, -8, 0, 8, -1], values) / (12 * h)
    second = np.dot([-1, 16, -30, 16, -1], values) / (12 * h * h)
    return values[2], first, second


# --- points and draws -----------------------------------------------------------------------------


def test_points_lie_in_their_cells(burgers, tiny):
    points = burgers.new_points(tiny, 3)
    assert points.shape == (4 * 8 * 4, 2)
    row, column = (points[:, 0] * 4).long(), ((points[:, 1] + 1) / 2 * 8).long()
    assert torch.equal(row * 8 + column, torch.arange(128) // 4)
    assert len(points.unique(dim=0)) == 128
    assert torch.equal(points, burgers.new_points(tiny, 3))


@pytest.mark.parametrize("name", ["shuffled", "uniform", "VRB", "cells", "cells x points"])
def test_estimates_are_unbiased(burgers, tiny, name):
    """The mean over batches, after the samplers have adapted, within five standard errors."""
    values = torch.ones(128)
    values[40:48] = 20.0  # two cells
    sampler = burgers.SAMPLERS[name](tiny, burgers.new_points(tiny, 0), 0)
    means, hits = [], []
    for step in range(2000):
        sampler.before(step, None)
        chosen = sampler.draw()
        means.append(float(sampler.mean(values[chosen])))
        hits.append(float((values[chosen] > 1).float().mean()))
        sampler.update(values[chosen].sqrt())
    means = np.array(means[500:])
    assert abs(means.mean() - float(values.mean())) < 5 * means.std() / np.sqrt(len(means)) + 1e-6
    share = np.mean(hits[500:])
    if name in ("shuffled", "uniform"):
        assert share == pytest.approx(1 / 16, rel=0.1)
    else:
        assert share > 0.12


def test_rad_draws_by_the_residuals(burgers, tiny, monkeypatch):
    size = torch.linspace(0, 2, 128)
    monkeypatch.setattr(burgers, "residual", lambda network, points, training: -size)
    sampler = burgers.SAMPLERS["RAD"](tiny, burgers.new_points(tiny, 0), 0)
    for step in (0, burgers.REFRESH - 1):
        sampler.before(step, None)
        assert torch.equal(sampler.sums, torch.arange(1.0, 129.0, dtype=torch.float64))
    sampler.before(burgers.REFRESH, None)
    drawn = torch.cat([sampler.draw() for _ in range(4000)]).bincount(minlength=128)
    expected = (size / size.mean() + 1) / 2 / 128
    error = (drawn / drawn.sum() - expected) / (expected / drawn.sum()).sqrt()
    assert error.abs().max() < 5
    assert float(sampler.mean(torch.tensor([1.0, 3.0]))) == 2.0


def test_an_epoch_has_each_point_once(burgers, tiny):
    sampler = burgers.SAMPLERS["shuffled"](tiny, burgers.new_points(tiny, 0), 0)
    epochs = []
    for epoch in range(2):
        batches = []
        for step in range(8):
            sampler.before(8 * epoch + step, None)
            batches.append(sampler.draw())
        epochs.append(torch.cat(batches))
        assert torch.equal(epochs[-1].sort().values, torch.arange(128))
    assert not torch.equal(*epochs)


# --- results --------------------------------------------------------------------------------------


def test_arrival_is_where_the_error_stays_low(burgers):
    errors = [0.9, 0.3, 0.5, 0.4, 0.2]
    run = burgers.Run(
        [{"step": 10 * k, "seconds": 0.5 * k, "error": e} for k, e in enumerate(errors)], None, None
    )
    assert burgers.arrival(run, 0.4) == (30, 1.5)
    assert burgers.arrival(run, 0.1) == (np.inf, np.inf)
    assert burgers.arrival(run, 1.0) == (0, 0.0)
    run.rows[-1]["error"] = float("nan")
    assert burgers.arrival(run, 0.4) == (np.inf, np.inf)


def test_intervals_have_the_median_in_them_nine_times_of_ten(burgers):
    assert burgers.interval([3.0, 1.0]) == (1.0, 3.0)
    assert burgers.interval(range(5)) == (0, 4)
    assert burgers.interval(range(15)) == (3, 11)
    random = np.random.default_rng(0)
    for n in (5, 8, 15):
        samples = random.exponential(size=(4000, n))
        ends = np.array([burgers.interval(sample) for sample in samples])
        held = np.mean((ends[:, 0] <= np.log(2)) & (np.log(2) <= ends[:, 1]))
        assert held > 0.89
        tighter = np.sort(samples)[:, [(n - 1) // 2, n // 2 + 1]]
        assert np.mean((tighter[:, 0] <= np.log(2)) & (np.log(2) <= tighter[:, 1])) < 0.8


def test_a_tiny_run_writes_rows_summary_and_picture(burgers, tiny, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(burgers, "SMALL", tiny)
    folder = tmp_path / "results"
    burgers.main(["--out", str(folder)])
    with (folder / "burgers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["sampler", "seed", "step", "seconds", "error", "residual"]
    assert len(rows) == len(burgers.SAMPLERS) * 2 * 4
    for name in burgers.SAMPLERS:
        for seed in ("0", "1"):
            run = [row for row in rows if (row["sampler"], row["seed"]) == (name, seed)]
            assert [int(row["step"]) for row in run] == [0, 40, 80, 120]
            seconds = [float(row["seconds"]) for row in run]
            assert seconds == sorted(seconds)
            assert float(run[-1]["residual"]) < float(run[0]["residual"])
    starts = {(row["seed"], row["error"]) for row in rows if row["step"] == "0"}
    assert len(starts) == 2, "all samplers begin with the same network"
    assert (folder / "burgers.txt").read_text() in capsys.readouterr().out
    assert (folder / "burgers.png").read_bytes()[1:4] == b"PNG"


def test_the_same_seed_gives_the_same_run(burgers, tiny):
    reference = burgers.Reference(tiny, "cpu")
    for name in ("VRB", "RAD"):
        one, two = (burgers.train(name, tiny, reference, 0) for _ in range(2))
        assert one.column("error") == two.column("error")
        assert np.array_equal(one.counts, two.counts)
        assert one.counts.sum() == tiny.steps * tiny.batch
