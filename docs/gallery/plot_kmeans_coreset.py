"""
k-means by coreset
==================

A coreset is a few weighted rows that stand for all of them: rows far from the mean are drawn more
often, and weigh less. :class:`tombola.estimators.KMeans` clusters such rows and polishes the
centres over all of them.
"""

# %%
# 100,000 rows in clusters of very different sizes, and a coreset of 300 of them. The area of a
# circle is the weight of its row.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

import tombola
from tombola.estimators import KMeans

random = np.random.default_rng(0)
sizes = np.array([60_000, 25_000, 10_000, 3_000, 1_500, 500])
places = random.normal(scale=8, size=(len(sizes), 2))
X = np.concatenate([
    random.normal(place, 1.0, size=(size, 2)) for place, size in zip(places, sizes, strict=True)
])  # fmt: skip
indices, weights = tombola.coreset(X, 300)

figure, axes = plt.subplots(figsize=(6.5, 5), layout="constrained")
axes.plot(*X[::10].T, ",", color="0.7")
axes.scatter(*X[indices].T, s=weights / weights.mean() * 12, alpha=0.6)
axes.set(title="100,000 rows, and 300 that stand for them", aspect="equal")
plt.show()

# %%
# Sums over all rows are estimated without bias. Here is the cost of six centres, by the coreset
# and by all rows:
distances = ((X[:, None] - places) ** 2).sum(axis=2).min(axis=1)
print(f"by 300 rows {weights @ distances[indices]:,.0f}, by all {distances.sum():,.0f}")

# %%
# The estimator, against scikit-learn's, in 20 dimensions: cost over the least of all, and
# seconds, for five seeds. The first fit compiles, and is not shown.
wide = np.concatenate([
    random.normal(random.normal(scale=3, size=20), 1.0, size=(size, 20)) for size in sizes
])  # fmt: skip
KMeans(20, random_state=0).fit(wide)
costs, seconds = {}, {}
for name, kind in (("scikit-learn", PlainKMeans), ("tombola", KMeans)):
    options = {"n_init": 1} if name == "scikit-learn" else {}
    for seed in range(5):
        begun = time.perf_counter()
        model = kind(20, random_state=seed, **options).fit(wide)
        seconds.setdefault(name, []).append(time.perf_counter() - begun)
        costs.setdefault(name, []).append(model.inertia_)
least = min(min(values) for values in costs.values())

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name in costs:
    axes.plot(seconds[name], np.array(costs[name]) / least, "o", label=name)
axes.set(xlabel="seconds", ylabel="cost over the least", xscale="log")
axes.legend()
plt.show()
