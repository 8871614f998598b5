"""Records: numbers with declared types and ranges, which kernels change in place."""

import copy
import pickle

import numpy as np
import pytest

from tombola.compiling import kernel
from tombola.state import (
    CheckpointError,
    Ints,
    Record,
    Scope,
    array,
    cell,
    count,
    derived,
    flag,
    integer,
    real,
    side_by_side,
)

pytestmark = pytest.mark.kernels


class Block(Record):
    length: int = derived("draws in a block")
    left: int = integer("draws left", 0, "length", default=0)
    used: int = integer("of them used", 0, "left", default=0)
    level: float = real("of all losses", -1.0, 1.0, default=0.0)
    open: bool = flag("whether it is open", default=True)
    position: np.uint64 = integer("words used", 0, 2**60, default=np.uint64(0))
    shares: Ints = array("of two halves", 0, "total")


def block():
    return cell(Block(length=10, left=4, shares=np.array([1, 2])))


SAVED = {"left": 4, "used": 0, "level": 0.0, "open": True, "position": 0, "shares": [1, 2]}
OUTER = Scope({"total": 5})


def with_(**changes):
    return {**SAVED, "shares": np.array([1, 2]), **changes}


def test_types_follow_from_annotations():
    made = block()
    assert made.shape == (1,)
    assert [made.dtype[name] for name in ("left", "level", "open", "position")] == [
        np.int64, np.float64, np.bool_, np.uint64
    ]  # fmt: skip
    assert made.dtype["shares"].shape == (2,)
    assert made[0].length == 10
    assert made.dtype is block().dtype  # kernels are compiled for it once


@kernel
def spend(record):
    record.left -= 1
    record.level += 0.25


def test_kernels_change_them():
    made = block()
    spend(made[0])
    assert (made[0].left, made[0].level) == (3, 0.25)


def test_saved_and_loaded():
    made = block()
    saved = Block.saved(made)
    assert saved.keys() == SAVED.keys()
    assert {key: np.asarray(value).tolist() for key, value in saved.items()} == SAVED
    kinds = {key: type(value) for key, value in saved.items()}
    assert kinds == {"left": int, "used": int, "level": float, "open": bool, "position": int,
                     "shares": np.ndarray}  # fmt: skip
    made[0].shares[0] = 9
    assert saved["shares"].tolist() == [1, 2]  # a copy
    Block.check(made, saved, "block", OUTER)
    Block.load(made, saved)
    assert made.tobytes() == block().tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": 11}, "block.left must be an integer from 0 to 10, got 11"),
        ({"left": 3, "used": 4}, "block.used must be an integer from 0 to 3, got 4"),
        ({"left": -1}, "block.left must be an integer from 0"),
        ({"left": 4.0}, "block.left must be an integer .*, got 4.0 of type float"),
        ({"left": 10**400}, "block.left must be an integer from 0 to 10, got 1000"),
        ({"level": float("nan")}, "block.level must be a float from -1 to 1, got nan"),
        ({"level": 0}, "block.level must be a float from -1 to 1, got 0 of type int"),
        ({"open": 1}, "block.open must be a bool, got 1"),
        ({"position": -1}, "block.position must be an integer from 0"),
        ({"position": 2**64}, "block.position must be an integer from 0"),
        ({"shares": np.array([1, 6])}, r"block.shares\[1\] must be from 0 to 5, got 6"),
        ({"shares": np.array([1])}, "block.shares must be an array of 2 int64, got"),
        ({"shares": [1, 2]}, "block.shares must be an array of 2 int64, got a list"),
        ({"length": 10}, "block has an unknown entry 'length'"),
        ({"left": np.array([4])}, r"block.left must be an integer .*, got an array"),
        ({"left": np.array(4, dtype=np.int32)}, "block.left must be an integer .*, got an array"),
        ({"left": np.array(4, dtype=">i8")}, "block.left must be an integer .*, got an array"),
        ({"left": np.array(4.0)}, "block.left must be an integer .*, got an array"),
        ({"left": np.array(11)}, "block.left must be an integer from 0 to 10, got 11"),
        ({"left": np.ma.masked}, "block.left must be an integer .*, got a MaskedConstant"),
        ({"level": np.float32(0.5)}, "block.level must be a float .* of type float32"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    made = block()
    with pytest.raises(CheckpointError, match=f"^{message}"):
        Block.check(made, with_(**change), "block", OUTER)
    assert made.tobytes() == block().tobytes()


def test_ends_of_ranges():
    for change in ({"left": 0}, {"left": 10}, {"left": 10, "used": 10}, {"level": -1.0},
                   {"level": 1.0}, {"position": 2**60}):  # fmt: skip
        Block.check(block(), with_(**change), "block", OUTER)


@pytest.mark.parametrize("number", [np.array(7), np.int64(7)])
def test_a_number_may_be_one_of_numpy_of_its_type(number):
    made = block()
    saved = with_(left=number, used=np.array(7))
    Block.check(made, saved, "block", OUTER)
    Block.load(made, saved)
    assert (made[0].left, made[0].used) == (7, 7)
    with pytest.raises(CheckpointError, match="used must be an integer from 0 to 7, got 8"):
        Block.check(made, with_(left=number, used=np.array(8)), "", OUTER)


@pytest.mark.parametrize("key", SAVED)
def test_every_number_must_be_there(key):
    saved = with_()
    del saved[key]
    with pytest.raises(CheckpointError, match=f"^the state is incomplete: it has no block.{key}$"):
        Block.check(block(), saved, "block", OUTER)


@pytest.mark.parametrize("odd", [None, 3, [], np.zeros(1), "text"])
def test_what_is_no_dict(odd):
    with pytest.raises(CheckpointError, match=r"^block must be a dict, got"):
        Block.check(block(), odd, "block", OUTER)


def test_what_is_not_saved_may_follow_from_what_is():
    class Halves(Record):
        whole: int = count("both", default=0)
        half: float = derived("half of it", default=0.0)

        @classmethod
        def restore(cls, records):
            records[0].half = records[0].whole / 2

    made = cell(Halves())
    Halves.load(made, {"whole": 9})
    assert made[0].half == 4.5
    assert Halves.saved(made) == {"whole": 9}


@pytest.mark.parametrize("name", ["size", "shape", "sort", "max", "item", "T"])
def test_names_that_numpy_uses_are_refused(name):
    kind = type("Odd", (Record,), {"__annotations__": {name: int}, name: count("odd", default=0)})
    with pytest.raises(ValueError, match=f"a record cannot have a field '{name}': numpy uses that"):
        cell(kind())


def test_numbers_must_be_given_unless_they_have_a_default():
    with pytest.raises(TypeError, match="Block needs length"):
        Block(shares=np.zeros(2, dtype=np.int64))
    with pytest.raises(TypeError, match="Block has no field 'lenght'"):
        Block(lenght=3, length=3, shares=np.zeros(2, dtype=np.int64))


def test_arrays_side_by_side_begin_at_a_cache_line_and_are_zero():
    for n in (1, 3, 1000):
        arrays = side_by_side(n, weight=np.int64, score=np.float64, visits=np.float32)
        assert min(array.ctypes.data for array in arrays.values()) % 64 == 0
        assert not any(array.any() for array in arrays.values())


def test_cells_can_be_pickled_and_copied():
    made = block()
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other.dtype == made.dtype
        assert type(other[0]) is type(made[0])
        other[0].left += 3
        assert (other[0].left, made[0].left) == (7, 4)
