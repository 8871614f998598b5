"""
A sampler of your own
=====================

Two small functions make a sampler: what to keep of a loss, and how heavy an item is. tombola
compiles them with its own kernels, and the conformance suite says whether every promise is kept.
:doc:`The guide </write_your_own_sampler>` explains it.
"""

# %%
# ``examples/own_sampler.py`` draws by the last loss of each item, above a floor:
import inspect

import matplotlib.pyplot as plt
import numpy as np
from own_sampler import LastLoss, LastLossState

import tombola
from tombola.ledger import Ledger
from tombola.simulate import Noisy, Stationary, Switching, log_normal, play
from tombola.testing import check_sampler

print(inspect.getsource(LastLossState.absorb))
print(inspect.getsource(LastLossState.value))
check_sampler(lambda n, seed: LastLoss(n, seed=seed))

# %%
# Does it draw well? A game says: an adversary chooses the losses, and the ledger compares the cost
# with that of the best fixed distribution in hindsight. 1 is optimal.
n, rounds = 500, 40_000
marks = np.arange(1000, rounds + 1, 1000)
first, then = log_normal(n, 1.5, seed=1), log_normal(n, 1.5, seed=2)
games = {
    "steady losses": lambda: Stationary(first),
    "all losses change": lambda: Switching(first, then, at=rounds // 2),
    "noisy losses": lambda: Noisy(first, 1.0, seed=3),
}
players = {
    "uniform": lambda: tombola.Uniform(n, seed=0),
    "our own": lambda: LastLoss(n, seed=0),
    "VRB": lambda: tombola.VRB(n, seed=0),
}
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
for axes, (title, adversary) in zip(panels, games.items(), strict=True):
    for name, player in players.items():
        history = play(player(), adversary(), rounds, ledger=Ledger(n, marks=marks)).history()
        axes.plot(history["rounds"], history["cost"] / history["best_cost"], label=name)
    axes.set(title=title, xlabel="draws", yscale="log")
panels[0].set_ylabel("cost over the best fixed p's")
panels[0].legend()
plt.show()

# %%
# On steady losses the two are close. After a change of all losses, a memory of one loss is the
# quicker one; on noisy losses, averages are far better. (After the change, the best *fixed*
# distribution fits neither half, so that ratios may fall below 1.)
