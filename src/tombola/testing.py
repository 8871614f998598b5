"""The conformance suite: what every sampler promises, as checks that can be run.

`check_sampler` plays a sampler of any class, ours or yours, and says which promise it breaks.
Each check is a function of its own, to be run alone while you look for the fault:

>>> from tombola import Uniform
>>> from tombola.testing import check_sampler, check_seeds
>>> check_seeds(lambda n, seed: Uniform(n, seed=seed))
>>> check_sampler(lambda n, seed: Uniform(n, seed=seed))

A check calls ``factory(n, seed)`` for new samplers. Where a sampler is made from something else,
make that from n: ``lambda n, seed: Static(1.0 + np.arange(n), seed=seed)``.

Losses are between 0 and 1, so a bound of 1 holds, except in `check_extreme_losses`. Statistical
checks have fixed seeds, and a correct sampler fails one with a probability of about ALPHA.
"""

import random
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola import checkpoint, samplers
from tombola.draws import Draw
from tombola.samplers import Uniform

__all__ = [
    "ALPHA",
    "CHECKS",
    "check_bad_feedback",
    "check_draws",
    "check_duplicates",
    "check_empty_draw",
    "check_extreme_losses",
    "check_first_draws",
    "check_foreign_draws",
    "check_frequencies",
    "check_gauge",
    "check_global_randomness",
    "check_irregular_feedback",
    "check_mean",
    "check_one_item",
    "check_probabilities",
    "check_probability_of_the_draw",
    "check_reset",
    "check_resume",
    "check_sampler",
    "check_seeds",
    "check_zero_losses",
]

ALPHA = 1e-9  # the chance of a false alarm, for each statistical check

Factory = Callable[[int, int], Any]


def check_sampler(
    factory: Factory,
    *,
    n: Sequence[int] = (1, 2, 6, 40),
    feedback: str = "drawn",
    uses_probability: bool = True,
    skip: Collection[str] = (),
) -> None:
    """Run every check; raise one AssertionError that lists all promises that were broken.

    Parameters
    ----------
    factory : callable
        ``factory(n, seed)`` returns a new sampler over n items.
    n : sequence of int, default=(1, 2, 6, 40)
        The numbers of items to check with. Statistics are taken with those up to 6.
    feedback : {"drawn", "all"}, default="drawn"
        "drawn": the sampler learns by ``update(draw, losses)``. "all": it wants the losses of
        all items, ``update_all(losses)``; checks of feedback to single draws are left out.
    uses_probability : bool, default=True
        Whether the rule of the sampler uses the probability that an item was drawn with. The
        check that it is the probability of the *draw* cannot tell a rule that looks it up too
        late from one that never uses it, so a sampler of the second kind has to say so. One
        that learns nothing need not.
    skip : collection of str, default=()
        Names of checks to leave out, where a sampler means to break a promise.

    Examples
    --------
    >>> import tombola
    >>> check_sampler(lambda n, seed: tombola.VRB(n, bound=1.0, mixing=0.2, seed=seed))
    """
    names = [check.__name__ for check in CHECKS]
    for name in skip:
        if name not in names:
            raise ValueError(f"skip names {name!r}, which is no check; there are {names}")
    if feedback not in ("drawn", "all"):
        raise ValueError(f'feedback must be "drawn" or "all", got {feedback!r}')
    broken = []
    for check in CHECKS:
        if check.__name__ in skip or (feedback == "all" and check in _OF_SINGLE_DRAWS):
            continue
        more = {"uses_probability": uses_probability} if check in _OF_PROBABILITY else {}
        for size in _sizes(check, n):
            try:
                check(factory, n=size, feedback=feedback, **more)
            except Exception as error:
                kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                broken.append(f"{check.__name__} (n = {size}): {kind}{error}")
                break
    if broken:
        raise AssertionError("the sampler fails\n  " + "\n  ".join(broken))


def _sizes(check: Any, n: Sequence[int]) -> list[int]:
    """Return the numbers of items that a check makes sense with."""
    if check is check_one_item:
        return [size for size in n if size == 1]
    several = [size for size in n if size > 1]
    if check in _STATISTICAL:
        return [size for size in several if size <= 6]
    return several


# --- what a draw reports --------------------------------------------------------------------


def check_probabilities(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that probabilities() is a distribution over n items, round after round."""
    sampler = factory(n, 1)
    for played in range(30):
        draw = _round(sampler, 5, feedback)
        _check_distribution(sampler.probabilities(), n, f"after {played + 1} rounds")
        _promise(
            bool((draw.probabilities > 0).all()), "a draw holds an item that has no probability"
        )


def check_draws(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that a draw is immutable and reports what `probabilities` says, item by item."""
    sampler = factory(n, 2)
    previous = -1
    for size in (1, 3, 2 * n + 1, 1, 300, 1, 300):
        # the first draw after feedback may set what the next ones need to know
        single = sampler.draw(1)
        before = sampler.probabilities()
        _promise(
            _close(single.probabilities, before[single.indices]),
            f"item {single.indices[0]} was drawn with {single.probabilities[0]} by its draw, "
            f"with {before[single.indices[0]]} by probabilities() right after it",
        )
        draw = sampler.draw(size)
        after = sampler.probabilities()
        _check_form(draw, size, n)
        _promise(draw.round > single.round > previous, "rounds do not count up, draw by draw")
        previous = draw.round
        # a batch may pass from one distribution to the next: each item belongs to one of them
        right = np.isclose(draw.probabilities, before[draw.indices], rtol=1e-12, atol=0)
        right |= np.isclose(draw.probabilities, after[draw.indices], rtol=1e-12, atol=0)
        worst = int(np.argmin(right))
        _promise(
            bool(right.all()),
            f"item {draw.indices[worst]} was drawn with {draw.probabilities[worst]} by its draw, "
            f"with {before[draw.indices[worst]]} by probabilities()",
        )
        for drawn in (single, draw):
            _feed(sampler, drawn, _losses(n), feedback)


def check_frequencies(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that items are drawn as often as reported, while the sampler learns."""
    counts, expected = np.zeros(n), np.zeros(n)
    for draw, probabilities in _rounds(factory, n, feedback):
        counts += np.bincount(draw.indices, minlength=n)
        expected += len(draw) * probabilities
    _check_counts(counts, expected, "in a long run")


def check_first_draws(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check the frequencies of the first, second and third item drawn, over many seeds.

    For samplers whose draws depend on one another, such as shuffled epochs, this is what the
    probabilities of a draw mean.
    """
    counts, expected = np.zeros((3, n)), np.zeros((3, n))
    for seed in range(3000):
        sampler = factory(n, seed)
        for place in range(3):
            counts[place, sampler.draw(1).indices[0]] += 1
            expected[place] += sampler.probabilities()
    for place in range(3):
        _check_counts(counts[place], expected[place], f"as number {place + 1}, over 3000 seeds")


def check_mean(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that `draw.mean` is an unbiased estimate: of 1 from ones, of a mean from values."""
    # Freedman's inequality for sums of martingale differences, with a little more for a variance
    # that is not fixed in advance
    x = np.log(2 / ALPHA) + 3
    for values in (np.ones(n), 1.0 - _losses(n) ** 2):
        error, variance, largest = 0.0, 0.0, 0.0
        for draw, probabilities in _rounds(factory, n, feedback):
            error += len(draw) * (draw.mean(values[draw.indices]) - values.mean())
            terms = values / (n * probabilities)
            second_moment = float((probabilities * terms**2).sum())
            variance += len(draw) * max(0.0, second_moment - values.mean() ** 2)
            largest = max(largest, float(terms.max()))
        margin = np.sqrt(2 * variance * x) + largest * x
        _promise(
            abs(error) <= margin,
            f"the estimates of a mean of {values.mean():.3g} are biased: their errors sum to "
            f"{error:.4g}, which should be within {margin:.4g}",
        )


def check_empty_draw(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that draw(0) uses no randomness, and that senseless sizes are refused."""
    sampler, twin = factory(n, 3), factory(n, 3)
    for _ in range(3):
        empty = sampler.draw(0)
        _check_form(empty, 0, n)
        if feedback == "drawn":
            sampler.update(empty, [])
        draws = sampler.draw(7), twin.draw(7)
        _promise(
            np.array_equal(draws[0].indices, draws[1].indices),
            "after draw(0), other items are drawn: it used randomness",
        )
        for player, draw in zip((sampler, twin), draws, strict=True):
            _feed(player, draw, _losses(n), feedback)
    before = sampler.state_dict()
    for size, error in ((-1, ValueError), (1.5, TypeError), ("3", TypeError)):
        _refuses(sampler.draw, (size,), error, f"draw({size!r})")
    _promise(_same(before, sampler.state_dict()), "a refused draw changed the state")


def check_one_item(factory: Factory, n: int = 1, feedback: str = "drawn") -> None:
    """Check that a single item has probability 1, whatever is fed."""
    sampler = factory(n, 4)
    for loss in (0.0, 1.0, 0.5):
        draw = sampler.draw(3)
        _promise(
            draw.indices.tolist() == [0] * 3 and _close(draw.probabilities, np.ones(3)),
            f"with one item, a draw holds {draw.indices} with {draw.probabilities}",
        )
        _feed(sampler, draw, np.array([loss]), feedback)
        _promise(_close(sampler.probabilities(), np.ones(1)), "one item has not probability 1")


# --- randomness -----------------------------------------------------------------------------


def check_seeds(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that draws repeat with the seed, and differ with another one."""
    first, second, other = factory(n, 5), factory(n, 5), factory(n, 6)
    trace = _trace(first, feedback)
    _promise(_same(trace, _trace(second, feedback)), "two samplers of one seed draw differently")
    _promise(
        not np.array_equal(trace["indices"], _trace(other, feedback)["indices"]),
        "samplers of two seeds draw the same items",
    )


def check_global_randomness(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that the global generators of Python and numpy are left alone."""
    python, numpy_ = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    sampler = factory(n, 7)
    _trace(sampler, feedback)
    sampler.load_state_dict(sampler.state_dict())
    sampler.reset()
    _promise(random.getstate() == python, "the global generator of `random` was touched")
    _promise(
        _same(np.random.get_state(legacy=False), numpy_),  # noqa: NPY002
        "the global generator of numpy was touched",
    )


# --- feedback -------------------------------------------------------------------------------


def check_duplicates(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that a batch with repeated items teaches the same as its items, one by one."""
    together, apart = factory(n, 8), factory(n, 8)
    for played in range(40):
        draw, same_draw = together.draw(3 * n), apart.draw(3 * n)
        losses = _losses(n)[draw.indices] * np.linspace(0.5, 1.0, len(draw))
        together.update(draw, losses)
        for j in range(len(same_draw)):
            apart.update(same_draw[j], losses[j : j + 1])
        _promise(
            _close(together.probabilities(), apart.probabilities(), 1e-9),
            f"in round {played + 1}, a batch with repeated items leads to "
            f"{together.probabilities()[:6]}, its items one by one to {apart.probabilities()[:6]}",
        )
        if not np.array_equal(draw.indices, same_draw.indices):
            return  # equal up to rounding, until rounding made one draw differ


def check_probability_of_the_draw(
    factory: Factory, n: int = 6, feedback: str = "drawn", uses_probability: bool = True
) -> None:
    """Check that feedback counts with the probability of its draw, not with that of now.

    Two samplers of one seed get the same late draw, but for one of them its probabilities are
    halved. If both go on alike, the rule does not look at the probability that the draw holds.
    """
    if not _learns(factory, n):
        return
    sampler, twin = factory(n, 9), factory(n, 9)
    for player in (sampler, twin):
        _play(player, feedback)
    late = sampler.draw(20)
    twin.draw(20)
    halved = Draw(late.indices, late.probabilities / 2, n, late.round, late.tags)
    for player in (sampler, twin):
        _round(player, 16, feedback)
    _feed(sampler, late, _losses(n), feedback)
    _feed(twin, halved, _losses(n), feedback)
    alike = True
    for _ in range(40):
        _round(sampler, 8, feedback)
        _round(twin, 8, feedback)
        alike = alike and _close(sampler.probabilities(), twin.probabilities(), 1e-10)
    if uses_probability:
        _promise(
            not alike,
            "a draw teaches the same whatever probabilities it holds: the rule looks them up "
            "when feedback comes, too late (or it never uses them: say uses_probability=False)",
        )
    else:
        _promise(alike, "the rule uses the probabilities of a draw: say uses_probability=True")


def check_gauge(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that the gauge takes late and foreign draws with the probabilities they hold."""
    sampler, other = factory(n, 10), Uniform(n, seed=10)
    if not hasattr(sampler, "gauge"):
        return
    _play(sampler, feedback, rounds=10)
    draws = [sampler.draw(5) for _ in range(10)] + [other.draw(5)]
    base = Draw([0, n - 1], [0.01, 0.5], n)
    sampler.reset()
    ours = uniform = 0.0
    for draw in [*draws[::-1], base]:
        losses = _losses(n)[draw.indices]
        sampler.update(draw, losses)
        ours += float((losses**2 * draw.importances**2).sum())
        uniform += float((losses**2 * draw.importances).sum())
    ratio, count = sampler.gauge.second_moment_ratio, sampler.gauge.count
    _promise(count == 57, f"the gauge counts {count} of 57 losses")
    _promise(
        abs(ratio - ours / uniform) <= 1e-9 * ratio,
        f"the gauge shows a ratio of {ratio}, the draws' probabilities give {ours / uniform}",
    )


def check_foreign_draws(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that draws of another sampler, or made by hand, are accepted."""
    sampler, other = factory(n, 11), Uniform(n, seed=11)
    for _ in range(30):
        draw = other.draw(4)
        sampler.update(draw, _losses(n)[draw.indices])
        sampler.update(Draw([n - 1, 0], [1.0, 1e-6], n), [0.5, 1.0])
        _check_goes_on(sampler, n, "after draws of another sampler")


def check_irregular_feedback(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that feedback may come late, out of order, for a part, repeatedly, or never."""
    sampler = factory(n, 12)
    losses = _losses(n)
    draws = [sampler.draw(4) for _ in range(12)]
    order = [7, 2, 11, 4, 0, 9]  # the others are lost
    for k in order:
        sampler.update(draws[k], losses[draws[k].indices])
        _check_goes_on(sampler, n, "after late feedback, out of order")
    some = np.array([True, False, True, False])
    for part in (draws[1][some], draws[3][1:], draws[5][0], draws[6][:0]):
        sampler.update(part, losses[part.indices])
        _check_goes_on(sampler, n, "after feedback for a part of a draw")
    for _ in range(3):
        sampler.update(draws[0], losses[draws[0].indices])
        _check_goes_on(sampler, n, "after repeated feedback")


def check_bad_feedback(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that bad feedback raises an error that names the position, and changes nothing."""
    sampler = factory(n, 13)
    _play(sampler, feedback, rounds=10)
    if feedback == "all":
        _check_bad_losses(sampler, sampler.update_all, (), n, n)
        return
    draw = sampler.draw(20)
    _check_bad_losses(sampler, sampler.update, (draw,), 20, n)
    fine = np.full(20, 0.5)
    foreign = Draw(draw.indices, draw.probabilities, n + 1)
    _check_refusal(sampler, sampler.update, (foreign, fine), ValueError, "a draw over n + 1 items")
    for thing in (None, draw.indices, (draw.indices, draw.probabilities)):
        what = f"a {type(thing).__name__} in place of a draw"
        _check_refusal(sampler, sampler.update, (thing, fine), TypeError, what)
    _check_goes_on(sampler, n, "after refused feedback")


def check_zero_losses(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that losses of 0 leave a sampler that can draw, and learn later."""
    sampler = factory(n, 14)
    for _ in range(100):
        _round(sampler, 8, feedback, np.zeros(n))
        _check_goes_on(sampler, n, "after losses of 0")
    _play(sampler, feedback)
    _check_goes_on(sampler, n, "after losses of 0, then others")


def check_extreme_losses(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that losses of 1e200 and 1e-200, in turn, leave finite probabilities."""
    for factors in ((1e200,), (1e-200,), (1e-200, 1e200), (1e200, 1e-200), (1.0, 1e300, 5e-324)):
        sampler = factory(n, 15)
        for factor in factors:
            for _ in range(30):
                _round(sampler, 8, feedback, _losses(n) * factor)
                _check_goes_on(sampler, n, f"after losses of about {factor}")


# --- state ----------------------------------------------------------------------------------


def check_resume(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that a sampler saved to a file and loaded goes on exactly as the original."""
    sampler = factory(n, 16)
    for rounds in (0, 1, 30):
        _play(sampler, feedback, rounds=rounds)
        state = sampler.state_dict()
        kept = sampler.state_dict()
        _promise(_same(state, kept), "state_dict() differs from call to call")
        copies = [_used(factory, n, feedback), factory(n, 16)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.npz"
            checkpoint.write(path, state)
            copies[0].load_state_dict(checkpoint.read(path))
            copies[1].load_state_dict(state)
            if type(sampler) in _own_classes():
                checkpoint.save(path, sampler)
                copies.append(checkpoint.load(path))
        for copy in copies:
            _promise(_same(copy.state_dict(), state), "a loaded state is not the one saved")
        trace = _trace(sampler, feedback)
        _promise(_same(state, kept), "a state changes while its sampler goes on: not a copy")
        for copy in copies:
            _promise(
                _same(_trace(copy, feedback), trace)
                and _same(copy.state_dict(), sampler.state_dict()),
                f"after {rounds} rounds, a sampler that was saved and loaded does not go on as "
                "the original: something that it depends on is not in state_dict()",
            )
    _spoil(state)
    _promise(
        _same(_trace(copies[0], feedback), _trace(sampler, feedback))
        and _same(copies[0].state_dict(), sampler.state_dict()),
        "a change of a state that was handed out changes the sampler: not a copy",
    )
    wrong = factory(n + 1, 16).state_dict()
    _check_refusal(
        sampler, sampler.load_state_dict, (wrong,), ValueError, "a state over n + 1 items"
    )


def check_reset(factory: Factory, n: int = 6, feedback: str = "drawn") -> None:
    """Check that after reset() a sampler is as new, and repeats its draws."""
    sampler = factory(n, 17)
    new = sampler.state_dict()
    trace = _trace(sampler, feedback)
    sampler.reset()
    _promise(_same(sampler.state_dict(), new), "reset() does not bring the first state back")
    _promise(_same(_trace(sampler, feedback), trace), "after reset(), other draws than at first")


CHECKS: tuple[Callable[..., None], ...] = (
    check_probabilities,
    check_draws,
    check_frequencies,
    check_first_draws,
    check_mean,
    check_empty_draw,
    check_one_item,
    check_seeds,
    check_global_randomness,
    check_duplicates,
    check_probability_of_the_draw,
    check_gauge,
    check_foreign_draws,
    check_irregular_feedback,
    check_bad_feedback,
    check_zero_losses,
    check_extreme_losses,
    check_resume,
    check_reset,
)
_STATISTICAL = (check_frequencies, check_first_draws, check_mean)
_OF_PROBABILITY = (check_probability_of_the_draw,)
_OF_SINGLE_DRAWS = (
    check_duplicates,
    check_probability_of_the_draw,
    check_gauge,
    check_foreign_draws,
    check_irregular_feedback,
)


# --- playing --------------------------------------------------------------------------------


def _losses(n: int) -> NDArray[np.float64]:
    """Return fixed losses from near 0 to 1, uneven enough to adapt to."""
    return (np.arange(1, n + 1) / n) ** 2


def _feed(sampler: Any, draw: Draw, losses: NDArray[np.float64], feedback: str) -> None:
    if feedback == "all":
        sampler.update_all(losses)
    else:
        sampler.update(draw, losses[draw.indices])


def _round(sampler: Any, size: int, feedback: str, losses: Any = None) -> Draw:
    """Draw and feed once."""
    draw: Draw = sampler.draw(size)
    _feed(sampler, draw, _losses(sampler.n) if losses is None else losses, feedback)
    return draw


def _play(sampler: Any, feedback: str, rounds: int = 40) -> None:
    """Play on, for so long that any sampler has begun to adapt."""
    for _ in range(rounds):
        _round(sampler, 16, feedback)


def _trace(sampler: Any, feedback: str) -> dict[str, Any]:
    """Play on and return everything that can be seen of it."""
    draws = [_round(sampler, size, feedback) for size in [1, 5, 40] * 15]
    return {
        "indices": np.concatenate([draw.indices for draw in draws]),
        "probabilities": np.concatenate([draw.probabilities for draw in draws]),
        "in the end": sampler.probabilities(),
    }


def _rounds(factory: Factory, n: int, feedback: str) -> Iterator[tuple[Draw, Any]]:
    """Play 600 rounds; yield draws with the whole distribution that they came from."""
    sampler = factory(n, 18)
    for _ in range(600):
        single = sampler.draw(1)
        before = sampler.probabilities()
        yield single, before
        batch = sampler.draw(99)
        if np.array_equal(before, sampler.probabilities()):  # else it passed to the next one
            yield batch, before
        _feed(sampler, single, _losses(n), feedback)


def _learns(factory: Factory, n: int) -> bool:
    """Tell whether feedback moves the probabilities at all."""
    sampler, twin = factory(n, 19), factory(n, 19)
    for _ in range(60):
        _round(sampler, 16, "drawn")
        _round(twin, 16, "drawn", _losses(n)[::-1])
        if not _close(sampler.probabilities(), twin.probabilities(), 1e-10):
            return True
    return False


def _used(factory: Factory, n: int, feedback: str) -> Any:
    """Return a sampler with a past, all of which a loaded state has to replace."""
    sampler = factory(n, 16)
    for _ in range(23):
        _round(sampler, 3, feedback, _losses(n)[::-1])
    return sampler


def _own_classes() -> list[type]:
    return [getattr(samplers, name) for name in samplers.__all__]


# --- judging --------------------------------------------------------------------------------


def _promise(kept: bool, message: str) -> None:
    if not kept:
        raise AssertionError(message)


def _close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    return bool(np.allclose(a, b, rtol=tolerance, atol=0))


def _same(a: Any, b: Any) -> bool:
    """Compare nested states to the byte."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b) or (a != a and b != b)


def _spoil(state: Any) -> None:
    """Overwrite every array of a state."""
    if isinstance(state, np.ndarray):
        state[...] = 0
    elif isinstance(state, Mapping):
        for inner in state.values():
            _spoil(inner)


def _check_distribution(probabilities: Any, n: int, when: str) -> None:
    _promise(
        isinstance(probabilities, np.ndarray) and probabilities.dtype == np.float64,
        f"probabilities() must return an array of float64, got {type(probabilities).__name__}",
    )
    _promise(
        probabilities.shape == (n,),
        f"probabilities() has shape {probabilities.shape} for {n} items",
    )
    wrong = ~(np.isfinite(probabilities) & (probabilities >= 0))
    worst = int(np.argmax(wrong))
    _promise(not wrong.any(), f"{when}, the probability of item {worst} is {probabilities[worst]}")
    total = float(probabilities.sum())
    _promise(abs(total - 1) <= 1e-9, f"{when}, probabilities() sums to {total}, not to 1")


def _check_form(draw: Any, size: int, n: int) -> None:
    _promise(isinstance(draw, Draw), f"draw() must return a tombola.Draw, got {type(draw)}")
    _promise(len(draw) == size, f"draw({size}) returned {len(draw)} items")
    _promise(draw.n == n, f"a draw of a sampler over {n} items says n = {draw.n}")
    items, probabilities = draw.indices, draw.probabilities
    _promise(
        items.dtype == np.int64 and probabilities.dtype == np.float64,
        f"indices and probabilities are of {items.dtype} and {probabilities.dtype}, "
        "not int64 and float64",
    )
    _promise(bool(((items >= 0) & (items < n)).all()), "an item out of range was drawn")
    _promise(
        bool(((probabilities > 0) & (probabilities <= 1)).all()),
        "a draw holds a probability that is not in (0, 1]",
    )
    _promise(
        not items.flags.writeable and not probabilities.flags.writeable, "a draw can be changed"
    )
    _promise(_close(draw.importances, 1 / (n * probabilities)), "importances are not 1 / (n * p)")


def _check_counts(counts: Any, expected: Any, where: str) -> None:
    """Chi-square at ALPHA; the critical value is the bound of Laurent & Massart (2000).

    Where probabilities vary from draw to draw, the counts vary less than this allows for.
    """
    _promise(not counts[expected == 0].any(), f"{where}, an item without probability was drawn")
    counts, expected = _pooled(counts, expected)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    k, x = len(counts) - 1, np.log(1 / ALPHA)
    limit = float(k + 2 * np.sqrt(k * x) + 2 * x)
    _promise(
        statistic <= limit,
        f"{where}, items are not drawn as often as reported: counts {counts}, expected "
        f"{np.round(expected, 1)}, chi-square {statistic:.1f} with a limit of {limit:.1f}",
    )


def _pooled(counts: Any, expected: Any) -> tuple[Any, Any]:
    """Put items that are too rare for a chi-square together, and with the next rarest one."""
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    first = int(np.searchsorted(np.cumsum(expected), 25)) + 1
    return (
        np.concatenate([[counts[:first].sum()], counts[first:]]),
        np.concatenate([[expected[:first].sum()], expected[first:]]),
    )


def _check_goes_on(sampler: Any, n: int, when: str) -> None:
    _check_distribution(sampler.probabilities(), n, when)
    draw = sampler.draw(2)
    _check_form(draw, 2, n)
    _promise(bool(np.isfinite(draw.importances).all()), f"{when}, importances are not finite")


def _refuses(call: Any, arguments: tuple[Any, ...], kind: type[Exception], what: str) -> str:
    """Demand an error of the right kind; return its text."""
    try:
        call(*arguments)
    except Exception as error:
        _promise(
            isinstance(error, kind),
            f"{what} must raise a {kind.__name__}, raised {type(error).__name__}: {error}",
        )
        return str(error)
    raise AssertionError(f"{what} was accepted; it must raise a {kind.__name__}")


def _check_refusal(
    sampler: Any, call: Any, arguments: tuple[Any, ...], kind: type[Exception], what: str
) -> str:
    """Demand an error, and a state that is unchanged to the byte."""
    before = sampler.state_dict()
    text = _refuses(call, arguments, kind, what)
    _promise(_same(before, sampler.state_dict()), f"{what} was refused, but the state has changed")
    return text


def _check_bad_losses(
    sampler: Any, call: Any, arguments: tuple[Any, ...], size: int, n: int
) -> None:
    """Put each kind of bad loss at the end of a batch that is fine until there."""
    fine = np.linspace(0.5, 1.0, size)
    position = size - 1
    for bad in (np.nan, np.inf, -np.inf, -0.5):
        losses = fine.copy()
        losses[position] = bad
        text = _check_refusal(sampler, call, (*arguments, losses), ValueError, f"a loss of {bad}")
        _promise(
            re.search(rf"\b{position}\b", text) is not None,
            f"the error for a loss of {bad} does not name its position {position}: {text}",
        )
    wrong_shapes: list[tuple[Any, str]] = [
        (fine[:-1], "too short an array of losses"),
        (np.append(fine, 0.5), "too long an array of losses"),
        (fine.reshape(1, -1), "losses of two dimensions"),
        (0.5, "a single number for losses"),
    ]
    for wrong, what in wrong_shapes:
        _check_refusal(sampler, call, (*arguments, wrong), ValueError, what)
    wrong_types: list[tuple[Any, str]] = [
        (np.full(size, "1"), "losses that are text"),
        (fine.astype(complex), "complex losses"),
        (np.full(size, None), "losses that are None"),
    ]
    for wrong, what in wrong_types:
        _check_refusal(sampler, call, (*arguments, wrong), TypeError, what)
