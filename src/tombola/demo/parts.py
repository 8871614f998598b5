"""What the three parts of the demo share: sizes, ratios with intervals, words and looks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.ledger import Estimate, mean_estimate
from tombola.report import figures
from tombola.report.exhibit import Exhibit
from tombola.report.rows import Row, shown

__all__ = [
    "FULL", "LOOKS", "Pictures", "Section", "Size", "draw_picture", "gallery", "listed",
    "panel", "ratio", "spread", "times",
]  # fmt: skip

Pictures = dict[str, NDArray[np.float64]]  # by title

LOOKS = {  # Okabe, Ito (2008), as in tombola.report.figures
    "shuffled": ("#333333", "--", "s"),
    "scikit-learn": ("#333333", "--", "s"),
    "uniform": ("#333333", "--", "s"),
    "uniform sample": ("#009E73", ":", "^"),
    "adaptive": ("#0072B2", "-", "o"),
    "tombola": ("#0072B2", "-", "o"),
}


class Size(NamedTuple):
    """How much the demo does."""

    seeds: int = 5
    linear_thin: int = 1  # of the rows of linear models: one of how many is used
    clusters: int = 64
    thin: int = 1  # of the photograph that is clustered: every how many pixels along a side
    steps: int = 1200  # of the diffusion model


FULL = Size()


@dataclass
class Section(Exhibit):
    """One part of the page; `lead` completes the sentence "tombola ..."."""

    notes: str = ""  # data, rival and seeds
    gained: bool = False  # whether the lead reports a gain

    def judge(self, claim: str, estimate: Estimate, evidence: str, none: float = 1.0) -> None:
        """Add the finding that a number is above `none`; undecided if its interval holds that."""
        confirmed = True if estimate.low > none else False if estimate.high < none else None
        self.finding(claim, confirmed, evidence)


def ratio(theirs: ArrayLike, ours: ArrayLike) -> Estimate:
    """Return the geometric mean of theirs / ours over seeds, with Student's 95% interval.

    All three numbers are nan if one of the values is not finite.

    >>> [round(number, 2) for number in ratio([2.0, 4.0], [1.0, 2.0])]
    [2.0, 2.0, 2.0]
    """
    both = np.asarray([theirs, ours], dtype=np.float64)
    if not np.isfinite(both).all():
        return Estimate(math.nan, math.nan, math.nan)
    logs = np.log(both[0]) - np.log(both[1])
    with np.errstate(over="ignore"):  # one seed: the interval is everything
        return Estimate(*(float(number) for number in np.exp(mean_estimate(logs))))


def times(estimate: Estimate, digits: int = 2) -> str:
    """Return a ratio as text.

    >>> times(Estimate(2.0, 1.5, 2.5)), times(Estimate(math.nan, math.nan, math.nan))
    ('2.00 [1.50, 2.50]', 'not known: the goal was not reached')
    """
    known = not math.isnan(estimate.value)
    return shown(estimate, digits) if known else "not known: the goal was not reached"


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return the geometric mean of positive numbers over seeds with its 95% interval, as text.

    >>> spread([10.0, 10.0])
    '10.0 [10.0, 10.0]'
    """
    found = ratio(values, np.ones(len(values)))
    return "never" if math.isnan(found.value) else shown(found, digits)


def panel(draw: Callable[[Any, list[Row]], None], rows: list[Row]) -> Any:
    """Return a figure of one panel, with a legend below."""
    figure, (axis,) = figures.new_figure(height=2.6)
    draw(axis, rows)
    figures.legend_below(figure)
    return figure


def gallery(pictures: Pictures, titles: Sequence[str]) -> Any:
    """Return a figure of four pictures, two by two, which fits a phone."""
    figure, axes = figures.new_figure(2, 2)
    figure.set_size_inches(4.8, 3.6)
    for axis, title in zip(axes, titles, strict=True):
        draw_picture(axis, pictures[title], title)
    return figure


def draw_picture(axis: Any, image: NDArray[np.float64], title: str) -> None:
    """Draw colours, or numbers from 0 as brightness, pixel by pixel."""
    axis.imshow(image, interpolation="none", cmap="magma", vmin=0)
    axis.set_title(title, fontsize=9)
    axis.axis("off")


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["red", "green", "blue"])
    'red, green and blue'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
