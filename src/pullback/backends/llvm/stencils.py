"""Machine code of single operators, with holes for the places of their operands: what the first
code of a kernel is put together from without LLVM (patched.py).

LLVM compiles the stencils once per machine, with the first import: for each operator and type a
function that reads its operands from a frame, computes by the emitter's own rules (arith.py), so
that the bits are those of all other code, and writes the result to the frame. A place in the frame
is the address of a symbol that nobody defines, so that the object's relocations say where in the
instructions places stand.
"""

from __future__ import annotations

import marshal
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.backends.llvm import arith, link
from pullback.backends.llvm.access import Lin, load, store
from pullback.backends.llvm.build import Builder, Val
from pullback.backends.llvm.cache import disk_cache, kernel_key
from pullback.backends.llvm.called import call_of, mark
from pullback.backends.llvm.convert import from_memory, memory_type, register_type, to_memory
from pullback.backends.llvm.literals import BITS as TYPE_BITS
from pullback.backends.llvm.loader import SECTION, SYMBOL, Image, LinkError
from pullback.backends.llvm.shuffles import shuffled
from pullback.backends.llvm.table import FUNCTIONS_CALLED
from pullback.backends.llvm.target import Target
from pullback.loops.ops import BITS, OPS
from pullback.switches import switched_off

__all__ = [
    "HOLES",
    "NARROW",
    "SCALARS",
    "Key",
    "Stencil",
    "Stencils",
    "provide_stencils",
    "provided",
    "slot_bytes",
]

# Operator, the operands' dtype, the result's, lanes; then what else tells stencils apart.
Key = tuple[Any, ...]
# The code; its holes: where, which operand, what is added; its literals: where, the bytes, what
# follows the place in its instruction; whether the frame's address may be gone from rdi after it.
Stencil = tuple[bytes, tuple[tuple[int, int, int], ...], tuple[tuple[int, bytes, int], ...], bool]

HOLES = 6
LEVELS = ("avx2", "avx512")
# LLVM's quick path: one way out of a function, where its text has it, and no address is computed
# once for several instructions.
CODEGEN = 0
SCALARS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64")
NARROW = ("f16", "bf16")  # floats that are computed with as f32, and rounded
# In lanes of four bytes; what tells places is two registers then.
_OF_FOUR = ("f32", "i32", "u32", "bool", "i64", "u64")
_OF_EIGHT = ("f64", "i64", "u64", "f32", "i32", "u32", "bool")  # and of eight
_PLACES = frozenset(
    "add sub mul idiv irem min max clamp lt le gt ge eq ne and or xor shl shr_logical".split()
)
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


def _operators() -> Iterator[tuple[str, str, int, tuple[tuple[str, Any], ...]]]:
    """Operators of one dtype, with their lanes: (name, dtype, kind of lanes, attributes)."""
    for name, op in OPS.items():
        for attrs in [(("mode", m),) for m in ("away", "even")] if name == "round" else [()]:
            if name in _LEFT_OUT and not attrs:
                continue
            for dtype in SCALARS:
                if dtype in op.dtypes:
                    yield name, dtype, 1, attrs
            if name in ("zeta", "polygamma"):  # slow to compile
                continue
            for size, dtypes in ((4, _OF_FOUR), (8, _OF_EIGHT)):
                for dtype in dtypes:
                    if dtype in op.dtypes and (name in _PLACES or _fills(dtype, size)):
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


def _all(target: Target, declarations: dict[str, str]) -> Iterator[tuple[Key, _Writer]]:
    """Every stencil."""
    count = 0

    def writer() -> _Writer:
        nonlocal count
        count += 1
        return _Writer(target, f"s{count - 1}", declarations)

    for op, dtype, size, attrs in _operators():
        n, w = _lanes(target, size), writer()
        if _write_operator(w, op, dtype, n, attrs):
            yield (op, dtype, n, *(v for _, v in attrs)), w
    yield from _updates(writer)
    yield from _narrow(target, writer)
    for size, dtypes in ((1, SCALARS), (4, _OF_FOUR), (8, _OF_EIGHT)):
        n = _lanes(target, size)
        for dtype in dtypes:
            yield from _of_type(target, dtype, n, writer)
        for source in dtypes:
            for dest in dtypes:
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


def _updates(writer: Callable[[], _Writer]) -> Iterator[tuple[Key, _Writer]]:
    """Loops over updates at places that an array tells, with the numbers of another: most of what a
    scatter does."""
    for dtype in ("f32", "f64", "i32", "i64", "u32"):
        for op in ("add", "mul", "max", "min"):
            for index in ("i32", "i64"):
                w = writer()
                places, numbers, table, lo, hi = (w.read(t) for t in ("ptr",) * 3 + ("i64",) * 2)
                w.loop_of_updates(op, dtype, index, (places, numbers, table), lo, hi)
                yield ("updates", dtype, op, index), w


def _address(w: _Writer, n: int, masked: bool) -> tuple[tuple[Val, Val], Val | None]:
    base, offset = w.read("ptr"), w.read("i64")
    return (base, offset), w.read("bool", n) if masked else None


def _text(target: Target) -> tuple[str, list[Key], list[bool]]:
    """The module, the keys of its functions in order, and which of them may lose the frame's
    address: what calls, has jumps, or does not end with a write to the frame."""
    declarations: dict[str, str] = {}
    keys: list[Key] = []
    lost, functions = [], []
    for key, w in _all(target, declarations):
        text = w.text()
        name = w.b.head.split("@", 1)[1].split("(", 1)[0]
        functions.append(text.replace(f"@{name}(", f"@s{len(keys)}(", 1))
        keys.append(key)
        lost.append("%ctx" in text or w.b.blocks > 1 or key[0] in ("store", "scatter"))
    symbols = [f"@h{k} = external global i8, !absolute_symbol !0" for k in range(HOLES)]
    head = [f'target triple = "{target.triple}"', *symbols, "!0 = !{i64 0, i64 1048576}"]
    return "\n".join([*head, *declarations.values(), *functions]), keys, lost


# ---- from the object


_R_32S, _R_PC32, _R_32 = 11, 2, 10
_RETURN = b"\xc3"
_ZERO_UPPER = b"\xc5\xf8\x77"


class _Object:
    """The parts of an object that stencils are cut from."""

    def __init__(self, obj: bytes) -> None:
        (shoff,) = struct.unpack_from("<Q", obj, 40)
        size, count, names = struct.unpack_from("<HHH", obj, 58)
        if obj[:6] != b"\x7fELF\x02\x01" or size != SECTION.size:
            raise LinkError("stencils are cut from x86-64 ELF objects")
        self.obj = obj
        self.headers = list(SECTION.iter_unpack(obj[shoff : shoff + count * size]))
        self.names = [self.string(self.headers[names][4] + h[0]) for h in self.headers]
        self.text = self.names.index(b".text")
        table = next(h for h in self.headers if h[1] == 2)
        strings = self.headers[table[6]][4]
        self.symbols = [
            (self.string(strings + name), section, value, length)
            for name, _, _, section, value, length in SYMBOL.iter_unpack(
                obj[table[4] : table[4] + table[5]]
            )
        ]
        self.relocated = {h[7] for h in self.headers if h[1] == 4}
        self.relocations = sorted(
            (at, self.symbols[info >> 32], info & 0xFFFFFFFF, addend)
            for h in self.headers
            if h[1] == 4 and h[7] == self.text
            for at, info, addend in struct.iter_unpack("<QQq", obj[h[4] : h[4] + h[5]])
        )

    def string(self, at: int) -> bytes:
        return self.obj[at : self.obj.index(b"\0", at)]

    def literal(self, section: int, value: int, addend: int) -> tuple[bytes, int] | None:
        """A literal that an instruction reads: its bytes, and how many of the instruction's follow
        the place."""
        _, _, flags, _, offset, _, _, _, align, entry = self.headers[section]
        if self.names[section] == b".rodata" and align == 64 and section not in self.relocated:
            entry = 64  # a register of AVX-512
        elif not flags & 0x10 or entry not in (4, 8, 16, 32):  # literals that may be merged
            return None
        at = -(-(value + addend + 4) // entry) * entry
        start = offset + at
        return self.obj[start : start + entry], at - 4 - addend - value

    def stencil(self, start: int, length: int, lost: bool) -> Stencil | None:
        """One function's; None for what cannot be cut out: several ways out, other relocations."""
        base = self.headers[self.text][4]
        code = self.obj[base + start : base + start + length]
        if not code.endswith(_RETURN):
            return None
        code = code[:-1].removesuffix(_ZERO_UPPER)
        holes, literals = [], []
        for at, (name, section, value, _), kind, addend in self.by_place.get(start, ()):
            if kind in (_R_32S, _R_32) and name.startswith(b"h"):
                holes.append((at - start, int(name[1:]), addend))
                continue
            found = self.literal(section, value, addend) if kind == _R_PC32 else None
            if found is None:
                return None
            literals.append((at - start, *found))
        return code, tuple(holes), tuple(literals), lost or not _ends_in_frame(code, holes)

    def index(self, starts: Sequence[tuple[int, int]]) -> None:
        """Sorts relocations by function."""
        self.by_place: dict[int, list[Any]] = {}
        pairs = iter(sorted(starts))
        start, length = next(pairs)
        for r in self.relocations:
            while r[0] >= start + length:
                start, length = next(pairs)
            self.by_place.setdefault(start, []).append(r)


def _ends_in_frame(code: bytes, holes: Sequence[tuple[int, int, int]]) -> bool:
    """Whether the last instruction with a place in the frame has rdi for the frame's address: not
    another register, nor r15 (which a function saves first), whose number ends in the same bits."""
    last = max((at for at, _, _ in holes), default=0)
    return last > 0 and code[last - 1] & 0xC7 == 0x87 and b"\x41\x57" not in code[:16]


def _cut(obj: bytes, keys: Sequence[Key], lost: Sequence[bool]) -> dict[Key, Stencil]:
    parts = _Object(obj)
    functions = {
        name: (value, length)
        for name, section, value, length in parts.symbols
        if section == parts.text and name.startswith(b"s") and length
    }
    parts.index(list(functions.values()))
    found: dict[Key, Stencil] = {}
    for k, key in enumerate(keys):
        stencil = parts.stencil(*functions[b"s%d" % k], lost[k])
        if stencil is not None:
            found[key] = stencil
    return found


# ---- once per machine


class Stencils:
    """All stencils of a target, each packed until somebody asks for it."""

    def __init__(self, packed: dict[Key, bytes]) -> None:
        self.packed = packed
        self.known: dict[Key, Stencil] = {}

    def find(self, key: Key) -> Stencil | None:
        """A stencil; None if there is none."""
        found = self.known.get(key)
        if found is None and key in self.packed:
            found = self.known[key] = marshal.loads(self.packed[key])
        return found

    def __contains__(self, key: Key) -> bool:
        return key in self.packed


_stencils: dict[str, Stencils] = {}


def provided(target: Target) -> Stencils | None:
    """The stencils of a target, if this process has them and is to use them."""
    return None if switched_off("PULLBACK_STENCILS") else _stencils.get(target.key)


def made(target: Target) -> dict[Key, bytes]:
    """The stencils, compiled now, and packed."""
    text, keys, lost = _text(target)
    cut = _cut(link.assemble(text, target, CODEGEN), keys, lost)
    return {key: marshal.dumps(stencil) for key, stencil in cut.items()}


def provide_stencils(target: Target) -> None:
    """Has the stencils of a target in this process: from disk, or compiled for it. Only x86-64
    processors with AVX2 or AVX-512 have any, under Linux, and only processes that keep code on
    disk."""
    cache = disk_cache()
    if target.level not in LEVELS or not target.triple.endswith("linux-gnu"):
        return
    if cache is None or os.environ.get("PULLBACK_LOADER") or target.key in _stencils:
        return
    if switched_off("PULLBACK_STENCILS"):
        return
    key = kernel_key("", target.key, "stencils" + mark(target))
    image = cache.get(key)
    if image is not None and image.kind == "stencils":
        _stencils[target.key] = Stencils(marshal.loads(image.data))
        return
    found = made(target)
    _stencils[target.key] = Stencils(found)
    cache.put(key, Image(marshal.dumps(found), {}, (), "stencils"))
