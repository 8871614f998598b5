"""Tools for writing kernels: caching, dispatch by type, named records, intrinsics."""

from tombola.compiling import watch  # noqa: F401  # registers itself with numba
from tombola.compiling.caching import entry, kernel
from tombola.compiling.dispatch import by_type, name_by_source
from tombola.compiling.intrinsics import bit_length, multiply_wide, prefetch
from tombola.compiling.parts import check_fit, check_names, leaves, load_parts, saved_parts
from tombola.compiling.records import new_record, side_by_side

__all__ = [
    "bit_length",
    "by_type",
    "check_fit",
    "check_names",
    "entry",
    "kernel",
    "leaves",
    "load_parts",
    "multiply_wide",
    "name_by_source",
    "new_record",
    "prefetch",
    "saved_parts",
    "side_by_side",
]
