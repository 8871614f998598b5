"""Our samplers pass the conformance suite, and each broken one fails the check meant for it."""

import random

import numpy as np
import pytest

import tombola
from tombola import VRB, Sampler, Shuffle, Uniform
from tombola.testing import CHECKS, check_sampler, feedback, frequencies, suite

OURS = {
    "Uniform": lambda n, seed: Uniform(n, seed=seed),
    "Shuffle": lambda n, seed: Shuffle(n, seed=seed),
    "VRB": lambda n, seed: VRB(n, seed=seed),
    "VRB, memory": lambda n, seed: VRB(n, memory=20 * n, seed=seed),
    "VRB, mixing": lambda n, seed: VRB(n, bound=1.0, mixing=0.2, seed=seed),
    "VRB, mixing, memory": lambda n, seed: VRB(n, bound=1.0, mixing=0.2, memory=20 * n, seed=seed),
    "VRB, mixing 1": lambda n, seed: VRB(n, bound=1.0, mixing=1.0, seed=seed),
    "VRB, horizon": lambda n, seed: VRB(n, bound=1.0, horizon=1000 * n, seed=seed),
    "VRB, bound for each": lambda n, seed: VRB(
        n, bound=np.linspace(0.1, 1.0, n), mixing=0.2, seed=seed
    ),
    "VRB, anytime": lambda n, seed: VRB(n, bound=1.0, seed=seed),
    "VRB, doubling": lambda n, seed: VRB(n, bound=1.0, schedule="doubling", seed=seed),
    "GroupVRB": lambda n, seed: tombola.GroupVRB(np.arange(n) % 3, seed=seed),
    "GroupVRB, bounds": lambda n, seed: tombola.GroupVRB(
        np.arange(n) % 2, bound=1.0 + np.arange(n), shuffle=False, seed=seed
    ),
    "Static": lambda n, seed: tombola.Static(1.0 + np.arange(n), seed=seed),
    "Static, balanced": lambda n, seed: tombola.Static.balanced(np.arange(n) % 3, seed=seed),
    "Static, partially biased": lambda n, seed: tombola.Static.partially_biased(
        1.0 + np.arange(n), seed=seed
    ),
    "MABS": lambda n, seed: tombola.MABS(n, horizon=1000 * n, bound=1.0, seed=seed),
    "MirrorDescent": lambda n, seed: tombola.MirrorDescent(n, bound=1.0, seed=seed),
    "AdaptiveWeighted": lambda n, seed: tombola.AdaptiveWeighted(np.arange(n) % 3, seed=seed),
    "OSMD": lambda n, seed: tombola.OSMD(n, bound=1.0, seed=seed),
    "VRM": lambda n, seed: tombola.VRM(
        [np.arange(1.0, n + 1) ** 4, np.arange(n, 0.0, -1) ** 4], seed=seed
    ),
    "Stale": lambda n, seed: tombola.Stale(n, seed=seed),
    "Avare": lambda n, seed: tombola.Avare(n, seed=seed),
    "SRG": lambda n, seed: tombola.SRG(n, seed=seed),
    "SRG, always": lambda n, seed: tombola.SRG(n, refresh="always", seed=seed),
    "Safe": lambda n, seed: tombola.Safe(n, smoothness=np.ones(n), seed=seed),
    "EpochVRB": lambda n, seed: tombola.EpochVRB(n, seed=seed),
    "EpochVRB, share 0.5": lambda n, seed: tombola.EpochVRB(n, share=0.5, seed=seed),
    "EpochVRB, share 1.5": lambda n, seed: tombola.EpochVRB(n, share=1.5, seed=seed),
    "InfoBatch": lambda n, seed: tombola.InfoBatch(n, 10_000, seed=seed),
    "KVib": lambda n, seed: tombola.KVib(n, bound=1.0, mixing=0.2, seed=seed),
    "Latest": lambda n, seed: tombola.Latest(n, seed=seed),
}
LEARNS_NOTHING = [
    "Uniform", "Shuffle", "VRB, mixing 1", "Static", "Static, balanced", "Static, partially biased",
]  # fmt: skip
USES_NO_PROBABILITY = [
    "GroupVRB",
    "GroupVRB, bounds",
    "Avare",
    "SRG",
    "SRG, always",
    "Safe",
    "InfoBatch",
    "Stale",
    "Latest",
]  # their rules use the losses alone


PLAIN = [name for name in OURS if "," not in name]


@pytest.mark.parametrize(
    "name",
    [*PLAIN, *(pytest.param(name, marks=pytest.mark.slow) for name in OURS if "," in name)],
)
def test_ours_pass(name):
    # with two items, MirrorDescent reaches its floor at once, whatever the losses
    sizes = (1, 6, 40) if name == "MirrorDescent" else (1, 2, 6, 40)
    check_sampler(OURS[name], n=sizes, uses_probability=name not in USES_NO_PROBABILITY)


def test_full_information_passes():
    check_sampler(lambda n, seed: tombola.FTRL(n, bound=1.0, seed=seed))


def test_a_sampler_without_randomness_passes_all_other_checks():
    def factory(n, seed):
        return tombola.Cyclic(n)

    random = ["check_first_draws", "check_seeds"]
    check_sampler(factory, skip=random)
    with pytest.raises(AssertionError, match=r"check_first_draws.*\n.*check_seeds"):
        check_sampler(factory)


@pytest.mark.parametrize("name", OURS)
def test_which_of_ours_use_the_probability(name):
    """A sampler that does not learn would pass the check of late look-ups."""
    assert feedback.learns(OURS[name], 6) == (name not in LEARNS_NOTHING)


class Plain(Sampler):
    """A correct sampler in plain Python, for the broken ones below to derive from."""

    def __init__(self, n, *, seed=0):
        super().__init__(n, seed)
        self.scores = np.zeros(n)

    def probabilities(self):
        roots = np.sqrt(self.scores + 1.0)
        return 0.5 * roots / roots.sum() + 0.5 / self.n

    def _draw(self, size):
        probabilities = self.probabilities()
        darts = (self._stream.words(size) >> np.uint64(11)) * 2.0**-53
        edges = np.cumsum(probabilities)[:-1]
        items = np.searchsorted(edges, darts, side="right")
        return items, probabilities[items]

    def _update(self, draw, losses):
        np.add.at(self.scores, draw.indices, self.evidence(draw, losses))

    def evidence(self, draw, losses):
        return np.minimum(losses, 1e100) ** 2 / draw.probabilities

    def _arrays(self):
        return {"scores": self.scores}


class ForgetsDuplicates(Plain):
    def _update(self, draw, losses):
        self.scores[draw.indices] += self.evidence(draw, losses)


class LooksUpLate(Plain):
    def _update(self, draw, losses):
        for item, loss in zip(draw.indices, losses, strict=True):
            self.scores[item] += min(loss, 1e100) ** 2 / self.probabilities()[item]


class RemembersLastProbability(Plain):
    """Uses the probability of the last draw for any feedback, as river's EXP3 does."""

    def _draw(self, size):
        self.last = self.probabilities()
        return super()._draw(size)

    def _update(self, draw, losses):
        evidence = np.minimum(losses, 1e100) ** 2 / getattr(self, "last", self.probabilities())[0]
        np.add.at(self.scores, draw.indices, evidence)


class SumsToMore(Plain):
    def probabilities(self):
        return super().probabilities() * (1 + 1e-6)


class ReportsWithoutMixing(Plain):
    def _draw(self, size):
        self.drawing = True
        items, mixed = super()._draw(size)
        self.drawing = False
        return items, 2 * mixed - 1 / self.n

    drawing = False

    def probabilities(self):
        mixed = super().probabilities()
        return mixed if self.drawing else 2 * mixed - 1 / self.n


class DealsInOrder(Plain):
    """Epochs without shuffling: the frequencies of a long run are right."""

    def __init__(self, n, *, seed=0):
        super().__init__(n, seed=seed)
        self.place = np.zeros(1, dtype=np.int64)

    def probabilities(self):
        return np.full(self.n, 1 / self.n)

    def _draw(self, size):
        items = (self.place[0] + np.arange(size)) % self.n
        self.place += size
        return items, np.full(size, 1 / self.n)

    def _arrays(self):
        return {"scores": self.scores, "place": self.place}


class TouchesNumpy(Plain):
    def _draw(self, size):
        np.random.random()
        return super()._draw(size)


class TouchesPython(Plain):
    def __init__(self, n, *, seed=0):
        super().__init__(n, seed=seed)
        random.random()


class HalfApplies(Plain):
    def update(self, draw, losses):
        array = np.asarray(losses)
        if array.dtype.kind != "f" or array.shape != draw.indices.shape or draw.n != self.n:
            super().update(draw, losses)
        for j, loss in enumerate(array):
            if not 0 <= loss < np.inf:
                raise ValueError(f"losses[{j}] is {loss}")
            super().update(draw[j], array[j : j + 1])


class ClampsBadLosses(Plain):
    def update(self, draw, losses):
        array = np.asarray(losses)
        if array.dtype.kind == "f":
            array = np.nan_to_num(array, posinf=1.0, neginf=0.0).clip(0)
        super().update(draw, array)


class ForgetsScoresOnResume(Plain):
    def _arrays(self):
        return {}


class SavesNoCopy(Plain):
    def state_dict(self):
        return {**super().state_dict(), "parts": self._parts()}


class EmptyDrawCosts(Plain):
    def _draw(self, size):
        return tuple(array[:size] for array in super()._draw(max(1, size)))


class NoFloor(Plain):
    """Has no distribution left once all losses are zero."""

    def __init__(self, n, *, seed=0):
        super().__init__(n, seed=seed)
        self.scores[:] = 1.0

    def probabilities(self):
        return self.scores / self.scores.sum()

    def _update(self, draw, losses):
        self.scores[draw.indices] = losses


class Overflows(Plain):
    def evidence(self, draw, losses):
        with np.errstate(over="ignore"):
            return losses**2 / draw.probabilities

    def probabilities(self):
        with np.errstate(invalid="ignore"):
            return super().probabilities()


class ResetKeepsScores(Plain):
    def reset(self):
        kept = self.scores.copy()
        super().reset()
        self.scores[:] = kept


class RefusesStrangers(Plain):
    def _update(self, draw, losses):
        if draw.round >= self.rounds or (draw.probabilities < 1e-3).any():
            raise ValueError("not a draw of mine")
        super()._update(draw, losses)


class WantsOrder(Plain):
    latest = -1

    def _update(self, draw, losses):
        if draw.round < self.latest:
            raise ValueError("too late")
        self.latest = max(draw.round, self.latest)
        super()._update(draw, losses)


class GaugeOfNow(Plain):
    def update(self, draw, losses):
        losses = np.asarray(losses)
        self._record(self.probabilities()[draw.indices], losses)
        self._update(draw, losses)


class DrawsBiased(Plain):
    """One item in fifty is replaced by item 0."""

    def _draw(self, size):
        items, _ = super()._draw(size)
        items[self._stream.integers(50, size) == 0] = 0
        return items, self.probabilities()[items]


class PlainEpochs(Plain):
    """Epochs of half of the items, chosen by their scores: correct, in plain Python."""

    independent = False

    def __init__(self, n, *, seed=0):
        super().__init__(n, seed=seed)
        self.chances = np.full(n, 1 / n)
        self.items = np.zeros((n + 1) // 2, dtype=np.int64)
        self.place = np.zeros(1, dtype=np.int64)

    @property
    def epoch_length(self):
        return self.items.size

    def probabilities(self):
        return self.chances.copy()

    def _draw(self, size):
        drawn, chances = np.zeros(size, dtype=np.int64), np.zeros(size)
        for j in range(size):
            if self.place[0] == 0:
                roots = np.sqrt(self.scores + 1.0)
                self.chances[:] = 0.2 * roots / roots.sum() + 0.8 / self.n
                self.choose()
            drawn[j] = self.items[self.place[0]]
            chances[j] = self.chances[drawn[j]]
            self.place[0] = (self.place[0] + 1) % self.items.size
        return drawn, chances

    def choose(self):
        """Put a systematic sample into the epoch, over a random order."""
        order = np.argsort(self._stream.words(self.n))
        points = self.start() + np.arange(self.items.size)
        edges = np.cumsum(self.chances[order] * self.items.size)
        self.items[:] = order[np.minimum(np.searchsorted(edges, points, side="right"), self.n - 1)]
        self.items[:] = self.items[np.argsort(self._stream.words(self.items.size))]

    def start(self):
        return float(self._stream.words(1)[0] >> np.uint64(11)) * 2.0**-53

    def _arrays(self):
        own = {"chances": self.chances, "items": self.items, "place": self.place}
        return {"scores": self.scores, **own}


class KeepsTheHeaviest(PlainEpochs):
    """An epoch has the items of the largest scores, with a random one in place of another."""

    def choose(self):
        self.items[:] = np.argsort(-self.scores, kind="stable")[: self.items.size]
        super_items = self.items.copy()
        super().choose()
        if self.scores.any():
            self.items[1:] = super_items[: self.items.size - 1]


class DropsWhatIsEasy(PlainEpochs):
    """Replaces the rest of an epoch by its heavier items as soon as it learns of their losses."""

    def _update(self, draw, losses):
        super()._update(draw, losses)
        rest = self.items[self.place[0] :]
        if self.place[0] and rest.size > 1:
            rest[:] = rest[np.argmax(self.scores[rest])]


BROKEN = {
    ForgetsDuplicates: ["check_duplicates"],
    LooksUpLate: ["check_probability_of_the_draw"],
    RemembersLastProbability: ["check_probability_of_the_draw"],
    SumsToMore: ["check_probabilities"],
    ReportsWithoutMixing: ["check_frequencies", "check_mean"],
    DrawsBiased: ["check_frequencies", "check_mean"],
    DealsInOrder: ["check_first_draws", "check_seeds"],
    TouchesNumpy: ["check_global_randomness"],
    TouchesPython: ["check_global_randomness"],
    HalfApplies: ["check_bad_feedback"],
    ClampsBadLosses: ["check_bad_feedback"],
    ForgetsScoresOnResume: ["check_resume"],
    SavesNoCopy: ["check_resume"],
    EmptyDrawCosts: ["check_empty_draw"],
    NoFloor: ["check_zero_losses"],
    Overflows: ["check_extreme_losses"],
    ResetKeepsScores: ["check_reset"],
    RefusesStrangers: ["check_foreign_draws"],
    WantsOrder: ["check_irregular_feedback"],
    GaugeOfNow: ["check_gauge"],
    KeepsTheHeaviest: ["check_inclusion"],
    DropsWhatIsEasy: ["check_epoch_mean"],
}


# These fail other checks as well: no distribution, no new state, or feedback refused.
BREAKS_MORE = (
    SumsToMore,
    ReportsWithoutMixing,
    NoFloor,
    SavesNoCopy,
    GaugeOfNow,
    RefusesStrangers,
    WantsOrder,
    KeepsTheHeaviest,
    DropsWhatIsEasy,
)


def test_the_plain_sampler_passes():
    check_sampler(lambda n, seed: Plain(n, seed=seed))
    check_sampler(lambda n, seed: PlainEpochs(n, seed=seed), n=(6, 40))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("broken", BROKEN, ids=lambda kind: kind.__name__)
def test_broken_samplers_fail_the_check_meant_for_them(broken):
    with pytest.raises(AssertionError) as caught:
        check_sampler(lambda n, seed: broken(n, seed=seed), n=(6,))
    failed = [line.split()[0] for line in str(caught.value).splitlines()[1:]]
    assert set(BROKEN[broken]) <= set(failed)
    assert len(BROKEN[broken]) == len(failed) or broken in BREAKS_MORE


def test_every_check_has_a_sampler_that_fails_it():
    aimed_at = {name for names in BROKEN.values() for name in names}
    assert aimed_at == {check.__name__ for check in CHECKS} - {
        "check_draws",
        "check_one_item",
    }


class FullInformation(Plain):
    """Learns from the losses of all items."""

    feedback = "all"

    def update_all(self, losses):
        array = np.asarray(losses)
        if array.dtype.kind != "f":
            raise TypeError(f"losses must hold numbers, got {array.dtype}")
        if array.shape != (self.n,):
            raise ValueError(f"losses must have shape {(self.n,)}, got {array.shape}")
        for j, loss in enumerate(array):
            if not 0 <= loss < np.inf:
                raise ValueError(f"losses[{j}] is {loss}")
            self.take(j, loss, array)
        if self.late:
            self.scores += np.minimum(array, 1e100) ** 2

    late = True

    def take(self, j, loss, losses):
        pass


class HalfAppliesAll(FullInformation):
    late = False

    def take(self, j, loss, losses):
        self.scores[j] += min(loss, 1e100) ** 2


def test_feedback_for_all_items():
    check_sampler(lambda n, seed: FullInformation(n, seed=seed))
    with pytest.raises(AssertionError, match=r"fails\n  check_bad_feedback.*has changed$"):
        check_sampler(lambda n, seed: HalfAppliesAll(n, seed=seed))


class LastLoss(Plain):
    """A rule that never uses the probability."""

    def _update(self, draw, losses):
        for item, loss in zip(draw.indices, losses, strict=True):
            self.scores[item] = min(loss, 1e100) ** 2


def test_rules_that_never_use_the_probability():
    def factory(n, seed):
        return LastLoss(n, seed=seed)

    check_sampler(factory, uses_probability=False)
    with pytest.raises(AssertionError, match="pass uses_probability=False"):
        check_sampler(factory)
    with pytest.raises(AssertionError, match="pass uses_probability=True"):
        check_sampler(OURS["VRB"], uses_probability=False)


def test_skip_and_sizes():
    check_sampler(
        lambda n, seed: ForgetsDuplicates(n, seed=seed), n=(3,), skip=["check_duplicates"]
    )
    with pytest.raises(ValueError, match="'check_nothing', which is not a check"):
        check_sampler(OURS["Uniform"], skip=["check_nothing"])


class WantsSome(Plain):
    feedback = "some"


def test_feedback_of_an_unknown_kind():
    with pytest.raises(AssertionError, match='feedback must be "drawn" or "all", got \'some\''):
        check_sampler(lambda n, seed: WantsSome(n, seed=seed))


def test_an_error_inside_the_sampler_is_reported_with_its_type():
    def factory(n, seed):
        return Uniform(n, seed=seed + 0 // (17 - seed))

    with pytest.raises(AssertionError, match=r"check_reset \(n = 2\): ZeroDivisionError: integer"):
        check_sampler(factory)


def test_false_alarms_stay_within_the_budget(monkeypatch):
    """The statistical checks of a correct sampler, with the limits of a budget of 1%."""
    monkeypatch.setattr(frequencies, "ALPHA", 0.01)
    alarms = 0
    for offset in range(8):
        for check in suite.STATISTICAL:
            try:
                check(lambda n, seed: VRB(n, bound=1.0, mixing=0.3, seed=seed + 10**6 * offset))  # noqa: B023
            except AssertionError:
                alarms += 1
    assert alarms <= 5  # 8 * 6 tests at 1% or less: more than 5 has a probability below 1e-5
