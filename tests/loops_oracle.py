"""Shared by the tests of the loop-nest compiler: real JAX's programs through our compiler, on the
interpreter or as machine code.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import numpy as jnp

from pullback.loops.pipeline import compile_jaxpr
from pullback.loops.run import run_program


def reference(eqn):
    """JAX itself evaluates what has no lowering."""

    def call(*args):
        out = eqn.primitive.bind(*[jnp.asarray(a) for a in args], **eqn.params)
        return out if eqn.primitive.multiple_results else [out]

    return call


def compile_fun(f, *args, **options):
    return compile_jaxpr(jax.make_jaxpr(f)(*args), reference, **options)


def machine(program):
    """A kernel runner that uses the native back end."""
    from pullback.backends.llvm import run_kernel

    return lambda k, bufs, dims, scalars: run_kernel(program.kernels[k], bufs, dims, scalars)


def check(f, *args, rtol=2e-5, atol=2e-6, host=False, kernels=None, native=(False,)):
    """Compiles f, runs it on the interpreter (False in `native`) or as machine code (True), or on
    one after the other, compares with JAX; the program."""
    args = [np.asarray(a) for a in args]
    program = compile_fun(f, *args)
    names = [h.name for h in program.host]
    assert host or not names, f"host steps: {names}"
    leaves = jax.tree_util.tree_leaves(args)
    want = [np.asarray(x) for x in jax.tree_util.tree_leaves(f(*[jnp.asarray(a) for a in args]))]
    for compiled in native:
        got = run_program(program, leaves, kernel=machine(program) if compiled else None)
        compare(got, want, rtol, atol)
    if kernels is not None:
        assert len(program.steps) - 1 == kernels or len(program.kernels) == kernels, program.steps
    return program


def compare(got, want, rtol, atol):
    """Dtypes are equal, and values: those of floats nearly."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype, (g.dtype, w.dtype)
        if w.dtype.kind in "fcV":
            wide = np.complex128 if w.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(g, w)
