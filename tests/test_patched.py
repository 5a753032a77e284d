"""Code put together from stencils, without LLVM: each operator and each form of loop computes the
bits of LLVM's code."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from linked_code import run

import pullback
import pullback.numpy as jnp
from pullback import lax
from pullback.backends.llvm import link, loader
from pullback.backends.llvm.compiler import emit_module
from pullback.backends.llvm.driver import Plan, PlanError, scalar_word
from pullback.backends.llvm.patch_trips import UNKNOWN, Trips
from pullback.backends.llvm.patched import STENCIL, _Loops, patched
from pullback.backends.llvm.stencil_text import SCALARS
from pullback.backends.llvm.stencils import provide_stencils, provided
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.threads import Context, prepare
from pullback.loops import pipeline
from pullback.loops.interpret import numpy_dtype
from pullback.loops.ir import Buf, Carry, Const, For, Kernel, Let, Load, Store, Update, Var
from pullback.loops.ops import BITS, FLOATS, OPS, type_error
from pullback.runtime.executable import reference_rule

prepare()
provide_stencils(host_target(), every=True)
STENCILS = provided(host_target())
pytestmark = pytest.mark.skipif(STENCILS is None, reason="no stencils on this machine")
ONE, ZERO = Const(1, "i64"), Const(0, "i64")


def run_kernel(image, kernel, arrays, dims=(), scalars=()):
    """One run of linked code."""
    words = [scalar_word(v, s.dtype) for v, s in zip(scalars, kernel.scalars, strict=True)]
    run(image, arrays, dims, words)


def compiled(kernel, **how):
    text, level = emit_module(kernel, **how)
    return loader.link(link.assemble(text, host_target(), 0 if how else level))


def same_bits(kernel, arrays, dims=(), scalars=()):
    """Stencils, LLVM's good code, its quick code with and without lanes: the outputs agree."""
    image = patched(kernel, host_target(), STENCILS)
    assert image is not None
    images = image, compiled(kernel), compiled(kernel, brief=True)
    results = []
    for one in images:
        copies = [a.copy() for a in arrays]
        run_kernel(one, kernel, copies, dims, scalars)
        results.append(copies)
    for other in results[1:]:
        for buf, x, y in zip(kernel.params, results[0], other, strict=True):
            assert _bits(x).tobytes() == _bits(y).tobytes(), f"{buf.name}: {x} {y}"
    return results[0]


def _bits(x):
    """The bits of numbers; which NaN it is depends on what LLVM puts first."""
    if x.dtype.kind != "f":
        return x
    x = x.copy()
    x[np.isnan(x)] = np.nan
    return x


def edges(dtype, count, seed):
    """Edge values and random ones."""
    d, random = numpy_dtype(dtype), np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(count) < 0.5
    if dtype in FLOATS:
        tiny, big = np.finfo(d).tiny, np.finfo(d).max
        known = [0.0, 1, 0.5, 1.5, 2.5, tiny, tiny / 4, big, np.inf, 3e9, 2.0**31, 2.0**63, 1e-3]
        known = [*known, *(-v for v in known), np.nan, 100.0]
        more = random.normal(size=count) * 10.0 ** random.integers(-3, 4, count)
    else:
        lo, hi = np.iinfo(d).min, np.iinfo(d).max
        known = [0, 1, 2, 3, 7, 31, 32, 63, 64, hi, hi - 1, lo, lo + 1, lo // 2, hi // 2]
        more = random.integers(lo, hi, count, dtype=d)
    out = np.concatenate([np.array(known, d), more.astype(d)])
    random.shuffle(out)
    return out[:count]


COUNT = 173


def elementwise(lets, inputs, kind):
    """A loop over operations; each result goes to an array of its own."""
    bufs = [Buf(f"in_{v.name}", v.dtype, (COUNT,), "in") for v in inputs]
    outs = [Buf(f"out_{s.out.name}", s.out.dtype, (COUNT,), "out") for s in lets]
    i = Var("i", "i64")
    loads = [Load(v, b, (i,)) for v, b in zip(inputs, bufs, strict=True)]
    stores = [Store(b, (i,), s.out) for s, b in zip(lets, outs, strict=True)]
    for s in lets:
        assert type_error(s) is None
    loop = For(i, ZERO, Const(COUNT, "i64"), ONE, kind, (), (*loads, *lets, *stores))
    return Kernel("k", (*bufs, *outs), (), (), (loop,))


# Slow ones, and what other tests have.
LEFT_OUT = {"zeta", "polygamma", "convert", "bitcast", "reduce_precision"}
ATTRS = {
    "round": [("mode", "away"), ("mode", "even")],
    "integer_pow": [("y", 3), ("y", 0), ("y", 10)],
}


def operations(dtype, inputs, lanes):
    """All operations of a type: all that there are in lanes, or the others."""
    lets = []
    x, y, z, p = inputs
    for name, op in OPS.items():
        if dtype not in op.dtypes or name in LEFT_OUT:
            continue
        out = "bool" if op.rule in ("cmp", "test") else dtype
        for attrs in [(a,) for a in ATTRS[name]] if name in ATTRS else [()]:
            key = ("mul", dtype) if name == "integer_pow" else (name, dtype)
            rest = tuple(v for _, v in attrs) if name == "round" else ()
            found = any((*key, n, *rest) in STENCILS for n in (4, 8, 16))
            if found != lanes:
                continue
            args = (p, x, y) if name == "select" else (x, y, z)[: op.arity]
            if name in ("idiv", "irem"):
                continue
            lets.append(Let(Var(f"{name}_{attrs and attrs[0][1]}", out), name, args, attrs))
    return lets


@pytest.mark.parametrize("lanes", [True, False])
@pytest.mark.parametrize("dtype", SCALARS)
def test_operators(dtype, lanes):
    """In lanes and one by one."""
    inputs = [Var(name, dtype) for name in "xyz"] + [Var("p", "bool")]
    lets = operations(dtype, inputs, lanes)
    for kind in ("vector", "seq") if lets else ():
        kernel = elementwise(lets, inputs, kind)
        same_bits(kernel, [edges(b.dtype, COUNT, k) for k, b in enumerate(kernel.params)])


@pytest.mark.parametrize("source", SCALARS)
def test_conversions(source):
    x = Var("x", source)
    groups = [SCALARS, ("f32", "i32", "u32", "bool"), ("f64", "i64", "u64", "f32", "i32", "bool")]
    for dests in groups:
        lets = [Let(Var(f"to_{d}", d), "convert", (x,)) for d in dests]
        same = [d for d in dests if BITS[d] == BITS[source] and "bool" not in (d, source)]
        lets += [Let(Var(f"as_{d}", d), "bitcast", (x,)) for d in same]
        for kind in ("vector", "seq"):
            kernel = elementwise(lets, [x], kind)
            same_bits(kernel, [edges(b.dtype, COUNT, 1) for b in kernel.params])


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "bool"])
@pytest.mark.parametrize("op", ["add", "max", "or"])
@pytest.mark.parametrize("count", [0, 7, 100, 9001])
def test_reductions(dtype, op, count):
    """In blocks, accumulators and lanes; and of rows, one after the other."""
    if (dtype in FLOATS and op == "or") or (dtype == "bool" and op in ("add", "mul")):
        return
    x = edges(dtype, count, 3)
    if dtype in FLOATS:
        x = np.random.default_rng(4).normal(1, 0.01, count).astype(numpy_dtype(dtype))
    for size, dims in ((Const(count, "i64"), ()), (Var("n", "i64"), (count,))):
        buf, out = Buf("x", dtype, (count,), "in"), Buf("out", dtype, (1,), "out")
        i, v, c, o = Var("i", "i64"), Var("v", dtype), Var("c", dtype), Var("o", dtype)
        start = Const({"bool": False}.get(dtype, 2.0 if dtype in FLOATS else 2), dtype)
        carry, body = (Carry(o, c, start),), (Load(v, buf, (i,)),)
        loop = For(i, ZERO, size, ONE, "reduce", carry, body, (v,), (op,))
        names = (size,) if dims else ()
        kernel = Kernel("k", (buf, out), names, (), (loop, Store(out, (ZERO,), o)))
        same_bits(kernel, [x, np.zeros(1, numpy_dtype(dtype))], dims)


def asked_for(kernel):
    """The names of the stencils that a kernel takes."""
    return {key[0] for key in keys_of(kernel)}


def keys_of(kernel):
    """The keys of the stencils that a kernel takes."""
    asked = set()

    class Asked:
        def find(self, key):
            asked.add(key)
            return STENCILS.find(key)

        def __contains__(self, key):
            return key in STENCILS

        def has(self, key):
            return key in STENCILS

    assert patched(kernel, host_target(), Asked()) is not None
    return asked


def first_kernel(function, *shapes):
    """The kernel that does most of a function, and its sizes."""
    closed = pullback.make_jaxpr(function)(*(jnp.zeros(s, "float32") for s in shapes))
    program = pipeline.compile_jaxpr(closed, reference_rule)
    number = max(range(len(program.kernels)), key=program.costs.__getitem__)
    step = next(s for s in program.steps if getattr(s, "kernel", -1) == number)
    return program.kernels[number], step.dims


@pytest.mark.parametrize(
    ("function", "shape", "least", "most"),
    [  # stencils that a run executes, by hand
        (lambda x: x * 2 + 1, (1_000_000,), 2e5, 1.2e6),  # load, mul, add, store: 125000 lanes
        (lambda x: x.sum(1), (1000, 1000), 2.5e5, 2e6),
        (lambda x: jnp.cumsum(x.astype(int), 0), (1000, 1000), 5e5, 4e6),  # lanes across columns
        (lambda x: lax.top_k(x, 10)[0], (1000, 1000), 4e6, 1e9),  # one by one
    ],
)
def test_what_a_run_takes_is_counted(function, shape, least, most):
    """By the sizes of the first call: how often each stencil is executed. What takes too long is
    refused."""
    kernel, dims = first_kernel(function, shape)
    lanes = 8 / (host_target().vector_bytes // 4)
    loops = _Loops(kernel, host_target(), STENCILS, dims)
    loops.image()
    assert least * lanes <= loops.executed <= most * max(1.0, lanes)
    seconds = loops.executed * STENCIL
    asked = kernel, host_target(), STENCILS, False, dims
    assert patched(*asked, patience=1.01 * seconds) is not None
    assert patched(*asked, patience=0.5 * seconds) is None


def test_trips_are_those_of_the_middle_of_loops_around():
    """Blocks end where others begin, or all do; triangles are half of a square; what data tell is
    not known."""
    n, block, i, j, k, end, more = (Var(v, "i64") for v in ("n", "block", *"ijk", "end", "more"))
    kernel = Kernel("k", (), (n, block), (), (
        For(i, ZERO, n, block, "seq", (), (
            Let(more, "add", (i, block)), Let(end, "min", (more, n)),
            For(j, i, end, ONE, "seq", (), ()), For(k, ZERO, i, ONE, "seq", (), ()),
        )),
    ))  # fmt: skip
    trips = Trips(kernel, (1000, 300))
    assert [trips.between(*x, ONE) for x in ((ZERO, n), (i, end), (ZERO, i))] == [1000, 300, 600]
    assert trips.between(ZERO, Var("data", "i64"), ONE) == UNKNOWN


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "i32", "u32", "f64", "i64", "u64"])
def test_elements_anywhere(dtype, masked):
    """Lanes that are loaded and stored at places which other lanes tell."""
    table, out = Buf("table", dtype, (COUNT,), "in"), Buf("out", dtype, (2 * COUNT,), "inout")
    at = Buf("at", "i32", (COUNT,), "in")
    mask = Buf("mask", "bool", (COUNT,), "in")
    i, k, wide, inside, v = (Var(*a) for a in (("i", "i64"), ("k", "i32"), ("wide", "i64"),
                                               ("inside", "i64"), ("v", dtype)))  # fmt: skip
    m, twice = Var("m", "bool"), Var("twice", "i64")
    chosen = m if masked else None
    body = (
        Load(k, at, (i,)),
        Load(m, mask, (i,)),
        Let(wide, "convert", (k,)),
        Let(inside, "clamp", (ZERO, wide, Const(COUNT - 1, "i64"))),
        Load(v, table, (inside,), chosen, Const(7, dtype) if masked else None),
        Let(twice, "add", (inside, Const(COUNT, "i64"))),
        Store(out, (i,), v),
        Store(out, (twice,), v, chosen),
    )
    loop = For(i, ZERO, Const(COUNT, "i64"), ONE, "vector", (), body)
    kernel = Kernel("k", (table, out, at, mask), (), (), (loop,))
    random = np.random.default_rng(5)
    places = random.permutation(np.arange(-3, COUNT - 3)).astype(np.int32)
    arrays = [edges(dtype, COUNT, 1), edges(dtype, 2 * COUNT, 2), places, edges("bool", COUNT, 3)]
    assert {"gather", "scatter"} <= asked_for(kernel)
    same_bits(kernel, arrays)


@pytest.mark.parametrize("step", [2, 3, -1, 7])
@pytest.mark.parametrize("dtype", ["f32", "u32", "f64", "i64"])
def test_elements_at_a_stride(dtype, step):
    """Lanes that lie some elements apart, upwards or downwards."""
    size = COUNT * abs(step)
    x, y = Buf("x", dtype, (size,), "in"), Buf("y", dtype, (size,), "inout")
    i, far, place, v = Var("i", "i64"), Var("far", "i64"), Var("place", "i64"), Var("v", dtype)
    body = (
        Let(far, "mul", (i, Const(step, "i64"))),
        Let(place, "add", (far, Const(0 if step > 0 else size - 1, "i64"))),
        Load(v, x, (place,)),
        Store(y, (place,), v),
    )
    loop = For(i, ZERO, Const(COUNT, "i64"), ONE, "vector", (), body)
    kernel = Kernel("k", (x, y), (), (), (loop,))
    assert {"gather", "scatter"} <= asked_for(kernel)
    same_bits(kernel, [edges(dtype, size, 1), edges(dtype, size, 2)])


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
def test_places_of_extremes(dtype):
    """A reduction over indices beside elements of half their width, as argmin is."""
    x, out = Buf("x", dtype, (COUNT,), "in"), Buf("out", "i64", (1,), "out")
    i, v, low = Var("i", "i64"), Var("v", dtype), Var("low", "bool")
    place, c, o = Var("place", "i64"), Var("c", "i64"), Var("o", "i64")
    last = Const(COUNT, "i64")
    body = (
        Load(v, x, (i,)),
        Let(low, "lt", (v, Const(-1, dtype))),
        Let(place, "select", (low, i, last)),
    )
    loop = For(i, ZERO, last, ONE, "reduce", (Carry(o, c, last),), body, (place,), ("min",))
    kernel = Kernel("k", (x, out), (), (), (loop, Store(out, (ZERO,), o)))
    same_bits(kernel, [edges(dtype, COUNT, 1), np.zeros(1, np.int64)])


@pytest.mark.parametrize("op", ["or", "and"])
@pytest.mark.parametrize("count", [COUNT, 16, 9001])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_truth_values_are_combined_in_lanes(dtype, count, op):
    """Whether any element, or all, are above a bound."""
    x, out = Buf("x", dtype, (count,), "in"), Buf("out", "bool", (1,), "out")
    i, v, p = Var("i", "i64"), Var("v", dtype), Var("p", "bool")
    c, o = Var("c", "bool"), Var("o", "bool")
    for bound in (-4.0, -3.0, 4.0):
        body = Load(v, x, (i,)), Let(p, "gt", (v, Const(bound, dtype)))
        carry = (Carry(o, c, Const(op == "and", "bool")),)
        loop = For(i, ZERO, Const(count, "i64"), ONE, "reduce", carry, body, (p,), (op,))
        kernel = Kernel("k", (x, out), (), (), (loop, Store(out, (ZERO,), o)))
        lanes = host_target().lanes(BITS[dtype] // 8)
        assert (op, "bool", lanes) in keys_of(kernel)
        numbers = np.random.default_rng(count).uniform(-4, 4, count).astype(numpy_dtype(dtype))
        (_, found) = same_bits(kernel, [numbers, np.zeros(1, bool)])
        assert found[0] == (np.any if op == "or" else np.all)(numbers > bound)


def test_words_that_hold_a_key_and_a_place_are_made_in_lanes():
    """Eight-byte integers beside lanes of four bytes: a key above, a place below."""
    x, out = Buf("x", "f32", (COUNT,), "in"), Buf("out", "i64", (COUNT,), "inout")
    names = ("bits", "i32"), ("wide", "i64"), ("high", "i64"), ("low", "i64"), ("word", "i64")
    i, v = Var("i", "i64"), Var("v", "f32")
    bits, wide, high, low, word = (Var(*n) for n in names)
    body = (
        Load(v, x, (i,)),
        Let(bits, "bitcast", (v,)),
        Let(wide, "convert", (bits,)),
        Let(high, "shl", (wide, Const(32, "i64"))),
        Let(low, "xor", (i, Const((1 << 32) - 1, "i64"))),
        Let(word, "or", (high, low)),
        Store(out, (i,), word),
    )
    loop = For(i, ZERO, Const(COUNT, "i64"), ONE, "vector", (), body)
    kernel = Kernel("k", (x, out), (), (), (loop,))
    assert ("shl", "i64", host_target().lanes(4)) in keys_of(kernel)
    same_bits(kernel, [edges("f32", COUNT, 1), np.zeros(COUNT, np.int64)])


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "u32"])
def test_updates_at_places_of_an_array(dtype, op, index):
    """One after the other, as places come again."""
    table = Buf("table", dtype, (10,), "inout")
    at, numbers = Buf("at", index, (COUNT,), "in"), Buf("numbers", dtype, (COUNT,), "in")
    i, k, wide, v = Var("i", "i64"), Var("k", index), Var("wide", "i64"), Var("v", dtype)
    convert = (Let(wide, "convert", (k,)),) if index == "i32" else ()
    update = Update(table, (wide if convert else k,), v, op)
    body = (Load(k, at, (i,)), Load(v, numbers, (i,)), *convert, update)
    loop = For(i, Const(3, "i64"), Const(COUNT, "i64"), ONE, "vector", (), body)
    kernel = Kernel("k", (table, at, numbers), (), (), (loop,))
    assert "updates" in asked_for(kernel)
    places = np.random.default_rng(7).integers(0, 10, COUNT).astype(index.replace("i", "int"))
    same_bits(kernel, [edges(dtype, 10, 1), places, edges(dtype, COUNT, 2)])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("count", [0, 7, COUNT, 9001])
@pytest.mark.parametrize("op", ["add", "mul", "max"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_prefixes_are_computed_in_lanes(dtype, op, count, exclusive):
    """Each vector's own ones, then with what came before it; what is left one by one."""
    x, out = Buf("x", dtype, (count,), "in"), Buf("out", dtype, (count,), "inout")
    end = Buf("end", dtype, (1,), "out")
    i, v, c, o = Var("i", "i64"), Var("v", dtype), Var("c", dtype), Var("o", dtype)
    put = Store(out, (i,), c)
    # What is stored before the element is loaded would be what all earlier ones give.
    body = (put, Load(v, x, (i,))) if exclusive else (Load(v, x, (i,)), put)
    carry = (Carry(o, c, Const(2.0 if dtype in FLOATS else 2, dtype)),)
    size = Var("n", "i64")
    loop = For(i, ZERO, size, ONE, "scan", carry, body, (v,), (op,))
    kernel = Kernel("k", (x, out, end), (size,), (), (loop, Store(end, (ZERO,), o)))
    assert ("shift", dtype, host_target().lanes(BITS[dtype] // 8), 1) in keys_of(kernel)
    numbers = np.random.default_rng(count).normal(1, 0.01, count)
    numbers = (numbers if dtype in FLOATS else numbers * 9).astype(numpy_dtype(dtype))
    same_bits(kernel, [numbers, np.zeros_like(numbers), np.zeros(1, numbers.dtype)], (count,))


def test_two_prefixes_side_by_side():
    """Both are read by what is stored."""
    x, y, out = (
        Buf(k, "f32", (COUNT,), r) for k, r in (("x", "in"), ("y", "in"), ("out", "inout"))
    )
    i, v, w, s = Var("i", "i64"), Var("v", "f32"), Var("w", "f32"), Var("s", "f32")
    c, d, o, p = (Var(k, "f32") for k in "cdop")
    body = Load(v, x, (i,)), Load(w, y, (i,)), Let(s, "sub", (c, d)), Store(out, (i,), s)
    carry = Carry(o, c, Const(0.0, "f32")), Carry(p, d, Const(1.0, "f32"))
    last = Const(COUNT, "i64")
    loop = For(i, ZERO, last, ONE, "scan", carry, body, (v, w), ("add", "min"))
    numbers = np.random.default_rng(1).normal(1, 0.3, (3, COUNT)).astype(np.float32)
    kernel = Kernel("k", (x, y, out), (), (), (loop,))
    assert "shift" in asked_for(kernel)
    same_bits(kernel, list(numbers))


@pytest.mark.parametrize("kind", ["seq", "reduce"])
def test_long_loops_stop_when_they_are_asked_to(kind):
    """They look at the context's cancel word, as all other code does."""
    size, buf, out = Var("n", "i64"), Buf("x", "f32", (9001,), "in"), Buf("out", "f32", (1,), "out")
    i, v, c, o, y = (Var(n, t) for n, t in zip("ivcoy", ("i64", *["f32"] * 4), strict=True))
    body = [Load(v, buf, (i,))]
    if kind == "seq":
        body.append(Let(y, "mul", (c, v)))
    loop = For(
        i, ZERO, size, ONE, kind, (Carry(o, c, Const(1.0, "f32")),), tuple(body),
        (y if kind == "seq" else v,), None if kind == "seq" else ("add",),
    )  # fmt: skip
    kernel = Kernel("k", (buf, out), (size,), (), (loop, Store(out, (ZERO,), o)))
    for image in (patched(kernel, host_target(), STENCILS), compiled(kernel)):
        code = loader.load_image(image)
        plan, context = Plan(2), Context()
        plan.kernel(code.symbols["pb_kernel"], range(2), [9001], ())
        plan.ret()
        plan.finish()
        arrays = np.ones(9001, np.float32), np.zeros(1, np.float32)
        context.reset()
        context.cancel()
        with pytest.raises(PlanError, match="cancelled"):
            plan.run((ctypes.c_int64 * plan.slot_words)(*[a.ctypes.data for a in arrays]), context)
        assert arrays[1][0] == 0


def test_iterations_are_counted_where_sizes_tell_them():
    """Whole groups of four in a chunk are told by masks; what data tells goes so far, not so many
    steps."""
    n, size, whole, data = (Var(k, "i64") for k in ("n", "size", "whole", "data"))
    x, step = Buf("x", "i64", (n,), "in"), Const(4, "i64")
    lets = Let(size, "sub", (n, ONE)), Let(whole, "and", (size, Const(-4, "i64")))
    kernel = Kernel("k", (x,), (n,), (), (*lets, Load(data, x, (ZERO,))))
    trips = Trips(kernel, (1001,))
    assert trips.between(ZERO, whole, step) == 250
    assert trips.between(ZERO, data, step) == trips.between(ZERO, data, ONE) / 4
    assert trips.between(ZERO, data, Const(1000, "i64")) == 1
