"""Three processor instructions that numba does not provide.

Each is a plain Python function, which runs when numba is disabled, with a rule by which numba
compiles it to a single instruction.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable

__all__ = ["bit_length", "multiply_wide", "prefetch"]


def multiply_wide(a: Any, b: Any) -> Any:
    """Return the high and the low 64 bits of the 128-bit product of two uint64.

    >>> [int(half) for half in multiply_wide(2**63, 6)]
    [3, 0]
    """
    product = int(a) * int(b)
    return np.uint64(product >> 64), np.uint64(product & 0xFFFF_FFFF_FFFF_FFFF)


def bit_length(a: Any) -> int:
    """Return the bit length of a non-negative int64: 0 for 0, 3 for 4 to 7.

    >>> [bit_length(a) for a in (0, 1, 4, 7, 8)]
    [0, 1, 3, 3, 4]
    """
    return int(a).bit_length()


def prefetch(array: Any, i: Any) -> None:
    """Prefetch ``array[i]`` into the cache; this has no other effect."""


@type_callable(multiply_wide)
def _(context: Any) -> Any:
    def typed(a: Any, b: Any) -> Any:
        return types.UniTuple(types.uint64, 2)

    return typed


@lower_builtin(multiply_wide, types.Integer, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    wide = ir.IntType(128)
    a, b = (
        builder.zext(context.cast(builder, value, kind, types.uint64), wide)
        for value, kind in zip(args, signature.args, strict=True)
    )
    product = builder.mul(a, b)
    high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
    low = builder.trunc(product, ir.IntType(64))
    return context.make_tuple(builder, signature.return_type, (high, low))


@type_callable(bit_length)
def _(context: Any) -> Any:
    def typed(a: Any) -> Any:
        return types.int64

    return typed


@lower_builtin(bit_length, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    value = context.cast(builder, args[0], signature.args[0], types.int64)
    zeros = builder.ctlz(value, ir.Constant(ir.IntType(1), 0))
    return builder.sub(ir.Constant(ir.IntType(64), 64), zeros)


@type_callable(prefetch)
def _(context: Any) -> Any:
    def typed(array: Any, i: Any) -> Any:
        return types.void

    return typed


@lower_builtin(prefetch, types.Array, types.Integer)
def _(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, index = signature.args
    view = context.make_array(kind)(context, builder, args[0])
    place = context.cast(builder, args[1], index, types.intp)
    element = cgutils.get_item_pointer(context, builder, kind, view, [place])
    address = builder.bitcast(element, ir.IntType(8).as_pointer())
    flag = ir.IntType(32)
    takes = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
    instruction = builder.module.declare_intrinsic("llvm.prefetch", [address.type], takes)
    # for reading (0), into all cache levels (3), data and not instructions (1)
    builder.call(instruction, [address, flag(0), flag(3), flag(1)])
    return context.get_dummy_value()
