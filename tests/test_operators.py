"""Operators of arrays with objects that are not arrays: who answers."""

from __future__ import annotations

from typing import Any

import pytest

import pullback.numpy as jnp


class Proxy:
    """Forwards every attribute, as Flax's Cursor does, and has reflected operators of its own."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        return Proxy(getattr(self.held, name))

    def __radd__(self, other: Any) -> Any:
        return other + self.held


class Converted:
    def __jax_array__(self) -> Any:
        return jnp.arange(3)


def test_a_proxy_of_an_array_answers_itself() -> None:
    x = jnp.arange(3)
    assert (x + Proxy(x)).tolist() == [0, 2, 4]


def test_objects_that_convert() -> None:
    assert (jnp.arange(3) + Converted()).tolist() == [0, 2, 4]


@pytest.mark.parametrize("other", [[1, 2, 3], "abc", None, {}])
def test_objects_that_are_no_arrays(other: Any) -> None:
    with pytest.raises(TypeError):
        jnp.arange(3) + other
