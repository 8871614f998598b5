"""Draw the index of docs/how_it_works.md: `python docs/how_it_works/board.py` writes the SVG files.

The columns are those that `tombola.index.layout` makes of the same weights: the height of a column
is the smallest power of two that is not below the weight, and tall columns stand first.
"""

from html import escape
from pathlib import Path

__all__ = ["CHANGED", "NEW", "WEIGHTS", "drawn", "orders"]

WEIGHTS = [3, 8, 1, 5, 3, 2, 6, 1, 4]
CHANGED, NEW = 4, 7  # an item, and its weight in the second picture

WIDTH, MARGIN, BASE, UNIT = 424, 12, 172, 16  # UNIT: one weight, in height
FILLED, EMPTY, LINE, MARK = "#56b4e9", "#eef2f5", "#0072b2", "#d55e00"


def height(weight: int) -> int:
    """Return the height of a column: the smallest power of two that is not below the weight."""
    return 1 << (weight - 1).bit_length()


def orders() -> tuple[list[int], list[int]]:
    """Return the items in the order of their columns, before and after the change."""
    before = sorted(range(len(WEIGHTS)), key=lambda item: -height(WEIGHTS[item]))
    after = before.copy()
    here = before.index(CHANGED)
    boundary = sum(height(weight) > height(WEIGHTS[CHANGED]) for weight in WEIGHTS)
    after[here], after[boundary] = after[boundary], after[here]  # the one swap
    return before, after


def text(x: float, y: float, words: str, *, middle: bool = False, style: str = "t") -> str:
    """Return a line of text."""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{anchor}>{escape(words)}</text>'


def board(order: list[int], weights: list[int], marked: set[int]) -> list[str]:
    """Return the columns, filled up to the weights, with items below; some are marked."""
    wide = (WIDTH - 2 * MARGIN) / len(weights)
    parts = []
    for k, item in enumerate(order):
        weight = weights[item]
        x, colour = MARGIN + k * wide, MARK if item in marked else LINE
        for fill, tall in ((EMPTY, height(weight)), (FILLED, weight)):
            parts.append(
                f'<rect x="{x + 1.5:g}" y="{BASE - UNIT * tall:g}" width="{wide - 3:g}" '
                f'height="{UNIT * tall:g}" fill="{fill}" stroke="{colour}"/>'
            )
        middle = x + wide / 2
        parts.append(text(middle, BASE - 4.5, str(weight), middle=True, style="n"))
        style = "m" if item in marked else "t"
        parts.append(text(middle, BASE + 17, f"item {item}", middle=True, style=style))
    return parts


def dart(column: int, level: float, label: str) -> list[str]:
    """Return a dart in a column, at a level, with a word beside it."""
    wide = (WIDTH - 2 * MARGIN) / len(WEIGHTS)
    x, y = MARGIN + (column + 0.5) * wide, BASE - UNIT * level
    return [
        f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{MARK}" stroke="#fff"/>',
        text(x, y - 9, label, middle=True, style="m"),
    ]


def drawn(name: str) -> str:
    """Return one of the pictures: "draw" or "set"."""
    before, after = orders()
    if name == "draw":
        parts = board(before, WEIGHTS, set())
        parts += dart(1, 3.5, "a hit") + dart(2, 6.4, "a miss")
        below = "A dart lands anywhere on the board; a miss is thrown again."
        title = "The index as a dart board"
    else:
        weights = [NEW if item == CHANGED else weight for item, weight in enumerate(WEIGHTS)]
        parts = board(after, weights, {CHANGED})
        below = "Item 4 from 3 to 7: swapped with item 0, it crosses the boundary."
        title = "The board after a weight has changed"
    parts.append(text(MARGIN, BASE + 42, below))
    high = BASE + 54
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" '
        f'width="{WIDTH}" height="{high}" role="img">',
        f"<title>{title}</title>",
        f"<desc>{escape(below)} Weights: {WEIGHTS}</desc>",
        "<style>text{font-family:system-ui,sans-serif}.t{font-size:12px;fill:#333}"
        f".n{{font-size:13px;font-weight:600;fill:#111}}"
        f".m{{font-size:12px;font-weight:600;fill:{MARK}}}</style>",
        f'<rect width="{WIDTH}" height="{high}" rx="8" fill="#fff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


if __name__ == "__main__":
    for name in ("draw", "set"):
        Path(__file__).with_name(f"{name}.svg").write_text(drawn(name))
