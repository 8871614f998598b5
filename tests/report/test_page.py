"""The page: self-contained, escaped, with figures that do not clash."""

import html.parser
import os
import re

import numpy as np
import pytest

from tombola.report.figures import STYLES, band, legend_below, new_figure, style
from tombola.report.page import Page

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(html.parser.HTMLParser):
    """Collects tags and texts, and fails if tags are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def small_figure():
    figure, (ax,) = new_figure()
    x = np.arange(5.0)
    for label in ("VRB", "shuffle"):
        band(ax, x, x, x - 1, x + 1, label)
    ax.set_xlabel("epochs")
    legend_below(figure)
    return figure


def whole_page():
    page = Page("Title <1>", "The **lead** & `code`")
    page.heading("Section")
    page.text("a < b, **not <b>** and `x <- 'y' ** 2 ** 3`")
    page.table(["name", "number", "mixed"], [["one", 1234, "2 [1, 3]"], ["two", 0.5, "never"]],
               caption="A **table**")  # fmt: skip
    page.figure(small_figure(), "caption", 'seen "from" afar & near')
    page.figure(small_figure(), "caption", "the second")
    page.code("if a < b:\n    pass\n")
    return page


def test_the_page_is_well_formed_and_complete():
    reader = Reader(whole_page().html())
    text = "".join(reader.texts)
    for part in ("Title <1>", "The lead & code", "a < b, not <b> and", "x <- 'y' ** 2 ** 3",
                 "if a < b:\n    pass"):  # fmt: skip
        assert part in text
    labels = [attributes["aria-label"] for tag, attributes in reader.seen if tag == "svg"]
    assert labels == ['seen "from" afar & near', "the second"]


def test_nothing_comes_from_elsewhere():
    text = whole_page().html()
    assert "://" not in text
    assert "<script" not in text
    assert "@import" not in text
    for target in re.findall(r"""(?:href|src)\s*=\s*["']([^"']*)""", text):
        assert target.startswith("#")
    for target in re.findall(r"url\(([^)]*)\)", text):
        assert target.startswith("#")


def test_ids_are_unique_and_all_references_lead_somewhere():
    text = whole_page().html()
    ids = re.findall(r'\sid="([^"]*)"', text)
    references = re.findall(r'href="#([^"]*)"', text) + re.findall(r"url\(#([^)]*)\)", text)
    assert ids
    assert references
    assert len(ids) == len(set(ids))
    assert set(references) <= set(ids)


def test_letters_of_figures_are_paths():
    tags = [tag for tag, _ in Reader(whole_page().html()).seen]
    assert tags.count("svg") == 2
    assert "text" not in tags


def test_the_same_page_has_the_same_bytes():
    assert whole_page().html() == whole_page().html()


def test_columns_of_numbers_are_aligned_to_the_right():
    page = Page("t")
    columns = {
        "numbers": [1, 2.5], "missing": [None, 1], "range": ["0.5 [0, 1]", "never"],
        "percent": ["12%", "3.4%"], "power": ["1.61e-02", "-3e+05"], "unit": ["0.3 s", "1,200 ms"],
        "text": ["1", "z"], "begins": ["5 against the rest", "1 against the rest"],
        "words": ["never", "never"], "truth": [True, False],
    }  # fmt: skip
    page.table(["", *columns], [["", *row] for row in zip(*columns.values(), strict=True)])
    cells = [attributes.get("class") for tag, attributes in Reader(page.html()).seen if tag == "td"]
    assert cells == (["number"] * 6 + [None] * 4) * 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "&ndash;"), (np.nan, "&ndash;"), (1234567, "1,234,567"), (np.int64(1000), "1,000"),
     (0.123456, "0.1235"), (np.float32(2), "2"), (True, "yes"), ("<i>", "&lt;i&gt;")],
)  # fmt: skip
def test_cells_are_formatted(value, shown):
    page = Page("t")
    page.table(["a", "b"], [["x", value]])
    assert f">{shown}</td>" in page.html()


def test_a_row_of_the_wrong_length_is_named():
    with pytest.raises(ValueError, match=r"rows\[1\] has 1 cells, but there are 2 columns"):
        Page("t").table(["a", "b"], [["x", 1], ["y"]])


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    whole_page().save(path)
    assert path.read_text(encoding="utf-8") == whole_page().html()
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        whole_page().save(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        Page("t").save(tmp_path / "nowhere" / "page.html")


def test_methods_keep_their_colour_under_all_their_names():
    assert style("GroupVRB") == style("group-vrb") == style("Group VRB, by labels")
    assert style("VRB") == style("vrb by L")
    assert style("AdaptiveWeighted") == style("AW")
    assert style("Mirror descent") == style("MirrorDescent")
    looks = list(STYLES.items())
    main = [look for name, look in looks if name != "default"]
    assert len(set(main)) == len(main)
    assert style("somebody else's")["color"] not in {colour for colour, _ in STYLES.values()}


def test_legends_lie_below_the_panels_and_within_the_figure():
    figure, axes = new_figure(2)
    for ax in axes:
        for label in [*STYLES, "a method with a rather long name, tuned", "another long one"]:
            ax.plot([0, 1], [0, 1], label=label, **style(label))
    legend_below(figure)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert len(legend.get_texts()) == len(STYLES) + 2
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.x1
    for ax in axes:
        assert ax.get_tightbbox().y0 >= box.y1
