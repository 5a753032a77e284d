"""Names of `jax._src.interpreters.ad` for what is of the same class as another thing of ours."""

from __future__ import annotations

from ....transforms.jvp import JVPTracer
from ....transforms.linearize import LinearizeTrace as LinearizeTrace

LinearizeTracer = JVPTracer  # what `grad`, `vjp` and `linearize` give a function too
