"""
Prioritised replay
==================

The blind cliffwalk: in each of ten states one of two actions leads on, the other ends the episode,
and only the last state gives a reward. Random actions find it once in a thousand episodes, so most
of what is in the buffer says nothing. Draws by the last error replay what does.
"""

# %%
# ``examples/torch_replay.py`` is a ring of transitions around the bare
# :class:`tombola.WeightIndex`, in 25 lines: a weight for each slot, set when it is written and when
# its error is known.
import matplotlib.pyplot as plt
import numpy as np
from torch_replay import CAPACITY, Ring, batches_needed

SEEDS = 5
needed = {
    method: [batches_needed(method, seed) for seed in range(SEEDS)]
    for method in ("uniform", "prioritised", "with importances")
}

# %%
# Batches of 16 until the values are right; each dot is a seed, bars are medians. Importances,
# divided by the largest as is the habit, take back what the draws have gained: a table of values
# has the same solution without them.
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for k, batches in enumerate(needed.values()):
    axes.bar(k, np.median(batches), color=f"C{k}", alpha=0.5)
    axes.plot([k] * SEEDS, batches, "o", color=f"C{k}")
axes.set_xticks(range(len(needed)), needed)
axes.set(ylabel="batches", yscale="log", title="until the values are right")
plt.show()

# %%
# The index draws exactly in proportion to its weights, whatever they were before. 8,192 slots with
# weights over six orders of magnitude, a million draws: frequencies over probabilities, against
# what four standard deviations allow.
ring = Ring(0)
weights = np.random.default_rng(0).lognormal(0, 2, CAPACITY)
ring.index.set(np.arange(CAPACITY), weights)
drawn = np.bincount(ring.index.draw(10**6).indices, minlength=CAPACITY)
expected = 10**6 * weights / ring.index.total

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(expected, drawn / expected, ".", ms=2)
line = np.geomspace(1, expected.max(), 100)
axes.plot(line, 1 + 4 / np.sqrt(line), "k:", lw=1)
axes.plot(line, np.maximum(0, 1 - 4 / np.sqrt(line)), "k:", lw=1)
axes.set(
    xscale="log", xlim=(1, None), ylim=(0, 3), xlabel="draws expected", ylabel="draws over that"
)
plt.show()
