"""Dispatch to static methods by the type of the first argument, inside kernels."""

import contextlib
import functools
import hashlib
import inspect
import sys
from types import CodeType
from typing import Any

import numpy as np
from numba.extending import overload

from tombola.compiling.caching import INNER

__all__ = ["by_type", "name_by_source"]


def by_type(function: Any, name: str = "") -> Any:
    """Make a function that calls the static method of its name on its first argument's class.

    The given function is that method of the base class, or an empty one with the same arguments;
    `name` is needed where the method is a kernel of another name.
    A compiled loop thereby includes the methods of a sampler's state, an adversary, a problem or a
    solver's run. They are found by type, so no function has to be passed as an argument.
    """
    name = name or function.__name__

    @functools.wraps(function)
    def call(first: Any, *rest: Any) -> Any:
        return getattr(type(first), name)(first, *rest)

    options: Any = {"forceinline": True, "_nrt": False, "error_model": "numpy", **INNER}

    @overload(call, strict=False, jit_options=options)
    def _(first: Any, *rest: Any) -> Any:
        method = getattr(first.instance_class, name)
        return getattr(method, "py_func", method)  # a kernel may serve as the method, too

    return call


def name_by_source(kind: type) -> None:
    """Append a hash of its source to the name of a class defined outside this package.

    Kernels find the static methods of a class by its type, and their machine code is cached under
    the name of that type. Without the hash, code compiled from an old version of the class would
    run in place of the new version. The hash covers the file of the class, its static methods, and
    the functions and constants that they refer to, in any file. Classes of this package need no
    hash, because any change to the package invalidates all of its machine code.
    """
    if kind.__module__.partition(".")[0] == "tombola" or "_named" in vars(kind):
        return
    source = ""
    with contextlib.suppress(OSError, TypeError):  # defined interactively: there is no file
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
    """Return a text that identifies what a function does, or the value of a constant.

    It includes the constants and functions that a function refers to, because numba compiles them
    in. Functions of this package are left out: its source is hashed as a whole.
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
