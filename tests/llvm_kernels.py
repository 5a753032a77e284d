"""Hand-written kernels and a small builder, shared by the tests of the native back end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.loops.ir import Buf, Carry, Const, For, Kernel, Let, Load, Stmt, Store, Var

ONE = Const(1, "i64")
ZERO = Const(0, "i64")


def i64(value: int) -> Const:
    return Const(value, "i64")


def var(name: str, dtype: str = "i64") -> Var:
    return Var(name, dtype)


def loop(index: Var, hi: Any, kind: str, *body: Stmt, lo: Any = ZERO) -> For:
    """A loop over lo..hi without carries."""
    hi = i64(hi) if isinstance(hi, int) else hi
    return For(index, lo, hi, ONE, kind, (), tuple(body))


def elementwise(
    ops: Sequence[tuple[Any, ...]], ins: Sequence[str], out: str, kind: str = "vector"
) -> Kernel:
    """Lets (out dtype, op, operand numbers or Consts, attrs) in a row over one axis; operands count
    from the inputs on."""
    n, i = var("n"), var("i")
    bufs = [Buf(f"a{k}", d, (n,), "in") for k, d in enumerate(ins)]
    o = Buf("o", out, (n,), "out")
    values = [var(f"x{k}", d) for k, d in enumerate(ins)]
    body: list[Stmt] = [Load(v, b, (i,)) for v, b in zip(values, bufs, strict=True)]
    for k, (dtype, op, args, *attrs) in enumerate(ops):
        operands = tuple(values[a] if isinstance(a, int) else a for a in args)
        values.append(var(f"y{k}", dtype))
        body.append(Let(values[-1], op, operands, attrs[0] if attrs else ()))
    body.append(Store(o, (i,), values[-1]))
    return Kernel("elementwise", (*bufs, o), (n,), (), (loop(i, n, kind, *body),))


def reduction(op: str, dtype: str, init: Any, kind: str = "reduce") -> Kernel:
    """One named reduction of a row."""
    n, i = var("n"), var("i")
    a, o = Buf("a", dtype, (n,), "in"), Buf("o", dtype, (), "out")
    x, acc, out = var("x", dtype), var("acc", dtype), var("out", dtype)
    body = For(
        i,
        ZERO,
        n,
        ONE,
        kind,
        (Carry(out, acc, Const(init, dtype)),),
        (Load(x, a, (i,)),),
        (x,),
        (op,),
    )
    return Kernel("reduction", (a, o), (n,), (), (body, Store(o, (), out)))


def rowwise(inner: str = "reduce", outer: str = "parallel", op: str = "add") -> Kernel:
    """out[r] = op over c of exp(a[r, c] * 0.1)."""
    rows, cols, r, c = var("rows"), var("cols"), var("r"), var("c")
    a, o = Buf("a", "f32", (rows, cols), "in"), Buf("o", "f32", (rows,), "out")
    x, y, z, acc, out = (var(k, "f32") for k in ("x", "y", "z", "acc", "out"))
    init = Const(0.0 if op == "add" else float("-inf"), "f32")
    sweep = For(
        c,
        ZERO,
        cols,
        ONE,
        inner,
        (Carry(out, acc, init),),
        (Load(x, a, (r, c)), Let(y, "mul", (x, Const(0.1, "f32"))), Let(z, "exp", (y,))),
        (z,),
        (op,),
    )
    return Kernel(
        "rowwise", (a, o), (rows, cols), (), (loop(r, rows, outer, sweep, Store(o, (r,), out)),)
    )


def columnwise(dtype: str = "f32") -> Kernel:
    """out[c] = sum over r of a[r, c], lanes over the columns."""
    rows, cols, r, c = var("rows"), var("cols"), var("r"), var("c")
    a, o = Buf("a", dtype, (rows, cols), "in"), Buf("o", dtype, (cols,), "out")
    x, acc, out = (var(k, dtype) for k in ("x", "acc", "out"))
    sweep = For(
        r,
        ZERO,
        rows,
        ONE,
        "reduce",
        (Carry(out, acc, Const(0.0, dtype)),),
        (Load(x, a, (r, c)),),
        (x,),
        ("add",),
    )
    return Kernel(
        "columnwise",
        (a, o),
        (rows, cols),
        (),
        (loop(c, cols, "vector", sweep, Store(o, (c,), out)),),
    )
