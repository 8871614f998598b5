"""Draws by a table of the last known losses, however old; Alain et al. (2015)."""

import numpy as np

from tombola.samplers.arithmetic import pace
from tombola.samplers.rivals.last_losses import TRACE, UNSEEN, MeanLossRule, OrMean, remember
from tombola.samplers.weighted import WeightedSampler
from tombola.state import Cell, cell, real
from tombola.validation import share

__all__ = ["Stale"]

LARGEST_IMPORTANCE = 2.0**200  # of draws that another sampler made


class StaleRule(MeanLossRule):
    """The mean of the losses, which stays above 0."""

    mean_loss: float = real("running mean of the losses of all items", TRACE, 1e300, default=TRACE)


class StaleState(OrMean):
    """The last loss of each item."""

    rule: Cell[StaleRule]

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """omega(i) <- l(i); the mean follows l / (n p) over about the last n losses."""
        rule, n = self.rule[0], self.losses.size
        entry = remember(self, item, loss)
        importance = min(1.0 / (n * probability), LARGEST_IMPORTANCE)
        rule.mean_loss = max(
            TRACE, rule.mean_loss + pace(rule.fed, n) * (entry * importance - rule.mean_loss)
        )


class Stale(WeightedSampler):
    """Draws in proportion to the last known loss of each item, however old that is.

    With omega(i) the last loss of item i, and the mean of all items where there is none yet:

        p(i) = (1 - theta) omega(i) / sum_j omega(j) + theta / n
        after feedback, from whomever: omega(i) = l(i)

    Losses may come from anywhere, at any time: from the training loop or, as in the paper, from
    workers that go through the data on their own, with draws of another sampler.

    Guarantee: none on the cost, which is that of the best distribution if no loss has changed
    since it was last seen. Estimates are unbiased however old the table is. If losses are often 0
    by chance, it does worse than uniform draws.

    It needs no parameters. A draw and an update take O(1); memory is 24 bytes per item.

    Deviations: items without a loss have the mean, which the sweep brings to them as it changes;
    in the paper's code they have probability zero, so that the estimate is that of the other items.
    The uniform share takes the place of its additive smoothing and of its uniform draws at the
    start. The mean is the running mean of l / (n p) over about the last n losses, which estimates
    that of all items. There are no limits on the age of an entry.

    Parameters
    ----------
    n : int
        The number of items.
    mixing : float in (0, 1], default=0.1
        theta, the share of uniform draws.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([1.0, 1.0, 2.0])
    >>> sampler, worker = Stale(3), Stale(3, mixing=1.0, seed=1)
    >>> draw = worker.draw(20)                       # uniform draws of another sampler
    >>> sampler.update(draw, losses[draw.indices])
    >>> sampler.probabilities().round(3)             # 0.9 (1, 1, 2) / 4 + 0.1 / 3
    array([0.258, 0.258, 0.483])

    References
    ----------
    Alain, Lamb, Sankar, Courville, Bengio (2015). Variance Reduction in SGD by Distributed
    Importance Sampling.
    """

    state: StaleState

    def __init__(
        self, n: int, *, mixing: float = 0.1, quantity: str = "loss", seed: int = 0
    ) -> None:
        mixing = share("mixing", mixing, zero=False)
        super().__init__(n, seed, {"mixing": mixing}, quantity=quantity)
        self._begin(
            StaleState,
            rule=cell(StaleRule(mixing=mixing)),
            losses=np.full(self.n, UNSEEN),
            stale=True,
        )
