"""Tools for writing kernels: caching, methods of states, intrinsics."""

from tombola.compiling import watch  # noqa: F401  # registers itself with numba
from tombola.compiling.caching import RuleError, entry, kernel
from tombola.compiling.dispatch import name_by_source
from tombola.compiling.intrinsics import bit_length, multiply_wide, prefetch

__all__ = [
    "RuleError",
    "bit_length",
    "entry",
    "kernel",
    "multiply_wide",
    "name_by_source",
    "prefetch",
]
