"""What the processor can do, as Linux and NumPy tell it."""

from __future__ import annotations

import sys
from functools import lru_cache

from numpy import __version__ as _numpy_version

__all__ = ["computes_halves", "linux_flags", "numpy_features"]


def linux_flags() -> set[str]:
    """The flags of the first processor; none elsewhere than on Linux."""
    try:
        with open("/proc/cpuinfo", "rb") as f:
            head = f.read(8192).decode("ascii", "replace")
    except OSError:
        return set()
    for line in head.splitlines():
        if line.startswith(("flags", "Features")):
            return set(line.partition(":")[2].split())
    return set()


def numpy_features() -> dict[str, bool]:
    """NumPy's own probing of the CPU (it checks the operating system's support as well)."""
    core = "numpy._core" if int(_numpy_version.split(".")[0]) >= 2 else "numpy.core"
    module = sys.modules.get(core + "._multiarray_umath")
    return dict(getattr(module, "__cpu_features__", {}))


@lru_cache(maxsize=1)
def computes_halves() -> bool:
    """Whether there is arithmetic of float16. JAX's compiler uses it where there is: products and
    sums are then fused, which are rounded one by one elsewhere."""
    if flags := linux_flags():
        return bool({"avx512_fp16", "asimdhp"} & flags)
    features = numpy_features()
    return bool(features.get("AVX512_SPR") or features.get("ASIMDHP"))
