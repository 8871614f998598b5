"""What a diffusion model gains if its timesteps are not drawn uniformly."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from tombola.advice.verdict import judge
from tombola.validation import whole

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TimestepAdvice", "timesteps"]

BINS = 32  # narrow at both ends, where weightings are steep
LITTLE = 1.2  # a smaller ratio is not worth a change


class TimestepAdvice(NamedTuple):
    """The advice about timesteps; its text is one line.

    Attributes
    ----------
    ratio : float
        The second moment of losses at uniform timesteps over that of the best draws.
    interval : (float, float)
        95% confidence interval of the ratio.
    losses : int
        The number of losses that it was computed from.
    """

    ratio: float
    interval: tuple[float, float]
    losses: int

    def __str__(self) -> str:
        low, high = self.interval
        verdict = {
            True: "draw timesteps with tombola.torch.TimestepSampler",
            False: "keep uniform timesteps",
            None: "measure with more passes",
        }[judge((1.0 / high, 1.0 / low), 1.0 / LITTLE)]
        return (
            f"uniform timesteps have {self.ratio:.3g} [{low:.3g}, {high:.3g}] times the second "
            f"moment of the best draws ({self.losses} losses): {verdict}"
        )


def timesteps(
    model_loss: "Callable[[Tensor], Tensor]", n: int, *, passes: int = 16, seed: int = 0
) -> TimestepAdvice:
    """Measure, from a few hundred losses, whether it pays to draw timesteps by their losses.

    The best draws have p_t ~ sqrt(E l_t^2), so the ratio is

        mean_t E l_t^2 / (mean_t sqrt(E l_t^2))^2

    Parameters
    ----------
    model_loss : callable
        Takes timesteps, an int64 tensor, and returns the loss at each, weighted as in training, on
        data and noise of its choice; or, better, the norm of the gradient of that loss at the
        output of the network. Losses overstate the ratio if the error itself depends on t. The
        model should be past its first steps.
    n : int
        The number of timesteps, from 0 to n - 1.
    passes : int, default=16
        The number of calls, with 32 timesteps each.
    seed : int, default=0
        Of the timesteps.

    Returns
    -------
    TimestepAdvice

    Notes
    -----
    Each pass draws one timestep from each of 32 bins. A bin has one second moment, so a peak that
    is narrower than a bin is underestimated. Bias and interval are those of the jackknife over
    passes.

    Examples
    --------
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> def model_loss(t):
    ...     return torch.rand(len(t), generator=generator) / (1 + t)
    >>> print(timesteps(lambda t: 1.0 + 0.0 * t, 1000))
    uniform timesteps have 1 [1, 1] times the second moment of the best draws (512 losses): \
keep uniform timesteps
    >>> timesteps(model_loss, 1000).ratio > 10
    True
    """
    import torch

    n, passes = whole("n", n, 1), whole("passes", passes, 2)
    generator = np.random.default_rng(seed)
    ends = n * (1.0 - np.cos(np.linspace(0.0, np.pi, BINS + 1))) / 2.0
    edges = np.unique(np.round(ends).astype(np.int64))
    squares = np.empty((passes, len(edges) - 1))
    for row in squares:
        t = torch.from_numpy(generator.integers(edges[:-1], edges[1:]))
        with torch.no_grad():
            losses = model_loss(t)
        if not isinstance(losses, torch.Tensor) or losses.shape != t.shape:
            got = getattr(losses, "shape", type(losses).__name__)
            raise ValueError(
                f"model_loss must return a tensor with one loss for each of {len(t)} timesteps, "
                f"got {got}"
            )
        if (losses < 0).any():
            j = int((losses < 0).int().argmax())
            raise ValueError(f"model_loss returned {losses[j]:g} at t = {t[j]}: it is negative")
        row[:] = losses.double().cpu().numpy() ** 2
    if not (np.isfinite(squares).all() and squares.any()):
        raise ValueError("model_loss must return finite losses that are not all 0")
    shares = np.diff(edges) / n
    whole_sum = squares.sum(axis=0)
    every = log_ratio(whole_sum, shares)
    without = np.array([log_ratio(whole_sum - row, shares) for row in squares])
    best = passes * every - (passes - 1) * without.mean()
    error = math.sqrt((passes - 1) * without.var())
    margin = float(stdtrit(passes - 1, 0.975)) * error
    low, ratio, high = (max(1.0, math.exp(best + way * margin)) for way in (-1, 0, 1))
    return TimestepAdvice(ratio, (low, high), squares.size)


def log_ratio(squares: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    """Return the logarithm of the ratio, by the second moment of each bin; scale cancels."""
    squares = squares.clip(min=0.0)
    return math.log(shares @ squares) - 2.0 * math.log(shares @ np.sqrt(squares))
