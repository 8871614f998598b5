"""The range of every declared number: its ends are accepted, what is beyond is refused by name."""

import re

import numpy as np
import pytest

import players
import tombola
from players import N
from states import declared, leaves, same
from tombola.checkpoint import CheckpointError
from tombola.samplers.deck import Deck, Turn
from tombola.state import Cell, cell, integer
from tombola.state.fields import Field

pytestmark = pytest.mark.kernels

MOST = 1.7976931348623157e308
SAMPLERS = {
    **players.SAMPLERS,
    "VRB, independent": lambda seed: tombola.VRB(N, shuffle=False, seed=seed),
    "VRB, anytime": lambda seed: tombola.VRB(N, bound=9.0, seed=seed),
}


def changed(state, name, value):
    """A state with another number, the second one where the name is that of an array."""
    *path, last = name.split(".")
    inner = state["parts"]
    for key in path:
        inner = inner[key]
    if isinstance(inner[last], np.ndarray):
        inner[last].flat[1] = value
    else:
        inner[last] = type(inner[last])(value)
    return state


def beyond(end, way, dtype):
    """The next number after an end of a range, and NaN; no number if the type has none."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return [end + way] if limits.min <= end + way <= limits.max else []
    with np.errstate(over="ignore"):
        return [np.nextafter(dtype.type(end), dtype.type(way * np.inf)).item(), np.nan]


def problems(sampler, name, dtype, low, high):
    """What is wrong with a range, and whether an end of it is at odds with other numbers."""
    before, found, at_odds = sampler.state_dict(), [], False
    one = rf"{re.escape(name)}(\[1\]|\[0, 1\])?"
    own = re.compile(rf"{one} must be (an? (integer|float) )?from .* to .*, got")
    for end, way in ((low, -1), (high, 1)):
        try:
            sampler.load_state_dict(changed(sampler.state_dict(), name, end))
            sampler.load_state_dict(before)
        except CheckpointError as error:
            at_odds = True
            if own.match(str(error)):
                found.append(f"{name}: {end} is refused: {error}")
        for number in beyond(end, way, dtype):
            try:
                sampler.load_state_dict(changed(sampler.state_dict(), name, number))
                found.append(f"{name}: {number} is accepted")
            except CheckpointError as error:
                if not own.match(str(error)):
                    found.append(f"{name}: {number} is refused by another name: {error}")
                if not same(sampler.state_dict(), before):
                    found.append(f"{name}: the state has changed")
    return found, at_odds


ODDS = {  # numbers that must fit others: see `fault` of their states
    "index.weights", "index.order", "members.weights", "members.order", "deck.items",
    "shares", "visited", "chances", "chosen.items", "epoch.length", "epoch.below", "epoch.kept",
    "below", "rule.mass", "rule.mass_of_summed", "rule.summed", "scores", "plan.scores",
    "plan.turn.total", "plan.turn.share",
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_declared_number_has_a_range(name):
    sampler = SAMPLERS[name](3)
    fields = list(declared(sampler.state))
    assert {field for field, *_ in fields} == set(leaves(sampler.state_dict()["parts"]))
    for field, declaration, dtype, scope in fields:
        low, high = declaration.ends(scope)
        assert -MOST <= low <= high <= MOST
        found, at_odds = problems(sampler, field, dtype, low, high)
        assert found == []
        assert not at_odds or field in ODDS


# --- a dozen of them, written out -----------------------------------------------------------------

COUNT = (0, 2**60)
RANGES = [
    ("VRB", "rule.mixing", 0.0, 1.0),
    ("VRB", "rule.drawn", *COUNT),
    ("VRB", "rule.fed", *COUNT),
    ("VRB", "rule.disagreement", -1e-9, 1.0 + 1e-9),
    ("VRB", "rule.first_root", 0.0, 2.0**200),
    ("VRB", "rule.mean_square", 0.0, MOST),
    ("VRB", "sweep.scale", 2.0**-1000, 2.0**1020),
    ("VRB", "sweep.cursor", 0, N - 1),
    ("VRB", "sweep.pending", 1, N),
    ("VRB", "fallback.left", 0, 280),
    ("VRB", "fallback.ours", 0.0, 1e300),
    ("VRB", "fallback.uniform", 0.0, 1e300),
    ("VRB", "fallback.shuffling", 0, 1),
    ("VRB, independent", "fallback.shuffling", 0, 0),
    ("VRB", "deck.turn.place", 0, N - 1),
    ("VRB", "scores", 0.0, 2.0**1020),
    ("VRB", "visits", 0.0, 2.0**100),
    ("VRB, mixing", "rule.mixing", 2.0**-60, 1.0),
    ("VRB, mixing", "rule.due", *COUNT),
    ("VRB, mixing", "sweep.pending", 0, N),
    ("GroupVRB", "rule.cursor", 0, 1),
    ("GroupVRB", "rule.scale", 2.0**-1000, 2.0**1020),
    ("GroupVRB", "rule.level", 0.0, 2.0**1000),
    ("GroupVRB", "scores", 1 / 16, 2.0**1000),
    ("GroupVRB", "visits", 0, 15),
    ("GroupVRB", "levels", 0.0, 2.0**1000),
    ("GroupVRB", "seen", *COUNT),
    ("GroupVRB", "darts.position", *COUNT),
    ("MirrorDescent", "rule.summed", 0, N - 1),
    ("MirrorDescent", "scores", 0.0, 2.0**100),
    ("AdaptiveWeighted", "tau", -MOST, MOST),
    ("AdaptiveWeighted", "shares", 0.0, 1.0 + 1e-9),
    ("Safe", "norms", 0.0, 2.0**250),
    ("OSMD", "rule.level", 1e-300, 2.0**500),
    ("VRM", "curvature", -1e18, 1e18),
    ("Stale", "losses", -1.0, 2.0**250),
    ("Stale", "rule.mean_loss", 2.0**-200, 1e300),
    ("EpochVRB", "rule.mixing", 0.0, 1.0),
    ("EpochVRB", "rule.disagreement", -1e-9, 1.0 + 1e-9),
    ("EpochVRB", "rule.least", 1, N * 2**32),
    ("EpochVRB", "scores", 0.0, 2.0**1020),
    ("EpochVRB", "visits", 0.0, 2.0**100),
    ("EpochVRB", "chances", 1, N * 2**32),
    ("EpochVRB", "chosen.items", 0, N - 1),
    ("EpochVRB", "chosen.turn.place", 0, N - 1),
    ("EpochVRB, share", "chosen.turn.place", 0, 23),
    ("EpochVRB, share", "chances", 1, 2**32),
    ("InfoBatch", "epoch.length", 1, N),
    ("InfoBatch", "epoch.below", 0, N),
    ("InfoBatch", "epoch.kept", 0, N),
    ("InfoBatch", "epoch.number", *COUNT),
    ("InfoBatch", "below", 0, 1),
    ("InfoBatch", "losses", -1.0, MOST),
    ("KVib", "latest.nominal", 1, 2**31),
    ("KVib", "scores", 0.0, 2.0**1020),
]


def type_of(state, name):
    return next(dtype for field, _, dtype, _ in declared(state) if field == name)


@pytest.mark.parametrize(("name", "field", "low", "high"), RANGES)
def test_ranges_are_these(name, field, low, high):
    sampler = SAMPLERS[name](3)
    found, at_odds = problems(sampler, field, type_of(sampler.state, field), low, high)
    assert found == []
    assert not at_odds or field in ODDS


# --- wrong declarations are noticed ---------------------------------------------------------------


def with_turn(kind):
    """A sampler that deals from a deck whose place is declared in another way."""

    class Other(Deck):
        turn: Cell[kind]

    sampler = tombola.Shuffle(N)
    parts = sampler.state._asdict()
    parts["deck"] = Other(items=sampler.state.deck.items, turn=cell(kind()))
    sampler.state = type(sampler.state)(**parts)
    return sampler


class Wide(Turn):
    place: int = integer("one too many", 0, "items.size", default=0)


class Narrow(Turn):
    place: int = integer("one too few", 1, "items.size - 1", default=1)


class Unchecked(Field):
    """What a range would be good for."""

    def read(self, value, name, scope, like=None):
        return value


class Lax(Turn):
    place: int = Unchecked("any place", 0, "items.size - 1", default=0)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Turn, []),
        (Wide, ["deck.turn.place: 40 is accepted"]),
        (Narrow, ["deck.turn.place: 0 is refused: .* from 1 to 39, got 0"]),
        (Lax, ["deck.turn.place: -1 is accepted", "deck.turn.place: 40 is accepted"]),
    ],
)
def test_a_wrong_declaration_is_noticed(kind, message):
    sampler = with_turn(kind)
    found, _ = problems(sampler, "deck.turn.place", np.dtype(np.int64), 0, N - 1)
    assert len(found) == len(message)
    assert all(map(re.match, message, found))


def test_a_range_that_is_not_checked_is_noticed():
    """Its ends are those of the table, so only the numbers beyond tell."""
    sampler = with_turn(Lax)
    for field, declaration, dtype, scope in declared(sampler.state):
        found, _ = problems(sampler, field, dtype, *declaration.ends(scope))
        assert bool(found) == (field == "deck.turn.place")


# --- what belongs together ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Shuffle", "VRB", "GroupVRB"])
@pytest.mark.parametrize(("place", "item"), [(0, 1), (3, N), (3, -1), (N - 1, 0)])
def test_a_deck_holds_each_item_once(name, place, item):
    sampler = SAMPLERS[name](3)
    state = sampler.state_dict()
    assert state["parts"]["deck"]["items"].tolist() == list(range(N))
    assert state["parts"]["deck"]["turn"]["place"] == 0
    state["parts"]["deck"]["items"][place] = item
    message = "deck: items must hold every item exactly once"
    if not 0 <= item < N:
        message = rf"deck.items\[{place}\] must be from 0 to {N - 1}, got {item}"
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(state)
