"""Gradients of extremes over windows beside JAX's, to the bit: ties, padding, what is not a number,
windows that overlap or leave gaps; and what such a gradient becomes."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import numpy as jax_numpy

import pullback as pb
from pullback import numpy as jnp
from pullback.backends.llvm.analysis import walk
from pullback.backends.reference import RULES
from pullback.loops import pipeline
from pullback.loops.ir import Update
from pullback.runtime.executable import reference_rule

assert RULES
CASES = {
    "side by side": ((2, 9, 11, 5), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "overlapping": ((2, 9, 11, 5), (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
    "features first": ((2, 5, 9, 40), (1, 1, 3, 2), (1, 1, 2, 3), "SAME"),
    "steps of one": ((2, 3, 9, 20), (1, 1, 3, 3), (1, 1, 1, 1), "SAME"),
    "gaps": ((2, 9, 40, 3), (1, 3, 5, 2), (1, 4, 2, 1), ((0, 0), (2, 3), (4, 1), (1, 0))),
    "one axis": ((30,), (4,), (3,), ((2, 2),)),
    "no windows": ((2, 3, 4, 5), (1, 9, 1, 1), (1, 1, 1, 1), "VALID"),
    "nothing": ((0, 3, 4, 5), (1, 2, 1, 1), (1, 1, 1, 1), "VALID"),
}


def gradient(module, np_, x, window, steps, padding):
    def f(x):
        high = module.lax.reduce_window(x, -np_.inf, module.lax.max, window, steps, padding)
        return (high * (1 + np_.arange(high.size, dtype=x.dtype).reshape(high.shape) % 7)).sum()

    return module.grad(f)(x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_maxima_over_windows(name, dtype):
    shape, *window = CASES[name]
    rng = np.random.default_rng(5)
    x = (2 * rng.standard_normal(shape)).round()
    x[rng.random(shape) < 0.05] = np.nan
    x[rng.random(shape) < 0.1] = -np.inf
    given = np.asarray(jax_numpy.asarray(x, dtype))
    want = jax.jit(lambda x: gradient(jax, jax_numpy, x, *window))(given)
    got = pb.jit(lambda x: gradient(pb, jnp, x, *window))(given)
    want, got = (np.asarray(v) for v in (want, got))
    assert want.dtype == got.dtype
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def test_elements_collect_what_has_selected_them():
    """No window adds to an element in memory: all threads and lanes can work."""
    jaxpr = pb.make_jaxpr(lambda x: gradient(pb, jnp, x, *CASES["overlapping"][1:]))(
        np.zeros(CASES["overlapping"][0], np.float32)
    )
    compiled = pipeline.compile_jaxpr(jaxpr, reference_rule)
    assert not any(isinstance(s, Update) for k in compiled.kernels for s in walk(k.body))
