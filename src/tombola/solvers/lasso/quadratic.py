"""Minimise a quadratic with an l1 penalty: from its matrix, or by columns if that is too large.

*From its matrix:* sweeps, and steps on faces.

    Q(w) = w G w / 2 - c w + l2/2 |w|^2 + l1 |w|_1                       (w >= 0 if `positive`)

Sweeps of coordinate descent find which w are 0 and the signs of the others: a face, on which Q is
a plain quadratic. Its minimum is the solution of a linear system; if signs would change on the
way there, the step ends at a smaller face. With the right face, one step is exact, whatever the
condition of G.

If as many columns matter as there are rows, sweeps move too many coordinates for that, and the
search goes on from face to face, one coordinate at a time.

Sweeps draw their coordinates: in the same order each time they take up to ten times as many.

*By columns:* sweeps over the quadratic model of an objective, without its matrix.

    Q(v) = p X v / n + sum_i h_i (x_i v - c)^2 / (2 n) + penalty(w + v)

with slopes p, curvatures h and, with an intercept, the best c for every v, which centres the
columns by their means in h. A step in w_j takes O(non-zeros of column j): t = p + h (X v) is kept,
and the part of the means apart from it.
"""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.problems.rows import Rows
from tombola.samplers.compiled import Compiled
from tombola.solvers.gap import Penalty
from tombola.solvers.proximal import soft
from tombola.state import Cell, Floats, Ints, Record, State, cell, derived

__all__ = ["ColumnModel", "minimise_by_columns", "minimise_quadratic", "new_model"]

SWEEPS = 8  # before each step on a face, at least; more if the step is expensive
DEAR = 0.1  # a step on a face of s coordinates takes the time of DEAR s^3 changes of a gradient
ROUNDS = 5  # of sweeps and steps, before one coordinate enters at a time
SEARCH = 1000  # steps with one coordinate at a time, at most
FACES = 20  # steps on ever smaller faces between sweeps, at most
POINTS = 12  # on the way to the minimum of a face
SLOW = 0.01  # if sweeps are slow, what is left to gain by another says less
FEW = 256  # coordinates or fewer are minimised to TINY times `enough`: that takes no longer
TINY = 1e-9
RIDGE = 1e-12  # of its diagonal: added to the system of a face
EPOCHS = 1000  # sweeps by columns, at most


def minimise_quadratic(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, state: Compiled, enough: float
) -> None:
    """Minimise Q in place; `gradient` is G w - c, before and after.

    It ends when steps in all coordinates, each from here, would decrease Q by at most `enough`
    after a step on a face; by SLOW times that if such a step is expensive. Few coordinates are
    minimised to the limit, so that solutions agree, however they were reached.

    Parameters
    ----------
    gram, gradient, w : ndarray
        G is the first rows and columns of `gram`, as many as w has entries.
    penalty : Penalty
    state : Compiled
        Of a sampler over the entries of w.
    enough : float
    """
    if w.size <= FEW:
        enough *= TINY
    for _ in range(ROUNDS):
        if settle(gram, gradient, w, penalty, state, enough):
            return
        reached = any(step_on_face(gram, gradient, w, penalty) for _ in range(FACES))
        if reached and decrease_left(gram, gradient, w, penalty) <= enough:
            return
    search_faces(gram, gradient, w, penalty, enough)


@kernel
def settle(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, state: Compiled, enough: float
) -> Any:
    """Sweep until a step on a face is cheaper; return whether that is not necessary."""
    work, sweeps = 0.0, 0
    while True:
        changes, moved = sweep(gram, gradient, w, penalty, state)
        work, sweeps = work + changes * w.size, sweeps + 1
        face = 0.0
        for j in range(w.size):
            face += 1.0 if w[j] != 0.0 else 0.0
        dear = work < DEAR * face * face * face
        left = decrease_left(gram, gradient, w, penalty)
        if left <= (SLOW * enough if dear else 0.0):
            return True
        if not dear and (sweeps >= SWEEPS or not moved):
            return False


def search_faces(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, enough: float
) -> None:
    """Go from face to face: feature-sign search, when sweeps would move too many coordinates.

    At the minimum of a face, the coordinate that is most wrong in being 0 enters.
    """
    entering = -1
    for _ in range(SEARCH):
        reached = step_on_face(gram, gradient, w, penalty, entering)
        entering = -1
        if reached:
            excess = np.where(w == 0.0, penalty.size(-gradient) - penalty.l1, -1.0)
            entering = int(excess.argmax())
            if excess[entering] <= 0.0 or decrease_left(gram, gradient, w, penalty) <= enough:
                return


@kernel
def sweep(gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, state: Compiled) -> Any:
    """Minimise in as many coordinates as there are, drawn.

    Return the number of changes, and whether a w has become 0 or other than 0.
    """
    changes, moved = 0, False
    for _ in range(w.size):
        j, probability = state.draw_one()
        after = best_in(gram[j, j], gradient[j], w[j], penalty)
        change = after - w[j]
        twice = (gram[j, j] + penalty.l2) * change * change
        state.update_one(j, probability, math.sqrt(math.sqrt(twice)))
        if change != 0.0:
            changes += 1
            moved = moved or after == 0.0 or w[j] == 0.0
            w[j] = after
            line = gram[j]
            for k in range(w.size):
                gradient[k] += change * line[k]
    return changes, moved


@kernel(inline=True)
def best_in(smooth: Any, gradient: Any, w: Any, penalty: Penalty) -> Any:
    """Return the minimum of Q in one w, of curvature `smooth`; 0 for a column of zeros."""
    if smooth <= 0.0:
        return 0.0
    after = soft(smooth * w - gradient, penalty.l1) / (smooth + penalty.l2)
    return max(after, 0.0) if penalty.positive else after


@kernel
def decrease_left(gram: Floats, gradient: Floats, w: Floats, penalty: Penalty) -> Any:
    """Return the sum of the decreases of Q by a step in each coordinate, all from here."""
    total = 0.0
    for j in range(w.size):
        change = best_in(gram[j, j], gradient[j], w[j], penalty) - w[j]
        total += 0.5 * (gram[j, j] + penalty.l2) * change * change
    return total


def step_on_face(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, entering: int = -1
) -> bool:
    """Move to the minimum of Q among points with the zeros and signs of w, or towards it.

    A coordinate that is 0 may enter, with the sign in which Q falls.

    If signs would change on the way, w stops at 0 in these coordinates, and of some points on
    the way the best is taken. Nothing is done if none has a smaller Q.

    Returns
    -------
    bool
        Whether the minimum of the face is reached, as far as it can be.
    """
    pattern = np.sign(w)
    if entering >= 0:
        pattern[entering] = -np.sign(gradient[entering])
    face = np.flatnonzero(pattern)
    if face.size == 0:
        return True
    at, signs = w[face], pattern[face]
    system = gram[np.ix_(face, face)]
    slope = gradient[face] + penalty.l2 * at + penalty.l1 * signs
    system[np.diag_indices(face.size)] += penalty.l2 + RIDGE * system.diagonal()
    scales = 1.0 / np.sqrt(system.diagonal())  # columns may be of any unit
    try:
        step = -scales * np.linalg.solve(scales[:, None] * system * scales, scales * slope)
    except np.linalg.LinAlgError:
        return True
    if not np.isfinite(step).all():
        return True
    zeros = np.full(face.size, np.inf)  # where on the way, in steps, a coordinate is 0
    wrong = (at + step) * signs <= 0.0
    zeros[wrong] = np.abs(at[wrong] / step[wrong])
    stops = np.append(np.sort(zeros[wrong]), 1.0)
    stops = stops[np.unique(np.linspace(0, stops.size - 1, POINTS).astype(np.int64))]
    points = [np.where(zeros <= stop, 0.0, at + stop * step) for stop in stops]
    changes = [point - at for point in points]
    rises = [float(slope @ change + 0.5 * (change @ (system @ change))) for change in changes]
    best = int(np.argmin(rises))
    if not rises[best] < 0.0:
        return True
    change = np.zeros_like(w)
    change[face] = changes[best]
    gradient += gram[: w.size, : w.size] @ change
    w[face] = points[best]
    return not wrong.any()


# --- by columns ---------------------------------------------------------------------------------


class Sums(Record):
    """Sums over all rows."""

    slopes: float = derived("that of p")
    total: float = derived("that of h")
    moved: float = derived("sum_j v_j mean_j", default=0.0)


class ColumnModel(State):
    """The model of an objective on some columns; it is never saved."""

    lines: Rows = derived("the columns, as rows")
    places: Ints = derived("which of them")
    h: Floats = derived("(n,): curvatures")
    t: Floats = derived("(n,): p + h (X v), without the means")
    means: Floats = derived("those of the columns, in h; 0 without an intercept")
    smooth: Floats = derived("(1/n) sum_i h_i (x_ij - mean_j)^2")
    sums: Cell[Sums] = derived("sums over all rows")


def new_model(
    lines: Rows,
    places: Ints,
    h: Floats,
    slopes: Floats,
    means: Floats,
    squares: Floats,
) -> ColumnModel:
    """Return the model at v = 0; `squares` are the sums of h_i x_ij^2."""
    total = float(h.sum())
    smooth = np.maximum(squares - total * means * means, 1e-12 * squares) / h.size
    sums = cell(Sums(slopes=float(slopes.sum()), total=total))
    return ColumnModel(lines, places, h, slopes.copy(), means, smooth, sums)


def minimise_by_columns(
    model: ColumnModel, w: Floats, penalty: Penalty, state: Compiled, enough: float
) -> None:
    """Minimise Q in place, until a sweep decreases it by at most SLOW times `enough`."""
    for _ in range(EPOCHS):
        if sweep_columns(model, w, penalty, state) <= SLOW * enough:
            break


@kernel
def sweep_columns(model: ColumnModel, w: Floats, penalty: Penalty, state: Compiled) -> Any:
    """Minimise in as many coordinates as there are, drawn; return the decrease of Q."""
    n, sums = model.t.size, model.sums[0]
    decrease = 0.0
    for _ in range(w.size):
        c, probability = state.draw_one()
        line, mean, smooth = model.places[c], model.means[c], model.smooth[c]
        product = model.lines.dot(line, model.t)
        gradient = (product - mean * (sums.slopes + sums.total * sums.moved)) / n
        after = best_in(smooth, gradient, w[c], penalty)
        change = after - w[c]
        twice = (smooth + penalty.l2) * change * change
        state.update_one(c, probability, math.sqrt(math.sqrt(twice)))
        if change != 0.0:
            decrease += 0.5 * twice
            w[c] = after
            model.lines.add_scaled(line, change, model.h, model.t)
            sums.moved += change * mean
    return decrease
