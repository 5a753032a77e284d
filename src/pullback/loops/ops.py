"""The operators of the loop IR: name, arity and typing rule of every `Let`.

Semantics that an emitter must honour (the interpreter in interpret.py is the reference):

* integers wrap; `div`/`rem` truncate; x div 0 is all ones (-1), x rem 0 is x, INT_MIN div -1 is
INT_MIN, INT_MIN rem -1 is 0;
* `idiv`/`irem` are index arithmetic: the dividend is known to be >= 0 and the divisor > 0, so no
check is needed;
* float `rem` is C's fmod; `max`/`min` propagate NaN and order -0.0 below +0.0; `sign` keeps NaN and
signed zeros;
* shifts by the width or more give 0 (`shr_arith`: the sign); rotl takes its amount modulo the
width;
* `round` takes attrs (("mode", "away"|"even"),); `integer_pow` attrs (("y", int),) by repeated
squaring;
* `reduce_precision` attrs (("exponent_bits", e), ("mantissa_bits", m));
* `convert` goes anywhere: float to int truncates, saturates, NaN gives 0; int to int wraps;
anything to bool is `!= 0`;
  float to narrower float rounds to nearest even;
* `bitcast` keeps the width; `clamp` is (lo, x, hi) = min(max(lo, x), hi);
* `lt_total`, `le_total`, `eq_total`: the sort order of floats, NaN last and equal to NaN, -0.0
equal to +0.0 (comparators of
  `sort` canonicalise both); plain comparisons are IEEE (`ne` is true on NaN, the others false);
* `fma` is for the inside of dot and convolution only and may or may not be fused;
* bool supports and, or, xor, not, eq, ne, lt, le, gt, ge, max, min, select.
"""

from __future__ import annotations

from pullback.loops.ir import Atom, Const, Let
from pullback.records import record

BOOL = ("bool",)
SIGNED = ("i4", "i8", "i16", "i32", "i64", "i2", "i1")
UNSIGNED = ("u4", "u8", "u16", "u32", "u64", "u2", "u1")
INTS = SIGNED + UNSIGNED
NARROW_FLOATS = (
    "f16",
    "bf16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
)
# The largest values of floats that have no infinities.
NO_INFINITIES = {
    "float8_e4m3b11fnuz": 30.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2fnuz": 57344.0,
    "float4_e2m1fn": 6.0,
    "float6_e2m3fn": 7.5,
    "float6_e3m2fn": 28.0,
}
FLOATS = ("f32", "f64", *NARROW_FLOATS)
ALL = BOOL + INTS + FLOATS

BITS = {
    "bool": 8,
    "i1": 1,
    "u1": 1,
    "i2": 2,
    "u2": 2,
    "i4": 4,
    "u4": 4,
    "i8": 8,
    "u8": 8,
    "i16": 16,
    "u16": 16,
    "i32": 32,
    "u32": 32,
    "i64": 64,
    "u64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    **{name: 8 for name in NARROW_FLOATS if name.startswith("float8")},
}


def storage_bytes(dtype: str) -> int:
    """Bytes of one element in memory; sub-byte types take a whole byte."""
    return max(1, BITS[dtype] // 8)


@record(eq=True)
class Op:
    """One operator. `rule`: same (result has the operands' dtype), cmp (bool), select, convert,
    bitcast, test (T -> bool)."""

    name: str
    arity: int
    rule: str
    dtypes: frozenset[str]
    cost: int = 1
    attrs: tuple[str, ...] = ()


OPS: dict[str, Op] = {}


def _def(
    names: str,
    arity: int,
    rule: str,
    *classes: tuple[str, ...],
    cost: int = 1,
    attrs: tuple[str, ...] = (),
) -> None:
    dtypes = frozenset(d for group in classes for d in group)
    for name in names.split():
        OPS[name] = Op(name, arity, rule, dtypes, cost, attrs)


_def("add sub mul", 2, "same", INTS, FLOATS)
_def("div rem", 2, "same", INTS, FLOATS, cost=8)
_def("idiv irem", 2, "same", INTS, cost=8)
_def("mulhi", 2, "same", INTS, cost=2)
_def("neg abs sign", 1, "same", INTS, FLOATS)
_def("max min", 2, "same", BOOL, INTS, FLOATS)
_def("fma", 3, "same", INTS, FLOATS)
_def("pow", 2, "same", INTS, FLOATS, cost=40)
_def("integer_pow", 1, "same", INTS, FLOATS, cost=4, attrs=("y",))
_def("exp exp2 log log1p expm1 logistic", 1, "same", FLOATS, cost=15)
_def("sqrt rsqrt", 1, "same", FLOATS, cost=8)
_def("cbrt", 1, "same", FLOATS, cost=20)
_def("sin cos tan", 1, "same", FLOATS, cost=25)
_def("asin acos atan sinh cosh tanh asinh acosh atanh", 1, "same", FLOATS, cost=20)
_def("atan2 nextafter copysign", 2, "same", FLOATS, cost=20)
_def("erf erfc erf_inv", 1, "same", FLOATS, cost=20)
# As XLA computes them (backends/llvm/maths_xla.py).
_def("near_log1p", 1, "same", ("f64",), cost=25)
_def("xla_rsqrt", 1, "same", ("f32", "f64"), cost=8)
_def("xla_exp xla_log xla_log1p", 1, "same", ("f64",), cost=40)
_def("xla_erf xla_erf_inv", 1, "same", ("f64",), cost=60)
_def("xla_pow", 2, "same", ("f64",), cost=80)
_def("lgamma digamma bessel_i0e bessel_i1e", 1, "same", FLOATS, cost=40)
_def("zeta polygamma", 2, "same", FLOATS, cost=200)
_def("floor ceil trunc", 1, "same", FLOATS)
_def("round", 1, "same", FLOATS, attrs=("mode",))
_def("reduce_precision", 1, "same", FLOATS, cost=4, attrs=("exponent_bits", "mantissa_bits"))
_def("is_finite", 1, "test", FLOATS)
_def("and or xor", 2, "same", BOOL, INTS)
_def("not", 1, "same", BOOL, INTS)
_def("shl shr_arith shr_logical rotl", 2, "same", INTS)
_def("popcount clz", 1, "same", INTS)
_def("eq ne lt le gt ge", 2, "cmp", BOOL, INTS, FLOATS)
_def("lt_total le_total eq_total", 2, "cmp", BOOL, INTS, FLOATS, cost=3)
_def("select", 3, "select", ALL)
_def("clamp", 3, "same", INTS, FLOATS, BOOL, cost=2)
_def("convert", 1, "convert", ALL)
_def("bitcast", 1, "bitcast", ALL)

# Associative and commutative operators that a 'reduce' loop, a 'scan' loop or an Update may name,
# with their identity.
COMBINERS = ("add", "mul", "max", "min", "and", "or", "xor")


def identity_of(op: str, dtype: str) -> Const:
    """The neutral element of a combiner, as a Const."""
    is_float = dtype in FLOATS
    if op in ("add", "xor", "or"):
        return Const(False if dtype == "bool" else 0.0 if is_float else 0, dtype)
    if op == "mul":
        return Const(1.0 if is_float else 1, dtype)
    if op == "and":
        return Const(
            True if dtype == "bool" else -1 if dtype in SIGNED else (1 << BITS[dtype]) - 1, dtype
        )
    lo, hi = limits(dtype)
    return Const(lo if op == "max" else hi, dtype)


def limits(dtype: str) -> tuple[bool | int | float, bool | int | float]:
    """Smallest and largest value of a dtype (infinities for the floats that have them)."""
    if dtype == "bool":
        return False, True
    if dtype in NO_INFINITIES:
        return -NO_INFINITIES[dtype], NO_INFINITIES[dtype]
    if dtype in FLOATS:
        return float("-inf"), float("inf")
    bits = BITS[dtype]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)


def type_error(stmt: Let) -> str | None:
    """Why a Let is ill-typed, or None."""
    op = OPS.get(stmt.op)
    if op is None:
        return f"unknown operator {stmt.op!r}"
    args: tuple[Atom, ...] = stmt.args
    if len(args) != op.arity:
        return f"{stmt.op} takes {op.arity} operands, got {len(args)}"
    if op.attrs and tuple(k for k, _ in stmt.attrs) != op.attrs:
        return f"{stmt.op} needs attrs {op.attrs}, got {stmt.attrs}"
    types = [a.dtype for a in args]
    value = types[-1]
    if value not in op.dtypes:
        return f"{stmt.op} does not take {value}"
    if op.rule == "select":
        ok = types[0] == "bool" and types[1] == types[2] == stmt.out.dtype
    elif op.rule == "convert":
        ok = stmt.out.dtype in BITS
    elif op.rule == "bitcast":
        ok = BITS[stmt.out.dtype] == BITS[value]
    elif op.rule in ("cmp", "test"):
        ok = stmt.out.dtype == "bool" and len(set(types)) == 1
    else:
        ok = len(set(types)) == 1 and stmt.out.dtype == value
    return None if ok else f"{stmt.op}: operands {types} do not give {stmt.out.dtype}"
