"""The state of an index: saved, loaded, and refused if it is not one."""

import numpy as np
import pytest

from tombola import WeightIndex
from tombola.state import CheckpointError

pytestmark = pytest.mark.kernels


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in {**one, **other})


def test_the_order_of_items_of_weight_zero_is_kept():
    index = WeightIndex([4, 4, 4, 4])
    index.set([2, 0, 3, 1], [0, 0, 0, 0])
    other = WeightIndex.from_state_dict(index.state_dict())
    index.set([0, 1, 2, 3], [1, 1, 1, 1])
    other.set([0, 1, 2, 3], [1, 1, 1, 1])
    assert index.draw(50) == other.draw(50)


ORDER = "its order does not match its weights"


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("order", np.array([1, 0, 2], dtype=np.int32), ORDER),  # the first place is wrong
        ("order", np.array([0, 0, 1], dtype=np.int32), ORDER),
        ("order", np.array([0, 1], dtype=np.int32), "order must be an array of 3 int32"),
        ("order", np.array([0, 1, 2]), "order must be an array of 3 int32"),
        ("order", np.array([0, 1, 3], dtype=np.int32), r"order\[2\] must be from 0 to 2"),
        ("weights", np.array([9, 2, -1]), r"weights\[2\] must be from 0 to"),
        ("weights", np.array([2**62, 2**62, 1]), ORDER),
        ("weights", np.array([9.0, 2.0, 1.0]), "weights must be an array of any int64"),
        ("weights", np.ones((3, 1), dtype=np.int64), "weights must be an array of any int64"),
        ("total", 12, "unknown entry 'total'"),
        ("seed", 2**128, "seed must be an integer from 0 to"),
        ("position", -1, "position must be an integer from 0 to"),
        ("rounds", 0.5, "rounds must be an integer from 0 to"),
        ("exponent", 3, "weights must be an array of any float64"),
    ],
)
def test_what_is_not_an_index_is_refused(entry, value, message):
    index = WeightIndex([9, 2, 1])
    state = index.state_dict()
    assert state["order"].tolist() == [0, 1, 2]
    with pytest.raises(CheckpointError, match=message):
        index.load_state_dict({**state, entry: value})
    zeros = {**state, "weights": np.zeros(3, dtype=np.int64), "order": state["order"][:2]}
    with pytest.raises(CheckpointError, match="order must"):
        index.load_state_dict(zeros)
    assert same(index.state_dict(), state)
    np.testing.assert_array_equal(index.weights, [9, 2, 1])
    index.verify()


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("order", np.array([1, 0, 2], dtype=np.int32), "order does not match weights and exponent"),
        ("weights", np.array([9, 2, 1]), "weights must be an array of any float64"),
        ("weights", np.array([0.9, np.nan, 0.1]), r"weights\[1\] must be from 0 to"),
        ("weights", np.array([0.9, 0.2, np.inf]), r"weights\[2\] must be from 0 to"),
        ("exponent", 62, "order does not match weights and exponent"),  # the total is above 2^62
        ("exponent", 1201, "exponent must be an integer from -1010 to 1200"),
        ("exponent", None, "weights must be an array of any int64"),
    ],
)
def test_what_is_not_an_index_of_real_weights_is_refused(entry, value, message):
    index = WeightIndex([0.9, 0.25, 0.125])
    state = index.state_dict()
    with pytest.raises(CheckpointError, match=message):
        index.load_state_dict({**state, entry: value})
    assert same(index.state_dict(), state)


def test_a_scale_that_is_too_coarse_is_replaced_at_the_next_draw():
    """A crafted state may have any scale: draws are still by weight."""
    index = WeightIndex([0.9, 0.25, 0.125])
    state = index.state_dict()
    index.load_state_dict({**state, "exponent": -1010})
    assert index._index.weights.tolist() == [1, 1, 1]
    assert set(index.draw(50).probabilities) == {0.9 / 1.275, 0.25 / 1.275, 0.125 / 1.275}


def test_an_index_takes_a_state_of_the_other_kind():
    real, whole = WeightIndex([0.5, 1.5]), WeightIndex([7], seed=3)
    real.draw(3)
    state = real.state_dict()
    whole.load_state_dict(state)
    assert whole.seed == 0
    assert whole.draw(5) == real.draw(5)
    real.load_state_dict(WeightIndex([1, 2, 3]).state_dict())
    assert real.total == 6
