"""Three processor instructions that numba does not provide.

Each is a plain Python function, which runs when numba is disabled, with an overload that numba
compiles to a single instruction.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

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
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        element = cgutils.get_item_pointer(context, builder, kind, view, [args[1]])
        address = builder.bitcast(element, ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        takes = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [address.type], takes)
        # for reading (0), into all cache levels (3), data and not instructions (1)
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
