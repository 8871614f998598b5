"""Samplers for tests: ours by name, played and used; one that replays, one outside the loop."""

import numpy as np

import tombola
from tombola import Sampler
from tombola.compiling import kernel


def ours(n, largest=1.0, horizon=20_000):
    """Makers of the samplers of the library that solvers take, by name.

    `largest` is about the largest loss. Chosen epochs are in `by_epochs`: each would be compiled
    with each solver.
    """
    halves = np.arange(n) % 2
    bound = largest**2
    return {
        "Uniform": lambda seed: tombola.Uniform(n, seed=seed),
        "Shuffle": lambda seed: tombola.Shuffle(n, seed=seed),
        "Static": lambda seed: tombola.Static(1.0 + np.arange(n) % 5, seed=seed),
        "Static, balanced": lambda seed: tombola.Static.balanced(np.arange(n) % 7 == 0, seed=seed),
        "VRB": lambda seed: tombola.VRB(n, seed=seed),
        "VRB, memory": lambda seed: tombola.VRB(n, memory=5 * n, seed=seed),
        "VRB, mixing": lambda seed: tombola.VRB(n, bound=bound, mixing=0.3, seed=seed),
        "VRB, bound for each, horizon": lambda seed: tombola.VRB(
            n, bound=np.linspace(0.5, 1.0, n) * bound, horizon=horizon, seed=seed
        ),
        "GroupVRB": lambda seed: tombola.GroupVRB(halves, seed=seed),
        "MABS": lambda seed: tombola.MABS(n, horizon=horizon, bound=bound, seed=seed),
        "MirrorDescent": lambda seed: tombola.MirrorDescent(n, bound=bound, seed=seed),
        "AdaptiveWeighted": lambda seed: tombola.AdaptiveWeighted(halves, seed=seed),
        "Avare": lambda seed: tombola.Avare(n, seed=seed),
        "SRG": lambda seed: tombola.SRG(n, seed=seed),
        "Safe": lambda seed: tombola.Safe(n, smoothness=1.0, seed=seed),
        "FTRL": lambda seed: tombola.FTRL(n, bound=bound, seed=seed),
    }


def by_epochs(n, largest=1.0):
    """Makers of the samplers whose epochs are chosen, and of those of random size, by name."""
    return {
        "EpochVRB": lambda seed: tombola.EpochVRB(n, seed=seed),
        "EpochVRB, share": lambda seed: tombola.EpochVRB(n, share=0.6, seed=seed),
        "InfoBatch": lambda seed: tombola.InfoBatch(n, 1000, seed=seed),
        "KVib": lambda seed: tombola.KVib(n, bound=largest**2, mixing=0.3, seed=seed),
    }


def rivals(n, largest=1.0):
    """Makers of further samplers of the library, which few tests of solvers compile."""
    halves = np.arange(n) % 2
    return {
        "OSMD": lambda seed: tombola.OSMD(n, bound=largest**2, step=0.3, seed=seed),
        "VRM": lambda seed: tombola.VRM([halves, 1.0 + np.arange(n)], seed=seed),
        "Stale": lambda seed: tombola.Stale(n, seed=seed),
        "Latest": lambda seed: tombola.Latest(n, seed=seed),
        "Cyclic": lambda seed: tombola.Cyclic(n),
    }


N = 40
SAMPLERS = {  # those that damaged states are loaded into
    **ours(N, largest=3.0, horizon=1000),
    **by_epochs(N, largest=3.0),
    **rivals(N, largest=3.0),
}


def played(name):
    """One of `SAMPLERS` after 30 rounds of random losses."""
    sampler = SAMPLERS[name](1)
    rng = np.random.default_rng(0)
    for _ in range(30):
        draw = sampler.draw(7)
        if sampler.feedback == "all":
            sampler.update_all(rng.exponential(size=N))
        else:
            sampler.update(draw, rng.exponential(size=len(draw)))
    return sampler


@kernel
def draw_one(state):
    """One draw as compiled loops make it, from any state."""
    return state.draw_one()


@kernel
def update_one(state, item, probability, loss):
    """One loss as compiled loops feed it, to any state."""
    state.update_one(item, probability, loss)


class Harm(Exception):  # noqa: N818
    """A damaged state was taken, and did what no state may do."""


def require(condition, what):
    if not condition:
        raise Harm(what)


def use(sampler):
    """Draws stay within the items, probabilities sum to one, and feedback is taken."""
    n = sampler.n
    for size in (1, 300):
        draw = sampler.draw(size)
        items, chances = np.asarray(draw.indices), np.asarray(draw.probabilities)
        require(((items >= 0) & (items < n)).all(), "an item that is not there")
        require(((chances > 0) & (chances <= 1 + 1e-9)).all(), "a probability not from 0 to 1")
        if sampler.feedback == "all":
            sampler.update_all(np.ones(n))
        else:
            sampler.update(draw, losses_like(draw, np.linspace(0.0, 2.0, len(items))))
    p = np.asarray(sampler.probabilities())
    require(p.shape == (n,), "not a probability for each item")
    require(abs(p.sum() - 1.0) < 1e-6, f"probabilities that sum to {p.sum()}")


def losses_like(draw, losses):
    """Losses as the sampler takes them: a tensor for a draw of tensors."""
    if isinstance(draw.indices, np.ndarray):
        return losses
    import torch

    return torch.from_numpy(losses)


class Replay(Sampler):
    """Draws what it was told to; remembers what it was fed."""

    def __init__(self, n, draws, seed=0):
        super().__init__(n, seed)
        self.draws, self.fed = list(draws), []

    def _draw(self, size):
        items, chances = self.draws[self.rounds]
        assert len(items) == size
        return np.array(items, dtype=np.int64), np.array(chances, dtype=np.float64)

    def _update(self, draw, losses):
        self.fed.append(losses)

    def probabilities(self):
        return np.full(self.n, 1 / self.n)


class Outside(Sampler):
    """One of ours as a sampler that solvers do not know: they have to call it from Python."""

    def __init__(self, inner):
        super().__init__(inner.n, 0)
        self.inner, self.tally, self._rounds = inner, inner.tally, inner._rounds

    def _draw(self, size):
        return self.inner._draw(size)

    def _update(self, draw, losses):
        self.inner._update(draw, losses)

    def probabilities(self):
        return self.inner.probabilities()


def some_draws(rng, n, batch, rounds):
    """Random items with random probabilities, some of them small; no distribution is meant."""
    return [
        (rng.integers(n, size=batch), np.exp(rng.uniform(-1.5, 0.7, size=batch)) / n)
        for _ in range(rounds)
    ]
