"""Updates of arrays that a condition chooses, beside the same program in NumPy, and without a copy
of the array for each."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.reference import eval_jaxpr_numpy

ROWS, STEPS = 40, 60
rng = np.random.default_rng(3)
PLACES = rng.integers(-ROWS - 2, ROWS + 2, STEPS).astype("i4")
HOLDS = rng.random(STEPS) < 0.5


def step(name: str, x: Any, k: Any, p: Any) -> Any:
    """One step of a loop: x, or x with something written to it."""
    put = lambda v, at: lax.dynamic_update_slice(x, v, (at, *[0] * (x.ndim - 1)))
    first = x[0] if x.ndim == 1 else x[0, 0]
    return {
        "set": lambda: jnp.where(p, x.at[k].set(2), x),
        "kept": lambda: jnp.where(p, x, x.at[k].set(2)),
        "added": lambda: jnp.where(p, x.at[k].add(1), x),
        "greatest": lambda: jnp.where(p, x.at[k].max(k.astype(x.dtype)), x),
        "read": lambda: jnp.where(p, x.at[k].set(x[(k + 1) % ROWS]), x),
        "condition read": lambda: jnp.where(p & (first == 0), x.at[k].set(3), x),
        "slice": lambda: jnp.where(p, put(jnp.ones_like(x[:3]) * 5, k), x),
        "twice": lambda: jnp.where(p, x.at[k].set(2).at[k + 1].add(3), x),
        "either": lambda: jnp.where(p, x.at[k].set(2), x.at[k + 1].set(1)),
        "several places": lambda: jnp.where(p, x.at[k + jnp.arange(3)].add(1), x),
        "clipped": lambda: jnp.where(p, x.at[k].set(2, mode="clip"), x),
        "integer": lambda: lax.select_n(p.astype("i4"), x, x.at[k].set(2)),
        "kept for more": lambda: (lambda y: jnp.where(p, y, x) + y[1] * 0)(x.at[k].set(2)),
    }[name]()


NAMES = [
    "set", "kept", "added", "greatest", "read", "condition read", "slice", "twice", "either",
    "several places", "clipped", "integer", "kept for more",
]  # fmt: skip
ALONE = (
    "set",
    "kept",
    "added",
    "greatest",
    "condition read",
    "slice",
    "twice",
    "either",
    "clipped",
)


def in_loop(name: str) -> Any:
    return lambda x, ks, ps: lax.scan(lambda x, t: (step(name, x, *t), None), x, (ks, ps))[0]


def check(f: Any, *args: Any) -> None:
    closed = pullback.make_jaxpr(f)(*args)
    (want,) = eval_jaxpr_numpy(closed.jaxpr, closed.consts, args)
    np.testing.assert_array_equal(np.asarray(pullback.jit(f)(*args)), want)


@pytest.mark.parametrize("dtype", ["f4", "i2", "c8", "f2"])
@pytest.mark.parametrize("name", NAMES)
def test_chosen_updates(name: str, dtype: str) -> None:
    if name == "greatest" and dtype == "c8":
        pytest.skip("complex numbers have no greatest")
    for shape in ((ROWS,), (ROWS, 5)):
        x = rng.integers(0, 3, shape).astype(dtype)
        check(in_loop(name), x, PLACES, HOLDS)


@pytest.mark.parametrize("name", NAMES)
def test_chosen_updates_of_many_arrays(name: str) -> None:
    """Each array of a stack has conditions and places of its own."""
    x = rng.integers(0, 3, (6, ROWS, 3)).astype("f4")
    many = pullback.vmap(in_loop(name))
    check(many, x, np.stack([np.roll(PLACES, k) for k in range(6)]), rng.random((6, STEPS)) < 0.5)


def test_branches_and_loops_of_many_arrays() -> None:
    def branch(x: Any, k: Any, p: Any) -> Any:
        return lax.cond(p, lambda x: x.at[k].set(7), lambda x: x.at[k + 1].add(1), x)

    def loop(x: Any, k: Any, p: Any) -> Any:
        count = lambda c: c[0] < k
        return lax.while_loop(count, lambda c: (c[0] + 1, c[1].at[c[0]].add(c[1][0] + 1)), (0, x))[
            1
        ]

    x = rng.integers(0, 3, (STEPS, 50)).astype("f4")
    for f in (branch, loop):
        check(pullback.vmap(f), x, PLACES, HOLDS)


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("many", [False, True])
def test_chosen_updates_copy_nothing(name: str, many: bool) -> None:
    """No loop runs over all elements, and no scratch holds them."""
    if many and name == "slice":
        pytest.skip("slices of stacks are written one by one")
    f, x = in_loop(name), np.zeros((5000, 30), "f4")
    args: Any = (x, PLACES, HOLDS)
    if many:
        f, args = pullback.vmap(f), tuple(np.stack([v] * 3) for v in args)
    lowered = pullback.jit(f, donate_argnums=0).lower(*args)
    text = lowered.as_text("loops")
    (dims,) = re.findall(r"dims=\(([^)]*)\)", text)
    whole = [k for k, n in enumerate(dims.split(",")) if int(n) % x.size == 0]
    assert "for seq" in text and not any(f"..%d{k} by" in text for k in whole)
    assert lowered.compile().memory_analysis().temp_size_in_bytes < 4096
