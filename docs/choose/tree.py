"""Draw the decision trees of docs/choose.md: `python docs/choose/tree.py` writes the SVG files.

A tree is a list of questions, each with the answer for "yes", and the answer otherwise. Trees are
424 units wide, so that they can be read on a telephone.
"""

from html import escape
from pathlib import Path

__all__ = ["TREES", "drawn"]

# Lines are broken by hand: questions at 27 characters, answers at 19. "~" begins a remark.
TREES = {
    "sampler": (
        "Which sampler",
        [
            (["A linear model, a lasso or", "k-means of", "tombola.estimators?"],
             ["its own draws", "~see solvers"]),
            (["Trained for so long that", "it over-fits?"], ["Shuffle(n)"]),
            (["Classes, cells or other", "groups known?"], ["GroupVRB(groups)"]),
            (["Fewer than two epochs, and", "a bound for each item?"],
             ["VRB(n, bound=L_i,", "    mixing=0.5)"]),
            (["A network, trained in", "epochs without repeats?"], ["EpochVRB(n)"]),
            (["A proven bound on the", "regret needed?"], ["VRB(n, bound=L,", "    horizon=T)"]),
        ],
        ["VRB(n)", "~shuffles by itself where", "~drawing does not pay"],
    ),
    "solver": (
        "Which solver",
        [
            (["k-means?"], ["estimators.KMeans", "~one pass or two:", "MiniBatchKMeans"]),
            (["Only an l1 penalty (lasso,", "sparse logistic)?"], ["WorkingSets"]),
            (["l2, smooth loss, no l1,", "30 rows or more a column", "(sparse: 250)?"], ["Newton"]),
            (["l2, and any loss but", "softmax?"], ["SDCA"]),
            (["A smooth loss?"], ["SAGA"]),
        ],
        ["AdaGrad", "~kinks without l2; rows", "~that come in parts"],
    ),
    "feedback": (
        "What to feed",
        [
            (["A solver of", "tombola.solvers?"], ["it feeds itself"]),
            (["A few hundred steps to", "spare for a trial?"], ["advice.network", "~measures it"]),
            (["Squared error: regression,", "a field, a PDE?"],
             ["the error, abs(r)", "~not its square"]),
            (["Steps of 5 ms and more,", "and layers that are covered?"], ["gradient_norms"]),
            (["Logits at the end?"], ["last_layer_norms"]),
        ],
        ["the loss", "~it is there anyway"],
    ),
}  # fmt: skip

WIDTH, MARGIN = 424, 8
LEFT, RIGHT = 222, 152  # widths of questions and answers
LINE, PADDING, GAP = 18, 9, 22
STYLE = {
    "question": ("#eaf2fb", "#0072b2"),
    "answer": ("#e6f5ef", "#009e73"),
}


def box(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Return a box."""
    fill, stroke = STYLE[kind]
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
    )


def words(lines: list[str], x: float, y: float, height: float, kind: str) -> list[str]:
    """Return lines of text, centred vertically in a box."""
    top = y + (height - LINE * len(lines)) / 2 + 13.5
    out = []
    for k, line in enumerate(lines):
        style = "r" if line.startswith("~") else kind[0]
        out.append(
            f'<text x="{x:g}" y="{top + k * LINE:g}" class="{style}" xml:space="preserve">'
            f"{escape(line.removeprefix('~'))}</text>"
        )
    return out


def arrow(x: float, y: float, to_x: float, to_y: float, label: str) -> list[str]:
    """Return an arrow with its label."""
    if y == to_y:
        place = f'x="{(x + to_x) / 2 - 1:g}" y="{y - 5:g}" text-anchor="middle"'
    else:
        place = f'x="{x + 7:g}" y="{(y + to_y) / 2 + 4:g}"'
    return [
        f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="#444" '
        'stroke-width="1.5" marker-end="url(#tip)"/>',
        f'<text {place} class="r">{label}</text>',
    ]


def drawn(name: str) -> str:
    """Return the SVG of a tree."""
    title, questions, otherwise = TREES[name]
    parts: list[str] = []
    y = float(MARGIN)
    answer = WIDTH - MARGIN - RIGHT
    for question, yes in questions:
        height = max(len(question), len(yes)) * LINE + 2 * PADDING
        parts += [box("question", MARGIN, y, LEFT, height)]
        parts += words(question, MARGIN + PADDING, y, height, "question")
        parts += [box("answer", answer, y, RIGHT, height)]
        parts += words(yes, answer + PADDING, y, height, "answer")
        middle = y + height / 2
        parts += arrow(MARGIN + LEFT, middle, answer - 2, middle, "yes")
        below = y + height
        parts += arrow(MARGIN + 24, below, MARGIN + 24, below + GAP - 2, "no")
        y = below + GAP
    height = len(otherwise) * LINE + 2 * PADDING
    parts += [box("answer", MARGIN, y, LEFT, height)]
    parts += words(otherwise, MARGIN + PADDING, y, height, "answer")
    total = y + height + MARGIN
    asked = "; ".join(f"{' '.join(q)} {_plain(a)}" for q, a in questions)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total:g}" '
        f'width="{WIDTH}" height="{total:g}" role="img">',
        f"<title>{title}</title>",
        f"<desc>{escape(asked)}; otherwise {escape(_plain(otherwise))}</desc>",
        "<style>text{fill:#111}.q,.r{font-family:system-ui,sans-serif}.q{font-size:14px}"
        ".r{font-size:12.5px;fill:#333}.a{font:600 13px ui-monospace,Menlo,Consolas,monospace}"
        "</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#444"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{total:g}" rx="8" fill="#fff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _plain(lines: list[str]) -> str:
    return " ".join(line.lstrip("~ ") for line in lines)


if __name__ == "__main__":
    for name in TREES:
        Path(__file__).with_name(f"{name}.svg").write_text(drawn(name))
