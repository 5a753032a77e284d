"""`jax._src.checkify`: what `jax.experimental.checkify` has, and the names beside it."""

from ....experimental.checkify import *  # noqa: F403
from ....experimental.checkify import (
    CheckEffect as ErrorEffect,  # noqa: F401
    DivisionByZeroError as DivisionByZeroError,
    FailedCheckError as FailedCheckError,
    JaxException as JaxException,
    NaNError as NaNError,
    OOBError as OOBError,
    Out as Out,
    check_p as check_p,
)
