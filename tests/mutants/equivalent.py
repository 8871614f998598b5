"""Mutants that survive because nothing that could be observed has changed, each with its reason."""

EQUIVALENT: dict[str, str] = {}
