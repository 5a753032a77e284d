"""Narrow floats in code that is put together from stencils: computed as f32 and rounded, to the
bits of LLVM's code."""

from __future__ import annotations

import numpy as np
import pytest
from linked_code import run

from pullback.backends.llvm import link, loader
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.patched import patched
from pullback.backends.llvm.stencil_text import NARROW, SCALARS
from pullback.backends.llvm.stencils import provide_stencils, provided
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.threads import prepare
from pullback.loops.interpret import numpy_dtype
from pullback.loops.ir import Buf, Carry, Const, For, Kernel, Let, Load, Store, Update, Var
from pullback.loops.ops import OPS, type_error

prepare()
provide_stencils(host_target(), every=True)
STENCILS = provided(host_target())
pytestmark = pytest.mark.skipif(STENCILS is None, reason="no stencils on this machine")
ONE, ZERO, COUNT = Const(1, "i64"), Const(0, "i64"), 173
LANES = host_target().lanes(4)
SLOW = 30  # the cost of an elementary function from which on LLVM takes long to compile it
ATTRS = {"round": (("mode", "even"),)}
LEFT_OUT = {
    "zeta", "polygamma", "convert", "bitcast", "reduce_precision", "integer_pow", "nextafter",
    "select",
}  # fmt: skip


def numbers(dtype, seed, count=COUNT):
    """Edge values and random ones."""
    random = np.random.default_rng(seed)
    known = [0.0, 1, 0.5, 1.5, 2.5, 1e-8, 3e-40, 6e4, 3e38, np.inf, 100.0, 1 + 2**-8, 1 + 2**-11]
    known = np.array([*known, *(-v for v in known), np.nan], np.float32)
    more = random.normal(size=count) * 10.0 ** random.integers(-3, 3, count)
    with np.errstate(all="ignore"):
        out = np.concatenate([known, more.astype(np.float32)]).astype(numpy_dtype(dtype))
    random.shuffle(out)
    return out[:count]


def same_bits(kernel, arrays):
    """Stencils, LLVM's good code and its quick code agree; what the stencils were."""
    asked = set()

    class Asked:
        def find(self, key):
            asked.add(key)
            return STENCILS.find(key)

        def __contains__(self, key):
            return key in STENCILS

        def has(self, key):
            return key in STENCILS

    target = host_target()
    image = patched(kernel, target, Asked())
    assert image is not None
    text, level = emit_module(kernel)
    brief, _ = emit_module(kernel, brief=True)
    others = [loader.link(link.assemble(t, target, k)) for t, k in ((text, level), (brief, 0))]
    results = []
    for one in (image, *others):
        copies = [a.copy() for a in arrays]
        run(one, copies)
        results.append(copies)
    for other in results[1:]:
        for buf, x, y in zip(kernel.params, results[0], other, strict=True):
            assert bits(x).tobytes() == bits(y).tobytes(), f"{buf.name}: {x} {y}"
    return asked


def bits(x):
    """The bits of numbers; which NaN it is depends on what LLVM puts first."""
    if x.dtype.kind in "biu":
        return x
    x = x.copy()
    x[np.isnan(x.astype(np.float64))] = np.nan
    return x


def kernel_of(lets, inputs, kind):
    """A loop over operations; each result goes to an array of its own."""
    bufs = [Buf(f"in_{v.name}", v.dtype, (COUNT,), "in") for v in inputs]
    outs = [Buf(f"out_{s.out.name}", s.out.dtype, (COUNT,), "out") for s in lets]
    i = Var("i", "i64")
    loads = [Load(v, b, (i,)) for v, b in zip(inputs, bufs, strict=True)]
    stores = [Store(b, (i,), s.out) for s, b in zip(lets, outs, strict=True)]
    assert all(type_error(s) is None for s in lets)
    loop = For(i, ZERO, Const(COUNT, "i64"), ONE, kind, (), (*loads, *lets, *stores))
    return Kernel("k", (*bufs, *outs), (), (), (loop,))


def arrays_of(kernel):
    return [
        numbers(b.dtype, k) if b.dtype in NARROW else np.zeros(COUNT, numpy_dtype(b.dtype))
        for k, b in enumerate(kernel.params)
    ]


@pytest.mark.parametrize("kind", ["vector", "seq"])
@pytest.mark.parametrize("dtype", NARROW)
def test_operators(dtype, kind):
    """All that lanes have, in lanes, and what only numbers have."""
    inputs = [Var(name, dtype) for name in "xyz"]
    groups = {True: [], False: []}
    for name, op in OPS.items():
        if dtype not in op.dtypes or name in LEFT_OUT or op.cost > SLOW:
            continue
        attrs = ATTRS.get(name, ())
        more = tuple(v for _, v in attrs)
        out = Var(name, "bool" if op.rule in ("cmp", "test") else dtype)
        lets = groups[(name, "f32", LANES, *more) in STENCILS]
        lets.append(Let(out, name, tuple(inputs[: op.arity]), attrs))
    for in_lanes, lets in groups.items():
        if lets:
            kernel = kernel_of(lets, inputs, kind)
            asked = same_bits(kernel, arrays_of(kernel))
            wide = {key[2] for key in asked if len(key) > 2 and key[1] == "f32"} - {1}
            assert (wide == {LANES}) == (in_lanes and kind == "vector")


@pytest.mark.parametrize("kind", ["vector", "seq"])
@pytest.mark.parametrize("dtype", NARROW)
def test_conversions(dtype, kind):
    x, y = Var("x", dtype), Var("y", "f32")
    other = next(t for t in NARROW if t != dtype)
    wide = ("f32", "i32", "u32", "bool", other)
    for dests in (wide, (*SCALARS, other)):
        to = [Let(Var(f"to_{d}", d), "convert", (x,)) for d in dests]
        back = [Let(Var(f"back_{s.out.name}", dtype), "convert", (s.out,)) for s in to]
        half = Let(Var("half", "f32"), "mul", (y, Const(0.3, "f32")))
        rounded = Let(Var("rounded", dtype), "convert", (half.out,))
        positive = Let(Var("positive", "bool"), "gt", (x, Const(0.0, dtype)))
        chosen = Let(Var("chosen", dtype), "select", (positive.out, x, rounded.out))
        kernel = kernel_of([*to, *back, half, rounded, positive, chosen], [x, y], kind)
        arrays = arrays_of(kernel)
        arrays[1] = numbers("f32", 7)
        asked = same_bits(kernel, arrays)
        if kind == "vector" and dests is wide:
            assert ("convert", "f32", LANES, dtype) in asked


@pytest.mark.parametrize("dtype", NARROW)
def test_reductions_and_updates(dtype):
    """Extremes of rows one after the other, sums at places that come again, prefixes of maxima."""
    x, top = Buf("x", dtype, (COUNT,), "in"), Buf("top", dtype, (1,), "out")
    sums, tops = Buf("sums", dtype, (5,), "inout"), Buf("tops", dtype, (COUNT,), "inout")
    i, at, v, c, o = (Var(k, t) for k, t in zip("iavco", ("i64", "i64", *[dtype] * 3), strict=True))
    end, low = Const(COUNT, "i64"), Const(-3.0, dtype)
    load = Load(v, x, (i,))
    place = Let(at, "rem", (i, Const(5, "i64")))
    added = For(i, ZERO, end, ONE, "seq", (), (load, place, Update(sums, (at,), v, "add")))
    carry = (Carry(o, c, low),)
    prefix = For(i, ZERO, end, ONE, "scan", carry, (load, Store(tops, (i,), c)), (v,), ("max",))
    kernel = Kernel("k", (x, sums, tops, top), (), (), (added, prefix, Store(top, (ZERO,), o)))
    arrays = [np.abs(numbers(dtype, 3)), numbers(dtype, 4, 5) * 0, numbers(dtype, 5)]
    same_bits(kernel, [*arrays, np.zeros(1, numpy_dtype(dtype))])


@pytest.mark.parametrize("dtype", NARROW)
def test_accumulators_of_narrow_floats_are_left_to_llvm(dtype):
    """Their blocks round at other places of memory than lanes of f32 do."""
    x, out = Buf("x", dtype, (COUNT,), "in"), Buf("out", dtype, (1,), "out")
    i, v, c, o = Var("i", "i64"), Var("v", dtype), Var("c", dtype), Var("o", dtype)
    carry = (Carry(o, c, Const(0.0, dtype)),)
    loop = For(
        i, ZERO, Const(COUNT, "i64"), ONE, "reduce", carry, (Load(v, x, (i,)),), (v,), ("add",)
    )
    kernel = Kernel("k", (x, out), (), (), (loop, Store(out, (ZERO,), o)))
    assert patched(kernel, host_target(), STENCILS) is None
