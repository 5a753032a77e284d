"""What LLVM compiles once per machine, with the first import: the tile functions that most products
are made of, the usual elementary functions, the stencils. Native threads do it beside the import,
which takes part at its end.
"""

from __future__ import annotations

import contextlib

from pullback import config
from pullback.backends.llvm.cache import disk_cache
from pullback.backends.llvm.called import call_functions
from pullback.backends.llvm.calledcode import order_functions, provide_usual
from pullback.backends.llvm.compiler import workshop
from pullback.backends.llvm.stencils import order_stencils, provide_stencils
from pullback.backends.llvm.target import host_target
from pullback.backends.llvm.tilecode import USUAL_TILES, order_tile, provide_tile
from pullback.backends.llvm.workshop import Job

__all__ = ["begin", "end"]

_tiles: dict[str, Job] = {}


def _publish(job: Job) -> bool:
    """Offers a job to native threads, if there are any."""
    shop = workshop(host_target())
    return shop is not None and shop.publish(job)


def begin() -> None:
    """Nothing is there yet: has native threads begin. Where there are none, `end` compiles what
    first calls want; where nothing is kept, what is called for is compiled then."""
    if disk_cache() is None:
        return
    target = host_target()
    call_functions(target)
    with contextlib.suppress(Exception):  # `end` meets the error
        for name in USUAL_TILES:
            job = order_tile(name, target, False, _publish)
            if job is not None:
                _tiles[name] = job
        order_stencils(target, _publish)
        order_functions(target, _publish)


def end() -> None:
    """Has this process's share of it ready: from disk, or when native threads are done."""
    if disk_cache() is None:
        return
    target = host_target()
    call_functions(target)
    try:
        jobs = order_functions(target, _publish) + order_stencils(target, _publish)
        shop = workshop(target) if jobs or _tiles else None
        if shop is not None:
            shop.finish([*_tiles.values(), *jobs])
        provide_usual(target)
    except BaseException:
        call_functions(None)
        raise
    provide_stencils(target, every=config.enable_x64.get())
    while _tiles:
        provide_tile(_tiles.popitem()[0], target, quick=False)
