"""`jax._src.tpu.linalg.stack`: a stack of trees of arrays, of bounded depth, for compiled loops."""

from __future__ import annotations

from typing import Any

from ...... import lax, numpy as jnp, tree


class Stack:
    """A stack: `push` and `pop` give others. Beyond its capacity, what is pushed is lost."""

    def __init__(self, size: Any, data: Any) -> None:
        self._size, self._data = size, data

    @staticmethod
    def create(capacity: int, prototype: Any) -> Stack:
        """An empty stack of trees like `prototype`."""
        rows = tree.map(
            lambda x: jnp.zeros((capacity, *jnp.shape(x)), jnp.asarray(x).dtype), prototype
        )
        return Stack(jnp.array(0, "int32"), rows)

    def empty(self) -> Any:
        """Is nothing on it?"""
        return self._size == 0

    def push(self, elem: Any) -> Stack:
        """The stack with a tree on top."""
        put = tree.map(
            lambda rows, x: lax.dynamic_update_index_in_dim(rows, x, self._size, 0),
            self._data,
            elem,
        )
        return Stack(self._size + 1, put)

    def pop(self) -> tuple[Any, Stack]:
        """(what is on top, the stack without it)."""
        top = tree.map(
            lambda rows: lax.dynamic_index_in_dim(rows, self._size - 1, 0, keepdims=False),
            self._data,
        )
        return top, Stack(self._size - 1, self._data)

    def flatten(self) -> Any:
        leaves, treedef = tree.flatten(self._data)
        return [self._size, *leaves], treedef

    @staticmethod
    def unflatten(treedef: Any, leaves: Any) -> Stack:
        return Stack(leaves[0], tree.unflatten(treedef, leaves[1:]))


tree.register_pytree_node(
    Stack, lambda s: ((s._size, s._data), None), lambda _, children: Stack(*children)
)
