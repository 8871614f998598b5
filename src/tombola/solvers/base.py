"""What every solver does: run the loop, keep a trace, stop when asked, continue later."""

import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola import checkpoint
from tombola.compiling import name_by_source
from tombola.samplers import VRB, Sampler
from tombola.samplers.compiled import CompiledSampler
from tombola.solvers.loop import advance, take_step
from tombola.validation import whole

__all__ = ["DivergenceError", "Result", "Solver", "Trace", "variance_ratio"]

ROUND, GRADIENTS = 0, 1  # the first two numbers of every solver's clock
PATIENCE = 0.1  # seconds between two looks at Ctrl-C and progress, more or less


class DivergenceError(ArithmeticError):
    """The iterates became infinite or not a number: the rate is too large."""


@dataclass
class Trace:
    """What was seen on the way; a row for the start and for each mark.

    Attributes
    ----------
    rounds, item_gradients : ndarray of int64
        Steps taken, and gradients of single items computed (snapshots included).
    seconds : ndarray of float64
        Time spent in the loop, drawing and feedback included; looking at the objective is not.
    objective : ndarray of float64
    variance_ratio : ndarray of float64
        Variance of the gradient estimate over what uniform draws would have at the same place,
        exact, from the gradients of all items; NaN where a solver has no such estimate.
    """

    rounds: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    item_gradients: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seconds: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    objective: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    variance_ratio: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def add(self, *row: float) -> None:
        """Append one row."""
        for name, value in zip(vars(self), row, strict=True):
            column = getattr(self, name)
            setattr(self, name, np.append(column, value).astype(column.dtype))

    def __len__(self) -> int:
        return len(self.rounds)


@dataclass
class Result:
    """What a solver reached, and all that it needs to go on.

    Attributes
    ----------
    solution : ndarray
    rounds, item_gradients : int
    seconds : float
        Time spent in the loop.
    interrupted : bool
        Whether Ctrl-C came: then rounds may be missing.
    trace : Trace
    sampler : Sampler or None
        As it is after the last round; None where it was loaded and is of a class of your own.
    state : dict
        For `resume`: numbers, strings and arrays. ``state["carried"]``, for `carry`, is the part
        that belongs to the solution and not to the items.
    """

    solution: NDArray[np.float64]
    rounds: int
    item_gradients: int
    seconds: float
    interrupted: bool
    trace: Trace
    sampler: Sampler | None
    state: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything in one file; see `tombola.save` for what a crash can do: nothing."""
        own = {name: getattr(self, name) for name in _PLAIN}
        parts = {"trace": vars(self.trace), "state": self.state}
        checkpoint.write(path, {"class": "Result", "format": 1, **own, **parts})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Result":
        """Load what `save` saved.

        A sampler of a class of your own is not made again: give one to `resume` with.
        """
        state = checkpoint.read(path)
        if state.get("class") != "Result" or state.get("format") != 1:
            raise checkpoint.CheckpointError(f"{os.fspath(path)} does not hold a solver's result")
        return cls(
            **{name: state[name] for name in _PLAIN},
            trace=Trace(**state["trace"]),
            sampler=checkpoint.restored(state["state"]["sampler"]),
            state=state["state"],
        )


_PLAIN = ("solution", "rounds", "item_gradients", "seconds", "interrupted")


class Solver(ABC):
    """The ERM procedure of the paper's Figure 1: draws items, steps, feeds their losses back.

    A solver writes `_begin`, which returns a named tuple of arrays with a static method `step`
    (see `tombola.solvers.loop`), and says what its arrays mean.
    """

    batch_size: int = 1
    quantity: str = "gradient norm"  # what samplers are fed with

    # --- to be written by a solver --------------------------------------------------------------

    @abstractmethod
    def _check(self, problem: Any) -> None:
        """Raise a TypeError that says what the solver needs, where the problem lacks it."""

    @abstractmethod
    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> Any:
        """Return the arrays before the first round."""

    @abstractmethod
    def _solution(self, problem: Any, run: Any) -> NDArray[np.float64]:
        """Return the present solution, a copy."""

    def _items(self, problem: Any) -> int:
        """Return the number of items to draw from."""
        return int(problem.n)

    def _default_sampler(self, problem: Any) -> Sampler:
        """Return the sampler that is used where none is given."""
        return VRB(self._items(problem))

    def _variance_ratio(self, problem: Any, run: Any, chances: NDArray[np.float64]) -> float:
        """Return the variance of the estimate over that of uniform draws."""
        return float("nan")

    def _all_losses(self, problem: Any, run: Any) -> NDArray[np.float64]:
        """Return what every item would be fed back with, for samplers of full information."""
        raise TypeError(f"{type(self).__name__} cannot feed a sampler that needs all losses")

    def _advice(self, problem: Any) -> str:
        """Return what to do about divergence."""
        return "try a smaller rate"

    def _loss_sum(self, run: Any) -> float:
        """Return the sum, over the rounds, of the estimates of the mean loss."""
        return float("nan")

    def _carried(self, run: Any) -> dict[str, NDArray[Any]]:
        """Return what the run knows that holds for other items too."""
        return {}

    def _carry(self, run: Any, carried: dict[str, Any]) -> None:  # noqa: B027
        """Put what `_carried` returned into the run of another problem."""

    # --- what users call ------------------------------------------------------------------------

    def minimize(
        self,
        problem: Any,
        *,
        sampler: Sampler | None = None,
        rounds: int,
        trace: int = 0,
        start: ArrayLike | None = None,
        resume: Result | None = None,
        progress: Callable[[int, int], None] | None = None,
        carry: dict[str, Any] | None = None,
        until: Callable[[int, NDArray[np.float64], float], bool] | None = None,
        every: int | None = None,
    ) -> Result:
        """Minimise a problem.

        Parameters
        ----------
        problem
            From `tombola.problems`.
        sampler : Sampler, optional
            Over the problem's items; by default ``VRB(n)``, unless the solver says otherwise. It
            is fed, and so it changes.
            Samplers of this library, and others with a board, run in one compiled loop with the
            solver; any other one is called from Python, with the same result.
        rounds : int
            Steps, of `batch_size` draws each, in all: with `resume`, those before included.
        trace : int, default=0
            How often to look at the objective, evenly over the rounds; each look takes a pass
            over all items. 0: never.
        start : array-like, optional
            Where to begin; by default at zero (k-means: at rows that are far apart).
        resume : Result, optional
            Go on from there, to the state that an uninterrupted run would have reached. The
            sampler is the one of the result, unless one of the same kind is given, which is then
            set to its state.
        progress : callable, optional
            Called with rounds done and rounds in all, about ten times a second.
        carry : dict, optional
            ``result.state["carried"]`` of an earlier run with the same solver, on other items:
            sums of squared gradients and falling rates go on from there. (The solution is
            `start`, and what SAGA and SVRG have on file is gone with the items.)
        until : callable, optional
            Called every `every` rounds with the rounds done, the solution, and an estimate of
            the mean loss over the rounds since the last call; the run ends where it returns
            True. The estimate is the average of the losses seen times their importances: it
            costs nothing, is unbiased, and lacks the regulariser.
        every : int, optional
            By default as many rounds as make an epoch of n draws.

        Returns
        -------
        Result
            After Ctrl-C (in the main thread) what was reached so far, with `interrupted` set.

        Raises
        ------
        DivergenceError
            When a loss or the solution is not finite.
        """
        self._check(problem)
        for name, given, kind in (("sampler", sampler, Sampler), ("resume", resume, Result)):
            if given is not None and not isinstance(given, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {given!r}")
        n = self._items(problem)
        every = -(-n // self.batch_size) if every is None else every
        rounds, trace, every = (
            whole("rounds", rounds, 0), whole("trace", trace, 0), whole("every", every, 1)
        )  # fmt: skip
        if resume is not None:
            if start is not None or carry is not None:
                raise ValueError("give resume, or start and carry, not both")
            if resume.rounds > rounds:
                raise ValueError(
                    f"the result is at round {resume.rounds} already, rounds={rounds} is less"
                )
            if resume.state["solver"] != repr(self):
                raise ValueError(f"the result is of {resume.state['solver']}, this is {self!r}")
            if resume.state["problem"] != _fingerprint(problem):
                raise ValueError("the result is of another problem: of other data or parameters")
            sampler = resume.sampler if sampler is None else sampler
            if sampler is None:  # it was loaded, and of a class of somebody else
                kind = resume.state["sampler"]["class"]
                raise ValueError(f"resume needs a sampler: the result's was a {kind}")
        elif sampler is None:
            sampler = self._default_sampler(problem)
        if sampler.n != n:
            raise ValueError(f"the sampler is over {sampler.n} items, the problem has {n}")
        run = self._begin(problem, start, sampler)
        name_by_source(type(run))
        if isinstance(sampler, CompiledSampler):
            name_by_source(type(sampler.state))
        seen, seconds = Trace(), 0.0
        if resume is not None:
            _load(run, resume.state)
            sampler.load_state_dict(resume.state["sampler"])
            seen, seconds = Trace(**vars(resume.trace)), resume.seconds
        if carry is not None:
            self._carry(run, carry)
        sampler.quantity = self.quantity
        looks = np.linspace(0, rounds, trace + 1).round() if trace else np.empty(0)
        marks = {int(mark) for mark in looks}

        def look() -> None:
            if int(run.clock[ROUND]) in marks and (
                not len(seen) or seen.rounds[-1] < run.clock[ROUND]
            ):
                solution = self._solution(problem, run)
                ratio = self._variance_ratio(problem, run, sampler.probabilities())
                row = (run.clock[ROUND], run.clock[GRADIENTS], seconds, problem.value(solution))
                seen.add(*row, ratio)

        chunk, stopped = 64, False
        round_then, sum_then = int(run.clock[ROUND]), self._loss_sum(run)
        with _interruptions() as interrupted:
            self._advance(problem, run, sampler, 0, interrupted)  # compiles, off the clock
            look()
            while run.clock[ROUND] < rounds and not stopped and not interrupted():
                done = int(run.clock[ROUND])
                goal = min((mark for mark in marks if mark > done), default=rounds)
                if until is not None:
                    goal = min(goal, done + every - done % every)
                size = min(chunk, goal - done)
                began = time.perf_counter()
                wrong = self._advance(problem, run, sampler, size, interrupted)
                elapsed = time.perf_counter() - began
                seconds += elapsed
                if elapsed < PATIENCE / 2 and size == chunk:
                    chunk *= 2
                elif elapsed > PATIENCE * 2:
                    chunk = max(1, chunk // 2)
                if wrong >= 0 or not np.isfinite(run.w).all():
                    raise DivergenceError(
                        f"{type(self).__name__} diverged in round {int(run.clock[ROUND])}: "
                        f"{self._advice(problem)}"
                    )
                if progress is not None:
                    progress(int(run.clock[ROUND]), rounds)
                look()
                done = int(run.clock[ROUND])
                if until is not None and done % every == 0:
                    loss = (self._loss_sum(run) - sum_then) / (done - round_then)
                    round_then, sum_then = done, self._loss_sum(run)
                    stopped = bool(until(done, self._solution(problem, run), loss))
            came = interrupted()
        return Result(
            solution=self._solution(problem, run),
            rounds=int(run.clock[ROUND]),
            item_gradients=int(run.clock[GRADIENTS]),
            seconds=seconds,
            interrupted=came,
            trace=seen,
            sampler=sampler,
            state=_saved(run, self, problem, sampler),
        )

    def _advance(
        self, problem: Any, run: Any, sampler: Any, rounds: int, interrupted: Callable[[], bool]
    ) -> int:
        """Run some rounds, compiled where the sampler is; return the place of a bad loss, or -1."""
        full = sampler.feedback == "all"
        if isinstance(sampler, CompiledSampler) and not full:
            began = int(run.clock[ROUND])
            wrong = int(advance(run, sampler.state, sampler.tally, sampler.n, rounds))
            sampler.tally["rounds"] += int(run.clock[ROUND]) - began
            return wrong
        for _ in range(rounds):
            draw = sampler.draw(self.batch_size)
            if not 0 <= draw.indices.min() <= draw.indices.max() < sampler.n:
                raise IndexError(f"{sampler!r} drew an item that is not from 0 to {sampler.n - 1}")
            run.items[:], run.chances[:] = draw.indices, draw.probabilities
            run.importances[:] = draw.importances
            losses = run.losses
            if full:
                if not np.isfinite(run.w).all():
                    return 0
                losses = self._all_losses(problem, run)
                if not np.isfinite(losses).all():
                    return 0
            wrong = int(take_step(run))
            if wrong >= 0:
                return wrong
            if full:
                sampler.update_all(losses)
            else:
                sampler.update(draw, losses.copy())
            if interrupted():
                break
        return -1

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


def variance_ratio(
    norms: NDArray[np.float64], mean_squared: float, chances: NDArray[np.float64]
) -> float:
    """Return sum_i l_i^2 / (n^2 p_i) - |mean|^2 over the same with p = 1/n."""
    n = norms.size
    drawn = chances > 0
    ours = float((norms[drawn] ** 2 / chances[drawn]).sum()) / n**2 - mean_squared
    uniform = float((norms**2).mean()) - mean_squared
    return ours / uniform if uniform > 0 else float("nan")


def _arrays(run: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays that change, by name."""
    return {name: part for name, part in run._asdict().items() if isinstance(part, np.ndarray)}


def _fingerprint(problem: Any) -> str:
    """Return what tells this problem from others, in so far as it can tell."""
    own = getattr(problem, "fingerprint", None)
    return type(problem).__name__ if own is None else f"{type(problem).__name__} {own()}"


def _saved(run: Any, solver: Solver, problem: Any, sampler: Sampler) -> dict[str, Any]:
    arrays = {name: array.copy() for name, array in _arrays(run).items()}
    carried = {name: np.copy(array) for name, array in solver._carried(run).items()}
    own = {"solver": repr(solver), "problem": _fingerprint(problem)}
    return {**own, "arrays": arrays, "sampler": sampler.state_dict(), "carried": carried}


def _load(run: Any, state: dict[str, Any]) -> None:
    """Put saved arrays into a run, or raise an error and leave it as it is."""
    arrays = _arrays(run)
    for name, array in arrays.items():
        saved = state["arrays"].get(name)
        if saved is None or saved.shape != array.shape or saved.dtype != array.dtype:
            raise ValueError(f"the result is of another problem: its {name} does not fit")
    for name, array in arrays.items():
        array[...] = state["arrays"][name]


@contextmanager
def _interruptions() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C instead of raising it at once, so that a round is done or not begun."""
    noted: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is None:  # set outside of Python: not ours
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)
