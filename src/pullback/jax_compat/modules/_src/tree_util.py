"""`jax._src.tree_util`: what `jax.tree_util` has, and the private names beside it."""

from __future__ import annotations

from typing import Any

from ....tree import leaves_with_path
from ....tree.operations import (
    flatten_one_level as flatten_one_level,
    flatten_one_level_with_keys as flatten_one_level_with_keys,
)
from ....tree.prefix import (
    broadcast_prefix as broadcast_prefix,
    equality_errors as equality_errors,
    prefix_errors as prefix_errors,
)
from ....tree.registry import entries as _registry  # noqa: F401
from ....tree_util import *  # noqa: F403


def generate_key_paths(tree: Any) -> list[tuple[Any, Any]]:
    """The leaves of a tree, with their paths."""
    return list(leaves_with_path(tree))
