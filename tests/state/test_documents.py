"""Documents: to a plain dict and back, every entry checked; relations, nesting, inheritance."""

from types import MappingProxyType

import numpy as np
import pytest

from tombola.state import (
    CheckpointError,
    Document,
    Floats,
    archive,
    array,
    body_of,
    count,
    derived,
    exactly,
    integer,
    listed,
    nested,
    optional,
    real,
    same,
    text,
)
from tombola.state.archive import File


class Step(Document):
    at: int = integer("where", 0, "n - 1")
    size: float = real("how far", 0.0, 1.0)


class Walk(Document):
    """Fields whose ranges name others, and two that must fit together."""

    version: int = exactly(2, "of the format")
    n: int = count("places")
    next: int = integer("the next place", 0, "n - 1")
    heights: Floats = array("of each place", 0.0, "top", dtype=np.float64, shape=("n",))
    steps: list[Step] = listed("made so far", Step, length="made")
    last: Step | None = optional(nested("the last one", Step))
    made: int = derived("steps made")
    title: str = text("a name", ["a", "b"])

    def fault(self, scope):
        far = self.last is not None and self.last.at != scope.find("home")
        return "the walk must end at home" if far else ""


def walk(**changes):
    steps = [{"at": 0, "size": 0.5}, {"at": 2, "size": 1.0}]
    return {
        "version": 2, "n": 3, "next": 1, "heights": np.array([0.0, 1.0, 5.0]), "steps": steps,
        "last": steps[1], "title": "b", **changes,
    }  # fmt: skip


def read(value, name=""):
    return Walk.read(value, name, made=2, top=5.0, home=2)


def test_to_a_dict_and_back():
    made = read(walk())
    assert (made.n, made.next, made.made, made.title, made.version) == (3, 1, 2, "b", 2)
    assert [step.at for step in made.steps] == [0, 2]
    assert made.last.size == 1.0
    again = made.to_dict()
    assert again.keys() == walk().keys()
    assert again["steps"] == walk()["steps"]
    assert again["heights"].tolist() == [0.0, 1.0, 5.0]
    assert again["heights"] is not made.heights
    assert read(again).to_dict()["last"] == {"at": 2, "size": 1.0}
    assert read(walk(last=None)).to_dict()["last"] is None
    assert read(MappingProxyType(walk())).n == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "version must be 2, got 1 of type int"),
        ({"n": -1}, "n must be an integer from 0"),
        ({"n": 1}, "next must be an integer from 0 to 0, got 1"),
        ({"next": 3}, "next must be an integer from 0 to 2, got 3"),
        ({"heights": np.zeros(2)}, "heights must be an array of 3 float64"),
        ({"heights": np.full(3, 5.5)}, r"heights\[0\] must be from 0 to 5, got 5.5"),
        ({"steps": []}, "steps must be a list of 2, got a list"),
        ({"steps": [walk()["last"], {"at": 3, "size": 0.0}]}, r"steps\.1\.at must .* from 0 to 2"),
        ({"last": {"at": 0, "size": 2.0}}, r"last\.size must be a float from 0 to 1, got 2.0"),
        ({"last": {"at": 0, "size": 1.0}}, "the walk must end at home"),
        ({"last": {"at": 2}}, r"the state is incomplete: it has no last\.size"),
        ({"title": "c"}, "title must be one of a, b, got 'c'"),
        ({"made": 2}, "the state has an unknown entry 'made'"),
        ({"more": 1}, "the state has an unknown entry 'more'"),
        ({3: 1}, "the state has an unknown entry 3"),
        ({10**5000: 1}, "the state has an unknown entry one too long to show"),
        ({"x" * 10**6: 1}, r"the state has an unknown entry 'x+ \.\.\.$"),
    ],
    ids=range(17),
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(CheckpointError, match=f"^{message}"):
        read(walk() | change)


@pytest.mark.parametrize("key", walk())
def test_every_entry_must_be_there(key):
    value = walk()
    del value[key]
    with pytest.raises(CheckpointError, match=f"^the state is incomplete: it has no {key}$"):
        read(value)
    with pytest.raises(CheckpointError, match=rf"^the state is incomplete: it has no it\.{key}$"):
        read(value, "it")


def test_names_say_where_it_is():
    with pytest.raises(CheckpointError, match=r"^it\.steps\.0\.at must be an integer"):
        read(walk(steps=[{"at": 9, "size": 0.0}] * 2), "it")
    with pytest.raises(CheckpointError, match=r"^it: the walk must end at home"):
        read(walk(last={"at": 1, "size": 1.0}), "it")
    with pytest.raises(CheckpointError, match=r"^it has an unknown entry 'more'"):
        read(walk(more=1), "it")


@pytest.mark.parametrize("odd", [None, 3, [], "text", np.zeros(3)])
def test_what_is_no_dict(odd):
    with pytest.raises(CheckpointError, match=r"^a state must be a dict, got"):
        read(odd)


def test_fields_are_inherited_and_replaced():
    class Longer(Step):
        at: int = integer("where, further", 0, 99)
        more: int = count("one more", default=7)

    assert list(Longer.declared) == ["at", "size", "more"]
    assert list(Step.declared) == ["at", "size"]
    assert Longer.read({"at": 50, "size": 0.5, "more": 1}).to_dict()["at"] == 50
    assert Longer(at=1, size=0.5).more == 7


class Note(File):
    kind, form = "Note", 3
    at: int = integer("where", 0, "n - 1")


def test_a_document_in_a_file(tmp_path):
    path = tmp_path / "note.npz"
    Note(at=2).save(path)
    assert archive.read(path) == {"class": "Note", "format": 3, "at": 2}
    assert Note.load(path, n=3).at == 2
    with pytest.raises(CheckpointError, match=r"note.npz: at must be an integer from 0 to 1, got"):
        Note.load(path, n=2)
    archive.write(path, {"class": "Note", "format": 2, "at": 2})
    with pytest.raises(CheckpointError, match=r"note.npz: the state is of 'Note', format 2; this"):
        Note.load(path, n=3)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"note.npz is not a complete checkpoint"):
        Note.load(path, n=3)


def test_construction():
    assert repr(Step(at=1, size=0.5)) == "Step(at=1, size=0.5)"
    with pytest.raises(TypeError, match="Step needs size"):
        Step(at=1)
    with pytest.raises(TypeError, match="Step has no field 'far'"):
        Step(at=1, size=0.5, far=2)


@pytest.mark.parametrize(
    "state",
    [{}, {"class": "VRB"}, {"class": "VRB", "format": 2}, {"class": "Uniform", "format": 3},
     {"class": "VRB", "format": True}, {"class": "VRB", "format": 3.0}, {"class": 3, "format": 3},
     {"class": np.array("VRB"), "format": 3}, {"class": "VRB", "format": np.array(3)}],
)  # fmt: skip
def test_states_of_another_class_or_format(state):
    with pytest.raises(CheckpointError, match="; this is a VRB, format 3"):
        body_of(state, "VRB", 3)


def test_the_body_of_a_state():
    state = {"class": "VRB", "format": 3, "n": 5}
    assert body_of(state, "VRB", 3) == {"n": 5}
    assert len(state) == 3
    with pytest.raises(CheckpointError, match="a state must be a dict, got a list"):
        body_of([state], "VRB", 3)


class Shared(Document):
    n: int = same("items")
    groups: np.ndarray = same("the group of each item")
    order: np.ndarray = array("an order", 0, "n - 1", dtype="places", shape=("n",))
    prices: np.ndarray = array("NaN where unknown", 0.0, nan=True)
    drawn: int = integer("drawn", 0, "n + lag - 1")


KNOWN = {"n": 3, "groups": np.array([0, 1, 0]), "places": np.int32, "lag": 2}
SHARED = Shared(
    n=3,
    groups=KNOWN["groups"],
    order=np.array([2, 0, 1], dtype=np.int32),
    prices=np.array([1.0, np.nan]),
    drawn=4,
)


def test_what_a_state_has_in_common_with_what_loads_it():
    saved = SHARED.to_dict()
    read = Shared.read(saved, **KNOWN)
    assert read.to_dict().keys() == saved.keys()
    assert read.order.tolist() == [2, 0, 1]
    saved["groups"][:] = 7
    assert KNOWN["groups"].tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 4}, "the state was saved with n=4, here it is 3"),
        ({"n": 3.0}, "the state was saved with n=3.0, here it is 3"),
        ({"n": np.array([1, 2])}, "saved with n=an array of int64 of shape .*, here it is 3"),
        ({"groups": np.array([0, 1, 1])}, "the state was saved with another groups"),
        ({"groups": [0, 1, 0]}, "the state was saved with another groups"),
        ({"order": np.array([2, 0, 1])}, "order must be an array of 3 int32, got"),
        ({"prices": np.array([np.nan, -1.0])}, r"prices\[1\] must be from 0 to .*, or NaN, got -1"),
        ({"prices": np.array([np.inf])}, r"prices\[0\] must be from 0 to .*, or NaN, got inf"),
        ({"drawn": 5}, "drawn must be an integer from 0 to 4, got 5"),
    ],
)
def test_what_differs_from_what_loads_it_is_refused(change, message):
    with pytest.raises(CheckpointError, match=message):
        Shared.read({**SHARED.to_dict(), **change}, **KNOWN)
