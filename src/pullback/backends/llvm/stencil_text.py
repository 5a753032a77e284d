"""Stencils as textual IR: for each operator and type a function that reads its operands from a
frame, computes by the emitter's own rules (arith.py), so that the bits are those of all other code,
and writes the result to the frame (stencils.py says what for).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.backends.llvm import arith, link
from pullback.backends.llvm.access import Lin, load, load_rows, store, store_pairs
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.called import call_of
from pullback.backends.llvm.convert import from_memory, memory_type, register_type, to_memory
from pullback.backends.llvm.literals import BITS as TYPE_BITS
from pullback.backends.llvm.shuffles import shuffled
from pullback.backends.llvm.table import FUNCTIONS_CALLED
from pullback.backends.llvm.target import Target
from pullback.backends.llvm.workshop import Job
from pullback.loops.ops import BITS, OPS
from pullback.records import record

__all__ = ["NARROW", "SCALARS", "Batch", "Key", "batches", "is_rare", "slot_bytes"]

# Operator, the operands' dtype, the result's, lanes; then what else tells stencils apart.
Key = tuple[Any, ...]
HOLES = 6
MODULES = 3  # that they are compiled in, by whatever threads there are
# LLVM's quick path: one way out of a function, where its text has it, and no address is computed
# once for several instructions.
CODEGEN = 0
ENDING = frozenset({"store", "scatter", "together"})  # do not end with a write to the frame
SCALARS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64")
NARROW = ("f16", "bf16")  # floats that are computed with as f32, and rounded
# In lanes of four bytes; what tells places is two registers then.
_OF_FOUR = ("f32", "i32", "u32", "bool", "i64", "u64")
_OF_EIGHT = ("f64", "i64", "u64", "f32", "i32", "u32", "bool")  # and of eight
_PLACES = frozenset(
    "add sub mul idiv irem min max clamp lt le gt ge eq ne and or xor shl shr_logical".split()
)
# The types of usual stencils. Others, and lanes of eight bytes, are compiled when one is first
# asked for: who computes with neither float64 nor narrow numbers spares LLVM half of the work.
USUAL = frozenset("bool i32 i64 u32 u64 f32".split())
_TYPES = frozenset((*SCALARS, *NARROW))
# What has stencils of its own, other attributes, or none.
_LEFT_OUT = frozenset({"reduce_precision", "integer_pow", "round", "convert", "bitcast", "select"})


def slot_bytes(dtype: str, n: int, target: Target) -> int:
    """The bytes of a value in the frame; truth values in lanes are as wide as the lanes."""
    t = _slot_type(dtype, n, target)
    return n * TYPE_BITS[t] // 8


def _slot_type(dtype: str, n: int, target: Target) -> str:
    if dtype == "ptr":
        return "ptr"
    if dtype == "bool":
        return "i8" if n == 1 else f"i{max(8, 8 * target.vector_bytes // n)}"
    return register_type(dtype)


class _Writer:
    """One stencil as textual IR."""

    def __init__(self, target: Target, name: str, declarations: dict[str, str]) -> None:
        self.target = target
        self.b = Builder(target, f"define void @{name}(ptr %f) nounwind", declarations, True)
        self.b.calls = True
        self.holes = 0

    def place(self) -> Val:
        hole = f"ptrtoint (ptr @h{self.holes} to i64)"
        self.holes += 1
        return self.b.impure(f"getelementptr i8, ptr %f, i64 {hole}", "ptr")

    def read(self, dtype: str, n: int = 1) -> Val:
        b, t, at = self.b, _slot_type(dtype, n, self.target), self.place()
        align = TYPE_BITS[t] // 8
        raw = b.impure(f"load {b.ty(t, n)}, ptr {at.regs[0]}, align {align}", t, n)
        if dtype != "bool":
            return raw
        return raw.ne(0) if n == 1 else b.compare("lt", raw, b.splat(b.lit(0, t), n))

    def write(self, value: Val, dtype: str, n: int = 1) -> None:
        b, t, at = self.b, _slot_type(dtype, n, self.target), self.place()
        value = b.splat(value, n) if n > 1 else value
        if dtype == "bool":
            value = b.cast("sext" if n > 1 else "zext", value, t)
        align = TYPE_BITS[t] // 8
        b.line(f"store {b.ty(t, n)} {value.regs[0]}, ptr {at.regs[0]}, align {align}")

    def loop_of_updates(
        self, op: str, dtype: str, index: str, bases: tuple[Val, Val, Val], lo: Val, hi: Val
    ) -> None:
        """One element of a table after the other."""
        b = self.b
        places, numbers, table = bases

        def body(i: Val, _: list[Val]) -> list[Val]:
            at = b.cast("sext", load(b, index, places, i, None, None), "i64")
            number = load(b, dtype, numbers, i, None, None)
            old = load(b, dtype, table, at, None, None)
            store(b, dtype, table, at, arith.emit_op(b, op, dtype, dtype, [old, number]), None)
            return []

        b.loop(lo, hi, 1, [], body)

    def text(self) -> str:
        b = self.b
        b.line("ret void")
        text = b.text()
        if "%ctx" in text:
            text = text.replace("entry:\n", "entry:\n %ctx = load ptr, ptr %f, align 8\n", 1)
        return text


def _is_usual(size: int, *dtypes: str) -> bool:
    """Whether stencils of such types are usual, in lanes of so many bytes (1: numbers)."""
    return size != 8 and USUAL.issuperset(dtypes)


def is_rare(key: Key, target: Target) -> bool:
    """Whether a key is of a stencil that is not usual."""
    dtypes = [x for x in key[1:] if x in _TYPES]
    wide = key[0] != "updates" and key[2] not in (1, _lanes(target, 4))
    return not _is_usual(8 if wide else 1, *dtypes)


def _operators(usual: bool) -> Iterator[tuple[str, str, int, tuple[tuple[str, Any], ...]]]:
    """Operators of one dtype, with their lanes: (name, dtype, kind of lanes, attributes)."""
    for name, op in OPS.items():
        for attrs in [(("mode", m),) for m in ("away", "even")] if name == "round" else [()]:
            if name in _LEFT_OUT and not attrs:
                continue
            for dtype in SCALARS:
                if dtype in op.dtypes and _is_usual(1, dtype) == usual:
                    yield name, dtype, 1, attrs
            if name in ("zeta", "polygamma"):  # slow to compile
                continue
            for size, dtypes in ((4, _OF_FOUR), (8, _OF_EIGHT)):
                for dtype in dtypes:
                    known = dtype in op.dtypes and _is_usual(size, dtype) == usual
                    if known and (name in _PLACES or _fills(dtype, size)):
                        yield name, dtype, size, attrs


def _fills(dtype: str, size: int) -> bool:
    """Whether a type's lanes of so many bytes are one register."""
    return dtype == "bool" or BITS[dtype] <= 8 * size


def _result(op: str, dtype: str) -> str:
    return "bool" if OPS[op].rule in ("cmp", "test") else dtype


def _write_operator(w: _Writer, op: str, dtype: str, n: int, attrs: Any) -> bool:
    """Whether there is such a stencil."""
    args = [w.read(dtype, n) for _ in range(OPS[op].arity)]
    b = w.b
    if dtype in ("f32", "f64") and op in FUNCTIONS_CALLED:
        value = _called(w, op, args)
        if value is None:
            return False
    else:
        value = arith.emit_op(b, op, _result(op, dtype), dtype, args, attrs)
    w.write(value, _result(op, dtype), n)
    return True


def _called(w: _Writer, op: str, args: list[Val]) -> Val | None:
    """An elementary function of a vector by a call; of a number, by one of a vector that it is the
    first of."""
    b, t, n = w.b, args[0].t, args[0].n
    full = w.target.lanes(TYPE_BITS[t] // 8)
    if n > 1:
        return call_of(b, op, args) if n == full else None
    wide = []
    for x in args:
        first = f"insertelement <{full} x {t}> zeroinitializer, {t} {x.regs[0]}, i64 0"
        wide.append(b.impure(first, t, full))
    value = call_of(b, op, wide)
    return None if value is None else Val(b, t, 1, (b.extract(value.regs[0], t, full, 0),))


def _lanes(target: Target, size: int) -> int:
    return 1 if size == 1 else target.vector_bytes // size


def _all(
    target: Target, usual: bool, declarations: dict[str, str]
) -> Iterator[tuple[Key, _Writer]]:
    """Every usual stencil, or all others."""
    count = 0

    def writer() -> _Writer:
        nonlocal count
        count += 1
        return _Writer(target, f"s{count - 1}", declarations)

    for op, dtype, size, attrs in _operators(usual):
        n, w = _lanes(target, size), writer()
        if _write_operator(w, op, dtype, n, attrs):
            yield (op, dtype, n, *(v for _, v in attrs)), w
    yield from _updates(usual, writer)
    if not usual:
        yield from _narrow(target, writer)
    for size, dtypes in ((1, SCALARS), (4, _OF_FOUR), (8, _OF_EIGHT)):
        n = _lanes(target, size)
        for dtype in dtypes:
            if _is_usual(size, dtype) == usual:
                yield from _of_type(target, dtype, n, writer)
        pairs = [(s, d) for s in dtypes for d in dtypes if _is_usual(size, s, d) == usual]
        yield from _conversions(pairs, n, writer)


def _conversions(
    pairs: Sequence[tuple[str, str]], n: int, writer: Callable[[], _Writer]
) -> Iterator[tuple[Key, _Writer]]:
    """From one type to another, by value and by bits."""
    for source, dest in pairs:
        for op in ("convert", "bitcast"):
            if source == dest or (op == "bitcast" and BITS[source] != BITS[dest]):
                continue
            if op == "bitcast" and "bool" in (source, dest):
                continue
            w = writer()
            value = arith.emit_op(w.b, op, dest, source, [w.read(source, n)])
            w.write(value, dest, n)
            yield (op, source, n, dest), w


def _of_type(
    target: Target, dtype: str, n: int, writer: Callable[[], _Writer]
) -> Iterator[tuple[Key, _Writer]]:
    """What there is for each type: selections, loads and stores; and lanes of a number."""
    w = writer()
    pred, x, y = w.read("bool", n), w.read(dtype, n), w.read(dtype, n)
    w.write(w.b.select(pred, x, y), dtype, n)
    yield ("select", dtype, n), w
    yield from _memory(target, dtype, n, writer)
    if n > 1:
        w = writer()
        w.write(w.b.splat(w.read(dtype), n), dtype, n)
        yield ("splat", dtype, n), w
    if n > 1 and dtype != "bool":
        yield from _scattered(target, dtype, n, writer)
        if n * BITS[dtype] == 8 * target.vector_bytes:
            yield from _prefixes(dtype, n, writer)
    if n > 1 and dtype in ("f32", "f64"):
        yield from _pairs(dtype, n, writer)
    if n > 1 and dtype == "i64":  # 0, 1, 2.. of these
        w = writer()
        w.write(w.b.lanes_of("i64", n) * w.b.splat(w.read("i64"), n), dtype, n)
        yield ("steps", dtype, n), w
    if n > 1 and dtype[0] in "iu":  # base + 0, 1, 2.. of a 64-bit base
        w = writer()
        base = w.b.cast("trunc", w.read("i64"), register_type(dtype))
        w.write(w.b.lanes_of(register_type(dtype), n) + base, dtype, n)
        yield ("count", dtype, n), w


def _memory(
    target: Target, dtype: str, n: int, writer: Callable[[], _Writer]
) -> Iterator[tuple[Key, _Writer]]:
    """Loads and stores, with and without a mask."""
    for masked in (False, True):
        if masked and n > 1 and not target.can_mask(max(1, BITS[dtype] // 8)):
            continue
        w = writer()
        at, mask = _address(w, n, masked)
        if masked and n == 1:
            size = max(1, BITS[dtype] // 8)
            assert mask is not None
            pointer = w.b.select(mask, w.b.gep(*at, size), w.place())
            value = from_memory(w.b, dtype, w.b.load(memory_type(dtype), pointer))
        else:
            other = w.read(dtype, n) if masked else None
            base, offset = at
            lanes = Lin(offset, w.b.lit(1, "i64"), n, 1) if n > 1 else offset
            value = load(w.b, dtype, base, lanes, mask, other)
        w.write(value, dtype, n)
        yield ("load", dtype, n, masked), w
        w = writer()
        (base, offset), mask = _address(w, n, masked)
        value = w.read(dtype, n)
        if masked and n == 1:
            size = max(1, BITS[dtype] // 8)
            assert mask is not None
            pointer = w.b.select(mask, w.b.gep(base, offset, size), w.place())
            w.b.store(to_memory(w.b, dtype, value), pointer)
        else:
            lanes = Lin(offset, w.b.lit(1, "i64"), n, 1) if n > 1 else offset
            store(w.b, dtype, base, lanes, value, mask)
        yield ("store", dtype, n, masked), w


def _narrow(target: Target, writer: Callable[[], _Writer]) -> Iterator[tuple[Key, _Writer]]:
    """Of narrow floats, which are f32 numbers in the frame, loads, stores, and what rounds to
    them: the rest is that of f32."""
    for n, sources in ((1, SCALARS), (_lanes(target, 4), ("f32", "i32", "u32", "bool"))):
        for dtype in NARROW:
            yield from _memory(target, dtype, n, writer)
            for source in sources:
                w = writer()
                value = arith.emit_op(w.b, "convert", dtype, source, [w.read(source, n)])
                w.write(value, dtype, n)
                yield ("convert", source, n, dtype), w


def _scattered(
    target: Target, dtype: str, n: int, writer: Callable[[], _Writer]
) -> Iterator[tuple[Key, _Writer]]:
    """Loads and stores of lanes that lie anywhere: a place that they have in common, and each
    lane's from there."""
    size = BITS[dtype] // 8
    for masked in (False, True):
        for key in ("gather", "scatter"):
            w = writer()
            base = w.b.gep(*_address(w, n, False)[0], size)
            at, mask = w.read("i64", n), w.read("bool", n) if masked else None
            if key == "gather":
                other = w.read(dtype, n) if masked else None
                w.write(load(w.b, dtype, base, at, mask, other), dtype, n)
            else:
                store(w.b, dtype, base, at, w.read(dtype, n), mask)
            yield (key, dtype, n, masked), w


def _pairs(dtype: str, n: int, writer: Callable[[], _Writer]) -> Iterator[tuple[Key, _Writer]]:
    """Loads and stores of both parts of complex numbers, which lie side by side."""
    for key in ("apart", "together"):
        w = writer()
        base, offset = _address(w, n, False)[0]
        at = Lin(offset, w.b.lit(2, "i64"), n, 1)
        if key == "apart":
            for value in load_rows(w.b, dtype, base, at, 2):
                w.write(value, dtype, n)
        else:
            store_pairs(w.b, dtype, base, at, w.read(dtype, n), w.read(dtype, n))
        yield (key, dtype, n), w


def _prefixes(dtype: str, n: int, writer: Callable[[], _Writer]) -> Iterator[tuple[Key, _Writer]]:
    """What the prefixes of a vector's lanes need: each lane has what the one so many before it had,
    the first ones another vector's first; all lanes have the last one."""
    by = 1
    while by < n:
        w = writer()
        own, fill = w.read(dtype, n), w.read(dtype, n)
        picks = [k - by if k >= by else n for k in range(n)]
        vt = w.b.ty(own.t, n)
        moved = shuffled(w.b, vt, own.regs[0], fill.regs[0], picks)
        w.write(Val(w.b, own.t, n, (moved,)), dtype, n)
        yield ("shift", dtype, n, by), w
        by *= 2
    w = writer()
    own = w.read(dtype, n)
    last = w.b.extract(own.regs[0], own.t, n, n - 1)
    w.write(w.b.splat(Val(w.b, own.t, 1, (last,)), n), dtype, n)
    yield ("last", dtype, n), w


def _updates(usual: bool, writer: Callable[[], _Writer]) -> Iterator[tuple[Key, _Writer]]:
    """Loops over updates at places that an array tells, with the numbers of another: most of what a
    scatter does."""
    for dtype in ("f32", "i32", "i64", "u32") if usual else ("f64",):
        for op in ("add", "mul", "max", "min"):
            for index in ("i32", "i64"):
                w = writer()
                places, numbers, table, lo, hi = (w.read(t) for t in ("ptr",) * 3 + ("i64",) * 2)
                w.loop_of_updates(op, dtype, index, (places, numbers, table), lo, hi)
                yield ("updates", dtype, op, index), w


def _address(w: _Writer, n: int, masked: bool) -> tuple[tuple[Val, Val], Val | None]:
    base, offset = w.read("ptr"), w.read("i64")
    return (base, offset), w.read("bool", n) if masked else None


@record(frozen=False)
class Batch:
    """Some of the functions as a module: its text, the keys of each in order, and which of them may
    lose the frame's address: what calls, has jumps, or does not end with a write to the frame."""

    text: str
    keys: list[list[Key]]
    lost: list[bool]
    job: Job | None = None  # on its way

    def order(self, publish: Callable[[Job], bool]) -> None:
        """Has a native thread compile it, if there is one."""
        job = Job(self.text, CODEGEN)
        self.job = job if publish(job) else None

    def object(self, target: Target) -> bytes:
        """The module, compiled by a native thread or now."""
        job, self.job = self.job, None
        return job.take() if job and job.done else link.assemble(self.text, target, CODEGEN)


def batches(target: Target, usual: bool) -> list[Batch]:
    """All usual stencils, or all others: each function once, whatever it is for, in modules of
    about one size."""
    declarations: dict[str, str] = {}
    keys: dict[str, list[Key]] = {}
    functions, lost = [], []
    for key, w in _all(target, usual, declarations):
        text = w.text()
        body = text.split("\n", 1)[1]
        if body in keys:  # integers of both signs are of one type
            keys[body].append(key)
            continue
        keys[body] = [key]
        name = w.b.head.split("@", 1)[1].split("(", 1)[0]
        functions.append((name, text))
        lost.append("%ctx" in text or w.b.blocks > 1 or key[0] in ENDING)
    symbols = [f"@h{k} = external global i8, !absolute_symbol !0" for k in range(HOLES)]
    head = [f'target triple = "{target.triple}"', *symbols, "!0 = !{i64 0, i64 1048576}"]
    head += declarations.values()
    count, found, known = -(-len(functions) // MODULES), [], list(keys.values())
    for first in range(0, len(functions), count):
        texts = [
            text.replace(f"@{name}(", f"@s{k}(", 1)
            for k, (name, text) in enumerate(functions[first : first + count])
        ]
        part = slice(first, first + count)
        found.append(Batch("\n".join([*head, *texts]), known[part], lost[part]))
    return found
