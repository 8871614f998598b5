"""Samplers that keep a score for each item and draw from an index of integer weights.

Such a sampler is three small functions on a subclass of `Board`: `absorb` takes a loss into the
score of an item, `value` turns the score into the real number that the item's weight is
proportional to, and `prepare` sets what the next draws need to know (the mixing, say). The rest
is here, once: real values become integer weights, the uniform share of a mixture is added to
every weight at draw time, stale weights are refreshed a few at a time, and everything is
compiled together with the three functions.

With weights a_i of sum A and the uniform weight U, an item is drawn with probability
(a_i + U) / (A + n U): a ratio of integers, and exactly what the draw reports (rounded once, to
a float64). U is the smallest integer for which the uniform share n U / (A + n U) is at least
the mixing asked for.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, kernel, name_by_source, prefetch
from tombola.draws import Draw
from tombola.index import kernels as index
from tombola.random import next_below
from tombola.samplers.compiled import CompiledSampler

__all__ = ["Board", "BoardSampler", "normalised"]


class _Arrays(NamedTuple):
    words: NDArray[np.uint64]  # the random stream
    counts: NDArray[np.int64]  # the index: see tombola.index.kernels
    weights: NDArray[np.int64]
    order: NDArray[Any]
    position: NDArray[Any]
    scores: NDArray[np.float64]  # evidence about each item
    notes: NDArray[np.float32]  # a second number about each item; of length 0 where not needed
    deck: NDArray[Any]  # the items, for shuffled epochs; of length 0 where not needed
    knobs: NDArray[np.float64]  # numbers of the sampler, layout below
    clock: NDArray[np.int64]  # counters of the sampler, layout below


class Board(_Arrays):
    """All arrays of a sampler, as one argument for the kernels, and its three functions.

    A subclass writes `absorb` and `value`, and `prepare` where it needs it: static methods in
    the part of Python that numba compiles. The kernels find them by the type of the board.
    """

    __slots__ = ()

    @staticmethod
    def absorb(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Take a loss into the score of an item; the default learns nothing."""

    @staticmethod
    def value(board: Any, item: Any) -> Any:
        """Return the real number that the item's weight is proportional to."""
        return 1.0

    @staticmethod
    def prepare(board: Any, size: Any) -> Any:
        """Set mixing and mode for the next draws; return for how many of `size` that holds."""
        return size

    @staticmethod
    def draw_one(board: Any) -> Any:
        """Draw one item; return it and its probability."""
        return draw_from_index(board)

    @staticmethod
    def update_one(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Learn from one loss."""
        learn_one(board, item, probability, loss)

    @staticmethod
    def fill_probabilities(board: Any, out: Any) -> None:
        """Write the probability of every item, in the present mode."""
        fill_from_index(board, out)

    def __init_subclass__(cls) -> None:
        name_by_source(
            cls, cls.absorb, cls.value, cls.prepare,
            cls.draw_one, cls.update_one, cls.fill_probabilities,
        )  # fmt: skip


@by_type
def absorb(board: Any, item: Any, probability: Any, loss: Any) -> None:
    """Call the board's own `absorb`."""


@by_type
def value(board: Any, item: Any) -> Any:
    """Call the board's own `value`."""


@by_type
def prepare(board: Any, size: Any) -> Any:
    """Call the board's own `prepare`."""


# Layout of `knobs`; from OWN_KNOBS on, a sampler keeps what it likes.
SCALE = 0  # integer weight per unit of value; a power of two
UNIT = 1  # losses are multiplied by this power of two before they are squared; 0: not yet known
MIXING = 2  # the uniform share asked for
FADE = 3  # scores are multiplied by this when the sweep passes
FADE_NOTES = 4  # and notes by this
LEAST = 5  # the weight of an item of value 0
OWN_KNOBS = 6
KNOBS = 16

# Layout of `clock`; from OWN_CLOCK on, a sampler keeps what it likes.
DRAWN = 0  # items drawn
FED = 1  # losses received
MODE = 2  # ADAPTIVE or SHUFFLE
DEALT = 3  # place in the shuffled deck
CURSOR = 4  # the item that the sweep refreshes next
PENDING = 5  # items that it still has to refresh; ALWAYS for a sampler whose weights go stale
OWN_CLOCK = 6
CLOCK = 12

ADAPTIVE, SHUFFLE = 0, 1
ALWAYS = 2**62

SWEEP = 2  # items refreshed for each loss, while a sweep is on
TARGET = 2.0**50  # total weight after a rebuild
HIGH = 2**60  # a total above this, or an average weight below LOW, changes the scale
LOW = 2**10
SMALL = 2**20  # so many items are rebuilt at once, in milliseconds; more of them by a sweep


@kernel(inline=True)
def uniform_weight(board: Board) -> Any:
    """Return U for the mixing asked for; -1 where every draw is uniform."""
    mixing = board.knobs[MIXING]
    if mixing <= 0.0:
        return np.int64(0)
    total = board.counts[index.TOTAL]
    # 2^62 leaves room for area + n U below 2^63
    share = mixing / (1.0 - mixing) * total if mixing < 1.0 else np.inf
    if share >= 2.0**61:
        return np.int64(-1)
    return np.int64(share / board.counts[0]) + 1


@kernel(inline=True)
def probability_of(board: Board, item: Any, uniform: Any) -> Any:
    """Return the probability of an item, given the uniform weight."""
    n = board.counts[0]
    if uniform < 0:
        return 1.0 / n
    return (board.weights[item] + uniform) / (board.counts[index.TOTAL] + n * uniform)


@kernel(inline=True)
def draw_next(board: Board) -> Any:
    """Draw one item in the present mode; return it and its probability."""
    if board.clock[MODE] == SHUFFLE:
        return deal_one(board), 1.0 / board.counts[0]
    uniform = uniform_weight(board)
    if uniform < 0:
        item = next_below(board.words, np.uint64(board.counts[0]))
    else:
        item = index.draw_one(board.counts, board.weights, board.order, board.words, uniform)
    return item, probability_of(board, item, uniform)


@kernel(allocates=True)
def draw_batch(board: Board, items: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
    """Draw a batch in the present mode: the same, from the same words, as `draw_next`."""
    if board.clock[MODE] == SHUFFLE:
        for j in range(items.size):
            items[j] = deal_one(board)
            probabilities[j] = 1.0 / board.counts[0]
        return
    uniform = uniform_weight(board)
    if uniform < 0:
        for j in range(items.size):
            items[j] = next_below(board.words, np.uint64(board.counts[0]))
    else:
        index.draw_many(board.counts, board.weights, board.order, board.words, items, uniform)
    for j in range(items.size):
        probabilities[j] = probability_of(board, items[j], uniform)


@kernel(inline=True)
def deal_one(board: Board) -> Any:
    """Deal the next item of a shuffled deck; after the last one it is shuffled anew.

    Shuffling happens as we deal (Fisher and Yates, one swap each), so there is no pause.
    """
    deck = board.deck
    place = board.clock[DEALT]
    other = place + next_below(board.words, np.uint64(deck.size - place))
    item = deck[other]
    deck[other] = deck[place]
    deck[place] = item
    board.clock[DEALT] = place + 1 if place + 1 < deck.size else 0
    return np.int64(item)


@kernel
def fill_from_index(board: Board, out: NDArray[np.float64]) -> None:
    """Write the probability of every item, in the present mode."""
    uniform = -1 if board.clock[MODE] == SHUFFLE else uniform_weight(board)
    for item in range(out.size):
        out[item] = probability_of(board, item, uniform)


@kernel
def power_of_two_near(x: Any) -> Any:
    """Return a power of two p with x / p in [1/2, 1), for positive finite x.

    Below 2^-950 it stops, so that TARGET / p is finite.
    """
    exponent = math.frexp(x)[1]
    return math.ldexp(1.0, min(1000, max(-950, exponent)))


@kernel(inline=True)
def normalised(board: Board, loss: Any) -> Any:
    """Return the loss in the sampler's unit, never so large that its square overflows."""
    return min(loss * board.knobs[UNIT], 2.0**250)


@kernel(inline=True)
def least_weight(board: Board, value: Any) -> Any:
    """Return the smallest weight that an item of this value can have."""
    return np.int64(1) if value > 0.0 else np.int64(board.knobs[LEAST])


@kernel(inline=True)
def put(board: Board, item: Any, value: Any) -> None:
    """Turn a value into an integer weight: the only place where that happens.

    A weight is at least 1, so that every item can be drawn (a sampler may ask for 0 where the
    value is 0), and never brings the total beyond what the index holds; a value too large for
    that is re-scaled at the end of the update.
    """
    room = 2 * HIGH - (board.counts[index.TOTAL] - board.weights[item])
    scaled = value * board.knobs[SCALE]
    weight = min(room, np.int64(scaled) if scaled < 2.0**62 else room)
    weight = max(weight, least_weight(board, value))
    index.assign(board.counts, board.weights, board.order, board.position, item, weight)


@kernel(inline=True)
def sweep(board: Board) -> None:
    """Refresh a few more weights; re-scale all of them when they outgrow the index."""
    clock, knobs = board.clock, board.knobs
    n = board.counts[0]
    items = min(clock[PENDING], SWEEP)
    for _ in range(items):
        item = clock[CURSOR]
        clock[CURSOR] = item + 1 if item + 1 < n else 0
        if knobs[FADE] < 1.0:
            board.scores[item] *= knobs[FADE]
        if knobs[FADE_NOTES] < 1.0:
            board.notes[item] *= knobs[FADE_NOTES]
        put(board, item, value(board, item))
    if clock[PENDING] < ALWAYS:
        clock[PENDING] -= items
    if not LOW * n <= board.counts[index.TOTAL] <= HIGH:
        rescale(board)


@kernel
def rescale(board: Board) -> None:
    """Change the scale of the weights: at once where that is quick, else as the sweep goes."""
    clock, knobs = board.clock, board.knobs
    n = board.counts[0]
    if n <= SMALL:
        rebuild(board)
    elif clock[PENDING] == 0 or (clock[PENDING] == ALWAYS and clock[CURSOR] < SWEEP):
        knobs[SCALE] *= 0.5 if board.counts[index.TOTAL] > HIGH else 2.0
        clock[PENDING] = max(clock[PENDING], n)


@kernel
def rebuild(board: Board) -> None:
    """Choose the scale and derive all weights from the scores."""
    total = 0.0
    for item in range(board.weights.size):
        total += value(board, item)
    board.knobs[SCALE] = TARGET / power_of_two_near(total)
    for item in range(board.weights.size):
        real = value(board, item)
        weight = np.int64(real * board.knobs[SCALE])
        board.weights[item] = max(weight, least_weight(board, real))
    index.build(board.counts, board.weights, board.order, board.position)


@kernel(inline=True)
def draw_from_index(board: Board) -> Any:
    """Draw one item; return it and its probability."""
    prepare(board, 1)
    board.clock[DRAWN] += 1
    return draw_next(board)


@kernel(inline=True)
def learn_one(board: Board, item: Any, probability: Any, loss: Any) -> None:
    """Learn from one loss."""
    absorb(board, item, probability, loss)
    board.clock[FED] += 1
    put(board, item, value(board, item))
    sweep(board)


@kernel(allocates=True)
def draw_many(board: Board, items: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
    """Draw a batch: as many `draw_one` would draw, where `prepare` changes nothing between."""
    done = 0
    while done < items.size:
        size = prepare(board, items.size - done)
        board.clock[DRAWN] += size
        draw_batch(board, items[done : done + size], probabilities[done : done + size])
        done += size


@kernel
def update_many(
    board: Board,
    items: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    losses: NDArray[np.float64],
) -> None:
    """Learn from a batch, one after the other, after asking for the memory that it takes."""
    for j in range(items.size):
        prefetch(board.scores, items[j])
        prefetch(board.weights, items[j])
        prefetch(board.position, items[j])
        if board.notes.size:
            prefetch(board.notes, items[j])
    for j in range(items.size):
        prefetch(board.order, board.position[items[j]])
    for j in range(items.size):
        learn_one(board, items[j], probabilities[j], losses[j])


class BoardSampler(CompiledSampler):
    """A sampler with an index: a subclass names its `Board` and what it starts from.

    Parameters
    ----------
    n, seed
        As for every sampler.
    notes, deck : bool, default=False
        Whether the sampler uses the second number about each item, and shuffled epochs.
    mixing : float, default=0.0
        The uniform share at the start.
    unit : float, default=0.0
        A power of two that losses are multiplied by before they are squared.
    fade, fade_notes : float, default=1.0
        What scores and notes are multiplied by each time the sweep passes.
    stale : bool, default=False
        Whether weights change without feedback for their item, so that the sweep never stops.
    least : {0, 1}, default=1
        The weight of an item of value 0: with 0 (and no mixing) it is never drawn.
    parameters : dict, optional
        What else the constructor of the subclass was given.
    """

    state_class: type[Board]

    def __init__(
        self,
        n: int,
        seed: int,
        parameters: dict[str, Any] | None = None,
        *,
        notes: bool = False,
        deck: bool = False,
        mixing: float = 0.0,
        unit: float = 0.0,
        fade: float = 1.0,
        fade_notes: float = 1.0,
        stale: bool = False,
        least: int = 1,
    ) -> None:
        super().__init__(n, seed, parameters)
        n = self.n
        place = np.int32 if n < 2**31 else np.int64
        self.state = self.state_class(
            words=self._stream.state,
            counts=np.zeros(index.COUNTS, dtype=np.int64),
            weights=np.ones(n, dtype=np.int64),
            order=np.empty(n, dtype=place),
            position=np.empty(n, dtype=place),
            # written to now, not mapped to zeros: else draws would pause for it later
            scores=np.full(n, 0.0),
            notes=np.full(n if notes else 0, 0.0, dtype=np.float32),
            deck=np.arange(n if deck else 0, dtype=place),
            knobs=np.zeros(KNOBS),
            clock=np.zeros(CLOCK, dtype=np.int64),
        )
        self.state.knobs[[UNIT, MIXING, FADE, FADE_NOTES]] = unit, mixing, fade, fade_notes
        self.state.knobs[LEAST] = least
        self.state.clock[PENDING] = ALWAYS if stale or min(fade, fade_notes) < 1 else 0

    def _rebuild(self) -> None:
        """Derive all weights from the scores; to be called once these are as they start."""
        rebuild(self.state)

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | Draw:
        items, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        draw_many(self.state, items, probabilities)
        return items, probabilities

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        update_many(self.state, draw.indices, draw.probabilities, losses)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: array for name, array in self.state._asdict().items() if name != "words"}

    def _largest_importance(self) -> float:
        if self.state.clock[MODE] == SHUFFLE:
            return 1.0
        mixing = float(self.state.knobs[MIXING])
        return 1.0 / mixing if mixing > 0 else np.inf

    @property
    def mode(self) -> str:
        """What the sampler does now: "adaptive", or "shuffle" where it deals shuffled epochs."""
        return "shuffle" if self.state.clock[MODE] == SHUFFLE else "adaptive"
