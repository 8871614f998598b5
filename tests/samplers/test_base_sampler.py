"""What the base class does for every sampler: sizes, losses, counts, states, copies."""

import copy

import numpy as np
import pytest

from states import same
from tombola import VRB, AdaptiveWeighted, Draw, Uniform, load, save
from tombola.samplers.arithmetic import cube_root, normalised
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.state import LARGEST_COUNT, MOST, CheckpointError, Floats, Ints, array

pytestmark = pytest.mark.kernels


def played(**more):
    sampler = VRB(6, seed=3, **more)
    for k in range(4):
        draw = sampler.draw(5)
        sampler.update(draw, 1.0 + (draw.indices + k) % 3)
    return sampler


def test_a_state_brings_its_quantity():
    sampler = played()
    sampler.load_state_dict(played(quantity="gradient norm").state_dict())
    assert sampler.quantity == "gradient norm"


@pytest.mark.parametrize("quantity", ["loss", "gradient norm"])
def test_a_reset_keeps_the_quantity(quantity):
    sampler = played(quantity=quantity)
    sampler.reset()
    assert sampler.quantity == sampler.gauge.quantity == quantity
    assert ("quantity" in sampler.parameters) == (quantity != "loss")


def test_rounds_count_draws():
    sampler = Uniform(4)
    numbers = [sampler.draw(size).round for size in (1, 0, np.int64(3), 7)]
    assert numbers == [0, 1, 2, 3]
    assert sampler.rounds == 4
    assert sampler.state_dict()["tally"]["rounds"] == 4


def test_a_state_without_arrays_is_loaded_for_any_number_of_items(tmp_path):
    sampler = Uniform(10**12, seed=2)
    sampler.draw(3)
    save(sampler, tmp_path / "it")
    assert load(tmp_path / "it").draw(9) == sampler.draw(9)


@pytest.mark.parametrize("size", [0, np.int64(0), 1, np.uint8(2)])
def test_sizes(size):
    draw = VRB(5).draw(size)
    assert draw.indices.shape == draw.probabilities.shape == (size,)


@pytest.mark.parametrize(
    "losses",
    [
        [1, 2, 4],
        (1.0, 2.0, 4.0),
        np.array([1, 2, 4], dtype=np.uint8),
        np.array([1, 2, 4], dtype=np.float32),
        np.array([1.0, 9.0, 2.0, 9.0, 4.0])[::2],
        np.array([4.0, 2.0, 1.0])[::-1],
    ],
)
def test_losses_of_other_types_and_layouts(losses):
    ours, theirs = VRB(3, seed=1), VRB(3, seed=1)
    draw = Draw([0, 1, 2], [0.2, 0.3, 0.5], 3)
    ours.update(draw, np.array([1.0, 2.0, 4.0]))
    theirs.update(draw, losses)
    assert same(ours.state_dict(), theirs.state_dict())


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("loss", [-1.0, np.nan, np.inf])
def test_a_bad_loss_is_named_and_changes_nothing(position, loss):
    sampler = VRB(3)
    before, losses = sampler.state_dict(), np.ones(3)
    losses[position] = loss
    with pytest.raises(
        ValueError, match=rf"losses\[{position}\] is {loss} \(item {2 - position}\)"
    ):
        sampler.update(Draw([2, 1, 0], [0.2, 0.3, 0.5], 3), losses)
    assert same(sampler.state_dict(), before)


@pytest.mark.parametrize(
    ("losses", "error", "message"),
    [
        ([1.0, 2.0], ValueError, r"losses must have shape \(3,\).* got \(2,\)"),
        ([["a"] * 3], TypeError, "losses must hold numbers"),
        ([True] * 3, TypeError, "losses must hold numbers, got dtype bool"),
    ],
)
def test_losses_that_do_not_fit(losses, error, message):
    with pytest.raises(error, match=message):
        VRB(3).update(Draw([2, 1, 0], [0.2, 0.3, 0.5], 3), losses)


def test_draws_that_do_not_fit():
    with pytest.raises(ValueError, match="the draw is over 4 items, this sampler has 3"):
        VRB(3).update(Draw([1], [0.5], 4), [1.0])
    with pytest.raises(TypeError, match=r"draw must be a tombola.Draw, got list"):
        VRB(3).update([1], [1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"position": 2**60 + 1},
            f"position must be .* from 0 to 2.60, got {2**60 + 1}",
        ),
        ({"position": -1}, "position must be an integer from 0"),
        ({"quantity": 3}, "quantity must be a text, got 3 of type int"),
    ],
)
def test_states_that_do_not_fit(change, message):
    sampler = played()
    before = sampler.state_dict()
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(before | change)
    assert same(sampler.state_dict(), before)
    sampler.load_state_dict(before | {"position": 2**60})
    assert sampler.state_dict()["position"] == 2**60


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("rounds", 0, 2**60),
        ("count", 0, 2**60),
        ("ours", 0.0, 2.0**460),
        ("surprise", 0.0, 2.0**460),
        ("largest_loss", 0.0, MOST),
        ("ours_spread", 0.0, 2.0**990),
        ("cross_spread", -(2.0**990), 2.0**990),
    ],
)
def test_ends_of_the_ranges_of_the_tally(name, low, high):
    sampler = played()
    before = sampler.state_dict()
    for number in (low, high):
        played().load_state_dict(before | {"tally": before["tally"] | {name: number}})
    for number in (
        (1.01 * low or -1, high + 1)
        if isinstance(high, int)
        else (
            1.01 * low or -1.0,
            1.01 * high,
            float("nan"),
        )
    ):
        with pytest.raises(CheckpointError, match=f"tally.{name} must be .*, got "):
            sampler.load_state_dict(before | {"tally": before["tally"] | {name: number}})
    played().load_state_dict(before | {"tally": before["tally"] | {"cross_spread": -1.0}})


class SumState(Compiled):
    """Deals items in turn, and sums up the losses of each; `Compiled` does the rest."""

    turn: Ints = array("items dealt", 0, LARGEST_COUNT)
    sums: Floats = array("the sum of the losses of each item")

    def draw_one(self):
        self.turn[0] += 1
        return self.turn[0] % self.sums.size, 1.0 / self.sums.size

    def update_one(self, item, probability, loss):
        self.sums[item] += loss / probability


class Sums(CompiledSampler):
    def __init__(self, n, *, seed=0):
        super().__init__(n, seed)
        turn = np.zeros(1, dtype=np.int64)
        self.state = SumState(stream=self._stream.state, turn=turn, sums=np.zeros(n))


def test_a_rule_of_one_item_and_one_loss_is_enough():
    sampler = Sums(3)
    draw = sampler.draw(5)
    assert draw.indices.tolist() == [1, 2, 0, 1, 2]
    sampler.update(draw, [1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(sampler.state.sums, [9.0, 15.0, 21.0], rtol=1e-14)
    assert sampler.probabilities().tolist() == [1 / 3] * 3
    copied = copy.deepcopy(sampler)
    assert copied.state.sums.tolist() == sampler.state.sums.tolist()
    assert copied.draw(2) == sampler.draw(2)


@pytest.mark.parametrize("floor", [0, -0.1, 0.51, np.nan])
def test_floors_of_shares(floor):
    with pytest.raises(ValueError, match=r"floor must be above 0 and at most 0.5, got"):
        AdaptiveWeighted([0, 1], floor=floor)
    assert AdaptiveWeighted([0, 1], floor=0.5).n == 2


@pytest.mark.parametrize("step", [0, -1.0, np.inf, np.nan])
def test_steps_of_shares(step):
    with pytest.raises(ValueError, match="step must be positive and finite"):
        AdaptiveWeighted([0, 1], step=step)


def test_the_digits_of_cube_roots():
    """As they have always been: the draws of `VRB` with a horizon depend on them."""
    x = np.arange(1, 2001) / 2000.0
    roots = np.array([cube_root(each) for each in x])
    np.testing.assert_allclose(roots, np.cbrt(x), rtol=4e-16)
    assert np.sum(np.ldexp(roots, 60) % 2**8) == 176224  # of their last bits
    assert cube_root(1e-30) == pytest.approx(1e-10, rel=1e-15)


def test_losses_in_a_unit_have_finite_squares():
    assert normalised(3.0, 0.5) == 1.5
    assert normalised(2.0**250, 1.0) == normalised(1e300, 1e300) == 2.0**250
