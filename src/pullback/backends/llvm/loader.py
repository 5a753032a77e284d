"""Object bytes -> a position-independent image -> code in memory, without LLVM.

LLVM writes small ELF objects whose only relocations are relative within the object (we allow no
undefined symbol and no
writable data). So the linked bytes do not depend on where they lie: they are linked once, cached on
disk as a flat
`Image`, and loading is one mapping and one copy. Memory goes back to the system when the last
holder of a `Code` dies.
Other object formats (macOS, Windows, ARM) go through MCJIT with the same interface (`jit.py`).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

from pullback.forking import renewed
from pullback.lazy_imports import lazy_module
from pullback.records import record

__all__ = [
    "PUT_TOGETHER", "QUICK", "Code", "Image", "LinkError", "link", "link_elf", "load_entry",
    "load_image",
]  # fmt: skip

jit: Any = lazy_module("pullback.backends.llvm.jit")


class LinkError(RuntimeError):
    """An object that must not be loaded: an internal error of Pullback."""


@record(eq=True)
class Image:
    """Linked bytes, the offsets of the exported functions, and the words that need the load address
    added."""

    data: bytes
    symbols: dict[str, int]
    absolute: tuple[int, ...] = ()
    kind: str = "linked"  # or "object": the file as LLVM wrote it, for MCJIT
    quick: int = 0  # QUICK or PUT_TOGETHER where there is better code


# LLVM's quick path made it where its good one was wanted; it was put together from stencils.
QUICK, PUT_TOGETHER = 1, 2


SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_R_64, _R_PC32, _R_PLT32, _R_PC64 = 1, 2, 4, 24
_GOTPCREL = (9, 41, 42)
_SHF_WRITE, _SHF_ALLOC = 1, 2
_SHN_UNDEF, _SHN_ABS, _SHN_COMMON = 0, 0xFFF1, 0xFFF2
_HIDDEN = 2


class _Part:
    """An object among those that are linked: its sections, put into the image."""

    def __init__(self, obj: bytes, image: bytearray) -> None:
        """Appends the loaded sections, unrelocated, to the image."""
        if obj[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", obj, 18)[0] != 62:
            raise LinkError("not an x86-64 ELF object")
        shoff, shentsize, shnum, shstrndx = struct.unpack_from("<Q", obj, 40) + struct.unpack_from(
            "<HHH", obj, 58
        )
        if shentsize != SECTION.size:
            raise LinkError("an ELF object whose section headers have another size")
        self.obj = obj
        self.headers = list(SECTION.iter_unpack(obj[shoff : shoff + shnum * shentsize]))
        first = self.headers[shstrndx][4]
        names = [obj[first + h[0] : obj.index(b"\0", first + h[0])] for h in self.headers]
        self.offsets: dict[int, int] = {}  # of each loaded section in the image
        for i in sorted(range(shnum), key=lambda k: names[k] != b".text"):
            _, kind, flags, _, offset, size, _, _, align, _ = self.headers[i]
            if not flags & _SHF_ALLOC or size == 0 or names[i] == b".eh_frame":
                continue
            if flags & _SHF_WRITE and not names[i].startswith(b".data.rel.ro"):
                raise LinkError(
                    f"internal error in pullback: a kernel has writable data ({names[i].decode()})"
                )
            image += bytes(-len(image) % max(align, 1))
            self.offsets[i] = len(image)
            image += bytes(size) if kind == 8 else obj[offset : offset + size]
        self.values: list[int | None] = []  # of the symbols
        self.wanted: dict[int, str] = {}  # those that another object has

    def symbols(self, everywhere: dict[str, int], exported: dict[str, int]) -> None:
        """Reads the symbols; enters those that other objects may want, and exported functions."""
        symtab = next((h for h in self.headers if h[1] == 2), None)
        if symtab is None:
            raise LinkError("an object without symbols")
        strings = self.obj[self.headers[symtab[6]][4] :]
        table = self.obj[symtab[4] : symtab[4] + symtab[5]]
        for k, (name, info, other, section, value, _) in enumerate(SYMBOL.iter_unpack(table)):
            if section == _SHN_UNDEF or section in (_SHN_ABS, _SHN_COMMON):
                text = strings[name : strings.index(b"\0", name)].decode()
                if k and section != _SHN_ABS and text != "_GLOBAL_OFFSET_TABLE_":
                    self.wanted[k] = text
                self.values.append(None)
                continue
            at = self.offsets.get(section)
            self.values.append(None if at is None else at + value)
            if at is not None and info >> 4 == 1:
                text = strings[name : strings.index(b"\0", name)].decode()
                everywhere[text] = at + value
                if info & 15 == 2 and other & 3 != _HIDDEN:
                    exported[text] = at + value

    def resolve(self, everywhere: dict[str, int]) -> None:
        for k, name in self.wanted.items():
            if name not in everywhere:
                raise LinkError(f"internal error in pullback: a kernel needs the symbol {name!r}")
            self.values[k] = everywhere[name]

    def relocate(self, image: bytearray, absolute: list[int]) -> None:
        """Applies the relocations; enters the words that need the load address as well."""
        got: dict[int, int] = {}
        for h in self.headers:
            if h[1] != 4 or h[7] not in self.offsets:
                continue
            base = self.offsets[h[7]]
            for where, info, addend in struct.iter_unpack("<QQq", self.obj[h[4] : h[4] + h[5]]):
                symbol, kind = info >> 32, info & 0xFFFFFFFF
                target = self.values[symbol]
                if target is None:
                    raise LinkError(
                        "internal error in pullback: a relocation into a section that is not loaded"
                    )
                if kind in _GOTPCREL:
                    if symbol not in got:
                        image += bytes(-len(image) % 8)
                        got[symbol] = len(image)
                        absolute.append(len(image))
                        image += struct.pack("<Q", target)
                    kind, target = _R_PC32, got[symbol]
                if _relocate(image, base + where, kind, target, addend):
                    absolute.append(base + where)


def _relocate(image: bytearray, where: int, kind: int, value: int, addend: int) -> bool:
    """Applies one relocation; True when the word needs the load address as well."""
    if kind in (_R_PC32, _R_PLT32):
        struct.pack_into("<i", image, where, value + addend - where)
    elif kind == _R_PC64:
        struct.pack_into("<q", image, where, value + addend - where)
    elif kind == _R_64:
        struct.pack_into("<Q", image, where, (value + addend) & 0xFFFFFFFFFFFFFFFF)
        return True
    else:
        raise LinkError(f"internal error in pullback: relocation {kind} is not supported")
    return False


def link_elf(*objects: bytes) -> Image:
    """Links x86-64 ELF objects by themselves.

    Raises LinkError for a symbol that none of them has, writable data or a relocation that LLVM
    does not emit for our code.
    """
    image, everywhere, exported = bytearray(), dict[str, int](), dict[str, int]()
    parts = [_Part(obj, image) for obj in objects]
    for part in parts:
        part.symbols(everywhere, exported)
    absolute: list[int] = []
    for part in parts:
        part.resolve(everywhere)
        part.relocate(image, absolute)
    return Image(bytes(image), exported, tuple(absolute))


class _Memory:
    """mmap, mprotect and munmap of the C library (never write and execute at once)."""

    _READ, _WRITE, _EXEC = 1, 2, 4
    _PRIVATE = 2
    _ANONYMOUS = 0x1000 if sys.platform == "darwin" else 0x20

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self.mmap, self.mprotect, self.munmap = libc.mmap, libc.mprotect, libc.munmap
        self.mmap.restype = ctypes.c_void_p
        p, n, i = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self.mmap.argtypes = [p, n, i, i, i, ctypes.c_long]
        self.mprotect.argtypes = [p, n, i]
        self.munmap.argtypes = [p, n]

    def reserve(self, size: int) -> int:
        """Fresh writable pages."""
        address: int | None = self.mmap(
            None, size, self._READ | self._WRITE, self._PRIVATE | self._ANONYMOUS, -1, 0
        )
        if address is None or address == ctypes.c_void_p(-1).value:
            raise MemoryError(f"no {size} bytes of memory for compiled code")
        return address

    def seal(self, address: int, size: int) -> None:
        """From writable to executable."""
        if self.mprotect(address, size, self._READ | self._EXEC) != 0:
            self.munmap(address, size)
            raise MemoryError("the system forbids executable memory (mprotect refused it)")


_memory: _Memory | None = None
_lock = renewed(threading.Lock())


def _pages() -> _Memory:
    global _memory
    if _memory is None:
        with _lock:
            if _memory is None:
                _memory = _Memory()
    return _memory


class Code:
    """Executable memory holding one image; unmapped when this object dies, so whoever calls into it
    must hold it."""

    __slots__ = ("__weakref__", "_unmap", "address", "length", "nbytes", "quick", "symbols")

    def __init__(self, image: Image) -> None:
        pages = _pages()
        self.quick = image.quick
        self.length = len(image.data)
        self.nbytes = (self.length + 4095) & ~4095
        self.address = pages.reserve(self.nbytes)
        data = image.data
        if image.absolute:
            patched = bytearray(data)
            for at in image.absolute:
                word = struct.unpack_from("<Q", patched, at)[0] + self.address
                struct.pack_into("<Q", patched, at, word & 0xFFFFFFFFFFFFFFFF)
            data = bytes(patched)
        ctypes.memmove(self.address, data, len(data))
        pages.seal(self.address, self.nbytes)
        self._unmap: Any = pages.munmap
        self.symbols = {name: self.address + offset for name, offset in image.symbols.items()}

    def keep_forever(self) -> None:
        """For code that threads of ours may still run while the interpreter shuts down."""
        self._unmap = None

    # Bound here: at the end of the interpreter the module's own names may be gone before the code.
    def __del__(self, ends: Callable[[], bool] = sys.is_finalizing) -> None:
        unmap = getattr(self, "_unmap", None)
        if unmap is not None and not ends():
            unmap(self.address, self.nbytes)


def load_image(image: Image) -> Any:
    """Maps an image into memory, ready to run.

    Raises MemoryError where the system gives no executable memory.
    """
    return jit.JitCode(image.data) if image.kind == "object" else Code(image)


def load_entry(image: Image | None, *needed: str) -> Any:
    """The code of an entry of the disk cache; None if it cannot be what we stored, with the
    functions needed."""
    if image is None:
        return None
    try:
        code = load_image(image)
        for name in needed:
            code.symbols[name]
    except (ValueError, KeyError, TypeError, RuntimeError, MemoryError, struct.error):
        return None
    return code


def link(obj: bytes) -> Image:
    """An image of an object of this machine: linked by us, or left to MCJIT where the format is not
    ours.

    Raises LinkError when the object must not be loaded.
    """
    ours = obj[:4] == b"\x7fELF" and obj[18:20] == b"\x3e\x00" and sys.platform != "win32"
    if not ours or os.environ.get("PULLBACK_LOADER", "") == "mcjit":
        return Image(obj, {}, (), "object")
    return link_elf(obj)
