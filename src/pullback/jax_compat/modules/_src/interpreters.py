"""`jax._src.interpreters`: what `jax.interpreters` has."""

from ....interpreters import ad as ad
from ....interpreters import batching as batching
from ....interpreters import mlir as mlir
from ....interpreters import partial_eval as partial_eval
from ....interpreters import pxla as pxla
