"""`jax._src.checkify`: what `jax.experimental.checkify` has, and the names beside it."""

from ....experimental.checkify import *  # noqa: F403
from ....experimental.checkify import (
    FailedCheckError as FailedCheckError,
    JaxException as JaxException,
    Out as Out,
)
