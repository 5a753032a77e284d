"""`jax._src.checkify`: what `jax.experimental.checkify` has, and the names beside it."""

from ....experimental.checkify import *  # noqa: F403
from ....experimental.checkify import FailedCheckError as FailedCheckError
from ....experimental.checkify import JaxException as JaxException
from ....experimental.checkify import Out as Out
