"""The paper's game between a sampler and an adversary, in one compiled loop."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.gauge import Tally, record_one
from tombola.ledger import Ledger, Sheet, account, new_sheet
from tombola.samplers.base import Sampler
from tombola.samplers.compiled import Compiled, CompiledSampler, draw_in_turn, fill_all
from tombola.simulate.adversary import Adversary, fill_losses
from tombola.state import Cell, Floats, Ints
from tombola.validation import whole

__all__ = ["play"]

CHUNK = 2**16  # rounds summed before they are added to the ledger: limits rounding errors
MOST_LOSSES = 4 * 10**9  # computed in a game by default: a few seconds


@kernel(allocates=True)
def advance(
    state: Compiled,
    tally: Cell[Tally],
    adversary: Adversary,
    sheet: Sheet,
    rounds: Any,
    stride: Any,
    batch_size: Any,
    feed: Any,
) -> Any:
    """Play rounds; return the first item with a bad loss, or -1.

    Losses and distribution are computed in the first of each `stride` rounds, and held.
    """
    items, probabilities = np.empty(batch_size, dtype=np.int64), np.empty(batch_size)
    held = 0  # rounds for which the present losses still hold
    for done in range(rounds):
        draw_in_turn(state, items, probabilities)
        tally[0].rounds += 1
        if held == 0:
            held = min(stride, rounds - done)
            fill_all(state, sheet.probabilities)
            fill_losses(adversary, sheet.probabilities, sheet.losses)
            wrong = account(sheet, float(held))
            if wrong >= 0:
                return wrong
        held -= 1
        adversary.progress[0].rounds += 1
        if feed:
            feed_in_turn(state, tally, items, probabilities, sheet.losses)
    return -1


@kernel
def feed_in_turn(
    state: Compiled, tally: Cell[Tally], items: Ints, probabilities: Floats, losses: Floats
) -> None:
    """Feed a batch, out of the losses of all items."""
    for j in range(items.size):
        loss = losses[items[j]]
        record_one(tally, losses.size, probabilities[j], loss)
        state.update_one(items[j], probabilities[j], loss)


def _advance_slowly(
    sampler: Any,
    adversary: Adversary,
    sheet: Sheet,
    rounds: int,
    stride: int,
    batch_size: int,
    feed: bool,
) -> int:
    """Do the same as `advance`, for any sampler."""
    for done in range(rounds):
        draw = sampler.draw(batch_size)
        if done % stride == 0:
            sheet.probabilities[:] = sampler.probabilities()
            fill_losses(adversary, sheet.probabilities, sheet.losses)
            wrong = int(account(sheet, float(min(stride, rounds - done))))
            if wrong >= 0:
                return wrong
        adversary.progress[0].rounds += 1
        if feed and sampler.feedback == "all":
            sampler.update_all(sheet.losses.copy())
        elif feed:
            sampler.update(draw, sheet.losses[draw.indices])
    return -1


def play(
    sampler: Sampler,
    adversary: Adversary,
    rounds: int,
    *,
    ledger: Ledger | None = None,
    batch_size: int = 1,
    feed: bool = True,
    stride: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ledger:
    """Play the paper's game and keep the exact account.

    In each round the sampler chooses p_t and draws, the adversary chooses l_t, the ledger records
    f_t(p_t), and the sampler is fed the losses of the items that it drew, or those of all items
    if its `feedback` is "all". Compiled samplers play in one compiled loop, others in Python: the
    same game, to the last bit.

    Parameters
    ----------
    sampler : Sampler
        Changed by the game; a second call continues with it.
    adversary : Adversary
        Likewise.
    rounds : int
    ledger : Ledger, optional
        The account to continue; by default a new one with geometric marks. With a mark in every
        round, the compiled loop returns to Python after every round.
    batch_size : int, default=1
        Draws in a round, all fed after the round. The cost is that of a single draw.
    feed : bool, default=True
        Whether the sampler is fed. If not, its distribution is frozen.
    stride : int, optional
        Compute all losses and the cost only in the first of each `stride` rounds, and hold them
        for the others. 1 is exact. A larger stride is an approximation for a distribution that
        changes little in that many rounds; it is refused if the adversary is not steady. By
        default 1, or, if the adversary is steady, the smallest stride that computes at most 4e9
        losses.
    progress : callable, optional
        Called from time to time with the number of rounds played and the total.

    Returns
    -------
    Ledger

    Examples
    --------
    >>> import tombola
    >>> from tombola.simulate import Stationary, log_normal
    >>> game = Stationary(log_normal(10))
    >>> sampler = tombola.VRB(10, bound=game.base.max() ** 2, horizon=20_000)
    >>> ledger = play(sampler, game, 20_000)
    >>> round(ledger.cost / ledger.best_cost(), 2), round(ledger.uniform_cost / ledger.cost, 2)
    (1.15, 2.39)

    References
    ----------
    Borsos, Krause, Levy (2018), Figure 2.
    """
    n = sampler.n
    if adversary.n != n:
        raise ValueError(f"the adversary has {adversary.n} items, the sampler {n}")
    if ledger is None:
        ledger = Ledger(n, marks="geometric")
    if ledger.n != n:
        raise ValueError(f"the ledger is over {ledger.n} items, the sampler has {n}")
    rounds, batch_size = whole("rounds", rounds, 0), whole("batch_size", batch_size, 1)
    steady = type(adversary).steady
    if stride is None:
        stride = max(1, -(-rounds * n // MOST_LOSSES)) if steady else 1
    if whole("stride", stride, 1) > 1 and not steady:
        raise ValueError(f"stride must be 1 for an adversary that is not steady, got {stride}")
    sheet, done = new_sheet(n), 0
    while done < rounds:
        chunk = int(min(CHUNK, rounds - done, ledger.rounds_to_mark()))
        options = (adversary, sheet, chunk, stride, batch_size, feed)
        if isinstance(sampler, CompiledSampler) and sampler.feedback == "drawn":
            wrong = advance(sampler.state, sampler.tally, *options)
        else:
            wrong = _advance_slowly(sampler, *options)
        if wrong >= 0:
            raise ValueError(
                f"the adversary's loss for item {wrong} in round {adversary.rounds} is "
                f"{sheet.losses[wrong]}: losses must be finite and not negative"
            )
        ledger.add(sheet, chunk)
        done += chunk
        if progress is not None:
            progress(done, rounds)
    return ledger
