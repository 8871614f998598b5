"""Half of the draws in shuffled order, half by the latest loss of each item."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.draws import Draw
from tombola.gauge import record_many
from tombola.random import integers_below, next_below, next_word, take_words
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.samplers.deck import Deck, deal_in_numpy, deal_one, new_deck
from tombola.state import Cell, Floats, Ints, Record, State, array, cell, derived, integer, real
from tombola.validation import whole

__all__ = ["Latest"]

LARGEST = 2.0**900  # of a loss: a sum of them is finite


class PlanTurn(Record):
    """Where the draws of a plan are, and its distribution."""

    place: int = integer("the place of the next draw", 0, "items.size")
    total: float = real("the sum of the scores of the plan", default=0.0)
    share: float = real("the share of draws by these scores", 0.0, 0.5, default=0.0)


class Plan(State):
    """The next draws, in order, and the distribution that they were made from."""

    scores: Floats = array("the latest losses, as of the plan", 0.0, LARGEST)
    items: Ints = array("the items, in order", 0, "scores.size - 1")
    turn: Cell[PlanTurn]

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with the total, which probabilities are relative to."""
        total, scores = saved["turn"]["total"], saved["scores"].sum()
        if abs(total - scores) > 1e-6 * scores:  # up to rounding
            return "turn.total must be the sum of the scores"
        missing = total == 0.0 and saved["turn"]["share"] > 0.0
        return "turn.share must be 0 without scores" if missing else ""


class LatestState(Compiled):
    """A plan of draws, and the latest losses, from which the next plan is made."""

    deck: Deck
    among: Ints = derived("the items to draw from; the deck is over places in it")
    plan: Plan
    scores: Floats = array("the latest loss of each item", 0.0, LARGEST)

    def draw_one(self) -> Any:
        """Return the next item of the plan, and its probability when the plan was made."""
        turn = self.plan.turn[0]
        if turn.place == self.plan.items.size:
            make_plan(self)
        item = self.plan.items[turn.place]
        turn.place += 1
        return item, probability_of(self, item)

    def update_one(self, item: int, probability: float, loss: float) -> None:
        """Remember the loss."""
        self.scores[item] = min(loss, LARGEST)

    def update_all(self, losses: Floats) -> None:
        """Remember all losses, and drop the plan."""
        for item in range(losses.size):
            self.scores[item] = min(losses[item], LARGEST)
        self.plan.turn[0].place = self.plan.items.size

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item."""
        out[:] = 0.0
        for item in self.among:
            out[item] = probability_of(self, item)


@kernel(inline=True)
def probability_of(state: LatestState, item: int) -> Any:
    """Return share * score / total + (1 - share) / n."""
    turn = state.plan.turn[0]
    shuffled = (1.0 - turn.share) / state.among.size
    if turn.share == 0.0:
        return shuffled
    return shuffled + turn.share * (state.plan.scores[item] / turn.total)


def probabilities_of(state: LatestState, items: Ints) -> NDArray[np.float64]:
    """Return the probability of each of some items to draw from."""
    turn = state.plan.turn[0]
    shuffled = (1.0 - turn.share) / state.among.size
    if turn.share == 0.0:
        return np.full(items.size, shuffled)
    return np.asarray(shuffled + turn.share * (state.plan.scores[items] / turn.total))


@kernel
def make_plan(state: LatestState) -> None:
    """Plan the next draws: half of them by the latest losses, the others from the deck.

    Those by losses are a systematic sample: points at equal distances, with a random first one,
    on a line on which every item has a stretch as long as its loss. The plan is then shuffled.
    """
    stream, among, plan, turn = state.stream, state.among, state.plan, state.plan.turn[0]
    size = plan.items.size
    total = 0.0
    for item in among:
        plan.scores[item] = state.scores[item]
        total += plan.scores[item]
    by_loss = size // 2 if total > 0.0 else 0
    turn.place, turn.total, turn.share = 0, total, by_loss / size
    if by_loss > 0:
        distance = total / by_loss
        point = distance * (np.float64(next_word(stream) >> np.uint64(11)) * 2.0**-53)
        passed, k = plan.scores[among[0]], 0
        for place in range(by_loss):
            while passed <= point and k + 1 < among.size:
                k += 1
                passed += plan.scores[among[k]]
            plan.items[place] = among[k]
            point += distance
    for place in range(by_loss, size):
        plan.items[place] = among[deal_one(state.deck, stream)]
    for place in range(size - 1, 0, -1):
        other = next_below(stream, np.uint64(place + 1))
        item = plan.items[other]
        plan.items[other] = plan.items[place]
        plan.items[place] = item


def plan_in_numpy(state: LatestState, every: Any) -> None:
    """Do as `make_plan`, with the same words: for a solver whose rounds are not compiled.

    `every` selects the items to draw from: they, or a slice of all.
    """
    among, plan, turn = state.among, state.plan, state.plan.turn[0]
    size, words = plan.items.size, partial(take_words, state.stream)
    plan.scores[every] = state.scores[every]
    passed = np.cumsum(plan.scores[every])
    total = float(passed[-1])
    by_loss = size // 2 if total > 0.0 else 0
    turn.place, turn.total, turn.share = 0, total, by_loss / size
    items: list[int] = []
    if by_loss > 0:
        points = np.full(by_loss, total / by_loss)
        points[0] *= np.float64(words(1)[0] >> np.uint64(11)) * 2.0**-53
        places = np.searchsorted(passed, np.cumsum(points), side="right")
        items = among[np.minimum(places, among.size - 1)].tolist()
    dealt = deal_in_numpy(state.deck, size - by_loss, words)
    items += among[dealt].tolist()
    last = np.arange(size - 1, 0, -1)
    for place, other in zip(last.tolist(), integers_below(last + 1, words).tolist(), strict=True):
        items[place], items[other] = items[other], items[place]
    plan.items[:] = items


class Latest(CompiledSampler):
    """Draws half of the time in shuffled order, half by the latest loss fed back for each item.

        p(i) = 1 / (2n) + l(i) / (2 sum_j l(j))             with l(i) the latest loss of item i

    The default of `SDCA`, which passes the residuals of all rows to `update_all` now and then.
    Draws are planned n/2 at a time, from the losses known by then; without losses they are shuffled
    epochs. The reported probability of an item is its expected share of a plan. Draws of one plan
    are not independent: the half by losses is a systematic sample, which draws an item of
    probability p in m draws pm times, rounded up or down.

    A draw takes O(1) on average, an update O(1); memory is 32 bytes per item.

    Parameters
    ----------
    n : int
        The number of items.
    among : array-like of int, optional
        The items to draw from, each once; by default all of them.
    plan : int, optional
        The number of draws that are planned at a time; by default half the number of items.
    seed : int, default=0

    Examples
    --------
    >>> sampler = Latest(4)
    >>> sampler.update_all([0.0, 0.0, 3.0, 1.0])
    >>> draw = sampler.draw(4)
    >>> sampler.probabilities()
    array([0.125, 0.125, 0.5  , 0.25 ])
    """

    independent = False  # the draws of one plan depend on one another

    state: LatestState

    def __init__(
        self,
        n: int,
        *,
        among: ArrayLike | None = None,
        plan: int | None = None,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        given: dict[str, Any] = {} if among is None else {"among": checked_items(among, n)}
        given |= {} if plan is None else {"plan": whole("plan", plan, 2)}
        super().__init__(n, seed, given, quantity=quantity)
        chosen = np.arange(self.n) if among is None else given["among"]
        self._every = slice(None) if among is None else chosen
        size = max(2, chosen.size // 2) if plan is None else given["plan"]
        self.state = LatestState(
            stream=self._stream.state,
            deck=new_deck(chosen.size),
            among=chosen,
            plan=Plan(
                scores=np.zeros(self.n),
                items=np.zeros(size, dtype=np.int64),
                turn=cell(PlanTurn(place=size)),
            ),
            scores=np.zeros(self.n),
        )

    @classmethod
    def _entries(cls, parameters: Mapping[str, Any]) -> int:
        plan = parameters.get("plan")
        return max(super()._entries(parameters), plan if isinstance(plan, int) else 0)

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Draw as compiled loops do, in numpy: nothing is compiled."""
        items, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        plan, turn, done = self.state.plan, self.state.plan.turn[0], 0
        while done < size:
            if turn.place == plan.items.size:
                plan_in_numpy(self.state, self._every)
            count = min(size - done, plan.items.size - turn.place)
            drawn = plan.items[turn.place : turn.place + count]
            items[done : done + count] = drawn
            probabilities[done : done + count] = probabilities_of(self.state, drawn)
            turn.place += count
            done += count
        return items, probabilities

    def _record(self, probabilities: NDArray[np.float64], losses: NDArray[np.float64]) -> int:
        return record_many(self.tally, self.n, probabilities, losses)

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        self.state.scores[draw.indices] = np.minimum(losses, LARGEST)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution as of the latest draw, in O(n)."""
        out, among = np.zeros(self.n), self.state.among
        out[among] = probabilities_of(self.state, among)
        return out

    def update_all(self, losses: ArrayLike) -> None:
        """Learn from the losses of all items at once; the draws planned so far are dropped.

        Parameters
        ----------
        losses : array-like of float, shape (n,)
            Not negative and finite.
        """
        np.minimum(self._checked_all(losses), LARGEST, out=self.state.scores)
        self.state.plan.turn[0].place = self.state.plan.items.size

    def _largest_importance(self) -> float:
        return 2.0


def checked_items(among: ArrayLike, n: int) -> Ints:
    """Return different items from 0 to n - 1, or raise an error that names the first wrong one."""
    items = np.asarray(among)
    if items.ndim != 1 or items.size == 0 or items.dtype.kind not in "iu":
        raise ValueError("among must hold at least one item: integers of one dimension")
    items = items.astype(np.int64)
    wrong = (items < 0) | (items >= n)
    if wrong.any():
        place = int(wrong.argmax())
        raise ValueError(f"among[{place}] is {items[place]}, not from 0 to {n - 1}")
    if np.unique(items).size < items.size:
        raise ValueError("among holds an item twice")
    return items
