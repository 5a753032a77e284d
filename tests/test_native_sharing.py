"""Programs that differ in lengths or in coefficients share kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback import jit, make_jaxpr, numpy as jnp
from pullback.backends import llvm
from pullback.loops.show import canonical
from pullback.runtime.executable import NativeExecutable

F = np.float32


def texts(f: Callable[..., Any], *args: Any) -> tuple[str, ...]:
    """What a program's kernels are, without their constants and extents."""
    program = NativeExecutable(make_jaxpr(f)(*args)).program
    return tuple(canonical(k) for k in program.kernels)


@pytest.mark.usefixtures("at_rest")
def test_a_hundred_lengths() -> None:
    def f(x: Any) -> Any:
        return (jnp.sin(x) - x.mean()).sum()

    compiled = jit(f)
    compiled(np.ones(17, F))
    before = llvm.kernel_compile_count()
    for n in range(17, 1017, 10):
        x = np.linspace(0, 1, n, dtype=F)
        want = (np.sin(x) - x.mean(dtype=np.float64)).sum(dtype=np.float64)
        np.testing.assert_allclose(compiled(x), want, rtol=1e-3, atol=1e-3)
    assert llvm.kernel_compile_count() == before
    assert len({texts(f, np.ones(n, F)) for n in (17, 100, 530, 1013)}) == 1


@pytest.mark.usefixtures("at_rest")
def test_coefficients_are_arguments() -> None:
    x = np.linspace(0.1, 1, 100, dtype=F)

    def with_rate(rate: float) -> Callable[[Any], Any]:
        return lambda x: x - rate * jnp.tanh(x) + (x * rate).sum()

    jit(with_rate(0.3))(x)
    before = llvm.kernel_compile_count()
    for rate in (0.1, 1e-3, 0.7, 3.0, 1e-30, 123.456):
        want = x - F(rate) * np.tanh(x) + (x * F(rate)).sum()
        np.testing.assert_allclose(jit(with_rate(rate))(x), want, rtol=2e-5)
    assert llvm.kernel_compile_count() == before
    # Simple numbers stay in the code.
    for simple in (1.0, -2.0, 0.0, 0.5):
        assert texts(with_rate(simple), x) != texts(with_rate(0.3), x)


def test_coefficients_of_all_types() -> None:
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32, jnp.complex64):
        x = jnp.asarray(np.linspace(0.1, 1, 40), dtype)
        for c in (0.1, 3.3, -7.7):
            got = np.asarray(jit(lambda x, c=c: x * c + c)(x))
            step = np.asarray(jit(lambda x, y: x * y + y)(x, jnp.asarray(c, dtype)))
            np.testing.assert_array_equal(got, step)


@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64", "bfloat16", "int4"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (64, 64)])
def test_copies_are_memory_of_their_own(dtype: str, shape: tuple[int, ...]) -> None:
    """Who copies an array may donate it and keep the copy."""
    x = jnp.ones(shape, dtype)
    want = np.asarray(x).copy()
    both = jit(lambda x: (jnp.copy(x), x.copy()))
    copies = [jnp.copy(x), jnp.array(x), x.copy(), *both(x), *both(x)]
    assert all(c is not x and c.dtype == x.dtype for c in copies)
    jit(lambda x: x | x if dtype == "bool" else x + x, donate_argnums=0)(x)
    for c in copies:
        assert np.array_equal(np.asarray(c), want)
