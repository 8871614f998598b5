"""The Variance Reducer Bandit: Algorithm 1 of Borsos, Krause, Levy (2018)."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel
from tombola.samplers import guard, parameter_free
from tombola.samplers.board import (
    ALWAYS,
    DRAWN,
    MIXING,
    OWN_CLOCK,
    OWN_KNOBS,
    SWEEP,
    Board,
    BoardSampler,
    normalised,
    power_of_two_near,
    put,
    value,
)
from tombola.samplers.bounds import checked_bounds
from tombola.validation import number

__all__ = ["VRB"]

# What the rule keeps: the bound L (1 where each item has its own in `notes`), n / theta, and for
# schedules the next draw at which they change.
BOUND = OWN_KNOBS
FACTOR = OWN_KNOBS + 1
SCHEDULE = OWN_CLOCK  # which of the following
NEXT = OWN_CLOCK + 1
FIXED, ANYTIME, DOUBLING = 0, 1, 2

CUBE_ROOT_OF_HALF = 0.7937005259840998  # a literal: pow differs between machines


class PrintedBoard(Board):
    """Algorithm 1 as printed."""

    __slots__ = ()

    @staticmethod
    def absorb(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Algorithm 1: w(I_t) <- w(I_t) + l_t^2(I_t) / p~_t(I_t)."""
        loss = normalised(board, loss)
        board.scores[item] += loss * loss / probability

    @staticmethod
    def value(board: Any, item: Any) -> Any:
        """Algorithm 1: p_t(i) is proportional to sqrt(w(i) + L n / theta)."""
        bound = board.notes[item] if board.notes.size else board.knobs[BOUND]
        return math.sqrt(board.scores[item] + bound * board.knobs[FACTOR])

    @staticmethod
    def prepare(board: Any, size: Any) -> Any:
        """Where the horizon is unknown: let theta fall, all the time or in phases."""
        clock = board.clock
        while clock[SCHEDULE] != FIXED and clock[DRAWN] >= clock[NEXT]:
            if clock[SCHEDULE] == ANYTIME:
                lower_mixing(board)
            else:
                next_phase(board)
        return size


@kernel
def lower_mixing(board: Board) -> None:
    """theta_t = min(1, (n/t)^(1/3)), computed anew when t has grown by a sixteenth."""
    n, drawn = board.counts[0], max(1, board.clock[DRAWN])
    board.knobs[MIXING] = min(1.0, cube_root(n / drawn))
    board.knobs[FACTOR] = n / board.knobs[MIXING]
    board.clock[NEXT] = max(n, drawn + drawn // 16 + 1)


@kernel
def next_phase(board: Board) -> None:
    """Double: phase k plays T_k = n 2^k draws with theta_k = 2^(-k/3), starting from w = 0."""
    n = board.counts[0]
    board.knobs[MIXING] *= CUBE_ROOT_OF_HALF
    board.knobs[FACTOR] = n / board.knobs[MIXING]
    board.clock[NEXT] = 2 * board.clock[NEXT] + n  # phases end after n, 3n, 7n, ... draws
    for item in range(n):
        board.scores[item] = 0.0
        put(board, item, value(board, item))


@kernel
def cube_root(x: Any) -> Any:
    """Newton's method: only + - * /, so that every machine gets the same digits."""
    root = 1.0
    for _ in range(100):
        following = (2.0 * root + x / (root * root)) / 3.0
        if following == root:
            break
        root = following
    return root


class VRB(BoardSampler):
    """The Variance Reducer Bandit: learns from single losses which items carry the noise.

    As printed (Algorithm 1), with a bound L on the *squared* losses and mixing theta:

        p_t(i)  ~ sqrt(w(i) + L n / theta)
        p~_t(i) = (1 - theta) p_t(i) + theta / n
        draw I_t ~ p~_t;  w(I_t) += l_t(I_t)^2 / p~_t(I_t)

    Without any parameter, ``VRB(n)`` needs no bound, no horizon and no unit: it plays the rule
    of `tombola.samplers.parameter_free`, and deals shuffled epochs wherever adapting does not
    pay (``gauge.mode`` says which).

    Parameters
    ----------
    n : int
        The number of items.
    bound : float or array-like of shape (n,), optional
        L: at least the largest squared loss, for all items or for each. Too large a bound makes
        the sampler slow to adapt, too small a one voids the guarantee; estimates are unbiased
        either way. Without it the sampler is parameter-free.
    mixing : float in (0, 1], optional
        theta, the share of uniform draws.
    horizon : int, optional
        T, the number of draws planned (batch size times steps): theta = min(1, (n/T)^(1/3)).
    schedule : {"anytime", "doubling"}, optional
        For an unknown horizon: theta_t = min(1, (n/t)^(1/3)) with L n / theta_t growing along
        ("anytime", the default where only `bound` is given), or the paper's restarts after n,
        3n, 7n, ... draws ("doubling"; each takes O(n)).
    memory : float, optional
        Evidence fades over about so many draws (at least n), for losses that move. Fading
        happens as the sweep passes, every n/2 losses, so there is no pause.
    shuffle : bool, default=True
        Whether the parameter-free sampler deals shuffled epochs where adapting does not pay. Not
        with SAGA and SVRG: they need independent draws.
    seed : int, default=0

    Notes
    -----
    Guarantee (Theorem 7): with ``horizon=T >= n`` and losses within the bound, the
    pseudo-regret is at most 74 L n^(1/3) T^(2/3); against an adversary that sees the draws, the
    expected regret is of the same order up to logarithms (Theorem 8). The parameter-free rule
    has no such guarantee; its floor is p >= theta_t / n with theta_t = min(1, sqrt(n / (4 u)))
    after u losses. ``docs/decisions/vrb_default.md`` has the measurements behind it.

    Cost: O(1) a draw and an update; 24 bytes an item (28 with a bound for each item, 32
    parameter-free).

    Deviations: theta is rounded up to a multiple of 2^-32, and the uniform share exceeds it by
    less than one part in the average integer weight. In a batch, every draw adds l^2/p with the
    same p, as b rounds with late feedback (the paper's k-means section does the same), so
    `horizon` counts draws, not batches.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 99 + [5.0])            # one item carries the noise
    >>> sampler = VRB(100, bound=25.0, mixing=0.2)
    >>> for _ in range(200):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> bool(sampler.probabilities().argmax() == 99)
    True
    >>> sampler.gauge.second_moment_ratio < 0.7
    True

    References
    ----------
    Borsos, Krause, Levy (2018). Online Variance Reduction for Stochastic Optimization.
    """

    def __init__(
        self,
        n: int,
        *,
        bound: ArrayLike | None = None,
        mixing: float | None = None,
        horizon: int | None = None,
        schedule: str | None = None,
        memory: float | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        given = {"mixing": mixing, "horizon": horizon, "schedule": schedule}
        chosen = [name for name, parameter in given.items() if parameter is not None]
        parameters: dict[str, Any] = {
            "bound": None,
            **given,
            "memory": memory,
            "shuffle": bool(shuffle),
        }
        if len(chosen) > 1:
            raise ValueError(f"give at most one of mixing, horizon and schedule, got {chosen}")
        fade = 1.0 if memory is None else _fade(n, memory)
        if bound is None:
            if chosen:
                raise ValueError(
                    f"{chosen[0]} needs a bound (Algorithm 1 plays L n / theta); "
                    "leave both out for the parameter-free sampler"
                )
            self.state_class = parameter_free.ParameterFreeBoard
            super().__init__(
                n, seed, parameters, notes=True, deck=True, stale=True, fade_notes=fade
            )
            parameter_free.start(self.state)
            if not shuffle:
                self.state.clock[guard.LEFT] = ALWAYS  # the first block never ends
        else:
            self.state_class = PrintedBoard
            bounds = checked_bounds(bound, n)
            unit = 1.0 / power_of_two_near(math.sqrt(float(bounds.max())))
            parameters["bound"] = bounds if bounds.size > 1 else float(bounds[0])
            super().__init__(
                n, seed, parameters, notes=bounds.size > 1, unit=unit, fade=fade,
                stale=mixing is None and horizon is None,
            )  # fmt: skip
            self._start(bounds * unit * unit, mixing, horizon, schedule)
        self._rebuild()

    def _largest_importance(self) -> float:
        # also in shuffled epochs: the gauge holds the draws before them, and mixing only falls
        return 1.0 / float(self.state.knobs[MIXING])

    def _start(
        self, bounds: Any, mixing: float | None, horizon: int | None, schedule: str | None
    ) -> None:
        """Set theta and what the schedule needs."""
        n, knobs, clock = self.n, self.state.knobs, self.state.clock
        if mixing is not None:
            if not 0 < number("mixing", mixing) <= 1:
                raise ValueError(
                    f"mixing must be above 0 (L n / theta) and at most 1, got {mixing}"
                )
            theta = float(mixing)
        elif horizon is not None:
            whole = isinstance(horizon, (int, np.integer)) and not isinstance(horizon, bool)
            if not whole or horizon < 1:
                raise ValueError(f"horizon must be a positive number of draws, got {horizon!r}")
            theta = min(1.0, cube_root(n / int(horizon)))
        elif schedule in (None, "anytime", "doubling"):
            theta = 1.0
            clock[SCHEDULE] = DOUBLING if schedule == "doubling" else ANYTIME
            clock[NEXT] = n
        else:
            raise ValueError(f'schedule must be "anytime" or "doubling", got {schedule!r}')
        theta = math.ceil(theta * 2**32) / 2**32
        knobs[MIXING], knobs[FACTOR] = theta, n / theta
        knobs[BOUND] = bounds[0]
        if bounds.size > 1:
            self.state.notes[:] = bounds


def _fade(n: int, memory: float) -> float:
    if not number("memory", memory) >= n:
        raise ValueError(f"memory must be at least n = {n} draws, got {memory}")
    return 1.0 / (1.0 + n / (SWEEP * float(memory)))
