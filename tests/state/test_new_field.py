"""A rule gets a new number by one line; all that is done with it follows from the line."""

import numpy as np
import pytest

from states import same
from tombola import checkpoint
from tombola.checkpoint import CheckpointError
from tombola.samplers.weighted import Rule, Scored, WeightedSampler
from tombola.state import Cell, cell, real
from tombola.state.describe import describe

pytestmark = pytest.mark.kernels


class Before(Rule):
    level: float = real("the value of an item without a loss", default=1.0)


class After(Rule):
    level: float = real("the value of an item without a loss", default=1.0)
    extra: float = real("the share of the old score that is kept", 0.0, 1.0, default=0.5)


class BeforeState(Scored):
    rule: Cell[Before]

    def absorb(self, item, probability, loss):
        self.scores[item] = loss

    def value(self, item):
        return max(self.scores[item], self.rule[0].level)


class AfterState(BeforeState):
    rule: Cell[After]

    def absorb(self, item, probability, loss):
        self.scores[item] = loss + self.rule[0].extra * self.scores[item]


class Keeps(WeightedSampler):
    def __init__(self, n, *, rule=After, seed=0):
        super().__init__(n, seed)
        kind = AfterState if rule is After else BeforeState
        self._begin(kind, rule=cell(rule()), scores=np.zeros(n))


def test_its_numpy_type():
    before, after = cell(Before()).dtype, cell(After()).dtype
    assert after.names == (*before.names, "extra")
    assert after["extra"] == np.float64
    assert all(after[name] == before[name] for name in before.names)


def test_its_default_and_what_the_constructor_takes():
    assert cell(After())[0].extra == 0.5
    assert cell(After(extra=0.25))[0].extra == 0.25
    with pytest.raises(TypeError, match="Before has no field 'extra'"):
        Before(extra=0.25)


def test_compiled_rules_use_it():
    sampler = Keeps(3)
    draw = sampler.draw(1)
    for expected in (2.0, 3.0, 3.5):
        sampler.update(draw, [2.0])
        assert sampler.state.scores[draw.indices[0]] == expected
    sampler.state.rule[0].extra = 0.0
    sampler.update(draw, [2.0])
    assert sampler.state.scores[draw.indices[0]] == 2.0


def test_it_is_saved_and_loaded(tmp_path):
    sampler, copy = Keeps(3), Keeps(3)
    sampler.state.rule[0].extra = 0.125
    assert sampler.state_dict()["parts"]["rule"]["extra"] == 0.125
    sampler.save(tmp_path / "it")
    copy.load_state_dict(checkpoint.read(tmp_path / "it"))
    assert copy.state.rule[0].extra == 0.125
    assert same(copy.state_dict(), sampler.state_dict())
    assert "extra" not in Keeps(3, rule=Before).state_dict()["parts"]["rule"]


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_the_ends_of_its_range_are_accepted(end):
    sampler = Keeps(3)
    state = sampler.state_dict()
    state["parts"]["rule"]["extra"] = end
    sampler.load_state_dict(state)
    assert sampler.state.rule[0].extra == end


@pytest.mark.parametrize(
    ("odd", "shown"),
    [(-5e-324, "-5e-324 of type float"), (1.0000000000000002, "1.0000000000000002 of type float"),
     (float("nan"), "nan of type float"), (1, "1 of type int"), ("1", "'1' of type str"),
     (np.zeros(1), r"an array of float64 of shape \(1,\)")],
    ids=repr,
)  # fmt: skip
def test_what_is_beyond_is_refused_in_a_sentence(odd, shown):
    sampler = Keeps(3)
    state = sampler.state_dict()
    state["parts"]["rule"]["extra"] = odd
    with pytest.raises(
        CheckpointError, match=f"^rule.extra must be a float from 0 to 1, got {shown}$"
    ):
        sampler.load_state_dict(state)
    assert same(sampler.state_dict(), Keeps(3).state_dict())


def test_states_with_and_without_it_are_told_apart():
    before, after = Keeps(3, rule=Before), Keeps(3)
    with pytest.raises(CheckpointError, match=r"^the state is incomplete: it has no rule\.extra$"):
        after.load_state_dict(before.state_dict())
    with pytest.raises(CheckpointError, match=r"^rule has an unknown entry 'extra'$"):
        before.load_state_dict(after.state_dict())


def test_the_documentation_has_it():
    rows = [row for row in describe(AfterState) if row not in describe(BeforeState)]
    assert [tuple(row) for row in rows] == [
        ("rule.extra", "float", "0 to 1", "the share of the old score that is kept")
    ]
    assert len(describe(AfterState)) == len(describe(BeforeState)) + 1
