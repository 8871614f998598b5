"""Methods inside kernels: ``state.method(...)`` calls the method of the state's own class.

numba knows the fields of a named tuple but not its methods. Here it learns to look a method up on
the class and to compile it into the caller, so that a loop includes the methods of a sampler's
state, an adversary, a problem or a solver's run, without a function passed as an argument.

A class whose methods allocate memory says so: ``allocates = True`` (see `kernel`).
"""

import contextlib
import hashlib
import inspect
import linecache
import sys
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.errors import ForceLiteralArg
from numba.core.imputils import impl_ret_new_ref
from numba.core.ir import Loc
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate
from numba.extending import infer_getattr, lower_builtin

from tombola.compiling.caching import INNER, RuleError

__all__ = ["name_by_source"]

OPTIONS: Any = {"forceinline": True, "error_model": "numpy", **INNER}


@infer_getattr
class Methods(AttributeTemplate):
    """The methods of named tuples, besides their fields."""

    key = types.BaseNamedTuple

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        """Return the type of ``kind.name`` if it is a method, else None."""
        if name in kind.fields or _method(kind.instance_class, name) is None:
            return None
        called = types.Dispatcher(_compiled(kind.instance_class, name))
        _lower(name)

        class Method(AbstractTemplate):
            key = (types.BaseNamedTuple, name)

            def generic(self, arguments: Any, named: Any) -> Any:
                try:
                    signature = called.get_call_type(self.context, (kind, *arguments), named)
                except (ForceLiteralArg, RuleError):
                    raise
                except Exception as error:
                    function = _method(kind.instance_class, name)
                    if function.__module__.partition(".")[0] == "tombola":
                        raise
                    raise RuleError(_explanation(function, error)) from None
                return None if signature is None else signature.as_method()

        return types.BoundFunction(Method, kind)


def _explanation(function: Any, error: Exception) -> str:
    """Return where numba failed in a function that a user wrote, and why."""
    said, _, raised = str(getattr(error, "msg", error)).partition(". Raised from ")
    reason = ""
    for part in filter(None, map(str.strip, said.splitlines())):
        if reason and part.startswith(("There are", "During", "File")):
            break  # candidates, and the callers
        if not part.startswith(("Failed in", "- Resolution")):
            reason = f"{reason} {part}".strip()
    if isinstance(error, KeyError):
        reason = f"there is no field {reason}"
    elif "UndefinedType" in reason:
        named = str(error).partition("NameError: ")[2].partition("\n")[0]
        reason = named or "a name is not defined"
    code = function.__code__
    file, line = code.co_filename, code.co_firstlineno
    place = _place(error)
    if place is not None and place.filename == file:
        line = place.line
    elif raised.startswith(f"{file} ("):
        line = int(raised.removeprefix(f"{file} (").partition(")")[0])
    return (
        f"{function.__qualname__} cannot be compiled: {reason[:400]}\n"
        f'  File "{file}", line {line}: {linecache.getline(file, line).strip()}\n'
        "  (all that numba says about it is in the __context__ of this error)"
    )


def _place(error: Exception) -> Any:
    """Return where the error is, from the error itself or else from what numba was looking at."""
    place, step = getattr(error, "loc", None), error.__traceback__
    while place is None and step is not None:
        found = step.tb_frame.f_locals.get("loc")
        place = found if isinstance(found, Loc) else None
        step = step.tb_next
    return place


def _method(kind: type, name: str) -> Any:
    """Return the function behind a method; None if the class has none of that name."""
    found = getattr(kind, name, None)
    function = getattr(found, "py_func", found)  # a kernel may serve as a method, too
    return function if isinstance(function, FunctionType) else None


def _compiled(kind: type, name: str) -> Any:
    """Return the dispatcher of a method, one for each function."""
    function, allocates = _method(kind, name), getattr(kind, "allocates", False)
    if (function, allocates) not in _DISPATCHERS:
        options: Any = {**OPTIONS, "_nrt": allocates}
        _DISPATCHERS[function, allocates] = njit(**options)(function)
    return _DISPATCHERS[function, allocates]


_DISPATCHERS: dict[Any, Any] = {}
_LOWERED: set[str] = set()


def _lower(name: str) -> None:
    """Tell numba how to call methods of this name."""
    if name in _LOWERED:
        return
    _LOWERED.add(name)

    @lower_builtin((types.BaseNamedTuple, name), types.BaseNamedTuple, types.VarArg(types.Any))
    def _(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        called = types.Dispatcher(_compiled(kind.instance_class, name))
        call = context.get_function(called, signature)
        result = call(builder, arguments)
        context.add_linking_libs(getattr(call, "libs", ()))
        return impl_ret_new_ref(context, builder, signature.return_type, result)


def name_by_source(kind: type) -> None:
    """Append a hash of its source to the name of a class defined outside this package.

    The machine code of kernels that call the methods of a class is cached under the name of the
    class. Without the hash, code compiled from an old version of the class would run in place of
    the new one. The hash covers the file of the class, its methods, and the functions and constants
    that they refer to, in any file. Classes of this package need no hash, because any change to its
    kernels invalidates all of its machine code.
    """
    if kind.__module__.partition(".")[0] == "tombola" or "_named" in vars(kind):
        return
    source = ""
    with contextlib.suppress(OSError, TypeError):  # defined interactively: there is no file
        source = inspect.getsource(sys.modules[kind.__module__])
    defined = {name: part for base in reversed(kind.__mro__) for name, part in vars(base).items()}
    for part in defined.values():
        if isinstance(getattr(part, "py_func", part), FunctionType):
            source += _meaning(part, set())
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
