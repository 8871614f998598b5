"""What holds for all samplers: the largest importance, valid ranges of a state, sizes of draws."""

from functools import partial

import numba
import numpy as np
import pytest

import tombola
from players import SAMPLERS, N, draw_one, update_one
from states import same
from tombola.index.real import power_of_two_near
from tombola.samplers.compiled import CompiledSampler
from tombola.testing import check_state

pytestmark = pytest.mark.kernels


def play(sampler, rounds, size=7):
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        draw = sampler.draw(size)
        if sampler.feedback == "all":
            sampler.update_all(1.0 + np.arange(sampler.n) % 3)
        else:
            sampler.update(draw, (draw.indices % 9 == 0) + rng.uniform(0.1, 0.5, len(draw)))


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_importance_exceeds_the_limit_of_the_gauge(name):
    sampler, largest = SAMPLERS[name](3), 0.0
    for _ in range(12):
        p = sampler.probabilities()
        largest = max(largest, 1 / (N * p[p > 0].min()))
        limit = sampler.gauge.importance_limit
        assert limit >= largest * (1 - 1e-9)
        assert np.isfinite(limit) == (name != "FTRL")  # which has no floor to begin with
        play(sampler, 3)


@pytest.mark.parametrize("make", [tombola.Uniform, tombola.Shuffle])
def test_uniform_and_shuffled_draws_have_importance_1(make):
    assert make(7).gauge.importance_limit == 1.0


class Plain(tombola.Sampler):
    """A sampler without kernels, with one array."""

    def __init__(self, n, *, seed=0):
        super().__init__(n, seed)
        self.seen = np.zeros(n)

    def _draw(self, size):
        return self._stream.integers(self.n, size), np.full(size, 1 / self.n)

    def _update(self, draw, losses):
        np.add.at(self.seen, draw.indices, losses)

    def _arrays(self):
        return {"seen": self.seen}

    def probabilities(self):
        return np.full(self.n, 1 / self.n)


def test_samplers_without_kernels_save_and_load():
    def play(sampler):
        draw = sampler.draw(9)
        sampler.update(draw, np.arange(9.0))
        return [draw.indices, sampler.seen]

    check_state(lambda: Plain(4), play)
    assert Plain(4).gauge.importance_limit == np.inf


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("size", [280, 281])
def test_states_at_and_after_the_end_of_a_block_are_valid(name, size):
    """Blocks have 280 draws: 7 epochs."""
    sampler, copy = SAMPLERS[name](3), SAMPLERS[name](4)
    draw = sampler.draw(size)
    if sampler.feedback == "all":
        sampler.update_all(np.ones(N))
    else:
        sampler.update(draw, np.linspace(0.5, 1.0, len(draw)))
    copy.load_state_dict(sampler.state_dict() | {"parameters": copy.state_dict()["parameters"]})
    assert same(copy.state_dict()["parts"], sampler.state_dict()["parts"])


@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="would compile what solvers inline")
@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_and_losses_one_by_one_as_solvers_have_them(name):
    """The kernels that compiled loops call leave the same state as the methods."""
    ours, theirs = SAMPLERS[name](3), SAMPLERS[name](3)
    if ours.feedback == "all" or name == "SRG" or not isinstance(ours, CompiledSampler):
        pytest.skip("is not played loss by loss")
    for k in range(60):
        draw = theirs.draw(1)
        item, probability = draw_one(ours.state)
        assert (item, probability) == (draw.indices[0], draw.probabilities[0])
        update_one(ours.state, item, probability, 1.0 + k % 7)
        theirs.update(draw, [1.0 + k % 7])
    assert same(ours.state_dict()["parts"], theirs.state_dict()["parts"])


def test_mirror_descent_of_one_item_at_the_floor():
    sampler = tombola.MirrorDescent(1, bound=1.0, floor=1.0)
    sampler.update(sampler.draw(5), np.ones(5))
    assert sampler.probabilities().tolist() == [1.0]


def test_mirror_descent_allows_for_half_the_floor_during_a_sweep():
    sampler = tombola.MirrorDescent(9, bound=1.0, floor=0.5)
    assert sampler.gauge.importance_limit == pytest.approx(2.0, rel=0.01)
    sampler.state.sweep[0].pending = 3
    assert sampler.gauge.importance_limit == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("make", [tombola.VRB, tombola.FTRL, partial(tombola.MABS, horizon=9)])
def test_bounds_of_two_items_are_kept(make, tmp_path):
    sampler = make(2, bound=[1.0, 9.0], seed=2)
    tombola.save(sampler, tmp_path / "it")
    copy = tombola.load(tmp_path / "it")
    assert sampler.parameters["bound"].tolist() == copy.parameters["bound"].tolist() == [1.0, 9.0]
    assert (copy.probabilities() == sampler.probabilities()).all()


def test_smoothness_of_two_items_is_kept():
    sampler = tombola.Safe(2, smoothness=[1.0, 9.0], curvature=[1.0, 2.0])
    copy = tombola.Safe(**sampler.parameters)
    assert copy.state.smoothness.tolist() == [1.0, 9.0]
    assert (copy.state.curvature == sampler.state.curvature).all()
    assert tombola.Safe(2, smoothness=[3.0]).parameters["smoothness"] == 3.0


def test_only_epochs_plans_and_cycles_are_not_independent():
    shuffled = {"Shuffle", "VRB", "VRB, memory", "GroupVRB", "EpochVRB", "EpochVRB, share"}
    shuffled |= {"InfoBatch", "Latest", "Cyclic"}
    assert {name for name in SAMPLERS if not SAMPLERS[name](1).independent} == shuffled
    assert tombola.VRB(3, shuffle=False).independent
    assert tombola.GroupVRB([0, 1], shuffle=False).independent


@pytest.mark.parametrize("name", ["VRB", "GroupVRB", "SRG", "Avare", "Safe"])
def test_the_unit_is_that_of_the_first_loss_above_0(name):
    """However small: squares of later losses in a unit of 1 could vanish."""
    sampler = SAMPLERS[name](3)
    for loss, unit in ((0.0, 0.0), (0.75e-200, 1 / power_of_two_near(0.75e-200))):
        draw = sampler.draw(200)  # SRG learns when its coin says so
        sampler.update(draw, np.full(200, loss))
        assert sampler.state.rule[0].unit == unit


@pytest.mark.parametrize("make", [tombola.VRB, tombola.FTRL])
@pytest.mark.parametrize("bound", [2, [2.0], np.array(2.0)])
def test_one_bound_is_kept_as_a_number(make, bound):
    assert type(make(5, bound=bound).parameters["bound"]) is float
    assert type(tombola.MABS(5, horizon=9, bound=bound).parameters["bound"]) is float


def test_bounds_of_two_items_are_those_of_each():
    """p is proportional to the roots of the bounds, but for the mixing."""
    sampler = tombola.VRB(2, bound=[1.0, 9.0], mixing=0.1)
    assert sampler.probabilities() == pytest.approx([0.9 / 4 + 0.05, 0.9 * 3 / 4 + 0.05], rel=1e-6)


@pytest.mark.parametrize(
    ("size", "error"), [(-1, ValueError), (2.0, TypeError), (np.int64(-3), ValueError)]
)
def test_sizes_that_are_none(size, error):
    sampler = tombola.VRB(5)
    with pytest.raises(error, match="size must"):
        sampler.draw(size)
    assert len(sampler.draw(np.int64(3))) == 3
    assert len(sampler.draw(0)) == 0


def test_a_mixing_just_below_1_is_uniform():
    """The integer that is added to all weights would not fit into 64 bits."""
    sampler = tombola.VRB(5, bound=1.0, mixing=1 - 2.0**-32)
    sampler.update(sampler.draw(20), np.linspace(0, 1, 20))
    assert sampler.probabilities().tolist() == [0.2] * 5
    assert set(sampler.draw(100).indices) == set(range(5))


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("losses", [(1.0, 1e308), (1e308, 5e-324), (0.0, 1.7e308)])
def test_a_state_after_any_losses_can_be_loaded(name, losses):
    """The limits of states have room for all that honest feedback can lead to."""
    sampler = SAMPLERS[name](3)
    for k in range(30):
        draw = sampler.draw(5)
        if sampler.feedback == "all":
            sampler.update_all(np.full(N, losses[k % 2]))
        else:
            sampler.update(draw, np.full(len(draw), losses[k % 2]))
    state = sampler.state_dict()
    other = SAMPLERS[name](3)
    other.load_state_dict(state)
    assert same(other.state_dict(), state)
