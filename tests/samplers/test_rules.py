"""Samplers with an index, step by step against their rules in plain Python.

After each batch of a random game, every number of the state is what the rule says: scores, counts,
integer weights, the sweep. Losses are of all sizes, and draws of other samplers are fed back too.
"""

import math

import numba
import numpy as np
import pytest

import tombola
from naive import words
from states import leaves, numbers
from tombola import Draw
from tombola.samplers import weighted
from tombola.samplers.rivals import mabs

pytestmark = pytest.mark.kernels


def unit_of(loss):
    """The inverse of the smallest power of two above a loss, within limits."""
    return 2.0 ** -min(1000, max(-950, math.frexp(loss)[1]))


class Rule:
    """What all of them share: a value for each item, and the integer weight that follows."""

    rtol = 0.0  # relative error of real numbers: none if all operations are the same, in order
    stale = False
    least = 1
    small = 2**20

    def __init__(self, n, mixing=0.0, **rule):
        self.n, self.rule = n, {"mixing": mixing, "drawn": 0, "fed": 0, **rule}
        self.arrays = {}

    def begin(self):
        self.weights, self.cursor, self.scale = [1] * self.n, 0, 1.0
        self.pending = self.n if self.stale else 0
        self.rebuild()

    def rebuild(self):
        values, total = [float(self.value(i)) for i in range(self.n)], 0.0
        for value in values:
            total += value
        self.scale, room = 2.0**50 * unit_of(total), 2**61
        for i, value in enumerate(values):
            self.weights[i] = self.weight(value, room)
            room -= self.weights[i]

    def weight(self, value, room):
        return max(min(int(value * self.scale), room), 1 if value > 0 else self.least)

    def put(self, i):
        room = 2**61 - (sum(self.weights) - self.weights[i])
        self.weights[i] = self.weight(float(self.value(i)), room)

    def absorb(self, i, p, loss):
        """Learn nothing."""

    def fade(self, i):
        """Forget nothing."""

    def learn(self, i, p, loss):
        self.absorb(i, p, loss)
        self.rule["fed"] += 1
        self.put(i)
        for _ in range(2 if self.stale else min(2, self.pending)):
            i, self.cursor = self.cursor, (self.cursor + 1) % self.n
            self.fade(i)
            self.put(i)
            self.pending -= not self.stale
        total = sum(self.weights)
        if 2**10 * self.n <= total <= 2**60:
            return
        if self.n <= self.small:
            self.rebuild()
        elif self.cursor < 2 if self.stale else self.pending == 0:
            self.scale *= 0.5 if total > 2**60 else 2.0
            self.pending = self.n

    def uniform(self):
        """The integer that mixing adds to all weights; None where only that would be left."""
        mixing, total = self.rule["mixing"], sum(self.weights)
        if mixing == 0:
            return 0
        share = mixing / (1 - mixing) * total if mixing < 1 else math.inf
        return int(share / self.n) + 1 if share < 2**61 else None

    def probabilities(self):
        uniform = self.uniform()
        if uniform is None:
            return [1 / self.n] * self.n
        total = float(sum(self.weights) + self.n * uniform)
        return [float(w + uniform) / total for w in self.weights]

    def draw(self, size):
        """Count the draws, in parts where something changes in between; return probabilities."""
        self.rule["drawn"] += size
        return np.tile(self.probabilities(), (size, 1))

    def largest_importance(self):
        return 1 / self.rule["mixing"] if self.rule["mixing"] else math.inf

    def state(self):
        return {
            "rule": self.rule,
            "index": {"weights": np.array(self.weights)},
            "sweep": {"scale": self.scale, "least": self.least, "cursor": self.cursor,
                      "pending": self.pending},
            **self.arrays,
        }  # fmt: skip


class Static(Rule):
    least = 0

    def __init__(self, weights, mixing=0.0):
        super().__init__(len(weights), mixing)
        unit = unit_of(max(weights))
        self.values = [max(w * unit, 2.0**-1000) if w else 0.0 for w in weights]
        self.begin()
        self.limit = 1 / (self.n * min(p for p in self.probabilities() if p))

    def value(self, i):
        return self.values[i]

    def largest_importance(self):
        return self.limit


class FTRL(Rule):
    def __init__(self, n, bound):
        bound = np.broadcast_to(np.asarray(bound, dtype=float), n)
        self.unit = unit_of(math.sqrt(bound.max()))
        super().__init__(n, unit=self.unit)
        self.arrays["scores"] = bound * self.unit * self.unit
        self.begin()

    def value(self, i):
        return math.sqrt(self.arrays["scores"][i])

    def learn_all(self, losses):
        self.arrays["scores"] = (
            self.arrays["scores"] + np.minimum(losses * self.unit, 2.0**250) ** 2
        )
        self.rebuild()


class MABS(Rule):
    rtol = 1e-9

    def __init__(self, n, *, horizon=None, bound=None, mixing=0.4, step=None):
        unit = 1.0
        if bound is not None:
            bound = np.broadcast_to(np.asarray(bound, dtype=float), n)
            unit = unit_of(math.sqrt(bound.max()))
        if step is None:
            root = bound.max() * math.sqrt(((bound / bound.max()) ** 2).mean())  # n^2 sqrt(A)
            step = mixing**2 * math.sqrt(math.log(n) / (horizon * n)) / root
        self.step = step
        gain = min(step / n**2 / unit**2, 2.0**500)
        super().__init__(n, mixing, unit=unit, gain=gain, reference=0.0)
        self.arrays["scores"] = np.zeros(n)
        self.begin()

    def absorb(self, i, p, loss):
        loss, scores = min(loss * self.rule["unit"], 2.0**250), self.arrays["scores"]
        scores[i] += min(self.rule["gain"] * loss**2 / p**3, 2.0**500)
        if scores[i] > self.rule["reference"] + 4:
            self.rule["reference"] = float(scores[i])
            if self.n <= self.small:
                self.rebuild()
            else:
                self.pending = self.n

    def value(self, i):
        return math.exp(self.arrays["scores"][i] - self.rule["reference"])


class MirrorDescent(Rule):
    rtol = 1e-9

    def __init__(self, n, *, bound, floor=0.5, clip=0.1, step=None, horizon=None):
        unit, self.floor = unit_of(math.sqrt(bound)), floor
        falling = step is None and horizon is None
        if step is None:
            step = floor**2 * math.sqrt(2 * math.log(n) / n / (horizon or 1))
        super().__init__(
            n, unit=unit, limit=clip * bound * unit**2 / floor**2, step=step / bound / unit**2,
            falling=int(falling), least=floor / n / (1 - floor / n) if n > 1 else 0.0, mass=1.0,
            summed=0, mass_of_summed=0.0,
        )  # fmt: skip
        self.arrays["scores"] = np.full(n, 1 / n)
        self.begin()

    def absorb(self, i, p, loss):
        rule, scores = self.rule, self.arrays["scores"]
        c = rule["limit"] - (min(loss * rule["unit"], 2.0**250) / (self.n * p)) ** 2
        if c <= 0 or self.n == 1:
            return
        alpha = rule["step"]
        if rule["falling"]:
            alpha /= math.sqrt(max(self.n, rule["fed"] + 1))
        old = scores[i]
        others = max(0.0, rule["mass"] - old)
        scores[i] = max(old * math.exp(-alpha * c / p), rule["least"] * others + 1 / self.scale)
        rule["mass"] += scores[i] - old
        rule["mass_of_summed"] += scores[i] - old if i < rule["summed"] else 0.0
        for _ in range(2):
            rule["mass_of_summed"] += scores[rule["summed"]]
            rule["summed"] += 1
            if rule["summed"] == self.n:
                rule.update(mass=rule["mass_of_summed"], mass_of_summed=0.0, summed=0)
        if rule["mass"] < 2.0**-500:
            rule["mass"] *= 2.0**500
            rule["mass_of_summed"] *= 2.0**500
            scores *= 2.0**500
            self.scale /= 2.0**500

    def value(self, i):
        return self.arrays["scores"][i]

    def largest_importance(self):
        return (257 / 256) / self.floor * (1 if self.pending == 0 else 2)


def floor_level(h, eps):
    """eps lambda, with lambda such that p = max(h / lambda, eps) sums to 1, for sorted h."""
    levels = eps * h[::-1].cumsum()[::-1] / (1 - np.arange(len(h)) * eps)  # with so many below
    fits = (levels > 0) & (h >= levels * (1 - 1e-12))
    return float(levels[fits.argmax()]) if fits.any() else 0.0


class Avare(Rule):
    rtol = 1e-9

    def __init__(self, n, *, floor=0.2, decay=1.0):
        super().__init__(
            n, unit=0.0, floor=floor, decay=decay, least=1 / n, level=1.0, due=max(1, n // 64)
        )
        self.arrays["losses"] = np.zeros(n)
        self.begin()

    def absorb(self, i, p, loss):
        n, rule, h = self.n, self.rule, self.arrays["losses"]
        fed = rule["fed"] + 1
        due = fed >= rule["due"]
        if rule["unit"] == 0 and loss > 0:
            rule["unit"], due = unit_of(loss), True
        h[i] = min(loss * rule["unit"], 2.0**250)
        f = rule["floor"]
        rule["least"] = (f + (1 - f) * (1 + fed * (1 - f) / n) ** (-rule["decay"] / 3)) / n
        others = (sum(self.weights) - self.weights[i]) / self.scale
        if due or rule["level"] < rule["least"] / 2 * (others + self.value(i)):
            rule["level"] = floor_level(np.sort(h), rule["least"]) or 1.0
            rule["due"] = fed + max(1, min(n // 4, max(n // 64, fed)))
            self.rebuild()

    def value(self, i):
        return max(self.arrays["losses"][i], self.rule["level"])

    def largest_importance(self):
        return 1.001 * 2 / (self.n * self.rule["least"])


class OSMD(Rule):
    rtol = 1e-9

    def __init__(self, n, *, bound, horizon=None, floor=0.4, step=None):
        unit = unit_of(math.sqrt(bound))
        falling = step is None and horizon is None
        if step is None:
            step = math.sqrt(math.log(n) / 2 / (horizon or 1))
        super().__init__(
            n, unit=unit, bound=bound * unit**2, step=step, falling=int(falling), floor=floor,
            least=floor / n, level=floor,
        )  # fmt: skip
        self.arrays["scores"] = np.ones(n)
        self.begin()

    def absorb(self, i, p, loss):
        rule, q, n = self.rule, self.arrays["scores"], self.n
        step = rule["step"]
        if rule["falling"]:
            step /= math.sqrt(max(n, rule["fed"] + 1))
        a = min(loss * rule["unit"], 2.0**250) ** 2 / rule["bound"]
        rise = min(1.0, a * min(1.0, rule["floor"] / (n * p)) ** 3)
        q[i] = max(q[i], rule["level"]) * math.exp(step * rise)
        total = (sum(self.weights) - self.weights[i]) / self.scale + q[i]
        if rule["level"] < 0.99 * rule["least"] * total or q[i] > 2.0**500:
            q[:] = np.maximum(q, rule["level"])
            if q.max() > 2.0**500:
                q /= 2.0**500
                rule["level"] /= 2.0**500
            rule["level"] = max(rule["level"], floor_level(np.sort(q), rule["least"]))
            self.rebuild()

    def value(self, i):
        return max(self.arrays["scores"][i], self.rule["level"])

    def largest_importance(self):
        return (257 / 256) / (0.99 * self.rule["floor"]) * (1 if self.pending == 0 else 2)


class Stale(Rule):
    stale = True

    def __init__(self, n, *, mixing=0.1):
        super().__init__(n, mixing, unit=0.0, mean_loss=2.0**-200)
        self.arrays["losses"] = np.full(n, -1.0)
        self.begin()

    def absorb(self, i, p, loss):
        rule, n = self.rule, self.n
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
        self.arrays["losses"][i] = entry = min(loss * rule["unit"], 2.0**250)
        gap = entry * min(1 / (n * p), 2.0**200) - rule["mean_loss"]
        share = max(1 / (rule["fed"] + 1), 1 / n)
        rule["mean_loss"] = max(2.0**-200, rule["mean_loss"] + share * gap)

    def value(self, i):
        entry, mean = self.arrays["losses"][i], self.rule["mean_loss"]
        if self.rule["unit"] == 0:
            return 1.0
        return mean if entry < 0 else max(entry, 2.0**-200 * mean)


class SRG(Rule):
    stale = True

    def __init__(self, n, *, mixing=0.5, refresh="coin", seed=0):
        self.coins, self.flipped = words(seed, (2**64 - 2,)), 0
        super().__init__(
            n, mixing, unit=0.0, by_coin=int(refresh == "coin"), mean_loss=0.0, seen=0.0
        )
        self.arrays["losses"] = np.full(n, -1.0)
        self.begin()

    def share(self, p):
        return min(1.0, self.rule["mixing"] / (self.n * p))

    def flip(self, share):
        if 0 < share < 1:
            self.flipped += 1
            return (next(self.coins) >> 11) / 2**53 < share
        return share == 1

    def absorb(self, i, p, loss):
        rule = self.rule
        share = self.share(p)
        if rule["by_coin"]:
            if not self.flip(share):
                return
            share = 1.0
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
        norm = min(loss * rule["unit"], 2.0**250)
        self.arrays["losses"][i] = norm
        rule["seen"] += share
        rule["mean_loss"] += share / rule["seen"] * (norm - rule["mean_loss"])

    def value(self, i):
        if self.rule["unit"] == 0:
            return 1.0
        norm, mean = self.arrays["losses"][i], self.rule["mean_loss"]
        return mean if norm < 0 else max(norm, 2.0**-200 * mean)

    def state(self):
        return {**super().state(), "coins": {"position": self.flipped}}


class Safe(Rule):
    rtol = 1e-9

    def __init__(self, n, *, smoothness, curvature=None, mixing=0.1, resolve=None):
        every = max(1, n // 10) if resolve is None else resolve
        super().__init__(
            n, mixing, unit=0.0, drift=0.0, level=1.0, solved_total=0.0, interval=every, due=every
        )
        self.smoothness = np.full(n, 1.0) * smoothness
        self.s = np.ones(n) if curvature is None else np.sqrt(curvature / np.max(curvature))
        self.arrays["norms"], self.arrays["visited"] = np.zeros(n), np.full(n, -1.0)
        self.begin()
        self.rule["solved_total"] = sum(self.weights) / self.scale

    def bounds(self, i=slice(None)):
        since, norms = self.arrays["visited"][i], self.arrays["norms"][i]
        width = (self.rule["drift"] - since) * self.smoothness[i] * self.rule["unit"]
        return (
            np.where(since < 0, 0.0, np.maximum(0.0, norms - width)),
            np.where(since < 0, np.inf, norms + width),
        )

    def value(self, i):
        if self.rule["unit"] == 0:
            return self.s[i] ** 2
        (low, up), wanted = self.bounds(i), self.rule["level"] * self.s[i]
        return self.s[i] * max(min(max(wanted, low), up), 2.0**-40 * wanted)

    def absorb(self, i, p, loss):
        rule = self.rule
        if rule["unit"] == 0 and loss > 0:
            rule["unit"] = unit_of(loss)
        self.arrays["norms"][i] = min(loss * rule["unit"], 2.0**250)
        self.arrays["visited"][i] = rule["drift"]
        others = (sum(self.weights) - self.weights[i]) / self.scale
        if others + self.value(i) > 2 * rule["solved_total"] or rule["fed"] + 1 >= rule["due"]:
            rule["due"] = rule["fed"] + 1 + rule["interval"]
            if rule["unit"]:
                rule["level"] = self.solved()
            self.rebuild()
            rule["solved_total"] = sum(self.weights) / self.scale

    def solved(self):
        """m = ||c||^2 / sum s c over clipped items, by Newton's method within a bracket."""
        (low, up), s, m = self.bounds(), self.s, self.rule["level"]
        below, above = 0.0, math.inf
        for _ in range(100):
            c = np.clip(m * s, low, up)[(m * s < low) | (m * s > up)]
            part = s[(m * s < low) | (m * s > up)]
            if not (part * c).sum() or not (c * c).sum():
                return m
            new = (c * c).sum() / (part * c).sum()
            if abs(new - m) <= 1e-13 * m:
                return m
            below, above = (m, above) if new > m else (below, m)
            m = new if below < new < above else (below + above) / 2
        return m


def fitting(mine, theirs, rtol):
    """Whether two numbers, or all of two arrays, are equal; counts always to the last digit."""
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    if rtol == 0 or (mine.dtype.kind == "i" and mine.ndim == 0):
        return np.array_equal(mine, theirs)
    least = 4 if mine.dtype.kind == "i" else 1e-13  # of weights
    return np.allclose(mine, theirs, rtol=rtol, atol=least)


def compare(rule, sampler, when):
    """Every number of the rule is that of the sampler."""
    theirs = numbers(sampler.state)
    for name, mine in leaves(rule.state()).items():
        assert fitting(mine, theirs[name], rule.rtol), (when, name, mine, theirs[name])
    assert fitting(rule.probabilities(), sampler.probabilities(), rule.rtol), when
    limit = pytest.approx(rule.largest_importance(), rel=1e-12)
    assert sampler._largest_importance() == limit, when


def some_losses(rng, size, largest, wild):
    """Losses of one kind for each batch: ordinary ones, zeros, far smaller and larger ones."""
    kind = rng.integers(3 if wild else 8)
    losses = rng.lognormal(0, 1, size) * (rng.random(size) < 0.8)
    if kind == 0:
        losses[:] = 0.0
    elif kind == 1:
        losses *= 10.0 ** (rng.uniform(-8, 8, size) * (20 if wild else 1))
    elif kind == 2:
        losses[0] *= 10.0 ** rng.uniform(-30, 30)
    return np.minimum(losses * largest / 3, largest) if kind > 2 else losses * largest


def game(rule, sampler, rounds, seed, largest=1.0, wild=False):
    """Play, and compare after each round; `wild`: with losses and draws of any size."""
    rng = np.random.default_rng(seed)
    n = sampler.n
    rule.rtol = max(rule.rtol, 1e-12 if wild else 0.0)  # squares of tiny losses are rounded
    compare(rule, sampler, "at first")
    for k in range(rounds):
        size = int(rng.choice([0, 1, 2, 5, 9, 20]))
        chances = rule.draw(size)
        draw = sampler.draw(size)
        found = [row[i] for row, i in zip(chances, draw.indices, strict=True)]
        assert fitting(np.array(found), draw.probabilities, rule.rtol), k
        if sampler.feedback == "all":
            losses = some_losses(rng, n, largest, wild)
            rule.learn_all(losses)
            sampler.update_all(losses)
            compare(rule, sampler, k)
            continue
        more, coin = {}, rule.rule.get("by_coin", 0)
        if coin:
            flips = [rule.flip(rule.share(p)) for p in draw.probabilities]
            assert draw.tags.tolist() == flips, k
        if rng.integers(3) == 0:  # somebody else's draw
            p = np.exp(rng.uniform(-35 if wild else -2, 0.5, size)) / n
            draw = Draw(rng.integers(n, size=size), np.minimum(p, 1.0), n)
        losses = some_losses(rng, size, largest, wild) if size else np.empty(0)
        if isinstance(rule, Safe):
            more["moved"] = float(rng.choice([0.0, 0.1, 3.0])) * (rng.random() < 0.5) * largest
        sampler.update(draw, losses, **more)
        known = draw.probabilities
        if coin and draw.tags is not None:
            known = np.where(draw.tags, 1e-300, np.inf)  # which make the coin certain
        for i, p, loss in zip(draw.indices, known, losses, strict=True):
            rule.learn(int(i), float(p), float(loss))
        if more:
            rule.rule["drift"] += more["moved"]
        compare(rule, sampler, k)


def both(name, *given, **parameters):
    """The rule and the sampler of a name."""
    return globals()[name](*given, **parameters), getattr(tombola, name)(*given, **parameters)


GAMES = {
    "Static": [((np.array([1.0, 0.0, 1e-9, 5.0, 1e-320, 1e300]),), {}),
               (([3, 1, 4, 1, 5],), {"mixing": 0.3}), (([2.0, 0.0],), {"mixing": 1.0})],
    "FTRL": [((6, 2.0), {}), ((3, [1.0, 0.0, 5.0]), {}), ((1, 1e-300), {}), ((4, 1e250), {})],
    "MABS": [((7,), {"horizon": 300, "bound": 4.0}), ((3,), {"step": 0.02, "mixing": 0.1}),
             ((5,), {"horizon": 40, "bound": [1.0, 2.0, 9.0, 0.5, 1.0], "mixing": 1.0}),
             ((2,), {"step": 3.0, "bound": 1e-9}), ((12,), {"horizon": 20, "bound": 1e200})],
    "MirrorDescent": [((6,), {"bound": 4.0}), ((30,), {"bound": 1.0, "floor": 0.2, "clip": 1.0}),
                      ((4,), {"bound": 2.0, "step": 0.01}), ((1,), {"bound": 1.0, "step": 0.5}),
                      ((9,), {"bound": 3.0, "horizon": 200, "floor": 0.1}),
                      ((5,), {"bound": 4.0, "step": 30.0, "floor": 0.9, "clip": 0.9})],
    "Avare": [((1,), {}), ((7,), {}), ((90,), {}), ((320,), {"floor": 0.05}),
              ((12,), {"floor": 0.0, "decay": 0.5}), ((20,), {"floor": 1.0, "decay": 0.0})],
    "OSMD": [((6,), {"bound": 4.0}), ((30,), {"bound": 1.0, "step": 3.0, "floor": 0.1}),
             ((9,), {"bound": 3.0, "horizon": 50, "floor": 0.9}),
             ((5,), {"bound": 1e-200, "step": 100.0}), ((1,), {"bound": 1.0, "step": 0.5})],
    "Stale": [((1,), {}), ((6,), {}), ((40,), {"mixing": 0.3}), ((5,), {"mixing": 1.0})],
    "SRG": [((1,), {}), ((6,), {}), ((9,), {"refresh": "always", "mixing": 0.2}),
            ((5,), {"mixing": 1.0}), ((30,), {"mixing": 0.05})],
    "Safe": [((1,), {"smoothness": 1.0}), ((8,), {"smoothness": 0.5, "mixing": 0.0}),
             ((40,), {"smoothness": np.linspace(0, 2, 40), "curvature": np.arange(1.0, 41)}),
             ((25,), {"smoothness": 0.0, "resolve": 7}),
             ((12,), {"smoothness": 1e-3, "mixing": 1.0, "resolve": 1})],
}  # fmt: skip


CASES = {
    f"{name}-{k}{', wild' * wild}": (name, *case, wild)
    for name, cases in GAMES.items()
    for k, case in enumerate(cases)
    for wild in ([False] if name == "Safe" else [False, True])  # squares beyond double precision
}


@pytest.mark.parametrize(
    ("name", "given", "parameters", "wild"), list(CASES.values()), ids=list(CASES)
)
def test_step_by_step(name, given, parameters, wild):
    rule, sampler = both(name, *given, **parameters)
    bound = np.max(parameters.get("bound", 1.0))
    assert getattr(sampler, "step", None) == pytest.approx(getattr(rule, "step", None))
    with np.errstate(over="ignore", under="ignore"):
        game(rule, sampler, 50, seed=sampler.n, largest=math.sqrt(bound), wild=wild)


@pytest.mark.skipif(not numba.config.DISABLE_JIT, reason="needs another constant in the kernels")
@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("name", ["MABS", "MirrorDescent", "OSMD", "SRG", "Static"])
def test_many_items_are_rescaled_by_the_sweep(name, more, monkeypatch):
    """As for 2^20 items, and more; the limit is lower here."""
    given, parameters = GAMES[name][0 if name in ("MABS", "MirrorDescent", "OSMD") else 1]
    rule, sampler = both(name, *given, **parameters)
    monkeypatch.setattr(weighted, "SMALL", rule.n - more)
    monkeypatch.setattr(mabs, "SMALL", rule.n - more)
    monkeypatch.setattr(Rule, "small", rule.n - more)
    game(rule, sampler, 100, seed=3, largest=2.0)
    for way in (2.0**14, 2.0**-60):  # out of range, both ways
        rule.scale *= way
        sampler.state.sweep[0].scale *= way
        game(rule, sampler, 30, seed=4, largest=2.0)


def test_masses_that_vanish_are_magnified():
    """Below 2^-500, all are multiplied by 2^500, and no weight changes."""
    rule, sampler = both("MirrorDescent", 5, bound=4.0, step=30.0, floor=0.1)
    for mine in (rule.arrays["scores"], sampler.state.scores):
        mine *= 2.0**-499
    rule.rule["mass"] *= 2.0**-499
    sampler.state.rule[0].mass *= 2.0**-499
    rule.scale *= 2.0**499
    sampler.state.sweep[0].scale *= 2.0**499
    game(rule, sampler, 40, seed=1, largest=0.1)
    assert rule.rule["mass"] > 2.0**-100
