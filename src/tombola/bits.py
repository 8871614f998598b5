"""What the kernels are made with: a decorator, and three instructions that numba lacks.

Each instruction is a plain Python function, which is what runs when numba is switched off, with an
overload that numba compiles to the single instruction.
"""

import contextlib
import functools
import hashlib
import inspect
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.extending import intrinsic, overload

__all__ = [
    "bit_length",
    "by_type",
    "kernel",
    "multiply_wide",
    "name_by_source",
    "name_if_foreign",
    "prefetch",
]


def _source_hash() -> str:
    """Hash every source file of the package that holds compiled code."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_bytes()
        if b"kernel" in text:
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
    if fast:
        options["fastmath"] = {"reassoc", "contract"}
    compiled = njit(forceinline=inline, **options)(function)
    if compiled is not function:  # which it is with numba switched off
        with contextlib.suppress(RuntimeError):  # nowhere to write: compile in every process
            compiled._cache = KernelCache(function)
    return compiled


def by_type(function: Any) -> Any:
    """Make a function that calls the static method of its name of its first argument's class.

    So a loop is compiled together with what the class of a board, an adversary, a problem or a
    solver's state says, and that is found by its type alone: nothing has to be passed along.
    """
    name = function.__name__

    @functools.wraps(function)
    def call(first: Any, *rest: Any) -> Any:
        return getattr(type(first), name)(first, *rest)

    options: Any = {"forceinline": True, "_nrt": False, "error_model": "numpy"}

    @overload(call, strict=False, jit_options=options)
    def _(first: Any, *rest: Any) -> Any:
        return getattr(first.instance_class, name)

    return call


def name_by_source(kind: type, *functions: Any) -> None:
    """Put a hash of its functions, of what they look up, and of their file, into a class's name.

    Kernels find the functions of a board or an adversary by its type, and their machine code is
    filed under the name of the type: code of another source needs another name, or it would run
    in place of the new one.
    """
    source = ""
    with contextlib.suppress(OSError, TypeError):  # typed in by hand: there is no file
        source = inspect.getsource(sys.modules[kind.__module__])
    for function in functions:
        source += _meaning(function, set())
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    kind.__qualname__ = kind.__name__ = f"{kind.__name__}_{digest}"
    setattr(sys.modules[kind.__module__], kind.__name__, kind)


def _meaning(thing: Any, seen: set[int]) -> str:
    """Return what a function does, or what a constant is: the same text for the same meaning.

    Functions are followed to the constants and functions that they look up, which numba takes
    for granted when it compiles; not into this package, whose source is hashed as a whole.
    """
    function = getattr(thing, "py_func", thing)
    code = getattr(function, "__code__", function)
    if isinstance(code, CodeType):
        if id(code) in seen or getattr(function, "__module__", "").startswith(f"{__package__}."):
            return ""
        seen.add(id(code))
        found = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames)]
        found += [_meaning(constant, seen) for constant in code.co_consts]
        around = getattr(function, "__globals__", {})
        found += [_meaning(around[name], seen) for name in code.co_names if name in around]
        cells = getattr(function, "__closure__", None) or ()
        found += [_meaning(cell.cell_contents, seen) for cell in cells]
        return " ".join(found)
    if isinstance(thing, (tuple, frozenset)):
        parts = [_meaning(part, seen) for part in thing]
        return repr(parts if isinstance(thing, tuple) else sorted(parts))
    if isinstance(thing, np.ndarray):
        return f"{thing.dtype} {thing.shape} {thing.tobytes().hex()}"
    plain = isinstance(thing, (bool, int, float, complex, str, bytes, np.generic, type(None)))
    return repr(thing) if plain else type(thing).__name__


def name_if_foreign(kind: type) -> None:
    """Do the same for a class of somebody else, once; those of this package are told apart."""
    ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    if not ours and "_named" not in vars(kind):
        own = [part.__func__ for part in vars(kind).values() if isinstance(part, staticmethod)]
        name_by_source(kind, *own)
        kind._named = True  # type: ignore[attr-defined]


def multiply_wide(a: Any, b: Any) -> Any:
    """Return the high and the low 64 bits of the 128-bit product of two uint64.

    >>> [int(half) for half in multiply_wide(2**63, 6)]
    [3, 0]
    """
    product = int(a) * int(b)
    return np.uint64(product >> 64), np.uint64(product & 0xFFFF_FFFF_FFFF_FFFF)


def bit_length(a: Any) -> int:
    """Return the number of bits of a non-negative int64: 0 for 0, 3 for 4 to 7.

    >>> [bit_length(a) for a in (0, 1, 4, 7, 8)]
    [0, 1, 3, 3, 4]
    """
    return int(a).bit_length()


def prefetch(array: Any, i: Any) -> None:
    """Ask the memory system to bring ``array[i]`` closer; changes nothing else."""


@intrinsic
def _multiply_wide(typingctx: Any, a: Any, b: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
        low = builder.trunc(product, ir.IntType(64))
        return context.make_tuple(builder, signature.return_type, (high, low))

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), codegen


@intrinsic
def _bit_length(typingctx: Any, a: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(ir.IntType(64), 64), zeros)

    return types.int64(types.int64), codegen


@intrinsic
def _prefetch(typingctx: Any, array: Any, i: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        # read and soon again read (0), keep in all caches (3), data and not code (1)
        builder.call(instruction, [address, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@overload(multiply_wide, strict=False)
def _(a: Any, b: Any) -> Any:
    return lambda a, b: _multiply_wide(np.uint64(a), np.uint64(b))


@overload(bit_length, strict=False)
def _(a: Any) -> Any:
    return lambda a: _bit_length(np.int64(a))


@overload(prefetch, strict=False)
def _(array: Any, i: Any) -> Any:
    return lambda array, i: _prefetch(array, i)
