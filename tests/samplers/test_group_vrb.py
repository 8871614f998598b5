import numpy as np
import pytest

import budget
import tombola
from tombola import GroupVRB, Stream
from tombola.samplers.group_rule import rebuild_groups
from tombola.samplers.groups import group_numbers


class Oracle:
    """The rule of the docstring, in numpy, everything recomputed at every step."""

    def __init__(self, groups, scales=None):
        self.group = np.asarray(groups)
        self.s = np.ones(len(groups)) if scales is None else scales
        self.n, self.size = len(groups), np.bincount(groups)
        groups_there = len(self.size)
        self.h, self.v = np.ones(self.n), np.zeros(self.n)
        self.a = np.floor(2.0**20 * self.s)
        self.kappa, self.seen = np.zeros(groups_there), np.zeros(groups_there)
        self.level, self.t = 0.0, 0

    def begin_anew(self):
        fed = self.t
        self.__init__(self.group, self.s)
        self.t = fed

    def probabilities(self):
        total = np.bincount(self.group, weights=self.a)
        kappa = np.where(self.seen > 0, self.kappa, self.level) if self.level else 1.0
        value = total * np.sqrt(kappa)
        share = (value / value.sum())[self.group]
        inside = self.a / total[self.group]
        groups_there = len(self.size)
        return (
            0.75 * share * inside + 0.125 / self.n + 0.125 / (groups_there * self.size[self.group])
        )

    def update(self, item, loss):
        c, squared = self.group[item], loss**2 / self.s[item] ** 2
        relative = squared / self.h[item]
        self.t += 1
        self.seen[c] += 1
        self.level += (relative - self.level) * 2 / (self.t + 1)
        if self.seen[c] == 1:
            self.kappa[c] = self.level
        self.kappa[c] += (relative - self.kappa[c]) * 2 / (self.seen[c] + 2)
        inside = self.group == c
        root = self.a[inside].sum() / 2**20 / self.s[inside].sum()
        level = self.kappa[c] * root**2
        if level > 0:
            self.v[item] = min(15, self.v[item] + 1)
            self.h[item] += (squared / level - self.h[item]) / (1 + self.v[item])
            self.h[item] = max(1 / 16, self.h[item])
            self.a[item] = np.floor(2**20 * self.s[item] * np.sqrt(self.h[item]))


@pytest.mark.kernels
@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
def test_the_rule_against_the_oracle(scale):
    """Two groups, so that each update refreshes both and no group weight is out of date."""
    groups = [0, 1, 1, 0, 1, 1, 1]
    losses = Stream(1).integers(1000, 60) / 300.0
    sampler, oracle = GroupVRB(groups, seed=2), Oracle(groups)
    for loss in losses:
        draw = sampler.draw(1)
        assert draw.probabilities[0] == pytest.approx(
            oracle.probabilities()[draw.indices[0]], rel=1e-9
        )
        sampler.update(draw, [loss * scale])
        oracle.update(draw.indices[0], loss)
        np.testing.assert_allclose(sampler.probabilities(), oracle.probabilities(), rtol=1e-9)
    assert sampler.probabilities().sum() == pytest.approx(1, abs=1e-12)


def follow(sampler, oracle, losses):
    """Feed losses of all items in turn; compare the probabilities after each one."""
    n = oracle.n
    for k, loss in enumerate(losses):
        sampler.update(tombola.Draw([k % n], [1 / n], n), [loss])
        oracle.update(k % n, loss)
        np.testing.assert_allclose(sampler.probabilities(), oracle.probabilities(), rtol=1e-9)
        assert sampler.state.visits[sampler.state.place[k % n]] == oracle.v[k % n]
        assert 2**40 <= sampler.state.index.sums[0].total <= 2**60


GROUPS = np.array([0, 1, 1, 0, 1, 1, 1])


@pytest.mark.kernels
def test_items_without_losses_keep_a_sixteenth():
    """Zero after zero: h ends at its least value, and the weights of the groups are rebuilt."""
    sampler, oracle = GroupVRB(GROUPS), Oracle(GROUPS)
    follow(sampler, oracle, [2.0, 1.0, 0.5, 3.0, 1.5, 1.0, 0.1])
    before = float(sampler.state.rule[0].scale)
    follow(sampler, oracle, 2000 * [0.0])
    assert (oracle.h == 1 / 16).all()
    assert sampler.state.rule[0].scale > before


@pytest.mark.kernels
@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
def test_bounds_against_the_oracle(unit):
    """Scales are the roots of the bounds, of mean 1; levels are relative to them."""
    roots = np.array([1.0, 2.0, 0.5, 3.0, 1.5, 1.0, 0.75])
    sampler = GroupVRB(GROUPS, bound=unit * roots**2)
    oracle = Oracle(GROUPS, roots / roots.mean())
    follow(sampler, oracle, Stream(1).integers(1000, 60) / 300.0)
    spread = [np.average(oracle.a[oracle.group == c] / 2**20) for c in (0, 1)]
    means = [oracle.s[oracle.group == c].mean() for c in (0, 1)]
    assert abs(spread[0] / means[0] - 1) > 0.01
    for c, (level, count) in sampler.group_levels().items():
        expected = np.sqrt(oracle.kappa[c]) * spread[c] / means[c]
        assert level == pytest.approx(expected, rel=1e-9)
        assert count == oracle.seen[c]


@pytest.mark.kernels
def test_a_loss_beyond_all_others_starts_over():
    """2^100 times the first one: the rest is negligible, counts of groups and visits too."""
    sampler, oracle = GroupVRB(GROUPS), Oracle(GROUPS)
    losses = Stream(1).integers(1000, 56) / 300.0
    follow(sampler, oracle, losses)
    for factor in (2.0**120, 2.0**240):
        unit = float(sampler.state.rule[0].unit)
        sampler.update(tombola.Draw([0], [1 / 7], 7), [factor])
        oracle.begin_anew()
        oracle.update(0, 1.0)
        assert sampler.state.rule[0].unit < unit
        assert sampler.state.fallback[0].uniform == pytest.approx(0.25)  # of this loss alone
        np.testing.assert_allclose(sampler.probabilities(), oracle.probabilities(), rtol=1e-9)
        for k, loss in enumerate(losses):
            sampler.update(tombola.Draw([k % 7], [1 / 7], 7), [loss * factor])
            oracle.update(k % 7, loss)
            np.testing.assert_allclose(sampler.probabilities(), oracle.probabilities(), rtol=1e-9)


@pytest.mark.kernels
def test_a_group_far_below_the_others_keeps_a_weight():
    sampler = GroupVRB([0, 1, 1])
    for item, loss in ((0, 1.0), (1, 2.0**99), (2, 2.0**99), (0, 1.0), (0, 0.0)):
        sampler.update(tombola.Draw([item], [1 / 3], 3), [loss])
        assert sampler.state.index.weights.min() >= 1
    assert sampler.state.index.weights[0] == 1
    assert sampler.state.index.sums[0].total <= 2**60


@pytest.mark.kernels
def test_groups_without_losses_are_refreshed_in_turn():
    """One of four groups has losses: each update brings the next other one up to date."""
    sampler = GroupVRB([0, 1, 2, 3])
    for k, loss in enumerate((1.0, 5.0, 0.5, 7.0, 2.0)):
        sampler.update(tombola.Draw([0], [1 / 4], 4), [loss])
        turn = (1, 2, 3, 1, 2)[k]
        assert sampler.state.rule[0].cursor == turn
        level, scale = sampler.state.rule[0].level, sampler.state.rule[0].scale
        assert sampler.state.index.weights[turn] == int(np.sqrt(level) * scale)


@pytest.mark.kernels
@pytest.mark.parametrize(("real", "weight"), [(0.5, 1), (1.5, 1), (2.5, 2), (3.5, 3)])
def test_weights_of_groups_are_rounded_down_to_1_at_least(real, weight):
    sampler = GroupVRB([0, 1])
    sampler.state.rule[0].level = 1.0
    sampler.state.seen[:] = 1
    sampler.state.levels[:] = 1.0, (real * 2.0**-49) ** 2  # the total is just above 1
    rebuild_groups(sampler.state)
    assert sampler.state.index.weights.tolist() == [2**49, weight]


def test_the_floor_holds_whatever_the_losses():
    groups = np.repeat([0, 1, 2], [1, 9, 90])
    sampler = GroupVRB(groups)
    floor = 1 / 800 + 1 / (24 * np.bincount(groups)[groups])
    for k in range(200):
        draw = sampler.draw(8)
        sampler.update(draw, 10.0 ** ((draw.indices + k) % 40 - 20))
        assert (sampler.probabilities() >= floor * (1 - 1e-12)).all() or sampler.mode == "shuffle"


def frequencies_excess(sampler, probabilities):
    items = sampler.draw(1_000_000).indices
    return budget.chi_square_excess(np.bincount(items, minlength=len(probabilities)), probabilities)


def test_frequencies_are_the_reported_probabilities():
    groups = np.repeat([0, 1, 2], [600, 390, 10])
    losses = np.array([0.1, 1.0, 5.0])[groups] * (1 + np.arange(1000) % 7)
    sampler = GroupVRB(groups)
    for _ in range(20):
        draw = sampler.draw(30)
        sampler.update(draw, losses[draw.indices])
    sampler.state.fallback[0].left = 2**40  # no end of a block during this test
    reported = sampler.probabilities()
    assert frequencies_excess(sampler, reported) < 1
    wrong = np.bincount(groups, weights=reported)[groups] / np.bincount(groups)[groups]
    assert frequencies_excess(sampler, wrong) > 1  # the wrong report: uniform inside the groups


def test_a_rare_heavy_group_is_found_within_an_epoch():
    groups = np.array(["common"] * 990 + ["rare"] * 10)
    losses = np.where(groups == "rare", 10.0, 0.1)
    sampler = GroupVRB(groups)
    for _ in range(30):
        draw = sampler.draw(16)
        sampler.update(draw, losses[draw.indices])
    p = sampler.probabilities()
    ratio = (losses**2 / p).sum() / (1000 * (losses**2).sum())
    assert ratio < 0.05  # uniform: 1; the best possible: 0.012
    assert sampler.labels == ["common", "rare"]
    assert sampler.group_probabilities()[1] > 0.4  # 1% of the items


def test_equal_losses_end_in_shuffled_epochs_and_a_change_ends_those():
    groups = np.arange(400) % 4
    sampler = GroupVRB(groups)
    for _ in range(100):
        draw = sampler.draw(16)
        sampler.update(draw, np.ones(16))
    assert sampler.gauge.mode == "shuffle"
    losses = np.where(groups == 0, 10.0, 0.1)
    for _ in range(200):
        draw = sampler.draw(16)
        sampler.update(draw, losses[draw.indices])
    assert sampler.gauge.mode == "adaptive"


def test_a_batch_is_fed_one_by_one():
    one, many = GroupVRB([0, 1, 1, 2, 2, 2]), GroupVRB([0, 1, 1, 2, 2, 2])
    draw = one.draw(50)
    losses = 1.0 + draw.indices
    many.update(draw, losses)
    for ticket, loss in zip(draw, losses, strict=True):
        one.update(ticket, [loss])
    assert (one.probabilities() == many.probabilities()).all()


def test_save_and_load_keep_the_labels(tmp_path):
    sampler = GroupVRB(np.array(["b", "a", "b"]))
    sampler.update(sampler.draw(4), np.ones(4))
    tombola.save(sampler, tmp_path / "sampler.npz")
    copy = tombola.load(tmp_path / "sampler.npz")
    assert copy.labels == ["a", "b"]
    assert copy.draw(20) == sampler.draw(20)


@pytest.mark.parametrize("labels", [["a", 1, 2.5], [("a", 1), ("b", 2)], [("a",), ("b", 2)]])
def test_labels_that_are_not_of_one_simple_kind_are_saved_as_numbers(labels, tmp_path):
    sampler = GroupVRB([*labels, labels[0]], labels=labels)
    assert sampler.labels == labels
    sampler.update(sampler.draw(4), np.ones(4))
    tombola.save(sampler, tmp_path / "sampler.npz")
    copy = tombola.load(tmp_path / "sampler.npz")
    assert copy.labels == list(range(len(labels)))
    assert copy.draw(20) == sampler.draw(20)


def test_labels_of_any_hashable_kind():
    mixed = [("a", 1), frozenset([2]), 3]
    numbers, labels = group_numbers(mixed)
    assert numbers.tolist() == [0, 1, 2]
    assert labels == [("a", 1), frozenset([2]), 3]
    assert GroupVRB(mixed).draw(3).n == 3


@pytest.mark.parametrize(
    ("groups", "labels", "message"),
    [
        ([], None, "groups is empty"),
        (["a", None], None, r"groups\[1\] is None: that item has no group"),
        ([1.0, float("nan")], None, r"groups\[1\] is nan: that item has no group"),
        (np.array([[1, 2]]), None, r"groups must have one dimension, got shape \(1, 2\)"),
        (["a", "b"], ["a", "b", "c"], "group 'c' has no items"),
        (["a", "x"], ["a"], r"groups\[1\] is 'x', which is not in labels"),
        (["a", "b"], ["a", "a", "b"], "labels names 'a' twice"),
        (["a", "b"], ["b", "a", "b"], "labels names 'b' twice"),
    ],
)
def test_bad_groups_are_named(groups, labels, message):
    with pytest.raises(ValueError, match=message):
        GroupVRB(groups, labels=labels)


def test_labels_that_are_not_hashable():
    with pytest.raises(TypeError, match=r"groups\[0\] is \[1, 2\], which is not hashable"):
        GroupVRB([[1, 2]])
    with pytest.raises(TypeError, match="groups must be a sequence of labels, got 5"):
        GroupVRB(5)


def test_save_and_load_keep_the_order_of_the_labels(tmp_path):
    sampler = GroupVRB(["b"] * 3 + ["a"] * 7, labels=["b", "a"], seed=1)
    draw = sampler.draw(50)
    sampler.update(draw, np.where(draw.indices < 3, 5.0, 0.1))
    tombola.save(sampler, tmp_path / "sampler.npz")
    copy = tombola.load(tmp_path / "sampler.npz")
    assert copy.labels == ["b", "a"]
    assert (copy.probabilities() == sampler.probabilities()).all()
    sampler.reset()
    assert sampler.labels == ["b", "a"]


def test_a_tiny_first_loss_does_not_stop_it_from_learning():
    groups = np.arange(300) % 3
    losses = np.array([0.1, 0.1, 5.0])[groups]
    sampler = GroupVRB(groups)
    sampler.update(sampler.draw(1), [1e-90])
    for _ in range(50):
        draw = sampler.draw(20)
        sampler.update(draw, losses[draw.indices])
    assert sampler.group_probabilities()[2] > 0.6


def test_bounds_are_the_distribution_to_begin_with():
    labels = np.array(["a"] * 6 + ["b"] * 4)
    bounds = np.arange(1.0, 11.0) ** 2
    sampler = tombola.GroupVRB(labels, bound=bounds)
    n, share = 10, np.arange(1.0, 11.0) / 55  # 3/4 of the draws by the roots of the bounds
    balanced = np.where(labels == "a", 1 / 12, 1 / 8)
    expected = 0.75 * share + 0.125 / n + 0.125 * balanced
    np.testing.assert_allclose(sampler.probabilities(), expected, rtol=1e-5)


def test_bounds_in_any_unit_and_losses_in_proportion_change_nothing():
    """Losses that are in proportion to the roots of the bounds say nothing new."""
    scales = np.linspace(1.0, 5.0, 50)
    sampler = tombola.GroupVRB(np.zeros(50), bound=1e12 * scales**2)
    before = sampler.probabilities()
    for _ in range(200):
        draw = sampler.draw(8)
        sampler.update(draw, 3.0 * scales[draw.indices])
    np.testing.assert_allclose(sampler.probabilities(), before, rtol=1e-3)
    without = tombola.GroupVRB(np.zeros(50))
    for _ in range(200):
        draw = without.draw(8)
        without.update(draw, 3.0 * scales[draw.indices])
    assert np.abs(without.probabilities() / (1 / 50) - 1).max() > 0.2  # it had to learn them


def test_a_bound_of_zero_still_leaves_the_item_a_chance():
    sampler = tombola.GroupVRB(np.zeros(4), bound=[0.0, 1.0, 1.0, 1.0])
    assert sampler.probabilities()[0] >= 1 / (8 * 4)
    sampler.update(sampler.draw(64), np.full(64, 2.0))
    assert np.isfinite(sampler.probabilities()).all()
    with pytest.raises(ValueError, match=r"bound\[2\] is -1"):
        tombola.GroupVRB(np.zeros(3), bound=[1.0, 1.0, -1.0])


def test_without_shuffling_it_adapts_for_ever():
    """Equal losses: nothing to gain, so the guard would deal shuffled epochs."""
    for shuffle, mode in ((True, "shuffle"), (False, "adaptive")):
        sampler = tombola.GroupVRB(np.arange(300) % 3, shuffle=shuffle)
        for _ in range(40):
            draw = sampler.draw(64)
            sampler.update(draw, np.ones(64))
        assert sampler.mode == mode


def test_bound_and_shuffle_survive_saving(tmp_path):
    sampler = tombola.GroupVRB(np.arange(20) % 2, bound=np.arange(1.0, 21.0), shuffle=False)
    sampler.update(sampler.draw(30), np.ones(30))
    tombola.save(sampler, tmp_path / "s.npz")
    copy = tombola.load(tmp_path / "s.npz")
    assert (copy.draw(50).indices == sampler.draw(50).indices).all()
    assert copy.mode == "adaptive"


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
def test_levels_carry_over_to_other_items(scale):
    groups = np.array(["a"] * 30 + ["b"] * 60 + ["c"] * 10)
    losses = np.select([groups == "a", groups == "b"], [4.0, 1.0], 0.5) * scale
    old = GroupVRB(groups, seed=1)
    for _ in range(40):
        draw = old.draw(50)
        old.update(draw, losses[draw.indices])
    levels = old.group_levels()
    assert levels["a"][0] == pytest.approx(4.0 * scale, rel=0.1)
    assert levels["b"][0] == pytest.approx(1.0 * scale, rel=0.1)
    new = GroupVRB(["b"] * 50 + ["a"] * 40 + ["d"] * 10, seed=2)
    new.start_from(levels)
    share = dict(zip(new.labels, new.group_probabilities(), strict=True))
    # 3/4 (n_c level_c / sum) + 1/8 n_c / n + 1/8 / 3, where d is taken for an average group
    roots = np.array([levels["a"][0], levels["b"][0], 0.0]) / scale
    counts = [100, 100, 0]
    roots[2] = np.sqrt(np.average(roots**2, weights=counts))
    value = np.array([40, 50, 10]) * roots
    expected = 0.75 * value / value.sum() + np.array([40, 50, 10]) / 800 + 1 / 24
    assert [share["a"], share["b"], share["d"]] == pytest.approx(expected, rel=1e-6)
    copy = GroupVRB(["b"] * 50 + ["a"] * 40 + ["d"] * 10, seed=2)
    copy.load_state_dict(new.state_dict())
    assert (copy.draw(50).indices == new.draw(50).indices).all()
    new.reset()
    assert new.group_levels() == {}


def test_levels_that_do_not_fit():
    sampler = GroupVRB(["a", "b"])
    assert sampler.group_levels() == {}
    sampler.start_from({})
    sampler.start_from({"other": (1.0, 5)})
    assert sampler.group_levels() == {}
    with pytest.raises(ValueError, match=r"levels\['a'\] is \(nan, 3\)"):
        sampler.start_from({"a": (float("nan"), 3)})
    draw = sampler.draw(1)
    sampler.update(draw, [1.0])
    with pytest.raises(ValueError, match="must be called before the first draw"):
        sampler.start_from({"a": (1.0, 3)})


@pytest.mark.parametrize("pair", [5.0, "ab", (1.0,), (1.0, 2, 3), (-1.0, 3), (np.inf, 3), (1.0, 0)])
def test_levels_that_are_no_pairs_of_a_level_and_a_count(pair):
    with pytest.raises(ValueError, match=r"levels\['a'\] is .*: a finite level, not negative, and"):
        GroupVRB(["a", "b"]).start_from({"a": pair})


def test_levels_come_before_the_first_draw_and_the_first_loss():
    drawn, fed = GroupVRB(["a", "b"]), GroupVRB(["a", "b"])
    drawn.draw(1)
    fed.update(tombola.Draw([0], [0.5], 2), [1.0])
    for sampler in (drawn, fed):
        with pytest.raises(ValueError, match="before the first draw and the first update"):
            sampler.start_from({"a": (1.0, 3)})


def test_levels_are_kept_in_the_unit_of_the_largest():
    """As if it were the first loss; in that of another one it could overflow."""
    sampler = GroupVRB(["a", "b"])
    sampler.start_from({"a": (1e-200, 5), "b": (0.75 * 2.0**600, 5)})
    assert sampler.state.rule[0].unit == 2.0**-600
    assert sampler.group_levels() == {"a": (0.0, 5), "b": (0.75 * 2.0**600, 5)}


def test_after_a_million_zeros_it_learns_again():
    """Levels fall with the square of the number of losses: they stay far from the least number."""
    groups = np.arange(20) % 4
    losses = (1.0 + np.arange(20) % 5) * np.array([1, 2, 4, 8])[groups]
    sampler, fresh = (GroupVRB(groups, seed=seed, shuffle=False) for seed in (1, 2))
    draw = sampler.draw(300)
    sampler.update(draw, losses[draw.indices])
    sampler.update(sampler.draw(10**6), np.zeros(10**6))
    assert sampler.state.rule[0].level > 1e-12
    assert sampler.state.levels.min() > 1e-12
    for player in (sampler, fresh):
        for _ in range(4000):
            draw = player.draw(1)
            player.update(draw, losses[draw.indices])
    assert sampler.probabilities() == pytest.approx(fresh.probabilities(), rel=0.2)
