"""Differences from JAX that random programs, and their neighbours, have shown; each made small."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy
import jax.random
import numpy as np
import pytest

import pullback
import pullback.numpy
import pullback.random

Z = np.array([-1j, 1j, 0j, 2 + 0j], "complex64")


def of(m: Any) -> dict[str, Any]:
    """The cases, as functions of nothing."""
    jnp, lax, random = m.numpy, m.lax, m.random
    z, keys = jnp.asarray(Z), random.split(random.key(0), 3)
    weak = jnp.where(True, 0.5, 0.2)
    words = random.key_data
    cases = {
        # Complex numbers lose their imaginary parts on the way to bool, as to any real type...
        "convert to bool": lambda: lax.convert_element_type(z, bool),
        "any": lambda: jnp.any(z),
        "all": lambda: jnp.all(z, keepdims=True),
        # ...but not where NumPy's meaning of truth is asked for.
        "astype bool": lambda: z.astype(bool),
        "truth": lambda: bool(z[0]),
        "logical_not": lambda: jnp.logical_not(z),
        "where": lambda: jnp.where(z, 1, 2),
        "nonzero": lambda: jnp.nonzero(z),
        "count_nonzero": lambda: jnp.count_nonzero(z),
        # The angle of weak complex numbers is weak, of weak real ones not.
        "angle weak complex": lambda: jnp.angle(jnp.where(True, 1j, 2)),
        "angle weak": lambda: jnp.angle(weak),
        "angle int": lambda: jnp.angle(jnp.arange(3)),
        # A known integer scalar is a static exponent.
        "full keys": lambda: words(lax.full((2,), 5, keys.dtype)),
        "full_like keys": lambda: words(lax.full_like(keys, 7)),
        "traced fill of keys": lambda: words(m.jit(lambda v: lax.full((2,), v, keys.dtype))(3)),
        "apply to keys": lambda: words(keys.at[1:].apply(lambda k: k)),
    }
    bases = {"uint8": jnp.arange(3, dtype="uint8"), "bool": jnp.array([True]), "weak": weak}
    for name, base in bases.items():
        for exponent in (np.int8(2), np.uint32(3), np.bool_(True), np.int8(-1)):
            power = lambda x=base, y=exponent: jnp.power(x, jnp.asarray(y))
            cases[f"power {name} {exponent!r}"] = power
    return cases


@pytest.mark.parametrize("name", of(pullback))
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_as_jax(name: str) -> None:
    try:
        wanted = jax.tree_util.tree_leaves(of(jax)[name]())
    except Exception as error:
        with pytest.raises(Exception) as found:
            of(pullback)[name]()
        assert type(error).__name__ in [c.__name__ for c in type(found.value).__mro__]
        return
    got = pullback.tree_util.tree_leaves(of(pullback)[name]())
    for a, b in zip(wanted, got, strict=True):
        assert getattr(a, "weak_type", False) == getattr(b, "weak_type", False)
        x, y = np.asarray(a), np.asarray(b)
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x.astype("complex128"), y.astype("complex128"), rtol=1e-6)


def test_apply_to_keys() -> None:
    """Each key is changed as a whole (JAX refuses to compile this one)."""
    keys = pullback.random.split(pullback.random.key(0), 3)
    fold = lambda k: pullback.random.fold_in(k, 1)
    changed = keys.at[1].apply(fold)
    assert bool((changed == pullback.numpy.stack([keys[0], fold(keys[1]), keys[2]])).all())
