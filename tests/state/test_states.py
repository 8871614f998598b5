"""States: declared parts, inherited and nested; checked in full before anything is loaded."""

import numpy as np
import pytest

from states import same
from tombola.compiling import kernel
from tombola.state import (
    Arrays,
    Cell,
    CheckpointError,
    Floats,
    Ints,
    Record,
    State,
    array,
    cell,
    count,
    derived,
    integer,
)

pytestmark = pytest.mark.kernels


class Turn(Record):
    place: int = integer("the next place", 0, "items.size - 1", default=0)
    card: int = integer("an item", 0, "scores.size - 1", default=0)


class Cards(State):
    items: Ints = array("the order", 0, "scores.size - 1")
    turn: Cell[Turn]


class Base(State):
    """A state within, a record, an array, and two parts that are not saved."""

    scratch: Floats = derived("space")
    cards: Cards
    scores: Floats = array("of each item", 0.0, 9.0)

    def total(self):
        return self.scores.sum()


class Sums(Record):
    count: int = count("losses", default=0)


class Player(Base):
    """Adds parts, and replaces the range of one."""

    sums: Cell[Sums]
    scores: Floats = array("of each item, higher", 0.0, 99.0)
    doubled: Floats = derived("twice the scores")

    def fault(self, saved):
        unlike = saved["sums"]["count"] > 0 and not saved["scores"].any()
        return "scores must not be 0 after losses" if unlike else ""

    def restore(self):
        self.doubled[:] = 2 * self.scores


def player():
    cards = Cards(items=np.array([2, 0, 1, 0]), turn=cell(Turn()))
    return Player(
        scratch=np.zeros(2), cards=cards, scores=np.array([1.0, 2.0, 3.0]), sums=cell(Sums()),
        doubled=np.zeros(3),
    )  # fmt: skip


def test_parts_are_inherited_in_order():
    assert Base._fields == ("scratch", "cards", "scores")
    assert Player._fields == ("scratch", "cards", "scores", "sums", "doubled")
    state = player()
    assert isinstance(state, tuple)
    assert state[2] is state.scores
    assert list(state._asdict()) == list(Player._fields)
    assert Base.parts["scores"].most == 9.0
    assert Player.parts["scores"].most == 99.0


@kernel
def use(state):
    state.scores[0] += 1.0
    return state.total()


def test_kernels_call_methods_of_the_base():
    assert use(player()) == 7.0


def test_saved_parts_are_copies():
    state = player()
    saved = state.saved()
    assert saved.keys() == {"cards", "scores", "sums"}
    assert saved["cards"].keys() == {"items", "turn"}
    assert saved["cards"]["turn"] == {"place": 0, "card": 0}
    state.scores[0] = 7.0
    assert saved["scores"].tolist() == [1.0, 2.0, 3.0]


def test_saved_and_loaded():
    state, other = player(), player()
    state.scores[:] = 4.0, 99.0, 0.0
    state.sums[0].count = 3
    state.cards.turn[0].place = 3
    saved = state.saved()
    other.check(saved)
    other.load(saved)
    assert same(other.saved(), saved)
    assert other.doubled.tolist() == [8.0, 198.0, 0.0]


def test_arrays_side_by_side_are_saved_apart():
    both = np.zeros(3, dtype=[("a", np.float64), ("b", np.int64)])
    state = player()._asdict() | {"scores": both["a"]}
    assert Player(**state).saved()["scores"].flags.c_contiguous


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("scores", np.array([1.0, np.nan, 1.0]), r"scores\[1\] must be from 0 to 99, got nan"),
        ("scores", np.array([1.0, 1.0, 99.5]), r"scores\[2\] must be from 0 to 99, got 99.5"),
        ("scores", np.zeros(4), "scores must be an array of 3 float64, got an array"),
        ("scores", [1.0, 2.0, 3.0], "scores must be an array of 3 float64, got a list"),
        ("scores", np.zeros(3, dtype=">f8"), "scores must be an array of 3 float64, got"),
        ("scores", np.ma.zeros(3), "scores must be an array of 3 float64, got a MaskedArray"),
        ("scores", None, "scores must be an array of 3 float64, got None"),
        ("scores", np.zeros((3, 1)), "scores must be an array of 3 float64, got"),
        ("cards", None, "cards must be a dict, got None"),
        ("cards.items", np.array([0, 1, 2, 3]), r"cards.items\[3\] must be from 0 to 2, got 3"),
        ("cards.items", np.array([0, 1, 2]), "cards.items must be an array of 4 int64"),
        ("cards.turn", 3, "cards.turn must be a dict, got 3"),
        ("cards.turn.place", 4, "cards.turn.place must be an integer from 0 to 3, got 4"),
        ("cards.turn.card", 3, "cards.turn.card must be an integer from 0 to 2, got 3"),
        ("cards.turn.more", 3, "cards.turn has an unknown entry 'more'"),
        ("cards.more", 3, "cards has an unknown entry 'more'"),
        ("more", 3, "the state has an unknown entry 'more'"),
        ("scratch", np.zeros(2), "the state has an unknown entry 'scratch'"),
        ("sums.count", True, "sums.count must be an integer"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_loaded(path, value, message):
    state = player()
    saved, before = state.saved(), state.saved()
    *around, last = path.split(".")
    inner = saved
    for key in around:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(CheckpointError, match=f"^{message}"):
        state.check(saved)
    with pytest.raises(CheckpointError, match=r"\bit\b"):
        state.check(saved, "it")
    assert same(state.saved(), before)


def test_ranges_name_parts_that_have_been_read_or_are_live():
    """`cards` comes before `scores`, of which anything may be saved."""
    for odd in (None, "text", 3, {"size": 99}, np.zeros(99)):
        saved = player().saved() | {"scores": odd}
        with pytest.raises(CheckpointError, match=r"^scores must be an array of 3 float64"):
            player().check(saved)


def test_relations_are_checked_last():
    state = player()
    saved = state.saved() | {"sums": {"count": 1}, "scores": np.zeros(3)}
    with pytest.raises(CheckpointError, match=r"^scores must not be 0 after losses$"):
        state.check(saved)
    with pytest.raises(CheckpointError, match=r"^it: scores must not be 0 after losses$"):
        state.check(saved, "it")
    saved["cards"]["turn"]["place"] = -1
    with pytest.raises(CheckpointError, match=r"^cards\.turn\.place"):
        state.check(saved)


@pytest.mark.parametrize("path", ["cards", "scores", "sums", "cards.turn", "cards.turn.place"])
def test_every_part_must_be_there(path):
    saved = inner = player().saved()
    *around, last = path.split(".")
    for key in around:
        inner = inner[key]
    del inner[last]
    with pytest.raises(CheckpointError, match=f"^the state is incomplete: it has no {path}$"):
        player().check(saved)


@pytest.mark.parametrize("odd", [None, 3, [], "text", np.zeros(3)])
def test_what_is_no_dict(odd):
    with pytest.raises(CheckpointError, match=r"^a state must be a dict, got"):
        player().check(odd)


def test_a_part_that_is_not_declared_is_a_mistake():
    class Undeclared(State):
        scores: Floats

    state = Undeclared(scores=np.zeros(3))
    for use_it in (state.saved, lambda: state.check({}), lambda: state.load({})):
        with pytest.raises(TypeError, match=r"Undeclared\w*\.scores is not declared"):
            use_it()


def test_parts_are_given_once_and_by_name():
    with pytest.raises(TypeError, match="turn"):
        Cards(items=np.zeros(3, dtype=np.int64))
    with pytest.raises(TypeError, match="place"):
        Cards(items=np.zeros(3, dtype=np.int64), turn=cell(Turn()), place=3)
    with pytest.raises(AttributeError, match="scors"):
        player().scors  # noqa: B018
    with pytest.raises(AttributeError):
        player().scores = np.zeros(3)


def test_plain_arrays_by_name():
    live = {"a": np.zeros(3), "b": np.zeros((2, 1), dtype=np.int32)}
    good = {"a": np.array([1.0, np.nan, np.inf]), "b": np.ones((2, 1), dtype=np.int32)}
    arrays = Arrays(live)
    arrays.check(good)
    for change, message in (
        ({"a": [0.0] * 3}, "a must be an array of 3 float64, got a list"),
        ({"b": np.ones((2, 1))}, "b must be an array of 2 x 1 int32, got an array of float64"),
        ({"c": 1}, "the state has an unknown entry 'c'"),
    ):
        with pytest.raises(CheckpointError, match=f"^{message}"):
            arrays.check(good | change)
    with pytest.raises(CheckpointError, match=r"^the state is incomplete: it has no b$"):
        arrays.check({"a": good["a"]})
    with pytest.raises(CheckpointError, match=r"^a state must be a dict, got a list"):
        arrays.check([])
    arrays.load(good)
    saved = arrays.saved()
    live["a"][0] = 5.0
    np.testing.assert_array_equal(saved["a"], good["a"])
    np.testing.assert_array_equal(saved["b"], good["b"])


def test_a_state_outside_of_the_package_is_named_by_its_source():
    # else machine code of an earlier version of the class would be found in the cache
    class Own(State):
        counts: np.ndarray = array("how often each item was drawn", 0, 2**60)

    first, _, digest = Own.__name__.partition("_")
    assert first == "Own"
    assert len(digest) == 12
