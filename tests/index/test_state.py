"""The state of an index: saved, loaded, and refused if it is not one."""

import numpy as np
import pytest

from tombola import Stream, WeightIndex
from tombola.state import CheckpointError

pytestmark = pytest.mark.kernels


def test_the_order_of_items_of_weight_zero_is_kept():
    index = WeightIndex([4, 4, 4, 4])
    index.set([2, 0, 3, 1], [0, 0, 0, 0])
    other = WeightIndex.from_state_dict(index.state_dict())
    index.set([0, 1, 2, 3], [1, 1, 1, 1])
    other.set([0, 1, 2, 3], [1, 1, 1, 1])
    np.testing.assert_array_equal(index.draw(50, Stream(1)), other.draw(50, Stream(1)))


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
    np.testing.assert_array_equal(index.weights, [9, 2, 1])
    index.verify()
