"""Machine code of single operators, with holes for the places of their operands: what the first
code of a kernel is put together from without LLVM (patched.py).

LLVM compiles the stencils (stencil_text.py) once per machine, the usual ones with the first import,
others when one of them is first asked for. A place in the frame is the address of a symbol that
nobody defines, so that the object's relocations say where in the instructions places stand.
"""

from __future__ import annotations

import marshal
import os
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from pullback.backends.llvm.aside import aside
from pullback.backends.llvm.cache import DiskCache, disk_cache, kernel_key
from pullback.backends.llvm.called import mark
from pullback.backends.llvm.loader import SECTION, SYMBOL, Image, LinkError
from pullback.backends.llvm.patch_registers import Ends, ends_of
from pullback.backends.llvm.stencil_text import Batch, Key, batches, is_rare
from pullback.backends.llvm.target import Target
from pullback.backends.llvm.workshop import Job
from pullback.loops.ops import OPS
from pullback.switches import switched_off

__all__ = ["Known", "Stencil", "Stencils", "order_stencils", "provide_stencils", "provided"]

# The code; its holes: where, which operand, what is added; its literals: where, the bytes, what
# follows the place in its instruction; whether the frame's address may be gone from rdi after it.
Stencil = tuple[bytes, tuple[tuple[int, int, int], ...], tuple[tuple[int, bytes, int], ...], bool]
# The same; how it begins and ends; and what it takes, in additions of single numbers.
Known = tuple[Stencil, Ends, float]
# What an operator in lanes takes, beside one of single numbers: vectors that have just been stored
# are read later than numbers. Of what one costs more than an addition, so much counts here.
IN_LANES, OF_COST = 1.25, 0.3
SCATTERED, PAIRS = 2.0, 4.0  # a lane that is stored anywhere; pairs of numbers, taken apart

PATIENCE = 0.1  # seconds before others than the usual ones are compiled: a first call comes first
LEVELS = ("avx2", "avx512")

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


def _cut(obj: bytes, keys: Sequence[Sequence[Key]], lost: Sequence[bool]) -> dict[Key, bytes]:
    """The stencils of a module, packed."""
    parts = _Object(obj)
    functions = {
        name: (value, length)
        for name, section, value, length in parts.symbols
        if section == parts.text and name.startswith(b"s") and length
    }
    parts.index(list(functions.values()))
    found: dict[Key, bytes] = {}
    for k, of in enumerate(keys):
        stencil = parts.stencil(*functions[b"s%d" % k], lost[k])
        if stencil is not None:
            found.update(dict.fromkeys(of, marshal.dumps(stencil)))
    return found


# ---- once per machine


class Stencils:
    """The stencils of a target, each packed until somebody asks for it."""

    def __init__(self, target: Target, packed: dict[Key, bytes]) -> None:
        self.target, self.packed = target, packed
        self.known: dict[Key, Known] = {}
        self.complete = False  # whether it has others than the usual ones
        self.wanted = False  # whether those are on their way

    def find(self, key: Key) -> Known | None:
        """A stencil; None if there is none."""
        found = self.known.get(key)
        if found is None and key in self:
            stencil = marshal.loads(self.packed[key])
            found = self.known[key] = stencil, ends_of(stencil[0], stencil[1]), _weight(key)
        return found

    def __contains__(self, key: Key) -> bool:
        if key not in self.packed and not (self.complete or self.wanted):
            if is_rare(key, self.target):
                self.want()
        return key in self.packed

    def has(self, key: Key) -> bool:
        """Whether a stencil is there now; others are not asked for."""
        return key in self.packed

    def want(self) -> None:
        """Others than the usual ones are asked for: from disk, or compiled a moment later, for what
        is asked for then."""
        self.wanted = True
        entry = _entry(self.target, False)
        packed = _stored(*entry) if entry is not None else None
        if packed is not None:
            self.add(packed)
        elif entry is not None:
            aside(_complete, self)

    def add(self, packed: dict[Key, bytes]) -> None:
        """The others, too."""
        self.packed = self.packed | packed
        self.complete = True


def _weight(key: Key) -> float:
    """What a stencil takes, in additions of single numbers."""
    name = key[0]
    if name in ("gather", "scatter"):
        return float(key[2]) * (SCATTERED if name == "scatter" else 1.0)
    if name in ("apart", "together"):
        return PAIRS
    op = OPS.get(name)
    if op is None:
        return 1.0
    return (1.0 if key[2] == 1 else IN_LANES) + (op.cost - 1) * OF_COST


_stencils: dict[str, Stencils] = {}
_ordered: dict[str, list[Batch]] = {}  # on their way, by target


def provided(target: Target) -> Stencils | None:
    """The stencils of a target, if this process has them and is to use them."""
    return None if switched_off("PULLBACK_STENCILS") else _stencils.get(target.key)


def _entry(target: Target, usual: bool) -> tuple[DiskCache, str] | None:
    """Where the disk has stencils of a target. Only x86-64 processors with AVX2 or AVX-512 have
    any, under Linux, and only processes that keep code on disk."""
    cache = disk_cache()
    if target.level not in LEVELS or not target.triple.endswith("linux-gnu"):
        return None
    if cache is None or os.environ.get("PULLBACK_LOADER") or switched_off("PULLBACK_STENCILS"):
        return None
    name = "stencils" if usual else "stencils/others"
    return cache, kernel_key("", target.key, name + mark(target))


def _stored(cache: DiskCache, key: str) -> dict[Key, bytes] | None:
    """What the disk has."""
    image = cache.get(key)
    if image is None or image.kind != "stencils":
        return None
    return marshal.loads(image.data)  # type: ignore[no-any-return]


def _made(parts: Sequence[Batch], target: Target, cache: DiskCache, key: str) -> Any:
    """Stencils, compiled, and on disk."""
    found: dict[Key, bytes] = {}
    for batch in parts:
        found |= _cut(batch.object(target), batch.keys, batch.lost)
    cache.put(key, Image(marshal.dumps(found), {}, (), "stencils"))
    return found


def _complete(stencils: Stencils) -> None:
    """On a thread of its own: the call that has asked for others goes on without."""
    time.sleep(PATIENCE)
    entry = _entry(stencils.target, False)
    if entry is not None:
        stencils.add(_made(batches(stencils.target, False), stencils.target, *entry))


def _search(target: Target, cache: DiskCache, key: str) -> bool:
    """Whether this process has the usual stencils of a target, or the disk."""
    packed = _stored(cache, key) if target.key not in _stencils else None
    if packed is not None:
        _stencils[target.key] = Stencils(target, packed)
    return target.key in _stencils


def order_stencils(target: Target, publish: Callable[[Job], bool]) -> list[Job]:
    """Has the usual stencils of a target compiled beside us where the disk does not have them;
    `provide_stencils` ends it. The jobs to wait for."""
    entry = _entry(target, True)
    if entry is None or _search(target, *entry):
        return []
    if target.key not in _ordered:
        _ordered[target.key] = batches(target, True)
        for batch in _ordered[target.key]:
            batch.order(publish)
    return [batch.job for batch in _ordered[target.key] if batch.job is not None]


def provide_stencils(target: Target, every: bool = False) -> None:
    """Has the stencils of a target in this process, the usual ones or `every` one: those that have
    been ordered, from disk, or compiled for it."""
    entry = _entry(target, True)
    if entry is None:
        return
    if not _search(target, *entry):
        parts = _ordered.pop(target.key, None) or batches(target, True)
        _stencils[target.key] = Stencils(target, _made(parts, target, *entry))
    stencils, others = _stencils[target.key], _entry(target, False)
    if every and others is not None and not stencils.complete:
        packed = _stored(*others)
        stencils.add(packed or _made(batches(target, False), target, *others))


def _after_fork() -> None:
    """Nobody in the child ends what the parent has published."""
    _ordered.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
