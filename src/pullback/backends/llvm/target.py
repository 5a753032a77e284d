"""The machine we compile for: instruction set level, vector width, the features given to LLVM.

Four levels instead of the host's exact feature list: object files stay valid for every machine of a
level, results do
not depend on the model of CPU, and the levels below the host's can be forced and tested
(`PULLBACK_ISA`).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import sys
from functools import lru_cache

from pullback.processor import computes_halves, linux_flags, numpy_features
from pullback.records import record

__all__ = [
    "LEVELS", "Target", "detect_level", "host_target", "llvmlite_directory", "llvmlite_version",
    "matrix_units", "target_for",
]  # fmt: skip


@record(eq=True)
class Target:
    """An instruction set level. `vector_bytes` is the width of a register, `masks` says that lanes
    of any type can be masked, and that it costs nothing."""

    level: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    masks: bool
    fma: bool
    f16: bool
    rounding: bool
    registers: int
    gathers: bool = False  # addresses in a register cost less than one by one
    root_steps: int = 2  # Newton's, with which XLA follows estimates of reciprocal float32 roots
    halves: bool = False  # arithmetic of float16, which rounds random numbers otherwise

    @property
    def key(self) -> str:
        """What names this target in cache keys."""
        key = f"{self.triple}/{self.cpu}/{self.features}/{self.vector_bytes}"
        key += "" if self.root_steps == 2 else f"/root{self.root_steps}"
        key += "/halves" if self.halves else ""
        return key + "/gathers" if self.gathers else key

    def can_mask(self, bytes_per_element: int) -> bool:
        """Whether lanes of elements of that many bytes can be left out of loads and stores."""
        return self.masks or (self.level == "avx2" and bytes_per_element >= 4)

    def lanes(self, bytes_per_lane: int) -> int:
        """Lanes of one register for elements of that many bytes."""
        return max(1, self.vector_bytes // bytes_per_lane)


# level -> (LLVM's CPU name, features, register bytes, masks, fma, f16 conversions, rounding
# instructions, registers)
LEVELS: dict[str, tuple[str, str, int, bool, bool, bool, bool, int]] = {
    "avx512": ("x86-64-v4", "-prefer-256-bit", 64, True, True, True, True, 32),
    "avx2": ("x86-64-v3", "", 32, False, True, True, True, 16),
    "sse2": ("x86-64", "", 16, False, False, False, False, 16),
    "neon": ("generic", "", 16, False, True, True, True, 32),
}

# The flags that x86-64-v3 and x86-64-v4 stand for, as Linux and as NumPy spell them.
_LINUX_V3 = "avx avx2 bmi1 bmi2 f16c fma movbe xsave abm".split()
_LINUX_V4 = "avx512f avx512bw avx512cd avx512dq avx512vl".split()
_NUMPY_V3 = "AVX AVX2 F16C FMA3".split()
_NUMPY_V4 = ["AVX512_SKX"]
_COUNTING = ("avx512_vpopcntdq", "avx512_bitalg")  # the bits of lanes, which take 15 steps without


@lru_cache(maxsize=1)
def detect_level() -> str:
    """The best level that this machine runs: avx512, avx2, sse2 or neon; `none` where we have no
    native code."""
    machine = platform.machine().lower()
    if machine in ("arm64", "aarch64"):
        return "neon"
    if machine not in ("x86_64", "amd64"):
        return "none"
    flags = linux_flags() if sys.platform == "linux" else set()
    features = numpy_features()
    if flags:
        v3, v4 = all(f in flags for f in _LINUX_V3), all(f in flags for f in _LINUX_V4)
    else:
        v3, v4 = all(features.get(f) for f in _NUMPY_V3), all(features.get(f) for f in _NUMPY_V4)
    return "avx512" if v3 and v4 else "avx2" if v3 else "sse2"


@lru_cache(maxsize=1)
def _gathers_well() -> bool:
    """Whether the processor's gathers are as fast as they were made: a microcode that guards them
    against data sampling makes them several times slower than loads one by one."""
    try:
        with open("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling") as f:
            return f.read().startswith("Not affected")
    except OSError:
        return False


@lru_cache(maxsize=1)
def _root_steps() -> int:
    """XLA takes one step on AMD's processors, whose estimates are the finer ones."""
    return 1 if "sse4a" in linux_flags() else 2


@lru_cache(maxsize=1)
def permutes_bytes() -> bool:
    """Whether the processor has instructions that put the bytes of vectors into any order."""
    return "avx512_vbmi" in linux_flags() or "avx512vbmi" in linux_flags()


@lru_cache(maxsize=1)
def multiplies_bytes() -> bool:
    """Whether the processor has instructions that add products of four bytes to a sum."""
    return "avx512_vnni" in linux_flags() or bool(numpy_features().get("AVX512VNNI"))


_ARCH_PRCTL, _REQUEST_STATE, _MATRIX_STATE = 158, 0x1023, 18  # of Linux on x86-64


@lru_cache(maxsize=4)
def matrix_units(kind: str = "amx_int8") -> bool:
    """Whether this process may use the processor's matrix registers for bytes, or for another
    `kind` of numbers by Linux's name for it. Linux wants to be asked, as they make a thread's
    state larger; it says no where a signal stack is too small."""
    if sys.platform != "linux" or platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    if not {"amx_tile", kind} <= linux_flags():
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    call.restype = ctypes.c_long
    answer = call(*(ctypes.c_long(v) for v in (_ARCH_PRCTL, _REQUEST_STATE, _MATRIX_STATE)))
    return bool(answer == 0)


def _triple() -> str:
    machine = "aarch64" if detect_level() == "neon" else "x86_64"
    if sys.platform == "darwin":
        return ("arm64" if machine == "aarch64" else machine) + "-apple-macosx11.0"
    if sys.platform == "win32":
        return machine + "-pc-windows-msvc-elf"
    return machine + "-unknown-linux-gnu"


@lru_cache(maxsize=8)
def target_for(level: str) -> Target:
    """The target of a level; `host` is the machine's own.

    Raises ValueError for a level that does not exist or that this machine cannot run.
    """
    best = detect_level()
    if level in ("host", ""):
        level = best
    if level not in LEVELS:
        known = ", ".join(["host", *LEVELS])
        raise ValueError(
            f"PULLBACK_ISA={level!r} is no instruction set that Pullback compiles for; use one of "
            f"{known}"
        )
    order = ["sse2", "avx2", "avx512"]
    if (level == "neon") != (best == "neon") or (
        level in order and order.index(level) > order.index(best)
    ):
        raise ValueError(
            f"PULLBACK_ISA={level!r}: this machine runs {best!r} at best; unset PULLBACK_ISA"
        )
    cpu, features, width, masks, fma, f16, rounding, registers = LEVELS[level]
    if level == "avx512":
        features += ",+avx512vbmi" if permutes_bytes() else ""
        features += "".join(f",+{f.replace('_', '')}" for f in _COUNTING if f in linux_flags())
    gathers = masks and _gathers_well()
    machine = width, masks, fma, f16, rounding, registers, gathers
    return Target(
        level,
        _triple(),
        cpu,
        features,
        *machine,
        root_steps=_root_steps(),
        halves=computes_halves(),
    )


def host_target() -> Target:
    """The target in force: PULLBACK_ISA, else the machine's best level."""
    return target_for(os.environ.get("PULLBACK_ISA", "host").strip().lower())


@lru_cache(maxsize=1)
def llvmlite_directory() -> str:
    """Where llvmlite's library lies. ImportError if it is not installed. A search through all
    folders of modules, made while the package is imported and not again by a first call."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "Pullback compiles through llvmlite, which is not installed: pip install llvmlite"
        )
    return os.path.join(next(iter(spec.submodule_search_locations)), "binding")


def llvmlite_version() -> str:
    """The version of llvmlite as its files say, without importing it (part of every cache key)."""
    try:
        with open(
            os.path.join(os.path.dirname(llvmlite_directory()), "_version.py"), encoding="utf-8"
        ) as f:
            found = f.read().partition("version_version = ")[2]
    except (OSError, ImportError):
        return "none"
    return found.partition("\n")[0].strip("'\" ") or "unknown"
