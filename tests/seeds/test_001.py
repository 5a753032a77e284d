"""The examples of seed 001: symbolic shapes in exported functions, and the errors users meet."""

from __future__ import annotations

import importlib
from functools import partial

import numpy as np
import pytest

import pullback as jax
import pullback.numpy as jnp
from pullback import jit, lax

from seedlib import refuses, shows

TOP3 = """Array([[ 9,  8,  7],
                 [19, 18, 17],
                 [29, 28, 27],
                 [39, 38, 37]], dtype=int32)"""


@pytest.fixture
def export():
    return importlib.import_module("pullback.export")


def my_top_k(k, x):  # x: i32[4, 10], k <= 10
    return lax.top_k(x, k)[0]  # : i32[4, k]


def my_top_k_with_dimensions(dimensions, x):  # dimensions: i32[0, k], x: i32[4, 10]
    return my_top_k(dimensions.shape[1], x)


@pytest.fixture
def x():
    return np.arange(40, dtype=np.int32).reshape((4, 10))


def test_top_k_itself(x):
    shows(jax.jit(my_top_k, static_argnums=0)(3, x), TOP3)


def test_export_with_static_k(export, x):
    exported = export.export(jax.jit(my_top_k, static_argnums=0))(3, x)
    shows(exported.in_avals[0], "ShapedArray(int32[4,10])")
    shows(exported.out_avals[0], "ShapedArray(int32[4,3])")
    shows(exported.call(x), TOP3)


def test_export_with_an_unbound_symbol(export, x):
    (k,) = export.symbolic_shape("k", constraints=["k <= 10"])
    with refuses(
        Exception, "dimension variable 'k'", "not appearing in the shapes of the function arguments"
    ):
        export.export(jax.jit(my_top_k, static_argnums=0))(k, x)


def test_export_with_the_symbol_in_an_empty_argument(export, x):
    (k,) = export.symbolic_shape("k", constraints=["k <= 10"])
    shape = jax.ShapeDtypeStruct((0, k), dtype=np.int32)
    exported = export.export(jax.jit(my_top_k_with_dimensions))(shape, x)
    shows(exported.in_avals, "(ShapedArray(int32[0,k]), ShapedArray(int32[4,10]))")
    shows(exported.out_avals[0], "ShapedArray(int32[4,k])")
    shows(exported.call(np.zeros((0, 3), dtype=np.int32), x), TOP3)


def test_export_cannot_solve_a_square(export):
    (a,) = export.symbolic_shape("a")
    with refuses(
        ValueError, "Cannot solve for values of dimension variables {'a'}", "linear", "a^2"
    ):
        export.export(jax.jit(lambda x: x.shape[0]))(jax.ShapeDtypeStruct((a * a,), dtype=np.int32))


def test_exported_shape_assertion(export):
    shape = jax.ShapeDtypeStruct(export.symbolic_shape("b, b, 2*d"), dtype=np.int32)
    exported = export.export(jax.jit(lambda x: x))(shape)  # x: i32[b, b, 2*d]
    with refuses(
        ValueError, "do not match the polymorphic shapes", "Division had remainder 1", "'d'"
    ):
        exported.call(np.ones((3, 3, 5), dtype=np.int32))


def test_export_inconclusive_division(export):
    (b,) = export.symbolic_shape("b")
    with refuses(Exception, "Cannot divide evenly the sizes of shapes (b,) and (2, -1)"):
        export.export(jax.jit(lambda x: x.reshape((2, -1))))(
            jax.ShapeDtypeStruct((b,), dtype=np.int32)
        )


@pytest.mark.parametrize("multiple", [True, False], ids=["4b", "b56"])
def test_export_conclusive_division(export, multiple):
    (b,) = export.symbolic_shape("b")
    shape = (4 * b,) if multiple else (b, 5, 6)
    shape = jax.ShapeDtypeStruct(shape, dtype=np.int32)
    exported = export.export(jax.jit(lambda x: x.reshape((2, -1))))(shape)
    expected = "2*b" if multiple else "15*b"
    shows(exported.out_avals, f"(ShapedArray(int32[2,{expected}]),)")


# --- ConcretizationTypeError ----------------------------------------------------------------------


def test_traced_axis():
    @jit
    def func(x, axis):
        return x.min(axis)

    with refuses(jax.errors.ConcretizationTypeError, "concrete value is expected", "axis"):
        func(jnp.arange(4), 0)


def test_static_axis():
    @partial(jit, static_argnums=1)
    def func(x, axis):
        return x.min(axis)

    shows(func(jnp.arange(4), 0), "Array(0, dtype=int32)")


def test_where_with_a_traced_size():
    @jit
    def func(x):
        return jnp.where(x < 0)

    with refuses(jax.errors.ConcretizationTypeError, "concrete value is expected", "jnp.nonzero"):
        func(jnp.arange(4))


def test_indices_from_where():
    @jit
    def func(x):
        indices = jnp.where(x > 1)
        return x[indices].sum()

    with refuses(jax.errors.ConcretizationTypeError, "concrete value is expected", "jnp.nonzero"):
        func(jnp.arange(4))


def test_where_with_three_arguments():
    @jit
    def func(x):
        return jnp.where(x > 1, x, 0).sum()

    shows(func(jnp.arange(4)), "Array(5, dtype=int32)")


# --- KeyReuseError --------------------------------------------------------------------------------


def test_key_reuse():
    with refuses(jax.errors.KeyReuseError, "Previously-consumed key"), jax.debug_key_reuse(True):
        key = jax.random.key(0)
        jax.random.uniform(key)
        jax.random.uniform(key)


# --- NonConcreteBooleanIndexError -----------------------------------------------------------------


def test_positive_values():
    @jax.jit
    def positive_values(x):
        return x[x > 0]

    with refuses(jax.errors.NonConcreteBooleanIndexError, "oolean ind", "concrete", "bool[10]"):
        positive_values(jnp.arange(-5, 5))


def test_sum_of_positive_by_index():
    @jax.jit
    def sum_of_positive(x):
        return x[x > 0].sum()

    with refuses(jax.errors.NonConcreteBooleanIndexError, "oolean ind", "concrete", "bool[10]"):
        sum_of_positive(jnp.arange(-5, 5))


def test_sum_of_positive_by_where():
    @jax.jit
    def sum_of_positive(x):
        return jnp.where(x > 0, x, 0).sum()

    shows(sum_of_positive(jnp.arange(-5, 5)), "Array(10, dtype=int32)")


def test_manual_clip_by_mask():
    """JAX refuses it; the result's shape is known all the same, so that doing it is right too."""

    @jax.jit
    def manual_clip(x):
        return x.at[x < 0].set(0)

    try:
        clipped = manual_clip(jnp.arange(-2, 2))
    except jax.errors.NonConcreteBooleanIndexError as error:
        assert "bool[4]" in str(error)
    else:
        shows(clipped, "Array([0, 0, 0, 1], dtype=int32)")


def test_manual_clip_by_where():
    @jax.jit
    def manual_clip(x):
        return jnp.where(x < 0, 0, x)

    shows(manual_clip(jnp.arange(-2, 2)), "Array([0, 0, 0, 1], dtype=int32)")


# --- TracerArrayConversionError -------------------------------------------------------------------


def test_numpy_function_on_a_tracer():
    @jit
    def func(x):
        return np.sin(x)

    with refuses(jax.errors.TracerArrayConversionError, "__array__()", "traced array", "int32[4]"):
        func(np.arange(4))


def test_jnp_function_on_a_tracer():
    @jit
    def func(x):
        return jnp.sin(x)

    shows(func(jnp.arange(4)), "Array([0., 0.84147096, 0.9092974, 0.14112], dtype=float32)")


def test_tracer_indexes_numpy():
    x = np.arange(10)

    @jit
    def func(i):
        return x[i]

    with refuses(jax.errors.TracerArrayConversionError, "__array__()", "traced array", "int32[]"):
        func(0)


def test_tracer_indexes_an_array():
    x = np.arange(10)

    @jit
    def func(i):
        return jnp.asarray(x)[i]

    shows(func(0), "Array(0, dtype=int32)")


def test_static_index_into_numpy():
    x = np.arange(10)

    @partial(jit, static_argnums=(0,))
    def func(i):
        return x[i]

    shows(func(0), "Array(0, dtype=int32)")
