"""What one partition does in a round for a loss with kinks: sums over all rows, and a few rows.

Away from its kinks such a loss is linear, so a row that stays on its side of them is known by its
slope alone. A partition returns the sums of the slopes at a point, and the rows that a step is
likely to take across a kink, each drawn with the probability

    pi_i = min(1, c s_i |x_i| / r_i)        r_i: the distance of its inner product from a kink

where c is such that the expected number of rows is the one asked for. The nearest rows come with
certainty, the others thin out with their distance: about as many from r to 2r as from 2r to 4r,
so that steps of every length are seen. In the first round, where the point says nothing yet, pi_i
is in proportion to s_i |x_i|, for a classifier with half of the rows from each side.

Nothing is kept between rounds, so the death of a worker loses nothing but its task.
"""

from typing import Any, NamedTuple

import numpy as np

from tombola.compiling import kernel
from tombola.dask.local import centring_of, draw_key, models_of, targets_of
from tombola.dask.overview import Setting
from tombola.dask.partition import Partition
from tombola.problems.linear import Linear
from tombola.problems.rows import mean_entries
from tombola.samplers.water_filling import choose
from tombola.state import Floats, Ints

__all__ = ["REACHES", "Extract", "NearRows", "Request", "extract"]

REACHES: Floats = 0.5 ** np.arange(8.0)  # the parts of a step at which the objective is evaluated
TOUCHING = 1e-9  # of the mean distance from a kink: nearer rows count as this near
ACROSS = 1e-9  # beyond a kink, relative to z
FULL = 2  # rows for each column, at least


class Request(NamedTuple):
    """What the driver asks of every partition in a round; A outputs are not done yet."""

    round: int
    outputs: Ints  # (A,): their numbers
    starts: Floats  # (A, width): the best solutions so far
    points: Floats  # (A, width): those after a step from there
    widths: Floats  # (A,): around a kink, over which dual variables go from side to side
    rows: Ints  # (A,): how many are wanted of all partitions; 0: none
    most: float  # numbers in the rows of all partitions and outputs


class NearRows(NamedTuple):
    """Rows that were drawn: with a probability of 1 if near a kink, else with less."""

    X: Any  # an array or a CSR matrix
    targets: Floats  # these and the weights are as the problem has them
    weights: Floats
    duals: Floats  # -phi' at the point
    probabilities: Floats


class Extract(NamedTuple):
    """What a partition returns from a round; A outputs. a_i is -phi' at the point."""

    losses: Floats  # (A, reaches): sums of s_i phi where each part of the step ends
    duals: Floats  # (A, 2, d + 1): sums of s_i a_i (x_i, 1) over a_i > 0 and a_i < 0
    conjugates: Floats  # (A, 2): those of s_i phi*(-a_i)
    terms: Floats  # (A,): those of their absolute values
    near: list[NearRows | None]
    visits: int  # rows visited, over outputs


def extract(partition: Partition, number: int, setting: Setting, request: Request) -> Extract:
    """Carry out a round on a partition."""
    n, A, d = partition.X.shape[0], request.outputs.size, setting.mean.size
    found = Extract(
        losses=np.zeros((A, REACHES.size)),
        duals=np.zeros((A, 2, d + 1)),
        conjugates=np.zeros((A, 2)),
        terms=np.zeros(A),
        near=[None] * A,
        visits=0,
    )
    if n == 0 or not targets_of(partition, setting)[1].any():
        return found
    problem, models = models_of(partition, setting, request.outputs)
    lengths = centring_of(problem, setting).lengths + problem.fit_intercept * setting.length
    a, away = np.empty((2, n))
    for at, model in enumerate(models):
        look(
            model, request.starts[at], request.points[at], REACHES, request.widths[at],
            found.losses[at], found.duals[at], found.conjugates[at], found.terms[at : at + 1], a,
            away,
        )  # fmt: skip
        if request.rows[at] == 0:
            continue
        present = np.flatnonzero(model.weights)
        values = model.weights[present] * np.sqrt(lengths[present])
        if request.round == 0:
            values /= balance(model, setting)[present]
        else:
            values /= np.maximum(away, TOUCHING * away.mean() or 1.0)[present]
        if not values.all():
            values += np.finfo(np.float64).tiny + 1e-12 * values.max()  # rows of length 0
        share = float(model.weights.sum()) / setting.n
        count = share * max(float(request.rows[at]), FULL * (d + 1.0))
        count = min(count, share * request.most / (A * (mean_entries(model.rows) + 4.0)))
        key = draw_key(setting.seed, number, request.round, int(request.outputs[at]))
        chosen, probabilities = choose(values, max(round(count), 1), key)
        items = present[chosen]
        found.near[at] = NearRows(
            partition.X[items], model.targets[items], model.weights[items], a[items], probabilities
        )
    return found._replace(visits=n * A)


def balance(model: Any, setting: Setting) -> Floats:
    """Return the weight of all rows of the same class, for each row; 1 for a regression."""
    if setting.classes is None and (np.abs(model.targets) != 1.0).any():
        return np.ones(model.targets.size)
    positive = model.targets > 0
    masses = np.bincount(positive, model.weights, minlength=2)
    return np.asarray(np.maximum(masses, np.finfo(np.float64).tiny)[positive.astype(np.int8)])


@kernel(inline=True)
def between(model: Linear, item: int, z: Any, distance: Any, width: Any) -> Any:
    """Return the dual variable of a row near a kink: between the slopes of both sides.

    The b that maximises -phi*(-b) - b z - width/2 (b - a)^2, with a in the midst of the two.
    """
    across = distance + ACROSS * (1.0 + abs(z))
    middle = -0.5 * (model.slope(item, z + across) + model.slope(item, z - across))
    return model.ascend(item, middle, z, width)


@kernel(releases_gil=True)
def look(
    model: Linear,
    start: Floats,
    point: Floats,
    reaches: Floats,
    width: Any,
    losses: Floats,
    duals: Floats,
    conjugates: Floats,
    terms: Floats,
    a: Floats,
    away: Floats,
) -> None:
    """Pass over all rows: add up an `Extract`; write -phi' at the point, and distances from kinks.

    The inner products at a part t of the step are z_0 + t (z_1 - z_0), and phi(z) is
    -a z - phi*(-a) for a = -phi'(z).
    """
    d = duals.shape[1] - 1
    intercept = model.settings[0].intercept
    for item in range(a.size):
        a[item], away[item] = 0.0, 0.0
        weight = model.weights[item]
        if weight == 0.0:
            continue
        first, last = model.rows.dot(item, start), model.rows.dot(item, point)
        if intercept:
            first += start[d]
            last += point[d]
        for k in range(reaches.size):
            z = last if reaches[k] == 1.0 else first + reaches[k] * (last - first)
            dual = -model.slope(item, z)
            losses[k] -= weight * (dual * z + model.conjugate(item, dual))
        dual, distance = -model.slope(item, last), model.clearance(item, last)
        if distance < width:
            dual = between(model, item, last, distance, width)
        a[item], away[item] = dual, distance
        if dual != 0.0:
            side = 0 if dual > 0.0 else 1
            model.rows.add_row(item, weight * dual, duals[side])
            duals[side, d] += weight * dual
            term = weight * model.conjugate(item, dual)
            conjugates[side] += term
            terms[0] += abs(term)
