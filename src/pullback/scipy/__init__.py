"""`scipy`'s names, on arrays that can be traced, differentiated and compiled."""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from ..lazy_imports import LateNames as _LateNames

if _TYPE_CHECKING:
    from . import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]

# A convolution has no use for the modules of integrals and optimisers.
_late = _LateNames("pullback.scipy", {name: name for name in __all__})
_late.complete()


def __getattr__(name: str) -> _Any:
    return _late(name)
