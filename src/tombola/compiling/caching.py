"""Compile kernels with numba, and keep their machine code on disk."""

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit, typeof
from numba.core.caching import FunctionCache, IndexDataCacheFile

__all__ = ["entry", "kernel"]


def _source_hash() -> str:
    """Hash every source file of the package that holds compiled code."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        text = path.read_bytes()
        if b"kernel" in text or b"staticmethod" in text:
            digest.update(text)
    return digest.hexdigest()[:12]


SOURCE_HASH = _source_hash()


class KernelCache(FunctionCache):
    """Keeps machine code on disk: a file for each function and signature.

    numba's own cache keeps one index for all signatures of a function. That index cannot be
    read any more once it names a type that cannot be imported (a board of your own, say), two
    processes that write it at the same time can mix up their code, and it looks at the file of
    a function only to tell whether the code is still good, although that code includes functions
    of other files. So: separate files, named after the types, good for one state of all kernels.
    """

    def _use_file_of(self, signature: Any) -> None:
        classes = [getattr(kind, "instance_class", None) for kind in signature]
        modules = [kind.__module__ for kind in classes if kind is not None]
        digest = hashlib.sha256(f"{signature} {modules}".encode()).hexdigest()[:16]
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=f"{self._impl.filename_base}-{digest}",
            source_stamp=SOURCE_HASH,
        )

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        self._use_file_of(signature)
        return super()._load_overload(signature, target_context)

    def _save_overload(self, signature: Any, data: Any) -> None:
        self._use_file_of(signature)
        super()._save_overload(signature, data)


def kernel(
    function: Any = None, *, allocates: bool = False, inline: bool = False, fast: bool = False
) -> Any:
    """Compile a function and keep its machine code on disk.

    Where it allocates nothing, it is compiled without reference counts: passing five arrays to
    an inner function would otherwise cost ten atomic operations, more than most of our inner
    functions take. With `inline` it becomes part of its callers: passing a tuple of ten arrays
    costs more than a small function, too. With `fast` a sum may be added up in another order,
    several terms at a time, so its last bits depend on the processor.
    """
    if function is None:
        return lambda inner: kernel(inner, allocates=allocates, inline=inline, fast=fast)
    # no kernel divides by zero; a test for it at each division would keep LLVM from vectorising
    options: dict[str, Any] = {"_nrt": allocates, "error_model": "numpy"}
    # said either way: left open, it would be that of whichever caller is compiled first
    options["fastmath"] = {"reassoc", "contract"} if fast else False
    compiled = njit(forceinline=inline, **options)(function)
    if compiled is not function:  # which it is with numba switched off
        with contextlib.suppress(RuntimeError):  # nowhere to write: compile in every process
            compiled._cache = KernelCache(function)
    return compiled


def entry(function: Any, *arguments: Any) -> Callable[..., Any]:
    """Return the machine code of a kernel for arguments of exactly these types.

    Calling it skips numba's dispatch by type, which takes 1 to 4 microseconds where an argument
    is a nested tuple of arrays; the call itself takes about 0.2. It must be called with
    arguments of the same types, array layouts included: nothing checks them.
    """
    if not hasattr(function, "overloads"):  # numba is switched off
        return function  # type: ignore[no-any-return]
    signature = tuple(typeof(argument) for argument in arguments)
    function.compile(signature)
    return function.overloads[signature].entry_point  # type: ignore[no-any-return]
