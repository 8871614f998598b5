"""Any sequence of calls, against a list of Python integers or fractions."""

from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import naive
from tombola import WeightIndex
from tombola.index import layout

weight = st.one_of(
    st.integers(0, 3),
    st.integers(0, 2**20),
    st.integers(0, 56).flatmap(lambda bits: st.sampled_from([2**bits - 1, 2**bits, 2**bits + 1])),
)
BAD_CALLS = [
    lambda index, n: index.set([0, n], [1, 1]),
    lambda index, n: index.set([0, -1], [1, 1]),
    lambda index, n: index.set([0, 0], [1, -1]),
    lambda index, n: index.set([0, 0], [1, 0.5]),
    lambda index, n: index.set([0], [float("nan")]),
    lambda index, n: index.set([0], [1, 2]),
    lambda index, n: index.set([0], [2**62 + 1]),
    lambda index, n: index.set([0.5], [1]),
    lambda index, n: index.extend([1, -1]),
    lambda index, n: index.extend([2**62, 1]),
    lambda index, n: index.extend(["1"]),
    lambda index, n: index.add([0, n], [1, 1]),
    lambda index, n: index.add([0, 0], [1, -(2**62)]),
    lambda index, n: index.add([0], [2**62 + 1]),
    lambda index, n: index.draw_distinct(n + 1),
    lambda index, n: index.draw(-1),
]


class IndexMachine(RuleBasedStateMachine):
    """Places turn from 32 to 64 bits at 2^31 items, or at 12."""

    @initialize(
        weights=st.lists(weight, min_size=1, max_size=14), narrow=st.sampled_from([2**31, 12])
    )
    def start(self, weights, narrow):
        layout.NARROW = narrow
        self.index = WeightIndex(weights)
        self.model = list(weights)
        self.words = naive.words(0)

    @rule(data=st.data())
    def set(self, data):
        items = data.draw(st.lists(st.integers(0, len(self.model) - 1), max_size=6))
        weights = data.draw(st.lists(weight, min_size=len(items), max_size=len(items)))
        self.index.set(items, weights)
        for item, new in zip(items, weights, strict=True):
            self.model[item] = new

    @rule(data=st.data(), size=st.integers(2, 5))
    def set_twice_in_one_call(self, data, size):
        item = data.draw(st.integers(0, len(self.model) - 1))
        weights = data.draw(st.lists(weight, min_size=size, max_size=size))
        self.index.set([item] * size, weights)
        self.model[item] = weights[-1]

    @rule(data=st.data())
    def add(self, data):
        items = data.draw(st.lists(st.integers(0, len(self.model) - 1), max_size=6))
        deltas = []
        for item in items:
            deltas.append(data.draw(st.integers(-min(self.model[item], 2**56), 2**20)))
            self.model[item] += deltas[-1]
        self.index.add(items, deltas)

    @rule(weights=st.lists(weight, max_size=3))
    def extend(self, weights):
        if len(self.model) < 40:
            self.index.extend(weights)
            self.model.extend(weights)

    @rule(size=st.integers(0, 6))
    def draw(self, size):
        if any(self.model):
            order = self.index._index.order[: len(self.model)].tolist()
            expected = [naive.draw(order, self.model, self.words)[0] for _ in range(size)]
            draw = self.index.draw(size)
            assert draw.indices.tolist() == expected
            for item, probability in zip(expected, draw.probabilities.tolist(), strict=True):
                exact = Fraction(self.model[item], sum(self.model))
                assert abs(Fraction(probability) - exact) <= exact / 2**51

    @rule(data=st.data())
    def draw_without_replacement(self, data):
        size = data.draw(st.integers(0, sum(new > 0 for new in self.model)))
        before, position = self.digest(), self.index._stream.position
        items = self.index.draw_distinct(size).tolist()
        assert self.digest() == before
        self.index._stream.position = position  # the words of the oracle
        assert len(set(items)) == size
        assert all(self.model[item] for item in items)

    @rule(call=st.sampled_from(BAD_CALLS))
    def bad_input(self, call):
        before = self.digest()
        with pytest.raises((ValueError, TypeError, IndexError)):
            call(self.index, len(self.model))
        assert self.digest() == before

    @invariant()
    def equals_the_model(self):
        self.index.verify()
        assert self.index.weights.tolist() == self.model
        assert self.index.total == sum(self.model)
        assert len(self.index) == len(self.model)

    def digest(self):
        return [array[: len(self.index)].tobytes() for array in self.index._index]

    def teardown(self):
        layout.NARROW = 2**31


value = st.one_of(
    st.sampled_from([0.0, 1.0, 5e-324, 2.0**-1000, 2.0**-60, 1 / 3, 2.0**60, 1e300]),
    st.floats(0.0, 100.0),
    st.floats(0.0, 1e300),
)
BAD_REAL_CALLS = [
    lambda index, n: index.set([0, n], [0.5, 1.0]),
    lambda index, n: index.set([0, 0], [0.5, -1.0]),
    lambda index, n: index.set([0, 0], [0.5, float("nan")]),
    lambda index, n: index.add([0, 0], [0.5, float("inf")]),
    lambda index, n: index.add([0], [-1e301]),
    lambda index, n: index.extend([0.5, float("inf")]),
    lambda index, n: index.draw_distinct(n + 1),
    lambda index, n: index.draw(3, uniform=-0.5),
    lambda index, n: index.draw(3, uniform=float("inf")),
    lambda index, n: index.draw(3, uniform="1"),
]


class RealMachine(RuleBasedStateMachine):
    """Weights are what was set, and what is drawn by is near them, at every draw."""

    @initialize(values=st.lists(value, min_size=1, max_size=14))
    def start(self, values):
        self.index = WeightIndex([*map(float, values)])
        self.model = list(values)

    @rule(data=st.data())
    def set(self, data):
        items = data.draw(st.lists(st.integers(0, len(self.model) - 1), max_size=6))
        values = data.draw(st.lists(value, min_size=len(items), max_size=len(items)))
        self.index.set(items, values)
        for item, new in zip(items, values, strict=True):
            self.model[item] = new

    @rule(data=st.data())
    def add(self, data):
        items = data.draw(st.lists(st.integers(0, len(self.model) - 1), max_size=6))
        deltas = []
        for item in items:
            deltas.append(data.draw(value))
            self.model[item] += deltas[-1]
        self.index.add(items, deltas)

    @rule(data=st.data())
    def subtract_all(self, data):
        item = data.draw(st.integers(0, len(self.model) - 1))
        self.index.add(item, -self.model[item])
        self.model[item] = 0.0

    @rule(values=st.lists(value, max_size=3))
    def extend(self, values):
        if len(self.model) < 40:
            self.index.extend(values)
            self.model.extend(values)

    @rule(size=st.integers(1, 6))
    def draw(self, size):
        if not any(self.model):
            return
        draw, n = self.index.draw(size), len(self.model)
        total = sum(map(Fraction, self.model))
        for item, probability in zip(draw.indices, draw.probabilities, strict=True):
            exact = Fraction(self.model[item]) / total
            error = (1 + n * exact) / 2**49 + exact / 2**51  # of the integers, and of float64
            assert self.model[item] > 0
            assert abs(Fraction(float(probability)) - exact) <= error

    @rule(data=st.data())
    def draw_distinct(self, data):
        size = data.draw(st.integers(0, sum(new > 0 for new in self.model)))
        items = self.index.draw_distinct(size).tolist()
        assert len(set(items)) == size
        assert all(self.model[item] for item in items)

    @rule(call=st.sampled_from(BAD_REAL_CALLS))
    def bad_input(self, call):
        before = [array.tobytes() for array in self.index._index]
        with pytest.raises((ValueError, TypeError, IndexError)):
            call(self.index, len(self.model))
        assert [array.tobytes() for array in self.index._index] == before

    @invariant()
    def equals_the_model(self):
        self.index.verify()
        assert self.index.weights.tolist() == self.model
        assert (self.index._index.weights[: len(self.model)] > 0).tolist() == [
            new > 0 for new in self.model
        ]
        assert len(self.index) == len(self.model)


TestMachine = IndexMachine.TestCase
TestRealMachine = RealMachine.TestCase
TestMachine.pytestmark = TestRealMachine.pytestmark = [pytest.mark.kernels]
TestMachine.settings = settings(max_examples=min(settings.default.max_examples, 150))
TestRealMachine.settings = TestMachine.settings


@pytest.mark.slow
@pytest.mark.parametrize("machine", [IndexMachine, RealMachine])
@pytest.mark.parametrize("part", range(20))
def test_machine_at_length(part, machine):
    """20,000 x 200 steps, in parts: Hypothesis remembers what it tried, gigabytes of it."""
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=1000, stateful_step_count=200, deadline=None, database=None),
    )
