"""`shard_map` as JAX had it before it became `jax.shard_map`."""

from __future__ import annotations

from typing import Any

from ..api import spmd

__all__ = ["shard_map"]


def shard_map(f: Any, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Any:
    """`pullback.shard_map` with its older arguments: `mesh` and the specs by position, `check_rep`
    for what is now `check_vma`.

    Raises what `pullback.shard_map` raises.

    >>> from pullback.experimental.shard_map import shard_map
    >>> mesh = pb.make_mesh((1,), ("i",))
    >>> shard_map(lambda x: 2 * x, mesh, pb.P("i"), pb.P("i"))(jnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    return spmd.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
