"""Every operator of loops/ops.py as LLVM IR on scalars and vectors alike; elementary functions are
in maths*.py."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.backends.llvm import maths, maths_special, x86
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.called import call_of
from pullback.backends.llvm.convert import (
    FORMATS,
    bitcast,
    convert,
    from_memory,
    memory_type,
    narrow,
    to_memory,
    wrap,
)
from pullback.backends.llvm.literals import BITS as TYPE_BITS
from pullback.loops.ops import BITS, FLOATS, SIGNED

__all__ = ["combine", "emit_op", "minmax"]

Attrs = Sequence[tuple[str, Any]]


def emit_op(b: Builder, op: str, out: str, dtype: str, args: list[Val], attrs: Attrs = ()) -> Val:
    """The value of a Let: `dtype` is the operands' type, `out` the result's."""
    if op == "convert":
        return convert(b, args[0], dtype, out)
    if op == "bitcast":
        return bitcast(b, args[0], dtype, out)
    if op == "select":
        return b.select(args[0], args[1], args[2])
    if op in _COMPARE:
        return b.compare(op, args[0], args[1], unsigned=dtype not in SIGNED)
    if op in ("lt_total", "le_total", "eq_total"):
        return _total(b, op, dtype, args[0], args[1])
    if op == "clamp":
        return minmax(b, "min", dtype, minmax(b, "max", dtype, args[0], args[1]), args[2])
    if op in ("max", "min"):
        return minmax(b, op, dtype, args[0], args[1])
    if dtype in FLOATS:
        return _float(b, op, dtype, args, dict(attrs))
    if dtype == "bool":
        return ~args[0] if op == "not" else b.binary(op, args[0], args[1])
    return wrap(b, dtype, _integer(b, op, dtype, args, dict(attrs)))


_COMPARE = frozenset("eq ne lt le gt ge".split())


def minmax(b: Builder, op: str, dtype: str, x: Val, y: Val) -> Val:
    """max or min; floats propagate NaN and order -0 below +0."""
    if dtype == "bool":
        return b.binary("or" if op == "max" else "and", x, y)
    if dtype in FLOATS:
        known = x.c is not None or y.c is not None  # LLVM does better then
        best = x86.ranged(b, x, y, op == "max") if b.target.masks and not known else None
        if best is not None:  # and the NaN that a range leaves out
            nan = b.pure("fcmp uno {T} {0}, {1}", (x, y), "i1")
            return b.select(nan, x + y, best)
        return b.call("maximum" if op == "max" else "minimum", x, y)
    return b.call(("s" if dtype in SIGNED else "u") + op, x, y)


def _total(b: Builder, op: str, dtype: str, x: Val, y: Val) -> Val:
    if dtype not in FLOATS:
        return b.compare(op[:2], x, y, unsigned=dtype not in SIGNED)
    if op == "eq_total":
        return x.eq(y) | (x.is_nan() & y.is_nan())
    if op == "lt_total":
        return (x < y) | (y.is_nan() & ~x.is_nan())
    return ~_total(b, "lt_total", dtype, y, x)


# ---- floats


def _float(b: Builder, op: str, dtype: str, args: list[Val], attrs: dict[str, Any]) -> Val:
    x = args[0]
    if op == "div" and dtype == "f32" and _by_one(b, x, args[1]):
        return _divide_by_one(b, x, args[1])
    if op in ("mul", "div") and args[1].c == 1.0:  # derivatives have many
        return x
    if op == "mul" and x.c == 1.0:
        return args[1]
    if op in ("sub", "mul", "div", "fma"):
        args = [b.fence(a) if _would_negate(a) else a for a in args]
    if op in _FLOAT_PLAIN:
        return narrow(b, dtype, b.binary(_FLOAT_PLAIN[op], *args))
    if op == "neg":
        return b.fence(-b.fence(x))
    if op == "abs":
        return b.fabs(x)
    if op == "copysign":
        return b.copysign(x, args[1])
    if op == "sign":
        return b.select(x > 0.0, 1.0, b.select(x < 0.0, -1.0, x), like=x.t)
    if op == "is_finite":
        return b.fabs(x) < float("inf")
    if op == "fma":
        return narrow(b, dtype, b.fma(*args))
    if op == "integer_pow":
        return narrow(b, dtype, _integer_pow(b, x, int(attrs["y"]), b.lit(1.0, x.t)))
    if op == "reduce_precision":
        return _reduce_precision(b, x, int(attrs["exponent_bits"]), int(attrs["mantissa_bits"]))
    if op == "nextafter":
        return _nextafter(b, dtype, x, args[1])
    if op == "round":
        return maths.rint(b, x) if attrs["mode"] == "even" else maths.round_away(b, x)
    value = call_of(b, op, args) or maths_special.emit(b, op, args)
    return narrow(b, dtype, value)


def _would_negate(x: Val) -> bool:
    """Whether LLVM makes a negation of a difference from, or of a product with, this literal. It
    moves negations through what stands before and after them, so that the sign of a NaN depends on
    that: ours stand between fences, products stay products."""
    return x.c == -1.0 or (x.c == 0.0 and math.copysign(1.0, x.c) < 0)


_FLOAT_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def _by_one(b: Builder, x: Val, y: Val) -> bool:
    """Whether a loop divides lanes of float32 by one number, on a machine whose division of whole
    vectors is slow. Quick code divides: thirty lines less, and the same bits."""
    if b.brief or not b.target.masks or x.n < 8 or y.n != 1 or len(y.regs) != 1 or y.c is not None:
        return False
    return b.stays(y)


def _divide_by_one(b: Builder, x: Val, y: Val) -> Val:
    """x / y from the rounded reciprocal r of y, correctly rounded (Markstein 1990): q = x r is off
    by 1.5 ulp at most, q + (x - q y) r by one, and a second such step has an exact remainder and
    rounds as division does. That holds where nothing under- or overflows: for a y of some range
    of exponents, in lanes of another range or zero. Other lanes make their vector be divided."""
    fits = (y >= 2.0**-20) & (y <= 2.0**40)
    least, most = 2.0**-64, 2.0**64  # |x|: quotients are normal, so are remainders
    low, high = (b.bitcast(b.lit(v, "float"), "i32") for v in (least, most))
    span = b.select(fits, high - low, 0)
    r = 1.0 / y
    size = b.bitcast(x, "i32") & 0x7FFFFFFF
    good = b.compare("lt", size - low, span, unsigned=True) | (size.eq(0) & fits)
    bad = b.any_lane(~good)

    def quickly() -> list[Val]:
        q = x * r
        for _ in range(2):
            q = b.fma(-b.fma(q, y, -x), r, q)
        return [q]

    return b.if_else(bad, lambda: [x / y], quickly)[0]


def _integer_pow(b: Builder, x: Val, y: int, one: Val) -> Val:
    if y < 0:
        return one / _integer_pow(b, x, -y, one)
    result: Val | None = None
    square = x
    while y:
        if y & 1:
            result = square if result is None else result * square
        y >>= 1
        if y:
            square = square * square
    return one if result is None else result


def _reduce_precision(b: Builder, x: Val, exponent: int, mantissa: int) -> Val:
    """Rounds to a mantissa, then exponents out of range go to infinity or (signed) zero;
    NaN stays.
    """
    t, whole = ("i32", 23) if x.t == "float" else ("i64", 52)
    bias = (1 << (30 - 23 if t == "i32" else 62 - 52)) - 1
    bits = b.bitcast(x, t)
    if mantissa < whole:
        drop = whole - mantissa
        odd = (bits >> drop) & 1
        bits = (bits + odd + ((1 << (drop - 1)) - 1)) & -(1 << drop)
    full = 8 if t == "i32" else 11
    sign = bits & -(1 << (31 if t == "i32" else 63))
    if exponent < full:
        size = bits & ((1 << (31 if t == "i32" else 63)) - 1)
        small_bias = (1 << (exponent - 1)) - 1
        biggest = (bias + small_bias) << whole | ((1 << whole) - 1)
        smallest = (bias - small_bias + 1) << whole
        infinity = ((1 << full) - 1) << whole
        size = b.select(size > biggest, infinity, b.select(size < smallest, 0, size), like=t)
        bits = size | sign
    return b.select(x.is_nan(), x, b.bitcast(bits, x.t))


def _nextafter(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    """One step of the integer that orders the dtype's floats."""
    powers = dtype == "float8_e8m0fnu"  # powers of two, all positive: its codes have no sign
    narrow_float = powers or dtype in FORMATS
    if narrow_float:
        t, sign_bit = "i32", 1 << (8 if powers else FORMATS[dtype].bits - 1)
        code = b.cast("zext", to_memory(b, dtype, x), "i32")
    else:
        t = "i32" if dtype == "f32" else "i64"
        sign_bit = 1 << (TYPE_BITS[t] - 1)
        code = b.bitcast(x, t)
    magnitude = code & (sign_bit - 1)
    negative = x < 0.0
    away = b.select(negative, y < x, y > x)
    stepped = b.select(away, magnitude + 1, magnitude - 1) | (code & sign_bit)
    least = b.select(y < 0.0, sign_bit | 1, 1, like=t)
    moved = b.select(x.eq(0.0), least, stepped)
    moved = b.select(x.eq(y), code, moved)
    if narrow_float:
        value = from_memory(b, dtype, b.cast("trunc", moved, memory_type(dtype)))
    else:
        value = b.bitcast(moved, x.t)
    return b.select(x.is_nan() | y.is_nan(), x + y, b.select(x.eq(y), y, value))


# ---- integers


def _integer(b: Builder, op: str, dtype: str, args: list[Val], attrs: dict[str, Any]) -> Val:
    signed, bits = dtype in SIGNED, BITS[dtype]
    x = args[0]
    y = args[1] if len(args) > 1 else x
    if op in ("add", "sub", "mul", "and", "or", "xor"):
        return b.binary(op, x, y)
    if op == "fma":
        return x * y + args[2]
    if op == "not":
        return ~x
    if op == "neg":
        return -x
    if op == "abs":
        return b.select(x < 0, -x, x) if signed else x
    if op == "sign":
        if not signed:
            return b.cast("zext", x.ne(0), x.t)
        return b.select(x > 0, 1, b.ashr(x, TYPE_BITS[x.t] - 1), like=x.t)
    if op == "integer_pow":
        return _integer_power(b, dtype, x, int(attrs["y"]))
    if op == "pow":
        return _pow(b, dtype, x, y)
    if op in _SHIFTS:
        return _SHIFTS[op](b, dtype, x, y)
    if op == "popcount":
        return b.call("ctpop", x & ((1 << bits) - 1) if bits < 8 else x)
    if op == "clz":
        value = x & ((1 << bits) - 1) if bits < 8 else x
        return b.call("ctlz", value, flags="i1 false") - (8 - bits if bits < 8 else 0)
    if op == "mulhi":
        return _mulhi(b, dtype, x, y)
    if op in ("idiv", "irem"):
        return _index_division(b, op, x, y)
    if op in ("div", "rem"):
        return _division(b, op, dtype, x, y)
    raise AssertionError(f"internal error in pullback: no integer operator {op!r}")


def _shl(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    bits = BITS[dtype]
    fits = b.compare("lt", y, bits, unsigned=True)
    return b.select(fits, x << b.select(fits, y, 0), 0, like=x.t)


def _shr_logical(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    bits = BITS[dtype]
    value = x & ((1 << bits) - 1) if bits < 8 else x
    fits = b.compare("lt", y, bits, unsigned=True)
    return b.select(fits, value >> b.select(fits, y, 0), 0, like=x.t)


def _shr_arith(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    bits = BITS[dtype]
    amount = b.select(b.compare("lt", y, bits, unsigned=True), y, bits - 1)
    if dtype not in SIGNED and bits < 8:
        x = b.ashr(x << (8 - bits), 8 - bits)
    return b.ashr(x, amount)


def _rotl(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    bits = BITS[dtype]
    if bits >= 8:
        return b.abreast(b.call("fshl", x, x, y))
    value = x & ((1 << bits) - 1)
    amount = y & (bits - 1)
    return (value << amount) | (value >> (bits - amount))


_SHIFTS: dict[str, Callable[[Builder, str, Val, Val], Val]] = {
    "shl": _shl,
    "shr_logical": _shr_logical,
    "shr_arith": _shr_arith,
    "rotl": _rotl,
}


def _mulhi(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    bits = BITS[dtype]
    if bits < 8:
        return b.ashr(x * y, bits) if dtype in SIGNED else (x * y) >> bits
    wide, op = f"i{2 * bits}", "sext" if dtype in SIGNED else "zext"
    return b.cast("trunc", (b.cast(op, x, wide) * b.cast(op, y, wide)) >> bits, x.t)


def _index_division(b: Builder, op: str, x: Val, y: Val) -> Val:
    """Both known to be in range. Vectors divide as doubles: exact for integers below 2**52."""
    divisor = int(y.c or 0)
    if divisor > 0 and divisor & (divisor - 1) == 0:
        return x >> (divisor.bit_length() - 1) if op == "idiv" else x & (divisor - 1)
    if x.n == 1 and y.n == 1:
        if y.c is None:  # hoisted out of a loop that never runs, the divisor may be an empty extent
            y = b.select(y.eq(0), 1, y, like=y.t)
        return b.binary("udiv" if op == "idiv" else "urem", x, y)
    if x.n > 1 and x.t == "i64" and b.target.level in ("avx2", "sse2"):
        return _division_in_doubles(b, op, x, y)
    quotient = b.cast("sitofp", x, "double") / b.cast("sitofp", y, "double")
    q = b.cast("fptosi", quotient, x.t)
    return q if op == "idiv" else x - q * y


TO_DOUBLE = 1 << 52  # from here to twice this, a double's last bits are an integer's
TO_INTEGER = 3 << 51  # the same in the middle of that range: what is added may be a bit less than 0


def _division_in_doubles(b: Builder, op: str, x: Val, y: Val) -> Val:
    """Of lanes in 0..2**51, where no instruction converts them: an integer in the last bits of
    2**52 is that much more than 2**52, and what is added to one and a half times that is rounded
    to an integer. (x + 1/2) / y is at least half a y-th away from what would be rounded to another
    one than x // y."""

    def double(v: Val) -> Val:
        if v.n == 1:
            return b.cast("sitofp", v, "double")
        return b.bitcast(v | b.bitcast(b.lit(float(TO_DOUBLE), "double"), "i64"), "double") - float(
            TO_DOUBLE
        )

    def integer(v: Val) -> Val:
        magic = b.bitcast(b.lit(float(TO_INTEGER), "double"), "i64")
        return b.bitcast(v + float(TO_INTEGER), "i64") ^ magic

    wide, by = double(x), double(y)
    quotient = (wide + 0.5) / by - 0.5
    if op == "idiv":
        return integer(quotient)
    whole = (quotient + float(TO_INTEGER)) - float(TO_INTEGER)
    return integer(wide - whole * by)


def _division(b: Builder, op: str, dtype: str, x: Val, y: Val) -> Val:
    """Division by zero and INT_MIN / -1 are defined, so the machine's division gets a harmless
    divisor there."""
    signed = dtype in SIGNED
    if _is_power(y) and BITS[dtype] >= 8:
        q = _shifted(b, signed, x, int(y.c or 0))
        return q if op == "div" else x - q * y
    if y.c not in (None, 0, -1) and BITS[dtype] >= 8:  # nothing is odd about a literal
        q = _quotient(b, signed, x, y)
        return q if op == "div" else x - q * y
    if _by_one_integer(x, y) and BITS[dtype] >= 8:
        return _division_by_one(b, op, signed, x, y)
    zero = y.eq(0)
    lowest = -(1 << (BITS[dtype] - 1))
    odd = zero | (x.eq(lowest) & y.eq(-1)) if signed and BITS[dtype] >= 8 else zero
    divisor = b.select(odd, 1, y, like=y.t)
    q = _quotient(b, signed, x, divisor)
    if op == "div":
        return b.select(zero, -1, q, like=x.t)
    return b.select(zero, x, x - q * divisor)


def _by_one_integer(x: Val, y: Val) -> bool:
    """Whether lanes are divided by one number of the same loop or an outer one."""
    return x.n > 1 and y.n == 1 and len(y.regs) == 1 and TYPE_BITS[x.t] < 64


def _division_by_one(b: Builder, op: str, signed: bool, x: Val, y: Val) -> Val:
    """The same where all lanes have one divisor: what is odd about it is asked once, before the
    loop, and so is its reciprocal computed. INT_MIN / -1 is -INT_MIN, which wraps."""
    zero, minus = y.eq(0), y.eq(-1)
    if not signed and TYPE_BITS[x.t] == 32 and b.target.level != "neon":
        return _words_by_one(b, op, x, y, zero)
    odd = zero | minus if signed else zero
    divisor = b.select(odd, 1, y, like=y.t)
    q = _quotient(b, signed, x, divisor)
    if op == "div":
        q = b.select(minus, 0 - q, q, like=x.t) if signed else q
        return b.select(zero, -1, q, like=x.t)
    rest = x - q * divisor  # 0 where the divisor is -1
    return b.select(zero, x, rest, like=x.t)


def _words_by_one(b: Builder, op: str, x: Val, y: Val, zero: Val) -> Val:
    """The same for unsigned words, by the high half of a product with m = (2**32 - 1) // y: it is
    the quotient or one less, as 2**32 / y is m + 1 at most and x is below 2**32. So the rest is the
    lesser of two, one of which wraps if it is the wrong one; of zero it is x, whatever m is."""
    m = b.binary("udiv", b.lit(-1, "i32"), b.select(zero, 1, y, like="i32"))
    q = _high_words(b, x, m)
    rest = x - q * y
    less = rest - y
    if op == "rem":
        return b.call("umin", rest, less)
    q = b.select(b.compare("ge", rest, y, unsigned=True), q + 1, q)
    return b.select(zero, -1, q, like="i32")


def _high_words(b: Builder, x: Val, m: Val) -> Val:
    """The high words of the products of words with one word: those in even and those in odd places
    by themselves, as processors multiply."""
    pairs, factor = b.regrouped(x, "i64", x.n // 2), b.cast("zext", m, "i64")
    even, odd = (pairs & 0xFFFFFFFF) * factor, (pairs >> 32) * factor
    return b.regrouped((even >> 32) | (odd & -(1 << 32)), "i32", x.n)


def _is_power(y: Val) -> bool:
    """Whether a divisor is a literal power of two that no sign bit is."""
    c = int(y.c or 0)
    return 0 < c < 1 << (TYPE_BITS[y.t] - 1) and c & (c - 1) == 0


def _shifted(b: Builder, signed: bool, x: Val, y: int) -> Val:
    """x / y for a power of two: towards zero, as negative numbers are made larger by y - 1."""
    k, bits = y.bit_length() - 1, TYPE_BITS[x.t]
    if k == 0:
        return x
    if not signed:
        return x >> k
    return b.ashr(x + (b.ashr(x, bits - 1) >> (bits - k)), k)


def _quotient(b: Builder, signed: bool, x: Val, y: Val) -> Val:
    bits = TYPE_BITS[x.t]
    if (x.n == 1 and y.n == 1) or bits == 64 or y.c is not None:
        return b.binary("sdiv" if signed else "udiv", x, y)
    extend = "sext" if signed else "zext"
    middle = "i64" if bits == 32 and not signed else "i32"
    real, larger = ("double", 2.0**-50) if bits == 32 else ("float", 2.0**-20)
    p, q = (b.cast("sitofp", b.cast(extend, v, middle), real) for v in (x, y))
    if y.n == 1 and len(y.regs) == 1:
        # One divisor for all lanes: its reciprocal, made larger by more than all roundings. The
        # product never falls below x / y, and is below the next integer: the quotient's distance
        # from that is 1 / y at least, and x < 2**32 (2**16 for floats).
        quotient = p * (b.lit(1.0 + larger, real) / q)
    else:  # the rounded quotient is no integer that the exact one is not: it would be that near
        quotient = p / q
    return b.cast("trunc", b.cast("fptosi", quotient, middle), x.t)


def _integer_power(b: Builder, dtype: str, x: Val, y: int) -> Val:
    one = b.lit(1, x.t)
    if y >= 0:
        return _integer_pow(b, x, y, one)
    return _pow(b, dtype, x, b.lit(y, x.t))


def _pow(b: Builder, dtype: str, x: Val, y: Val) -> Val:
    """Square and multiply; a negative exponent gives 1, -1 or 0 (0 ** negative is 0)."""
    one = b.splat(b.lit(1, x.t), max(x.n, y.n))
    shape = one.n
    width = max(len(x.regs), len(y.regs))

    def wide(v: Val) -> Val:
        regs = b.spread(v, shape)
        return Val(b, v.t, shape, tuple(regs[k % len(regs)] for k in range(width)))

    start = [wide(one), wide(x), wide(y)]
    signed = dtype in SIGNED
    if signed:
        start[2] = b.select(start[2] < 0, 0, start[2], like=y.t)

    def more(c: list[Val]) -> Val:
        return b.any_lane(c[2].ne(0))

    def step(c: list[Val]) -> list[Val]:
        odd = (c[2] & 1).ne(0)
        return [b.select(odd, c[0] * c[1], c[0]), c[1] * c[1], c[2] >> 1]

    result = wrap(b, dtype, b.while_loop(start, more, step)[0])
    if not signed:
        return result
    unit = b.select(
        x.eq(1),
        1,
        b.select(x.eq(-1), b.select((y & 1).ne(0), -1, 1, like=x.t), 0, like=x.t),
        like=x.t,
    )
    return b.select(y < 0, unit, result)


def combine(b: Builder, op: str, dtype: str, x: Val, y: Val) -> Val:
    """A named combiner of a reduction or an Update."""
    return emit_op(b, op, dtype, dtype, [x, y])
