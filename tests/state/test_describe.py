"""What the documentation says of states follows from their declarations."""

import importlib.util

import numpy as np
import pytest
from numpy.typing import NDArray

import players
import tombola
from pages import ROOT, tables
from states import leaves
from tombola.state import (
    Cell,
    Document,
    Floats,
    Record,
    State,
    array,
    count,
    derived,
    exactly,
    flag,
    integer,
    listed,
    mapping,
    nested,
    number,
    optional,
    real,
    text,
    variant,
)
from tombola.state.describe import describe


class Turn(Record):
    place: int = integer("the next place", 0, "items.size - 1")
    words: np.uint64 = count("words used")
    key: NDArray[np.uint64] = derived("the seed")
    open: bool = flag("whether it goes on")


class Cards(State):
    items: np.ndarray = array("the order", 0, "items.size - 1")
    turn: Cell[Turn]


class Player(State):
    stream: Cell[Turn] = derived("random words")
    cards: Cards
    scores: Floats = array("of each item", -1.0, 2.0**40)


class Longer(Player):
    least: float = derived("the smallest")
    wild: Cards = derived("another one")


class Step(Document):
    at: int = count("where")


class Leap(Document):
    height: float = real("how high")


class Walk(Document):
    version: int = exactly(2, "of the format")
    title: str = text("a name", ["a", "b"])
    note: str = text("anything")
    first: Step = nested("the first one", Step)
    last: Step | None = optional(nested("the last one", Step))
    steps: list[Step] = listed("all of them", Step)
    names: list[str] = listed("theirs", text("a name"))
    more: dict[str, int] = mapping("what others read")
    named: dict[str, Step] = mapping("by name", nested("one", Step))
    either: Step | Leap = variant("one of two", "of", {"step": Step, "leap": Leap})
    limit: float | None = optional(real("the most", 0.0, 1.0))
    side: str | None = optional(text("which", ["left", "right"]))
    size: float = number("of the file", 0, 9)
    sizes: NDArray[np.float32] = array("of each", dtype=np.float32)
    n: int = derived("how many")


def test_rows_of_a_state():
    assert [tuple(row) for row in describe(Longer)] == [
        ("stream", "Turn", "not saved", "random words"),
        ("cards.items", "array", "0 to items.size - 1", "the order"),
        ("cards.turn.place", "integer", "0 to items.size - 1", "the next place"),
        ("cards.turn.words", "integer", "0 to 2^60", "words used"),
        ("cards.turn.key", "array of uint64", "not saved", "the seed"),
        ("cards.turn.open", "bool", "", "whether it goes on"),
        ("scores", "array of float64", "-1 to 2^40", "of each item"),
        ("least", "float", "not saved", "the smallest"),
        ("wild", Cards.__name__, "not saved", "another one"),
    ]


def test_rows_of_a_document():
    assert [tuple(row) for row in describe(Walk, "it")] == [
        ("it.version", "constant", "2", "of the format"),
        ("it.title", "text", "a, b", "a name"),
        ("it.note", "text", "", "anything"),
        ("it.first", "Step", "", "the first one"),
        ("it.first.at", "integer", "0 to 2^60", "where"),
        ("it.last", "Step or None", "", "the last one"),
        ("it.last.at", "integer", "0 to 2^60", "where"),
        ("it.steps", "list of Step", "", "all of them"),
        ("it.steps.k.at", "integer", "0 to 2^60", "where"),
        ("it.names", "list of text", "", "theirs"),
        ("it.more", "dict", "", "what others read"),
        ("it.named", "dict", "", "by name"),
        ("it.named.k.at", "integer", "0 to 2^60", "where"),
        ("it.either", "Step or Leap", "", "one of two"),
        ("it.either.at", "integer", "0 to 2^60", "where"),
        ("it.either.height", "float", "0 to 1.8e308", "how high"),
        ("it.limit", "float or None", "0 to 1", "the most"),
        ("it.side", "text or None", "left, right", "which"),
        ("it.size", "number", "0 to 9", "of the file"),
        ("it.sizes", "array of float32", "finite", "of each"),
        ("it.n", "integer", "not saved", "how many"),
    ]


def test_a_part_that_is_not_declared_is_a_mistake():
    class Undeclared(State):
        scores: Floats

    with pytest.raises(TypeError, match=r"Undeclared\w*\.scores is not declared"):
        describe(Undeclared)


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("written_states", ROOT / "docs" / "states.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_declarations(script, monkeypatch):
    text = script.PAGE.read_text()
    assert text == script.written(), "run `python docs/states.py`"
    rows = list(tables(text))
    assert all(cell for row in rows for cell in row.values())
    mixing = {"field": "`rule.mixing`", "type": "float", "range": "2^-60 to 1",
              "meaning": "theta, the share of uniform draws"}  # fmt: skip
    assert mixing in rows
    monkeypatch.setattr(
        tombola.samplers.algorithm_1.PrintedRule.declared["due"], "meaning", "changed"
    )
    assert text != script.written()


def test_every_sampler_has_a_table(script):
    kinds = set(script.STATES["`parts` of each sampler"].values())
    assert kinds == {type(make(1).state) for make in players.SAMPLERS.values()}
    assert {type(make(1)).__name__ for make in players.SAMPLERS.values()} == {
        name for name in tombola.samplers.__all__ if name != "Sampler"
    }


@pytest.mark.parametrize("name", players.SAMPLERS)
def test_rows_are_the_entries_of_saved_states(name):
    sampler = players.SAMPLERS[name](1)
    rows = {row.name for row in describe(type(sampler.state)) if row.range != "not saved"}
    assert rows == set(leaves(sampler.state_dict()["parts"]))
