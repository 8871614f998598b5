"""The verdict: which model to use, and whether adaptive draws pay."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tombola.advice.parts import Method, Model, Verdict

__all__ = [
    "ARRIVED",
    "CLOSE",
    "FASTER",
    "LEAST",
    "PAYS",
    "choose",
    "decide",
    "draws_sentences",
    "is_close",
    "is_settled",
    "middle",
    "spread",
]

ARRIVED = {"linear": 1e-3, "clustering": 0.05}  # the most that may be left, see `Model.left`
NEAR = 0.01  # families of objectives are alike if their best scores differ by at most this
FASTER = 1.5  # a model is preferred to an earlier one that takes this many times as long
LEAST = 0.1  # and this many seconds more, on all rows
CLOSE = 1.3  # times are repeated where one that is wrong by this factor would change the verdict
PAYS = 1.25  # draws pay where shuffled epochs take this many times as long, in the median
SEEDS = 0.8  # and where draws take less time, in this share of the seeds
ALIKE = 0.8  # losses are alike: the ideal second moment is above this, relative to uniform's


def choose(models: Sequence[Model], share: float = 1.0) -> Model | None:
    """Return the model to use, None if none has ended within its limits.

    Models are in order of preference, those that users have already first. A later one is chosen if
    the earlier one takes `FASTER` times as long and `LEAST` seconds more. Only models that have
    arrived at the lowest objective of their family are compared, and of several families those
    whose best score is near the best of all.

    Parameters
    ----------
    models : sequence of Model
    share : float, default=1.0
        All rows over those that were fitted: what seconds are multiplied by.
    """
    arrived = [m for m in models if m.arrived]
    if not any(m.converged for m in arrived):
        return None
    families = {m.family for m in arrived}
    if len(families) > 1:
        best = max(m.score for m in arrived)
        good = {m.family for m in arrived if m.score >= best - NEAR}
        arrived = [m for m in arrived if m.family in good]
    chosen = arrived[0]
    for other in arrived[1:]:
        if _is_faster(other, chosen, share):
            chosen = other
    return chosen


def _is_faster(model: Model, other: Model, share: float) -> bool:
    saved = (other.seconds - model.seconds) * share
    return other.seconds >= FASTER * model.seconds and saved >= LEAST


def is_settled(model: Model, models: Sequence[Model], share: float = 1.0) -> bool:
    """Return whether the choice is the same if the time of a model is wrong by `CLOSE`."""
    chosen = choose(models, share)
    for factor in (CLOSE, 1.0 / CLOSE):
        changed = [
            replace(m, seconds=m.seconds * factor) if m is model else m for m in models
        ]  # fmt: skip
        other = choose(changed, share)
        if (chosen and chosen.name) != (other and other.name):
            return False
    return True


def decide(
    models: Sequence[Model], methods: Sequence[Method], ideal: float, share: float = 1.0
) -> Verdict:
    """Return the verdict on models that were fitted and on a race of draws.

    Parameters
    ----------
    models : sequence of Model
        In order of preference.
    methods : sequence of Method
        The first is the baseline; may be empty.
    ideal : float
        The smallest second moment that was possible, over that of uniform draws.
    share : float, default=1.0
        As in `choose`.
    """
    pays, about_draws = draws_sentences(methods, ideal)
    chosen = choose(models, share)
    if chosen is None:
        headline = "Undecided: no model that reached the lowest objective ended within its limits."
        reasons = ["Each stopped at its largest number of passes: scale the columns, or allow "
                   "more by a larger budget."]  # fmt: skip
        return Verdict("undecided", None, pays, headline, reasons + about_draws)
    headline = f"Use {chosen.library}'s {chosen.label}."
    reasons = _compared(chosen, models)
    took = chosen.seconds * share
    if took < LEAST:
        reasons.insert(
            0,
            f"This is a race of less than a tenth of a second: {chosen.name} takes "
            f"{_seconds(took)}, and no other can save more than that.",
        )
    return Verdict(chosen.library, chosen.name, pays, headline, reasons + about_draws)


def _compared(chosen: Model, models: Sequence[Model]) -> list[str]:
    """Return sentences that compare the chosen model with the best of each library."""
    rest = [m for m in models if m.arrived and m is not chosen]
    found = []
    for library in ("scikit-learn", "tombola"):
        others = [m for m in rest if m.library == library]
        if not others:
            continue
        other = min(others, key=lambda m: m.seconds)
        ratio = other.seconds / chosen.seconds
        if 1.0 / FASTER < ratio < FASTER:
            verb = f"is as fast as that, within a factor of {FASTER}"
        elif ratio <= 1:
            verb = f"saves less than {LEAST} seconds"
        else:
            verb = "is slower"
        found.append(
            f"{other.name} {verb}: it takes {ratio:.2g} times as long "
            f"({_seconds(other.seconds)} against {_seconds(chosen.seconds)})."
        )
    near = [
        m for m in models
        if not m.arrived and chosen.seconds >= FASTER * m.seconds and m.score >= chosen.score - 1e-3
    ]  # fmt: skip
    if near and chosen.family != "squared distance":
        other = min(near, key=lambda m: m.seconds)
        found.append(
            f"{other.name} ends {other.left:.2g} of the way short of the lowest objective, with "
            f"a held-out score of {other.score:.4f} against {chosen.score:.4f}, and takes "
            f"{other.seconds / chosen.seconds:.2g} times as long."
        )
    return found


def draws_sentences(methods: Sequence[Method], ideal: float) -> tuple[bool | None, list[str]]:
    """Return whether adaptive draws pay, with any solver, and sentences about it."""
    if not methods:
        return None, []
    baseline = methods[0]
    if not all(map(math.isfinite, baseline.draws)) or not sum(baseline.draws):
        return None, [
            f"About draws nothing can be said: {baseline.solver} with shuffled epochs did not "
            "decrease the objective."
        ]
    adaptive = [m for m in methods if m.kind == "adaptive"]
    best = min(adaptive, key=lambda m: middle(m.time_ratio))
    pays = _pays(best.time_ratio)
    found = [_sentence(best, baseline, pays, ideal)]
    for default in (m for m in methods if m.kind == "default"):
        plain = next(m for m in methods if m.kind == "plain")
        over = gain(default, plain)
        own = _pays(over)
        pays = pays or own
        name = plain.solver.split(",")[0]
        word = "pay" if own else "do not pay"
        never = sum(not math.isfinite(m) for m in plain.time_ratio)
        if not math.isfinite(middle(over)):
            found.append(f"With {name}, adaptive draws do not pay: they do not reach the goal.")
            continue
        if 2 * never > len(over) and own:
            found.append(
                f"With {name}, adaptive draws pay: shuffled epochs do not reach the goal in "
                f"{never} of {len(over)} seeds."
            )
            continue
        found.append(
            f"With {name}, adaptive draws {word}: they take {spread(over)} times as long as "
            "shuffled epochs."
        )
    return pays, found


def gain(method: Method, other: Method) -> list[float]:
    """Return the time of a method over that of another one, for each seed."""
    return [
        a / b if math.isfinite(a) and b > 0 and math.isfinite(b)
        else (math.inf if not math.isfinite(a) else 0.0)
        for a, b in zip(method.time_ratio, other.time_ratio, strict=True)
    ]  # fmt: skip


def is_close(ratios: Sequence[float]) -> bool:
    """Return whether draws pay or not if these ratios of times are wrong by `CLOSE`."""
    return _pays([r / CLOSE for r in ratios]) != _pays([r * CLOSE for r in ratios])


def _pays(ratios: Sequence[float]) -> bool:
    """Return whether these ratios of times pay: in most seeds, and by enough in the median."""
    sooner = sum(ratio < 1.0 for ratio in ratios)
    return middle(ratios) * PAYS <= 1.0 and sooner >= SEEDS * len(ratios)


def _sentence(best: Method, baseline: Method, pays: bool, ideal: float) -> str:
    """Return what the race of draws says about the best adaptive method."""
    solver = baseline.solver
    arrived, seeds = sum(map(math.isfinite, best.time_ratio)), len(best.time_ratio)
    if 2 * arrived <= seeds:
        return (
            f"With {solver}, adaptive draws do not pay: {best.label} reaches the objective of "
            f"shuffled epochs in {arrived} of {seeds} seeds."
        )
    word = "pay" if pays else "do not pay"
    found = (
        f"With {solver}, adaptive draws {word}: to the same objective, {best.label} takes "
        f"{spread(best.time_ratio)} times as long as shuffled epochs, with "
        f"{spread(best.draws_ratio)} times as many draws, each of which takes "
        f"{best.cost / baseline.cost:.2g} times as long."
    )
    if not pays and ideal > ALIKE:
        found += (
            f" There is little to gain: even ideal draws would have {ideal:.2g} of the second "
            "moment of uniform ones."
        )
    return found


def _seconds(value: float) -> str:
    """Return seconds, or milliseconds where there are few."""
    return f"{value:.2g} s" if value >= 0.1 else f"{1000 * value:.2g} ms"


def middle(values: Sequence[float]) -> float:
    """Return the median; infinite where most are."""
    return (
        float(np.median(values))
        if all(map(math.isfinite, values))
        else float(sorted(values)[len(values) // 2])
    )


def spread(values: Sequence[float]) -> str:
    """Return median and range, for people; infinity stands for a goal that was not reached."""
    shown = [
        f"{v:.2f}" if math.isfinite(v) else "never"
        for v in (middle(values), min(values), max(values))
    ]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} [{shown[1]}, {shown[2]}]"
