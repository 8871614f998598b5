"""A counter-based generator: a random number is a function of (seed, path, position).

The generator is Philox 4x64-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers:
as easy as 1, 2, 3"): ten rounds of multiply and xor that map a 256-bit counter, under a
128-bit key, to four 64-bit words. The key is the seed; the counter is (block, path).

Why streams never overlap: for a fixed key Philox is a bijection on counters, and two streams
with different paths never use the same counter.

``docs/decisions/generator.md`` explains the choice of generator.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, multiply_wide
from tombola.state import (
    LARGEST_COUNT,
    Cell,
    Record,
    Scope,
    Versioned,
    cell,
    derived,
    integer,
    listed,
)
from tombola.validation import whole

__all__ = [
    "Stream",
    "Words",
    "bounded",
    "bounded_once",
    "fill_words",
    "integers_below",
    "next_below",
    "next_word",
    "rejected_below",
    "seek",
    "take_words",
    "word_of_child",
]


class Words(Record):
    """The state of a stream, as the kernels take it."""

    key: NDArray[np.uint64] = derived("the seed, in two words")
    path: NDArray[np.uint64] = derived("1 + the number of the child at each level, 0 for none")
    position: np.uint64 = integer("words generated so far", 0, LARGEST_COUNT)
    buffer: NDArray[np.uint64] = derived("the current block, if position % 4 is not 0")

    @classmethod
    def restore(cls, records: Any) -> None:
        """Generate the current block."""
        take_words(records, 0)


def new_state(seed: int, path: Sequence[int]) -> Cell[Words]:
    """Return the state of a stream at position 0."""
    key = np.array([seed & (2**64 - 1), seed >> 64], dtype=np.uint64)
    # 0 marks an absent level, so that the child of a stream is never the stream itself
    levels = np.array([*(level + 1 for level in path), 0, 0, 0][:3], dtype=np.uint64)
    buffer = np.zeros(4, dtype=np.uint64)
    return cell(Words(key=key, path=levels, position=np.uint64(0), buffer=buffer))


_WORD_MAX = np.uint64(2**64 - 1)
_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
_WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)


@kernel
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Return the four words of Philox 4x64-10 for a counter and a key."""
    for _ in range(10):
        high_0, low_0 = multiply_wide(_MULTIPLIER_0, c0)
        high_1, low_1 = multiply_wide(_MULTIPLIER_1, c2)
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0 += _WEYL_0
        k1 += _WEYL_1
    return c0, c1, c2, c3


@kernel
def block(state: Cell[Words], number: Any) -> Any:
    """Return the four words of block ``number`` of the stream."""
    path, key = state[0].path, state[0].key
    return philox(number, path[0], path[1], path[2], key[0], key[1])


@kernel
def seek(state: Cell[Words], position: Any) -> None:
    """Move the stream to a position, forwards or backwards."""
    state[0].position = position
    if position & _THREE:
        buffer = state[0].buffer
        buffer[0], buffer[1], buffer[2], buffer[3] = block(state, position >> _TWO)


@kernel(inline=True)
def next_word(state: Cell[Words]) -> Any:
    """Return the next word."""
    position, buffer = state[0].position, state[0].buffer
    if not position & _THREE:
        buffer[0], buffer[1], buffer[2], buffer[3] = block(state, position >> _TWO)
    state[0].position = position + _ONE
    return buffer[np.int64(position & _THREE)]


@kernel
def fill_words(state: Cell[Words], out: NDArray[np.uint64]) -> None:
    """Fill `out` with the next words: the words that ``next_word`` would return, in order."""
    done = 0
    while done < out.size and state[0].position & _THREE:
        out[done] = next_word(state)
        done += 1
    number = state[0].position >> _TWO
    blocks = (out.size - done) // 4
    for _ in range(blocks):
        out[done], out[done + 1], out[done + 2], out[done + 3] = block(state, number)
        number += _ONE
        done += 4
    if blocks:
        state[0].position = number << _TWO
    while done < out.size:
        out[done] = next_word(state)
        done += 1


def take_words(state: Cell[Words], size: int) -> NDArray[np.uint64]:
    """Return the next words, as `fill_words` does, by numpy's generator: nothing is compiled."""
    # fields of the array: those of a record take ten times as long
    position, words = state["position"], np.empty(0, dtype=np.uint64)
    first = position.item()
    begin, end = first // 4, -(-(first + size) // 4)
    if end > begin:
        key, path = state["key"][0].tolist(), state["path"][0].tolist()
        counter = (sum(level << 64 * (k + 1) for k, level in enumerate(path)) + begin - 1) % 2**256
        # numpy adds 1 to the counter before each block
        generator = np.random.Philox(key=key[0] | key[1] << 64, counter=counter)
        words = generator.random_raw(4 * (end - begin))
        state["buffer"][0] = words[-4:]
    position[0] = first + size
    return words[first - 4 * begin : first - 4 * begin + size]


def integers_below(bounds: NDArray[np.int64], words: Callable[[int], Any]) -> NDArray[np.int64]:
    """Return what calls of `next_below`, one for each bound, would; `words` returns the next words.

    A rejected word is replaced by the next one. That is rare enough for a search from there on.
    """
    out = np.empty(bounds.size, dtype=np.int64)
    done, found = 0, words(bounds.size)
    while done < bounds.size:
        bound = bounds[done:].astype(np.uint64)
        high, low = multiply_apart(found, bound)
        rejected = np.flatnonzero(low < (_WORD_MAX - bound + _ONE) % bound)
        count = int(rejected[0]) if rejected.size else bound.size
        out[done : done + count] = high[:count]
        done += count
        if rejected.size:
            found = np.append(found[count + 1 :], words(1))
    return out


def multiply_apart(word: NDArray[np.uint64], bound: NDArray[np.uint64]) -> tuple[Any, Any]:
    """Return the high and the low halves of products, as `multiply_wide` does for each."""
    half, rest = np.uint64(32), np.uint64(2**32 - 1)
    high_word, low_word = word >> half, word & rest
    high_bound, low_bound = bound >> half, bound & rest
    middle = high_word * low_bound + (low_word * low_bound >> half)
    other = low_word * high_bound + (middle & rest)
    return high_word * high_bound + (middle >> half) + (other >> half), word * bound


@kernel(inline=True)
def rejected_below(bound: Any) -> Any:
    """Return 2^64 mod bound: the number of words, out of 2^64, that `bounded` must reject."""
    return (_WORD_MAX - bound + _ONE) % bound


@kernel(inline=True)
def bounded(word: Any, bound: Any, rejected: Any) -> Any:
    """Map a word to an integer in [0, bound) by multiply and shift (Lemire 2019).

    Returns the integer and whether to accept it. With ``rejected = rejected_below(bound)``,
    each integer is the result of exactly ``2^64 // bound`` accepted words.
    """
    high, low = multiply_wide(word, bound)
    return np.int64(high), low >= rejected


@kernel(inline=True)
def bounded_once(word: Any, bound: Any) -> Any:
    """Do as `bounded`, and find out what to reject.

    The low half is nearly always at least `bound` > 2^64 mod bound: no division is needed then.
    """
    high, low = multiply_wide(word, bound)
    return np.int64(high), low >= bound or low >= rejected_below(bound)


@kernel(inline=True)
def next_below(state: Cell[Words], bound: Any) -> Any:
    """Return the next integer in [0, bound); all have exactly the same probability."""
    while True:
        value, accepted = bounded_once(next_word(state), bound)
        if accepted:
            return value


@kernel
def word_of_child(state: Cell[Words], number: Any, position: Any) -> Any:
    """Return the word at a position of child `number` of a stream with one level of path."""
    path, key = state[0].path, state[0].key
    child, lane = np.uint64(number) + _ONE, position & _THREE
    words = philox(position >> _TWO, path[0], child, path[2], key[0], key[1])
    return words[np.int64(lane)]


@kernel
def _fill_below(state: Cell[Words], bound: Any, out: NDArray[np.int64]) -> None:
    for i in range(out.size):
        out[i] = next_below(state, bound)


class StreamState(Versioned):
    """What `Stream.state_dict` returns."""

    kind: ClassVar = "Stream"

    seed: int = integer("the seed", 0, 2**128 - 1)
    path: list[int] = listed("the child numbers", integer("one level", 0, 2**64 - 2))
    position: int = integer("words generated so far", 0, 2**63 - 1)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the path."""
        return "" if len(self.path) <= 3 else f"path has {len(self.path)} levels, at most 3 fit"


class Stream:
    """A reproducible stream of random words, independent of any global state.

    Word number ``position`` of a stream is a function of ``seed``, ``path`` and ``position``
    alone, so ``words(3)`` followed by ``words(5)`` equals ``words(8)``.

    A forked process keeps its parent's stream position, so both draw the same numbers. Give each
    process a `child` of its own.

    Parameters
    ----------
    seed : int
        From 0 to 2^128 - 1.
    path : sequence of int, default=()
        At most three integers from 0 to 2^64 - 2, one for each nested call of `child`: the rank,
        then the worker, for example. Streams with different paths never share a counter.

    Examples
    --------
    >>> stream = Stream(seed=7)
    >>> stream.integers(10, size=5)
    array([9, 7, 9, 1, 8])
    >>> stream.position
    5
    >>> stream.child(3)                     # for worker 3: starts at its own position 0
    Stream(seed=7, path=(3,), position=0)

    References
    ----------
    Salmon, Moraes, Dror, Shaw (2011). Parallel random numbers: as easy as 1, 2, 3.
    Lemire (2019). Fast random integer generation in an interval.
    """

    def __init__(self, seed: int, path: Sequence[int] = ()) -> None:
        seed = whole("seed", seed, 0, 2**128)
        levels = tuple(whole(f"path[{i}]", level, 0, 2**64 - 1) for i, level in enumerate(path))
        if len(levels) > 3:
            raise ValueError(f"path has {len(levels)} levels, at most 3 fit into the counter")
        self._seed = seed
        self._path = levels
        self.state = new_state(seed, levels)

    @property
    def seed(self) -> int:
        """The seed."""
        return self._seed

    @property
    def path(self) -> tuple[int, ...]:
        """The child numbers that lead from the root to this stream; empty for the root."""
        return self._path

    @property
    def position(self) -> int:
        """The number of words generated so far; it can be set, forwards or backwards."""
        return int(self.state[0].position)

    @position.setter
    def position(self, position: int) -> None:
        self.state[0].position = np.uint64(whole("position", position, 0, 2**63))
        take_words(self.state, 0)

    def child(self, number: int) -> "Stream":
        """Return child stream ``number``, which shares no counter with any other stream."""
        return Stream(self._seed, (*self._path, number))

    def words(self, size: int) -> NDArray[np.uint64]:
        """Return the next ``size`` words of 64 random bits."""
        return take_words(self.state, whole("size", size, 0, 2**63))

    def integers(self, bound: int, size: int) -> NDArray[np.int64]:
        """Return ``size`` integers, uniform over [0, bound).

        The bound is at most 2^63. The integers have no bias: words that would introduce one are
        rejected and replaced by the next word.
        """
        if whole("bound", bound, 0, 2**63 + 1) == 0:
            raise ValueError("bound is 0: there is no integer in [0, 0)")
        out = np.empty(whole("size", size, 0, 2**63), dtype=np.int64)
        _fill_below(self.state, np.uint64(bound), out)
        return out

    def state_dict(self) -> dict[str, Any]:
        """Return seed, path and position, which define the stream completely."""
        path = list(self._path)
        return StreamState(seed=self._seed, path=path, position=self.position).state_dict()

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "Stream":
        """Return the stream that `state_dict` described, or raise a CheckpointError."""
        saved = StreamState.from_state_dict(state)
        stream = cls(saved.seed, saved.path)
        stream.position = saved.position
        return stream

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the stream that `state_dict` described, or raise a CheckpointError."""
        vars(self).update(vars(Stream.from_state_dict(state)))

    def __repr__(self) -> str:
        return f"Stream(seed={self._seed}, path={self._path}, position={self.position})"
