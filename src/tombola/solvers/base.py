"""What every solver does: check, start or resume a run, loop, keep a trace, stop when asked."""

import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.samplers import VRB, Sampler
from tombola.samplers.compiled import CompiledSampler
from tombola.solvers.loop import advance, look_once, step_once
from tombola.solvers.result import Asked, Result, ResultState, Trace
from tombola.solvers.run import Run
from tombola.state import CheckpointError, Document
from tombola.validation import whole

__all__ = ["DivergenceError", "Solver", "fingerprint", "interruptions", "variance_ratio"]

PATIENCE = 0.1  # seconds, about, between two checks for Ctrl-C and calls of `progress`


class DivergenceError(ArithmeticError):
    """The iterates became infinite or not a number: the rate is too large."""


@dataclass
class Execution:
    """One call of `minimize`: what it works on and how far it is."""

    problem: Any
    sampler: Any
    run: Run
    trace: Trace = field(default_factory=Trace)
    asked: Asked | None = None  # when `until` was last called
    seconds: float = 0.0
    interrupted: bool = False


@dataclass
class Stops:
    """Where `minimize` pauses: to extend the trace, and to ask `until` whether to end."""

    rounds: int
    marks: set[int]
    until: Callable[[int, NDArray[np.float64], float], bool] | None
    every: int

    def next_after(self, done: int) -> int:
        """Return the next round at which to pause."""
        goal = min((mark for mark in self.marks if mark > done), default=self.rounds)
        return goal if self.until is None else min(goal, done + self.every - done % self.every)


class Solver(ABC):
    """The ERM procedure of the paper's Figure 1: draws items, steps, feeds their losses back.

    A solver writes `_check`, `_begin`, which returns the state of a new run (of a class that
    derives from `tombola.solvers.run.Run`), and `_solution`.
    """

    batch_size: int = 1
    quantity: str = "gradient norm"  # what samplers are fed with
    needs_independent: bool = False  # whether a draw must be unbiased given the earlier ones

    # --- to be written by a solver --------------------------------------------------------------

    @abstractmethod
    def _check(self, problem: Any) -> None:
        """Raise a TypeError that says what the solver needs, if the problem lacks it."""

    @abstractmethod
    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> Run:
        """Return the run before its first round."""

    @abstractmethod
    def _solution(self, problem: Any, run: Any) -> NDArray[np.float64]:
        """Return the present solution, a copy."""

    def _items(self, problem: Any) -> int:
        """Return the number of items to draw from."""
        return int(problem.n)

    def _default_sampler(self, problem: Any) -> Sampler:
        """Return the sampler that is used if none is given."""
        return VRB(self._items(problem))

    def _variance_ratio(self, problem: Any, run: Any, chances: NDArray[np.float64]) -> float:
        """Return the variance of the estimate over that of uniform draws."""
        return float("nan")

    def _all_losses(self, problem: Any, run: Any) -> NDArray[np.float64]:
        """Return the feedback that every item would give now, for samplers of full information."""
        raise TypeError(f"{type(self).__name__} cannot feed a sampler that needs all losses")

    def _advice(self, problem: Any) -> str:
        """Return what to do about divergence."""
        return "try a smaller rate"

    def _loss_sum(self, run: Any) -> float:
        """Return the sum, over the rounds, of the estimates of the mean loss."""
        return float("nan")

    def _carried(self, run: Any) -> Document:
        """Return the part of a run's state that holds for other items too."""
        return Document()

    def _carry(self, run: Any, carry: Any) -> None:
        """Read what `_carried` returned, as a dict, into the run of another problem."""
        Document.read(carry, "carry")

    # --- what users call ------------------------------------------------------------------------

    def rounds_per_epoch(self, problem: Any) -> int:
        """Return the number of rounds that draw as many items as there are."""
        return -(-self._items(problem) // self.batch_size)

    def minimize(
        self,
        problem: Any,
        *,
        sampler: Sampler | None = None,
        rounds: int,
        trace: int | Sequence[int] = 0,
        start: ArrayLike | None = None,
        resume: Result | None = None,
        progress: Callable[[int, int], bool | None] | None = None,
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
            receives feedback, and so it changes. Compiled samplers run in one compiled loop with
            the solver; any other one is called from Python, with the same result.
        rounds : int
            The number of steps, of `batch_size` draws each, in total: with `resume`, including
            the earlier ones.
        trace : int or sequence of int, default=0
            How often to evaluate the objective, evenly over the rounds, or after which rounds.
            Each evaluation is a pass over all items. 0: never.
        start : array-like, optional
            The first iterate; by default zero (k-means: rows that are far apart).
        resume : Result, optional
            Continue from this result, to the state that an uninterrupted run would have reached.
            The sampler is that of the result, unless one of the same class and parameters is
            given, which is then set to the saved state.
        progress : callable, optional
            Called with the rounds done and the rounds in total, about ten times a second. If
            it returns True the run pauses: it ends here, and `resume` continues it.
        carry : dict, optional
            ``result.state["carried"]`` of an earlier run of the same solver on other items: sums
            of squared gradients and falling rates continue from there. (The solution is passed as
            `start`; the stored slopes of SAGA and SVRG belong to the items and are not carried.)
        until : callable, optional
            Called every `every` rounds with the rounds done, the solution, and an estimate of
            the mean loss over the rounds since the last call; the run ends when it returns
            True. The estimate is the average of the losses seen times their importances: it
            costs nothing, is unbiased, and does not include the regulariser.
        every : int, optional
            By default the number of rounds in an epoch of n draws.

        Returns
        -------
        Result
            After Ctrl-C (in the main thread) what was reached so far, with `interrupted` set.

        Raises
        ------
        DivergenceError
            When a loss or the solution is not finite.
        CheckpointError
            When the state of `resume` is damaged; nothing is changed then.
        """
        self._check(problem)
        for name, given, kind in (("sampler", sampler, Sampler), ("resume", resume, Result)):
            if given is not None and not isinstance(given, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, got {given!r}")
        rounds = whole("rounds", rounds, 0)
        marks = _marks(trace, rounds)
        epoch = self.rounds_per_epoch(problem)
        every = whole("every", epoch if every is None else every, 1)
        if resume is None:
            execution = self._started(problem, sampler, start, carry)
        elif start is None and carry is None:
            execution = self._resumed(problem, sampler, resume, rounds)
        else:
            raise ValueError("give resume, or start and carry, not both")
        execution.sampler.quantity = self.quantity
        stops = Stops(rounds, marks, until, every)
        self._loop(execution, stops, progress)
        return self._result(execution)

    # --- its parts ------------------------------------------------------------------------------

    def _started(
        self,
        problem: Any,
        sampler: Sampler | None,
        start: ArrayLike | None,
        carry: dict[str, Any] | None,
    ) -> Execution:
        """Return a new run."""
        sampler = self._default_sampler(problem) if sampler is None else sampler
        run = self._new_run(problem, start, sampler)
        if carry is not None:
            self._carry(run, carry)
        return Execution(problem, sampler, run)

    def _resumed(
        self, problem: Any, sampler: Sampler | None, resume: Result, rounds: int
    ) -> Execution:
        """Return the run of a result, or raise an error and change nothing."""
        state = ResultState.read(resume.state, "state", done=resume.rounds)
        if resume.rounds > rounds:
            raise ValueError(
                f"the result is at round {resume.rounds} already, rounds={rounds} is less"
            )
        if state.solver != repr(self):
            raise CheckpointError(f"the result is of {state.solver}, this is {self!r}")
        if state.problem != fingerprint(problem):
            raise CheckpointError("the result is of another problem: of other data or parameters")
        sampler = resume.sampler if sampler is None else sampler
        if sampler is None:
            kind = state.sampler["class"]
            raise ValueError(f"resume needs a sampler: that of the result was a {kind}")
        try:
            run = self._new_run(problem, None, sampler)
            run.check(state.parts)
        except (TypeError, ValueError) as error:
            if sampler is not resume.sampler and not isinstance(error, CheckpointError):
                raise  # about an argument
            raise CheckpointError(f"cannot resume: {error}") from None
        sampler.load_state_dict(state.sampler)
        run.load(state.parts)
        trace = Trace(**vars(resume.trace))
        return Execution(problem, sampler, run, trace, state.asked, resume.seconds)

    def _new_run(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> Run:
        """Return a run before its first round."""
        n = self._items(problem)
        if sampler.n != n:
            raise ValueError(f"the sampler is over {sampler.n} items, the problem has {n}")
        if not sampler.fixed_size:
            raise TypeError(
                f"{type(sampler).__name__} draws a random number of items, and every round of "
                f"{type(self).__name__} draws batch_size={self.batch_size}"
            )
        if self.needs_independent and not sampler.independent:
            raise ValueError(
                f"{type(self).__name__} needs independent draws, and those of {sampler!r} are not: "
                "within an epoch, a draw depends on the earlier ones; use Uniform or Static, or "
                "VRB and GroupVRB with shuffle=False"
            )
        run = self._begin(problem, start, sampler)
        if not isinstance(run, Run):
            raise TypeError(f"{type(run).__name__} must derive from tombola.solvers.run.Run")
        return run

    def _loop(
        self,
        execution: Execution,
        stops: Stops,
        progress: Callable[[int, int], bool | None] | None,
    ) -> None:
        """Run to the last round, in chunks that keep Ctrl-C and `progress` responsive."""
        problem, run, sampler = execution.problem, execution.run, execution.sampler
        compiled = run.compiled and isinstance(sampler, CompiledSampler)
        compiled = compiled and sampler.feedback == "drawn"
        rounds, ended = stops.rounds, False
        chunk = 1 if self.rounds_per_epoch(problem) == 1 else 64  # a round may be a pass
        if stops.until is None:
            execution.asked = None
        elif execution.asked is None:
            execution.asked = self._asked_now(run)
        with interruptions() as interrupted:
            if compiled:  # outside of the time measured
                advance(run, sampler.state, sampler.tally, sampler.n, 0)
            self._extend_trace(execution, stops.marks)
            while run.rounds < rounds and not ended and not interrupted():
                size = min(chunk, stops.next_after(run.rounds) - run.rounds)
                began = time.perf_counter()
                if compiled:
                    wrong = advance(run, sampler.state, sampler.tally, sampler.n, size)
                else:
                    wrong = self._call_sampler(execution, size, interrupted)
                elapsed = time.perf_counter() - began
                execution.seconds += elapsed
                if elapsed < PATIENCE / 2 and size == chunk:
                    chunk *= 2
                elif elapsed > PATIENCE * 2:
                    chunk = max(1, chunk // 2)
                if wrong >= 0 or not run.finite():
                    raise DivergenceError(
                        f"{type(self).__name__} diverged in round {run.rounds}: "
                        f"{self._advice(problem)}"
                    )
                paused = progress is not None and bool(progress(run.rounds, rounds))
                self._extend_trace(execution, stops.marks)
                if run.ended():
                    break
                before = execution.asked
                if stops.until is not None and before and run.rounds % stops.every == 0:
                    now = execution.asked = self._asked_now(run)
                    loss = (now.loss_sum - before.loss_sum) / (run.rounds - before.rounds)
                    ended = bool(stops.until(run.rounds, self._solution(problem, run), loss))
                if paused:
                    break
            execution.interrupted = interrupted()

    def _asked_now(self, run: Run) -> Asked:
        """Return what the next estimate of the mean loss is taken from."""
        return Asked(rounds=run.rounds, loss_sum=self._loss_sum(run))

    def _call_sampler(
        self, execution: Execution, rounds: int, interrupted: Callable[[], bool]
    ) -> int:
        """Run some rounds with a sampler in Python; return the position of a bad loss, or -1."""
        run, sampler = execution.run, execution.sampler
        everything = sampler is not None and sampler.feedback == "all"
        look, step = (look_once, step_once) if run.compiled else (type(run).look, type(run).step)
        for _ in range(rounds):
            if look(run) and not everything and hasattr(sampler, "update_all"):
                sampler.update_all(run.seen())
            if run.ended():
                break
            drawn = run.batch.items.size > 0  # else the step takes all items
            wrong = self._step_on_draw(execution, step) if drawn else int(step(run))
            if wrong >= 0:
                return wrong
            if interrupted():
                break
        return -1

    def _step_on_draw(self, execution: Execution, step: Callable[[Run], Any]) -> int:
        """Draw, step and feed back; return the position of a bad loss, or -1."""
        run, sampler = execution.run, execution.sampler
        draw = sampler.draw(run.batch.items.size)
        least, most = draw.indices.min(initial=0), draw.indices.max(initial=0)
        if not 0 <= least <= most < sampler.n:
            raise IndexError(f"{sampler!r} drew an item that is not from 0 to {sampler.n - 1}")
        run.batch.items[:], run.batch.probabilities[:] = draw.indices, draw.probabilities
        run.batch.importances[:] = draw.importances
        losses = None
        if sampler.feedback == "all":
            if not run.finite():
                return 0
            losses = self._all_losses(execution.problem, run)
            if not np.isfinite(losses).all():
                return 0
        wrong = int(step(run))
        if wrong < 0 and losses is not None:
            sampler.update_all(losses)
        elif wrong < 0:
            sampler.update(draw, run.batch.losses.copy())
        return wrong

    def _extend_trace(self, execution: Execution, marks: set[int]) -> None:
        """Add a row to the trace if there is a mark at this round."""
        problem, run, trace = execution.problem, execution.run, execution.trace
        if run.rounds in marks and (not len(trace) or trace.rounds[-1] < run.rounds):
            value = problem.value(self._solution(problem, run))
            ratio = self._variance_ratio(problem, run, execution.sampler.probabilities())
            trace.add(run.rounds, run.item_gradients, execution.seconds, value, ratio)

    def _result(self, execution: Execution) -> Result:
        """Return what was reached."""
        problem, run, sampler = execution.problem, execution.run, execution.sampler
        asked = execution.asked
        known = asked is not None and not math.isnan(asked.loss_sum)
        return Result(
            solution=self._solution(problem, run),
            rounds=run.rounds,
            item_gradients=run.item_gradients,
            seconds=execution.seconds,
            interrupted=execution.interrupted,
            trace=execution.trace,
            sampler=sampler,
            state=ResultState(
                solver=repr(self),
                problem=fingerprint(problem),
                parts=run.saved(),
                sampler=sampler.state_dict(),
                carried=self._carried(run).to_dict(),
                asked=asked if known else None,
            ).to_dict(),
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C instead of raising it; yield a function that says whether it came.

    Ctrl-C therefore takes effect between rounds, never within one. Outside the main thread, and if
    the handler of SIGINT was not set by Python, nothing is changed.
    """
    noted: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is None:
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)


def _marks(trace: int | Sequence[int], rounds: int) -> set[int]:
    """Return the rounds after which the objective is evaluated."""
    if not isinstance(trace, int | np.integer) and np.ndim(trace) == 1:
        return {whole("trace", mark, 0) for mark in trace}
    times = whole("trace", trace, 0)
    return {int(mark) for mark in np.linspace(0, rounds, times + 1).round()} if times else set()


def variance_ratio(
    norms: NDArray[np.float64], mean_squared: float, chances: NDArray[np.float64]
) -> float:
    """Return sum_i l_i^2 / (n^2 p_i) - |mean|^2 over the same with p = 1/n."""
    n = norms.size
    drawn = chances > 0
    ours = float((norms[drawn] ** 2 / chances[drawn]).sum()) / n**2 - mean_squared
    uniform = float((norms**2).mean()) - mean_squared
    return ours / uniform if uniform > 0 else float("nan")


def fingerprint(problem: Any) -> str:
    """Return the class of a problem and, if it has one, its fingerprint."""
    own = getattr(problem, "fingerprint", None)
    return type(problem).__name__ if own is None else f"{type(problem).__name__} {own()}"
