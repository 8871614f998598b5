"""Exhibits: the findings, figures and tables of a comparison, for a page."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Exhibit", "Finding"]


@dataclass(frozen=True)
class Finding:
    """A claim, whether the rows confirm it, and the numbers that decide."""

    claim: str
    confirmed: bool | None  # None: the rows cannot decide
    evidence: str

    def __str__(self) -> str:
        verdict = {True: "Confirmed", False: "NOT confirmed", None: "Undecided"}[self.confirmed]
        return f"{verdict}: {self.claim} {self.evidence}"


@dataclass
class Exhibit:
    """The results of a comparison, for a page."""

    title: str
    lead: str  # one or two sentences
    figures: list[tuple[Any, str]] = field(default_factory=list)  # matplotlib figure, caption
    tables: list[tuple[str, list[str], list[list[Any]]]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def finding(self, claim: str, confirmed: bool | None, evidence: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(claim, confirmed, evidence))

    def figure(self, figure: Any, caption: str) -> None:
        """Add a figure."""
        self.figures.append((figure, caption))

    def table(self, caption: str, columns: list[str], lines: list[list[Any]]) -> None:
        """Add a table."""
        self.tables.append((caption, columns, lines))
