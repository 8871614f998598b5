"""What the race says."""

import math
from collections.abc import Sequence

import numpy as np

from tombola.advice.base import Method, Verdict

__all__ = ["ALIKE", "PAYS", "decide", "middle", "spread"]

PAYS = 1.1  # it pays: so many times sooner, in the median over seeds, and sooner in each
ALIKE = 0.8  # losses are alike: ideal draws would have more than this of uniform's second moment


def decide(methods: Sequence[Method], ideal: float) -> Verdict:
    """Return what the race says; `ideal` is the least second moment that was possible.

    A method is better than the baseline if it was sooner, by the clock, in every seed, and at
    least 1.1 times in the median. It pays to adapt if that holds for a method that does, and the
    advice is to use whichever of the better ones is soonest in the median.
    """
    baseline = next(m for m in methods if m.kind == "baseline")
    adaptive = [m for m in methods if m.kind == "adaptive"]
    default = [m for m in methods if m.kind == "default"]
    if not all(baseline.sooner):
        reasons = [
            f"{baseline.solver} with shuffled epochs has not come below the objective that it "
            "started from: scale the columns, or give it more rows."
        ]
        return Verdict(False, "shuffle", baseline.label, "Nothing can be said.", reasons)
    better = [m for m in [*adaptive, *default] if _is_better(m)]
    paying = [m for m in better if m.kind == "adaptive"]
    if not better:
        reasons = _why_not(adaptive, ideal)
        reasons += [
            f"{_named(m)} is {spread(m.sooner)} times sooner: not better in every seed."
            if middle(m.sooner) > 1
            else f"{_named(m)} does not arrive sooner either: {spread(m.sooner)} times."
            for m in default
        ]
        return Verdict(False, "shuffle", baseline.label, "Stay with shuffled epochs.", reasons)
    best = max(better, key=lambda m: middle(m.sooner))
    reasons = [
        f"{_named(best)} reaches the objective of shuffled epochs ({baseline.solver}) "
        f"{spread(best.sooner)} times sooner by the clock, with {spread(best.fewer_draws)} times "
        "fewer draws."
    ]
    if best.kind == "adaptive":
        return Verdict(True, "adaptive", best.label, f"It pays: draw by {best.label}.", reasons)
    plain = [m for m in methods if m.kind == "plain"]
    if not plain:
        reasons.append("That is the solver's doing: rows are alike, so its draws are uniform.")
    elif all(math.isfinite(each) for each in plain[0].seconds):
        gain = [b / a for a, b in zip(best.seconds, plain[0].seconds, strict=True)]
        reasons.append(f"The same solver with uniform draws takes {spread(gain)} times as long.")
    else:
        reasons.append("The same solver with uniform draws does not get there in time.")
    if paying:
        other = max(paying, key=lambda m: middle(m.sooner))
        reasons.append(
            f"With {other.solver}, draws that learn pay too: {other.label} is "
            f"{spread(other.sooner)} times sooner than shuffling."
        )
        headline = f"It pays with {other.solver}, and the default is sooner still: use that."
        return Verdict(True, "default", best.label, headline, reasons)
    reasons += _why_not(adaptive, ideal)
    headline = "Draws that learn do not pay here: use the default as it is."
    return Verdict(False, "default", best.label, headline, reasons)


def _is_better(method: Method) -> bool:
    return min(method.sooner) > 1.0 and middle(method.sooner) >= PAYS


def _why_not(adaptive: Sequence[Method], ideal: float) -> list[str]:
    """Say why draws that learn do not pay, of the best of them."""
    best = max(adaptive, key=lambda m: (middle(m.sooner), middle(m.fewer_draws)))
    if ideal > ALIKE:
        return [
            f"There is little to gain: even ideal draws would have {ideal:.2f} of the second "
            "moment of uniform ones."
        ]
    if middle(best.fewer_draws) < PAYS:
        if best.ratio is not None and best.ratio > ALIKE:
            return [
                f"{best.label} has not learnt enough in so few epochs: its second moment is "
                f"{best.ratio:.2f} of uniform draws', {ideal:.2f} would be ideal."
            ]
        return [
            f"The second moment of {best.label} is {best.ratio:.2f} of uniform draws', but "
            f"{best.solver} gains little from it over shuffled epochs: "
            f"{spread(best.fewer_draws)} times fewer draws, and {spread(best.sooner)} times "
            "sooner."
        ]
    if middle(best.sooner) < PAYS:
        return [
            f"{best.label} needs {spread(best.fewer_draws)} times fewer draws, but each takes "
            f"{best.overhead:.1f} times as long as a shuffled one: {spread(best.sooner)} times "
            "sooner by the clock."
        ]
    return [f"Seeds disagree: {best.label} is {spread(best.sooner)} times sooner than shuffling."]


def _named(method: Method) -> str:
    label = "The default" if method.kind == "default" else method.label
    return f"{label} ({method.solver})"


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return float(np.median(values))


def spread(values: Sequence[float]) -> str:
    """Return median and range, for people; 0 stands for a goal that was not reached."""
    shown = [f"{v:.2f}" if v > 0 else "never" for v in (middle(values), min(values), max(values))]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} [{shown[1]}, {shown[2]}]"
