"""Checks of saving and loading, for everything that has a state.

A check calls ``make()`` for a new thing, the same each time, and ``play(thing)`` to use it: that
changes its state, and returns whatever can be observed, as nested dicts and lists of arrays,
tensors and numbers.
"""

import copy
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tombola import checkpoint, samplers
from tombola.state import CheckpointError
from tombola.testing.judging import promise, same
from tombola.testing.playing import Factory, trace

__all__ = [
    "check_reset",
    "check_resume",
    "check_state",
    "check_state_damage",
    "check_state_memory",
    "check_state_refusal",
    "check_state_resume",
]

Make = Callable[[], Any]
Play = Callable[[Any], Any]
Wrong = Callable[[Any], Iterable[tuple[Any, str]]]

NUMBERS = (0, -1, 2**31, 2**62, 2**64, 10**400, 0.5, -1e308, 1e308, float("nan"), float("inf"))
DEEP: dict[str, Any] = {}
for _ in range(400):
    DEEP = {"a": DEEP}
ODD: tuple[Any, ...] = (
    None, "text", [], {}, True, [1, 2], {"a": 1}, np.array(["a", "b"]), np.array(2**63 - 1),
    np.array(0.5, dtype=">f8"), np.zeros(3, dtype=np.complex128), np.ma.masked_array([1.0, 2.0]),
    DEEP, "\x1b[2J" * 2000, {"\x1b[2J" * 2000: 1},
)  # fmt: skip
HUGE = (2**31, 2**40, 2**59, 1e300, ["x" * 10**5] + [0.0] * 400)  # as an array, 160 MB
NEVER = (" removed", " with an unknown entry")  # what no dict may be: all entries, and no other
ROOM = 2**24  # bytes that loading a small state may take, besides a multiple of its size


def check_state(make: Make, play: Play) -> None:
    """Run every check of a state; raise one AssertionError that lists all broken promises.

    Parameters
    ----------
    make : callable
        Returns a new thing with `state_dict` and `load_state_dict`, the same each time.
    play : callable
        Uses the thing, and returns whatever can be observed.

    Examples
    --------
    >>> import tombola
    >>> def play(index):
    ...     drawn = index.draw(20).indices
    ...     index.set(drawn, drawn + 1)
    ...     return drawn
    >>> check_state(lambda: tombola.WeightIndex([1, 2, 5]), play)
    """
    broken = []
    for check in (check_state_resume, check_state_refusal, check_state_damage, check_state_memory):
        try:
            check(make, play)
        except Exception as error:
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            broken.append(f"{check.__name__}: {kind}{error}")
    if broken:
        raise AssertionError("its state breaks\n  " + "\n  ".join(broken))


def check_state_resume(make: Make, play: Play) -> None:
    """Check that what was saved to a file and loaded continues exactly as the original."""
    thing = make()
    for plays in range(3):
        live = thing.state_dict()
        state = plain(live)
        promise(same(plain(thing.state_dict()), state), "two calls of state_dict() differ")
        copies = [make(), _played(make, play)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.npz"
            checkpoint.save(thing, path)
            checkpoint.load(path, into=copies[0])
            copies[1].load_state_dict(state)
            if state["class"] in {*checkpoint.COMPLETE, *samplers.__all__} & {type(thing).__name__}:
                copies.append(checkpoint.load(path))
        for other in copies:
            promise(
                same(plain(other.state_dict()), state), "a loaded state differs from the saved one"
            )
        played = plain(play(thing))
        promise(
            same(plain(live), state),
            "a state changes while its owner plays: state_dict() must copy",
        )
        for other in copies:
            promise(
                same(plain(play(other)), played)
                and same(plain(other.state_dict()), plain(thing.state_dict())),
                f"after {plays} plays, what was saved and loaded does not continue as the "
                "original: something that it depends on is not in state_dict()",
            )
        _overwrite(state)
        promise(
            same(plain(copies[1].state_dict()), plain(thing.state_dict())),
            "overwriting a loaded state changes its owner: load_state_dict() must copy",
        )


def check_state_refusal(make: Make, play: Play) -> None:
    """Check that what is not a state of this class raises a CheckpointError and changes nothing."""
    thing = _played(make, play)
    state = plain(thing.state_dict())
    promise("class" in state and "format" in state, "a state must name its class and format")
    others: list[Any] = [
        None, 3, "text", [], {}, {"class": state["class"]}, {**state, "class": "Another"},
        {**state, "class": np.array([1, 2])}, {**state, "format": state["format"] + 1},
        {**state, "format": True}, {**state, "more": 1},
    ]  # fmt: skip
    for other in others:
        accepted = _attempt(thing, other, what := f"a state that is {_shown(other)}", state)
        promise(not accepted, f"{what} was accepted")


def check_state_damage(make: Make, play: Play) -> None:
    """Check that every damaged state is refused, with nothing changed, or does no harm."""
    state, thing = plain(_played(make, play).state_dict()), make()
    before, accepted = plain(thing.state_dict()), 0
    for damaged, what in _damages(state, (*ODD, *NUMBERS), _reshaped):
        if not _attempt(thing, damaged, what, before):
            continue
        promise(not what.endswith(NEVER), f"{what} was accepted")
        accepted += 1
        try:
            play(thing)
            thing.load_state_dict(thing.state_dict())
        except Exception as error:
            name = type(error).__name__
            raise AssertionError(f"{what} was accepted, and then: {name}: {error}") from None
        thing = make()
    promise(accepted < 10 * sum(1 for _ in _places(state)), "nothing is refused")


def check_state_memory(make: Make, play: Play) -> None:
    """Check that a small state cannot make us allocate much memory, whatever its numbers say."""
    state, thing = plain(_played(make, play).state_dict()), make()
    limit = ROOM + 50 * sum(array.nbytes for array in _leaves(state) if hasattr(array, "nbytes"))
    for damaged, what in _damages(state, HUGE):
        tracemalloc.start()
        try:
            thing.load_state_dict(damaged)
        except CheckpointError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        promise(peak < limit, f"loading a state with {what} takes {peak / 2**20:.0f} MB")


# --- samplers -----------------------------------------------------------------------------------


def check_resume(factory: Factory, n: int = 6) -> None:
    """Check that a sampler saved to a file and loaded continues exactly as the original."""
    check_state_resume(lambda: factory(n, 16), trace)
    sampler, wrong = factory(n, 16), factory(n + 1, 16).state_dict()
    accepted = _attempt(sampler, wrong, "a state over n + 1 items", sampler.state_dict())
    promise(not accepted, "a state over n + 1 items was accepted")


def check_reset(factory: Factory, n: int = 6) -> None:
    """Check that reset() restores the initial state, and that draws repeat."""
    sampler = factory(n, 17)
    new = sampler.state_dict()
    played = trace(sampler)
    sampler.reset()
    promise(same(sampler.state_dict(), new), "reset() does not restore the initial state")
    promise(same(trace(sampler), played), "draws after reset() differ from the first ones")


# --- parts of the checks ------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a copy of nested data with arrays in place of tensors."""
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def _played(make: Make, play: Play) -> Any:
    """Return something that has been used, and whose state must be replaced completely."""
    thing = make()
    for _ in range(2):
        play(thing)
    return thing


def _attempt(thing: Any, state: Any, what: str, before: Any) -> bool:
    """Load a state; return whether it was accepted, and check that a refusal changes nothing."""
    try:
        thing.load_state_dict(state)
    except CheckpointError as error:
        text = str(error)
        promise(text.isprintable() and len(text) < 6000, f"{what}: the error is not one short line")
    except Exception as error:
        name = type(error).__name__
        raise AssertionError(
            f"{what} must raise a CheckpointError, raised {name}: {error}"
        ) from None
    else:
        return True
    promise(same(plain(thing.state_dict()), before), f"{what} was refused, but the state changed")
    return False


def _damages(
    state: Any, others: tuple[Any, ...], more: Wrong = lambda value: ()
) -> Iterator[tuple[Any, str]]:
    """Yield copies of a state with one thing wrong, and what that is."""
    for path, value in _places(state):
        name = ".".join(map(str, path))
        for wrong, how in (*_replaced(value, others), *more(value)):
            damaged = inner = copy.copy(state)
            for key in path[:-1]:
                inner[key] = inner = copy.copy(inner[key])
            inner[path[-1]] = wrong
            if how == "removed":
                del inner[path[-1]]
                how += " from the list" if isinstance(inner, list) else ""
            yield damaged, f"{name} {how}"


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every place in a state, and what is there; of lists, the first and the last entry."""
    if path:
        yield path, value
    keys: Iterable[Any] = value if isinstance(value, dict) else ()
    if isinstance(value, list) and value:
        keys = {0, len(value) - 1}
    for key in keys:
        yield from _places(value[key], (*path, key))


def _replaced(value: Any, others: tuple[Any, ...]) -> Iterator[tuple[Any, str]]:
    """Yield what may stand in the place of a value, or of the last number of an array."""
    for other in others:
        yield other, f"= {_shown(other)}"
    if isinstance(value, np.ndarray) and value.size:
        for number in (*others, value.size):
            if type(number) is float or (type(number) is int and abs(number) < 2**63):
                with np.errstate(all="ignore"):
                    changed = value.copy()
                    changed.flat[-1] = np.array(number).astype(value.dtype)
                yield changed, f"[-1] = {changed.flat[-1]}"


def _reshaped(value: Any) -> Iterator[tuple[Any, str]]:
    """Yield what a value may have become as a whole, and how it differs."""
    yield None, "removed"
    if isinstance(value, dict):
        yield {**value, "more": 1}, "with an unknown entry"
    elif isinstance(value, list):
        yield [*value, *value[:1]], "one longer"
    elif isinstance(value, np.ndarray) and value.ndim and value.size:
        yield value[:-1], "one shorter"
        yield np.concatenate([value, value[:1]]), "one longer"
        yield value[np.newaxis], "with one more dimension"
        yield value.tolist(), "as a list"
        yield value.astype("U9"), "as text"
        yield value.astype(np.float32), "of single precision"
        yield value.astype(value.dtype.newbyteorder()), "of another byte order"
        yield np.roll(value, 1), "rotated by one"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list, np.ndarray)):
        return f"a {type(value).__name__}"
    return repr(value)[:40]


def _overwrite(state: Any) -> None:
    """Set every array of a state to zero."""
    for array in _leaves(state):
        if isinstance(array, np.ndarray) and array.dtype.kind in "biuf":
            array[...] = 0
