"""Arrays that are to lie over devices alike."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..core.avals import typeof
from ..primitives.common import as_array

__all__ = ["shard_alike"]


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """The pytrees `x` and `y` as they are, with the wish that their arrays lie over devices alike.
    Where something else says how they lie, as it does for all arrays here, that holds.

    ValueError if the pytrees or the arrays' shapes differ.

    >>> from pullback.experimental.shard_alike import shard_alike
    >>> shard_alike(jnp.arange(2), jnp.ones(2))
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    x_leaves, x_tree = tree.flatten(x)
    y_leaves, y_tree = tree.flatten(y)
    if x_tree != y_tree:
        raise ValueError(f"Trees should be equal. Got x_tree: {x_tree}, y_tree: {y_tree}")
    for a, b in zip(x_leaves, y_leaves, strict=True):
        if typeof(a).shape != typeof(b).shape:
            raise ValueError(
                f"The leaves shapes of `x` and `y` should match. Got `x` leaf shape: "
                f"{typeof(a).shape} and `y` leaf shape: {typeof(b).shape}."
            )
    return (
        tree.unflatten(x_tree, [as_array(a) for a in x_leaves]),
        tree.unflatten(y_tree, [as_array(b) for b in y_leaves]),
    )
