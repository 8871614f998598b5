"""The advice about timesteps: covers ratios that are known, and says what to do."""

import numpy as np
import pytest
import torch

from tombola.advice import timesteps

T = 1000


def noisy(weight, generator, degrees=8):
    """Losses of an error of mean 1 and a known spread; E l^2 is weight^2 (1 + 2 / degrees)."""
    return lambda t: (
        weight[t] * torch.from_numpy(generator.chisquare(degrees, len(t)) / degrees).to(weight)
    )


def exact(weight):
    """The ratio of second moments: the error's distribution is the same at all t."""
    return float((weight**2).mean() / weight.mean() ** 2)


WEIGHTS = {
    "flat": torch.ones(T, dtype=torch.float64),
    "1/t": 1 / torch.arange(20.0, T + 20, dtype=torch.float64),
    "late": torch.linspace(0, 1, T, dtype=torch.float64) ** 6,
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_intervals_cover_the_exact_ratio(name):
    weight, generator = WEIGHTS[name], np.random.default_rng(0)
    found = [timesteps(noisy(weight, generator), T, seed=k) for k in range(200)]
    truth = exact(weight)
    assert all(advice.losses == 512 for advice in found)
    logs = np.log([advice.ratio / truth for advice in found])
    assert abs(logs.mean()) < 0.03
    assert 0.9 < np.mean([a.interval[0] <= truth <= a.interval[1] for a in found]) <= 1
    # a wrong ratio, 15% away, is not covered
    wrong = 1.15 * truth
    assert np.mean([a.interval[0] <= wrong <= a.interval[1] for a in found]) < 0.6


def test_the_line_says_what_to_do():
    generator = np.random.default_rng(1)
    steep, flat, unclear = (
        str(timesteps(noisy(weight, generator, degrees), n, passes=passes))
        for weight, n, passes, degrees in (
            (WEIGHTS["1/t"], T, 16, 8),
            (WEIGHTS["flat"], 7, 16, 8),
            (WEIGHTS["flat"], T, 2, 1),
        )
    )
    assert steep.endswith("(512 losses): draw timesteps with tombola.torch.TimestepSampler")
    assert flat.endswith("(112 losses): keep uniform timesteps")
    assert unclear.endswith("(64 losses): measure with more passes")
    assert all("\n" not in line for line in (steep, flat, unclear))


@pytest.mark.parametrize("bad", [torch.nan, 0.0])
def test_losses_that_say_nothing_are_an_error(bad):
    with pytest.raises(ValueError, match="finite losses that are not all 0"):
        timesteps(lambda t: torch.full(t.shape, bad), T)


@pytest.mark.parametrize(
    ("model_loss", "message"),
    [
        (lambda t: torch.ones(3), "one loss for each of"),
        (lambda t: 1.0, "got float"),
        (lambda t: -torch.ones(len(t)), "returned -1 at t = "),
    ],
)
def test_wrong_losses_are_named(model_loss, message):
    with pytest.raises(ValueError, match=message):
        timesteps(model_loss, 100)
