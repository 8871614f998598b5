"""
Coordinate draws at work
========================

Coordinate descent may visit columns in any order. ``VRB`` over the columns learns from each step
how much it has gained, and draws the columns that gain most. Of the two lassos below it is ahead on
one; on the other, shuffled and cyclic order are ahead of it. Which of their differences decides was
not tried.
"""

# %%
# Two lassos: that of ``tombola reproduce coordinates``, 1,000 correlated columns of log-normal
# scales, fifty of which count; and one of 300 independent columns, uneven too, thirty of which
# count.
import matplotlib.pyplot as plt
import numpy as np
from experiments.coordinates import lasso

import tombola
from tombola.problems import LeastSquares
from tombola.solvers import CoordinateDescent

random = np.random.default_rng(0)
X = random.normal(size=(1000, 300)) * np.geomspace(3.0, 0.1, 300)
true = np.where(random.permutation(300) < 30, random.normal(size=300), 0.0)
y = X @ true + 0.1 * random.normal(size=1000)
problems = {
    "correlated columns": lasso(2000, 1000, 0.1),
    "independent columns": LeastSquares(X, y, alpha=0.01, l1_ratio=1.0),
}
solver = CoordinateDescent()


# %%
# The objective after each half of an epoch, above its least value and relative to the start:
def gaps(problem, sampler, epochs=20):
    """Return epochs, and gaps between the objective and its minimum."""
    result = solver.minimize(problem, sampler=sampler, rounds=epochs * problem.d, trace=2 * epochs)
    least = problem.value(solutions[problem])
    objective = result.trace.objective
    return result.trace.rounds / problem.d, (objective - least) / (objective[0] - least)


solutions = {
    problem: solver.minimize(problem, rounds=400 * problem.d).solution
    for problem in problems.values()
}
samplers = {
    "uniform": tombola.Uniform,
    "shuffled": tombola.Shuffle,
    "cyclic": tombola.Cyclic,
    "VRB": tombola.VRB,
}
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", sharey=True)
for axes, (title, problem) in zip(panels, problems.items(), strict=True):
    for name, kind in samplers.items():
        epochs, gap = gaps(problem, kind(problem.d))
        axes.plot(epochs, np.maximum(gap, 1e-12), label=name)
    axes.set(title=title, xlabel="epochs", yscale="log")
panels[0].set_ylabel("gap")
panels[0].legend()
plt.show()

# %%
# What ``VRB`` has learnt of the first one after three epochs: columns whose coefficient is not 0
# are drawn more often than the others.
problem = problems["correlated columns"]
bandit = tombola.VRB(problem.d)
solver.minimize(problem, sampler=bandit, rounds=3 * problem.d)
often, inside = bandit.probabilities() * problem.d, solutions[problem] != 0
length = np.sqrt(problem.coordinate_lipschitz())

figure, axes = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
axes.plot(length[~inside], often[~inside], ".", color="0.6", label="coefficient 0")
axes.plot(length[inside], often[inside], "o", label="coefficient not 0")
axes.set(xscale="log", yscale="log", xlabel="length of a column", ylabel="draws over uniform's")
axes.legend()
plt.show()
print(f"{inside.mean():.0%} of the columns get {often[inside].sum() / problem.d:.0%} of the draws")
