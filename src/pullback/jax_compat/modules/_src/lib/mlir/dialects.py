"""`jax._src.lib.mlir.dialects`: the dialects of MLIR that programs are written in."""

from ......backends.xla.library import (
    chlo as chlo,
    func as func,
    hlo as hlo,
    mhlo as mhlo,
    sdy as sdy,
)
