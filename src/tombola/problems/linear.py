"""Linear models: the loss of an item depends on inner products of its row with the solution.

    F(w) = (1/n) sum_i s_i phi(x_i w, y_i) + l2/2 |w|^2 + l1 |w|_1

A loss with one output is two small functions on a subclass of `Linear`: `loss`, which is phi, and
`slope`, its derivative in the inner product. With several outputs, or if the two share most of
their work, it is `slopes`, which does both. Everything else follows: the gradient of an item is the
outer product of slopes and row, so its norm is the product of their norms and is never formed.

A loss with one output may also have a dual, for `tombola.solvers.SDCA`: `curve`, `conjugate`,
`inside` and `ascend`, besides `slope`; with kinks, `clearance` as well. With several outputs,
`conjugates` is enough for duality gaps (`tombola.solvers.gap`). A dual variable a stands for
-phi'(z) at the optimum, and phi*(u) = max_z (u z - phi(z)); with l1 = 0 the dual problem is

    max_a  -(1/n) sum_i s_i phi*(-a_i) - l2/2 |w|^2,        w = (1/(l2 n)) sum_i s_i a_i x_i

The regulariser is not part of the items' losses: solvers apply it exactly, at every step, so it
adds no variance.
"""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.rows import (
    Rows,
    as_rows,
    shape_of,
    squared_norms,
    transposed,
)
from tombola.state import Cell, Floats, Ints, Record, State, cell, derived
from tombola.validation import checked_array, number

__all__ = [
    "Linear",
    "LinearProblem",
    "Settings",
    "TwoClasses",
    "evaluate_items",
    "item_slopes",
    "weighted_slopes",
]


class Settings(Record):
    """The numbers of a problem; a loss with parameters of its own derives from this class."""

    l1: float = derived("the factor of |w|_1")
    l2: float = derived("the factor of |w|^2 / 2")
    intercept: int = derived("1 if the last column of w is an intercept")


class Linear(State):
    """The arrays of a problem, as one argument for kernels, and its loss."""

    rows: Rows = derived("the data")
    targets: Floats = derived("y, (n,)")
    weights: Floats = derived("s_i, of mean 1")
    norms: Floats = derived("|x_i|, the 1 of an intercept included")
    settings: Cell[Settings] = derived("penalties, and the parameters of the loss")

    def slopes(self, item: int, z: Floats, out: Floats) -> Any:
        """Return the loss of an item whose inner products are z; write its derivatives in z."""
        out[0] = self.slope(item, z[0])
        return self.loss(item, z[0])

    def loss(self, item: int, z: Any) -> Any:
        """Return the loss of an item whose one inner product is z."""
        raise NotImplementedError

    def slope(self, item: int, z: Any) -> Any:
        """Return the derivative of the loss at the inner product z."""
        raise NotImplementedError

    def curve(self, item: int, z: Any) -> Any:
        """Return the second derivative of the loss at the inner product z; 0 at kinks."""
        raise NotImplementedError

    def derivatives(self, items: Any, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return phi, phi' and phi'' of items (a slice, or integers) at inner products z.

        In numpy; by default the methods of a loss with one output are called item by item.
        """
        numbers = np.arange(self.targets.size)[items]
        out = np.empty((3, numbers.size))
        fill_derivatives(self, numbers, z, np.empty(1), np.empty(1), out)
        return out[0], out[1], out[2]

    def conjugate(self, item: int, a: Any) -> Any:
        """Return phi*(-a) for a dual variable a in its domain."""
        raise NotImplementedError

    def conjugates(self, item: int, a: Floats) -> Any:
        """Return phi*(-a) for the dual variables of all outputs, an array."""
        return self.conjugate(item, a[0])

    def inside(self, item: int, a: Any) -> Any:
        """Return whether a dual variable is in its domain, where phi*(-a) is finite."""
        raise NotImplementedError

    def clearance(self, item: int, z: Any) -> Any:
        """Return how far the inner product z is from the nearest kink of the loss."""
        return math.inf

    def ascend(self, item: int, a: Any, z: Any, q: Any) -> Any:
        """Return the b that maximises -phi*(-b) - b z - q/2 (b - a)^2, for q >= 0."""
        raise NotImplementedError


@kernel(inline=True)
def item_slopes(model: Linear, w: Floats, item: int, z: Floats, out: Floats) -> Any:
    """Return s_i phi for an item; write its inner products z and the derivatives in them."""
    for k in range(w.shape[0]):
        z[k] = model.rows.dot(item, w[k])
        if model.settings[0].intercept:
            z[k] += w[k, w.shape[1] - 1]
    return weighted_slopes(model, item, z, out)


@kernel(inline=True)
def weighted_slopes(model: Linear, item: int, z: Floats, out: Floats) -> Any:
    """Return s_i phi for an item whose inner products are z; write the derivatives in them."""
    weight = model.weights[item]
    loss = weight * model.slopes(item, z, out)
    for k in range(z.size):
        out[k] *= weight
    return loss


@kernel
def fill_derivatives(
    model: Linear, items: Ints, products: Floats, z: Floats, slope: Floats, out: Floats
) -> None:
    """Write phi, phi' and phi'' of items at inner products."""
    for place in range(items.size):
        z[0] = products[place]
        out[0, place] = model.slopes(items[place], z, slope)
        out[1, place] = slope[0]
        out[2, place] = model.curve(items[place], z[0])


@kernel
def evaluate_items(
    model: Linear, w: Floats, z: Floats, table: Floats, losses: Floats, gradient: Floats
) -> None:
    """Write slopes of all items, their mean gradient, and the losses, unless `losses` is empty."""
    outputs, width = w.shape
    n = table.shape[0]
    for k in range(outputs):
        for j in range(width):
            gradient[k, j] = 0.0
    for item in range(n):
        loss = item_slopes(model, w, item, z, table[item])
        if losses.size > 0:
            losses[item] = loss
        for k in range(outputs):
            share = table[item, k] / n
            model.rows.add_row(item, share, gradient[k])
            if model.settings[0].intercept:
                gradient[k, width - 1] += share


class LinearProblem:
    """A mean of losses of a linear model; the base of `Logistic` and the others.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n, d)
        C-ordered float32 or float64, and CSR, are used without a copy.
    y : array-like, shape (n,)
    alpha : float, default=0.0
        The strength of the elastic net penalty alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2),
        which is added to the mean loss. The intercept is not penalised.
    l1_ratio : float, default=0.0
        The share of l1 in the penalty, from 0 (ridge) to 1 (lasso).
    sample_weight : array-like, shape (n,), optional
        Not negative, at least one positive. They are divided by their mean, so a weight of 2
        is the same as the row twice, and 0 the same as no row.
    normalise : bool, default=True
        Whether the sample weights are divided by their mean; False for a part of a data set, whose
        weights are relative to those of the other parts.
    fit_intercept : bool, default=False
        Whether to fit an intercept, the last entry of a solution.

    Attributes
    ----------
    n, d, outputs : int
        Items, columns, and inner products per item (1, or the number of classes for `Softmax`).
    alpha, l1_ratio : float
    l1, l2 : float
        The penalty as l1 |w|_1 + l2/2 |w|^2: alpha * l1_ratio and alpha * (1 - l1_ratio).
    fit_intercept : bool
    model : Linear
        The arrays, for kernels.
    """

    model_class: type[Linear]
    curvature: float  # the largest second derivative of phi, in any direction of z; may be inf
    coordinate_curvature: float | None = None  # the same along each z alone, if that is less
    outputs = 1

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        alpha: float = 0.0,
        l1_ratio: float = 0.0,
        sample_weight: ArrayLike | None = None,
        normalise: bool = True,
        fit_intercept: bool = False,
    ) -> None:
        rows = as_rows(X)
        self.n, self.d = shape_of(rows)
        if not 0 <= number("alpha", alpha) < math.inf:
            raise ValueError(f"alpha must be finite and not negative, got {alpha!r}")
        if not 0 <= number("l1_ratio", l1_ratio) <= 1:
            raise ValueError(f"l1_ratio must be from 0 to 1, got {l1_ratio!r}")
        self.alpha, self.l1_ratio = float(alpha), float(l1_ratio)
        self.fit_intercept = bool(fit_intercept)
        self.model = self.model_class(
            rows=rows,
            targets=self._checked_targets(np.asarray(y)),
            weights=checked_weights(sample_weight, self.n, normalise),
            norms=np.sqrt(squared_norms(rows) + self.fit_intercept),
            settings=cell(self._settings()),
        )

    def _checked_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the targets for the kernels, or raise an error that says what is wrong."""
        if y.shape != (self.n,):
            raise ValueError(f"y must have shape ({self.n},), one for each row, got {y.shape}")
        return checked_array(y, "y", dimensions=1).astype(np.float64)

    def _settings(self) -> Settings:
        """Return penalties and parameters, for the kernels."""
        return Settings(l1=self.l1, l2=self.l2, intercept=int(self.fit_intercept))

    @property
    def has_dual(self) -> bool:
        """Whether the loss has a dual, which `tombola.solvers.SDCA` needs."""
        return self.model_class.ascend is not Linear.ascend

    @property
    def l1(self) -> float:
        """The factor of |w|_1."""
        return self.alpha * self.l1_ratio

    @property
    def l2(self) -> float:
        """The factor of |w|^2 / 2."""
        return self.alpha * (1.0 - self.l1_ratio)

    # --- solutions ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a solution: (d,), or (outputs, d); one more column with an intercept."""
        width = self.d + self.fit_intercept
        return (width,) if self.outputs == 1 else (self.outputs, width)

    def as_matrix(self, solution: ArrayLike | None) -> NDArray[np.float64]:
        """Return a copy of a solution (None: zeros) of shape (outputs, width)."""
        width = self.d + self.fit_intercept
        if solution is None:
            return np.zeros((self.outputs, width))
        w = np.array(solution, dtype=np.float64, order="C")  # kernels are compiled for that
        if w.shape != self.shape:
            raise ValueError(f"a solution has shape {self.shape}, got {w.shape}")
        if not np.isfinite(w).all():
            raise ValueError("the solution holds a value that is not finite")
        return w.reshape(self.outputs, width)

    # --- values and gradients ----------------------------------------------------------------

    def evaluate(self, solution: ArrayLike | None) -> tuple[Any, Any, Any]:
        """Return losses (n,), slopes (n, outputs), and the mean gradient (outputs, width)."""
        w = self.as_matrix(solution)
        table, losses = np.empty((self.n, self.outputs)), np.empty(self.n)
        gradient = np.empty_like(w)
        evaluate_items(self.model, w, np.empty(self.outputs), table, losses, gradient)
        return losses, table, gradient

    def penalty(self, solution: ArrayLike | None) -> float:
        """Return l2/2 |w|^2 + l1 |w|_1, without the intercept."""
        w = self.as_matrix(solution)[:, : self.d]
        return float(self.l2 / 2 * (w * w).sum() + self.l1 * np.abs(w).sum())

    def value(self, solution: ArrayLike | None) -> float:
        """Return F: the mean of the losses plus the regulariser."""
        return float(self.losses(solution).mean()) + self.penalty(solution)

    def losses(self, solution: ArrayLike | None) -> NDArray[np.float64]:
        """Return the loss of each item, its sample weight included."""
        losses: NDArray[np.float64] = self.evaluate(solution)[0]
        return losses

    def norms(self, solution: ArrayLike | None) -> NDArray[np.float64]:
        """Return the norm of the gradient of each item's loss; O(n d), no gradient is formed."""
        return self.norms_of(self.evaluate(solution)[1])

    def norms_of(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient norms for given slopes of shape (n, outputs)."""
        with np.errstate(over="ignore", invalid="ignore"):  # when a solver diverges
            norms: NDArray[np.float64] = np.sqrt((table * table).sum(axis=1)) * self.model.norms
        return norms

    def gradient(self, solution: ArrayLike | None) -> NDArray[np.float64]:
        """Return the gradient of F without its l1 term, in the shape of a solution."""
        w = self.as_matrix(solution)
        gradient = self.evaluate(solution)[2]
        gradient[:, : self.d] += self.l2 * w[:, : self.d]
        return np.asarray(gradient.reshape(self.shape))

    def item_gradient(self, item: int, solution: ArrayLike | None) -> NDArray[np.float64]:
        """Return the gradient of one item's loss (sample weight, no regulariser)."""
        if not 0 <= item < self.n:
            raise IndexError(f"item must be from 0 to {self.n - 1}, got {item}")
        w = self.as_matrix(solution)
        z, out = np.empty(self.outputs), np.empty(self.outputs)
        item_slopes(self.model, w, item, z, out)
        gradient = np.zeros_like(w)
        for k in range(self.outputs):
            self.model.rows.add_row(item, out[k], gradient[k])
        if self.fit_intercept:
            gradient[:, -1] = out
        return gradient.reshape(self.shape)

    # --- curvature ---------------------------------------------------------------------------

    def lipschitz(self) -> NDArray[np.float64]:
        """Return L_i, the Lipschitz constant of each item's gradient (without the regulariser)."""
        smooth: NDArray[np.float64] = self.curvature * self.model.weights * self.model.norms**2
        return smooth

    def coordinate_lipschitz(self) -> NDArray[np.float64]:
        """Return, for each column, the Lipschitz constant of the derivative of F in its w.

        With several outputs it is the same for all of them.
        """
        own = self.coordinate_curvature
        curvature = self.curvature if own is None else own
        columns = transposed(self.model.rows)
        squares = squared_norms(columns, self.model.weights) / self.n
        smooth: NDArray[np.float64] = curvature * squares + self.l2
        return np.append(smooth, curvature) if self.fit_intercept else smooth

    def once(self, name: str, make: Callable[[Any], Any]) -> Any:
        """Return what a function makes of this problem; it is called once for a model."""
        kept: Any = self.__dict__.get("_kept")
        if kept is None or kept[0] is not self.model:
            kept = self.__dict__["_kept"] = (self.model, {})
        if name not in kept[1]:
            kept[1][name] = make(self)
        return kept[1][name]

    def fingerprint(self) -> str:
        """Return a hash of targets, weights, norms of rows, shape and penalties: O(n)."""
        return str(self.once("fingerprint", LinearProblem._digest))

    def _digest(self) -> str:
        model, digest = self.model, hashlib.sha256(repr(self.shape).encode())
        for part in (model.targets, model.weights, model.norms, model.settings):
            digest.update(part.tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        kind = "sparse" if hasattr(self.model.rows, "columns") else "dense"
        penalties = f", alpha={self.alpha:g}, l1_ratio={self.l1_ratio:g}"
        return f"{type(self).__name__}({self.n} x {self.d}, {kind}{penalties})"


def checked_weights(
    sample_weight: ArrayLike | None, n: int, normalise: bool = True
) -> NDArray[np.float64]:
    """Return sample weights (of mean 1), or raise an error that names the first wrong one."""
    if sample_weight is None:
        return np.ones(n)
    weights = checked_array(sample_weight, "sample_weight", dimensions=1).astype(np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}")
    if (weights < 0).any():
        position = int((weights < 0).argmax())
        raise ValueError(f"sample_weight[{position}] is {weights[position]}, which is negative")
    if not weights.any():
        raise ValueError("all sample weights are 0: at least one must be positive")
    if not normalise:
        return weights
    weights /= weights.max()  # so that their sum does not overflow and their mean is not 0
    return np.asarray(weights / weights.mean())


class TwoClasses(LinearProblem):
    """A linear model of two classes: labels -1 and 1, 0 and 1, or booleans; targets -1 and 1."""

    def _checked_targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        n = self.n
        if y.shape != (n,):
            raise ValueError(f"y must have shape ({n},), one for each row, got {y.shape}")
        if y.dtype == bool:
            return np.where(y, 1.0, -1.0)
        wrong = ~np.isin(y, (-1, 0, 1)) if y.dtype.kind in "fiub" else np.ones(n, dtype=bool)
        if not wrong.any() and (y == 0).any():
            wrong = y == -1
        if wrong.any():
            position = int(wrong.argmax())
            label = y.tolist()[position]
            raise ValueError(
                f"y[{position}] is {label!r}: labels must be 0 and 1, -1 and 1, or booleans"
            )
        return np.where(y > 0, 1.0, -1.0)
