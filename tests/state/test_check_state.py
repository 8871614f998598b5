"""The conformance suite of states rejects each kind of broken state."""

import numpy as np
import pytest

from tombola.state import CheckpointError, Document, array, body_of, count
from tombola.testing import check_state


class Saved(Document):
    """What a `Counter` saves."""

    drawn: int = count("how often it was played")
    counts: np.ndarray = array("by item", 0, 2**60, dtype=np.int64, shape=(3,))


class Counter:
    """Something small with a sound state: it counts, and says what it has counted."""

    def __init__(self):
        self.drawn, self.counts = 0, np.zeros(3, dtype=np.int64)

    def play(self):
        self.counts[self.drawn % 3] += 1
        self.drawn += 1
        return [self.drawn, self.counts.copy()]

    def state_dict(self):
        saved = Saved(drawn=self.drawn, counts=self.counts)
        return {"class": "Counter", "format": 1, **saved.to_dict()}

    def load_state_dict(self, state):
        saved = Saved.read(body_of(state, "Counter", 1))
        self.drawn, self.counts = saved.drawn, saved.counts.copy()


class DoesNotCopy(Counter):
    def state_dict(self):
        return {**super().state_dict(), "counts": self.counts}


class KeepsWhatItLoads(Counter):
    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.counts = np.asarray(state["counts"])


class ForgetsAField(Counter):
    def load_state_dict(self, state):
        drawn = self.drawn
        super().load_state_dict(state)
        self.drawn = drawn


class TakesAnyClass(Counter):
    def load_state_dict(self, state):
        if not isinstance(state, dict):
            raise CheckpointError("not a dict")
        super().load_state_dict({**state, "class": "Counter"})


class HasNoFormat(Counter):
    def state_dict(self):
        state = super().state_dict()
        del state["format"]
        return state

    def load_state_dict(self, state):
        super().load_state_dict({**state, "format": 1} if isinstance(state, dict) else state)


class ChangesBeforeItRefuses(Counter):
    def load_state_dict(self, state):
        if isinstance(state, dict) and type(state.get("drawn")) is int:
            self.drawn = state["drawn"]
        super().load_state_dict(state)


class FillsIn(Counter):
    def load_state_dict(self, state):
        super().load_state_dict({"drawn": 0, **state} if isinstance(state, dict) else state)


class RaisesAnotherError(Counter):
    def load_state_dict(self, state):
        if len(state["counts"]) != 3:
            raise IndexError("counts")
        super().load_state_dict(state)


class AcceptsWhatItCannotUse(Counter):
    def load_state_dict(self, state):
        saved = dict(state) if isinstance(state, dict) else state
        if isinstance(saved, dict) and isinstance(saved.get("drawn"), float):
            self.drawn = saved["drawn"]
            return
        super().load_state_dict(state)


class Allocates(Counter):
    def load_state_dict(self, state):
        if isinstance(state, dict) and type(state.get("drawn")) is int:
            np.ones(min(abs(state["drawn"]), 2**26), dtype=np.uint8)
        super().load_state_dict(state)


class PrintsEscapes(Counter):
    def load_state_dict(self, state):
        try:
            super().load_state_dict(state)
        except CheckpointError as error:
            error.args = ("\x1b[2J",)
            raise


BROKEN = {
    DoesNotCopy: "state_dict\\(\\) must copy",
    KeepsWhatItLoads: "load_state_dict\\(\\) must copy",
    ForgetsAField: "differs from the saved one",
    TakesAnyClass: "a state that is a dict was accepted",
    HasNoFormat: "must name its class and format",
    ChangesBeforeItRefuses: "was refused, but the state changed",
    FillsIn: "drawn removed was accepted",
    RaisesAnotherError: "must raise a CheckpointError, raised",
    AcceptsWhatItCannotUse: "was accepted, and then",
    Allocates: "takes 64 MB",
    PrintsEscapes: "not one short line",
}


def test_a_sound_state_passes():
    check_state(Counter, Counter.play)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_state_is_noticed(kind):
    with pytest.raises(AssertionError, match=BROKEN[kind]):
        check_state(kind, kind.play)
