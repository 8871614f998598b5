"""`tombola warm-up`: compile the kernels that most users need, ahead of the first use."""

import argparse
import os
import time
import warnings
from collections.abc import Callable

import numpy as np

from tombola import VRB, GroupVRB, Sampler

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: there are none."""


def run(options: argparse.Namespace) -> int:
    """Use each part once, on a few items, and print how long that took."""
    os.environ["TOMBOLA_QUIET"] = "1"  # this command says it itself
    began = time.monotonic()
    for what, use in PARTS.items():
        start = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that are too short to converge
            use()
        print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)
    print(f"{time.monotonic() - began:6.1f} s  in all; compiled code is kept on disk")
    return 0


def _play(make: Callable[[], Sampler]) -> None:
    sampler = make()
    for _ in range(2):
        draw = sampler.draw(32)
        sampler.update(draw, np.ones(32))
    sampler.probabilities()


def _fit(name: str) -> None:
    import scipy.sparse as sp

    from tombola import estimators

    X = np.random.default_rng(0).normal(size=(100 if name == "few" else 400, 5))
    y = X[:, 0] > 0
    if name == "batches":
        estimators.MiniBatchKMeans(3, max_iter=2).fit(X)
    elif name == "kmeans":
        estimators.KMeans(3, max_iter=2, coreset_size=10).fit(X)
    elif name == "lasso":
        estimators.Lasso(0.1).fit(X, X[:, 0])
    elif name == "regression":
        estimators.LinearRegressor(max_iter=2).fit(X, X[:, 0])
    else:
        estimators.LinearClassifier(max_iter=2).fit(sp.csr_matrix(X) if name == "sparse" else X, y)


PARTS: dict[str, Callable[[], None]] = {
    "VRB: draw and update": lambda: _play(lambda: VRB(300)),
    "GroupVRB: draw and update": lambda: _play(lambda: GroupVRB(np.arange(300) % 3)),
    "VRB as printed: draw and update": lambda: _play(lambda: VRB(300, bound=1.0)),
    "linear classifier, dense rows": lambda: _fit("dense"),
    "linear classifier, few rows for their columns": lambda: _fit("few"),
    "linear classifier, sparse rows": lambda: _fit("sparse"),
    "linear regressor, dense rows": lambda: _fit("regression"),
    "lasso, dense columns": lambda: _fit("lasso"),
    "k-means": lambda: _fit("kmeans"),
    "mini-batch k-means": lambda: _fit("batches"),
}
