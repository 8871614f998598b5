"""Any sequence of calls, against a list of Python integers."""

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
from tombola import Stream, WeightIndex
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
    lambda index, n: index.draw(n + 1, Stream(0), replace=False),
    lambda index, n: index.draw(-1, Stream(0)),
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
        self.stream = Stream(0)
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
            assert self.index.draw(size, self.stream).tolist() == expected

    @rule(data=st.data())
    def draw_without_replacement(self, data):
        size = data.draw(st.integers(0, sum(new > 0 for new in self.model)))
        before = self.digest()
        items = self.index.draw(size, Stream(3), replace=False).tolist()
        assert self.digest() == before
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


TestMachine = IndexMachine.TestCase
TestMachine.pytestmark = [pytest.mark.kernels]
TestMachine.settings = settings(max_examples=min(settings.default.max_examples, 150))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_machine_at_length(part):
    """20,000 x 200 steps, in parts: Hypothesis remembers what it tried, gigabytes of it."""
    run_state_machine_as_test(
        IndexMachine,
        settings=settings(max_examples=1000, stateful_step_count=200, deadline=None, database=None),
    )
