"""The paper's game between a sampler and an adversary, in one compiled loop."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.gauge import record_one
from tombola.ledger import Ledger, Sheet, account, new_sheet
from tombola.samplers.base import Sampler
from tombola.samplers.compiled import CompiledSampler, draw_one, fill_probabilities, update_one
from tombola.simulate.adversaries import Adversary, fill_losses
from tombola.validation import whole

__all__ = ["play"]

PAGE = 2**16  # rounds summed up before they are added to the ledger: keeps rounding errors small
EXACT = 4 * 10**9  # so many items looked at take a few seconds


@kernel(allocates=True)
def advance(
    board: Any,
    adversary: Any,
    sheet: Sheet,
    gauge_sums: NDArray[np.float64],
    rounds: Any,
    every: Any,
    batch_size: Any,
    feed: Any,
) -> Any:
    """Play rounds; return the first item with a bad loss, or -1.

    Losses and distribution are looked at in the first of `every` rounds, and held.
    """
    n = sheet.losses.size
    items, chances = np.empty(batch_size, dtype=np.int64), np.empty(batch_size)
    done = 0
    while done < rounds:
        window = min(every, rounds - done)
        for k in range(window):
            for j in range(batch_size):
                items[j], chances[j] = draw_one(board)
            if k == 0:
                fill_probabilities(board, sheet.probabilities)
                fill_losses(adversary, sheet.probabilities, sheet.losses)
                wrong = account(sheet, float(window))
                if wrong >= 0:
                    return wrong
            adversary.clock[0] += 1
            if feed:
                for j in range(batch_size):
                    loss = sheet.losses[items[j]]
                    record_one(gauge_sums, n, chances[j], loss)
                    update_one(board, items[j], chances[j], loss)
        done += window
    return -1


def _advance_slowly(
    sampler: Any,
    adversary: Adversary,
    sheet: Sheet,
    rounds: int,
    every: int,
    batch_size: int,
    feed: bool,
) -> int:
    """Do what `advance` does, for any sampler."""
    full = sampler.feedback == "all"
    for k in range(rounds):
        draw = sampler.draw(batch_size)
        if k % every == 0:
            sheet.probabilities[:] = sampler.probabilities()
            fill_losses(adversary, sheet.probabilities, sheet.losses)
            wrong = int(account(sheet, float(min(every, rounds - k))))
            if wrong >= 0:
                return wrong
        adversary.clock[0] += 1
        if feed and full:
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
    every: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ledger:
    """Play the paper's game and keep the exact account.

    In each round the sampler chooses p_t and draws, the adversary chooses l_t, the ledger notes
    f_t(p_t), and the sampler is fed the losses of what it drew; all losses, where it has a method
    `update_all` (full information). Samplers with a board play in one compiled loop, others in
    Python: the same game, to the bit.

    Parameters
    ----------
    sampler : Sampler
        Changed by the game; a second call goes on with it.
    adversary : Adversary
        Likewise.
    rounds : int
    ledger : Ledger, optional
        The account to go on with; by default a new one with geometric marks. One that marks
        every round makes the compiled loop return to Python as often.
    batch_size : int, default=1
        Draws in a round, all fed after the round. The cost is that of a single draw.
    feed : bool, default=True
        Whether the sampler is fed at all: a frozen player is not.
    every : int, optional
        Look at all items only in the first of so many rounds, and hold losses and cost until the
        next look. 1 is exact. More is an approximation, of a distribution that moves little in
        `every` rounds, and is refused for adversaries that are not steady. By default 1, or as
        much as keeps the number of items looked at below 4e9 where the adversary is steady.
    progress : callable, optional
        Called with rounds done and rounds in all, now and then.

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
    if len(adversary.base) != n:
        raise ValueError(f"the adversary has {len(adversary.base)} items, the sampler {n}")
    if ledger is None:
        ledger = Ledger(n, marks="geometric")
    if ledger.n != n:
        raise ValueError(f"the ledger is over {ledger.n} items, the sampler has {n}")
    rounds, batch_size = whole("rounds", rounds, 0), whole("batch_size", batch_size, 1)
    if every is None:
        every = max(1, -(-rounds * n // EXACT)) if type(adversary).steady else 1
    if every < 1 or (every > 1 and not type(adversary).steady):
        raise ValueError(
            f"every must be at least 1, and 1 for an adversary that is not steady, got {every}"
        )
    full = sampler.feedback == "all"
    sheet, done = new_sheet(n), 0
    while done < rounds:
        page = int(min(PAGE, rounds - done, ledger.rounds_to_mark()))
        if isinstance(sampler, CompiledSampler) and not full:
            wrong = advance(
                sampler.state, adversary, sheet, sampler.tally, page, every, batch_size, feed
            )  # fmt: skip
            sampler.tally["rounds"] += page
        else:
            wrong = _advance_slowly(sampler, adversary, sheet, page, every, batch_size, feed)
        if wrong >= 0:
            raise ValueError(
                f"the adversary's loss for item {wrong} in round {adversary.clock[0]} is "
                f"{sheet.losses[wrong]}: losses must be finite and not negative"
            )
        ledger.add(sheet, page)
        done += page
        if progress is not None:
            progress(done, rounds)
    return ledger
