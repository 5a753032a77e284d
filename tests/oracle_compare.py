"""What the tests against real JAX share: `same(f)` runs a function with each library's modules and
compares what comes out.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest


def leaves(x: Any) -> list[Any]:
    return [z for y in x for z in leaves(y)] if isinstance(x, (tuple, list)) else [x]


def module(root: str, name: str) -> Any:
    return importlib.import_module(f"{root}.{name}" if name else root)


def run(f: Any, lib: Any) -> tuple[str, Any]:
    try:
        return "value", list(leaves(f(lib)))
    except Exception as e:
        return "error", e


def same(f: Any, name: str, tol: float = 2e-5, weak: bool = True) -> None:
    """f(module) gives equal values, dtypes, shapes and weak types, or errors of one class, for
    jax.NAME and pullback.NAME.
    """
    kind, want = run(f, module("jax", name))
    got_kind, got = run(f, module("pullback", name))
    assert kind == got_kind, (want, got)
    if kind == "error":
        assert type(want).__name__ in {c.__name__ for c in type(got).__mro__}, (want, got)
        return
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        x, y = np.asarray(a), np.asarray(b)
        assert x.shape == y.shape and x.dtype == y.dtype, (x.dtype, x.shape, y.dtype, y.shape)
        if weak and hasattr(a, "weak_type"):
            assert a.weak_type == b.weak_type
        if x.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            wide = "complex128" if x.dtype.kind == "c" else "float64"
            np.testing.assert_allclose(x.astype(wide), y.astype(wide), rtol=tol, atol=tol)


def refused(f: Any, both: Any) -> None:
    """f(library, its numpy) raises with real JAX, and an error of that class with ours: `both` is
    their two pairs of modules, JAX's first.
    """
    caught = []
    for lib, numpy in both:
        with pytest.raises(Exception) as info:
            f(lib, numpy)
        caught.append(info.value)
    theirs, ours = caught
    assert isinstance(ours, type(theirs)), f"{ours!r} instead of {theirs!r}"
