"""`jax._src.lib.mlir`: jaxlib's MLIR, loaded when it is asked for."""

from ......backends.xla.library import ir as ir, passmanager as passmanager
from . import dialects as dialects
