"""What people look at: one self-contained page, and figures in one style."""

from tombola.report.page import Page

__all__ = ["Page"]
