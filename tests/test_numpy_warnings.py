"""What the functions of NumPy say beside their results: dtypes that are not available, imaginary
parts that are dropped, values that do not fit; also once a call has become native. And integers
beyond every dtype.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp

X = np.arange(5.0, dtype=np.float32)
CALLS = 12  # more than it takes to become native


def _said(f: Callable[[], Any]) -> set[tuple[str, ...]]:
    """The categories of the warnings of each of some calls."""
    found = set()
    for _ in range(CALLS):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            f()
        found.add(tuple(sorted({w.category.__name__ for w in said})))
    return found


@pytest.mark.parametrize("dtype", ("float64", np.float64, np.dtype("float64"), jnp.int64))
def test_dtypes_that_are_not_available(dtype: Any) -> None:
    x = jnp.asarray(X)
    for f in (
        lambda: jnp.zeros(2, dtype), lambda: jnp.array([1], dtype), lambda: x.astype(dtype),
        lambda: jnp.asarray(1, dtype), lambda: jnp.sum(x, dtype=dtype),
        lambda: jnp.linspace(0, 1, 3, dtype=dtype), lambda: jnp.fft.fftfreq(4, dtype=dtype),
        lambda: pullback.nn.one_hot(1, 5, dtype=dtype), lambda: pullback.lax.full((2,), 1, dtype),
    ):  # fmt: skip
        assert _said(f) == {("UserWarning",)}
    for f in (lambda: jnp.zeros(2, float), lambda: jnp.asarray(X, jnp.float32)):
        assert _said(f) == {()}


def test_asarray_and_scalar_types_name_themselves() -> None:
    for f in (lambda: jnp.asarray(1, "int64"), lambda: jnp.int64(1), lambda: jnp.int64([1])):
        with pytest.warns(UserWarning, match="int64 requested in asarray is not available"):
            f()


@pytest.mark.parametrize("name", ("sum", "prod", "mean"))
def test_reductions_that_drop_imaginary_parts(name: str) -> None:
    z = jnp.ones((2, 2), "complex64")
    assert _said(lambda: getattr(jnp, name)(z, dtype="float32")) == {("ComplexWarning",)}
    assert _said(lambda: getattr(jnp, name)(z)) == {()}


def test_ranges_that_drop_imaginary_parts() -> None:
    for f in (
        lambda k: jnp.linspace(0, 1j, 7 + k, dtype="float32"),
        lambda k: jnp.logspace(0, 1j, 7 + k, dtype="float32"),
        lambda k: jnp.geomspace(1, 2j, 7 + k, dtype="float32"),
    ):
        with pytest.warns(DeprecationWarning, match="complex to real dtypes will soon raise"):
            f(int(np.random.default_rng().integers(90)))


def test_updates_of_other_dtypes() -> None:
    """`at` of functions computes in the common dtype, as `x.at[...]` does."""
    for name, want in (("add", 3), ("multiply", 3), ("subtract", 0)):
        with pytest.warns(FutureWarning, match="jax_numpy_dtype_promotion=standard"):
            out = getattr(jnp, name).at(jnp.array([2, 5]), 0, 1.5, inplace=False)
        assert (out.dtype, out.tolist()) == (np.dtype("int32"), [want, 5])
    bools = jnp.array([True, False])
    with pytest.warns(FutureWarning, match="int32 to dtype=bool"):
        assert jnp.subtract.at(bools, 0, 1, inplace=False).tolist() == [False, False]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.add.at(bools, 1, 2, inplace=False).tolist() == [True, True]
    with pytest.raises(TypeError, match="bool"):
        jnp.subtract.at(bools, 0, True, inplace=False)
    placed = _said(lambda: jnp.place(X, X > 1, jnp.array([1j]), inplace=False))
    assert placed == {("ComplexWarning", "FutureWarning")}
    for args in ((jnp.negative, X, 0, 1), (jnp.add, X, 0)):
        with pytest.raises(TypeError, match="positional argument"):
            args[0].at(*args[1:], inplace=False)


@pytest.mark.parametrize("i", (2**31, 2**32, 2**63, 2**70, -(2**31) - 1))
def test_positions_beyond_every_dtype(i: int) -> None:
    x = jnp.asarray(X)
    assert np.isnan(x.at[i].get(mode="fill"))
    assert x.at[i].get(mode="clip") == (4 if i > 0 else 0)
    for y in (x.at[i].set(9.0), pullback.jit(lambda x: x.at[i].add(9.0))(x)):
        assert y.tolist() == X.tolist()
    with pytest.raises(OverflowError):
        x[i]


@pytest.mark.parametrize("i", (2**31, 2**63, -(2**63) - 1, 2**70))
def test_arrays_like_integers_beyond_every_dtype(i: int) -> None:
    for f in (jnp.zeros_like, jnp.ones_like, jnp.empty_like):
        x = f(i)
        assert (x.dtype, x.weak_type, x.shape) == (np.dtype("int32"), True, ())
        assert f(i, dtype="int8").dtype == np.int8
    assert pullback.lax.full_like(i, 2) == 2 and not jnp.iscomplexobj(i)


def test_steps_of_nothing_are_numbers() -> None:
    for num, endpoint in ((0, True), (0, False), (1, True)):
        _, step = jnp.linspace(jnp.zeros((2, 3)), 1, num, endpoint, retstep=True)
        assert step.shape == () and np.isnan(step)
    assert jnp.linspace(jnp.zeros((2, 3)), 1, 1, False, retstep=True)[1].shape == (2, 3)


def test_kaiser_takes_integers_as_arrays_are_made_of_them() -> None:
    for _ in range(CALLS):
        assert jnp.kaiser(5, np.array(2**40)).tolist() == [1.0] * 5  # int32: 0


def test_repetitions_may_be_arrays() -> None:
    for reps in (jnp.array([2]), np.array(2), jnp.array(2), range(2, 3)):
        assert jnp.tile(X, reps).tolist() == [*X, *X]
    with pytest.raises(TypeError):
        jnp.tile(X, jnp.array([2.0]))


def test_strict_promotion_refuses_conditions_that_are_numbers() -> None:
    with pullback.numpy_dtype_promotion("strict"):
        with pytest.raises(pullback.errors.TypePromotionError, match=r"'bool', 'int32'"):
            jnp.select([jnp.arange(3)], [jnp.arange(3.0)], 0)
        assert jnp.select([jnp.arange(3) > 1], [jnp.arange(3.0)], 0).tolist() == [0, 0, 2]


def test_initializers_and_lax_argmax_say_which_dtypes_are_not_available() -> None:
    key, initializers = pullback.random.key(0), pullback.nn.initializers
    for init in (initializers.zeros, initializers.constant(1.0), initializers.normal()):
        with pytest.warns(UserWarning, match="dtype float64 requested in"):
            init(key, (2,), "float64")
        assert _said(lambda init=init: init(key, (2,))) == {()}  # type: ignore[misc]
    with pytest.warns(UserWarning, match="int64 requested in argmax is not available"):
        pullback.lax.argmax(jnp.asarray(X), 0, "int64")


def test_rounding_to_more_decimals_than_a_float_has_says_nothing() -> None:
    assert _said(lambda: jnp.round(jnp.asarray(X), 1000)) == {()}
