"""`jax._src.interpreters`: what `jax.interpreters` has."""

from ....interpreters import (
    ad as ad,
    batching as batching,
    mlir as mlir,
    partial_eval as partial_eval,
    pxla as pxla,
)
