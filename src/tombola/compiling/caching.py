"""Compile kernels with numba, and cache their machine code on disk."""

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar, overload

import numba
import numpy as np
from numba import njit, typeof, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import Compiler
from numba.extending import typeof_impl

UNTRIED = (0, 69)  # numba's releases from here on compile as usual: `inner` uses its internals

InnerCompiler: Any = Compiler
OuterCompiler: Any = Compiler
if numba.version_info.short < UNTRIED:
    from tombola.compiling.inner import InnerCompiler, OuterCompiler

try:
    import fcntl
except ImportError:  # Windows: two processes may compile the same
    fcntl = None  # type: ignore[assignment]

__all__ = ["RuleError", "entry", "kernel", "unlock_all"]


ROOMS = ("compiling", "problems", "samplers", "simulate", "solvers", "state")  # compiled methods


def _source_hash() -> str:
    """Hash every source file of the package that contains compiled code."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        if b"kernel" in text or path.relative_to(package).parts[0] in ROOMS:
            digest.update(text)
    return digest.hexdigest()[:12]


SOURCE_HASH = _source_hash()


class IndexFile(IndexDataCacheFile):
    """The index of a file of machine code; one that cannot be read is empty.

    It names the types of arguments. That of a state class of a user's script holds what this
    package was made of at the time, which another version may not have.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except Exception:
            return {}


class KernelCache(FunctionCache):
    """An on-disk cache of machine code, with one file for each function and signature.

    numba's own cache keeps one index for all signatures of a function, which has three problems.
    The index becomes unreadable once it names a type that cannot be imported, such as the state
    class of a user's script. Two processes that write it at the same time can mix up their code.
    And it is invalidated only by changes to the file of the function, although the machine code
    includes functions of other files. This cache uses separate files, named after the types, and
    invalidates all of them when any kernel of the package changes; those of a function outside the
    package also when its own file changes. A process that finds another one compiling the same
    function waits for its result.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._stamp = SOURCE_HASH
        if function.__module__.partition(".")[0] != "tombola":
            with contextlib.suppress(OSError):  # defined interactively: there is no file
                own = Path(function.__code__.co_filename).read_bytes()
                self._stamp += hashlib.sha256(own).hexdigest()[:12]

    def _use_file_of(self, signature: Any) -> None:
        classes = [getattr(kind, "instance_class", None) for kind in signature]
        modules = [kind.__module__ for kind in classes if kind is not None]
        digest = hashlib.sha256(f"{signature} {modules}".encode()).hexdigest()[:16]
        self._cache_file = IndexFile(
            cache_path=self._cache_path,
            filename_base=f"{self._impl.filename_base}-{digest}",
            source_stamp=self._stamp,
        )

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        self._use_file_of(signature)
        found = super()._load_overload(signature, target_context)
        if found is None:
            # another process may be compiling the same: wait for it, and look again
            self._lock(signature)
            found = super()._load_overload(signature, target_context)
            if found is not None:
                self._unlock(signature)
        return found

    def _save_overload(self, signature: Any, data: Any) -> None:
        self._use_file_of(signature)
        try:
            super()._save_overload(signature, data)
        finally:
            self._unlock(signature)

    def _lock(self, signature: Any) -> None:
        """Wait until no other process compiles this function for this signature."""
        if fcntl is None:
            return
        with contextlib.suppress(OSError):  # a file system without locks
            folder = Path(self._cache_path)
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / f"{self._cache_file._index_name}.lock").open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            LOCKS[self, signature] = lock

    def _unlock(self, signature: Any) -> None:
        lock = LOCKS.pop((self, signature), None)
        if lock is not None:
            lock.close()


LOCKS: dict[Any, IO[str]] = {}  # held while functions are compiled


def unlock_all() -> None:
    """Release the locks of functions that could not be compiled."""
    while LOCKS:
        LOCKS.popitem()[1].close()


class RuleError(TypeError):
    """A method that a user wrote cannot be compiled: where, and why."""


def _shortly(compile_function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that compiles: its errors about a user's rule have no frames of numba."""

    @functools.wraps(compile_function)
    def compile_shortly(*arguments: Any, **named: Any) -> Any:
        try:
            return compile_function(*arguments, **named)
        except RuleError as error:
            unlock_all()
            raise error.with_traceback(None) from None
        except BaseException:
            unlock_all()
            raise

    return compile_shortly


INNER: dict[str, Any] = {  # of functions called by kernels
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": InnerCompiler
}  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(
    *,
    allocates: bool = False,
    inline: bool = False,
    fast: bool = False,
    releases_gil: bool = False,
) -> Callable[[F], F]: ...
def kernel(
    function: Any = None,
    *,
    allocates: bool = False,
    inline: bool = False,
    fast: bool = False,
    releases_gil: bool = False,
) -> Any:
    """Compile a function: with the kernels that call it, and by itself if Python calls it.

    Machine code for calls from Python is cached on disk. That of a kernel includes the functions it
    calls, as `tombola.compiling.inner` describes.

    Parameters
    ----------
    function : callable, optional
        The function; without it, `kernel` returns a decorator.
    allocates : bool, default=False
        Whether the function allocates memory. If not, it is compiled without reference counting:
        passing five arrays to an inner function would otherwise cost ten atomic operations, more
        than the work of most inner functions.
    inline : bool, default=False
        Whether to inline the function into its callers, which avoids the cost of passing a tuple
        of ten arrays to a small function.
    fast : bool, default=False
        Whether sums may be reordered, to add several terms at a time. Their last bits then depend
        on the processor.
    releases_gil : bool, default=False
        Whether other Python threads go on while the function runs, for loops that take long.
    """
    if function is None:
        return functools.partial(
            kernel, allocates=allocates, inline=inline, fast=fast, releases_gil=releases_gil
        )
    # kernels never divide by zero, and a check at each division would prevent vectorisation
    options: dict[str, Any] = {"_nrt": allocates, "error_model": "numpy", "nogil": releases_gil}
    # always explicit: numba would otherwise use the setting of the caller that is compiled first
    options["fastmath"] = {"reassoc", "contract"} if fast else False
    inner = njit(**options, **INNER, forceinline=inline)(function)
    return function if inner is function else Kernel(inner, options)  # numba may be disabled


class Kernel:
    """A function that numba compiles, once for kernels and once for Python, if they call it."""

    def __init__(self, inner: Any, options: dict[str, Any]) -> None:
        self.inner = inner
        self.py_func = inner.py_func
        self._options = options
        functools.update_wrapper(self, inner.py_func)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function from Python."""
        return self.outer(*arguments)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind it to an instance, as a function does: a kernel may serve as a method."""
        return self if instance is None else functools.partial(self, instance)

    @functools.cached_property
    def outer(self) -> Any:
        """The function as Python calls it, a dispatcher of numba."""
        compiled: Any = njit(**self._options, pipeline_class=OuterCompiler)(self.py_func)
        with contextlib.suppress(RuntimeError):  # no writable folder: compile in every process
            compiled._cache = KernelCache(self.py_func)
        compiled._compile_for_args = _shortly(compiled._compile_for_args)
        return compiled


@typeof_impl.register(Kernel)
def _(function: Kernel, context: Any) -> Any:
    return types.Dispatcher(function.inner)


def entry(function: Any, *arguments: Any) -> Callable[..., Any]:
    """Return the machine code of a kernel for arguments of exactly these types.

    Calling it skips numba's dispatch by type, which takes 1 to 4 microseconds if an argument is a
    nested tuple of arrays; the call itself takes about 0.2. Callers must pass arguments of exactly
    these types, array layouts included: nothing checks them.
    """
    if not isinstance(function, Kernel):  # numba is switched off
        return function  # type: ignore[no-any-return]
    key = (function, *map(_kind, arguments))
    if key not in _ENTRIES:
        signature = tuple(typeof(argument) for argument in arguments)
        _shortly(function.outer.compile)(signature)
        _ENTRIES[key] = function.outer.overloads[signature].entry_point
    return _ENTRIES[key]


_ENTRIES: dict[Any, Callable[..., Any]] = {}


def _kind(argument: Any) -> Any:
    """Return what the machine code depends on: numba's `typeof` takes a hundred times longer."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.c_contiguous
    if isinstance(argument, tuple):
        return type(argument), *map(_kind, argument)
    return type(argument)
