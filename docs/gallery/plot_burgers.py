"""
A PDE with a shock
==================

A physics-informed network solves Burgers' equation by making its residual small at fixed points.
Residuals are largest where the solution is steep, and few points are there: draws by residual go
there, and importances keep the objective what it is.

A few hundred steps on one core show where draws go, not who wins: seeds differ by more than
samplers do, and here both end alike. :doc:`Fifteen seeds on a GPU </recipes>` say that ``GroupVRB``
needs about half of the steps.
"""

# %%
# Equation, network and training are those of ``examples/burgers.py``.
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import torch
from burgers import SMALL, Reference, train

torch.set_num_threads(1)
task = replace(SMALL, steps=900, seeds=1)
reference = Reference(task, "cpu")
runs = {name: train(name, task, reference, 0) for name in ("shuffled", "cells x points")}

# %%
# The exact solution runs into a front at x = 0; draws follow its flanks. Errors are those at the
# end.
extent = (0, 1, -1, 1)
drawn = runs["cells x points"].counts
figure, panels = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
pictures = [
    ("exact solution", reference.exact.T, "RdBu_r"),
    ("draws of a cell, over uniform's", (drawn / drawn.mean()).T, "magma"),
    ("error with shuffled epochs", runs["shuffled"].errors.T, "viridis"),
    ("error with GroupVRB", runs["cells x points"].errors.T, "viridis"),
]
largest = max(run.errors.max() for run in runs.values())
for axes, (title, values, colours) in zip(panels.flat, pictures, strict=True):
    top = largest if colours == "viridis" else None
    shown = axes.imshow(
        values, origin="lower", extent=extent, aspect="auto", cmap=colours, vmax=top
    )
    axes.set(title=title, xlabel="t", ylabel="x")
    figure.colorbar(shown, ax=axes)
plt.show()

# %%
# The relative error on the way:
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, label in (("shuffled", "shuffled epochs"), ("cells x points", "GroupVRB over cells")):
    axes.plot(runs[name].column("step"), runs[name].column("error"), label=label)
axes.set(xlabel="steps of 256 points", ylabel="relative error", yscale="log")
axes.legend()
plt.show()
print({name: np.round(run.column("error")[-1], 3) for name, run in runs.items()})
