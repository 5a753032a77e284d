"""dtypes in registers and in memory, and every conversion between them.

A narrow float (f16, bf16, float8, float4) lives in a register as the f32 of the same value; it is
encoded when stored.
Sub-byte integers live in i8, sign- or zero-extended, and take a byte of memory. bool is i1 in
registers, one byte in memory.
All narrow formats but f16 on machines that convert it go through one pair of bit algorithms.
"""

from __future__ import annotations

import math

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.literals import round_f32
from pullback.loops.ir import Const
from pullback.loops.ops import BITS, FLOATS, SIGNED
from pullback.records import record

__all__ = [
    "FORMATS",
    "convert",
    "from_memory",
    "literal",
    "memory_type",
    "register_type",
    "round_to",
    "to_memory",
]


@record(eq=True)
class Format:
    """A small float: exponent and mantissa bits, bias; `kind` is ieee, fn (NaN is all ones, no
    inf), fnuz or sat."""

    exponent: int
    mantissa: int
    bias: int
    kind: str = "ieee"

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def largest(self) -> int:
        """The code of the largest finite value."""
        top = (1 << (self.exponent + self.mantissa)) - 1
        return {"ieee": top - (1 << self.mantissa), "fn": top - 1, "fnuz": top, "sat": top}[
            self.kind
        ]


FORMATS: dict[str, Format] = {
    "f16": Format(5, 10, 15),
    "bf16": Format(8, 7, 127),
    "float8_e3m4": Format(3, 4, 3),
    "float8_e4m3": Format(4, 3, 7),
    "float8_e4m3b11fnuz": Format(4, 3, 11, "fnuz"),
    "float8_e4m3fn": Format(4, 3, 7, "fn"),
    "float8_e4m3fnuz": Format(4, 3, 8, "fnuz"),
    "float8_e5m2": Format(5, 2, 15),
    "float8_e5m2fnuz": Format(5, 2, 16, "fnuz"),
    "float4_e2m1fn": Format(2, 1, 1, "sat"),
    "float6_e2m3fn": Format(2, 3, 1, "sat"),
    "float6_e3m2fn": Format(3, 2, 3, "sat"),
}

_INT = {1: "i8", 2: "i8", 4: "i8", 6: "i8", 8: "i8", 16: "i16", 32: "i32", 64: "i64"}


def register_type(dtype: str) -> str:
    """LLVM's type of a dtype in a register."""
    if dtype == "bool":
        return "i1"
    if dtype == "f64":
        return "double"
    return "float" if dtype in FLOATS else _INT[BITS[dtype]]


def memory_type(dtype: str) -> str:
    """LLVM's type of a dtype in memory."""
    if dtype in ("f32", "f64"):
        return register_type(dtype)
    return _INT[BITS[dtype]]


def literal(b: Builder, const: Const) -> Val:
    """A Const as a value, rounded to its dtype."""
    value = const.value
    if const.dtype == "i64":
        return b.lit(value, "i64")
    if const.dtype in FLOATS:
        value = round_to(float(value), const.dtype)
    elif const.dtype != "bool" and BITS[const.dtype] < 8:
        bits = BITS[const.dtype]
        value = int(value) & ((1 << bits) - 1)
        if const.dtype in SIGNED and value >> (bits - 1):
            value -= 1 << bits
    return b.lit(value, register_type(const.dtype))


def round_to(value: float, dtype: str) -> float:
    """A Python float rounded to nearest even in a dtype."""
    if dtype == "f64" or value != value:
        return value
    if dtype == "f32":
        return round_f32(value)
    if dtype == "float8_e8m0fnu":
        if not 0.0 < value < 1.5 * 2.0**127:
            return math.nan
        if value < 2.0**-126:  # ml_dtypes rounds up below its smallest normal float
            return 2.0**-127 if value <= 2.0**-127 else 2.0**-126
        m, e = math.frexp(value)
        return math.ldexp(1.0, max(-127, e - 1 if m < 0.75 else e))
    f = FORMATS[dtype]
    biggest = math.ldexp(2.0 - math.ldexp(1.0, -f.mantissa), ((1 << f.exponent) - 2) - f.bias)
    if f.kind != "ieee":
        code = f.largest
        e, m = code >> f.mantissa, code & ((1 << f.mantissa) - 1)
        biggest = math.ldexp(1.0 + math.ldexp(m, -f.mantissa), e - f.bias)
    size = abs(value)
    if math.isinf(size):
        rounded = math.inf
    else:
        _, e = math.frexp(size)
        quantum = max(e - 1, 1 - f.bias) - f.mantissa
        rounded = math.ldexp(round(math.ldexp(size, -quantum)), quantum)
    if rounded > biggest:
        rounded = {"ieee": math.inf, "sat": biggest}.get(f.kind, math.nan)
    if rounded == 0.0 and f.kind == "fnuz":
        return 0.0
    return math.copysign(rounded, value)


# ---- narrow floats


def decode(b: Builder, dtype: str, raw: Val) -> Val:
    """The f32 of a stored narrow float (i8 or i16)."""
    if dtype == "f16" and b.target.f16:
        half = b.pure("bitcast {T} {0} to {R}", (raw,), "half")
        return b.pure("fpext {T} {0} to {R}", (half,), "float")
    bits = b.cast("zext", raw, "i32")
    if dtype == "bf16":
        return b.bitcast(bits << 16, "float")
    if dtype == "float8_e8m0fnu":
        value = b.select(bits.eq(0), 0x00400000, bits << 23)
        return b.bitcast(b.select(bits.eq(255), 0x7FC00000, value), "float")
    f = FORMATS[dtype]
    top = (1 << (f.bits - 1)) - 1
    magnitude = bits & top
    value = b.bitcast(magnitude << (23 - f.mantissa), "float") * 2.0 ** (127 - f.bias)
    out = b.bitcast(value, "i32")
    if f.kind == "ieee":
        special = magnitude >= (((1 << f.exponent) - 1) << f.mantissa)
        out = b.select(special, (magnitude << (23 - f.mantissa)) | 0x7F800000, out)
    elif f.kind == "fn":
        out = b.select(magnitude.eq(top), 0x7FC00000, out)
    sign = (bits >> (f.bits - 1)) << 31
    if f.kind == "fnuz":
        return b.bitcast(b.select(bits.eq(1 << (f.bits - 1)), 0x7FC00000, out | sign), "float")
    return b.bitcast(out | sign, "float")


def encode(b: Builder, dtype: str, x: Val) -> Val:
    """The stored bits (i8 or i16) of an f32, rounded to nearest even."""
    store = memory_type(dtype)
    if dtype == "f16" and b.target.f16:
        half = b.pure("fptrunc {T} {0} to {R}", (x,), "half")
        return b.pure("bitcast {T} {0} to {R}", (half,), "i16")
    bits = b.bitcast(x, "i32")
    if dtype == "bf16":
        rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
        quiet = (bits >> 16) | 0x40
        return b.cast("trunc", b.select(x.is_nan(), quiet, rounded), store)
    if dtype == "float8_e8m0fnu":
        code = b.select(bits <= 0x400000, 0, (bits + 0x400000) >> 23)
        code = b.select(code > 254, 255, code)
        return b.cast("trunc", b.select((x > 0.0) & (x < 2.0**128), code, 255), store)
    f = FORMATS[dtype]
    shift = 23 - f.mantissa
    size = bits & 0x7FFFFFFF
    rebased = size - ((127 - f.bias) << 23)
    normal = (rebased + ((size >> shift) & 1) + ((1 << (shift - 1)) - 1)) >> shift
    magic = 2.0 ** (1 - f.bias - f.mantissa + 23)
    small = b.bitcast(b.bitcast(size, "float") + magic, "i32") - b.bitcast(
        b.lit(magic, "float"), "i32"
    )
    code = b.select(size < ((128 - f.bias) << 23), small, normal)
    top = (1 << (f.bits - 1)) - 1
    over = {"ieee": f.largest + 1, "fn": top, "fnuz": 1 << (f.bits - 1), "sat": top}[f.kind]
    too_big = (code > f.largest) | (size > 0x7F000000)
    sign = (bits >> 31) << (f.bits - 1)
    if f.kind == "fnuz":
        signed = b.select(code.eq(0), 0, code | sign)
        return b.cast("trunc", b.select(too_big | x.is_nan(), over, signed), store)
    code = b.select(too_big, over, code)
    if f.kind == "ieee":
        code = b.select(x.is_nan(), f.largest + 1 + (1 << (f.mantissa - 1)), code)
    elif f.kind == "fn":
        code = b.select(x.is_nan(), top, code)
    else:
        return b.cast("trunc", b.select(x.is_nan(), 1 << (f.bits - 1), code | sign), store)
    return b.cast("trunc", code | sign, store)


def narrow(b: Builder, dtype: str, x: Val) -> Val:
    """An f32 register rounded to a float dtype (identity for f32 and f64)."""
    if dtype in ("f32", "f64"):
        return x
    if dtype == "bf16":
        bits = b.bitcast(x, "i32")
        rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) & -65536
        return b.bitcast(b.select(x.is_nan(), bits | 0x400000, rounded) & -65536, "float")
    return decode(b, dtype, encode(b, dtype, x))


def from_memory(b: Builder, dtype: str, raw: Val) -> Val:
    """What was loaded -> the register form."""
    if dtype == "bool":
        return raw.ne(0)
    if dtype in FLOATS and dtype not in ("f32", "f64"):
        return decode(b, dtype, raw)
    return wrap(b, dtype, raw)


def to_memory(b: Builder, dtype: str, value: Val) -> Val:
    """The register form -> what is stored."""
    if dtype == "bool":
        return b.cast("zext", value, "i8")
    if dtype in FLOATS and dtype not in ("f32", "f64"):
        return encode(b, dtype, value)
    return value


def wrap(b: Builder, dtype: str, value: Val) -> Val:
    """Normalises a sub-byte integer held in i8."""
    bits = BITS[dtype]
    if dtype == "bool" or bits >= 8 or dtype in FLOATS:
        return value
    if dtype in SIGNED:
        return b.ashr(value << (8 - bits), 8 - bits)
    return value & ((1 << bits) - 1)


# ---- conversions


def convert(b: Builder, value: Val, source: str, dest: str) -> Val:
    """`convert` of ops.py."""
    if source == dest:
        return value
    if dest == "bool":
        return value.ne(0.0 if source in FLOATS else 0)
    if source in FLOATS:
        if dest in FLOATS:
            return _float_to_float(b, value, source, dest)
        return _float_to_int(b, value, dest)
    if dest in FLOATS:
        wide = b.cast("zext", value, "i32") if source == "bool" else value
        op = "sitofp" if source in SIGNED or source == "bool" else "uitofp"
        if wide.t in ("i8", "i16"):
            wide = b.cast("sext" if source in SIGNED else "zext", wide, "i32")
            op = "sitofp"
        return narrow(b, dest, b.cast(op, wide, register_type(dest)))
    return _int_to_int(b, value, source, dest)


def _float_to_float(b: Builder, value: Val, source: str, dest: str) -> Val:
    if dest == "f64":
        return b.cast("fpext", value, "double")
    if source != "f64":
        return narrow(b, dest, value)
    if dest == "f32":
        return b.cast("fptrunc", value, "float")
    return narrow(b, dest, _round_to_odd(b, value))


def _round_to_odd(b: Builder, x: Val) -> Val:
    """f64 -> f32 rounding to odd, after which a second rounding to fewer bits is as if it were the
    only one."""
    f = b.cast("fptrunc", x, "float")
    back = b.cast("fpext", f, "double")
    bits = b.bitcast(f, "i32")
    toward_zero = b.select(b.fabs(back) > b.fabs(x), bits - 1, bits)
    inexact = (back < x) | (back > x)
    return b.bitcast(b.select(inexact, toward_zero | 1, bits), "float")


def _float_to_int(b: Builder, x: Val, dest: str) -> Val:
    bits, signed = BITS[dest], dest in SIGNED
    lo = -(1 << (bits - 1)) if signed else 0
    hi = (1 << (bits - (1 if signed else 0))) - 1
    if bits < 32:
        safe = b.select(x > float(lo - 1), b.select(x < float(hi + 1), x, float(hi)), float(lo))
        return b.cast("trunc", b.cast("fptosi", b.select(x.is_nan(), 0.0, safe), "i32"), _INT[bits])
    limit = float(hi + 1)
    above = x >= limit
    fits = (x >= float(lo)) & ~above if signed else (x > -1.0) & ~above
    inner = b.cast("fptosi" if signed else "fptoui", b.select(fits, x, 0.0), _INT[bits])
    inner = b.select(above, hi, inner, like=inner.t)
    return b.select(x < float(lo), lo, inner) if signed else inner


def _int_to_int(b: Builder, value: Val, source: str, dest: str) -> Val:
    if source == "bool":
        return wrap(b, dest, b.cast("zext", value, _INT[BITS[dest]]))
    have, want = max(8, BITS[source]), max(8, BITS[dest])
    if want < have:
        value = b.cast("trunc", value, _INT[want])
    elif want > have:
        value = b.cast("sext" if source in SIGNED else "zext", value, _INT[want])
    return wrap(b, dest, value)


def bitcast(b: Builder, value: Val, source: str, dest: str) -> Val:
    """`bitcast` of ops.py: the same bits, another dtype of the same width."""
    if source == dest:
        return value
    raw = to_memory(b, source, value)
    if BITS[source] < 8:
        raw = raw & ((1 << BITS[source]) - 1)
    want = memory_type(dest)
    return from_memory(b, dest, b.bitcast(raw, want) if raw.t != want else raw)
