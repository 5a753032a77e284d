"""How real JAX, the oracle, runs in tests: on the CPU, quietly, rounding at every operation, and
compiling as little as it can. Import it before jax.
"""

from __future__ import annotations

import os

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
