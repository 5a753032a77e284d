"""`pjit`: `jit`, whose PartitionSpecs may be about the mesh of `with mesh:`, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..api.asked import OfNamedMesh, WholeOnNamedMesh
from ..api.jit import jit
from ..api.placement import with_sharding_constraint as with_sharding_constraint
from ..control.call import UNSPECIFIED
from ..runtime.partition_spec import PartitionSpec

__all__ = ["pjit", "with_sharding_constraint"]


def pjit(
    fun: Callable[..., Any],
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """`jit`, under `with mesh:` as well as under `set_mesh`. Under the former a sharding None means
    whole on each device.

    >>> from pullback.experimental.pjit import pjit
    >>> with pb.set_mesh(pb.make_mesh((1,), ("i",))):
    ...     pjit(lambda x: x + 1, in_shardings=pb.P("i"), out_shardings=None)(jnp.arange(2))
    Array([1, 2], dtype=int32)
    """
    return jit(
        fun,
        in_shardings=_named(in_shardings),
        out_shardings=_named(out_shardings),
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
    )


def _named(shardings: Any) -> Any:
    """The same pytree, whose specs may be about the mesh of `with mesh:`, and so is None."""

    def named(spec: Any) -> Any:
        if spec is None:
            return WholeOnNamedMesh()
        if not isinstance(spec, PartitionSpec):
            return spec
        return OfNamedMesh(*spec, unreduced=spec.unreduced, reduced=spec.reduced)

    return tree.map(named, shardings, is_leaf=lambda s: s is None or isinstance(s, PartitionSpec))
