"""Settings of the documentation site: `make docs` builds it into out/docs."""

import inspect
import os
import re
import sys
from pathlib import Path

import tombola

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT)]  # the gallery uses examples and experiments
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "tombola"
author = "The tombola developers"
copyright = author
version = release = tombola.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["choose", "gallery", "how_it_works", "results"]

# Markdown: anchors of headings as on GitHub
myst_heading_anchors = 4

# The reference: names in single backquotes are links where there is something to link to
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", ".*")]
autosummary_generate = True
autodoc_typehints = "none"  # docstrings have them
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The gallery: docs/gallery/*.py run, and become pages in docs/examples
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
}

# Look
html_theme = "pydata_sphinx_theme"
html_title = "tombola"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {page: [] for page in ("index", "start", "choose", "faq")}
smartquotes = False  # "auto" is a value
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# External links are tried by `make docs-links` only
linkcheck_timeout = 20
linkcheck_anchors = False


def setup(app):
    """Connect what makes docstrings ready for Sphinx."""
    app.connect("source-read", files_outside)
    app.connect("autodoc-process-docstring", plain_formulas, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", is_foreign)


def files_outside(app, name, source):
    """Let links to Markdown files outside of docs/ be downloads, as those to other files are."""
    link = r"\[([^\]]+)\]\(((?:\.\./)+(?:benchmarks|examples)/[^)]+\.md)\)"
    source[0] = re.sub(link, r"{download}`\1 <\2>`", source[0])


def plain_formulas(app, what, name, obj, options, lines):
    """Keep formulas as they are written: |x| is no substitution, an indented block is literal."""
    found, section, literal = [], "", False
    for k, line in enumerate(lines):
        below = lines[k + 1] if k + 1 < len(lines) else ""
        if line and set(below) == {"-"}:
            section = line
        indented = line.startswith("    ")
        if line and not indented:
            literal = False
        prose = section in ("", "Notes")  # elsewhere, descriptions are indented
        if prose and indented and not literal and not lines[k - 1].strip():
            found += ["::", ""]
            literal = True
        if not literal and not line.lstrip().startswith((">>>", "...")):
            pieces = re.split(r"(``.*?``)", line)
            pieces[::2] = [piece.replace("|", r"\|") for piece in pieces[::2]]
            line = "".join(pieces)
        found.append(line)
    lines[:] = found


def is_foreign(app, what, name, obj, skip, options):
    """Leave out what scikit-learn and torch bring along, and classes that are attributes."""
    thing = obj.fget if isinstance(obj, property) else obj
    module = getattr(thing, "__module__", None) or "tombola"
    return True if inspect.isclass(obj) or not module.startswith("tombola") else None
