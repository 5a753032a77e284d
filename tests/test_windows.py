"""Gradients of extremes over windows beside JAX's, to the bit: ties, padding, what is not a number,
windows that overlap or leave gaps; and what such a gradient becomes. Large windows."""

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
from pullback.loops.ir import Load, Update
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


OPERATIONS = ["max", "min", "add", "bitwise_or", "bitwise_and", "bitwise_xor"]
LARGE = [
    ((11, 11), (1, 1), ((5, 5), (5, 5)), (1, 1)),
    ((7, 9), (2, 3), ((3, 0), (1, 6)), (1, 1)),
    ((5, 6), (1, 2), ((0, 0), (2, 2)), (3, 2)),
    ((48, 1), (1, 1), ((3, 3), (0, 0)), (1, 1)),
    ((44, 45), (1, 1), ((0, 20), (7, 0)), (1, 1)),
]


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("dims", "strides", "padding", "dilation"), LARGE)
@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_large_windows(name, dims, strides, padding, dilation, dtype):
    """One axis after the other, long windows as windows of windows: to the bit, also with an
    initial value that is not neutral."""
    if (name, dtype) == ("add", "bool"):
        return
    x = np.random.default_rng(5).integers(0, 2 if dtype == "bool" else 250, (60, 71)).astype(dtype)

    def answer(engine, init):
        f = getattr(engine.lax, name)
        return engine.lax.reduce_window(
            x, x.dtype.type(init), f, dims, strides, padding, window_dilation=dilation
        )

    for init in (name in ("min", "bitwise_and"), not name.startswith("m")):
        np.testing.assert_array_equal(answer(pb, init), answer(jax, init))


@pytest.mark.parametrize(("dtype", "within"), [("float32", 1e-6), ("bfloat16", 4e-3)])
def test_large_sums_of_floats(dtype, within):
    """Numbers are rounded to their type once, at the end."""
    x = np.random.default_rng(6).random((3, 60, 71)).astype(np.float32)
    x = np.asarray(jnp.asarray(x, dtype))
    got = pb.lax.reduce_window(x, x.dtype.type(0), pb.lax.add, (1, 9, 40), (1, 1, 2), "SAME")
    assert got.dtype == x.dtype
    want = np.zeros((3, 60, 36))
    padded = np.pad(x.astype(np.float64), ((0, 0), (4, 4), (19, 20)))
    for i in range(60):
        for j in range(36):
            want[:, i, j] = padded[:, i : i + 9, 2 * j : 2 * j + 40].sum((1, 2))
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=within)


def test_large_windows_are_few_places():
    """11 x 11 places are read as 11 and 11, a thousand as 33, 3 x 3 as they are."""

    def kernels(x, *dims):
        window = lambda x: pb.lax.reduce_window(x, np.int32(0), pb.lax.max, dims, (1, 1), "SAME")
        found = pipeline.compile_jaxpr(pb.make_jaxpr(window)(x), reference_rule).kernels
        return len(found), sum(isinstance(s, Load) for k in found for s in walk(k.body))

    x = np.ones((300, 200), np.int32)
    count, loads = kernels(x, 11, 11)
    assert (count, loads < 50) == (2, True)
    assert kernels(x, 3, 3)[0] == 1
    count, loads = kernels(np.ones((3, 5000), np.int32), 1, 1000)
    assert (count, loads < 150) == (4, True)


@pytest.mark.parametrize("engine", [pb, jax])
def test_slopes_where_no_dilated_window_fits(engine):
    x = engine.numpy.ones((2, 2))
    for op, init in ((engine.lax.max, -np.inf), (engine.lax.min, np.inf)):
        f = lambda x, op=op, init=init: engine.lax.reduce_window(
            x, np.float32(init), op, (3, 3), (2, 2), ((2, 2), (0, 0)), (2, 1), (2, 2)
        )
        out, tangent = engine.jvp(f, (x,), (x,))
        assert out.shape == tangent.shape == (2, 0)
