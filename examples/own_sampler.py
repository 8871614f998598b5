"""A custom sampler: draw by the last loss of each item, above a floor."""

import numpy as np

from tombola.samplers.arithmetic import normalised
from tombola.samplers.weighted import Scored, WeightedSampler, new_rule
from tombola.testing import check_sampler


class LastLossState(Scored):
    """The score of an item is its last loss; the rule keeps the mean of all losses."""

    @staticmethod
    def absorb(state, item, probability, loss):
        """Keep the loss; loss / (n p) is an unbiased estimate of the mean over all items."""
        rule, n = state.rule[0], state.scores.size
        loss = normalised(loss, rule.unit)
        pace = max(1.0 / (rule.fed + 1.0), 1.0 / n)
        rule.mean_loss += pace * (loss / (n * probability) - rule.mean_loss)
        state.scores[item] = loss

    @staticmethod
    def value(state, item):
        """Return the last loss, or a share of the mean loss if that is higher."""
        least = state.rule[0].floor * state.rule[0].mean_loss
        return max(state.scores[item], least) if least > 0.0 else 1.0


class LastLoss(WeightedSampler):
    """Draws an item in proportion to its last loss, floored at a share of the mean loss."""

    state_class = LastLossState

    def __init__(self, n, *, floor=0.5, mixing=0.1, seed=0):
        super().__init__(n, seed, {"floor": floor, "mixing": mixing})
        rule = new_rule(mixing=mixing, unit=1.0, floor=floor, mean_loss=0.0)
        self._begin(rule=rule, scores=np.zeros(n), stale=True)


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
