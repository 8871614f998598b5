"""Read tables by pyarrow: Parquet, Arrow and Feather files."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tombola.datasets.base import DataError, Progress
from tombola.datasets.cells import WordList
from tombola.datasets.csv_files import settle_column
from tombola.datasets.reading import Loaded, Reading, unique_names
from tombola.datasets.sources import Source
from tombola.datasets.table import MOMENT, Column, Table

__all__ = ["ArrowFile"]

PIECE = 2**16  # rows that are converted at a time


class ArrowFile:
    """A table in a Parquet, Arrow or Feather file.

    Attributes
    ----------
    names : list of str
    notes : tuple of str
    """

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.kind = "Parquet" if source.kind == "parquet" else "Arrow"
        with self._batches(None) as (schema, _):
            self.types = list(schema.types)
            self.names, self.notes = unique_names([str(name) for name in schema.names])
        if not self.names:
            raise DataError(f"{source.name} has no columns")

    @contextmanager
    def _batches(self, progress: Progress | None) -> Iterator[tuple[Any, Iterator[Any]]]:
        """Give the schema, and some rows at a time."""
        import pyarrow
        from pyarrow import parquet

        try:
            with self.source.unpacked() as path:
                if self.kind == "Parquet":
                    with parquet.ParquetFile(path, memory_map=False) as file:
                        rows = file.metadata.num_rows
                        batches = _reported(file.iter_batches(PIECE), rows, progress)
                        yield file.schema_arrow, batches
                    return
                with pyarrow.memory_map(str(path)) as mapped:
                    try:
                        reader = pyarrow.ipc.open_file(mapped)
                        number = reader.num_record_batches
                        batches = (reader.get_batch(k) for k in range(number))
                    except pyarrow.ArrowInvalid:
                        mapped.seek(0)
                        reader, number = pyarrow.ipc.open_stream(mapped), 0
                        batches = iter(reader)
                    yield reader.schema, _reported(batches, 0, None)
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, PermissionError):
                raise
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(
                f"{self.source.name} is not a readable {self.kind} file: {reason}"
            ) from None

    def load(self, progress: Progress | None = None) -> Loaded:
        """Return all columns that are not dropped."""
        chosen = [j for j, name in enumerate(self.names) if name not in self.reading.drop]
        columns = {j: self._new_column(j) for j in chosen}
        with self._batches(progress) as (_, batches):
            for batch in batches:
                for j, column in columns.items():
                    column.add(batch.column(j))
        loaded = Loaded({}, lambda row: f"row {row + 1}", notes=list(self.notes))
        for j in chosen:
            name, column = self.names[j], columns.pop(j).column()
            if not isinstance(column, np.ndarray):
                column = settle_column(loaded, name, column, self.reading, self.source.name)
            loaded.columns[name] = column
        return loaded

    def pieces(self, kinds: dict[str, str], progress: Progress | None = None) -> Iterator[Table]:
        """Yield some rows at a time, of some columns."""
        chosen = [j for j, name in enumerate(self.names) if name in kinds]
        start = 0
        with self._batches(progress) as (_, batches):
            for batch in batches:
                columns: dict[str, Column] = {}
                for j in chosen:
                    column = self._new_column(j)
                    column.add(batch.column(j))
                    columns[self.names[j]] = column.column()

                def place(row: int, start: int = start) -> str:
                    return f"row {start + row + 1} of {self.source.name}"

                start += batch.num_rows
                if batch.num_rows:
                    yield Table(columns, place=place)

    def _new_column(self, j: int) -> Any:
        """Return an empty column for what the file holds."""
        from pyarrow import types

        kind = self.types[j]
        if types.is_dictionary(kind):
            kind = kind.value_type
        texts = (types.is_string, types.is_large_string, types.is_string_view)
        if any(is_text(kind) for is_text in texts):
            return _Text(self.reading)
        if types.is_timestamp(kind) or types.is_date(kind):
            return _Dates()
        numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean,
                   types.is_null)  # fmt: skip
        if any(is_number(kind) for is_number in numeric):
            return _Numbers()
        if types.is_duration(kind):
            return _Durations()
        raise DataError(
            f"the column {self.names[j]!r} of {self.source.name} holds {kind}: only numbers, "
            f"booleans, dates and text can be used (--drop {self.names[j]} leaves it out)"
        )


class _Numbers:
    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, values: Any) -> None:
        self._parts.append(self._converted(_plain(values)))

    def _converted(self, values: Any) -> Any:
        import pyarrow
        from pyarrow import types

        if types.is_null(values.type):
            return np.full(len(values), np.nan)
        if types.is_boolean(values.type):
            values = values.cast(pyarrow.int8())
        numbers = values.cast(pyarrow.float64(), safe=False)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)

    def column(self) -> Any:
        whole = np.concatenate(self._parts) if self._parts else np.zeros(0)
        self._parts.clear()
        return whole


class _Dates(_Numbers):
    def _converted(self, values: Any) -> Any:
        import pyarrow
        from pyarrow import types

        zone = getattr(values.type, "tz", None)
        if types.is_date(values.type) or zone is None:
            values = values.cast(pyarrow.timestamp("us"), safe=False)
        else:  # kept in UTC
            values = values.cast(pyarrow.timestamp("us", zone), safe=False)
        return values.to_numpy(zero_copy_only=False).astype(MOMENT)


class _Durations(_Numbers):
    """Durations become days."""

    def _converted(self, values: Any) -> Any:
        import pyarrow

        lengths = values.cast(pyarrow.duration("us"), safe=False)
        return lengths.to_numpy(zero_copy_only=False) / np.timedelta64(1, "D")


class _Text:
    def __init__(self, reading: Reading) -> None:
        self._words = WordList(reading.style)

    def add(self, values: Any) -> None:
        from pyarrow import types

        if not types.is_dictionary(values.type):
            values = values.dictionary_encode()
        codes = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        self._words.add_coded(codes, values.dictionary.to_pylist())

    def column(self) -> Any:
        return self._words.column()


def _plain(values: Any) -> Any:
    from pyarrow import types

    return values.dictionary_decode() if types.is_dictionary(values.type) else values


def _reported(batches: Iterator[Any], rows: int, progress: Progress | None) -> Iterator[Any]:
    """Yield batches, and report how many rows there were."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        if progress is not None and rows:
            progress(done, rows)
