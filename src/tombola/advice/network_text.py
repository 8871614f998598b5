"""The advice about a network as text."""

import math
from typing import TYPE_CHECKING

from tombola.advice.text import aligned, indented

if TYPE_CHECKING:
    from tombola.advice.network_parts import NetworkAdvice

__all__ = ["lines_of"]


def lines_of(advice: "NetworkAdvice") -> list[str]:
    """Return the lines of the advice."""
    found = [advice.headline, *indented(advice.reasons)]
    if advice.code:
        found += ["", "To use it", *(f"    {line}" for line in advice.code.split("\n"))]
    found += ["", "What is possible: draws in proportion to each quantity"]
    found += aligned(
        ["quantity", "second moment"],
        [[each.name, f"{each.second_moment:.3g}"] for each in advice.possible],
    )
    found += ["", "What is reached"]
    columns = ["sampler", "fed with", "times as long", "steps", "second moment", "ideal there",
               "ms a step", "ms a draw"]  # fmt: skip
    rows = [
        [
            m.sampler,
            m.feed,
            f"{m.time_ratio:.2f}" if math.isfinite(m.time_ratio) else "never",
            ", ".join(f"{s:.0f}" if math.isfinite(s) else "never" for s in m.steps),
            f"{m.second_moment:.3g}",
            f"{m.ideal:.3g}",
            f"{m.step_ms:.3g}",
            f"{m.draw_ms:.3g}",
        ]
        for m in advice.methods
    ]
    found += aligned(columns, rows)
    found += indented(
        [
            "times as long: median steps times the cost of one, over those of shuffling; below 1 "
            "is better. steps: to the loss over the probe that shuffling ends with, for each seed. "
            "second moment: of gradient estimates, over that of uniform draws, exact over the "
            "probe, in the second half of the run; ideal there: the least that is possible on "
            "the same path. ms a step: median milliseconds, all included; ms a draw: those of "
            "draw and update.",
            f"{advice.items:,} items, {advice.probe:,} of them in the probe; {advice.steps} steps "
            f"of {advice.batch_size} examples with each of {advice.seeds} seeds.",
        ]
    )
    return found
