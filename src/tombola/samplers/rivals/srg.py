"""SRG: stochastic reweighted gradients, by the last gradient norm of each item."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.draws import Draw
from tombola.random import Words, next_word
from tombola.samplers.rivals.last_losses import UNSEEN, MeanLossRule, OrMean, remember
from tombola.samplers.weighted import WeightedSampler
from tombola.state import Cell, cell, derived, real
from tombola.validation import share

__all__ = ["SRG"]

COINS = 2**64 - 2  # the number of the child stream for the coins


class SRGRule(MeanLossRule):
    """The mean of the norms under uniform draws."""

    by_coin: int = derived('1 if only "uniform" draws refresh their item')
    seen: float = real("the number of norms in the mean", default=0.0)


class SRGState(OrMean):
    """The last norm of each item, and a stream of coin flips."""

    rule: Cell[SRGRule]
    coins: Cell[Words]

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """g(I_t) <- l_t(I_t), if the coin shows "uniform" or every draw refreshes."""
        rule = self.rule[0]
        share = uniform_share(self, probability)
        if rule.by_coin:
            share = 1.0 if flip(self.coins, share) else 0.0
            if share == 0.0:
                return
        norm = remember(self, item, loss)
        rule.seen += share
        rule.mean_loss += share / rule.seen * (norm - rule.mean_loss)


@kernel
def uniform_share(state: SRGState, probability: float) -> Any:
    """Return the probability that the coin shows "uniform", given the item; at most 1."""
    return min(1.0, state.rule[0].mixing / (state.losses.size * probability))


@kernel
def flip(coins: Cell[Words], share: Any) -> Any:
    """Flip a coin, unless its outcome is certain."""
    if share <= 0.0 or share >= 1.0:
        return share >= 1.0
    return np.float64(next_word(coins) >> np.uint64(11)) < share * 2.0**53


@kernel
def flip_all(state: SRGState, probabilities: NDArray[np.float64], tags: NDArray[np.uint8]) -> None:
    """Flip the coin of each item drawn."""
    for j in range(tags.size):
        tags[j] = 1 if flip(state.coins, uniform_share(state, probabilities[j])) else 0


class SRG(WeightedSampler):
    """Stochastic reweighted gradients (El Hanchi, Stephens, Maddison): draws by the last norm.

    With g(i) the last norm of item i, and a coin that shows "uniform" with probability theta:

        q_t(i) = g(i) / sum_j g(j);  draw I_t uniformly if the coin shows "uniform", else from q_t
        p_t(i) = (1 - theta) q_t(i) + theta / n
        g(I_t) = l_t(I_t), if the coin shows "uniform"

    The proof needs the coin: it makes the refreshed items a uniform sample, for any g. With
    ``refresh="always"`` every loss refreshes its item, which adapts faster but has no proof.

    It needs no parameters. A draw and an update take O(1).

    Guarantee: for SGD with theta <= 1/2 and steps of at most theta / (12 L_max), L_max being the
    largest smoothness constant, the remaining noise decreases from (1/n) sum_i |g*(i)|^2 to
    (1/n^2) (sum_i |g*(i)|)^2, where g*(i) are the gradients at the optimum. If losses are often 0
    by chance, it can do worse than uniform sampling: a single zero leaves an item with the uniform
    share only.

    Deviations: the item is drawn from the mixture first, and the coin is flipped afterwards, given
    the item: it shows "uniform" with probability theta / (n p), by Bayes' rule, so the pair has the
    joint distribution of the rule. The coins are stored in the `tags` of the draw (1: uniform). For
    feedback without tags, from another sampler's draw or a compiled loop, the coin is flipped when
    the feedback arrives. Items without feedback are assigned the mean of the norms so far, as the
    sweep passes; an item whose last norm was 0 keeps 2^-200 of that mean, so that the weights never
    all vanish.

    Parameters
    ----------
    n : int
    mixing : float in (0, 1], default=0.5
        theta, the share of uniform draws.
    refresh : {"coin", "always"}, default="coin"
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> norms = np.array([1.0, 1.0, 2.0])
    >>> sampler = SRG(3)
    >>> for _ in range(20):
    ...     draw = sampler.draw(8)
    ...     sampler.update(draw, norms[draw.indices])
    >>> sampler.probabilities().round(3)             # half (1, 1, 2) / 4, half 1/3
    array([0.292, 0.292, 0.417])

    References
    ----------
    El Hanchi, Stephens, Maddison (2022). Stochastic Reweighted Gradient Descent.
    """

    state: SRGState

    def __init__(
        self,
        n: int,
        *,
        mixing: float = 0.5,
        refresh: str = "coin",
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        mixing = share("mixing", mixing, zero=False)
        if refresh not in ("coin", "always"):
            raise ValueError(f'refresh must be "coin" or "always", got {refresh!r}')
        super().__init__(n, seed, {"mixing": mixing, "refresh": refresh}, quantity=quantity)
        rule = SRGRule(mixing=mixing, by_coin=int(refresh == "coin"))
        coins = self._stream.child(COINS).state
        self._begin(
            SRGState, rule=cell(rule), coins=coins, losses=np.full(self.n, UNSEEN), stale=True
        )

    def _draw(self, size: int) -> Draw:
        items: Any
        probabilities: Any
        items, probabilities = super()._draw(size)
        tags = None
        if self.state.rule[0].by_coin:
            tags = np.empty(size, dtype=np.uint8)
            flip_all(self.state, probabilities, tags)
        return Draw.made(items, probabilities, self.n, self.rounds, tags)

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        if draw.tags is not None and self.state.rule[0].by_coin:
            # the coin has been flipped already: these probabilities make its outcome certain
            chances = np.where(draw.tags == 1, np.finfo(np.float64).tiny, np.inf)
            draw = Draw.made(draw.indices, chances, draw.n, draw.round)
        super()._update(draw, losses)
