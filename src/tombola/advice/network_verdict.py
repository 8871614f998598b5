"""What follows from the runs of a network: second moments, steps, and the verdict."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.advice.network_parts import NetworkAdvice, NetworkMethod, Signal
from tombola.advice.network_runs import FEEDS, Look, Run

__all__ = ["decide", "methods", "possible"]

FLOOR = 0.1  # share of uniform draws under the distributions that are called possible
ALIKE = 0.8  # there is little to gain: the ideal second moment, over uniform's, is above this
PAYS = 1.25  # it pays where shuffling takes this many times as long
HELPS = 1.25  # labels help, or a dearer feed does, where without it takes this many times as long


def possible(looks: list[Look], groups: Any, items: NDArray[np.int64]) -> list[Signal]:
    """Return the second moments of draws in proportion to each quantity, over uniform's."""
    uniform = sum(float((look.norms**2).sum()) for look in looks)
    if not uniform > 0:
        return [Signal(feed, 1.0) for feed in FEEDS]
    found = []
    if groups is not None:
        _, numbers = np.unique(groups[items], return_inverse=True)
        sizes = np.bincount(numbers)
        best = 0.0
        for look in looks:  # p(i) = q_c / n_c costs least at q_c ~ sqrt(n_c S_c)
            squares = np.bincount(numbers, weights=look.norms**2)
            best += float(np.sqrt(sizes * squares).sum()) ** 2 / len(items)
        found.append(Signal("the best of each group, all alike in it", best / uniform))
    for feed in FEEDS:
        cost = 0.0
        for look in looks:
            signal = look.of(feed)
            total = float(signal.sum())
            times = np.ones(len(items))
            if total > 0:
                floor = 0.0 if feed == "gradient norms" else FLOOR
                times = (1.0 - floor) * signal * (len(items) / total) + floor
            with np.errstate(divide="ignore", invalid="ignore"):
                cost += float(np.where(look.norms > 0, look.norms**2 / times, 0.0).sum())
        found.append(Signal(feed, cost / uniform))
    return found


def methods(runs: dict[tuple[str, str], list[Run]]) -> list[NetworkMethod]:
    """Return what each way to draw has reached."""
    goals = [run.looks[-1].losses.mean() for run in runs["shuffle", ""]]
    found: list[NetworkMethod] = []
    for (sampler, feed), mine in runs.items():
        ours = ideal = uniform = 0.0
        for look in (look for run in mine for look in run.later()):
            ours += float((look.norms**2 / look.times).sum())
            ideal += float(look.norms.sum()) ** 2 / len(look.norms)
            uniform += float((look.norms**2).sum())
        steps = [_arrival(run.looks, goal) for run, goal in zip(mine, goals, strict=True)]
        step_ms = 1000.0 * float(np.median([s for run in mine for s in run.step]))
        draw_ms = 1000.0 * float(np.median([s for run in mine for s in run.draw]))
        unit = found[0] if found else None
        ratio = 1.0
        if unit is not None:
            share = [a / b for a, b in zip(steps, unit.steps, strict=True)]
            ratio = sorted(share)[len(share) // 2] * step_ms / unit.step_ms
        if not uniform > 0:
            ours = ideal = uniform = 1.0
        found.append(
            NetworkMethod(
                sampler, feed, ours / uniform, ideal / uniform, steps, step_ms, draw_ms, ratio
            )
        )
    return found


def _arrival(looks: list[Look], goal: float) -> float:
    """Return the steps to a mean loss over the probe, linear between moments."""
    before = looks[0]
    for look in looks[1:]:
        low, high = float(look.losses.mean()), float(before.losses.mean())
        if low <= goal:
            share = (high - goal) / (high - low) if high > low else 1.0
            return before.step + min(max(share, 0.0), 1.0) * (look.step - before.step)
        before = look
    return math.inf


def decide(
    signals: list[Signal],
    found: list[NetworkMethod],
    n: int,
    probe: int,
    batch_size: int,
    steps: int,
    seeds: int,
    grouped: bool,
) -> NetworkAdvice:
    """Return the advice: the cheapest feed that no dearer one beats clearly, or shuffling."""
    ideal = signals[-1].second_moment
    rest = found[1:]
    best = rest[0]
    for other in rest[1:]:
        if best.time_ratio > HELPS * other.time_ratio or not math.isfinite(best.time_ratio):
            best = other if math.isfinite(other.time_ratio) else best
    labels = None
    if grouped:
        alone, shared = (
            next(m for m in rest if (m.sampler, m.feed) == (sampler, best.feed))
            for sampler in ("vrb", "group-vrb")
        )
        labels = alone.time_ratio > HELPS * shared.time_ratio
    pays = best.time_ratio * PAYS <= 1.0
    reasons = [
        f"{best.sampler} fed with {best.feed} has reached {best.second_moment:.2g} of the second "
        f"moment of uniform draws, where {best.ideal:.2g} would be ideal."
    ]
    if math.isfinite(best.time_ratio):
        reasons.append(
            f"To the loss that shuffling ends with, it takes {best.time_ratio:.2g} times as long: "
            f"a step takes {best.step_ms:.2g} ms against {found[0].step_ms:.2g} ms, of which "
            f"{best.draw_ms:.2g} ms are draw and update."
        )
    else:
        reasons.append("The loss that shuffling ends with was not reached in as many steps.")
    if ideal > ALIKE:
        reasons.append("There is little to gain here, whatever the sampler is fed with.")
    if labels is not None:
        word = "help" if labels else "do not help"
        reasons.append(
            f"Labels {word}: fed with {best.feed}, it takes {shared.time_ratio:.2g} times as long "
            f"as shuffling with them, {alone.time_ratio:.2g} times without."
        )
    headline = "Stay with shuffled epochs."
    if pays:
        headline = f"Draw by {best.sampler}, fed with {best.feed}."
    return NetworkAdvice(
        stay=not pays,
        feed=best.feed if pays else None,
        labels_help=labels,
        headline=headline,
        reasons=reasons,
        possible=signals,
        methods=found,
        items=n,
        probe=probe,
        batch_size=batch_size,
        steps=steps,
        seeds=seeds,
        code=_code(best, batch_size) if pays else "",
    )


def _code(method: NetworkMethod, batch_size: int) -> str:
    """Return the loop that feeds a sampler so."""
    groups = ", groups=groups" if method.sampler == "group-vrb" else ""
    quantity = "" if method.feed == "losses" else ', quantity="gradient norm"'
    lines = [
        f'loader = tombola.torch.ImportanceLoader(dataset, {batch_size}, "{method.sampler}"{groups}'
        f"{quantity})",
        "for (inputs, targets), draw in loader:",
    ]
    if method.feed == "gradient norms":
        lines += [
            "    with tombola.torch.gradient_norms(model) as norms:",
            "        draw.mean(loss(model(inputs), targets)).backward()",
            "    fed = norms.of(draw)",
        ]
    elif method.feed == "last-layer norms":
        lines += [
            "    outputs = model(inputs)",
            "    draw.mean(loss(outputs, targets)).backward()",
            "    fed = tombola.torch.last_layer_norms(outputs, targets)  # of cross_entropy",
        ]
    else:
        lines += [
            "    fed = loss(model(inputs), targets)",
            "    draw.mean(fed).backward()",
        ]
    return "\n".join([*lines, "    optimizer.step()", "    optimizer.zero_grad()",
                      "    loader.update(draw, fed)"])  # fmt: skip
