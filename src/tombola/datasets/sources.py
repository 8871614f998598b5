"""Files as they come: what they hold, unpacked on the way, or from standard input."""

import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, TextIO

from tombola.datasets.base import DataError, Progress

__all__ = ["DEFLATED", "KINDS", "Source", "opened", "stem_of"]

KINDS = {
    ".csv": "csv", ".tsv": "csv", ".txt": "text", ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".npz": "npz", ".npy": "npy",
    ".libsvm": "libsvm", ".svm": "libsvm", ".svmlight": "libsvm",
}  # fmt: skip
SHEETS = (".xlsx", ".xls", ".ods")
PACKED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
MARKS = {  # the first bytes of a file
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",  # a stream
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
}
PACKING = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
BYTE_ORDER = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
PIECE = 2**18  # bytes that are read at a time
DEFLATED = 1100  # what deflate packs into a byte, at most
KNOWN = ".csv, .tsv, .txt, .parquet, .arrow, .npz, .npy or .libsvm, or these with .gz or .zst"


def stem_of(name: str) -> str:
    """Return the name of a file without its suffixes.

    Examples
    --------
    >>> stem_of("folder/prices.csv.gz"), stem_of("v1.2.csv"), stem_of("-")
    ('prices', 'v1.2', 'stdin')
    """
    path = Path("stdin" if name == "-" else name)
    return Path(path.stem).stem if path.suffix.lower() in PACKED else path.stem


class Source:
    """A file: its `kind`, its name and the `stem` of it, and its size unpacked, at most."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name, self.stem = path, name, stem_of(name)
        suffixes = [suffix.lower() for suffix in Path(name).suffixes]
        with path.open("rb") as file:
            head = file.read(8)
        self.packing = PACKED.get(suffixes[-1]) if suffixes else None
        if self.packing:
            suffixes.pop()
        else:
            packings = (how for mark, how in PACKING.items() if head.startswith(mark))
            self.packing = next(packings, None)
        self.size = path.stat().st_size * (DEFLATED if self.packing else 1)
        self.kind = self._kind(suffixes[-1] if suffixes else "")

    def _kind(self, suffix: str) -> str:
        """Return what the file holds, by its suffix or by its first bytes."""
        if suffix in SHEETS:
            raise DataError(f"{self.name} is a spreadsheet: save it as CSV, or as Parquet")
        kind = KINDS.get(suffix)
        if kind is not None and kind != "text":
            return kind
        with self.binary() as file:
            head = file.read(2**16)
        for mark, held in MARKS.items():
            if head.startswith(mark) and (held != "npz" or _holds_arrays(self.path)):
                return held
        words = head.split(b"\n")[0].split()
        if len(words) > 1 and all(word.count(b":") == 1 for word in words[1:]):
            return "libsvm"
        if kind == "text" or b"\0" not in head or head[:2] in BYTE_ORDER:
            return "csv"
        raise DataError(f"{self.name} has no known format: use {KNOWN}")

    @contextmanager
    def binary(self, progress: Progress | None = None) -> Iterator[IO[bytes]]:
        """Open the file, unpacked on the way; progress is reported in bytes of the file."""
        with io.BufferedReader(_Watched(self.path, progress), PIECE) as file:
            if self.packing is None:
                yield file
                return
            import pyarrow as pa

            try:
                stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), self.packing)
                yield io.BufferedReader(stream)
            except OSError as error:
                if error.errno is not None:
                    raise
                raise DataError(f"{self.name} is damaged: {error}") from None

    def encoding(self, given: str | None) -> str:
        """Return the encoding of text: by default UTF-8, or UTF-16 by a byte order mark."""
        if given is not None:
            return given
        with self.binary() as file:
            return BYTE_ORDER.get(file.read(2), "utf-8-sig")

    @contextmanager
    def text(self, encoding: str | None, progress: Progress | None = None) -> Iterator[TextIO]:
        """Open the file as text; by default see `encoding`."""
        encoding = self.encoding(encoding)
        with self.binary(progress) as file:
            try:
                yield io.TextIOWrapper(file, encoding=encoding, newline="")
            except LookupError:
                raise DataError(f"--encoding {encoding} is not the name of an encoding") from None
            except UnicodeError as error:
                reason = getattr(error, "reason", str(error))
                shown = "UTF-8" if encoding == "utf-8-sig" else encoding
                raise DataError(
                    f"{self.name} is not {shown} text: {reason} (--encoding latin-1 reads all "
                    "bytes)"
                ) from None

    @contextmanager
    def unpacked(self) -> Iterator[Path]:
        """Give the path of the file, or of an unpacked copy for the time being."""
        if self.packing is None:
            yield self.path
            return
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "unpacked"
            with self.binary() as file, path.open("wb") as copy:
                shutil.copyfileobj(file, copy, PIECE)
            yield path


@contextmanager
def opened(given: str | os.PathLike[str]) -> Iterator[Source]:
    """Find a file; "-" is standard input, which is copied to a temporary file, like a pipe."""
    path = Path(given)
    standard = os.fspath(given) == "-"
    if standard or path.is_fifo():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "stdin"
            with copy.open("wb") as file:
                pipe = nullcontext(sys.stdin.buffer) if standard else path.open("rb")
                with pipe as given_bytes:
                    shutil.copyfileobj(given_bytes, file, PIECE)
            if copy.stat().st_size == 0:
                raise DataError("standard input is empty")
            yield Source(copy, "stdin")
        return
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file")
    if not path.exists():
        raise DataError(f"there is no file {path}")
    try:
        if path.stat().st_size == 0:
            raise DataError(f"{path.name} is empty")
        yield Source(path, path.name)
    except PermissionError:
        raise DataError(f"{path} cannot be read: permission denied") from None


class _Watched(io.FileIO):
    """A file that reports how much of it has been read."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        super().__init__(path)
        self._size, self._progress = path.stat().st_size, progress

    def readinto(self, buffer: Any) -> int | None:
        read = super().readinto(memoryview(buffer)[:PIECE])
        if read and self._progress is not None:
            self._progress(self.tell(), self._size)
        return read


def _holds_arrays(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".npy") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
