"""What is read from a state is there, of its type and within its range, or the error names it."""

import math

import numpy as np
import pytest

from tombola.archive import CheckpointError
from tombola.entries import LARGEST_COUNT, Entry
from tombola.validation import shown

STATE = {
    "n": 3,
    "rate": 0.5,
    "open": True,
    "class": "Rule",
    "names": ["a", "b"],
    "counts": np.array([1, 2, 3]),
    "table": np.array([[0.0, 1.0], [2.0, 3.0]]),
    "rule": {"epoch": 4},
    "parts": [{"k": 0}, {"k": 1}],
}


def with_(**changes):
    return Entry({**STATE, **changes})


def test_what_is_right_is_returned():
    entry = Entry(STATE)
    entry.exactly("class", "Rule")
    assert (entry.whole("n"), entry.number("rate"), entry.flag("open")) == (3, 0.5, True)
    assert entry.texts("names") == ["a", "b"]
    assert entry.array("counts", np.int64, 3) is STATE["counts"]
    assert entry.array("counts", np.int64, None) is STATE["counts"]
    assert entry.numbers("table", 2, None, least=0.0, most=3.0) is STATE["table"]
    assert entry.entry("rule").whole("epoch") == 4
    assert [part.whole("k") for part in entry.entries("parts")] == [0, 1]


def test_ends_of_ranges():
    assert with_(n=0).whole("n") == 0
    assert with_(n=LARGEST_COUNT).whole("n") == LARGEST_COUNT
    assert with_(n=5).whole("n", 5, 5) == 5
    assert with_(rate=-math.inf).number("rate") == -math.inf
    assert with_(rate=1.0).number("rate", 1.0, 1.0) == 1.0
    for wrong in (-1, LARGEST_COUNT + 1):
        with pytest.raises(CheckpointError, match=f"n must be an integer from 0 to {2**60}, got"):
            with_(n=wrong).whole("n")
    for low, high in ((0.6, 1.0), (0.0, 0.4)):
        with pytest.raises(CheckpointError, match=f"rate must be a float from {low} to {high}"):
            Entry(STATE).number("rate", low, high)


WRONG = [
    (lambda e: e.whole("n"), {"n": True}, "n must be an integer .*, got True of type bool"),
    (lambda e: e.whole("n"), {"n": 3.0}, "n must be an integer .*, got 3.0 of type float"),
    (lambda e: e.whole("n"), {"n": np.int64(3)}, "n must be an integer .* of type int64"),
    (lambda e: e.whole("n"), {"n": np.array(3)}, r"n must be .*, got an array of int64 of shape"),
    (lambda e: e.number("rate"), {"rate": math.nan}, "rate must be a float .*, got nan"),
    (lambda e: e.number("rate"), {"rate": 1}, "rate must be a float .*, got 1 of type int"),
    (lambda e: e.flag("open"), {"open": 1}, "open must be a bool, got 1 of type int"),
    (lambda e: e.exactly("class", "Rule"), {"class": "Role"}, "class must be 'Rule', got 'Role'"),
    (lambda e: e.exactly("class", "Rule"), {"class": np.array(["Rule"] * 2)}, "class must be"),
    (lambda e: e.texts("names"), {"names": "ab"}, "names must be a list of texts, got 'ab'"),
    (lambda e: e.texts("names"), {"names": ["a", 1]}, "names must be a list of texts, got a list"),
    (lambda e: e.texts("names"), {"names": ["\ud800"]}, "names must be a list of texts"),
    (
        lambda e: e.array("counts", np.int64, 4),
        {},
        r"counts must be an array of 4 int64, got an array of int64 of shape \(3,\)",
    ),
    (lambda e: e.array("counts", np.int32, None), {}, "counts must be an array of any int32"),
    (
        lambda e: e.array("counts", np.int64, None, 1),
        {},
        "counts must be an array of any x 1 int64",
    ),
    (lambda e: e.array("counts", np.int64, 2), {"counts": [1, 2]}, "counts .* got a list"),
    (lambda e: e.array("counts", np.int64, 3), {"counts": np.ma.masked_all(3, int)}, "counts"),
    (lambda e: e.numbers("table", 2, 2, most=2.5), {}, r"table\[1, 1\] must be finite and from"),
    (lambda e: e.numbers("table", 2, 2, least=0.5), {}, r"table\[0, 0\] must be .*, got 0.0 of"),
    (lambda e: e.numbers("rate", 1), {"rate": np.array([np.nan])}, r"rate\[0\] must .*, got nan"),
    (lambda e: e.numbers("rate", 1), {"rate": np.array([np.inf])}, r"rate\[0\] must .*, got inf"),
    (lambda e: e.entry("rule"), {"rule": None}, "rule must be a dict, got NoneType"),
    (lambda e: e.entry("rule").get("x"), {}, r"the state is incomplete: it has no rule\.x"),
    (lambda e: e.entries("parts"), {"parts": {}}, "parts must be a list, got a dict"),
    (lambda e: e.entries("parts"), {"parts": [{}, 3]}, r"parts\.1 must be a dict, got int"),
    (lambda e: e.entries("parts")[1].whole("k", 2), {}, r"parts\.1\.k must be an integer from 2"),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_what_is_wrong_is_named(at):
    read, changes, message = WRONG[at]
    with pytest.raises(CheckpointError, match=f"^{message}"):
        read(with_(**changes))


def test_a_rule_for_all_elements_names_the_first_that_breaks_it():
    counts = STATE["counts"]
    Entry(STATE).require("counts", counts > 0, "above 0")
    with pytest.raises(CheckpointError, match=r"^counts\[1\] must be below 2, got 2 of type int"):
        Entry(STATE).require("counts", counts < 2, "below 2")
    with pytest.raises(CheckpointError, match=r"^counts must be rising, got an array"):
        Entry(STATE).require("counts", False, "rising")
    Entry(STATE).require("counts", np.zeros(0, dtype=bool), "anything")


def test_no_state_at_all():
    with pytest.raises(CheckpointError, match="a state must be a dict, got list"):
        Entry([STATE])


def test_whatever_a_state_holds_is_shown_in_few_words():
    endless = []
    for _ in range(60):  # 2^60 lists, if each were visited
        endless = [endless, endless]
    assert shown(endless) == "a list"
    assert shown({"a": endless}) == "a dict"
    assert shown(10**5000) == "one too long to show of type int"
    assert shown(None) == "None of type NoneType"
    assert shown("\n") == r"'\n' of type str"
    assert len(shown("x" * 10**6)) < 60
    assert len(shown(10**100)) < 60
    assert shown(np.zeros((2, 3))) == "an array of float64 of shape (2, 3)"
