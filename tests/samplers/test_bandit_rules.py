"""`VRB`, `GroupVRB` and `AdaptiveWeighted`, step by step against their rules in plain Python.

As in `test_rules.py`: after each batch, every number of the state is what the rule says.
"""

import math

import numba
import numpy as np
import pytest
from test_rules import Rule, game, unit_of

import tombola
from tombola.index.layout import build
from tombola.samplers import fallback, weighted

pytestmark = pytest.mark.kernels


class Printed(Rule):
    """Algorithm 1, with a fixed theta, one that falls, or phases; and fading."""

    def __init__(self, n, *, bound, mixing=None, horizon=None, schedule=None, memory=None):
        bounds = np.broadcast_to(np.asarray(bound, dtype=float), n)
        fixed = mixing is not None or horizon is not None
        theta = mixing or (min(1.0, (n / horizon) ** (1 / 3)) if horizon else 1.0)
        theta = math.ceil(theta * 2**32) / 2**32
        unit = unit_of(math.sqrt(bounds.max()))
        fade = 1.0 if memory is None else 1 / (1 + n / (2 * memory))
        kind = 0 if fixed else {"doubling": 2, None: 1, "anytime": 1}[schedule]
        super().__init__(
            n, theta, unit=unit, fade=fade, bound=bounds[0] * unit * unit, factor=n / theta,
            schedule=kind, due=n,
        )  # fmt: skip
        self.rtol, self.stale = 0.0 if fixed else 1e-9, kind > 0 or fade < 1
        self.bounds = bounds * unit * unit
        if np.ndim(bound):
            self.bounds = self.bounds.astype(np.float32).astype(float)
        self.arrays["scores"] = np.zeros(n)
        self.begin()

    def absorb(self, i, p, loss):
        loss = min(loss * self.rule["unit"], 2.0**250)
        self.arrays["scores"][i] += loss * loss / p

    def value(self, i):
        return math.sqrt(self.arrays["scores"][i] + self.bounds[i] * self.rule["factor"])

    def fade(self, i):
        self.arrays["scores"][i] *= self.rule["fade"]

    def draw(self, size):
        rule, n = self.rule, self.n
        while size and rule["schedule"] and rule["drawn"] >= rule["due"]:
            t = rule["drawn"]
            if rule["schedule"] == 1:
                rule["mixing"] = min(1.0, (n / t) ** (1 / 3))
                rule["due"] = max(n, t + t // 16 + 1)
            else:
                rule["mixing"] *= 0.5 ** (1 / 3)
                rule["due"] = 2 * rule["due"] + n
                self.arrays["scores"][:] = 0.0
            rule["factor"] = n / rule["mixing"]
            for i in range(n if rule["schedule"] == 2 else 0):
                self.put(i)
        return super().draw(size)


class Falls:
    """The fallback: blocks of draws, and what would have been."""

    def __init__(self, n, shuffle):
        block = n * math.ceil(256 / n)
        self.sums = {
            "ours": 0.0, "uniform": 0.0, "left": block, "block": block, "shuffling": 0,
            "allowed": int(shuffle),
        }  # fmt: skip

    def forget(self):
        self.sums.update(ours=0.0, uniform=0.0)

    def judge(self, squared, n, p, candidate):
        self.sums["uniform"] += squared / (n * p)
        self.sums["ours"] += squared / (n * p) / (n * candidate)

    def begin(self, size):
        """How many of these draws are in one block."""
        sums = self.sums
        if not sums["allowed"]:
            return size
        if sums["left"] == 0:
            ratio = sums["ours"] / sums["uniform"] if sums["uniform"] else 1.0
            sums["shuffling"] = int(ratio >= (0.9 if sums["shuffling"] else 0.95))
            sums["left"] = sums["block"]
            sums["ours"] /= 2
            sums["uniform"] /= 2
        size = min(size, sums["left"])
        sums["left"] -= size
        return size


class ParameterFree(Rule):
    """Shrunk averages; see `tombola.samplers.default_rule`."""

    stale = True

    def __init__(self, n, *, memory=None, shuffle=True):
        fade = 1.0 if memory is None else 1 / (1 + n / (2 * memory))
        super().__init__(
            n, 1.0, unit=0.0, fade=fade, mean_square=0.0, disagreement=0.0, compared=0.0,
            first_root=0.0,
        )  # fmt: skip
        self.rtol = 0.0 if memory is None else 1e-6  # faded visits are float32
        self.falls = Falls(n, shuffle)
        self.h, self.visits = np.zeros(n), np.zeros(n, dtype=np.float32)
        self.arrays = {"scores": self.h, "visits": self.visits, "fallback": self.falls.sums}
        self.begin()

    def absorb(self, i, p, loss):
        rule, n = self.rule, self.n
        share = max(1 / (rule["fed"] + 1), 1 / n)
        least = 2.0**-200 * (rule["first_root"] * rule["first_root"])
        faint = rule["unit"] > 0 and loss > 0 and rule["mean_square"] <= least
        if loss * rule["unit"] > 2.0**100 or faint:
            rule.update(unit=0.0, mean_square=0.0, disagreement=0.0, compared=0.0)
            self.falls.forget()
            self.h[:] = 0.0
            self.visits[:] = 0.0
            self.rebuild()
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
            first = loss * rule["unit"]
            rule["first_root"] = math.sqrt(share * (first * first / (n * p)))
        squared = loss * rule["unit"] * (loss * rule["unit"])
        if rule["unit"] > 0:
            least, m = 2.0**-200 * (rule["first_root"] * rule["first_root"]), rule["mean_square"]
            moved = m + share * (squared / (n * p) - m)
            rule["mean_square"] = m = max(least, min(moved, 2 * m) if m > 0 else moved)
            squared = min(squared, 8.0 * n * m)
            if self.visits[i] > 0:
                self.falls.judge(squared, n, p, super().probabilities()[i])
        h, visits = float(self.h[i]), float(self.visits[i])
        if visits > 0 and squared + h > 0:
            rule["compared"] += 1.0
            gap = 1 - 2 * math.sqrt(squared * h) / (squared + h) - rule["disagreement"]
            rule["disagreement"] += max(1 / (rule["compared"] + 1), 1 / n) * gap
        self.h[i] = h + (squared - h) / min(visits + 1, 32.0)
        self.visits[i] = visits + 1

    def value(self, i):
        rule, h, visits = self.rule, float(self.h[i]), float(self.visits[i])
        if rule["unit"] == 0:
            return 1.0
        k = 0.125 + (0.5 if h > 0 else 8.0) * rule["disagreement"] * rule["disagreement"]
        return math.sqrt((visits * h + k * rule["mean_square"]) / (visits + k)) / rule["first_root"]

    def fade(self, i):
        self.visits[i] = float(self.visits[i]) * self.rule["fade"]

    def probabilities(self):
        if self.falls.sums["shuffling"]:
            return [1 / self.n] * self.n
        return super().probabilities()

    def draw(self, size):
        rows, n = [np.empty((0, self.n))], self.n
        while size:
            fed = self.rule["fed"]
            self.rule["mixing"] = 1.0 if 4 * fed <= n else math.sqrt(n / (4 * fed))
            part = self.falls.begin(size)
            rows.append(super().draw(part))
            size -= part
        return np.concatenate(rows)


class Grouped:
    """A bandit over groups, with a bandit over items in each; see `tombola.samplers.group_rule`."""

    rtol = 0.0

    def __init__(self, groups, *, bound=None, shuffle=True):
        self.group = np.unique(groups, return_inverse=True)[1]
        self.n, self.count = len(groups), self.group.max() + 1
        self.sizes = np.bincount(self.group)
        self.s = np.ones(self.n)
        if bound is not None:
            roots = np.sqrt(np.asarray(bound) / np.max(bound)) * np.ones(self.n)
            self.s = np.maximum(roots / roots.mean(), 2.0**-20)
        self.rule = {"drawn": 0, "fed": 0, "unit": 0.0, "level": 0.0, "scale": 1.0, "cursor": 0}
        self.falls = Falls(self.n, shuffle)
        self.clear()

    def clear(self):
        self.h, self.visits = np.ones(self.n), np.zeros(self.n, dtype=int)
        self.kappa, self.seen = np.zeros(self.count), np.zeros(self.count, dtype=int)
        self.weights = [self.weight(i) for i in range(self.n)]
        self.tops = [1] * self.count
        self.rebuild()

    def weight(self, i):
        return int(max(1.0, min(2**20 * self.s[i] * math.sqrt(self.h[i]), 2.0**44)))

    def total(self, c):
        return sum(w for w, own in zip(self.weights, self.group, strict=True) if own == c)

    def value(self, c):
        level = self.kappa[c] if self.seen[c] else self.rule["level"]
        if self.rule["level"] == 0:
            level = 1.0
        return self.total(c) / 2**20 * math.sqrt(level)

    def rebuild(self):
        total = 0.0
        for c in range(self.count):
            total += self.value(c)
        self.rule["scale"] = 2.0**50 * unit_of(max(total, 1e-200))
        self.tops = [max(1, int(self.value(c) * self.rule["scale"])) for c in range(self.count)]

    def put(self, c):
        self.tops[c] = max(1, int(min(self.value(c) * self.rule["scale"], 2.0**60)))

    def learn(self, i, p, loss):
        rule, c = self.rule, self.group[i]
        if loss * rule["unit"] > 2.0**100:
            rule.update(unit=0.0, level=0.0)
            self.falls.forget()
            self.clear()
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
        squared = loss * rule["unit"] * (loss * rule["unit"])
        self.falls.judge(squared, self.n, p, self.by_weight(i))
        squared = squared / self.s[i] / self.s[i]
        relative = squared / self.h[i]
        rule["fed"] += 1
        self.seen[c] += 1
        first = rule["level"] == 0 and relative > 0
        rule["level"] += (relative - rule["level"]) * 2.0 / (rule["fed"] + 1.0)
        kappa = self.kappa[c] if self.seen[c] > 1 else rule["level"]
        kappa += (relative - kappa) * 2.0 / (self.seen[c] + 2.0)
        self.kappa[c] = kappa
        root = self.total(c) / (2**20 * np.bincount(self.group, self.s)[c])
        level = kappa * root * root
        if level > 0:
            self.visits[i] = min(self.visits[i] + 1, 15)
            h = self.h[i] + (squared / level - self.h[i]) / (1.0 + self.visits[i])
            self.h[i] = max(1 / 16, h)
            self.weights[i] = self.weight(i)
        self.put(c)
        other = (rule["cursor"] + 1) % self.count
        rule["cursor"] = other = (other + (other == c)) % self.count
        if self.seen[other] == 0:
            self.put(other)
        if first or not 2**40 <= sum(self.tops) <= 2**60:
            self.rebuild()

    def by_weight(self, i):
        c = self.group[i]
        ours = float(self.tops[c]) * float(self.weights[i])
        every = float(sum(self.tops)) * float(self.total(c))
        return 0.75 * ours / every + (0.125 / self.n + 0.125 / (self.count * self.sizes[c]))

    def probabilities(self):
        if self.falls.sums["shuffling"]:
            return [1 / self.n] * self.n
        return [self.by_weight(i) for i in range(self.n)]

    def draw(self, size):
        rows = [np.empty((0, self.n))]
        while size:
            part = self.falls.begin(min(256, size))
            self.rule["drawn"] += part
            rows.append(np.tile(self.probabilities(), (part, 1)))
            size -= part
        return np.concatenate(rows)

    def largest_importance(self):
        return 8.0

    def state(self):
        order = np.argsort(self.group, kind="stable")
        return {
            "rule": self.rule, "fallback": self.falls.sums, "scores": self.h[order],
            "visits": self.visits[order], "members": {"weights": np.array(self.weights)[order]},
            "index": {"weights": np.array(self.tops)}, "levels": self.kappa, "seen": self.seen,
        }  # fmt: skip


class Tau:
    """Softmax shares of groups; see `tombola.samplers.rivals.adaptive_weighted`."""

    rtol = 1e-9

    def __init__(self, groups, *, step=0.05, floor=0.1):
        self.group = np.unique(groups, return_inverse=True)[1]
        self.n, self.sizes, self.floor = len(groups), np.bincount(self.group), floor
        self.rule = {"fed": 0, "unit": 0.0, "mean_v": 0.0, "step": step, "spent": 0.0}
        self.tau = np.log(self.sizes / self.n)
        self.shares = self.sizes / self.n

    def learn(self, i, p, loss):
        rule, c = self.rule, self.group[i]
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
        q = self.shares[c] / self.sizes[c]
        scaled = min(loss * rule["unit"], 2.0**250)
        v = min(scaled / (self.n * p) * (scaled / (self.n * q)), 2.0**500)
        rule["fed"] += 1
        rule["mean_v"] += max(1 / rule["fed"], 0.001) * (v - rule["mean_v"])
        if v == 0 or rule["mean_v"] == 0:
            return
        move = min(rule["step"] * v / rule["mean_v"], 1.0)
        rule["spent"] += move**2
        one = np.arange(len(self.tau)) == c
        tau = self.tau + move / math.sqrt(1 + rule["spent"]) * (one - self.shares)
        least = np.log(self.floor / (1 - self.floor) * self.sizes / self.n)
        self.tau = np.maximum(tau - np.logaddexp.reduce(tau), least)
        self.shares = np.exp(self.tau) / np.exp(self.tau).sum()

    def tops(self):
        return np.ceil(self.shares * 2.0**40).astype(np.int64)

    def probabilities(self):
        return (self.tops() / self.tops().sum() / self.sizes)[self.group]

    def draw(self, size):
        return np.tile(self.probabilities(), (size, 1))

    def largest_importance(self):
        return (1 + 1e-9) * self.tops().sum() / 2.0**40 / self.floor

    def state(self):
        return {"rule": self.rule, "tau": self.tau, "shares": self.shares}


class Mixture:
    """Newton steps on a mixture of distributions; see `tombola.samplers.rivals.vrm`.

    Real numbers are rounded as there: between slopes that are equal but for that, rounding decides.
    """

    rtol = 1e-9

    def __init__(self, components, *, step=0.1, mixing=0.1):
        rows = np.array(components, dtype=float)
        (k, self.n), rows = rows.shape, rows / rows.max(axis=1, keepdims=True)
        whole = np.ceil(rows / rows.sum(axis=1, keepdims=True) * 2.0**40)
        shares = whole / whole.sum(axis=1, keepdims=True) * self.n
        self.p = np.vstack([shares, np.ones(self.n)])  # times n
        self.w = np.full(k + 1, min((1 - mixing) / k, 1 / (k + 1)))
        self.w[k] = max(mixing, 1 / (k + 1))
        self.a = np.zeros((k + 1, k + 1))
        self.rule = {"unit": 0.0, "largest": 0.0, "step": step, "least": mixing}

    def learn(self, i, p, loss):
        rule = self.rule
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
        row, loss = self.p[:, i], min(loss * rule["unit"], 2.0**250)
        mixed = sum((self.w * row).tolist())
        size = loss * loss / mixed / mixed * min(1 / (self.n * p), 2.0**200)
        largest = row.max() * size
        if largest > rule["largest"]:
            self.a *= rule["largest"] / largest * (rule["largest"] / largest)
            rule["largest"] = largest
        if largest > 0:
            g = -row * (size / rule["largest"])
            self.a += np.outer(g, g)
            self.exchange(rule["step"] * g)

    def exchange(self, slope):
        """Move mass between the two components for which it pays most, at most 100 times."""
        least = np.append(np.zeros(len(self.w) - 1), self.rule["least"])
        for _ in range(100):
            i, j = slope.argmin(), np.where(self.w > least, slope, -np.inf).argmax()
            gain = slope[j] - slope[i]
            if not (self.w > least).any() or not gain > 1e-12:
                break
            bend = max(0.0, self.a[i, i] + self.a[j, j] - 2 * self.a[i, j]) + 0.2
            all_of_it = gain / bend >= self.w[j] - least[j]
            move = self.w[j] - least[j] if all_of_it else gain / bend
            self.w[i] += move
            self.w[j] = least[j] if all_of_it else self.w[j] - move
            slope = slope + move * (self.a[:, i] - self.a[:, j])
            slope[i] += 0.1 * move
            slope[j] -= 0.1 * move
        self.w = self.w / sum(self.w.tolist())
        self.w[-1] = max(self.w[-1], self.rule["least"])

    def probabilities(self):
        tops = np.ceil(self.w * 2.0**40)
        return tops @ self.p / tops.sum() / self.n

    def draw(self, size):
        return np.tile(self.probabilities(), (size, 1))

    def largest_importance(self):
        return (1 + 1e-9) / self.rule["least"]

    def state(self):
        return {"rule": self.rule, "shares": self.w, "curvature": self.a}


SHORT = {"anytime": {}, "doubling": {"schedule": "doubling"}, "mixing": {"mixing": 0.3},
         "full": {"mixing": 1.0}, "horizon": {"horizon": 500}, "memory": {"mixing": 0.1,
         "memory": 40}, "anytime, memory": {"memory": 9.5}}  # fmt: skip


@pytest.mark.parametrize("bound", [4.0, [1.0, 0.0, 3.0, 1e-3, 9.0, 2.0, 2.0]])
@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("name", SHORT)
def test_algorithm_1(name, bound, wild):
    rule, sampler = (
        Printed(7, bound=bound, **SHORT[name]),
        tombola.VRB(7, bound=bound, **SHORT[name]),
    )
    game(rule, sampler, 60, seed=1, largest=2.0, wild=wild)


@pytest.mark.parametrize("n", [1, 2, 9, 60])
@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("given", [{}, {"memory": 70}, {"shuffle": False}], ids=str)
def test_the_rule_without_parameters(n, given, wild):
    """Long enough for several blocks, some of them shuffled."""
    game(ParameterFree(n, **given), tombola.VRB(n, **given), 120, seed=n, wild=wild)


def test_the_rule_without_parameters_in_both_modes():
    rule, sampler, modes = ParameterFree(30), tombola.VRB(30), []
    rng = np.random.default_rng(0)
    for k in range(60):
        rows, draw = rule.draw(40), sampler.draw(40)
        assert draw.probabilities.tolist() == [rows[j][i] for j, i in enumerate(draw.indices)]
        modes.append(sampler.mode)
        peak = 10.0 if 20 < k < 40 else 0.0  # losses differ for a while
        losses = (1.0 + peak * (draw.indices % 10 == 0)) * rng.uniform(0.9, 1.1, 40)
        sampler.update(draw, losses)
        for i, p, loss in zip(draw.indices, draw.probabilities, losses, strict=True):
            rule.learn(int(i), float(p), float(loss))
        live = sampler.state.fallback[0]
        assert rule.falls.sums == {name: live[name] for name in live.dtype.names}
    assert {"adaptive", "shuffle"} == set(modes)


@pytest.mark.parametrize(
    "given",
    [{}, {"bound": [1.0, 4.0, 1e-30, 2.0, 9.0, 1.0, 1.0, 0.0, 3.0, 1.0, 2.0]}, {"shuffle": False}],
    ids=str,
)
@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_groups(count, given, wild):
    groups = np.arange(11) ** 2 % count
    rule, sampler = Grouped(groups, **given), tombola.GroupVRB(groups, **given)
    game(rule, sampler, 120, seed=count, wild=wild)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("given", [{}, {"step": 2.0, "floor": 0.5}, {"step": 0.5}], ids=str)
def test_shares_of_groups(given, wild):
    groups = np.array([0, 0, 1, 2, 2, 2, 2, 1, 0, 2])
    game(Tau(groups, **given), tombola.AdaptiveWeighted(groups, **given), 90, seed=2, wild=wild)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(
    ("components", "given"),
    [
        ([[1.0, 2.0, 0.0, 5.0, 0.1, 3.0, 1.0], [0, 1, 0, 1, 1, 0, 0], [9, 1, 1, 1, 0, 0, 2]], {}),
        ([[1.0, 2.0, 0.0, 5.0], [3.0, 1.0, 1.0, 0.5]], {"step": 3.0, "mixing": 0.4}),
        ([[6.0, 1.0, 1.0, 1.0], [4.0, 1.0, 2.0, 1.0]], {"step": 1.0, "mixing": 0.4}),
        ([[1.0, 0.0, 4.0]], {"step": 1.0, "mixing": 0.7}),
        ([[3.0, 1.0, 4.0, 1.0, 5.0]], {"step": 0.02, "mixing": 1.0}),
        ([[0.0, 0.0, 7.0], [1e-300, 0.0, 3e-300]], {"step": 0.5, "mixing": 0.01}),
    ],
)
def test_mixtures(components, given, wild):
    game(Mixture(components, **given), tombola.VRM(components, **given), 90, seed=3, wild=wild)


def test_groups_start_from_levels_of_zero():
    sampler = tombola.GroupVRB(["a", "a", "b"])
    sampler.start_from({"a": (0.0, 5), "b": (2.0, 1)})
    assert sampler.group_levels() == {"a": (0.0, 5), "b": (2.0, 1)}


@pytest.mark.parametrize("make", [lambda: tombola.VRB(3), lambda: tombola.GroupVRB([0, 1, 1])])
@pytest.mark.parametrize("size", [1, 20])
@pytest.mark.parametrize("scale", [2.0**-60, 1.0, 2.0**60])
def test_only_a_loss_above_the_limit_begins_anew(make, size, scale):
    """The unit is that of the first loss, up to 2^100 of it."""
    sampler = make()
    items = np.arange(size) % 3
    draw = tombola.Draw(items, np.full(size, 1 / 3), 3)
    sampler.update(draw, np.full(size, 0.75 * scale))
    sampler.update(draw, np.full(size, 2.0**100 * scale))
    assert sampler.state.rule[0].unit == 1 / scale
    sampler.update(draw, np.full(size, np.nextafter(2.0**100 * scale, np.inf)))
    assert sampler.state.rule[0].unit == 2.0**-101 / scale


@pytest.mark.parametrize(
    ("shuffling", "ours", "then"),
    [(0, 0.95, 1), (0, 0.949, 0), (1, 0.9, 1), (1, 0.899, 0), (0, 2.0, 1), (1, 2.0, 1)],
)
def test_the_mode_of_a_block(shuffling, ours, then):
    state = fallback.new_fallback(300)
    state[0].ours, state[0].uniform, state[0].left = ours, 1.0, 0
    state[0].shuffling = shuffling
    fallback.choose(state[0])
    found = state[0]
    assert (found.shuffling, found.left, found.ours) == (then, 300, ours / 2)
    blocks = [fallback.new_fallback(n)[0].block for n in (1, 255, 256, 257)]
    assert blocks == [256, 510, 256, 257]


@pytest.mark.parametrize(("total", "kept"), [(2**39, False), (2**40, True), (2**60, True)])
def test_weights_of_groups_are_rebuilt_out_of_range_only(total, kept):
    """One item whose losses are all 1/2: its group has the value 1/2."""
    sampler, draw = tombola.GroupVRB([0]), tombola.Draw([0], [1.0], 1)
    sampler.update(draw, [0.5])
    sampler.state.rule[0].scale = 2.0 * total
    sampler.update(draw, [0.5])
    assert (sampler.state.rule[0].scale == 2.0 * total) == kept
    assert (sampler.state.index.weights[0] == total) == kept


def test_a_group_without_weight_is_not_drawn():
    """Nothing is added to the weights of groups."""
    sampler = tombola.AdaptiveWeighted(np.arange(9) % 3)
    sampler.state.index.weights[:] = 0, 2, 0
    build(sampler.state.index)
    assert set(sampler.draw(50).indices) == {1, 4, 7}


@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="needs another constant in the kernels")
@pytest.mark.parametrize("memory", [None, 30])
def test_many_items_are_rescaled_by_the_sweep(memory, monkeypatch):
    """As above 2^20 items, with a limit of 4: a sweep that never ends, and one that does."""
    monkeypatch.setattr(weighted, "SMALL", 4)
    monkeypatch.setattr(Rule, "small", 4)
    for rule, sampler in (
        (ParameterFree(9, memory=memory), tombola.VRB(9, memory=memory)),
        (Printed(9, bound=1.0, mixing=0.2), tombola.VRB(9, bound=1.0, mixing=0.2)),
    ):
        for way in (1.0, 2.0**14, 2.0**-60):
            rule.scale *= way
            sampler.state.sweep[0].scale *= way
            game(rule, sampler, 40, seed=4)
