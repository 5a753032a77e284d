"""The modules that classes say they are of, and names that they have, while Pullback stands for
JAX: libraries that dispatch on an array's type (autoray, opt_einsum) tell by the first part of its
module's name whose it is.

Only what is never pickled by its class's name: arrays and keys are rebuilt by functions, tracers
are not pickled at all, and errors are found under both names.
"""

from __future__ import annotations

from .. import errors
from ..core.build import JaxprTrace, JaxprTracer
from ..core.trace import Tracer
from ..primitives.keys import PRNGKeyArray
from ..runtime.array import Array, ArrayImpl
from ..runtime.stub import JitFunction

__all__ = ["as_in_jax", "as_in_pullback"]

_ERRORS = {
    e for e in vars(errors).values() if isinstance(e, type) and e.__module__ == errors.__name__
}
_OF = {
    Array: "jax",
    ArrayImpl: "jaxlib._jax",
    JaxprTrace: "jax._src.interpreters.partial_eval",
    JitFunction: "jaxlib._jax",
    PRNGKeyArray: "jax._src.random.prng",
    **dict.fromkeys(_ERRORS, "jax.errors"),
}
_OF_TRACERS = {
    "pullback.core.trace": "jax._src.core",
    "pullback.core.build": "jax._src.interpreters.partial_eval",
    "pullback.transforms.jvp": "jax._src.interpreters.ad",
    "pullback.transforms.batch": "jax._src.interpreters.batching",
}
# where JAX has another one
_NAMES: dict[type, str] = {JaxprTrace: "DynamicJaxprTrace", JaxprTracer: "DynamicJaxprTracer"}
_own: dict[type, tuple[str, str]] = {}  # what those that were renamed are called in Pullback


def _tracers(base: type) -> list[type]:
    below: list[type] = type.__subclasses__(base)
    return [base, *(t for cls in below for t in _tracers(cls))]


def as_in_jax() -> None:
    """From now on classes say that they are of JAX's modules."""
    for cls in _tracers(Tracer):
        _rename(cls, _OF_TRACERS.get(cls.__module__))
    for cls, name in _OF.items():
        _rename(cls, name)


def _rename(cls: type, name: str | None) -> None:
    if name is not None and cls not in _own:
        _own[cls] = cls.__module__, cls.__name__
        cls.__module__, cls.__name__ = name, _NAMES.get(cls, cls.__name__)


def as_in_pullback() -> None:
    """They say again where they are."""
    while _own:
        cls, names = _own.popitem()
        cls.__module__, cls.__name__ = names
