"""How a kernel is compiled together with the functions it calls.

numba optimises every function, and makes machine code of it, and does both again in each function
that calls it, at every level. But of a function that kernels call, only the code in its callers
runs. So here it is lowered, linked with what it calls, and left at that (`InnerCompiler`); the
kernel that Python calls (`OuterCompiler`) then optimises all of it, once.
"""

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering

__all__ = ["InnerCompiler", "OuterCompiler"]


class InnerLibrary(JITCodeLibrary):
    """Code for callers to include: it is not optimised, and there is no machine code of it."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):
    """Lower a function into an `InnerLibrary`."""

    _name = "inner_lowering"

    def run_pass(self, state: Any) -> bool:
        """Run the pass."""
        target, name = state.targetctx, state.func_id.func_qualname
        library = state.library = InnerLibrary(target.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        found = state.cr
        module = found.fndesc.lookup_module()
        # an object by which numba knows the function, which Python cannot call
        stand_in = _dynfunc.make_function(module, name, "", 0, found.env, (library,))
        target.insert_user_function(stand_in, found.fndesc, [library])
        state.reload_init.extend(library._reload_init)
        state.cr = found._replace(cfunc=stand_in)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class OuterLowering(NativeLowering):
    """Lower and compile a function, and set the environments of the functions in it.

    An environment holds constants that are Python objects, such as those of a `print`.
    """

    _name = "outer_lowering"

    def run_pass(self, state: Any) -> bool:
        """Run the pass."""
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                state.library.codegen.set_env(variable.name, environment)
        return True


class InnerCompiler(CompilerBase):
    """numba's compiler, with a lowering of its own."""

    lowering: type[NativeLowering] = InnerLowering

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (self.lowering if one is NativeLowering else one, about) for one, about in passes.passes
        ]
        passes.finalize()
        return [passes]


class OuterCompiler(InnerCompiler):
    """The same for kernels that Python calls."""

    lowering = OuterLowering
