"""The public interface as a user writes it, with the types that a checker must see.

`make release-check` runs mypy --strict and pyright on this file against the installed wheel, and
`test_release.py` runs it: `assert_type` does nothing then.
"""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset

import tombola
from tombola import VRB, Draw, GroupVRB, WeightIndex
from tombola.estimators import LinearClassifier
from tombola.problems import Logistic
from tombola.solvers import AdaGrad, Result
from tombola.torch import ImportanceLoader, TensorDraw

Floats = NDArray[np.float64]


def draw_and_learn(losses: Floats, path: Path) -> VRB:
    """A sampler: draw, update, look at the gauge, save and load."""
    sampler = assert_type(VRB(len(losses), seed=0), VRB)
    draw = assert_type(sampler.draw(16), Draw)
    assert_type(draw.indices, NDArray[np.int64])
    assert_type(draw.probabilities, Floats)
    assert_type(draw.importances, Floats)
    sampler.update(draw, losses[draw.indices])
    assert_type(sampler.gauge.second_moment_ratio, float)
    assert_type(sampler.gauge.interval(), tuple[float, float])
    assert_type(sampler.gauge.worst(), float)
    assert_type(sampler.probabilities(), Floats)
    tombola.save(sampler, path)
    loaded = tombola.load(path)
    assert isinstance(loaded, VRB)
    return loaded


def draw_by_weight() -> NDArray[np.int64]:
    """The index behind the samplers."""
    index = WeightIndex([1, 0, 3])
    index.set([1], [4])
    return assert_type(assert_type(index.draw(6), Draw).indices, NDArray[np.int64])


def minimize(X: Floats, y: NDArray[np.int64], path: Path) -> Floats:
    """A solver: run, save, resume."""
    problem = Logistic(X, y, alpha=1e-3, fit_intercept=True)
    solver = AdaGrad(rate=0.1)
    result = solver.minimize(problem, sampler=GroupVRB(y, seed=0), rounds=100, trace=2)
    assert_type(result, Result)
    result.save(path)
    longer = solver.minimize(problem, rounds=200, resume=assert_type(Result.load(path), Result))
    return assert_type(longer.solution, Floats)


def fit(X: Floats, y: NDArray[np.int64]) -> Floats:
    """An estimator of scikit-learn's kind."""
    model = LinearClassifier(alpha=1e-3, random_state=0).fit(X, y)
    assert_type(model, LinearClassifier)
    assert_type(model.predict(X), NDArray[Any])
    return assert_type(model.decision_function(X), Floats)


def train(X: torch.Tensor, y: torch.Tensor) -> int:
    """A training loop of PyTorch."""
    model = torch.nn.Linear(X.shape[1], 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = ImportanceLoader(TensorDataset(X, y), batch_size=32, groups=y, seed=0)
    for (inputs, labels), draw in loader:
        assert_type(draw, TensorDraw)
        losses = torch.nn.functional.cross_entropy(model(inputs), labels, reduction="none")
        torch.autograd.backward(assert_type(draw.mean(losses), torch.Tensor))
        optimizer.step()
        optimizer.zero_grad()
        loader.update(draw, losses)
    return assert_type(len(loader), int)
