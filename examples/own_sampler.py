"""A sampler of your own: draw by the last loss of each item, softened by the mean loss."""

import numpy as np

from tombola.samplers.board import FED, OWN_KNOBS, Board, BoardSampler, normalised
from tombola.testing import check_sampler

MEAN = OWN_KNOBS  # which knob holds the running mean of the losses


class LastLossBoard(Board):
    """The score of an item is its last loss."""

    __slots__ = ()

    @staticmethod
    def absorb(board, item, probability, loss):
        """Keep the loss; loss / (n p) is an unbiased estimate of the mean over all items."""
        loss, n = normalised(board, loss), board.counts[0]
        pace = max(1.0 / (board.clock[FED] + 1.0), 1.0 / n)
        board.knobs[MEAN] += pace * (loss / (n * probability) - board.knobs[MEAN])
        board.scores[item] = loss

    @staticmethod
    def value(board, item):
        """Last loss plus mean loss, so that an item whose last loss was 0 is seen again."""
        return board.scores[item] + board.knobs[MEAN] if board.knobs[MEAN] > 0.0 else 1.0


class LastLoss(BoardSampler):
    """Draws an item in proportion to its last loss plus the mean loss."""

    state_class = LastLossBoard

    def __init__(self, n, *, mixing=0.1, seed=0):
        super().__init__(n, seed, {"mixing": mixing}, mixing=mixing, unit=1.0, stale=True)
        self._rebuild()


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
