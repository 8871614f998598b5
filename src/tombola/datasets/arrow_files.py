"""Read tables by pyarrow: Parquet, Arrow and Feather files, and frames of any library."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Any

from tombola.datasets.base import DataError, Progress
from tombola.datasets.cells import Style, is_text, is_usable, settled, typed, words_in
from tombola.datasets.reading import Reading, unique_names
from tombola.datasets.sources import Source
from tombola.datasets.table import Column, Table
from tombola.datasets.table_files import Batch, TableFile

__all__ = ["ArrowFile", "as_table"]

PIECE = 2**16  # rows that are converted at a time


class ArrowFile(TableFile):
    """A table in a Parquet, Arrow or Feather file."""

    def __init__(self, source: Source, reading: Reading) -> None:
        super().__init__(source, reading)
        self.kind = "Parquet" if source.kind == "parquet" else "Arrow"
        with self._opened() as (schema, _, rows):
            self.rows_at_most = rows or 8 * source.size
            self.types = list(schema.types)
            self.names, self.notes = unique_names([str(name) for name in schema.names])
        if not self.names:
            raise DataError(f"{source.name} has no columns")

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any], int]]:
        """Give the schema, some rows at a time, and the number of rows if it is known."""
        import pyarrow
        from pyarrow import parquet

        try:
            with self.source.unpacked() as path:
                if self.kind == "Parquet":
                    with parquet.ParquetFile(path, memory_map=False) as file:
                        batches = file.iter_batches(PIECE, use_threads=False)
                        yield file.schema_arrow, batches, file.metadata.num_rows
                    return
                with pyarrow.memory_map(str(path)) as mapped:
                    try:
                        reader = pyarrow.ipc.open_file(mapped)
                        numbers = range(reader.num_record_batches)
                        batches = (reader.get_batch(k) for k in numbers)
                    except pyarrow.ArrowInvalid:
                        mapped.seek(0)
                        batches = reader = pyarrow.ipc.open_stream(mapped)
                    yield reader.schema, batches, 0
        except (pyarrow.ArrowException, OSError, UnicodeError) as error:
            if isinstance(error, PermissionError):
                raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(
                f"{self.source.name} is not a readable {self.kind} file: {reason}"
            ) from None

    def batches(
        self,
        chosen: Collection[int],
        progress: Progress | None = None,
        text: Collection[int] = (),
    ) -> Iterator[Any]:
        """Yield some rows at a time, and report how many there were."""
        from pyarrow import string

        done, said = 0, self.reading.types
        for j in chosen:
            drop = f" (--drop {quote(self.names[j])} leaves it out)"
            if self.names[j] not in said:
                _check_type(self.types[j], f"{self.names[j]!r} of {self.source.name}", drop)
        with self._opened() as (_, batches, rows):
            for batch in batches:
                batch.validate(full=True)  # a damaged file may hold offsets to anywhere
                columns = {
                    j: batch.column(j).cast(string()) if self.names[j] in said else batch.column(j)
                    for j in chosen
                }
                yield Batch(columns, batch.num_rows)
                done += batch.num_rows
                if progress is not None and rows:
                    progress(done, rows)

    def is_guessed(self, j: int) -> bool:
        """Return False unless the type of a column is said: a file of Arrow has types."""
        return self.names[j] in self.reading.types

    def place(self, row: int) -> str:
        """Return the number of a row."""
        return f"row {row + 1}"


def _check_type(kind: Any, where: str, drop: str = "") -> None:
    """Refuse a column of a type that cannot become numbers, dates or text."""
    if not is_usable(kind):
        raise DataError(
            f"the column {where} holds {kind}: only numbers, booleans, dates and text can be used"
            f"{drop}"
        )


def as_table(X: Any, *, settle: bool = True) -> Table | None:
    """Return a table, or a frame of pandas, polars or another library as a table; else None.

    Parameters
    ----------
    X : object
        A frame has Arrow's protocol `__arrow_c_stream__`, or the older `__dataframe__`.
    settle : bool, default=True
        Whether text that is true, false or a date is taken for what it is.
    """
    if isinstance(X, Table):
        return X
    if not (hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")):
        return None
    given = _arrow(X)
    if not given.num_columns:
        raise DataError("the frame has no columns")
    columns: dict[str, Column] = {}
    forms: dict[str, str] = {}
    for name, chunks in zip(given.column_names, given.columns, strict=True):
        if name in columns:
            raise DataError(f"the frame has two columns named {name!r}")
        _check_type(chunks.type, repr(name))
        if not is_text(chunks):
            columns[name] = typed(chunks.chunks)
            continue
        words = columns[name] = words_in(chunks.chunks, Style())
        found, form, odd, _ = settled(words) if settle else (words, None, None, False)
        if odd is None:
            columns[name] = found
            forms |= {name: form} if form else {}
    return Table(columns, forms)


def _arrow(X: Any) -> Any:
    """Return a frame as a table of pyarrow; of pandas, other objects than text become text."""
    import pyarrow
    from pyarrow import interchange

    if not hasattr(X, "__arrow_c_stream__"):
        return interchange.from_dataframe(X)
    if hasattr(X, "iloc"):
        X = X.set_axis(list(map(str, X.columns)), axis=1).reset_index(drop=True)
        twice = X.columns[X.columns.duplicated()]
        if len(twice):
            raise DataError(f"the frame has two columns named {twice[0]!r}")
        objects = [name for name in X.columns if str(X[name].dtype) == "object"]
        X = X.assign(**{name: X[name].map(str, na_action="ignore") for name in objects})
    return pyarrow.table(X)
