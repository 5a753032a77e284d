"""Reductions over lanes at a stride, as the parts of complex numbers are: what fills no turn of the
loop is masked vectors, not one element after the other; the bits are those of contiguous rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback
from pullback import numpy as jnp
from pullback.backends.llvm import target as llvm
from pullback.backends.llvm.compiler import emit_module
from pullback.loops import pipeline
from pullback.runtime.executable import reference_rule


def numbers(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(shape[-1])
    return rng.standard_normal((*shape, 2)).astype("f4").view("c8")[..., 0]


@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("n", [1, 3, 9, 17, 33, 63, 65, 97, 127, 129, 200, 1025, 4100])
def test_parts_are_summed_as_contiguous_rows_are(rows: int, n: int) -> None:
    z = numbers(rows, n)
    total = pullback.jit(lambda x: x.sum(1))
    got = np.asarray(total(z))
    for part in ("real", "imag"):
        row = np.ascontiguousarray(getattr(z, part))
        np.testing.assert_array_equal(getattr(got, part), np.asarray(total(row)))
    every_third = pullback.jit(lambda x: x[:, ::3].max(1))
    np.testing.assert_array_equal(every_third(row), row[:, ::3].max(1))


@pytest.mark.parametrize("n", [5, 33, 97, 200])
def test_much_is_computed_of_each_part(n: int) -> None:
    z = numbers(30, n)
    got = pullback.jit(lambda z: (jnp.exp(z).sum(1), (z * jnp.cos(z.real)) @ z[0]))(z)
    wide = z.astype("c16")
    np.testing.assert_allclose(got[0], np.exp(wide).sum(1), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(got[1], (wide * np.cos(wide.real)) @ wide[0], rtol=2e-4, atol=2e-4)


def test_what_is_left_of_a_loop_runs_in_lanes() -> None:
    if llvm.host_target().level != "avx512":
        pytest.skip("other machines load lanes at a stride one by one")
    f: Any = lambda z: jnp.exp(z).sum(1)
    closed = pullback.make_jaxpr(f)(numbers(97, 97))
    (kernel,) = pipeline.compile_jaxpr(closed, reference_rule).kernels
    text, _ = emit_module(kernel)
    assert "@llvm.masked.load" in text and "load float," not in text
