"""Addresses: values that are linear in the vector index, loads and stores of scalars, vectors,
strided and gathered lanes.

`Lin` is an i64 that grows by a uniform stride from lane to lane; index arithmetic keeps it so, and
a load whose offset is a
Lin of stride 1 is one vector load. Other offsets are taken lane by lane: hardware gathers measured
slower.
"""

from __future__ import annotations

from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.convert import from_memory, memory_type, to_memory
from pullback.backends.llvm.literals import BITS as TYPE_BITS
from pullback.backends.llvm.shuffles import shuffled, transposed
from pullback.loops.ops import storage_bytes

WIDEST_STRIDE = 8  # elements; lanes further apart are loaded one by one

__all__ = [
    "WIDEST_STRIDE", "Index", "Lin", "index_binary", "load", "load_rows", "materialise", "store",
    "store_pairs", "store_rows",
]  # fmt: skip


class Lin:
    """base + stride * (lane number), for `n` lanes in `width` registers."""

    __slots__ = ("base", "n", "stride", "width")

    def __init__(self, base: Val, stride: Val, n: int, width: int) -> None:
        self.base, self.stride, self.n, self.width = base, stride, n, width


Index = Val | Lin


def materialise(b: Builder, x: Index, t: str = "i64") -> Val:
    """The lanes of a Lin, modulo the width of type t."""
    if isinstance(x, Val):
        return b.cast("trunc", x, t)
    base, stride = b.cast("trunc", x.base, t), b.cast("trunc", x.stride, t)
    first = base + b.lanes_of(t, x.n) * stride
    if x.width == 1:
        return first
    regs: list[str] = []
    for u in range(x.width):
        regs += b.spread(first + stride * (u * x.n), x.n)
    return Val(b, t, x.n, tuple(regs))


def index_binary(b: Builder, op: str, x: Index, y: Index) -> Index:
    """add, sub and mul on index values, linear where they stay linear."""
    if isinstance(x, Val) and isinstance(y, Val):
        return b.binary(op, x, y)
    lin, other = (x, y) if isinstance(x, Lin) else (y, x)
    assert isinstance(lin, Lin)
    if isinstance(other, Val) and other.n == 1 and len(other.regs) == 1:
        if op == "add" or (op == "sub" and lin is x):
            return Lin(b.binary(op, _base(x), _base(y)), lin.stride, lin.n, lin.width)
        if op == "mul":
            base, stride = lin.base * other, lin.stride * other
            return base if stride.c == 0 else Lin(base, stride, lin.n, lin.width)
    uniform = all(isinstance(v, Lin) or (v.n == 1 and len(v.regs) == 1) for v in (x, y))
    if uniform and op in ("add", "sub"):
        zero = b.lit(0, "i64")
        strides = [v.stride if isinstance(v, Lin) else zero for v in (x, y)]
        stride = b.binary(op, *strides)
        base = b.binary(op, _base(x), _base(y))
        return base if stride.c == 0 else Lin(base, stride, lin.n, lin.width)
    return b.binary(op, materialise(b, x), materialise(b, y))


def _base(v: Index) -> Val:
    """What an index begins with."""
    return v.base if isinstance(v, Lin) else v


def offset(b: Builder, shape: list[Val], index: list[Index]) -> Index:
    """Row-major element offset."""
    if not index:
        return b.lit(0, "i64")
    total = index[0]
    for k in range(1, len(index)):
        total = index_binary(b, "add", index_binary(b, "mul", total, shape[k]), index[k])
    return total


def _vector_pointer(b: Builder, base: Val, at: Val, lane: int, size: int) -> Val:
    return b.gep(b.gep(base, at, size), b.lit(lane * size, "i64"))


def load(
    b: Builder,
    dtype: str,
    base: Val,
    at: Index,
    mask: Val | None,
    other: Val | None,
    outside: bool = False,
) -> Val:
    """The element(s) at an offset; lanes outside `mask` are not touched and give `other` (or
    anything). `outside`: they may be far from the array."""
    t, size = memory_type(dtype), storage_bytes(dtype)
    if isinstance(at, Val) and at.n == 1 and len(at.regs) == 1:
        raw = _load_uniform(b, t, b.gep(base, at, size), mask)
    elif isinstance(at, Lin) and at.n > 1 and at.stride.c == 1:
        raw = _load_contiguous(b, t, size, base, at, mask, outside)
    elif isinstance(at, Lin) and at.n > 1 and at.stride.c == -1:
        turned = None if mask is None else _turned(b, b.splat(mask, at.n), at)
        below = _load_contiguous(b, t, size, base, _from_below(at), turned, outside)
        raw = _turned(b, below, at)
    elif mask is None and isinstance(at, Lin) and at.n > 1 and at.stride.c == 2:
        raw = _load_alternate(b, t, size, base, at)
    elif isinstance(at, Lin) and _is_interleaved(b, at, mask, size):
        raw = _load_interleaved(b, t, size, base, at, mask)
    elif isinstance(at, Lin) and _is_interleaved(b, _from_below(at), mask, size):
        turned = None if mask is None else _turned(b, b.splat(mask, at.n), at)
        raw = _turned(b, _load_interleaved(b, t, size, base, _from_below(at), turned), at)
    else:
        raw = _gather(b, t, size, base, at, mask)
    value = from_memory(b, dtype, raw)
    return value if mask is None or other is None else b.select(mask, value, other)


def store_pairs(b: Builder, dtype: str, base: Val, at: Lin, x: Val, y: Val) -> None:
    """x to every other element from `at` on, y to those between: both parts of complex numbers."""
    t, size, n = memory_type(dtype), storage_bytes(dtype), at.n
    vt = f"<{n} x {t}>"
    left, right = (b.spread(to_memory(b, dtype, v), n) for v in (x, y))
    for u in range(at.width):
        for half in (0, 1):
            picks = [half * n // 2 + k // 2 + (k % 2) * n for k in range(n)]
            value = shuffled(b, vt, left[u % len(left)], right[u % len(right)], picks)
            pointer = _vector_pointer(b, base, at.base, (2 * u + half) * n, size).regs[0]
            b.line(f"store {vt} {value}, ptr {pointer}, align {size}")


def store_rows(b: Builder, dtype: str, base: Val, at: Lin, columns: list[Val]) -> None:
    """As many values for each lane as the stride is long, one beside the other: each vector of
    memory is put together by shuffles."""
    t, size, n, stride = memory_type(dtype), storage_bytes(dtype), at.n, len(columns)
    vt = f"<{n} x {t}>"
    regs = [b.spread(to_memory(b, dtype, v), n) for v in columns]
    doubling = size < 4 and stride & (stride - 1) == 0
    put_together = _interleaved if doubling else _picked
    for u in range(at.width):
        lanes = [r[u % len(r)] for r in regs]
        if stride > WIDEST_STRIDE and n <= 2 * stride:
            origin = _vector_pointer(b, base, at.base, u * stride * n, size)
            _store_turned(b, t, size, origin, n, lanes)
            continue
        for part, whole in enumerate(put_together(b, t, n, lanes)):
            pointer = _vector_pointer(b, base, at.base, (u * stride + part) * n, size).regs[0]
            b.line(f"store {vt} {whole}, ptr {pointer}, align {size}")


def _picked(b: Builder, t: str, n: int, lanes: list[str]) -> list[str]:
    """The elements of some columns, row by row: each vector takes from all of them."""
    stride, vt, vectors = len(lanes), f"<{n} x {t}>", []
    for part in range(stride):
        wanted = [divmod(part * n + k, stride) for k in range(n)]
        whole = lanes[0]
        for column in range(1, stride):
            picks = [
                n + row if c == column else (row if column == 1 and c == 0 else k)
                for k, (row, c) in enumerate(wanted)
            ]
            whole = shuffled(b, vt, whole, lanes[column], picks)
        vectors.append(whole)
    return vectors


def _interleaved(b: Builder, t: str, n: int, lanes: list[str]) -> list[str]:
    """The same for a power of two: two columns become one of pairs, and so on."""
    if len(lanes) == 1:
        return lanes
    even, odd = (_interleaved(b, t, n, lanes[k::2]) for k in (0, 1))
    return [
        shuffled(b, f"<{n} x {t}>", x, y, [half * n // 2 + k // 2 + k % 2 * n for k in range(n)])
        for x, y in zip(even, odd, strict=True)
        for half in (0, 1)
    ]


def load_rows(b: Builder, dtype: str, base: Val, at: Lin, stride: int) -> list[Val]:
    """The values of all places from `at` on that lanes, a stride apart, have before the next one:
    whole vectors are loaded and taken apart: of a power of two, halving the stride each time."""
    t, size, n = memory_type(dtype), storage_bytes(dtype), at.n
    vt = f"<{n} x {t}>"
    columns: list[list[str]] = [[] for _ in range(stride)]

    def split(vectors: list[str], first: int, step: int) -> None:
        if len(vectors) == 1:
            columns[first].append(vectors[0])
            return
        for k in (0, 1):
            picks = list(range(k, 2 * n, 2))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            half = [shuffled(b, vt, x, y, picks) for x, y in pairs]
            split(half, first + k * step, 2 * step)

    for u in range(at.width):
        if stride > WIDEST_STRIDE:
            origin = _vector_pointer(b, base, at.base, u * stride * n, size)
            turned = _load_turned(b, t, size, origin, n, stride)
            for column, reg in zip(columns, turned, strict=True):
                column.append(reg)
            continue
        vectors = []
        for part in range(stride):
            pointer = _vector_pointer(b, base, at.base, (u * stride + part) * n, size).regs[0]
            vectors.append(b.impure_reg(f"load {vt}, ptr {pointer}, align {size}"))
        if stride & (stride - 1) == 0:
            split(vectors, 0, 1)
            continue
        for first, column in enumerate(columns):
            column.append(_picked_out(b, vt, vectors, [first + k * stride for k in range(n)]))
    return [from_memory(b, dtype, Val(b, t, n, tuple(column))) for column in columns]


def _load_turned(b: Builder, t: str, size: int, base: Val, n: int, stride: int) -> list[str]:
    """The columns of n rows of so many elements: blocks of n x n are transposed. Nothing outside of
    the rows is touched: the last block begins earlier; the last of rows that are shorter than a
    vector ends where they end, and their lanes are put in place."""
    vt = f"<{n} x {t}>"
    columns: list[str] = []
    while len(columns) < stride:
        first = max(min(len(columns), stride - n), 0)
        rows = []
        for row in range(n):
            place = row * stride + first
            start = min(place, n * stride - n)
            pointer = b.gep(base, b.lit(start * size, "i64")).regs[0]
            reg = b.impure_reg(f"load {vt}, ptr {pointer}, align {size}")
            picks = [(k + place - start) % n for k in range(n)]
            rows.append(reg if place == start else shuffled(b, vt, reg, "poison", picks))
        columns += transposed(b, vt, rows)[len(columns) - first : stride - first]
    return columns


def _store_turned(b: Builder, t: str, size: int, base: Val, n: int, columns: list[str]) -> None:
    """n rows of so many elements, of which columns are given: blocks of n x n are transposed. What
    a vector writes behind its row, the next row's vector overwrites; the last one begins
    earlier, with the end of the row before. A vector is no longer than two rows."""
    vt, stride, done = f"<{n} x {t}>", len(columns), 0
    while done < stride:
        first = max(min(done, stride - n), 0)
        block = columns[first : first + n]
        rows = transposed(b, vt, block + block[:1] * (n - len(block)))
        for row, reg in enumerate(rows):
            place = row * stride + first
            start = min(place, n * stride - n)
            if place > start:  # the last row, and before it the end of the one before
                late = place - start
                picks = [stride - late + k if k < late else n + k - late for k in range(n)]
                reg = shuffled(b, vt, rows[row - 1], reg, picks)
            pointer = b.gep(base, b.lit(start * size, "i64")).regs[0]
            b.line(f"store {vt} {reg}, ptr {pointer}, align {size}")
        done = first + n


def _picked_out(b: Builder, vt: str, vectors: list[str], places: list[int]) -> str:
    """The elements at these places, in increasing order, of vectors that lie one after another."""
    n, whole = len(places), vectors[0]
    for j, vector in enumerate(vectors[1:], 1):
        picks = []
        for k, place in enumerate(places):
            source, at = divmod(place, n)
            kept = at if j == 1 and source == 0 else k
            picks.append(n + at if source == j else kept)
        whole = shuffled(b, vt, whole, vector, picks)
    return whole


def _from_below(at: Lin) -> Lin:
    """The places of lanes that go down, upwards."""
    last = at.base + at.stride * (at.n * at.width - 1)
    return Lin(last, at.stride * -1, at.n, at.width)


def _turned(b: Builder, v: Val, at: Lin) -> Val:
    """Lanes in the opposite order, over all registers."""
    vt = f"<{v.n} x {v.t}>"
    picks = list(reversed(range(v.n)))
    regs = [v.regs[u % len(v.regs)] for u in range(at.width)]
    return Val(
        b,
        v.t,
        v.n,
        tuple(shuffled(b, vt, r, "poison", picks) for r in reversed(regs)),
    )


def _load_alternate(b: Builder, t: str, size: int, base: Val, at: Lin) -> Val:
    """Every other element, as the parts of complex numbers lie: two loads that end with the last
    one, and a shuffle."""
    regs, n = [], at.n
    vt = f"<{n} x {t}>"
    picks = [k if k < n else k + 1 for k in range(0, 2 * n, 2)]
    for u in range(at.width):
        halves = []
        for start in (0, n - 1):
            pointer = _vector_pointer(b, base, at.base, u * 2 * n + start, size).regs[0]
            halves.append(b.impure_reg(f"load {vt}, ptr {pointer}, align {size}"))
        regs.append(shuffled(b, vt, halves[0], halves[1], picks))
    return Val(b, t, n, tuple(regs))


def _store_alternate(b: Builder, t: str, size: int, base: Val, at: Lin, raw: Val) -> None:
    """Every other element: what lies between keeps what it has."""
    n, values = at.n, b.spread(raw, at.n)
    vt, name = f"<{n} x {t}>", _masked(b, "store", t, n)
    mask = ", ".join(f"i1 {'false' if k % 2 else 'true'}" for k in range(n))
    for u in range(at.width):
        value = values[u % len(values)]
        for half in range(2):
            wide = shuffled(b, vt, value, "poison", [(half * n + k) // 2 for k in range(n)])
            pointer = _vector_pointer(b, base, at.base, (2 * u + half) * n, size).regs[0]
            b.line(
                f"call void @{name}({vt} {wide}, ptr {pointer}, i32 {size}, <{n} x i1> <{mask}>)"
            )


def _load_uniform(b: Builder, t: str, pointer: Val, mask: Val | None) -> Val:
    if mask is None:
        return b.load(t, pointer)
    if mask.n == 1 and len(mask.regs) == 1:
        return b.load(t, b.select(mask, pointer, b.nowhere()))
    return b.load(t, b.select(b.any_lane(mask), pointer, b.nowhere()))


def _load_contiguous(
    b: Builder, t: str, size: int, base: Val, at: Lin, mask: Val | None, outside: bool
) -> Val:
    """Neighbours, as vectors. A masked load of no lane at all is slow where the address is of a
    page that is not there: hundreds of cycles, in which the processor finds that nothing is
    wrong. So what may lie `outside` is read elsewhere then."""
    regs = []
    for u in range(at.width):
        pointer = _vector_pointer(b, base, at.base, u * at.n, size)
        if mask is None:
            regs.append(b.impure_reg(f"load <{at.n} x {t}>, ptr {pointer.regs[0]}, align {size}"))
            continue
        name = _masked(b, "load", t, at.n)
        m = b.spread(mask, at.n)
        here = m[u % len(m)]
        if outside and not b.brief:
            some = b.any_lane(Val(b, "i1", mask.n, (mask.regs[u % len(mask.regs)],)))
            pointer = b.select(some, pointer, b.nowhere())
        vt = f"<{at.n} x {t}>"
        regs.append(
            b.impure_reg(
                f"call {vt} @{name}(ptr {pointer.regs[0]}, i32 {size}, <{at.n} x i1> {here}, {vt} "
                "zeroinitializer)"
            )
        )
    return Val(b, t, at.n, tuple(regs))


def _masked(b: Builder, kind: str, t: str, n: int) -> str:
    name = f"llvm.masked.{kind}.v{n}{_suffix(t)}.p0"
    vt = f"<{n} x {t}>"
    if kind == "load":
        b.declarations[name] = f"declare {vt} @{name}(ptr, i32, <{n} x i1>, {vt})"
    else:
        b.declarations[name] = f"declare void @{name}({vt}, ptr, i32, <{n} x i1>)"
    return name


def lane_pointers(b: Builder, size: int, base: Val, at: Index, mask: Val | None) -> list[list[Val]]:
    """For each register, the address of each lane; masked lanes point nowhere in particular."""
    n, width = (at.n, at.width) if isinstance(at, Lin) else (at.n, len(at.regs))
    if mask is not None and n > 1 and not b.brief:
        return _masked_pointers(b, size, base, at, mask, width)
    masks = b.spread(mask, n) if mask is not None else ()
    rows = []
    first = b.gep(base, at.base, size) if isinstance(at, Lin) else base
    for u in range(width):
        row = []
        for lane in range(n):
            if isinstance(at, Lin):
                pointer = b.gep(first, at.stride * (u * n + lane), size)
            else:
                element = Val(b, "i64", 1, (b.extract(at.regs[u], "i64", n, lane),))
                pointer = b.gep(base, element, size)
            if masks:
                bit = Val(b, "i1", 1, (b.extract(masks[u % len(masks)], "i1", n, lane),))
                pointer = b.select(bit, pointer, b.nowhere())
            row.append(pointer)
        rows.append(row)
    return rows


def _masked_pointers(
    b: Builder, size: int, base: Val, at: Index, mask: Val, width: int
) -> list[list[Val]]:
    """The same for several lanes: distances from the array are chosen together, where to take a
    mask apart would cost as much as all else."""
    n = at.n
    away = b.cast("ptrtoint", b.nowhere(), "i64") - b.cast("ptrtoint", base, "i64")
    apart = materialise(b, at) * size  # one number where lanes lie at a stride of nothing
    chosen = b.select(b.splat(mask, n), b.splat(apart, n), away)
    regs = [chosen.regs[u % len(chosen.regs)] for u in range(max(width, len(chosen.regs)))]
    lanes = [[Val(b, "i64", 1, (b.extract(r, "i64", n, k),)) for k in range(n)] for r in regs]
    return [[b.gep(base, lane, 1) for lane in row] for row in lanes]


def _is_interleaved(b: Builder, at: Lin, mask: Val | None, size: int) -> bool:
    """Whether lanes lie at a small stride, so that whole vectors cost less than their elements."""
    stride = at.stride.c
    if stride is None or not 2 <= stride <= WIDEST_STRIDE or at.n < 4 or at.n < stride:
        return False
    if scattered_briefly(b, size, at.n):
        return False
    return mask is None or (b.target.masks and size >= 4 and mask.n == at.n)


def _load_interleaved(b: Builder, t: str, size: int, base: Val, at: Lin, mask: Val | None) -> Val:
    """Every stride-th element of some vectors in a row, picked out by shuffles. Nothing outside
    the elements asked for is touched: the last vector ends with the last of them."""
    n, stride = at.n, int(at.stride.c)
    vt = f"<{n} x {t}>"
    last = (n - 1) * stride
    starts = [min(k * n, last - n + 1) for k in range(stride)]
    regs = []
    masks = b.spread(mask, n) if mask is not None else ()
    for u in range(at.width):
        origin = at.base + u * n * stride
        whole, filled = "", 0
        for k, start in enumerate(starts):
            pointer = b.gep(b.gep(base, origin, size), b.lit(start * size, "i64")).regs[0]
            if mask is None:
                part = b.impure_reg(f"load {vt}, ptr {pointer}, align {size}")
            else:
                m = _spread_mask(b, masks[u % len(masks)], n, stride, start)
                name = _masked(b, "load", t, n)
                rest = f"i32 {size}, <{n} x i1> {m}, {vt} zeroinitializer"
                part = b.impure_reg(f"call {vt} @{name}(ptr {pointer}, {rest})")
            end = n if k == stride - 1 else -(-(k + 1) * n // stride)
            picks = [
                j if j < filled else n + j * stride - start if j < end else 0 for j in range(n)
            ]
            if not whole:
                picks = [j * stride - start if j < end else 0 for j in range(n)]
            whole, filled = shuffled(b, vt, whole or part, part, picks), end
        regs.append(whole)
    return Val(b, t, n, tuple(regs))


def _spread_mask(b: Builder, mask: str, n: int, stride: int, start: int) -> str:
    """The mask of lanes as one of a vector's elements: those that are an active lane's."""
    picks = []
    for j in range(n):
        place = start + j
        picks.append(place // stride if place % stride == 0 else n)
    return shuffled(b, f"<{n} x i1>", mask, "zeroinitializer", picks)


def by_addresses(b: Builder, size: int, lanes: int) -> bool:
    """Whether lanes anywhere in memory are loaded and stored by one instruction."""
    return (b.target.gathers and _by_one(size, lanes)) or scattered_briefly(b, size, lanes)


def scattered_briefly(b: Builder, size: int, lanes: int) -> bool:
    """Whether lanes at a stride are loaded and stored by their addresses, fast or not, because LLVM
    has less to do: a shuffle of vectors takes it a tenth of a millisecond."""
    return b.brief and b.target.masks and _by_one(size, lanes)


def _by_one(size: int, lanes: int) -> bool:
    return size in (4, 8) and lanes in (2, 4, 8, 16)


def _addresses(
    b: Builder, t: str, base: Val, at: Index, mask: Val | None, width: int = 1
) -> list[tuple[str, str]]:
    """For each register, the addresses of its lanes and their mask."""
    n = at.n
    own = at.width if isinstance(at, Lin) else len(at.regs)
    width = max(width, own, 1 if mask is None else len(b.spread(mask, n)))
    masks = ("splat (i1 true)",) if mask is None else b.spread(mask, n)
    rows = []
    for u in range(width):
        if isinstance(at, Lin):
            stride = int(at.stride.c)
            first = b.gep(base, at.base + u * n * stride, TYPE_BITS[t] // 8).regs[0]
            steps = ", ".join(f"i32 {k * stride}" for k in range(n))
            text = f"getelementptr {t}, ptr {first}, <{n} x i32> <{steps}>"
        else:
            lanes = at.regs[u % len(at.regs)]
            text = f"getelementptr {t}, ptr {base.regs[0]}, <{n} x {at.t}> {lanes}"
        rows.append((b.impure_reg(text), masks[u % len(masks)]))
    return rows


def _has_addresses(at: Index) -> bool:
    """Whether the addresses of lanes are a register's, or steps that are known."""
    if isinstance(at, Val):
        return True
    return at.n > 1 and at.stride.c is not None and 0 < abs(at.stride.c) < 1 << 24


def _known(b: Builder, at: Index, size: int) -> Index:
    """Places of lanes: those at a stride that is not known as they are, if that is less code."""
    if isinstance(at, Val) or _has_addresses(at) or at.stride.c == 0:
        return at
    if not scattered_briefly(b, size, at.n):
        return at
    return materialise(b, at)


def _suffix(t: str) -> str:
    return {"float": "f32", "double": "f64"}.get(t, t)


def _gather(b: Builder, t: str, size: int, base: Val, at: Index, mask: Val | None) -> Val:
    at, regs = _known(b, at, size), []
    if _has_addresses(at) and by_addresses(b, size, at.n):
        name = f"llvm.masked.gather.v{at.n}{_suffix(t)}.v{at.n}p0"
        vt, pt, mt = f"<{at.n} x {t}>", f"<{at.n} x ptr>", f"<{at.n} x i1>"
        b.declarations[name] = f"declare {vt} @{name}({pt}, i32, {mt}, {vt})"
        for pointers, m in _addresses(b, t, base, at, mask):
            text = f"call {vt} @{name}({pt} {pointers}, i32 {size}, {mt} {m}, {vt} zeroinitializer)"
            regs.append(b.impure_reg(text))
        return Val(b, t, at.n, tuple(regs))
    for row in lane_pointers(b, size, base, at, mask):
        values = [b.load(t, p).regs[0] for p in row]
        if len(row) == 1:
            regs.append(values[0])
            continue
        whole = "poison"
        for lane, value in enumerate(values):
            whole = b.impure_reg(
                f"insertelement <{len(row)} x {t}> {whole}, {t} {value}, i64 {lane}"
            )
        regs.append(whole)
    return Val(b, t, at.n, tuple(regs))


def store(b: Builder, dtype: str, base: Val, at: Index, value: Val, mask: Val | None) -> None:
    """Writes the element(s) at an offset, except the lanes outside `mask`."""
    t, size = memory_type(dtype), storage_bytes(dtype)
    uniform = isinstance(at, Val) and at.n == 1 and len(at.regs) == 1
    raw = to_memory(b, dtype, value)
    if uniform and (mask is None or mask.n == 1) and raw.n == 1 and len(raw.regs) == 1:
        assert isinstance(at, Val)
        pointer = b.gep(base, at, size)
        b.store(raw, pointer if mask is None else b.select(mask, pointer, b.nowhere()))
        return
    if isinstance(at, Lin) and at.n > 1 and at.stride.c == 1:
        _store_contiguous(b, t, size, base, at, raw, mask)
        return
    if isinstance(at, Lin) and at.n > 1 and at.stride.c == -1:
        turned = None if mask is None else _turned(b, b.splat(mask, at.n), at)
        downwards = _turned(b, b.splat(raw, at.n), at)
        _store_contiguous(b, t, size, base, _from_below(at), downwards, turned)
        return
    if mask is None and isinstance(at, Lin) and at.n > 1 and at.stride.c == 2:
        _store_alternate(b, t, size, base, at, raw)
        return
    n = max(at.n, raw.n, mask.n if mask is not None else 1)
    width = max(at.width if isinstance(at, Lin) else len(at.regs), len(raw.regs))
    if uniform:
        zero = b.lit(0, "i64")
        assert isinstance(at, Val)
        at = Lin(at, zero, n, width)
    at, values = _known(b, at, size), b.spread(raw, n)
    if _has_addresses(at) and at.n == n and by_addresses(b, size, n):
        name = f"llvm.masked.scatter.v{n}{_suffix(t)}.v{n}p0"
        vt, pt, mt = f"<{n} x {t}>", f"<{n} x ptr>", f"<{n} x i1>"
        b.declarations[name] = f"declare void @{name}({vt}, {pt}, i32, {mt})"
        for u, (pointers, m) in enumerate(_addresses(b, t, base, at, mask, width)):
            lanes = values[u % len(values)]
            b.line(f"call void @{name}({vt} {lanes}, {pt} {pointers}, i32 {size}, {mt} {m})")
        return
    for u, row in enumerate(lane_pointers(b, size, base, at, mask)):
        for lane, pointer in enumerate(row):
            element = Val(b, t, 1, (b.extract(values[u % len(values)], t, n, lane),))
            b.store(element, pointer)


def _only_lane(mask: str) -> int | None:
    """The lane that is on in a literal mask that has one. LLVM 22 makes a scalar store of such a
    masked store itself, of four bytes where one or two were narrowed from a wider vector: it would
    write over the elements behind, which may be another thread's or nobody's."""
    bits = mask.split(",") if mask.startswith("<") else []
    on = [k for k, bit in enumerate(bits) if "true" in bit]
    return on[0] if len(on) == 1 else None


def _is_kept_whole(b: Builder, value: str, size: int) -> bool:
    """Whether a store must say that all of it counts. LLVM makes a masked store of one that puts
    some of the elements back as they were read, which takes AMD's processors as long as a dozen
    others where masks are vectors."""
    return not b.target.masks and b.target.can_mask(size) and value in b.selected


def _lane(b: Builder, pointer: str, offset: int) -> str:
    return b.gep(Val(b, "ptr", 1, (pointer,)), b.lit(offset, "i64")).regs[0]


def _store_contiguous(
    b: Builder, t: str, size: int, base: Val, at: Lin, raw: Val, mask: Val | None
) -> None:
    values = b.spread(raw, at.n)
    for u in range(at.width):
        pointer = _vector_pointer(b, base, at.base, u * at.n, size).regs[0]
        value = values[u % len(values)]
        if mask is None:
            how = "store volatile" if _is_kept_whole(b, value, size) else "store"
            b.line(f"{how} <{at.n} x {t}> {value}, ptr {pointer}, align {size}")
            continue
        masks = b.spread(mask, at.n)
        m = masks[u % len(masks)]
        alone = _only_lane(m)
        if alone is not None:
            element = b.extract(value, t, at.n, alone)
            b.line(f"store {t} {element}, ptr {_lane(b, pointer, alone * size)}, align {size}")
            continue
        name, vt = _masked(b, "store", t, at.n), f"<{at.n} x {t}>"
        b.line(f"call void @{name}({vt} {value}, ptr {pointer}, i32 {size}, <{at.n} x i1> {m})")
