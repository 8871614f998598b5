"""
A photograph as a neural field
==============================

A network maps a place in a photograph to its colour. The error is in few pixels: edges and
textures. :class:`tombola.torch.GroupVRB` over blocks of 8 x 8 pixels draws those more often, and
importances keep the gradient that of the mean squared error over the whole picture.

This is a small version, for a CPU, in which nothing is gained. On a GPU, with a larger picture
and network, :doc:`1.5 times fewer steps are needed </recipes>`.
"""

# %%
# Picture, field and training step are those of ``examples/fit_image.py``.
import matplotlib.pyplot as plt
import numpy as np
import torch
from fit_image import Fit, Settings, load_picture, rates_of

torch.set_num_threads(1)
settings = Settings(12_000, frequencies=64, layers=3, width=64, batch=512, steps=1200, seeds=1)
picture = load_picture(None, settings.pixels)
rates = rates_of("constant", 3e-3, settings.steps)

fits, quality = {}, {}
for name in ("shuffled", "both"):
    fit = fits[name] = Fit(name, rates, 0, picture, settings)
    quality[name] = []
    for until in range(60, settings.steps + 1, 60):
        fit.train(until)
        quality[name].append(-10 * np.log10(float(fit.errors()[1].mean())))

# %%
# The photograph, both fits, and how often a pixel is drawn at the end, relative to uniform draws.
shape = picture.height, picture.width
figure, panels = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained")
panels[0, 0].imshow(picture.colours.reshape(*shape, 3))
panels[0, 0].set_title("the photograph")
for axes, name, title in zip(
    panels.flat[1:3], fits, ("shuffled epochs", "GroupVRB over blocks"), strict=True
):
    axes.imshow(fits[name].errors()[0].clamp(0, 1).reshape(*shape, 3))
    axes.set_title(f"{title}: {quality[name][-1]:.2f} dB")
often = fits["both"].sampler.probabilities() * len(picture.cells)
shown = panels[1, 1].imshow(often.reshape(shape), cmap="magma", vmin=0)
panels[1, 1].set_title("draws of a pixel, over uniform's")
figure.colorbar(shown, ax=panels[1, 1], shrink=0.8)
for axes in panels.flat:
    axes.axis("off")
plt.show()

# %%
# The quality on the way:
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
steps = np.arange(60, settings.steps + 1, 60)
axes.plot(steps, quality["shuffled"], label="shuffled epochs")
axes.plot(steps, quality["both"], label="GroupVRB over blocks")
axes.set(xlabel="steps of 512 pixels", ylabel="PSNR, dB")
axes.legend()
plt.show()
