"""A custom sampler: draw by the last loss of each item, above a floor."""

import numpy as np

from tombola.samplers.arithmetic import normalised
from tombola.samplers.weighted import Rule, Scored, WeightedSampler
from tombola.state import Cell, cell, derived, real
from tombola.testing import check_sampler


class LastLossRule(Rule):
    """The numbers that all items share, each with its range and meaning."""

    floor: float = derived("the least value of an item, as a share of the mean loss")
    mean_loss: float = real("running mean of the losses of all items", default=0.0)


class LastLossState(Scored):
    """The score of an item is its last loss; the rule keeps the mean of all losses."""

    rule: Cell[LastLossRule]

    def absorb(self, item, probability, loss):
        """Keep the loss; loss / (n p) is an unbiased estimate of the mean over all items."""
        rule, n = self.rule[0], self.scores.size
        loss = normalised(loss, 1.0)
        pace = max(1.0 / (rule.fed + 1.0), 1.0 / n)
        rule.mean_loss += pace * (loss / (n * probability) - rule.mean_loss)
        self.scores[item] = loss

    def value(self, item):
        """Return the last loss, or a share of the mean loss if that is higher."""
        least = self.rule[0].floor * self.rule[0].mean_loss
        return max(self.scores[item], least) if least > 0.0 else 1.0


class LastLoss(WeightedSampler):
    """Draws an item in proportion to its last loss, floored at a share of the mean loss."""

    def __init__(self, n, *, floor=0.5, mixing=0.1, seed=0):
        super().__init__(n, seed, {"floor": floor, "mixing": mixing})
        rule = LastLossRule(mixing=mixing, floor=floor)
        self._begin(LastLossState, rule=cell(rule), scores=np.zeros(n), stale=True)


def main():
    check_sampler(lambda n, seed: LastLoss(n, seed=seed))
    losses = np.random.default_rng(0).lognormal(0.0, 1.5, 10_000)
    sampler = LastLoss(len(losses))
    for _ in range(1_000):
        draw = sampler.draw(128)
        sampler.update(draw, losses[draw.indices])
    print("keeps every promise;", sampler.gauge)


if __name__ == "__main__":
    main()
