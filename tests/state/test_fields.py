"""What each kind of field accepts and refuses, and the sentence that says so."""

import math

import numpy as np
import pytest

from tombola.state import (
    LARGEST_COUNT,
    CheckpointError,
    Document,
    Record,
    Scope,
    array,
    cell,
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
from tombola.state.fields import Field, require
from tombola.validation import shown

MOST = 1.7976931348623157e308


class Part(Document):
    k: int = count("a number")


class Other(Document):
    of: str = exactly("other", "of which kind it is")


class Open(Part):
    open_ended = True


SCOPE = Scope({"n": 3, "rate": 0.5, "shape": (2, 3)})
FLOATS = array("numbers", dtype=np.float64, shape=(None,))
COUNTS = array("counts", 0, "n", dtype=np.int64, shape=("n",))
TABLE = array("a table", -1.0, 9.5, dtype=np.float64, shape=(2, None))


def ints(*values):
    return np.array(values, dtype=np.int64)


RIGHT = [
    (count("x"), 0),
    (count("x"), LARGEST_COUNT),
    (count("x", least=1), 1),
    (integer("x", -5, 5), -5),
    (integer("x", 5, 5), 5),
    (integer("x", 0, "n - 1"), 2),
    (integer("x", "n", "n"), 3),
    (real("x"), 0.0),
    (real("x"), MOST),
    (real("x", -MOST), -MOST),
    (real("x", 0.0, "rate"), 0.5),
    (real("x", 0.0, math.inf), math.inf),
    (flag("x"), True),
    (flag("x"), False),
    (text("x"), ""),
    (text("x"), "é\n"),
    (text("x", ["a", "b"]), "b"),
    (exactly(3, "x"), 3),
    (exactly("Rule", "x"), "Rule"),
    (exactly(None, "x"), None),
    (FLOATS, np.zeros(0)),
    (FLOATS, np.array([-MOST, MOST])),
    (COUNTS, ints(0, 3, 1)),
    (TABLE, np.array([[-1.0, 9.5], [0.0, 1.0]])),
    (TABLE, np.zeros((2, 0))),
    (mapping("x"), {"anything": None}),
    (listed("x", text("y")), []),
    (listed("x", text("y")), ["a", "b"]),
    (listed("x", count("y"), length="n"), [1, 2, 3]),
    (number("x"), 3),
    (number("x"), -MOST),
    (number("x", 0, "rate"), 0.5),
    (optional(count("x")), None),
    (optional(count("x")), 3),
    (mapping("x", count("y")), {}),
    (mapping("x", count("y")), {"a": 3, "b": 4}),
    (array("x", shape="shape"), np.zeros((2, 3))),
    (array("x", shape=None), np.zeros((1, 2, 3))),
    (array("x", 0.0, 1.0), np.ones(3)),
]


@pytest.mark.parametrize(("field", "value"), RIGHT)
def test_what_is_right_is_returned(field, value):
    read = field.read(value, "it", SCOPE)
    assert type(read) is type(value)
    assert np.array_equal(read, value) if isinstance(value, np.ndarray) else read == value


TO_COUNT = r"an integer from 0 to 2\^60"
WRONG = [
    (count("x"), -1, rf"it must be {TO_COUNT}, got -1 of type int"),
    (count("x"), 2**60 + 1, rf"it must be {TO_COUNT}, got 1152921504606846977 of type int"),
    (count("x"), 10**5000, rf"it must be {TO_COUNT}, got one too long to show of type int"),
    (count("x"), True, rf"it must be {TO_COUNT}, got True of type bool"),
    (count("x"), 3.0, rf"it must be {TO_COUNT}, got 3.0 of type float"),
    (count("x"), "3", rf"it must be {TO_COUNT}, got '3' of type str"),
    (count("x"), None, rf"it must be {TO_COUNT}, got None of type NoneType"),
    (count("x"), np.array(3), rf"it must be {TO_COUNT}, got an array of int64 of shape \(\)"),
    (count("x"), np.int64(3), rf"it must be {TO_COUNT}, got .*3.* of type int64"),
    (integer("x", 0, "n - 1"), 3, "it must be an integer from 0 to 2, got 3 of type int"),
    (integer("x", "n", 9), 2, "it must be an integer from 3 to 9, got 2 of type int"),
    (real("x"), -5e-324, "it must be a float from 0 to 1.8e308, got -5e-324 of type float"),
    (real("x"), math.inf, "it must be a float from 0 to 1.8e308, got inf of type float"),
    (real("x"), math.nan, "it must be a float from 0 to 1.8e308, got nan of type float"),
    (real("x", 0.0, "rate"), 0.6, "it must be a float from 0 to 0.5, got 0.6 of type float"),
    (real("x"), 1, "it must be a float .*, got 1 of type int"),
    (real("x"), np.float64(1), "it must be a float .* of type float64"),
    (real("x"), 1j, "it must be a float .*, got a complex"),
    (flag("x"), 1, "it must be a bool, got 1 of type int"),
    (flag("x"), np.True_, r"it must be a bool, got .*True.* of type bool"),
    (text("x"), 3, "it must be a text, got 3 of type int"),
    (text("x"), b"a", "it must be a text, got a bytes"),
    (text("x"), "\ud800", "it must be a text, got "),
    (text("x", ["a", "b"]), "c", "it must be one of a, b, got 'c' of type str"),
    (exactly(3, "x"), 4, "it must be 3, got 4 of type int"),
    (exactly(3, "x"), 3.0, "it must be 3, got 3.0 of type float"),
    (exactly(1, "x"), True, "it must be 1, got True of type bool"),
    (exactly("a", "x"), np.array(["a"] * 2), "it must be 'a', got an array of <U1 of shape"),
    (FLOATS, [0.0], "it must be an array of any float64, got a list"),
    (FLOATS, ints(1), r"it must be an array of any float64, got an array of int64 of shape \(1,\)"),
    (FLOATS, np.zeros(1, dtype=">f8"), "it must be an array of any float64, got an array of >f8"),
    (FLOATS, np.zeros(1, dtype=np.float32), "it must be an array of any float64, got .* float32"),
    (FLOATS, np.ma.zeros(2), r"it must be an array of any float64, got a MaskedArray of float64"),
    (FLOATS, np.array(1.0), r"it must be an array of any float64, got .* of shape \(\)"),
    (FLOATS, np.zeros((1, 1)), r"it must be an array of any float64, got .* of shape \(1, 1\)"),
    (FLOATS, np.array([0.0, np.nan]), r"it\[1\] must be from .* to .*, got nan of type float"),
    (FLOATS, np.array([-np.inf]), r"it\[0\] must be from -1.8e308 to .*, got -inf"),
    (COUNTS, ints(0, 1), r"it must be an array of 3 int64, got an array of int64 of shape \(2,\)"),
    (COUNTS, ints(0, 4, 0), r"it\[1\] must be from 0 to 3, got 4 of type int"),
    (COUNTS, ints(0, 0, -1), r"it\[2\] must be from 0 to 3, got -1 of type int"),
    (TABLE, np.zeros((3, 1)), r"it must be an array of 2 x any float64, got .* \(3, 1\)"),
    (TABLE, np.array([[0.0], [9.6]]), r"it\[1, 0\] must be from -1 to 9.5, got 9.6 of type float"),
    (mapping("x"), [], "it must be a dict, got a list"),
    (nested("x", Part), None, "it must be a dict, got None of type NoneType"),
    (nested("x", Part), {"k": -1}, r"it\.k must be an integer from 0 .*, got -1"),
    (nested("x", Part), {}, r"the state is incomplete: it has no it\.k"),
    (nested("x", Part), {"k": 1, "l": 2}, "it has an unknown entry 'l'"),
    (listed("x", Part), {}, "it must be a list, got a dict"),
    (listed("x", Part), ({"k": 1},), "it must be a list, got a tuple"),
    (listed("x", Part), [{"k": 1}, 3], r"it\.1 must be a dict, got 3 of type int"),
    (listed("x", Part), [{"k": 1}, {"k": -1}], r"it\.1\.k must be an integer from 0 .*, got -1"),
    (listed("x", text("y")), ["a", 1], r"it\.1 must be a text, got 1 of type int"),
    (listed("x", count("y"), length="n"), [1], "it must be a list of 3, got a list"),
    (number("x"), math.inf, "it must be a number from -1.8e308 to .*, got inf"),
    (number("x"), math.nan, "it must be a number from .*, got nan"),
    (number("x"), 10**400, "it must be a number from .*, got 1000"),
    (number("x"), True, "it must be a number from .*, got True"),
    (number("x", 0, "n"), 4, "it must be a number from 0 to 3, got 4"),
    (optional(count("x")), -1, rf"it must be {TO_COUNT}, got -1"),
    (optional(count("x")), False, rf"it must be {TO_COUNT}, got False"),
    (mapping("x", count("y")), [], "it must be a dict, got a list"),
    (mapping("x", count("y")), {"a": 3, "b": -4}, rf"it\.b must be {TO_COUNT}, got -4"),
    (mapping("x", count("y")), {10**5000: 3}, "it must be a dict with texts as keys, got a dict"),
    (variant("x", "of", {"other": Other}), {"of": "some"}, r"it\.of must be one of other, got 'so"),
    (variant("x", "of", {"other": Other}), {"of": []}, r"it\.of must be one of other, got a list"),
    (variant("x", "of", {"other": Other}), {}, r"the state is incomplete: it has no it\.of"),
    (variant("x", "of", {"other": Other}), {"of": "other", "k": 1}, "it has an unknown entry 'k'"),
    (variant("x", "of", {"other": Other}), 3, "it must be a dict, got 3"),
    (array("x", shape="shape"), np.zeros((2, 2)), r"it must be an array of 2 x 3 float64, got"),
    (array("x", shape=None), [1.0], "it must be an array of float64, got a list"),
    (array("x"), np.zeros((2, 2)), "it must be an array of any float64, got"),
]


@pytest.mark.parametrize(("field", "value", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_named(field, value, message):
    with pytest.raises(CheckpointError, match=f"^{message}"):
        field.read(value, "it", SCOPE)


def test_an_array_of_anything():
    """Without a range, also NaN; a live array gives type and shape."""
    anything = array("x", None, None)
    live = np.zeros((2, 1), dtype=np.float32)
    given = np.array([[np.nan], [np.inf]], dtype=np.float32)
    assert anything.read(given, "it", SCOPE, live) is given
    for odd in (given.T, given.astype(float), given.tolist()):
        with pytest.raises(CheckpointError, match="it must be an array of 2 x 1 float32, got"):
            anything.read(odd, "it", SCOPE, live)


def test_values_are_written_as_files_hold_them():
    numbers = np.zeros(3)
    written = FLOATS.write(numbers)
    assert written is not numbers
    assert written.tolist() == [0.0] * 3
    assert nested("x", Part).write(Part(k=3)) == {"k": 3}
    assert optional(nested("x", Part)).write(None) is None
    assert listed("x", Part).write([Part(k=3), Part(k=4)]) == [{"k": 3}, {"k": 4}]
    assert listed("x", text("y")).write(["a"]) == ["a"]
    assert count("x").write(3) == 3


def test_one_of_several_classes():
    field = variant("x", "of", {"other": Other})
    assert isinstance(field.read({"of": "other"}, "it", SCOPE), Other)
    assert field.write(Other()) == {"of": "other"}


def test_further_entries_where_a_class_allows_them():
    assert nested("x", Open).read({"k": 3, "more": None}, "it", SCOPE).to_dict() == {"k": 3}


def test_an_optional_value_may_be_absent():
    field = optional(nested("x", Part))
    assert field.read(None, "it", SCOPE) is None
    assert field.read({"k": 3}, "it", SCOPE).k == 3
    with pytest.raises(CheckpointError, match="it must be a dict, got 3"):
        field.read(3, "it", SCOPE)


def test_a_rule_for_all_elements_names_the_first_that_breaks_it():
    counts = ints(1, 2, 3)
    require(counts > 0, "counts", "above 0", counts)
    with pytest.raises(CheckpointError, match=r"^counts\[1\] must be below 2, got 2 of type int"):
        require(counts < 2, "counts", "below 2", counts)
    with pytest.raises(CheckpointError, match=r"^counts must be rising, got an array"):
        require(False, "counts", "rising", counts)
    require(np.zeros(0, dtype=bool), "counts", "anything", counts)


# --- where ranges find their names ----------------------------------------------------------------


class Rule(Record):
    least: int = count("a number")


class Live:
    n, scores, rule = 7, np.zeros(4), cell(Rule(least=2))


def test_names_are_looked_up_inside_then_in_the_live_state_then_outside():
    outer = Scope({"n": 1, "far": {"away": 9}}, Live)
    scope = Scope({"block": 5, "arrays": {"items": np.zeros(6)}}, Live, outer)
    for end, expected in [
        ("block", 5), ("block - 1", 4), ("n", 7), ("scores.size", 4), ("scores.size - 1", 3),
        ("arrays.items.size - 2", 4), ("far.away", 9), ("rule.least", 2), (2.5, 2.5),
    ]:  # fmt: skip
        assert scope.number(end) == expected
        assert type(scope.number(end)) in (int, float)
    assert Scope({"n": np.int64(3)}).number("n") == Scope({"n": np.array(3)}).number("n") == 3


def test_a_range_that_names_nothing_is_a_mistake_of_the_declaration():
    with pytest.raises(LookupError, match=r"a declared range names size\.of, which does not exist"):
        integer("x", 0, "size.of").read(1, "it", SCOPE)


# --- what the documentation says ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (count("x"), "0 to 2^60"),
        (integer("x", 0, "n - 1"), "0 to n - 1"),
        (integer("x", -5, 2**62), "-5 to 2^62"),
        (integer("x", 0, 2**20), "0 to 2^20"),
        (integer("x", 0, 1024), "0 to 1024"),
        (real("x"), "0 to 1.8e308"),
        (real("x", -MOST), "finite"),
        (real("x", 2.0**-60, 1.0), "2^-60 to 1"),
        (real("x", -(2.0**990), 2.0**990), "-2^990 to 2^990"),
        (real("x", 0.0, math.inf), "0 to inf"),
        (flag("x"), ""),
        (derived("x"), "not saved"),
        (array("x", None, None), ""),
    ],
)
def test_ranges_in_words(field, words):
    assert field.range == words


def test_what_is_derived_is_not_saved():
    assert derived("x").saved is False
    assert Field("x").saved is True


# --- errors ---------------------------------------------------------------------------------------


def test_errors_are_one_line_that_ends():
    error = CheckpointError("odd\x1b[2J\n" + "y" * 10**6)
    assert str(error).isprintable()
    assert len(str(error)) < 6000
    assert isinstance(error, ValueError)


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
    assert shown(np.ma.zeros(2)) == "a MaskedArray of float64 of shape (2,)"
