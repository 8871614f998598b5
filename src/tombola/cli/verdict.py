"""Whether a run of `tombola train` has settled, in words that its trace and certificates prove."""

import math
from collections.abc import Sequence

import numpy as np

from tombola.advice.verdict import judge
from tombola.cli.runs import Course

__all__ = ["TOLERANCE", "percent", "verdict"]

TOLERANCE = 1e-4  # relative gap of a run that has settled, where none is asked for
STRETCH = 0.1  # of the epochs: how far back to look for how fast it falls, one epoch at least
TELLING = 0.01  # a lower bound of less than this share of the objective is not worth a word
FAINT = 1e-6  # a fall of less than this share an epoch is not told from none


def verdict(run: Sequence[Course], tol: float | None) -> str:
    """Return whether a run, of one part or one for each class, has settled, in one sentence.

    Examples
    --------
    >>> epochs, objective = np.arange(3.0), np.array([0.7, 0.4, 0.3])
    >>> nan = np.full(3, np.nan)
    >>> gaps = np.array([np.nan, np.nan, 0.02])
    >>> course = Course("a", epochs, epochs, objective, nan, gaps, nan, 0.7, "gap", False)
    >>> for part in verdict([course], 1e-4).split("; "):
    ...     print(part)
    not settled: the objective is at most 4.9% above its minimum (certificate)
    it still falls 25% an epoch: use more --epochs
    >>> course = Course("a", epochs, epochs, objective, nan, nan, nan, 0.7, "gap", False)
    >>> print(verdict([course], 1e-4))
    not settled: it still falls 25% an epoch: use more --epochs
    """
    goal = tol or TOLERANCE
    left = [course for course in run if judge((0.0, course.gap), goal) is not True]
    if not left:
        worst = max(run, key=_excess)
        whose = "the objective" if len(run) == 1 else f"the objective of each of {len(run)} classes"
        if _excess(worst) <= 1.0:
            share = f"at most {percent(_excess(worst), up=True)} above its minimum"
        else:  # the minimum is about 0
            most = max(course.gap for course in run)
            share = f"above its minimum by at most {percent(most, up=True)} of its value at w = 0"
        return f"settled: {whose} is {share} (certificate)"
    going = [course for course in left if not course.ended]
    worst = max(going or left, key=_excess)
    whose = ""
    if len(run) > 1:
        some = f"{len(going or left)} of {len(run)} classes"
        whose = f"{some}, for example {worst.name!r}: "
    word = "not settled" if going else "stopped"
    said = [f"{word}: {whose}"]
    said.append(_bound(worst))
    said.append(_stop(worst, goal) if worst.ended else _pace(worst))
    return "".join(said)


def _excess(course: Course) -> float:
    """Return how far a part may be above its minimum, relative to it; infinite if not known."""
    above, floor = course.gap * course.unit, course.floor
    return above / floor if floor > 0 else math.inf if math.isnan(above) or above > 0 else 0.0


def _bound(course: Course) -> str:
    """Return what the certificate proves, in words; nothing where that is next to nothing."""
    last, excess = float(course.objective[-1]), _excess(course)
    if excess <= 1.0:
        share = percent(excess, up=True)
        return f"the objective is at most {share} above its minimum (certificate); "
    if course.floor > TELLING * last:
        return (
            f"the objective is {last:.3g}, its minimum {course.floor:.3g} or more (certificate); "
        )
    return ""


def _pace(course: Course) -> str:
    """Return how fast a part fell at its end, in words."""
    known = np.isfinite(course.objective)
    epochs, objective = course.epochs[known], course.objective[known]
    advice = "use more --epochs"
    if len(epochs) < 2:  # or the objective overflows, which the record refuses
        return advice
    last = float(epochs[-1])
    if objective.argmin() == 0:
        return "it is no lower than at the start: try another --solver, or --scale"
    lowest = float(epochs[objective.argmin()])
    back = max(1.0, STRETCH * last)
    first = int(np.flatnonzero(epochs <= max(last - back, 0.0) + 1e-9)[-1])
    span, ends = last - float(epochs[first]), (objective[first], objective[-1])
    if ends[1] < ends[0] and min(ends) > 0:
        fall = 1.0 - (ends[1] / ends[0]) ** (1.0 / span)
        if fall >= FAINT:
            return f"it still falls {percent(fall)} an epoch: {advice}"
    if lowest >= last:
        return f"it falls by less than {percent(FAINT)} an epoch"
    idle = last - lowest
    return f"it is no lower than {idle:.3g} epoch{'' if idle == 1 else 's'} before"


def _stop(course: Course, tol: float) -> str:
    """Return why a part ended without a certificate that it has settled, in words."""
    return {
        "gap": "it has ended within its tolerance",
        "change": f"no coefficient has moved by more than {percent(tol)} of the largest one in an "
        "epoch; there is no certificate",
        "objective": f"as estimated from the draws it has not fallen by {percent(tol)} for 5 "
        "epochs: a smaller --tol goes on",
        "batches": "the mean squared distance has not fallen for 10 mini-batches; it is a local "
        "minimum at best, another --seed may end lower",
    }[course.rule]


def percent(share: float, *, up: bool = False) -> str:
    """Return a share in percent, to two digits; rounded `up` where it is a bound.

    Examples
    --------
    >>> percent(0.1234), percent(0.1234, up=True), percent(0.00012), percent(3e-7), percent(0.0)
    ('12%', '13%', '0.012%', '0.00003%', '0%')
    """
    if share <= 0:
        return "0%"
    digits = max(0, 1 - math.floor(math.log10(100 * share)))
    scaled = 100 * share * 10**digits
    text = f"{(math.ceil(scaled - 1e-9) if up else round(scaled)) / 10**digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"
