"""Names that JAX has removed: who asks for one is told since when, and what to use instead."""

from __future__ import annotations

__all__ = ["no_attribute"]

_IN_010 = "was deprecated in JAX v0.8.2 and removed in JAX v0.10.0"
_FROM_EXTEND = (
    "AbstractToken TraceTag call_impl mapped_aval set_current_trace subjaxprs take_current_trace "
    "unmapped_aval"
).split()
_MIGRATE = "is deprecated; use jax.device_put instead."

_SAID = {
    "device_put_replicated": _MIGRATE,
    "device_put_sharded": _MIGRATE,
    "lax.pvary": f"{_IN_010}; use `jax.lax.pcast(..., to='varying')",
    "ad_checkpoint.checkpoint": f"{_IN_010}; use jax.checkpoint instead.",
    "ad_checkpoint.remat": f"{_IN_010}; use jax.remat instead.",
    "core.get_aval": f"{_IN_010}; use jax.typeof instead.",
    "core.traverse_jaxpr_params": f"{_IN_010}.",
    **{f"core.{n}": f"{_IN_010}. Use jax.extend.core.{n}." for n in _FROM_EXTEND},
}


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that the module (as `pullback.lax`, `jax`) does not have."""
    said = _SAID.get(f"{module}.{name}".partition(".")[2])
    if said is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return AttributeError(f"{module}.{name}".replace("pullback", "jax", 1) + f" {said}")
