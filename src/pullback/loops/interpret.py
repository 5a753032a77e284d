"""The interpreter of the loop IR: the oracle of every pass and the last fallback where there is no
compiler.

Values are NumPy scalars; inside a vector or reduce loop whose body is straight they are arrays of
lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from pullback.lazy_imports import lazy_module
from pullback.loops import libraries
from pullback.loops.ir import (
    Alloc,
    Atom,
    Buf,
    Call,
    Const,
    For,
    If,
    Kernel,
    Let,
    Load,
    Region,
    Stmt,
    Store,
    Turn,
    Update,
    Var,
    While,
)
from pullback.loops.ops import BITS, FLOATS, NARROW_FLOATS, SIGNED, UNSIGNED
from pullback.loops.tiles import is_tile, tile_reference
from pullback.loops.zetas import digamma, polygamma, zeta

__all__ = ["apply_op", "interpret", "numpy_dtype"]

ml_dtypes = lazy_module("ml_dtypes")
special = lazy_module("scipy.special")

_PLAIN = {
    "bool": "?",
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
    **{
        d: d[0] + str(int(d[1:]) // 8)
        for d in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
    },
}
_SUB_BYTE = {f"{s[0]}{n}": f"{s}{n}" for s in ("int", "uint") for n in (1, 2, 4)}
_SMALL = {"bf16": "bfloat16", **_SUB_BYTE}
_cache: dict[str, np.dtype[Any]] = {}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a loop-IR dtype."""
    found = _cache.get(name)
    if found is None:
        found = (
            np.dtype(_PLAIN[name])
            if name in _PLAIN
            else np.dtype(getattr(ml_dtypes, _SMALL.get(name, name)))
        )
        _cache[name] = found
    return found


Fn = Callable[..., Any]


def _idiv(x: Any, y: Any) -> Any:
    """Truncating division; by zero gives all ones, INT_MIN / -1 wraps."""
    safe = np.where(y == 0, np.ones_like(y), y)
    q = np.floor_divide(x, safe)
    if x.dtype.kind == "i":
        r = x - q * safe
        q = q + ((r != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, ~np.zeros_like(x), q).astype(x.dtype)


def _irem(x: Any, y: Any) -> Any:
    safe = np.where(y == 0, np.ones_like(y), y)
    return np.where(
        y == 0,
        x,
        np.where(safe == -1, np.zeros_like(x), np.fmod(x, safe))
        if x.dtype.kind == "i"
        else np.fmod(x, safe),
    ).astype(x.dtype)


def _shift(op: Fn, x: Any, y: Any, fill: Any) -> Any:
    bits = x.dtype.itemsize * 8
    bad = (y >= bits) | (y < 0) if y.dtype.kind == "i" else y >= bits
    return np.where(bad, fill, op(x, np.where(bad, np.zeros_like(y), y))).astype(x.dtype)


def _unsigned(x: Any) -> Any:
    return x.astype(x.dtype.str.replace("i", "u")) if x.dtype.kind == "i" else x


def _rotl(x: Any, y: Any) -> Any:
    bits = x.dtype.itemsize * 8
    u, n = _unsigned(x), _unsigned(y) % np.asarray(bits, _unsigned(y).dtype)
    back = (np.asarray(bits, n.dtype) - n) % np.asarray(bits, n.dtype)
    return ((u << n) | (u >> back)).astype(x.dtype)


def _mulhi(x: Any, y: Any) -> Any:
    bits = x.dtype.itemsize * 8
    return ((x.astype(object) * y.astype(object)) >> bits).astype(x.dtype)


def _count(x: Any, f: Callable[[int], int]) -> Any:
    u = _unsigned(np.asarray(x))
    return np.array([f(int(v)) for v in u.ravel()], object).reshape(u.shape).astype(x.dtype)


def _int_pow(x: Any, y: int) -> Any:
    if y < 0:
        return np.asarray(1, x.dtype) / _int_pow(x, -y)
    result, base = np.ones_like(x), x
    while y:
        if y & 1:
            result = result * base
        base = base * base if y > 1 else base
        y >>= 1
    return result


def _round(x: Any, mode: str) -> Any:
    if mode == "even":
        return np.rint(x)
    t = np.trunc(x)
    return np.where(
        np.abs(x - t) >= 0.5, t + np.copysign(np.ones_like(x), x), np.copysign(t, x)
    ).astype(x.dtype)


def _reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    wide: Any
    wide, total = (np.uint64, 52) if x.dtype.itemsize == 8 else (np.uint32, 23)
    full_e = 11 if total == 52 else 8
    y = np.asarray(x, np.float64 if total == 52 else np.float32)
    bits, drop = y.view(wide), total - mantissa_bits
    if drop > 0:
        one = wide(1)
        lsb = (bits >> wide(drop)) & one
        rounded = bits + lsb + ((one << wide(drop - 1)) - one)
        bits = np.where(np.isnan(y), bits, rounded & ~((one << wide(drop)) - one)).astype(wide)
    out = bits.view(y.dtype)
    if exponent_bits < full_e:
        bias = 2 ** (exponent_bits - 1) - 1
        top = float(2.0**bias * (2 - 2.0**-mantissa_bits))
        out = np.where(np.abs(out) > top, np.copysign(np.inf, y), out)
        out = np.where(np.abs(out) < 2.0 ** (1 - bias), np.copysign(0.0, y), out)
    return np.where(np.isnan(y), y, out).astype(x.dtype)


def _minmax(f: Fn, zero_first: bool) -> Fn:
    def op(x: Any, y: Any) -> Any:
        out = f(x, y)
        if np.asarray(x).dtype.kind == "f":
            tie = (x == 0) & (y == 0)
            out = np.where(tie, np.where(np.signbit(x) == zero_first, x, y), out)
        return out.astype(x.dtype)

    return op


def _total(name: str) -> Fn:
    def op(x: Any, y: Any) -> Any:
        nx, ny = (x != x), (y != y)
        if name == "eq":
            return (x == y) | (nx & ny)
        less = (x < y) | (ny & ~nx)
        return less if name == "lt" else less | (x == y) | (nx & ny)

    return op


def _logistic(x: Any) -> Any:
    return np.asarray(1, x.dtype) / (np.asarray(1, x.dtype) + np.exp(-x))


_OPS: dict[str, Fn] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "max": _minmax(np.maximum, False),
    "min": _minmax(np.minimum, True),
    "fma": lambda x, y, z: x * y + z,
    "pow": np.power,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.asarray(1, x.dtype) / np.sqrt(x),
    "cbrt": np.cbrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "nextafter": np.nextafter,
    "copysign": np.copysign,
    "erf": lambda x: special.erf(x),
    "erfc": lambda x: special.erfc(x),
    "erf_inv": lambda x: special.erfinv(x),
    "xla_erf": lambda x: special.erf(x),
    "xla_erf_inv": lambda x: special.erfinv(x),
    "xla_exp": np.exp,
    "xla_log": np.log,
    "xla_log1p": np.log1p,
    "xla_pow": np.power,
    "near_log1p": np.log1p,
    "xla_rsqrt": lambda x: 1 / np.sqrt(x),
    "lgamma": lambda x: special.gammaln(x),
    "digamma": digamma,
    "zeta": zeta,
    "polygamma": polygamma,
    "bessel_i0e": lambda x: special.i0e(x),
    "bessel_i1e": lambda x: special.i1e(x),
    "logistic": _logistic,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "is_finite": np.isfinite,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt_total": _total("lt"),
    "le_total": _total("le"),
    "eq_total": _total("eq"),
    "select": lambda p, x, y: np.asarray(np.where(p, x, y)).astype(x.dtype),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": lambda x, y: _shift(np.left_shift, x, y, np.zeros_like(x)),
    "shr_logical": lambda x, y: _shift(
        np.right_shift, _unsigned(x), _unsigned(y), np.zeros_like(_unsigned(x))
    ).astype(x.dtype),
    "shr_arith": lambda x, y: _shift(
        np.right_shift,
        x,
        y,
        np.where(x < 0, ~np.zeros_like(x), np.zeros_like(x))
        if x.dtype.kind == "i"
        else np.zeros_like(x),
    ),
    "rotl": _rotl,
    "mulhi": _mulhi,
    "popcount": lambda x: _count(x, lambda v: v.bit_count()),
    "clz": lambda x: _count(x, lambda v: x.dtype.itemsize * 8 - v.bit_length()),
}


def _convert(x: Any, dtype: str) -> Any:
    target = numpy_dtype(dtype)
    if dtype == "bool":
        return x != np.zeros_like(x)
    if (
        dtype not in FLOATS
        and np.asarray(x).dtype.kind not in "iub"
        and str(x.dtype) not in _SUB_BYTE.values()
    ):
        wide = np.trunc(np.asarray(x, np.float64))
        bits = BITS[dtype]
        lo, hi = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if dtype in SIGNED else (0.0, 2.0**bits)
        clipped = np.where(np.isnan(wide) | (wide <= lo) | (wide >= hi), 0.0, wide)
        top = np.asarray(int(hi) - 1, np.uint64 if dtype in UNSIGNED else np.int64)
        out = clipped.astype(top.dtype)
        out = np.where(wide >= hi, top, np.where(wide <= lo, np.asarray(int(lo), top.dtype), out))
        return out.astype(target)
    return np.asarray(x).astype(target)


def _narrow(x: Any) -> bool:
    return x.dtype.kind == "V" or x.dtype == np.float16 or not x.dtype.isbuiltin


def apply_op(op: str, out: str, attrs: Sequence[tuple[str, Any]], *args: Any) -> Any:
    """One operator on NumPy values, by the semantics of ops.py."""
    with np.errstate(all="ignore"):
        return _apply(op, out, attrs, *args)


def _apply(op: str, out: str, attrs: Sequence[tuple[str, Any]], *args: Any) -> Any:
    xs = [np.asarray(a) for a in args]
    if op == "convert":
        return _convert(xs[0], out)
    if op == "bitcast":
        return np.ascontiguousarray(xs[0]).view(numpy_dtype(out)).reshape(xs[0].shape)
    if op == "clamp":
        return _apply("min", out, (), _apply("max", out, (), xs[0], xs[1]), xs[2])
    target = numpy_dtype(out)
    x = xs[-1]
    if out in NARROW_FLOATS or (op != "select" and _narrow(x)):
        if op == "select":
            return np.where(xs[0], xs[1], xs[2]).astype(target)
        xs = [a.astype(np.float32) for a in xs]
        x = xs[-1]
    d = dict(attrs)
    is_int = x.dtype.kind in "iu"
    if op in ("div", "idiv"):
        value = _idiv(*np.broadcast_arrays(*xs)) if is_int else np.divide(*xs)
    elif op in ("rem", "irem"):
        value = _irem(*np.broadcast_arrays(*xs)) if is_int else np.fmod(*xs)
    elif op == "integer_pow":
        value = _int_pow(x, d["y"])
    elif op == "round":
        value = _round(x, d["mode"])
    elif op == "reduce_precision":
        value = _reduce_precision(x, d["exponent_bits"], d["mantissa_bits"])
    else:
        value = _OPS[op](*xs)
    return np.asarray(value).astype(target)


_STRAIGHT = (Let, Load, Store, For)


def _straight(body: Sequence[Stmt]) -> bool:
    return all(
        type(s) in _STRAIGHT
        and (type(s) is not For or (s.kind in ("seq", "unroll") and _straight(s.body)))
        for s in body
    )


def _depends(body: Sequence[Stmt], roots: set[Var]) -> list[bool]:
    """For each statement, whether it reads (directly or not) one of the roots."""
    known, flags = set(roots), []
    for s in body:
        reads = _reads(s)
        hit = bool(reads & known)
        flags.append(hit)
        if hit:
            known |= _writes(s)
    return flags


def _reads(s: Any) -> set[Any]:
    if isinstance(s, (list, tuple)):
        return set().union(*map(_reads, s)) if s else set()
    if isinstance(s, Var):
        return {s}
    if hasattr(s, "__match_args__"):
        return set().union(*(_reads(getattr(s, f)) for f in s.__match_args__))
    return set()


def _writes(s: Any) -> set[Any]:
    if isinstance(s, (Let, Load)):
        return {s.out}
    if isinstance(s, (For, While)):
        return {c.out for c in s.carry}
    return set(getattr(s, "outs", ()))


class _Machine:
    def __init__(self, calls: dict[str, Fn]) -> None:
        self.env: dict[Any, Any] = {}
        self.mem: dict[Buf, np.ndarray[Any, Any]] = {}
        self.calls = calls
        self.lanes = False

    def get(self, a: Atom) -> Any:
        if isinstance(a, Const):
            return np.asarray(a.value).astype(numpy_dtype(a.dtype))
        return self.env[a]

    def int(self, a: Any) -> int:
        return a if isinstance(a, int) else int(self.get(a))

    def block(self, stmts: Sequence[Stmt]) -> None:
        for s in stmts:
            getattr(self, "_" + type(s).__name__.lower())(s)

    def _let(self, s: Let) -> None:
        self.env[s.out] = _apply(s.op, s.out.dtype, s.attrs, *map(self.get, s.args))

    def place(self, s: Any) -> tuple[Any, Any, Any]:
        """The array, the index and the lanes that are active."""
        array = self.mem[s.buf]
        index = [np.asarray(self.get(i)) for i in s.index]
        mask = None if s.mask is None else np.asarray(self.get(s.mask))
        ok = np.asarray(True) if mask is None else mask
        for i, n in zip(index, array.shape, strict=True):
            if np.any(ok & ((i < 0) | (i >= n))):
                raise IndexError(
                    f"internal error in pullback: {s.buf.name}[{index}] is out of bounds "
                    f"{array.shape}"
                )
        return array, index, mask

    def _load(self, s: Load) -> None:
        array, index, mask = self.place(s)
        if mask is None:
            self.env[s.out] = array[tuple(index)]
            return
        index = [np.where(mask, i, 0) for i in index]
        other = np.zeros((), array.dtype) if s.other is None else self.get(s.other)
        got = array[tuple(index)] if array.size else other
        self.env[s.out] = np.where(mask, got, other).astype(array.dtype)

    def _store(self, s: Store) -> None:
        array, index, mask = self.place(s)
        value = self.get(s.value)
        if mask is None:
            array[tuple(index)] = value
            return
        shape = np.broadcast_shapes(mask.shape, value.shape, *(i.shape for i in index))
        on = np.broadcast_to(mask, shape)
        array[tuple(np.broadcast_to(i, shape)[on] for i in index)] = np.broadcast_to(value, shape)[
            on
        ]

    def _update(self, s: Update) -> None:
        array, index, mask = self.place(s)
        if mask is None or bool(mask):
            at = tuple(index)
            array[at] = self.combine(s.combine, [array[at]], [self.get(s.value)])[0]

    def combine(self, how: Any, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
        if isinstance(how, Region):
            self.env.update(zip(how.params, [*old, *new], strict=True))
            self.block(how.body)
            return [self.get(y) for y in how.yields]
        names = [how] if isinstance(how, str) else how
        pairs = zip(names, old, new, strict=True)
        return [_apply(n, _name_of(a), (), a, b) for n, a, b in pairs]

    def _for(self, s: For) -> None:
        steps = range(self.int(s.lo), self.int(s.hi), self.int(s.step))
        if (
            not self.lanes
            and s.kind in ("vector", "parallel")
            and len(steps)
            and s.kind == "vector"
            and _straight(s.body)
        ):
            self.env[s.index] = np.arange(steps.start, steps.stop, steps.step, dtype=np.int64)
            self.lanes = True
            self.block(s.body)
            self.lanes = False
            return
        values = [self.get(c.init) for c in s.carry]
        if (
            not self.lanes
            and s.kind == "reduce"
            and isinstance(s.combine, tuple)
            and len(steps) > 1
            and _straight(s.body)
        ):
            self._reduce_lanes(s, steps, values)
            return
        late = _depends(s.body, {c.var for c in s.carry}) if s.kind == "scan" else None
        for i in steps:
            self.env[s.index] = np.asarray(i, np.int64)
            if late is not None:
                self.block([x for x, hit in zip(s.body, late, strict=True) if not hit])
                values = self.combine(s.combine, values, [self.get(y) for y in s.yields])
                self.env.update((c.var, v) for c, v in zip(s.carry, values, strict=True))
                self.block([x for x, hit in zip(s.body, late, strict=True) if hit])
                continue
            self.env.update((c.var, v) for c, v in zip(s.carry, values, strict=True))
            self.block(s.body)
            new = [self.get(y) for y in s.yields]
            values = self.combine(s.combine, values, new) if s.kind == "reduce" else new
        self.env.update((c.out, v) for c, v in zip(s.carry, values, strict=True))

    def _reduce_lanes(self, s: For, steps: range, values: list[Any]) -> None:
        """A reduce loop as lanes; the sum of lanes is by halves, in the dtype of the carry."""
        self.env[s.index] = np.arange(steps.start, steps.stop, steps.step, dtype=np.int64)
        self.lanes = True
        self.block(s.body)
        self.lanes = False
        assert isinstance(s.combine, tuple)
        for c, name, v, y in zip(s.carry, s.combine, values, s.yields, strict=True):
            new = np.broadcast_to(self.get(y), (len(steps),))
            while len(new) > 1:
                half = len(new) // 2
                odd = new[2 * half :]
                new = np.concatenate(
                    [apply_op(name, c.var.dtype, (), new[:half], new[half : 2 * half]), odd]
                )
            self.env[c.out] = apply_op(name, c.var.dtype, (), v, new[0])

    def _while(self, s: While) -> None:
        values = [self.get(c.init) for c in s.carry]
        while True:
            self.env.update(zip(s.cond.params, values, strict=True))
            self.block(s.cond.body)
            if not bool(self.get(s.cond.yields[0])):
                break
            self.env.update(zip(s.body.params, values, strict=True))
            self.block(s.body.body)
            values = [self.get(y) for y in s.body.yields]
        self.env.update((c.out, v) for c, v in zip(s.carry, values, strict=True))

    def _if(self, s: If) -> None:
        body, yields = (
            (s.then, s.then_yields) if bool(self.get(s.pred)) else (s.orelse, s.else_yields)
        )
        self.block(body)
        self.env.update((o, self.get(y)) for o, y in zip(s.outs, yields, strict=True))

    def _alloc(self, s: Alloc) -> None:
        shape = [d if isinstance(d, int) else int(self.get(d)) for d in s.buf.shape]
        self.mem[s.buf] = _garbage(math.prod(shape), numpy_dtype(s.buf.dtype)).reshape(shape)
        self.block(s.body)

    def _turn(self, s: Turn) -> None:
        bufs = reversed(s.bufs) if bool(self.get(s.turned)) else s.bufs
        self.mem.update([(out, self.mem[b]) for out, b in zip(s.outs, bufs, strict=True)])

    def _call(self, s: Call) -> None:
        if s.name == "raise_if":
            first = s.args[0]
            if not isinstance(first, Buf) and bool(self.get(first)):
                raise RuntimeError(f"a check failed: {dict(s.attrs)}")
            return
        if s.name == "prefetch":
            return
        args: list[Any] = [self.mem[a] if isinstance(a, Buf) else self.get(a) for a in s.args]
        form, outs = dict(s.attrs).get("fortran"), cast(Any, ())
        if form is not None:
            outs = libraries.call(s.name, str(form), args, len(s.outs))
            self.env.update((o, np.int32(x)) for o, x in zip(s.outs, outs, strict=True))
            return
        if is_tile(s.name):
            outs = tile_reference(s.name, args)
        else:
            outs = self.calls[s.name](*args, **dict(s.attrs))
        self.env.update(zip(s.outs, outs or (), strict=True))


def _garbage(size: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Uninitialised scratch holds noise, so that a read before a write shows."""
    out = np.full(size * dtype.itemsize, 1 if dtype.kind == "b" else 0xC1, np.uint8).view(dtype)
    return out


_NAMES: dict[Any, str] = {}


def _name_of(x: Any) -> str:
    if not _NAMES:
        for name in (*_PLAIN, "bf16", *NARROW_FLOATS, "i4", "u4"):
            _NAMES[numpy_dtype(name)] = name
    return _NAMES[np.asarray(x).dtype]


def interpret(
    kernel: Kernel,
    buffers: Sequence[np.ndarray[Any, Any]],
    dims: Sequence[int] = (),
    scalars: Sequence[Any] = (),
    calls: dict[str, Fn] | None = None,
) -> None:
    """Runs a kernel on NumPy buffers (written in place), in the order of its params, dims and
    scalars."""
    m = _Machine(calls or {})
    for v, x in zip(kernel.dims, dims, strict=True):
        m.env[v] = np.asarray(x, np.int64)
    for v, x in zip(kernel.scalars, scalars, strict=True):
        m.env[v] = np.asarray(x).astype(numpy_dtype(v.dtype))
    for b, array in zip(kernel.params, buffers, strict=True):
        shape = [d if isinstance(d, int) else int(m.get(d)) for d in b.shape]
        flat = array.reshape(-1)
        if flat.size < math.prod(shape):
            raise ValueError(f"buffer {b.name} has {flat.size} elements, the kernel needs {shape}")
        m.mem[b] = flat[: math.prod(shape)].reshape(shape)
    with np.errstate(all="ignore"):
        m.block(kernel.body)
