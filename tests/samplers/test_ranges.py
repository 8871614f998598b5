"""The valid range of every number of a state: its ends are accepted, what is beyond is refused."""

import re

import numpy as np
import pytest

import players
import tombola
from players import N
from states import leaves, same
from tombola.checkpoint import CheckpointError

pytestmark = pytest.mark.kernels

MOST = float(np.finfo(np.float64).max)
COUNT, SUM, ANY = (0, 2**60), (0.0, MOST), (-MOST, MOST)
ENDLESS = (2**62, 2**62)  # a sweep that never ends
FALLBACK = {
    "fallback.ours": (0.0, 1e300), "fallback.uniform": (0.0, 1e300), "fallback.left": (0, 280),
    "fallback.block": (280, 280), "fallback.shuffling": (0, 1),
}  # fmt: skip
DECK = {"deck.turn.place": (0, N - 1)}


def weighted(*numbers, counts=(), pending=(0, N), least=1, **more):
    """The ranges of a sampler with an index; `numbers` of its rule are not negative."""
    return {
        "rule.mixing": (0.0, 1.0),
        "rule.drawn": COUNT,
        "rule.fed": COUNT,
        **{f"rule.{name}": SUM for name in numbers},
        **{f"rule.{name}": COUNT for name in counts},
        "sweep.scale": (2.0**-1000, 2.0**1020),
        "sweep.least": (least, least),
        "sweep.cursor": (0, N - 1),
        "sweep.pending": pending,
        **more,
    }


SCORES = {"scores": (0.0, 2.0**1020)}
PRINTED = {
    "rule.mixing": (2.0**-60, 1.0), "rule.fade": (0.0, 1.0), "rule.schedule": (0, 0), **SCORES,
}  # fmt: skip
FREE = {
    **FALLBACK, **DECK, **SCORES, "visits": (0.0, 2.0**100), "rule.fade": (0.0, 1.0),
    "rule.disagreement": (-1e-9, 1.0 + 1e-9), "rule.first_root": (0.0, 2.0**200),
}  # fmt: skip
MIRROR = players.SAMPLERS["MirrorDescent"](1).state.rule[0]
RANGES = {
    "Shuffle": DECK,
    "Static": weighted(least=0),
    "VRB": weighted("unit", "mean_square", "compared", pending=ENDLESS, **FREE),
    "VRB, independent": weighted(
        "unit", "mean_square", "compared", pending=ENDLESS,
        **FREE | {"fallback.left": (2**62 - 2**60, 2**62)},
    ),
    "VRB, mixing": weighted("unit", "bound", "factor", counts=["due"], **PRINTED),
    "VRB, anytime": weighted(
        "unit", "bound", "factor", counts=["due"], pending=ENDLESS,
        **PRINTED | {"rule.schedule": (1, 1)},
    ),
    "GroupVRB": {
        **FALLBACK, **DECK, "rule.drawn": COUNT, "rule.fed": COUNT, "rule.unit": SUM,
        "rule.level": (0.0, 2.0**1000), "rule.scale": (2.0**-1000, 2.0**1020),
        "rule.cursor": (0, 1), "scores": (1 / 16, 2.0**1000), "visits": (0, 15),
        "levels": (0.0, 2.0**1000), "seen": COUNT, "darts.position": COUNT,
    },
    "MABS": weighted("unit", "gain", "reference", **SCORES),
    "MirrorDescent": weighted(
        "unit", scores=(0.0, 2.0**100),
        **{f"rule.{it}": (MIRROR[it].item(),) * 2 for it in ("limit", "step", "falling", "least")},
        **{"rule.summed": (0, N - 1), "rule.mass": (0.0, N * 2.0**100),
           "rule.mass_of_summed": (-N * 2.0**100, N * 2.0**100)},
    ),
    "AdaptiveWeighted": {
        "rule.fed": COUNT, "rule.unit": SUM, "rule.mean_v": SUM, "rule.step": SUM,
        "rule.spent": SUM, "tau": ANY, "shares": (0.0, 1.0 + 1e-9),
    },
    "Avare": weighted("unit", "floor", "decay", "least", "level", counts=["due"], **SCORES),
    "SRG": weighted(
        "unit", "mean_norm", "seen", counts=["by_coin"], pending=ENDLESS, norms=ANY,
        **{"coins.position": COUNT},
    ),
    "Safe": weighted(
        "unit", "drift", "level", "solved_total", counts=["interval", "due"], norms=(0.0, 2.0**250),
        visited=ANY,
    ),
    "FTRL": weighted("unit", **SCORES),
    "OSMD": weighted(
        "unit", "bound", counts=["falling"], scores=(0.0, 2.0**500),
        **{"rule.step": (0.3, 0.3), "rule.floor": (0.4, 0.4), "rule.least": (0.01, 0.01),
           "rule.level": (1e-300, 2.0**500)},
    ),
    "VRM": {
        "rule.unit": SUM, "rule.largest": SUM, "rule.step": (0.1, 0.1), "rule.least": (0.1, 0.1),
        "mixture": (0.0, 1.0 + 1e-9), "curvature": (-1e18, 1e18),
    },
    "Stale": weighted(
        "unit", pending=ENDLESS, table=(-1.0, 2.0**250), **{"rule.mean_loss": (2.0**-200, 1e300)}
    ),
    "EpochVRB": {
        "rule.mixing": (0.0, 1.0), "rule.drawn": COUNT, "rule.fed": COUNT, "rule.unit": SUM,
        "rule.mean_square": SUM, "rule.disagreement": (-1e-9, 1.0 + 1e-9), "rule.compared": SUM,
        "rule.first_root": (0.0, 2.0**200), "rule.least": (1, N * 2**32),
        "chosen.turn.place": (0, N - 1), "chances": (1, N * 2**32), "scores": (0.0, 2.0**1020),
        "chosen.items": (0, N - 1), "visits": (0.0, 2.0**100),
    },
    "InfoBatch": {
        "epoch.number": COUNT, "epoch.length": (1, N), "epoch.below": (0, N),
        "epoch.kept": (0, N), "below": (0, 1), "losses": (-1.0, MOST), **DECK,
    },
    "KVib": {"latest.nominal": (1, 2**31), **SCORES},
}  # fmt: skip
SAMPLERS = {
    **players.SAMPLERS,
    "VRB, independent": lambda seed: tombola.VRB(N, shuffle=False, seed=seed),
    "VRB, anytime": lambda seed: tombola.VRB(N, bound=9.0, seed=seed),
}


def beyond(end, way, dtype):
    """The next number after an end of a range; large integers are compared as floats."""
    if dtype.kind in "iu":
        return end + way * max(1, end >> 50)
    with np.errstate(over="ignore"):
        return np.nextafter(dtype.type(end), dtype.type(way * np.inf))


def changed(state, name, number):
    """A state with another number, the second one where the name is that of an array."""
    *path, last = name.split(".")
    inner = state["parts"]
    for key in path:
        inner = inner[key]
    if isinstance(inner[last], np.ndarray):
        inner[last].flat[1] = number
    else:
        inner[last] = type(inner[last])(number)
    return state


ODDS = (
    "mixture has a sum|shares must sum|visited has|chances must sum|which its chance rules out"
    "|, but the epoch has|but the masses sum"
)


def accept(sampler, state):
    """Load a state whose numbers are all in range, though one may be at odds with others."""
    try:
        sampler.load_state_dict(state)
    except CheckpointError as error:
        if not re.search(ODDS, str(error)):
            raise


@pytest.mark.parametrize("name", RANGES)
def test_ends_of_ranges(name):
    sampler = SAMPLERS[name](3)
    before = sampler.state_dict()
    numbers = leaves(before["parts"])
    index = {f"{part}.{array}" for part in ("index", "members") for array in ("weights", "order")}
    assert set(numbers) - index - {"deck.items"} == set(RANGES[name])
    for field, (low, high) in RANGES[name].items():
        dtype = np.asarray(numbers[field]).dtype
        for end, way in ((low, -1), (high, 1)):
            accept(SAMPLERS[name](3), changed(sampler.state_dict(), field, end))
            outside = [beyond(end, way, dtype)] + ([np.nan] if dtype.kind == "f" else [])
            if dtype.kind == "u" and outside[0] < 0:
                continue  # no such number
            for number in outside:
                message = rf"{field}(\[1\])? is .*(not from|out of range)"
                with pytest.raises(CheckpointError, match=message):
                    sampler.load_state_dict(changed(sampler.state_dict(), field, number))
                assert same(sampler.state_dict(), before), field


@pytest.mark.parametrize("name", ["Shuffle", "VRB", "GroupVRB"])
@pytest.mark.parametrize(("place", "item"), [(0, 1), (3, N), (3, -1), (N - 1, 0)])
def test_a_deck_holds_each_item_once(name, place, item):
    sampler = SAMPLERS[name](3)
    state = sampler.state_dict()
    assert state["parts"]["deck"]["items"].tolist() == list(range(N))
    assert state["parts"]["deck"]["turn"]["place"] == 0
    state["parts"]["deck"]["items"][place] = item
    with pytest.raises(CheckpointError, match="deck does not contain every item exactly once"):
        sampler.load_state_dict(state)
