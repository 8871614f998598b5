"""The verdict on a race."""

import math
from collections.abc import Sequence

import numpy as np

from tombola.advice.parts import Method, Verdict

__all__ = ["ALIKE", "PAYS", "decide", "middle", "spread"]

PAYS = 1.1  # the least median speed-up at which it pays; each seed must be above 1
ALIKE = 0.8  # losses are alike: the ideal second moment is above this, relative to uniform's


def decide(methods: Sequence[Method], ideal: float) -> Verdict:
    """Return the verdict on a race; `ideal` is the smallest second moment that was possible.

    A method is better than the baseline if it was sooner in every seed, and at least 1.1 times in
    the median. It pays to adapt if an adaptive method is better. The verdict is to use the method
    with the highest median speed-up among the better ones. If that is the default, whose draws
    adapt, it pays if the same solver with shuffled epochs is later by the same measure. If there is
    none, it is to stay with shuffled epochs, or to try a method whose median is at least 1.1 though
    seeds disagree.
    """
    baseline = next(m for m in methods if m.kind == "baseline")
    adaptive = [m for m in methods if m.kind == "adaptive"]
    default = [m for m in methods if m.kind == "default"]
    if not all(baseline.sooner):
        reasons = [
            f"{baseline.solver} with shuffled epochs did not decrease the objective: scale "
            "the columns, or give it more rows."
        ]
        return Verdict(False, "shuffle", baseline.label, "Nothing can be said.", reasons)
    better = [m for m in [*adaptive, *default] if _is_better(m)]
    if not better:
        best = max([*adaptive, *default], key=lambda m: middle(m.sooner))
        if middle(best.sooner) >= PAYS:
            times = sum(each > 1 for each in best.sooner)
            headline = f"Undecided: {best.label} was sooner in {times} of {len(best.sooner)} seeds."
            return Verdict(False, "try", best.label, headline, [_compared(best)])
        reasons = _why_not(adaptive, ideal) + [_compared(m) for m in default]
        return Verdict(False, "shuffle", baseline.label, "Stay with shuffled epochs.", reasons)
    best = max(better, key=lambda m: middle(m.sooner))
    paying = [m for m in better if m.kind == "adaptive"]
    reasons = [_compared(best)]
    if best.kind == "adaptive":
        return Verdict(True, "adaptive", best.label, f"It pays: draw by {best.label}.", reasons)
    plain = next(m for m in methods if m.kind == "plain")
    gain = [b / a for a, b in zip(best.seconds, plain.seconds, strict=True)]
    if all(map(math.isfinite, gain)):
        reasons.append(f"The same solver with shuffled epochs takes {spread(gain)} times as long.")
    else:
        reasons.append("The same solver with shuffled epochs does not reach the goal in time.")
    if min(gain) > 1.0 and middle(gain) >= PAYS:
        headline = "It pays: use the default, whose draws adapt."
        return Verdict(True, "default", best.label, headline, reasons)
    if max(gain) < 1.0 and middle(gain) <= 1.0 / PAYS:
        headline = "Adaptive draws do not pay here: use the default's solver on shuffled epochs."
        return Verdict(False, "shuffle", plain.label, headline, reasons)
    if paying:
        other = max(paying, key=lambda m: middle(m.sooner))
        reasons += [f"With {other.solver}, adaptive draws pay, too.", _compared(other)]
        headline = f"It pays with {other.solver}, and the default is sooner still: use that."
        return Verdict(True, "default", best.label, headline, reasons)
    headline = "Adaptive draws do not pay here: use the default as it is."
    return Verdict(False, "default", best.label, headline, reasons + _why_not(adaptive, ideal))


def _is_better(method: Method) -> bool:
    return min(method.sooner) > 1.0 and middle(method.sooner) >= PAYS


def _compared(method: Method) -> str:
    """Return a sentence that compares a method with the baseline."""
    arrived, seeds = sum(each > 0 for each in method.sooner), len(method.sooner)
    if 2 * arrived <= seeds:
        return (
            f"The objective of shuffled epochs is reached by {_named(method)} in {arrived} of "
            f"{seeds} seeds."
        )
    some = "" if arrived == seeds else f", which reaches it in {arrived} of {seeds} seeds"
    return (
        f"To the same objective, shuffled epochs take {spread(method.sooner)} times as long as "
        f"{_named(method)}{some}, and {spread(method.fewer_draws)} times as many draws."
    )


def _why_not(adaptive: Sequence[Method], ideal: float) -> list[str]:
    """Return sentences on why adaptive draws do not pay, about the best of them."""
    best = max(adaptive, key=lambda m: (middle(m.sooner), middle(m.fewer_draws)))
    if ideal > ALIKE:
        why = (
            f"There is little to gain: even ideal draws would have {ideal:.2g} of the second "
            "moment of uniform ones."
        )
    elif middle(best.sooner) >= PAYS:
        why = "Seeds disagree about adaptive draws."
    elif middle(best.fewer_draws) >= PAYS:
        why = (
            "Adaptive sampling reaches the goal with fewer draws, but each takes "
            f"{best.overhead:.1f} times as long as a shuffled one."
        )
    else:
        why = (
            f"Adaptive draws have {best.ratio:.2g} of the second moment of uniform ones "
            f"({ideal:.2g} would be ideal), and {best.solver} gains little from that."
        )
    return [why, _compared(best)]


def _named(method: Method) -> str:
    """Return the name of a method for a sentence; k-means has only one solver."""
    label = "the default" if method.kind == "default" else method.label
    return label if method.solver == "k-means" else f"{label} ({method.solver})"


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return float(np.median(values))


def spread(values: Sequence[float]) -> str:
    """Return median and range, for people; 0 stands for a goal that was not reached."""
    shown = [f"{v:.2f}" if v > 0 else "never" for v in (middle(values), min(values), max(values))]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} [{shown[1]}, {shown[2]}]"
