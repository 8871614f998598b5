"""A prioritised replay buffer of one's own: a ring of transitions, and the bare index.

Needs NumPy only. The blind cliffwalk (Schaul et al. 2016): in each of ten states one of two actions
leads on and the other ends the episode; only the last state gives a reward, which random actions
reach once in a thousand episodes. Transitions go into a ring that overwrites the oldest, and
Q-learning replays them, uniformly or in proportion to their last error. Prints how many batches it
takes until the values are right. Importances, divided by their maximum as is the habit, correct for
the draws by smaller steps; a table has the same solution without them, so here they only cost.
"""

import numpy as np

import tombola

STATES, GAMMA, RATE, CAPACITY, BATCH, SEEDS = 10, 0.9, 0.25, 2**13, 16, 5
EPS, ALPHA = 1e-4, 0.7


class Ring:
    """Transitions (state, action, reward, next state); the index has one weight for each slot."""

    def __init__(self, seed):
        self.index = tombola.WeightIndex(np.zeros(CAPACITY), seed)  # empty slots are never drawn
        self.data = np.zeros((CAPACITY, 4))
        self.largest, self.written = 1.0, 0

    def add(self, transition):
        """Write over the oldest; what is new is replayed soon."""
        slot = self.written % CAPACITY
        self.data[slot] = transition
        self.index.set(slot, self.largest)
        self.written += 1

    def sample(self):
        """Return a batch: slots with their importances, and what is in them."""
        draw = self.index.draw(BATCH)
        return draw, self.data[draw.indices]

    def update(self, slots, errors):
        """Turn errors into weights."""
        weights = (np.abs(errors) + EPS) ** ALPHA
        self.largest = max(self.largest, weights.max())
        self.index.set(slots, weights)


def episodes(generator, right):
    """Yield the transitions of random episodes; a next state of -1 is the end."""
    while True:
        state = 0
        while state >= 0:
            action = int(generator.integers(2))
            last = state == STATES - 1
            onward = state + 1 if action == right[state] and not last else -1
            yield state, action, float(last and action == right[state]), onward
            state = onward


def batches_needed(method, seed, most=20_000):
    """Return how many batches Q-learning needs until its table is right."""
    generator = np.random.default_rng(seed)
    right = generator.integers(0, 2, STATES)
    truth = np.zeros((STATES, 2))
    truth[np.arange(STATES), right] = GAMMA ** np.arange(STATES - 1, -1, -1)
    ring, values = Ring(seed), np.zeros((STATES, 2))
    stream = episodes(generator, right)
    for batch in range(1, most + 1):
        for _ in range(BATCH // 4):
            ring.add(next(stream))
        draw, transitions = ring.sample()
        state, action, onward = transitions[:, [0, 1, 3]].T.astype(int)
        following = np.where(onward >= 0, values[onward].max(axis=1), 0.0)
        errors = transitions[:, 2] + GAMMA * following - values[state, action]
        rates = np.full(BATCH, RATE)
        if method == "with importances":
            rates *= draw.importances / draw.importances.max()
        np.add.at(values, (state, action), rates * errors)
        if method != "uniform":
            ring.update(draw.indices, errors)
        if np.mean((values - truth) ** 2) < 1e-3:
            return batch
    return most


def main():
    print(f"batches of {BATCH} until the values are right: median of {SEEDS} seeds, and all")
    for method in ("uniform", "prioritised", "with importances"):
        needed = sorted(batches_needed(method, seed) for seed in range(SEEDS))
        print(f"{method + ':':18} {needed[SEEDS // 2]:6}   {', '.join(map(str, needed))}")


if __name__ == "__main__":
    main()
