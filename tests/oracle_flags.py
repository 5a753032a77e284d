"""How real JAX, the oracle, runs in tests: on the CPU, quietly, rounding at every operation, and
compiling as little as it can. Import it before jax.
"""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any

FLAGS = (
    # Narrow types are rounded at every operation, jitted as well as eagerly.
    "--xla_allow_excess_precision=false",
    # XLA's older code generator and one object file a program: the same operations, compiled in a
    # third of the time, and the tests run thousands of programs once.
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_TRACEBACK_FILTERING", "off")  # ours, too: failed tests show all frames
# Its modules without the stack of each operation, the tests' own: a twentieth of their time.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))

PROGRAMS = 200  # that are written in one context of MLIR


def keep_programs(folder: str) -> None:
    """What JAX has compiled is kept in a folder, which processes share: the tests' workers meet
    many programs of one operation in turn. Set in JAX alone: our own flag of that name would take
    it from the environment."""
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def share_contexts() -> None:
    """JAX makes a context of MLIR for each program, with all of its dialects: 5 ms of the 8 that
    the text of an operation takes, and a cycle of garbage that slows down those that come after it.
    Here a thread has one for many programs; what they say is the same."""
    mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
    make, held = mlir.make_ir_context, threading.local()

    def context() -> Any:
        left = getattr(held, "left", 0)
        if not left:
            held.context, left = make(), PROGRAMS
        held.left = left - 1
        return held.context

    mlir.make_ir_context = context
