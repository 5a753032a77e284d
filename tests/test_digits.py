"""Passes over digits: a function that is compiled once and called by all kernels that sort."""

from __future__ import annotations

import numpy as np
import pytest
from linked_code import run

import pullback
import pullback.numpy as jnp
from pullback.backends.llvm import link, loader, patched, stencils, tilecode
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.passes import passes_text
from pullback.backends.llvm.table import provide
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.threads import prepare
from pullback.loops import pipeline
from pullback.loops.canon import called_by
from pullback.loops.check import check_kernel
from pullback.loops.digits import CELLS, passes_kernel
from pullback.loops.interpret import interpret, numpy_dtype
from pullback.loops.ir import Buf, Call, Const, Kernel, Store, Var
from pullback.loops.tiles import is_radix, radix_name
from pullback.runtime.executable import reference_rule

prepare()
ZERO = Const(0, "i64")


def caller(dtype, n, parts, low, high, width, at):
    """A kernel that calls the function."""
    items = Buf("items", dtype, (2 * n,), "inout")
    counts = Buf("counts", "i64", (parts * CELLS,), "inout")
    out, end = Buf("out", "i64", (1,), "out"), Var("end", "i64")
    numbers = [Const(v, "i64") for v in (at, n, parts, low, high, width)]
    call = Call((end,), radix_name(dtype, parts > 1), (items, counts, *numbers))
    return Kernel("k", (items, counts, out), (), (), (call, Store(out, (ZERO,), end)))


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize(
    ("n", "parts", "low", "high", "width", "at"),
    [
        (1, 1, 0, 32, 8, 0), (1000, 1, 0, 32, 8, 1000), (1001, 1, 13, 32, 7, 0),
        (1002, 3, 0, 32, 8, 0), (77777, 8, 16, 32, 8, 77777), (50, 1, 0, 1, 1, 0),
        (61, 8, 3, 8, 5, 0),
    ],
)  # fmt: skip
def test_bits_are_sorted_stably(dtype, brief, n, parts, low, high, width, at):
    """As the function's definition, in NumPy, does it; on threads too."""
    kernel = caller(dtype, n, parts, low, high, width, at)
    check_kernel(kernel)
    name = kernel.body[0].name
    text = passes_text(host_target(), name, brief)
    code = loader.load_image(loader.link(link.assemble(text, host_target(), 0 if brief else 2)))
    code.keep_forever()
    provide(name, code.symbols["pb_tile"])
    image = loader.link(link.assemble(emit_module(kernel)[0], host_target(), 0))
    random, kind = np.random.default_rng(n), numpy_dtype(dtype)
    bounds = np.iinfo(kind)
    for words in (random.integers(bounds.min, bounds.max, 2 * n, kind), np.full(2 * n, -5, kind)):
        words[: 2 * n : 3] &= ~(0xFF << low)  # some equal digits
        found = []
        for how in (interpret, None):
            arrays = [words.copy(), np.zeros(parts * CELLS, np.int64), np.zeros(1, np.int64)]
            interpret(kernel, arrays) if how else run(image, arrays)
            begin = int(arrays[2][0])
            assert begin in (0, n)
            found.append(arrays[0][begin : begin + n])
        np.testing.assert_array_equal(*found)
    tilecode._provided.pop(name, None)  # who needs it next has good code


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_the_function_is_a_kernel_that_passes_all_checks(dtype, in_parts):
    kernel = passes_kernel(dtype, in_parts)
    check_kernel(kernel)
    launches = "ptr %closure" in passes_text(host_target(), radix_name(dtype, in_parts))
    assert launches == in_parts


def kernels(function, x):
    closed = pullback.make_jaxpr(function)(x)
    return pipeline.compile_jaxpr(closed, reference_rule)


@pytest.mark.parametrize("function", [jnp.sort, jnp.argsort])
def test_sorts_call_it_and_are_put_together(function):
    """No kernel has passes of its own (80 million stencils); the rest is put together."""
    program = kernels(function, jnp.zeros(1_000_000, "float32"))
    sorting = [k for k in program.kernels if any(map(is_radix, called_by(k)))]
    assert len(sorting) == 1
    found = stencils.provided(host_target())
    if found is not None:
        dims = next(s for s in program.steps if getattr(s, "kernel", -1) == 0).dims
        loops = patched._Loops(sorting[0], host_target(), found, dims)
        loops.image()
        assert loops.executed < 1e7 * 8 / (host_target().vector_bytes // 4)
