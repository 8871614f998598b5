"""Read tables by pyarrow: Parquet, Arrow and Feather files, and frames of any library."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Any

from tombola.datasets.base import DataError, Progress
from tombola.datasets.cells import Style, settled
from tombola.datasets.csv_files import ArrowBatch
from tombola.datasets.reading import Reading, unique_names
from tombola.datasets.sources import Source
from tombola.datasets.table import Column, Table, Words
from tombola.datasets.table_files import Cells, TableFile, Typed, new_column

__all__ = ["ArrowFile", "as_table"]

PIECE = 2**16  # rows that are converted at a time


class ArrowFile(TableFile):
    """A table in a Parquet, Arrow or Feather file."""

    def __init__(self, source: Source, reading: Reading) -> None:
        super().__init__(source, reading)
        self.kind = "Parquet" if source.kind == "parquet" else "Arrow"
        with self._opened() as (schema, _, _):
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
        with self._opened() as (_, batches, rows):
            for batch in batches:
                batch.validate(full=True)  # a damaged file may hold offsets to anywhere
                columns = {
                    j: batch.column(j).cast(string()) if self.names[j] in said else batch.column(j)
                    for j in chosen
                }
                yield ArrowBatch(columns, batch.num_rows, self.style)
                done += batch.num_rows
                if progress is not None and rows:
                    progress(done, rows)

    def column(self, j: int) -> Typed | Cells:
        """Return an empty column for what the file holds, or is said to hold."""
        name = self.names[j]
        if name in self.reading.types:
            return Cells(self.style, self.reading.skip_bad_rows, self.reading.types[name])
        drop = f" (--drop {quote(name)} leaves it out)"
        return new_column(self.types[j], self.style, f"{name!r} of {self.source.name}", drop)

    def place(self, row: int) -> str:
        """Return the number of a row."""
        return f"row {row + 1}"


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
        growing = new_column(chunks.type, Style(), repr(name))
        batch = ArrowBatch({0: chunks.combine_chunks()}, len(chunks), Style())
        growing.add(batch, 0)
        column = growing.column()
        if settle and isinstance(column, Words):
            found, form, odd, _ = settled(column)
            if odd is None:
                column = found
                forms |= {name: form} if form else {}
        columns[name] = column
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
