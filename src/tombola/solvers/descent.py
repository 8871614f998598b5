"""The step that SGD, AdaGrad, SAGA and SVRG share, on linear models.

With B items drawn, u_b = 1 / (n p_b) their importances and y_i the slopes on file for item i
(none for SGD and AdaGrad; from the item's last visit for SAGA, from the last snapshot for SVRG):

    g = (1/B) sum_b u_b (grad_b(w) - grad_b(y)) + mean_i grad_i(y)       unbiased
    w_j <- prox(w_j - rate_j g_j)                                        for every coordinate j

where prox is exact for the regulariser: v -> soft(v, rate l1) / (1 + rate l2). Fed back is the
norm of what was multiplied by the importance: |grad_b(w) - grad_b(y)|.

With sparse rows, and many columns, only those of the rows drawn are touched. The others coast:
what the regulariser and the mean of y do to a column in all the rounds since it was last touched
has a closed form, and is made up for when a row needs the column again. SGD without l1 has it
easier, with rows of any kind: all columns shrink alike, so w is kept as a multiple of one number.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.problems.linear import LinearProblem, item_slopes, slopes
from tombola.problems.rows import Sparse, add_row, column, dot, end, first
from tombola.solvers.closed_form import coast, soft

__all__ = ["Descent", "catch_up"]

# Layout of `clock`. ROUND and GRADIENTS come first in the clock of every solver.
ROUND = 0  # rounds done
GRADIENTS = 1  # item gradients computed
SCHEDULE = 2  # how the rate goes, below
LAZY = 3  # 1 where columns coast
MEAN = 4  # 0, or the power of t that the iterates are averaged with, and one more
SNAPSHOT = 5  # rounds between two snapshots (SVRG); 0: none
ON_FILE = 6  # 1 where slopes are on file
REFILE = 7  # 1 where the slopes of items drawn are filed (SAGA)
EARLIER = 8  # rounds on other items before these, which count for rates that fall
SCALED = 9  # 1 where columns are kept as multiples of SHRUNK

CONSTANT, ROOT, STRONG, NORM, DIAGONAL = 0, 1, 2, 3, 4

# Layout of `numbers`.
RATE = 0
CONVEXITY = 1  # mu, for the rate 2 / (mu t)
RADIUS = 2  # of the ball around 0 that w stays in; infinite: none
SQUARES = 3  # sum of |g|^2, for the norm version of AdaGrad
SHRUNK = (
    4  # product of 1 / (1 + rate l2) since the last time that all columns were brought up to date;
)
# where SCALED, the columns are SHRUNK times what w holds
CUT = 5  # sum of (rate l1) / (SHRUNK before the round), since then
LOSSES = 6  # sum over the rounds of (1/B) sum_b u_b s_b phi_b: estimates of the mean loss

WIDE = 16  # columns coast where there are so many times more than entries in a row
TINY = 2.0**-300  # SHRUNK below this brings all columns up to date


class Descent(NamedTuple):
    """Problem, iterate and scratch space, as one argument for the kernels."""

    items: NDArray[np.int64]  # drawn: B of them
    chances: NDArray[np.float64]
    importances: NDArray[np.float64]
    losses: NDArray[np.float64]  # to be fed back
    clock: NDArray[np.int64]
    numbers: NDArray[np.float64]
    model: Any
    w: NDArray[np.float64]  # (outputs, width)
    mean: NDArray[np.float64]  # average of the iterates; of size 0 where not wanted
    squares: NDArray[np.float64]  # AdaGrad: sum of g_j^2
    table: NDArray[np.float64]  # (n, outputs): slopes on file
    drift: NDArray[np.float64]  # mean_i grad_i(y)
    last: NDArray[np.int64]  # of each column: the round that it was touched in
    shrunk: NDArray[np.float64]  # SHRUNK and CUT of that round
    cut: NDArray[np.float64]
    g: NDArray[np.float64]  # scratch: the estimate; zero between rounds
    touched: NDArray[np.int64]  # scratch: columns of the rows drawn
    slopes: NDArray[np.float64]  # scratch (B, outputs)
    z: NDArray[np.float64]  # scratch (outputs,)

    @staticmethod
    def step(run: Any) -> Any:
        """Take one step with the items drawn; return the first one of bad gradient, or -1."""
        return step_linear(run)


def new_descent(
    problem: LinearProblem,
    w: NDArray[np.float64],
    batch_size: int,
    *,
    schedule: int,
    rate: float,
    convexity: float = 0.0,
    radius: float = math.inf,
    average: int = 0,
    snapshot: int = 0,
    refile: bool = False,
) -> Descent:
    """Return the state before the first round."""
    outputs, width = w.shape
    rows = problem.model.rows
    few = isinstance(rows, Sparse) and rows.values.size / problem.n * WIDE < problem.d
    filed = refile or snapshot > 0
    plain = not average and math.isinf(radius)
    alike = schedule in (CONSTANT, ROOT, STRONG) and not filed and problem.l1 == 0
    scaled = plain and alike
    lazy = plain and few and not scaled
    columns = problem.d if lazy else 0
    run = Descent(
        items=np.zeros(batch_size, dtype=np.int64),
        chances=np.ones(batch_size),
        importances=np.ones(batch_size),
        losses=np.zeros(batch_size),
        clock=np.zeros(10, dtype=np.int64),
        numbers=np.zeros(7),
        model=problem.model,
        w=w,
        mean=np.zeros((outputs, width if average else 0)),
        squares=np.zeros((outputs, width if schedule == DIAGONAL else 0)),
        table=np.zeros((problem.n if filed else 0, outputs)),
        drift=np.zeros((outputs, width if filed else 0)),
        last=np.zeros(columns, dtype=np.int64),
        shrunk=np.ones(columns),
        cut=np.zeros(columns),
        g=np.zeros((outputs, width)),
        touched=np.zeros(columns, dtype=np.int64),
        slopes=np.zeros((batch_size, outputs)),
        z=np.zeros(outputs),
    )
    run.clock[[SCHEDULE, LAZY, SCALED, MEAN]] = schedule, lazy, scaled, average
    run.clock[[SNAPSHOT, ON_FILE, REFILE]] = snapshot, filed, refile
    run.numbers[[RATE, CONVEXITY, RADIUS, SHRUNK]] = rate, convexity, radius, 1.0
    if refile:
        take_snapshot(run)
    return run


@kernel(inline=True)
def step_linear(run: Descent) -> Any:
    """Take one step with the items drawn; return the first one of bad gradient, or -1."""
    clock, model, w = run.clock, run.model, run.w
    batch, outputs = run.slopes.shape
    if clock[SCALED]:
        return step_scaled(run)
    if clock[SNAPSHOT] > 0 and clock[ROUND] % clock[SNAPSHOT] == 0:
        take_snapshot(run)
    clock[ROUND] += 1
    clock[GRADIENTS] += batch
    touched = 0
    for b in range(batch):
        item = run.items[b]
        if clock[LAZY]:
            touched = reach(run, item, touched)
        loss = item_slopes(model, w, item, run.z, run.slopes[b])
        run.numbers[LOSSES] += run.importances[b] / batch * loss
        squared = 0.0
        for k in range(outputs):
            change = run.slopes[b, k] - (run.table[item, k] if clock[ON_FILE] else 0.0)
            squared += change * change
            change *= run.importances[b] / batch
            add_row(model.rows, item, change, run.g[k])
            if model.intercept[0]:
                run.g[k, w.shape[1] - 1] += change
        run.losses[b] = math.sqrt(squared) * model.norms[item]
        if not run.losses[b] < math.inf:
            return b
    if clock[MEAN]:
        average(run)
    move(run, touched)
    if clock[REFILE]:
        refile(run)
    return -1


@kernel(inline=True)
def step_scaled(run: Descent) -> Any:
    """Take the same step where w is kept as a multiple of SHRUNK: O(entries of the rows drawn).

    w = S v:  w - rate g = S (v - rate / S g), then S <- S / (1 + rate l2)
    """
    clock, numbers, model, w = run.clock, run.numbers, run.model, run.w
    batch, outputs = run.slopes.shape
    last = w.shape[1] - 1
    free = model.intercept[0]
    clock[ROUND] += 1
    clock[GRADIENTS] += batch
    for b in range(batch):
        item = run.items[b]
        for k in range(outputs):
            run.z[k] = numbers[SHRUNK] * dot(model.rows, item, w[k])
            if free:
                run.z[k] += w[k, last]
        weight = model.weights[item]
        loss = weight * slopes(model, item, run.z, run.slopes[b])
        numbers[LOSSES] += run.importances[b] / batch * loss
        squared = 0.0
        for k in range(outputs):
            run.slopes[b, k] *= weight
            squared += run.slopes[b, k] * run.slopes[b, k]
        run.losses[b] = math.sqrt(squared) * model.norms[item]
        if not run.losses[b] < math.inf:
            return b
    rate = rate_now(run, 0)
    for b in range(batch):
        for k in range(outputs):
            amount = rate * run.importances[b] / batch * run.slopes[b, k]
            add_row(model.rows, run.items[b], -amount / numbers[SHRUNK], w[k])
            if free:
                w[k, last] -= amount
    numbers[SHRUNK] /= 1.0 + rate * model.penalties[1]
    if numbers[SHRUNK] < TINY:
        for k in range(outputs):
            for j in range(w.shape[1] - free):
                w[k, j] *= numbers[SHRUNK]
        numbers[SHRUNK] = 1.0
    return -1


# --- the move ---------------------------------------------------------------------------------


@kernel(inline=True)
def move(run: Descent, touched: Any) -> None:
    """Set w to prox(w - rate g), in all columns or in those touched, and g to zero."""
    clock, numbers, w, g = run.clock, run.numbers, run.w, run.g
    outputs, width = w.shape
    free = run.model.intercept[0]
    if clock[ON_FILE]:
        add_drift(run, touched)
    rate = rate_now(run, touched)
    l1, l2 = run.model.penalties[0], run.model.penalties[1]
    if clock[LAZY]:
        if clock[SCHEDULE] != DIAGONAL:
            numbers[CUT] += rate * l1 / numbers[SHRUNK]
            numbers[SHRUNK] /= 1.0 + rate * l2
        for c in range(touched):
            j = run.touched[c]
            for k in range(outputs):
                if clock[SCHEDULE] == DIAGONAL:
                    run.squares[k, j] += g[k, j] * g[k, j]
                    w[k, j] = scaled_prox(
                        w[k, j], g[k, j], math.sqrt(run.squares[k, j]), rate, l1, l2
                    )
                else:
                    w[k, j] = soft(w[k, j] - rate * g[k, j], rate * l1) / (1.0 + rate * l2)
                g[k, j] = 0.0
            run.shrunk[j], run.cut[j] = numbers[SHRUNK], numbers[CUT]
        if numbers[SHRUNK] < TINY:
            catch_up_all(run)
    else:
        for k in range(outputs):
            if clock[SCHEDULE] == DIAGONAL:
                move_scaled(w[k], g[k], run.squares[k], width - free, rate, l1, l2)
            else:
                move_plain(w[k], g[k], width - free, rate, l1, l2)
    if free:
        for k in range(outputs):
            j = width - 1
            if clock[SCHEDULE] == DIAGONAL:
                run.squares[k, j] += g[k, j] * g[k, j]
                w[k, j] = scaled_prox(
                    w[k, j], g[k, j], math.sqrt(run.squares[k, j]), rate, 0.0, 0.0
                )
            else:
                w[k, j] -= rate * g[k, j]
            g[k, j] = 0.0
    if numbers[RADIUS] < math.inf:
        project(w, numbers[RADIUS])


@kernel(inline=True)
def scaled_prox(w: Any, g: Any, root: Any, rate: Any, l1: Any, l2: Any) -> Any:
    """Take one step of rate / root: written so that there is one division, and none by 0."""
    return soft(w * root - rate * g, rate * l1) / (root + rate * l2) if root > 0.0 else w


@kernel(fast=True)
def move_plain(w: Any, g: Any, columns: Any, rate: Any, l1: Any, l2: Any) -> None:
    """Set w to prox(w - rate g), one rate for all columns."""
    shrink = 1.0 / (1.0 + rate * l2)
    if l1 > 0.0:
        for j in range(columns):
            w[j] = soft(w[j] - rate * g[j], rate * l1) * shrink
            g[j] = 0.0
    else:
        for j in range(columns):
            w[j] = (w[j] - rate * g[j]) * shrink
            g[j] = 0.0


@kernel(fast=True)
def move_scaled(w: Any, g: Any, squares: Any, columns: Any, rate: Any, l1: Any, l2: Any) -> None:
    """Set w to prox(w - rate / sqrt(sum g^2) g), a rate for each column."""
    if l1 > 0.0:
        for j in range(columns):
            squares[j] += g[j] * g[j]
            w[j] = scaled_prox(w[j], g[j], math.sqrt(squares[j]), rate, l1, l2)
            g[j] = 0.0
    else:
        for j in range(columns):
            squares[j] += g[j] * g[j]
            root = math.sqrt(squares[j])
            w[j] = (w[j] * root - rate * g[j]) / (root + rate * l2) if root > 0.0 else w[j]
            g[j] = 0.0


@kernel(inline=True)
def add_drift(run: Descent, touched: Any) -> None:
    """Add mean_i grad_i(y) to g, where g is used."""
    outputs, width = run.w.shape
    for k in range(outputs):
        if run.clock[LAZY]:
            for c in range(touched):
                j = run.touched[c]
                run.g[k, j] += run.drift[k, j]
            if run.model.intercept[0]:
                run.g[k, width - 1] += run.drift[k, width - 1]
        else:
            for j in range(width):
                run.g[k, j] += run.drift[k, j]


@kernel(inline=True)
def rate_now(run: Descent, touched: Any) -> Any:
    """Return the rate of this round."""
    clock, numbers = run.clock, run.numbers
    if clock[SCHEDULE] == ROOT:
        return numbers[RATE] / math.sqrt(clock[EARLIER] + clock[ROUND])
    if clock[SCHEDULE] == STRONG:
        return 2.0 / (numbers[CONVEXITY] * (clock[EARLIER] + clock[ROUND]))
    if clock[SCHEDULE] == NORM:
        numbers[SQUARES] += squared_length(run, touched)
        return numbers[RATE] / math.sqrt(numbers[SQUARES]) if numbers[SQUARES] > 0.0 else 0.0
    return numbers[RATE]


@kernel(inline=True)
def squared_length(run: Descent, touched: Any) -> Any:
    """Return |g|^2."""
    g, total = run.g, 0.0
    outputs, width = g.shape
    for k in range(outputs):
        if run.clock[LAZY]:
            for c in range(touched):
                total += g[k, run.touched[c]] ** 2
            if run.model.intercept[0]:
                total += g[k, width - 1] ** 2
        else:
            for j in range(width):
                total += g[k, j] ** 2
    return total


@kernel
def project(w: Any, radius: Any) -> None:
    """Bring w back to the ball of this radius around 0, intercept included."""
    total = 0.0
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            total += w[k, j] * w[k, j]
    if total > radius * radius:
        factor = radius / math.sqrt(total)
        for k in range(w.shape[0]):
            for j in range(w.shape[1]):
                w[k, j] *= factor


@kernel(inline=True)
def average(run: Descent) -> None:
    """Take w_t, where g_t is from, into the mean: all alike (MEAN 1) or weighted by t (MEAN 2)."""
    kind, t = run.clock[MEAN], run.clock[ROUND]
    share = kind / (t + kind - 1.0)
    for k in range(run.w.shape[0]):
        for j in range(run.w.shape[1]):
            run.mean[k, j] += share * (run.w[k, j] - run.mean[k, j])


# --- slopes on file: SAGA and SVRG --------------------------------------------------------------


@kernel(inline=True)
def refile(run: Descent) -> None:
    """y_i <- slopes of the items drawn, and the mean with them; an item drawn twice counts once."""
    batch, outputs = run.slopes.shape
    n = run.table.shape[0]
    for b in range(batch):
        item = run.items[b]
        for k in range(outputs):
            change = (run.slopes[b, k] - run.table[item, k]) / n
            run.table[item, k] = run.slopes[b, k]
            add_row(run.model.rows, item, change, run.drift[k])
            if run.model.intercept[0]:
                run.drift[k, run.w.shape[1] - 1] += change


@kernel
def take_snapshot(run: Descent) -> None:
    """File the slopes of all items, and the mean of their gradients."""
    if run.clock[LAZY]:
        catch_up_all(run)
    outputs, width = run.w.shape
    n = run.table.shape[0]
    run.clock[GRADIENTS] += n
    for k in range(outputs):
        for j in range(width):
            run.drift[k, j] = 0.0
    for item in range(n):
        item_slopes(run.model, run.w, item, run.z, run.table[item])
        for k in range(outputs):
            change = run.table[item, k] / n
            add_row(run.model.rows, item, change, run.drift[k])
            if run.model.intercept[0]:
                run.drift[k, width - 1] += change


# --- columns that coast -------------------------------------------------------------------------


@kernel(inline=True)
def reach(run: Any, item: Any, touched: Any) -> Any:
    """Bring the columns of a row up to date, add them to those touched, return how many."""
    t, rows = run.clock[ROUND], run.model.rows
    for c in range(first(rows, item), end(rows, item)):
        j = column(rows, c)
        if run.last[j] != t:
            for k in range(run.w.shape[0]):
                run.w[k, j] = caught_up(run, k, j, t - 1)
            run.last[j] = t
            run.touched[touched] = j
            touched += 1
    return touched


@kernel(inline=True)
def caught_up(run: Any, k: Any, j: Any, now: Any) -> Any:
    """Return w[k, j] as it is after round `now`, untouched since it last was."""
    l1, l2 = run.model.penalties[0], run.model.penalties[1]
    numbers, schedule, v = run.numbers, run.clock[SCHEDULE], run.w[k, j]
    rounds = now - run.last[j]
    if run.clock[ON_FILE]:
        rate = numbers[RATE]
        return coast(v, rounds, rate * run.drift[k, j], rate * l1, 1.0 / (1.0 + rate * l2))
    if schedule == DIAGONAL:
        if run.squares[k, j] == 0.0 or rounds == 0:
            return v
        rate = numbers[RATE] / math.sqrt(run.squares[k, j])
        return coast(v, rounds, 0.0, rate * l1, 1.0 / (1.0 + rate * l2))
    # v -> c_s soft(v, a_s) for s after s0: (P / P0) soft(v, P0 (Q - Q0)), with P the product
    # of the c_s and Q the sum of a_s / (P before s)
    return soft(v, run.shrunk[j] * (numbers[CUT] - run.cut[j])) * (numbers[SHRUNK] / run.shrunk[j])


@kernel
def catch_up(run: Descent, out: NDArray[np.float64]) -> None:
    """Write the present iterate, every column up to date; the run is left as it is."""
    outputs, width = run.w.shape
    for k in range(outputs):
        for j in range(width):
            out[k, j] = run.w[k, j]
        if run.clock[SCALED]:
            for j in range(width - run.model.intercept[0]):
                out[k, j] *= run.numbers[SHRUNK]
        for j in range(run.last.size):
            out[k, j] = caught_up(run, k, j, run.clock[ROUND])


@kernel
def catch_up_all(run: Descent) -> None:
    """Bring every column up to date, and count from there."""
    for j in range(run.last.size):
        for k in range(run.w.shape[0]):
            run.w[k, j] = caught_up(run, k, j, run.clock[ROUND])
        run.last[j] = run.clock[ROUND]
        run.shrunk[j], run.cut[j] = 1.0, 0.0
    run.numbers[SHRUNK], run.numbers[CUT] = 1.0, 0.0
