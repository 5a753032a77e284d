"""Both parts of complex numbers, and loops of less than a vector, in code from stencils."""

from __future__ import annotations

import numpy as np
import pytest
from test_patched import COUNT, asked_for, edges, keys_of, pytestmark, same_bits  # noqa: F401

from pullback.backends.llvm.target import host_target
from pullback.loops.ir import Buf, Const, For, Kernel, Let, Load, Store, Var
from pullback.loops.ops import BITS

ONE, ZERO, TWO = (Const(k, "i64") for k in (1, 0, 2))


def squares(dtype, order, same=False, count=COUNT):
    """The squares of complex numbers; `order` says how the accesses to parts follow each other."""
    x = Buf("x", dtype, (2 * count,), "inout" if same else "in")
    out = x if same else Buf("out", dtype, (2 * count,), "out")
    i, even, odd = (Var(n, "i64") for n in ("i", "even", "odd"))
    re, im, a, b, c, d = (Var(n, dtype) for n in ("re", "im", *"abcd"))
    loads = [Load(re, x, (even,)), Load(im, x, (odd,))]
    lets = (
        Let(a, "mul", (re, re)), Let(b, "mul", (im, im)), Let(c, "sub", (a, b)),
        Let(d, "mul", (re, im)),
    )  # fmt: skip
    stores = [Store(out, (even,), c), Store(out, (odd,), d)]
    places = Let(even, "mul", (i, TWO)), Let(odd, "add", (even, ONE))
    body = {
        "straight": (*places, *loads, *lets, *stores),
        "reversed": (*places, *loads[::-1], *lets, *stores[::-1]),
        "late": (*places, *loads, *lets[:3], stores[0], lets[3], stores[1]),
        "between": (*places, loads[0], stores[0], loads[1], stores[1]),
    }[order]
    if order == "between":
        body = (*places, loads[0], Store(out, (even,), re), loads[1], Store(out, (odd,), im))
    loop = For(i, ZERO, Const(count, "i64"), ONE, "vector", (), body)
    return Kernel("k", (x,) if same else (x, out), (), (), (loop,))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("order", ["straight", "reversed", "late", "between"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_parts_that_lie_side_by_side(dtype, order, same):
    """They are loaded and stored together, where that gives the same."""
    kernel = squares(dtype, order, same)
    asked = asked_for(kernel)
    if order in ("straight", "late"):
        assert {"apart", "together"} <= asked and not {"gather", "scatter"} & asked
    numbers = edges(dtype, 2 * COUNT, 3)
    same_bits(kernel, [numbers] if same else [numbers, np.zeros_like(numbers)])


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64"])
def test_others_go_one_by_one(dtype):
    """Of integers there are no such pairs."""
    kernel = squares(dtype, "straight")
    assert not {"apart", "together"} & asked_for(kernel)
    numbers = edges(dtype, 2 * COUNT, 3)
    same_bits(kernel, [numbers, np.zeros_like(numbers)])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_loops_of_less_than_a_vector(dtype):
    """Half a register, where the numbers have four bytes; what is left one by one."""
    lanes = host_target().lanes(BITS[dtype] // 8)
    for count in (lanes // 2, lanes - 1, lanes // 2 - 1):
        kernel = squares(dtype, "straight", count=count)
        used = {key[2] for key in keys_of(kernel) if key[0] == "mul" and key[1] == dtype}
        half = dtype == "f32" and count >= lanes // 2
        assert (lanes // 2 in used) == half, (count, used)
        numbers = edges(dtype, 2 * count, 3)
        same_bits(kernel, [numbers, np.zeros_like(numbers)])
