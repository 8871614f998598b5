"""Minimise a quadratic with an l1 penalty, from its matrix: sweeps, and steps on faces.

    Q(w) = w G w / 2 - c w + l2/2 |w|^2 + l1 |w|_1                       (w >= 0 if `positive`)

Sweeps of coordinate descent find which w are 0 and the signs of the others: a face, on which Q is
a plain quadratic. Its minimum is the solution of a linear system; where signs would change on the
way there, the step ends at a smaller face. With the right face, one step is exact, whatever the
condition of G.

Where as many columns matter as there are rows, sweeps move too many coordinates for that, and the
search goes on from face to face, one coordinate at a time.

Sweeps draw their coordinates: in the same order each time they take up to ten times as many.
"""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.samplers.compiled import Compiled
from tombola.solvers.lasso.screening import Penalty
from tombola.solvers.proximal import soft
from tombola.state import Floats

__all__ = ["minimise_quadratic"]

SWEEPS = 8  # before each step on a face, at least; more where the step is dear
DEAR = 0.1  # a step on a face of s coordinates takes the time of DEAR s^3 changes of a gradient
ROUNDS = 5  # of sweeps and steps, before one coordinate enters at a time
SEARCH = 1000  # steps with one coordinate at a time, at most
FACES = 20  # steps on ever smaller faces between sweeps, at most
POINTS = 12  # on the way to the minimum of a face
SLOW = 0.01  # where sweeps are slow, what is left to gain by another says less
RIDGE = 1e-12  # of its diagonal: added to the system of a face


def minimise_quadratic(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, state: Compiled, enough: float
) -> None:
    """Minimise Q in place; `gradient` is G w - c, before and after.

    It ends when steps in all coordinates, each from here, would decrease Q by at most `enough`
    after a step on a face; by SLOW times that where such a step is dear.

    Parameters
    ----------
    gram, gradient, w : ndarray
        G is the first rows and columns of `gram`, as many as w has entries.
    penalty : Penalty
    state : Compiled
        Of a sampler over the entries of w.
    enough : float
    """
    for _ in range(ROUNDS):
        work, sweeps = 0.0, 0
        while True:
            changes, moved = sweep(gram, gradient, w, penalty, state)
            work, sweeps = work + changes * w.size, sweeps + 1
            dear = work < DEAR * float(np.count_nonzero(w)) ** 3
            left = decrease_left(gram, gradient, w, penalty)
            if left <= (SLOW * enough if dear else 0.0):
                return
            if not dear and (sweeps >= SWEEPS or not moved):
                break
        reached = any(step_on_face(gram, gradient, w, penalty) for _ in range(FACES))
        if reached and decrease_left(gram, gradient, w, penalty) <= enough:
            return
    search_faces(gram, gradient, w, penalty, enough)


def search_faces(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, enough: float
) -> None:
    """Go from face to face: feature-sign search, where sweeps would move too many coordinates.

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
        after = best_in(gram, gradient, w, penalty, j)
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
def best_in(gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, j: int) -> Any:
    """Return the minimum of Q in w_j; 0 for a column of zeros."""
    smooth = gram[j, j]
    if smooth <= 0.0:
        return 0.0
    after = soft(smooth * w[j] - gradient[j], penalty.l1) / (smooth + penalty.l2)
    return max(after, 0.0) if penalty.positive else after


@kernel
def decrease_left(gram: Floats, gradient: Floats, w: Floats, penalty: Penalty) -> Any:
    """Return the sum of the decreases of Q by a step in each coordinate, all from here."""
    total = 0.0
    for j in range(w.size):
        change = best_in(gram, gradient, w, penalty, j) - w[j]
        total += 0.5 * (gram[j, j] + penalty.l2) * change * change
    return total


def step_on_face(
    gram: Floats, gradient: Floats, w: Floats, penalty: Penalty, entering: int = -1
) -> bool:
    """Move to the minimum of Q among points with the zeros and signs of w, or towards it.

    A coordinate that is 0 may enter, with the sign in which Q falls.

    Where signs would change on the way, w stops at 0 in these coordinates, and of some points on
    the way the best is taken. Nothing is done where none has a smaller Q.

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
