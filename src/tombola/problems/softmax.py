"""Softmax regression: logistic regression with several classes."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.problems.linear import Linear, LinearProblem
from tombola.state import Floats
from tombola.validation import checked_array

__all__ = ["Softmax"]


class SoftmaxModel(Linear):
    """phi(z, y) = log sum_k exp(z_k) - z_y."""

    def slopes(self, item: int, z: Floats, out: Floats) -> Any:
        """Return phi; its derivatives are softmax(z) - onehot(y)."""
        label = np.int64(self.targets[item])
        largest = z[0]
        for k in range(1, z.size):
            largest = max(largest, z[k])
        total = 0.0
        for k in range(z.size):
            out[k] = math.exp(z[k] - largest)
            total += out[k]
        for k in range(z.size):
            out[k] /= total
        out[label] -= 1.0
        return math.log(total) + largest - z[label]

    def derivatives(self, items: Any, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return phi, its derivatives softmax(z) - onehot(y), and softmax(z), of shape (B, K).

        The second derivatives are diag(p) - p p', with p = softmax(z).
        """
        labels = self.targets[items].astype(np.int64)
        rows = np.arange(labels.size)
        z = z - z.max(axis=1, keepdims=True)
        chances = np.exp(z)
        totals = chances.sum(axis=1)
        chances /= totals[:, None]
        slopes = chances.copy()
        slopes[rows, labels] -= 1.0
        return np.log(totals) - z[rows, labels], slopes, chances

    def conjugates(self, item: int, a: Floats) -> Any:
        """Return sum_k p_k log(p_k) for the distribution p = onehot(y) - a."""
        label = np.int64(self.targets[item])
        total = 0.0
        for k in range(a.size):
            p = 1.0 - a[k] if k == label else -a[k]
            if p > 0.0:
                total += p * math.log(p)
        return total


class Softmax(LinearProblem):
    """Softmax regression: phi(z, y) = log sum_k exp(z_k) - z_y, labels 0 to K - 1.

    Parameters and attributes are those of `LinearProblem`, and:

    Parameters
    ----------
    n_classes : int, optional
        K; by default the largest label plus one.

    Examples
    --------
    >>> problem = Softmax([[1.0], [2.0], [0.5]], [0, 1, 2])
    >>> problem.shape, round(problem.value([[0.0], [0.0], [0.0]]), 3)      # log 3
    ((3, 1), 1.099)
    """

    model_class = SoftmaxModel
    curvature = 0.5
    coordinate_curvature = 0.25

    def __init__(
        self, X: Any, y: ArrayLike, *, n_classes: int | None = None, **others: Any
    ) -> None:
        if n_classes is not None and (
            isinstance(n_classes, bool) or not isinstance(n_classes, (int, np.integer))
        ):
            raise TypeError(f"n_classes must be an integer, got {n_classes!r}")
        self._n_classes = n_classes
        super().__init__(X, y, **others)

    def _checked_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        if y.shape != (self.n,):
            raise ValueError(f"y must have shape ({self.n},), one for each row, got {y.shape}")
        labels = checked_array(y, "y", dimensions=1).astype(np.float64)
        self.outputs = int(labels.max()) + 1 if self._n_classes is None else int(self._n_classes)
        wrong = (labels != np.floor(labels)) | (labels < 0) | (labels >= self.outputs)
        if wrong.any():
            position = int(wrong.argmax())
            label = y.tolist()[position]
            raise ValueError(f"y[{position}] is {label!r}: labels must be integers from 0 to K - 1")
        return labels
