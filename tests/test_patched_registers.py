"""Values that the next stencil reads stay in the register that they were computed in."""

from __future__ import annotations

import numpy as np
import pytest
from test_patched import COUNT, STENCILS, edges, pytestmark, same_bits  # noqa: F401

from pullback.backends.llvm import patch_registers
from pullback.backends.llvm.analysis import reads_of
from pullback.backends.llvm.patched import patched
from pullback.backends.llvm.target import host_target
from pullback.loops.interpret import numpy_dtype
from pullback.loops.ir import Buf, Carry, Const, For, If, Kernel, Let, Load, Region, Store, Var
from pullback.loops.ops import FLOATS

ONE, ZERO, LAST = Const(1, "i64"), Const(0, "i64"), Const(COUNT, "i64")
OPS = {True: ("add", "sub", "mul", "max", "fma"), False: ("add", "sub", "xor", "rotl", "min")}


def drawn(dtype, length, random):
    """Operations on what has just been computed, and on what was computed before: as the first
    operand, as another, as several."""
    inputs = [Var(f"x{k}", dtype) for k in range(3)]
    known, lets = list(inputs), []
    for k in range(length):
        op = str(random.choice(OPS[dtype in FLOATS]))
        some = [known[-1 - int(min(len(known) - 1, random.geometric(0.6) - 1))] for _ in range(3)]
        lets.append(Let(Var(f"v{k}", dtype), op, tuple(some[: 3 if op == "fma" else 2])))
        known.append(lets[-1].out)
    return inputs, lets


def loop_of(dtype, inputs, lets, kind, stored):
    bufs = [Buf(f"in{k}", dtype, (COUNT,), "in") for k in range(len(inputs))]
    outs = [Buf(f"out{k}", dtype, (COUNT,), "out") for k in range(len(stored))]
    i = Var("i", "i64")
    loads = [Load(v, b, (i,)) for v, b in zip(inputs, bufs, strict=True)]
    stores = [Store(b, (i,), v) for v, b in zip(stored, outs, strict=True)]
    body = (*loads, *lets, *stores)
    return Kernel("k", (*bufs, *outs), (), (), (For(i, ZERO, LAST, ONE, kind, (), body),))


@pytest.mark.parametrize("kind", ["vector", "seq"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "u32", "i64", "u64", "i16", "bf16"])
def test_chains_of_any_form(dtype, kind):
    """The bits of LLVM's code, whatever reads what."""
    for seed in range(4):
        random = np.random.default_rng(seed)
        inputs, lets = drawn(dtype, 24, random)
        stored = [lets[int(k)].out for k in random.integers(0, 24, 2)] + [lets[-1].out]
        kernel = loop_of(dtype, inputs, lets, kind, stored)
        if dtype in FLOATS:
            arrays = random.normal(0.1, 0.5, (3, COUNT))
            ins = [a.astype(numpy_dtype(dtype)) for a in arrays]
        else:
            ins = [edges(dtype, COUNT, seed + k) for k in range(3)]
        same_bits(kernel, [*ins, *(np.zeros_like(ins[0]) for _ in stored)])


@pytest.mark.parametrize("op", ["div", "rem", "idiv", "irem"])
@pytest.mark.parametrize("dtype", ["i32", "u32"])
def test_what_is_read_in_halves_is_stored(dtype, op):
    """A quotient of whole numbers is one of floats, half of the lanes after the other: the second
    half is read from where the operand was stored."""
    x, y = Var("x", dtype), Var("y", dtype)
    v, w = Var("v", dtype), Var("w", dtype)
    kernel = loop_of(dtype, [x, y], [Let(v, "add", (x, y)), Let(w, op, (v, y))], "vector", [w])
    random = np.random.default_rng(0)
    ins = [random.integers(low, 1000, COUNT).astype(numpy_dtype(dtype)) for low in (0, 1)]
    same_bits(kernel, [*ins, np.zeros_like(ins[0])])


def chain(length, dtype="f32"):
    """x * y, times y, and so on."""
    x, y = Var("x", dtype), Var("y", dtype)
    lets, value = [], x
    for k in range(length):
        lets.append(Let(Var(f"v{k}", dtype), "mul", (value, y) if k % 2 else (y, value)))
        value = lets[-1].out
    return loop_of(dtype, [x, y], lets, "vector", [value])


@pytest.mark.parametrize("dtype", ["f32", "f64", "u32"])
def test_what_only_the_next_operator_reads_is_not_stored(dtype):
    """A chain of forty operators writes as often to the frame as one of twenty."""

    def moves(length, table):
        image = patched(chain(length, dtype), host_target(), STENCILS)
        return sum(image.data.count(way) for way, kind in table.items() if kind[0] in "xyz")

    for table in (patch_registers._STORES, patch_registers._LOADS):
        short, long = moves(20, table), moves(40, table)
        # One by one, what fills no vector: the other operand is loaded each time.
        assert long - short <= (0 if table is patch_registers._STORES else 20)


def test_nothing_is_held_where_code_may_come_from_elsewhere():
    """A value that is computed before a loop is read in it, and one of a branch after it; the
    registers have others then."""
    x, out = Buf("x", "i64", (COUNT,), "in"), Buf("out", "i64", (COUNT,), "out")
    i, v, a, p, o, c, d, e, f, last = (
        Var(n, "bool" if n == "p" else "i64") for n in "i v a p o c d e f last".split()
    )
    branch = If(p, (Let(d, "add", (v, a)),), (Let(e, "sub", (v, a)),), (f,), (d,), (e,))
    body = (
        Load(v, x, (i,)),
        Let(p, "lt", (v, a)),
        branch,
        Let(o, "xor", (f, c)),
        Store(out, (i,), o),
    )
    begin = Load(last, x, (ZERO,)), Let(a, "add", (last, ONE))
    loop = For(i, ZERO, LAST, ONE, "seq", (Carry(Var("end", "i64"), c, a),), body, (o,))
    kernel = Kernel("k", (x, out), (), (), (*begin, loop))
    numbers = edges("i64", COUNT, 1)
    same_bits(kernel, [numbers, np.zeros_like(numbers)])


def test_parameters_of_combiners_are_read_more_than_once():
    """They stand for values that others read too."""
    p, q, r = (Var(n, "f32") for n in "pqr")
    region = Region((p, q), (Let(r, "mul", (p, q)),), (r,))
    i, v, c, o = Var("i", "i64"), Var("v", "f32"), Var("c", "f32"), Var("o", "f32")
    x = Buf("x", "f32", (Var("n", "i64"),), "in")
    carry = (Carry(o, c, Const(1.0, "f32")),)
    reads = reads_of([For(i, ZERO, LAST, ONE, "reduce", carry, (Load(v, x, (i,)),), (v,), region)])
    assert reads[p] > 1 and reads[q] > 1 and reads[x.shape[0]] > 1 and reads[r] == reads[v] == 1


def test_narrow_stores_are_not_taken_for_words():
    """Whose last bytes are the same."""
    ends = patch_registers.ends_of
    holes = ((3, 0, 0),)
    for prefix, kind in ((b"", "d"), (b"\x48", "q"), (b"\x66", ""), (b"\x44", "")):
        text = prefix + b"\x89\x87\0\0\0\0"
        assert ends(text, ((len(prefix) + 2, 0, 0),))[2] == kind
    assert ends(b"\x48\x8b\x87\0\0\0\0", holes)[:2] == (((0, 7, "q", 0, 0),), 7)
