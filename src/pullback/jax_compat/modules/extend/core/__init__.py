"""`jax.extend.core`: programs and primitives, for libraries that interpret or define them."""

from ...core import *  # noqa: F403
from ...core import AbstractToken as AbstractToken
from ...core import ClosedJaxpr as ClosedJaxpr
from ...core import Jaxpr as Jaxpr
from ...core import JaxprEqn as JaxprEqn
from ...core import Literal as Literal
from ...core import Primitive as Primitive
from ...core import Var as Var
from ...core import jaxpr_as_fun as jaxpr_as_fun
