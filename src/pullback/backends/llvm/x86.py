"""Instructions that processors of x86 alone have: scaling by powers of two, larger and smaller of
numbers and NaNs, estimates of reciprocal roots. AVX-512 has all of them.
"""

from __future__ import annotations

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.literals import BITS, FLOATS

__all__ = ["ranged", "rsqrt_estimate", "scalef", "scales"]


def scales(b: Builder, x: Val) -> bool:
    """Whether the machine has `scalef` for so many lanes."""
    return b.target.masks and (x.n == 1 or x.n * BITS[x.t] in (128, 256, 512))


def scalef(b: Builder, x: Val, n: Val) -> Val | None:
    """x * 2**n for a whole n, rounded once; None where the machine has it not."""
    lanes = max(x.n, n.n)
    if lanes == 1:
        few = _fewest(x.t)
        wide = scalef(b, b.splat(x, few), b.splat(n, few))
        assert wide is not None
        return _first(b, wide)
    return _masked_pair(b, "scalef", x, n)


def ranged(b: Builder, x: Val, y: Val, largest: bool) -> Val | None:
    """The larger (or smaller) of x and y, zeros by their sign; of a number and a NaN the number.
    None where the machine has it not."""
    option = f"i32 {5 if largest else 4}, "
    if x.n > 1 or y.n > 1:
        return _masked_pair(b, "range", x, y, option)
    few = _fewest(x.t)
    wide = _masked_pair(b, "range", _as_first(b, x, few), _as_first(b, y, few), option)
    return None if wide is None else _first(b, wide)


def rsqrt_estimate(b: Builder, x: Val) -> Val | None:
    """1 / sqrt(x) as the machine's quick instruction has it: floats to 12 bits, which are the
    maker's choice, doubles to 14. None where it has none."""
    few, wide = (4, 8) if x.t == "float" else (2, 8)
    if x.n == 1:
        found = rsqrt_estimate(b, _as_first(b, x, few))
        return None if found is None else _first(b, found)
    if x.n > wide:  # the same 12 bits as of fewer lanes
        low, high = (rsqrt_estimate(b, _half(b, x, k)) for k in (0, 1))
        return None if low is None or high is None else _joined(b, low, high)
    vector = b.ty(x.t, x.n)
    if x.t == "float":
        if "x86_64" not in b.target.triple or x.n not in (4, 8):
            return None
        name = {4: "llvm.x86.sse.rsqrt.ps", 8: "llvm.x86.avx.rsqrt.ps.256"}[x.n]
        b.declarations[name] = f"declare {vector} @{name}({vector})"
        return b.pure(f"call {{R}} @{name}({{T}} {{0}})", (x,), x.t)
    if not b.target.masks:
        return None
    name = f"llvm.x86.avx512.rsqrt14.pd.{x.n * 64}"
    b.declarations[name] = f"declare {vector} @{name}({vector}, {vector}, i8)"
    form = f"call {{R}} @{name}({{T}} {{0}}, {{T}} zeroinitializer, i8 -1)"
    return b.pure(form, (x,), x.t)


def _masked_pair(b: Builder, name: str, x: Val, y: Val, option: str = "") -> Val | None:
    """AVX-512's masked intrinsic of x and y, and perhaps an option, in all lanes; None where no
    register has that size."""
    n, t = max(x.n, y.n), x.t
    bits = n * BITS[t]
    if bits not in (128, 256, 512) or t not in FLOATS:
        return None
    full = f"llvm.x86.avx512.mask.{name}.{'ps' if t == 'float' else 'pd'}.{bits}"
    vector, mask = b.ty(t, n), f"i{max(8, n)}"
    if full not in b.declarations:
        types = [vector, vector, *(["i32"] if option else []), vector, mask]
        types += ["i32"] if bits == 512 else []
        b.declarations[full] = f"declare {vector} @{full}({', '.join(types)})"
    rest = f"{option}{{T}} zeroinitializer, {mask} -1"
    rounding = ", i32 4" if bits == 512 else ""
    return b.pure(f"call {{R}} @{full}({{T}} {{0}}, {{T}} {{1}}, {rest}{rounding})", (x, y), t)


def _fewest(t: str) -> int:
    """The lanes of the smallest register."""
    return 4 if t == "float" else 2


def _first(b: Builder, x: Val) -> Val:
    """The first of the lanes of each register."""
    return Val(b, x.t, 1, tuple(b.extract(r, x.t, x.n, 0) for r in x.regs))


def _as_first(b: Builder, x: Val, n: int) -> Val:
    """Registers that have single numbers as the first of their lanes."""
    form = f"insertelement <{n} x {x.t}> poison, {x.t} "
    regs = (b.pure_reg(f"{form}{r}, i64 0", (r,)) for r in x.regs)
    return Val(b, x.t, n, tuple(regs))


def _half(b: Builder, x: Val, k: int) -> Val:
    """The first or the second half of the lanes."""
    n = x.n // 2
    lanes = ", ".join(f"i32 {k * n + i}" for i in range(n))
    form = f"<{x.n} x {x.t}> poison, <{n} x i32> <{lanes}>"
    regs = (b.pure_reg(f"shufflevector <{x.n} x {x.t}> {r}, {form}", (r,)) for r in x.regs)
    return Val(b, x.t, n, tuple(regs))


def _joined(b: Builder, low: Val, high: Val) -> Val:
    """Two vectors, register by register one after the other."""
    n = low.n
    lanes = ", ".join(f"i32 {i}" for i in range(2 * n))
    one, order = f"<{n} x {low.t}>", f"<{2 * n} x i32> <{lanes}>"
    regs = (
        b.pure_reg(f"shufflevector {one} {p}, {one} {q}, {order}", (p, q))
        for p, q in zip(low.regs, high.regs, strict=True)
    )
    return Val(b, low.t, 2 * n, tuple(regs))
