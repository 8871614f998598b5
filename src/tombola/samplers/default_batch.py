"""The default rule on batches: learn from many losses in stages.

Loss by loss, an update waits for a dozen divisions and square roots, one after the other. Most of
them can be done for many losses at once, because averages do not depend on weights. The stages, for
up to 128 losses:

    1  normalise the losses                                                        vectorised
    2  after each loss, m, and h and V of its item and of the two items of the sweep
    3  the distances between losses and averages                                   vectorised
    4  D after each loss
    5  the values of all these items                                               vectorised
    6  the weights that follow from them, in order, and the sums of the fallback

Every number results from the same operations as loss by loss, so it is the same to the last bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.index.real import LOW, out_of_range
from tombola.samplers import fallback
from tombola.samplers.arithmetic import normalised, pace
from tombola.samplers.default_rule import (
    TOO_LARGE,
    AveragesRule,
    ParameterFree,
    clipped,
    distance,
    least_mean,
    moved_average,
    moved_mean,
    shrunk_root,
)
from tombola.samplers.weighted import (
    following,
    probability_of,
    put,
    rescale,
    uniform_weight,
    update_in_order,
)
from tombola.state import Floats, Ints

__all__ = ["Staged"]

FEW = 8  # batches smaller than this are learnt from one by one
CHUNK = 128  # losses per chunk: their scratch space fits into the first cache level


class Averages(NamedTuple):
    """What the value of an item follows from, and the value."""

    average: NDArray[np.float64]  # h
    visits: NDArray[np.float64]  # V
    value: NDArray[np.float64]


class Scratch(NamedTuple):
    """The numbers of each loss of a chunk."""

    squared: NDArray[np.float64]
    uniform: NDArray[np.float64]  # l^2 / (n p)
    share: NDArray[np.float64]  # of the newest value in m
    mean: NDArray[np.float64]  # m after the loss
    past: NDArray[np.float64]  # h before the loss
    past_visits: NDArray[np.float64]  # V before the loss
    compared: NDArray[np.float64]  # the number of losses averaged in D, after this one
    distance: NDArray[np.float64]
    disagreement: NDArray[np.float64]  # D after the loss
    item: Averages
    first: Averages  # of the first item of the sweep ...
    second: Averages  # ... and of the second one, after the loss


@kernel(allocates=True)
def learn_in_stages(
    state: ParameterFree, items: Ints, probabilities: Floats, losses: Floats
) -> Any:
    """Learn from a batch; the unit is known, and no loss is too large for it.

    Return how many losses were learnt from: all, unless m becomes so small that a loss may make
    the sampler start over.
    """
    rule, turn, n = state.rule[0], state.sweep[0], state.scores.size
    space = np.empty((18, CHUNK))
    done = 0
    while done < items.size and stays_above(rule, n):
        end = min(done + CHUNK, items.size)
        drawn, chances, scratch = (
            items[done:end],
            probabilities[done:end],
            scratch_of(space, end - done),
        )
        for item in drawn:
            state.fetch(item)
        for item in drawn:
            prefetch(state.index.order, state.index.position[item])
        normalise(losses[done:end], chances, rule.unit, rule.fed, n, scratch)
        absorb_all(state, drawn, scratch)
        measure_distances(scratch)
        follow_disagreement(rule.disagreement, n, scratch)
        for averages in (scratch.item, scratch.first, scratch.second):
            compute_values(averages, scratch.mean, scratch.disagreement, rule.first_root)
        size, within = 0, True
        while size < drawn.size and within:
            item = drawn[size]
            if scratch.past_visits[size] > 0.0:
                candidate = probability_of(state, item, uniform_weight(state))
                fallback.judge(
                    state.fallback[0], scratch.squared[size], n, chances[size], candidate
                )
            put(state, item, scratch.item.value[size])
            put(state, turn.cursor, scratch.first.value[size])
            turn.cursor = following(turn.cursor, n)
            put(state, turn.cursor, scratch.second.value[size])
            turn.cursor = following(turn.cursor, n)
            size += 1
            within = not out_of_range(state.index.sums[0].total, LOW * n)
        rule.fed += size
        rule.mean_square = scratch.mean[size - 1]
        rule.compared = scratch.compared[size - 1]
        rule.disagreement = scratch.disagreement[size - 1]
        if not within:
            # a new scale is computed from all averages: undo what later losses did to them
            for j in range(drawn.size - 1, size - 1, -1):
                state.scores[drawn[j]] = scratch.past[j]
                state.visits[drawn[j]] = scratch.past_visits[j]
            rescale(state)
        done += size
    return done


@kernel(inline=True)
def stays_above(rule: AveragesRule, n: int) -> Any:
    """Return whether m stays above the least one during a chunk, whatever its losses."""
    left = (1.0 - pace(rule.fed, n)) ** CHUNK
    return rule.mean_square * left > 2.0 * least_mean(rule.first_root)


@kernel(allocates=True, inline=True)
def scratch_of(space: Any, m: Any) -> Any:
    """Return the rows of an array as scratch space for m losses."""
    return Scratch(
        space[0, :m],
        space[1, :m],
        space[2, :m],
        space[3, :m],
        space[4, :m],
        space[5, :m],
        space[6, :m],
        space[7, :m],
        space[8, :m],
        Averages(space[9, :m], space[10, :m], space[11, :m]),
        Averages(space[12, :m], space[13, :m], space[14, :m]),
        Averages(space[15, :m], space[16, :m], space[17, :m]),
    )


@kernel
def normalise(
    losses: Floats, probabilities: Floats, unit: Any, fed: Any, n: int, scratch: Scratch
) -> None:
    """Stage 1: l^2, l^2 / (n p), and the share of each loss in m."""
    for j in range(losses.size):
        squared = normalised(losses[j], unit) ** 2
        scratch.squared[j] = squared
        scratch.uniform[j] = squared / (n * probabilities[j])
        scratch.share[j] = pace(fed + j, n)


@kernel(inline=True)
def absorb_all(state: ParameterFree, items: Ints, scratch: Scratch) -> None:
    """Stage 2: update the averages of items, and read those of the sweep, in order."""
    rule, n, scores, visits = state.rule[0], state.scores.size, state.scores, state.visits
    least = least_mean(rule.first_root)
    mean, compared, cursor = rule.mean_square, rule.compared, state.sweep[0].cursor
    for j in range(items.size):
        mean = moved_mean(mean, scratch.uniform[j], scratch.share[j], least)
        scratch.mean[j] = mean
        scratch.squared[j] = clipped(scratch.squared[j], n, mean)
    for j in range(items.size):
        item, squared = items[j], scratch.squared[j]
        past, past_visits = scores[item], visits[item]
        scratch.past[j], scratch.past_visits[j] = past, past_visits
        if past_visits > 0.0 and squared + past > 0.0:
            compared += 1.0
        scratch.compared[j] = compared
        scores[item] = moved_average(past, past_visits, squared)
        visits[item] = past_visits + 1.0
        read(state, item, scratch.item, j)
        read(state, cursor, scratch.first, j)
        cursor = following(cursor, n)
        read(state, cursor, scratch.second, j)
        cursor = following(cursor, n)


@kernel(inline=True)
def read(state: ParameterFree, item: int, averages: Averages, j: Any) -> None:
    """Copy h and V of an item."""
    averages.average[j] = state.scores[item]
    averages.visits[j] = state.visits[item]


@kernel
def measure_distances(scratch: Scratch) -> None:
    """Stage 3: the distance between each loss and the average before it; 0 if both are 0."""
    for j in range(scratch.squared.size):
        squared, past = scratch.squared[j], scratch.past[j]
        scratch.distance[j] = distance(squared, past) if squared + past > 0.0 else 0.0


@kernel(inline=True)
def follow_disagreement(disagreement: Any, n: int, scratch: Scratch) -> None:
    """Stage 4: D after each loss."""
    for j in range(scratch.squared.size):
        if scratch.past_visits[j] > 0.0 and scratch.squared[j] + scratch.past[j] > 0.0:
            share = pace(scratch.compared[j], n)
            disagreement += share * (scratch.distance[j] - disagreement)
        scratch.disagreement[j] = disagreement


@kernel
def compute_values(averages: Averages, mean: Any, disagreement: Any, first_root: Any) -> None:
    """Stage 5: the values of one item of each loss, with m and D after that loss."""
    for j in range(mean.size):
        root = shrunk_root(averages.average[j], averages.visits[j], mean[j], disagreement[j])
        averages.value[j] = root / first_root


@kernel
def learn_many(state: ParameterFree, items: Ints, probabilities: Floats, losses: Floats) -> None:
    """Learn from a batch, in stages if that gives the same result."""
    rule, largest = state.rule[0], 0.0
    for loss in losses:
        largest = max(largest, loss)
    usual = rule.unit > 0.0 and largest * rule.unit <= TOO_LARGE and rule.fade == 1.0
    done = 0
    if usual and items.size >= FEW:
        done = learn_in_stages(state, items, probabilities, losses)
    if done < items.size:
        update_in_order(state, items[done:], probabilities[done:], losses[done:])


class Staged(ParameterFree):
    """The same state, which learns from a batch in stages."""

    update_many = learn_many
