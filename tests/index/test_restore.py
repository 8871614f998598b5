"""An index from outside: its weights and order are proved, the rest is derived from them."""

import numpy as np
import pytest

from tombola import Stream, WeightIndex
from tombola.index.layout import (
    HEIGHTS,
    Index,
    build,
    first_fault,
    is_order,
    new_sums,
    order_fault,
    place_type,
    restore,
)

pytestmark = pytest.mark.kernels


def some_index(n=12, seed=1):
    """An index whose order is no longer the one that it was built with."""
    index, stream = WeightIndex(Stream(seed).integers(9, n) + 1), Stream(seed)
    for _ in range(30):
        index.set(stream.integers(n, 2), stream.integers(2000, 2) + 1)
    return index._index


def faults(weights, order, starts=None):
    starts = np.array([0, weights.size]) if starts is None else np.asarray(starts)
    return int(order_fault(weights, order, starts))


def test_positions_and_sums_follow_from_weights_and_order():
    index = some_index()
    assert faults(index.weights, index.order) == -1
    again = Index(new_sums(), index.weights, index.order, np.full_like(index.position, -7))
    restore(again, np.array([0, index.weights.size]))
    assert first_fault(again) == -1
    assert (again.position == index.position).all()
    assert (again.sums == index.sums).all()


def test_parts_of_the_arrays_are_indexes_of_their_own():
    first, second = some_index(5, 1), some_index(7, 2)
    weights = np.concatenate([first.weights, second.weights])
    order = np.concatenate([first.order, second.order])
    starts = np.array([0, 5, 12])
    assert faults(weights, order, starts) == -1
    both = Index(new_sums(2), weights, order, np.empty_like(order))
    restore(both, starts)
    assert (both.position == np.concatenate([first.position, second.position])).all()
    assert both.sums[0] == first.sums[0]
    assert both.sums[1] == second.sums[0]
    order[0] = 5  # an item of the second part
    assert faults(weights, order, starts) == 0


def test_a_fault_at_the_first_place_is_one():
    weights, order = np.array([-1, 3]), np.array([1, 0])
    assert faults(weights, order) == 0
    assert not is_order(weights, order)
    index = Index(new_sums(), weights, order, np.empty_like(order))
    assert "does not match" in index.fault({"weights": weights, "order": order})
    assert is_order(np.array([1, 3]), order)


@pytest.mark.parametrize(
    "damage",
    [
        lambda weights, order: weights.__setitem__(3, -1),
        lambda weights, order: weights.__setitem__(3, 2**62),
        lambda weights, order: weights.__setitem__(slice(None), 0),
        lambda weights, order: order.__setitem__(2, order[1]),
        lambda weights, order: order.__setitem__(2, -1),
        lambda weights, order: order.__setitem__(2, order.size),
        lambda weights, order: order.__setitem__(slice(None), order[::-1].copy()),
    ],
)
def test_what_cannot_be_an_index_is_found(damage):
    index = some_index()
    weights, order = index.weights.copy(), index.order.copy()
    damage(weights, order)
    assert faults(weights, order) >= 0


def test_the_first_fault_reads_nothing_outside():
    index = some_index()
    index.sums[0].at_least[0] = 2**40
    assert first_fault(index) == 0
    for place in (-1, 12):
        index = some_index()
        index.position[3] = place
        assert first_fault(index) == 3
    for weight in (-5, 2**62):
        index = some_index()
        index.weights[4] = weight
        assert first_fault(index) == 4


def test_negative_weights_and_totals_beyond_the_limit_are_found():
    index = some_index(5)
    for place, weight in ((2, -1), (3, 2**62), (4, 2**63 - 1)):
        weights = index.weights.copy()
        weights[place] = weight
        assert faults(weights, index.order) == place
    assert faults(np.array([2**61, 2**61]), np.array([0, 1])) == -1  # the limit itself


def test_building_again_forgets_the_tallest_columns():
    index = WeightIndex([2**62, 0, 0])._index
    index.weights[:] = [3, 2**61, 1]
    build(index)
    assert first_fault(index) == -1
    assert index.sums[0].at_least[63] == 0


def test_a_total_beyond_the_limit_is_found_at_its_item():
    index = WeightIndex([2**61 - 5, 2**61 - 5, 10])._index
    assert first_fault(index) == -1
    index.weights[2] += 6  # of the same height
    index.sums[0].total += 6
    assert first_fault(index) == 2


def test_no_items_are_no_fault():
    WeightIndex([]).verify()
    index = WeightIndex([])._index
    index.sums[0].at_least[0] = -1
    assert first_fault(index) == 0


@pytest.mark.parametrize("weights", [[4, 1], [1, 4], [2, 0, 0], [0, 3, 2]])
def test_the_first_of_two_items_that_have_changed_places_is_found(weights):
    index = WeightIndex(weights)._index
    item, other = index.order[:2]
    index.order[:2] = other, item
    index.position[item], index.position[other] = 1, 0
    assert first_fault(index) == min(item, other)


def test_places_are_narrow_below_2_to_the_31_items():
    assert [place_type(n) for n in (0, 2**31 - 1, 2**31)] == [np.int32, np.int32, np.int64]


def test_items_of_weight_0_are_no_fault():
    index = WeightIndex([0, 5, 0, 1])._index
    assert faults(index.weights, index.order) == first_fault(index) == -1


def test_items_of_weight_0_have_no_column():
    """One of them, since 64-bit sums of two wrong columns could cancel."""
    assert WeightIndex([1, 2, 3, 0])._index.sums[0].area == 1 + 2 + 4


def test_a_wrong_count_of_any_height_is_found():
    for height in range(1, HEIGHTS + 1):
        index = some_index()
        assert first_fault(index) == -1
        index.sums[0].at_least[height] += 1
        assert first_fault(index) >= 0, height


def test_drawing_without_replacement_leaves_every_array_as_it_was():
    """Many items have columns of the same height, within which they move on the way."""
    index = WeightIndex(1 + np.arange(40) % 5)
    before = [array.copy() for array in index._index]
    for _ in range(5):
        assert len(set(index.draw_distinct(30).tolist())) == 30
        for array, then in zip(index._index, before, strict=True):
            assert array.tobytes() == then.tobytes()
