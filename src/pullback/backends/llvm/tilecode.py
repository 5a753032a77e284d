"""The code of tile functions (dense.py): from this process, from disk, or through LLVM; quickly
made code first where little is to be multiplied, good code in its place when it matters.

Kernels call tiles through the context's table, so better code takes over between two calls. Both
compute the same bits.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable

from pullback.backends.llvm import dense, link, loader
from pullback.backends.llvm.cache import Entry, disk_cache, kernel_key
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.passes import passes_text
from pullback.backends.llvm.table import provide
from pullback.backends.llvm.target import Target, host_target, matrix_units, multiplies_bytes
from pullback.backends.llvm.workshop import Job
from pullback.forking import renewed
from pullback.loops.tiles import WORDS, is_radix, parse_tile, set_pairs
from pullback.records import record, replaced

__all__ = ["USUAL_TILES", "order_tile", "provide_tile"]

# What most products of matrices call, and sorts. Good code of one takes LLVM 8 to 60 ms: that of
# these is part of what the first import on a machine compiles.
USUAL_TILES = (
    "tile_f32_2", "pack_f32_2", "tile_f32_1", "turn_f32", "tile_f32_3", "flat_f32_1", "tile_w8_4",
    "radixes_i32", "radixes_i64",
)  # fmt: skip


@record(eq=True, frozen=False)
class _Code:
    """What is known of some code. Quick code reads the panel's width from its arguments, so that
    it is the same for all widths; that for matrix registers is not."""

    name: str  # of the function, or of what several functions have in common
    text: Callable[[], str]
    quick: bool
    code: loader.Code | JitCode | None = None
    job: Job | None = None  # on its way

    @property
    def level(self) -> int:
        return 0 if self.quick else 2

    @property
    def ready(self) -> bool:
        """Whether it is here, or LLVM is done with it."""
        return self.code is not None or (self.job is not None and self.job.done)

    def key(self, target: Target) -> str:
        """The name of the entry on disk: the compiler's own source is part of every key."""
        kind = "tile/quick" if self.quick else "tile"
        return kernel_key(self.name, target.key, kind + os.environ.get("PULLBACK_LOADER", ""))

    def search(self, target: Target) -> bool:
        """Whether the process or the disk has it."""
        if self.code is None:
            cache = disk_cache()
            image = cache.get(self.key(target)) if cache is not None else None
            self.adopt(loader.load_entry(image, "pb_tile"))
        return self.code is not None

    def adopt(self, code: loader.Code | JitCode | None) -> None:
        self.code = code
        if code is not None:
            code.keep_forever()  # somebody may be running it when better code is there

    def make(self, target: Target, later: list[Entry] | None) -> None:
        """Ends the job, if there is one that is done, or compiles here."""
        job, self.job = self.job, None
        if job is not None and job.done:
            obj = job.take()
        else:
            obj = link.assemble(self.text(), target, self.level)
        image = replaced(loader.link(obj), quick=self.quick)
        cache = disk_cache()
        if cache is not None and later is not None:
            later.append((cache, self.key(target), image))
        elif cache is not None:
            cache.put(self.key(target), image)
        self.adopt(loader.load_image(image))


_codes: dict[tuple[str, str, bool], _Code] = {}
# Of each function, for which target the table has code, and whether it is quick.
_provided: dict[str, tuple[str, bool]] = {}
_lock = renewed(threading.RLock())


def _on_matrix(name: str, target: Target) -> bool:
    """Whether a tile function uses matrix registers: the sums of integers are the same with
    them; those of bf16 numbers are not, so that quick and good code both use them."""
    kind = parse_tile(name)[0]
    if kind not in WORDS.values() or target.level != "avx512":
        return False
    return matrix_units("amx_bf16" if kind == "b16" else "amx_int8")


# Elsewhere the words' halves would be numbers of their own again at every step.
set_pairs(lambda: _on_matrix("tile_b16_4", host_target()))


def _bytewise(name: str, target: Target, quick: bool) -> bool:
    """Whether a tile function uses instructions that multiply bytes: what they give is exact."""
    words = parse_tile(name)[0] in ("w8", "z8") and not quick
    return words and target.level == "avx512" and multiplies_bytes()


def _code(name: str, target: Target, quick: bool) -> _Code:
    matrix = _on_matrix(name, target)
    bytewise = not matrix and _bytewise(name, target, quick)
    shared = quick and not matrix and parse_tile(name)[1] > 0
    own = name.rpartition("_")[0] if shared else name + "/matrix" * matrix + "/bytes" * bytewise
    known = _codes.get((own, target.key, quick))
    if known is None:
        text = functools.partial(dense.tile_text, target, name, quick, matrix, bytewise)
        if is_radix(name):
            text = functools.partial(passes_text, target, name, quick)
        known = _codes[own, target.key, quick] = _Code(own, text, quick)
    return known


def _good_enough(name: str, target: Target, quick: bool) -> list[_Code]:
    """The codes that would do, the best first."""
    return [_code(name, target, q) for q in ((False, True) if quick else (False,))]


def order_tile(
    name: str, target: Target, quick: bool, publish: Callable[[Job], bool]
) -> Job | None:
    """Has code made beside us where there is none that does; `provide_tile` ends it. The job to
    wait for, if there is one."""
    with _lock:
        codes = _good_enough(name, target, quick)
        for code in codes:
            if code.code is not None or code.job is not None:
                return code.job
        if not any(code.search(target) for code in codes):
            job = Job(codes[-1].text(), codes[-1].level)
            codes[-1].job = job if publish(job) else None
        return codes[-1].job


def provide_tile(name: str, target: Target, quick: bool, later: list[Entry] | None = None) -> None:
    """Makes a tile function callable; well made unless `quick`. What is to be stored on disk is
    stored, or put into `later`."""
    with _lock:
        made_for, is_quick = _provided.get(name, ("", True))
        if made_for == target.key and (quick or not is_quick):
            return
        codes = _good_enough(name, target, quick)
        # The disk is asked for good code though quick code is there: another width may have had
        # it made, and kernels that are good already would never have it replaced.
        code = next((c for c in codes if c.ready or c.search(target)), codes[-1])
        if code.code is None:
            code.make(target, later)
        assert code.code is not None
        provide(name, code.code.symbols["pb_tile"])
        _provided[name] = target.key, code.quick


def _after_fork() -> None:
    """Nobody in the child ends what the parent has published."""
    for code in _codes.values():
        code.job = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
