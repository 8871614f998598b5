"""States: each field is declared once, and everything else follows from its declaration."""

from tombola.state.documents import Document, body_of
from tombola.state.fields import (
    LARGEST_COUNT,
    MOST,
    CheckpointError,
    Floats,
    Ints,
    Scope,
    array,
    count,
    derived,
    entry_of,
    exactly,
    flag,
    integer,
    listed,
    mapping,
    nested,
    real,
    text,
)
from tombola.state.records import Cell, Record, cell, side_by_side
from tombola.state.states import State, check_arrays

__all__ = [
    "LARGEST_COUNT",
    "MOST",
    "Cell",
    "CheckpointError",
    "Document",
    "Floats",
    "Ints",
    "Record",
    "Scope",
    "State",
    "array",
    "body_of",
    "cell",
    "check_arrays",
    "count",
    "derived",
    "entry_of",
    "exactly",
    "flag",
    "integer",
    "listed",
    "mapping",
    "nested",
    "real",
    "side_by_side",
    "text",
]
