"""Find the functions of a kernel by the type of its first argument."""

import contextlib
import functools
import hashlib
import inspect
import sys
from types import CodeType
from typing import Any

import numpy as np
from numba.extending import overload

__all__ = ["by_type", "name_by_source"]


def by_type(function: Any) -> Any:
    """Make a function that calls the static method of its name of its first argument's class.

    The function given is that method of the base class, or an empty one with the same arguments.
    A loop is thus compiled together with what the class of a sampler's state, an adversary, a
    problem or a solver's run says; that is found by its type, and nothing has to be passed along.
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


def name_by_source(kind: type) -> None:
    """Put a hash of what a class does into its name, once, unless it belongs to this package.

    Kernels find the static methods of a class by its type, and their machine code is filed under
    the name of the type: code of another source needs another name, or it would run in place of
    the new one. The hash covers the file of the class, its static methods, and the functions and
    constants that these look up, in whatever file. (A change of this package changes the hash that
    all of its machine code is filed under.)
    """
    if kind.__module__.partition(".")[0] == "tombola" or "_named" in vars(kind):
        return
    source = ""
    with contextlib.suppress(OSError, TypeError):  # typed in by hand: there is no file
        source = inspect.getsource(sys.modules[kind.__module__])
    defined = {name: part for base in reversed(kind.__mro__) for name, part in vars(base).items()}
    for part in defined.values():
        if isinstance(part, staticmethod):
            source += _meaning(part.__func__, set())
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    kind.__qualname__ = kind.__name__ = f"{kind.__name__}_{digest}"
    setattr(sys.modules[kind.__module__], kind.__name__, kind)
    kind._named = True  # type: ignore[attr-defined]


def _meaning(thing: Any, seen: set[int]) -> str:
    """Return what a function does, or what a constant is: the same text for the same meaning.

    Functions are followed to the constants and functions that they look up, which numba takes
    for granted when it compiles; not into this package, whose source is hashed as a whole.
    """
    function = getattr(thing, "py_func", thing)
    code = getattr(function, "__code__", function)
    if isinstance(code, CodeType):
        if id(code) in seen or getattr(function, "__module__", "").startswith("tombola."):
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
