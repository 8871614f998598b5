"""Half of the draws in shuffled order, half by the latest loss of each item."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel, new_record
from tombola.compiling.records import Record
from tombola.random import next_below, next_word
from tombola.samplers.compiled import Compiled, CompiledSampler, update_all
from tombola.samplers.deck import Deck, deal_one, new_deck
from tombola.validation import whole

__all__ = ["Latest"]


class Plan(NamedTuple):
    """The next draws, in order, and the distribution that they were made from."""

    items: NDArray[np.int64]
    scores: NDArray[np.float64]  # the latest losses, as of the plan
    turn: Record  # place: of the next draw; total: of these scores; share: of draws by them


class _Parts(NamedTuple):
    stream: Record
    deck: Deck  # over places in `among`
    among: NDArray[np.int64]
    plan: Plan
    scores: NDArray[np.float64]  # the latest loss of each item


class LatestState(Compiled, _Parts):
    """A plan of draws, and the latest losses, from which the next plan is made."""

    __slots__ = ()
    derived = ("among",)

    @classmethod
    def limits(cls, state: Any) -> dict[str, tuple[float, float]]:
        """Return the range of items and places; losses are not negative."""
        return {
            "plan.items": (0, state.scores.size - 1),
            "plan.scores": (0.0, LARGEST),
            "plan.turn.place": (0, state.plan.items.size),
            "plan.turn.total": (0.0, LARGEST * state.scores.size),
            "plan.turn.share": (0.0, 0.5),
            "scores": (0.0, LARGEST),
        }

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Return the next item of the plan, and its probability when the plan was made."""
        turn = state.plan.turn[0]
        if turn.place == state.plan.items.size:
            make_plan(state)
        item = state.plan.items[turn.place]
        turn.place += 1
        return item, probability_of(state, item)

    @staticmethod
    def update_one(state: Any, item: Any, probability: Any, loss: Any) -> None:
        """Remember the loss."""
        state.scores[item] = min(loss, LARGEST)

    @staticmethod
    def update_all(state: Any, losses: Any) -> None:
        """Remember all losses, and plan anew."""
        for item in range(losses.size):
            state.scores[item] = min(losses[item], LARGEST)
        state.plan.turn[0].place = state.plan.items.size

    @staticmethod
    def fill_probabilities(state: Any, out: Any) -> None:
        """Write the probability of every item."""
        out[:] = 0.0
        for item in state.among:
            out[item] = probability_of(state, item)


LARGEST = 2.0**900  # of a loss: a sum of them is finite


@kernel(inline=True)
def probability_of(state: Any, item: Any) -> Any:
    """Return share * score / total + (1 - share) / n."""
    turn = state.plan.turn[0]
    shuffled = (1.0 - turn.share) / state.among.size
    if turn.share == 0.0:
        return shuffled
    return shuffled + turn.share * (state.plan.scores[item] / turn.total)


@kernel
def make_plan(state: Any) -> None:
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


@kernel
def take_all(state: Any, losses: NDArray[np.float64]) -> None:
    """Learn from the losses of all items, when called from Python."""
    update_all(state, losses)


class Latest(CompiledSampler):
    """Draws half of the time in shuffled order, half by the latest loss fed back for each item.

        p(i) = 1 / (2n) + l(i) / (2 sum_j l(j))             with l(i) the latest loss of item i

    The default of `SDCA`, which tells it the residuals of all rows now and then. Draws are planned
    n/2 at a time, from the losses known by then; without losses they are shuffled epochs. The
    reported probability of an item is its expected share of a plan. Draws of one plan are not
    independent: the half by losses is a systematic sample, which draws an item of probability p in
    m draws pm times, rounded up or down.

    A draw takes O(1) on average, an update O(1); memory is 32 bytes per item. A loaded `Result`
    restores it if it is the default of the solver.

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
        size = max(2, chosen.size // 2) if plan is None else given["plan"]
        self.state = LatestState(
            stream=self._stream.state,
            deck=new_deck(chosen.size),
            among=chosen,
            plan=Plan(
                np.zeros(size, dtype=np.int64),
                np.zeros(self.n),
                new_record(place=size, total=0.0, share=0.0),
            ),
            scores=np.zeros(self.n),
        )

    def update_all(self, losses: ArrayLike) -> None:
        """Learn from the losses of all items at once; the draws planned so far are dropped.

        Parameters
        ----------
        losses : array-like of float, shape (n,)
            Not negative and finite.
        """
        array = np.asarray(losses)
        if array.shape != (self.n,) or array.dtype.kind not in "fiub":
            raise ValueError(
                f"losses must be numbers of shape ({self.n},), got {array.dtype} of {array.shape}"
            )
        array = np.ascontiguousarray(array, dtype=np.float64)
        wrong = ~(np.isfinite(array) & (array >= 0))
        if wrong.any():
            place = int(wrong.argmax())
            raise ValueError(
                f"losses[{place}] is {array[place]}: losses must be finite and not negative"
            )
        take_all(self.state, array)

    @property
    def independent(self) -> bool:
        """False: the draws of one plan depend on one another."""
        return False

    def _largest_importance(self) -> float:
        return 2.0


def checked_items(among: ArrayLike, n: int) -> NDArray[np.int64]:
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
