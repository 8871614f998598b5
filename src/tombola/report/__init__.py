"""Reports: a self-contained HTML page, and figures in one style."""

from tombola.report.page import Page

__all__ = ["Page"]
