"""The code of tile functions (dense.py): from this process, from disk, or through LLVM; quickly
made code first where little is to be multiplied, good code in its place when it matters.

Kernels call tiles through the context's table, so better code takes over between two calls. Both
compute the same bits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from pullback.backends.llvm import dense, link, loader
from pullback.backends.llvm.cache import disk_cache, kernel_key
from pullback.backends.llvm.jit import JitCode
from pullback.backends.llvm.table import provide
from pullback.backends.llvm.target import Target, host_target, matrix_units
from pullback.backends.llvm.workshop import Job
from pullback.forking import renewed
from pullback.loops.tiles import WORDS, parse_tile, set_pairs
from pullback.records import record, replaced

__all__ = ["order_tile", "provide_tile"]


@record(eq=True, frozen=False)
class _Tile:
    """What is known of a function's code."""

    code: loader.Code | JitCode | None = None
    quick: bool = False
    job: Job | None = None  # code on its way


_tiles: dict[tuple[str, str], _Tile] = {}
_lock = renewed(threading.RLock())


def _key(name: str, target: Target) -> str:
    """The name of the entry on disk: the compiler's own source is part of every key."""
    kind = "tile/matrix" if _on_matrix(name, target) else "tile"
    return kernel_key(name, target.key, kind + os.environ.get("PULLBACK_LOADER", ""))


def _on_matrix(name: str, target: Target) -> bool:
    """Whether a tile function uses matrix registers: the sums of integers are the same with
    them; those of bf16 numbers are not, so that quick and good code both use them."""
    kind = parse_tile(name)[0]
    if kind not in WORDS.values() or target.level != "avx512":
        return False
    return matrix_units("amx_bf16" if kind == "b16" else "amx_int8")


# Elsewhere the words' halves would be numbers of their own again at every step.
set_pairs(lambda: _on_matrix("tile_b16_4", host_target()))


def _adopt(tile: _Tile, name: str, image: loader.Image) -> None:
    tile.code, tile.quick, tile.job = loader.load_image(image), image.quick, None
    tile.code.keep_forever()  # somebody may be running what it was
    provide(name, tile.code.symbols["pb_tile"])


def _search(tile: _Tile, name: str, key: str, quick: bool) -> bool:
    """Whether the process or the disk has code that does."""
    if tile.code is None or (tile.quick and not quick):
        cache = disk_cache()
        image = cache.get(key) if cache is not None else None
        if image is None or (image.quick and not quick):
            return False
        _adopt(tile, name, image)
    return True


def _made(tile: _Tile, name: str, key: str, obj: bytes, quick: bool) -> None:
    image = replaced(loader.link(obj), quick=quick)
    cache = disk_cache()
    if cache is not None:
        cache.put(key, image)
    _adopt(tile, name, image)


def order_tile(
    name: str, target: Target, quick: bool, publish: Callable[[Job], bool]
) -> Job | None:
    """Has code made beside us where there is none that does; `provide_tile` ends it. The job to
    wait for, if there is one."""
    with _lock:
        tile = _tiles.setdefault((name, target.key), _Tile())
        if tile.job is not None and (quick or tile.job.level > 0):
            return tile.job
        if tile.code is not None and (quick or not tile.quick):
            return None
        if not _search(tile, name, _key(name, target), quick):
            matrix = _on_matrix(name, target)
            job = Job(dense.tile_text(target, name, quick, matrix), 0 if quick else 2)
            tile.job = job if publish(job) else None
        return tile.job


def provide_tile(name: str, target: Target, quick: bool) -> None:
    """Makes a tile function callable; well made unless `quick`."""
    with _lock:
        tile = _tiles.setdefault((name, target.key), _Tile())
        if tile.code is not None and (quick or not tile.quick):
            return
        key, job = _key(name, target), tile.job
        if job is not None and job.done and (quick or job.level > 0):
            _made(tile, name, key, job.take(), job.level == 0)
        elif not _search(tile, name, key, quick):
            text = dense.tile_text(target, name, quick, _on_matrix(name, target))
            _made(tile, name, key, link.assemble(text, target, 0 if quick else 2), quick)
