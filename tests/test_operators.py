"""Operators of arrays with objects that are not arrays: who answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback
import pullback.numpy as jnp
from pullback import lax

jax = pytest.importorskip("jax")


class Proxy:
    """Forwards every attribute, as Flax's Cursor does, and has reflected operators of its own."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        return Proxy(getattr(self.held, name))

    def __radd__(self, other: Any) -> Any:
        return other + self.held


class Converted:
    """Stands for an array, and forwards its attributes too, as Flax's variables do."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __jax_array__(self) -> Any:
        return self.held

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.held, name)


class Bare:
    """Stands for an array, and says nothing else."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __jax_array__(self) -> Any:
        return jnp.asarray(self.held)


class Exporting:
    """What NumPy makes arrays of."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray([1.0, 2.0], dtype)


def test_objects_that_say_nothing_else() -> None:
    x = Bare([1.0, 2.0])
    assert (jnp.ndim(x), jnp.shape(x), jnp.size(x)) == (1, (2,), 2)
    assert jnp.array([x, [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert jnp.array([x, Exporting()]).dtype == jnp.ones(2).dtype
    assert jnp.delete(jnp.arange(3), Bare([0, 2])).tolist() == [1]


def test_a_proxy_of_an_array_answers_itself() -> None:
    x = jnp.arange(3)
    assert (x + Proxy(x)).tolist() == [0, 2, 4]


class Forwarding:
    """Operators of its own, any other double-underscored name, and an error for the rest."""

    def __rmul__(self, other: Any) -> str:
        return f"{type(other).__name__} times it"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return lambda *args, **kwargs: NotImplemented
        raise NotImplementedError(name)


def test_an_object_that_forwards_names_answers_itself() -> None:
    """What its `__jax_array__` gives is no array: its own operator is asked (jaxquantum)."""
    x = jnp.arange(3)
    assert x * Forwarding() == jax.numpy.arange(3) * Forwarding()
    assert pullback.jit(lambda x: [x * Forwarding()] and x)(x).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="unsupported operand"):
        x - Forwarding()


@pullback.tree_util.register_pytree_node_class
class Variable:
    """A leaf's box, as Flax has them: a pytree that stands for what it holds and forwards names."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __jax_array__(self) -> Any:
        return self.value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.value, dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: Any, leaves: Any) -> Variable:
        return cls(*leaves)


def test_boxes_that_are_pytrees_reach_the_bodies_of_functions() -> None:
    """They arrive there holding tracers, which no `__array__` can give."""
    x = jnp.arange(9.0).reshape(3, 3)
    for call in (jnp.trace, jnp.around, lambda v: pullback.ops.segment_sum(v, np.array([0, 0, 1]))):
        assert call(Variable(x)).tolist() == call(x).tolist()
        assert pullback.jit(call)(Variable(x)).tolist() == call(x).tolist()


def test_private_methods_that_libraries_call() -> None:
    x = np.arange(12.0).reshape(3, 4)
    ours, theirs = jnp.asarray(x), jax.numpy.asarray(x)
    for call in (lambda a: a._split((1, 3), 1), lambda a: a._unstack(), lambda a: a._unstack(1)):
        want = [v.tolist() for v in call(theirs)]
        assert [v.tolist() for v in call(ours)] == want
        assert [v.tolist() for v in pullback.jit(call)(ours)] == want


def uses(x: Any, held: Any) -> Any:
    w = Converted(held)
    total = jnp.asarray(w).sum() - jnp.array(w, "float32").sum()
    total += (x @ w + jnp.dot(x, w)).sum() + jnp.add(w, w).sum() + jnp.multiply(w, w).sum()
    return total + jnp.sum(w) + jnp.where(True, w, 0).sum() + (x.T * w).sum()


def test_objects_that_convert() -> None:
    x, w = jnp.ones((1, 2)), jnp.full((2, 3), 2.0)
    want = 24.0 + 24.0 + 24.0 + 12.0 + 12.0 + 12.0
    assert uses(x, w) == want
    assert pullback.jit(uses)(x, w) == want
    assert pullback.grad(lambda w: uses(x, w))(w).tolist() == [[11.0] * 3] * 2


@pytest.mark.parametrize("x", [1, 1.0, True, "float32", int, np.arange(3), np.dtype("int32")])
def test_dtypes_of_anything(x: Any) -> None:
    assert lax.dtype(x) == jax.lax.dtype(x)


def test_no_dtype() -> None:
    for x in ([1, 2], None, "bogus"):
        with pytest.raises((TypeError, ValueError)):
            lax.dtype(x)


@pytest.mark.parametrize("other", [[1, 2, 3], "abc", None, {}])
def test_objects_that_are_no_arrays(other: Any) -> None:
    with pytest.raises(TypeError):
        jnp.arange(3) + other


@pytest.mark.parametrize("flag", [pullback.debug_nans, pullback.enable_checks, pullback.enable_x64])
def test_results_are_other_arrays_under_any_flag(flag: Any) -> None:
    """Also where the operator does nothing, and is not compiled."""
    for x in (jnp.array(True), jnp.arange(3, dtype="uint8"), jnp.arange(3.0)):
        for value in (False, True, False):
            with flag(value):
                assert abs(x) is not x
                assert x.dtype == bool or (+x) is not x
