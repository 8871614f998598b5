"""Read tables that pyarrow has formats for: Parquet, Arrow and Feather files."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from shlex import quote
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tombola.datasets.base import DataError, Progress
from tombola.datasets.reading import Reading
from tombola.datasets.sources import Source
from tombola.datasets.table import check_type
from tombola.datasets.table_files import TableFile, unique_names

__all__ = ["ArrowFile"]

PIECE = 2**16  # rows that are converted at a time


class ArrowFile(TableFile):
    """A table in a Parquet, Arrow or Feather file."""

    typed = True

    def __init__(self, source: Source, reading: Reading) -> None:
        super().__init__(source, reading)
        self.kind = "Parquet" if source.kind == "parquet" else "Arrow"
        with self._opened() as (schema, _, rows):
            self.rows_at_most = rows or 8 * source.size
            self.types = list(schema.types)
            self.names, self.notes = unique_names(map(str, schema.names))
        if not self.names:
            raise DataError(f"{source.name} has no columns")

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any], int]]:
        """Give the schema, some rows at a time, and the number of rows if it is known."""
        try:
            with self.source.unpacked() as path:
                if self.kind == "Parquet":
                    with parquet.ParquetFile(path, memory_map=False) as file:
                        batches = file.iter_batches(PIECE, use_threads=False)
                        yield file.schema_arrow, batches, file.metadata.num_rows
                    return
                with pa.memory_map(str(path)) as mapped:
                    try:
                        reader = pa.ipc.open_file(mapped)
                        numbers = range(reader.num_record_batches)
                        batches = (reader.get_batch(k) for k in numbers)
                    except pa.ArrowInvalid:
                        mapped.seek(0)
                        batches = reader = pa.ipc.open_stream(mapped)
                    yield reader.schema, batches, 0
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if isinstance(error, PermissionError):
                raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(
                f"{self.source.name} is not a readable {self.kind} file: {reason}"
            ) from None

    def batches(
        self,
        chosen: Sequence[int],
        progress: Progress | None = None,
        text: Collection[int] = (),
        *,
        whole: bool = False,
    ) -> Iterator[Any]:
        """Yield some rows at a time, and report how many there were."""
        done, said = 0, [j for j in chosen if self.names[j] in self.reading.types]
        for j in chosen:
            drop = f" (--drop {quote(self.names[j])} leaves it out)"
            if j not in said:
                check_type(self.types[j], f"{self.names[j]!r} of {self.source.name}", drop)
        with self._opened() as (_, batches, rows):
            for batch in batches:
                batch.validate(full=True)  # a damaged file may hold offsets to anywhere
                yield pa.RecordBatch.from_arrays(
                    [batch.column(j).cast(pa.string()) if j in said else batch.column(j)
                     for j in chosen],
                    list(map(str, chosen)),
                )  # fmt: skip
                done += batch.num_rows
                if progress is not None and rows:
                    progress(done, rows)

    def place(self, row: int) -> str:
        """Return the number of a row."""
        return f"row {row + 1}"
