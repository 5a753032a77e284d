"""Branches that change little of large arrays: they work in the operands' buffers. Random ones are
compared with the reference, in loops and alone, what they read before, beside and after."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback
from pullback import lax, numpy as jnp
from pullback.backends.reference import eval_jaxpr_numpy
from pullback.loops import pipeline
from pullback.loops.show import show_kernel
from pullback.runtime.executable import reference_rule

N = 40
STEPS = 12


def kernels(f: Callable[..., Any], *args: Any) -> str:
    compiled = pipeline.compile_jaxpr(pullback.make_jaxpr(f)(*args), reference_rule)
    return "\n".join(map(show_kernel, compiled.kernels))


def compare(f: Callable[..., Any], *args: Any, donate: tuple[int, ...] = ()) -> None:
    closed = pullback.make_jaxpr(f)(*args)
    want = eval_jaxpr_numpy(closed.jaxpr, closed.consts, [np.asarray(x) for x in args])
    jitted = pullback.jit(f, donate_argnums=donate)
    for _ in range(2):
        got = pullback.tree.leaves(jitted(*(jnp.asarray(x) * 1 for x in args)))
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(x), y, rtol=1e-5, atol=1e-5)


def pick(rng: Any, values: list[Any]) -> Any:
    return values[rng.integers(len(values))]


UPDATES: dict[str, Callable[..., Any]] = {
    "keep": lambda a, b, i, v: a,
    "other": lambda a, b, i, v: b,
    "set": lambda a, b, i, v: a.at[i].set(v),
    "add": lambda a, b, i, v: a.at[i].add(b[(i + 3) % N]),
    "own": lambda a, b, i, v: a.at[i].set(a[(i + 1) % N] + a[i]),
    "twice": lambda a, b, i, v: a.at[i].set(v).at[(i * 7) % N].add(a[i]),
    "slice": lambda a, b, i, v: lax.dynamic_update_slice(a, b[2:6], (i,)),
    "own slice": lambda a, b, i, v: lax.dynamic_update_slice(a, a[2:6] * 0.5, (i,)),
    "many": lambda a, b, i, v: a.at[jnp.arange(5) * 3 + i % 7].add(b[::8] * v),
    "turned": lambda a, b, i, v: a.at[jnp.arange(N)[::2]].set(a[::-2]),
    "whole": lambda a, b, i, v: a * 0.5 + b,
    "loop": lambda a, b, i, v: lax.fori_loop(0, 3, lambda k, x: x.at[k + i].add(v + x[0]), a),
    "while": lambda a, b, i, v: lax.while_loop(
        lambda s: s[0] < i, lambda s: (s[0] + 7, s[1].at[s[0]].add(0.1)), (0, a)
    )[1],
    "branch": lambda a, b, i, v: lax.cond(
        v > 0, lambda a: a.at[i].set(v), lambda a: a.at[0].add(1.0), a
    ),
}


def body_of(rng: Any) -> Callable[..., Any]:
    """A random step: branches over two arrays, and what else reads these."""
    names = list(UPDATES)
    count = int(rng.integers(2, 4))
    plan = [
        [(pick(rng, names), pick(rng, [(0, 1), (0, 1), (1, 0), (0, 0)])) for _ in range(2)]
        for _ in range(count)
    ]
    for branch in plan:  # most often the first is made of the first, and the second of the second
        if rng.random() < 0.7:
            branch[0], branch[1] = (branch[0][0], (0, 1)), (branch[1][0], (1, 0))
    scalar, after = pick(rng, ["none", "in", "out"]), pick(rng, ["none", "old", "new", "part"])
    doubled, stacked = rng.random() < 0.2, rng.random() < 0.5

    def branch(k: int) -> Callable[..., Any]:
        def run(a: Any, b: Any, i: Any, v: Any) -> Any:
            new = [UPDATES[name]((a, b)[p], (a, b)[q], i, v) for name, (p, q) in plan[k]]
            return (*new, new[0][i] if scalar == "out" else a[i] if scalar == "in" else v)

        return run

    def step(carry: Any, x: Any) -> Any:
        a, b = carry
        which, i, v = x
        shared = a if doubled else b
        y, z, s = lax.switch(which % count, [branch(k) for k in range(count)], a, shared, i, v)
        if after == "old":
            z = z + a[0] * 0.1
        elif after == "new":
            z = z.at[i].add(y[0] * 0.1)
        elif after == "part":
            y = y.at[3].set(a[5])
        return (y, z), (y[::9], s) if stacked else s

    return step


@pytest.mark.parametrize("seed", range(120))
def test_random_branches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    step = body_of(rng)
    a, b = (rng.uniform(-1, 1, N).astype(np.float32) for _ in range(2))
    which = rng.integers(0, 6, STEPS).astype(np.int32)
    i = rng.integers(0, N - 6, STEPS).astype(np.int32)
    v = rng.uniform(-1, 1, STEPS).astype(np.float32)
    if seed % 3 == 2:
        compare(lambda a, b, w, i, v: step((a, b), (w, i, v)), a, b, which[0], i[0], v[0])
        compare(lambda a, b, w, i, v: step((a, b), (w, i, v)), a, b, which[0], i[0], v[0],
                donate=(0, 1))  # fmt: skip
        computed = lambda a, b, w, i, v: step((jnp.sort(a), jnp.sort(b)), (w, i, v))
        compare(computed, a, b, which[0], i[0], v[0])
    else:
        compare(lambda a, b, *xs: lax.scan(step, (a, b), xs), a, b, which, i, v)


def stack(n: int, steps: int) -> Callable[..., Any]:
    """Numbers are pushed, or the two on top replaced by their sum."""

    def f(ops: Any, values: Any) -> Any:
        def step(k: Any, state: Any) -> Any:
            memory, top = state
            x, y = memory[top - 1], memory[top - 2]
            push = lambda: (memory.at[top].set(values[k]), top + 1)
            add = lambda: (memory.at[top - 2].set(x + y), top - 1)
            return lax.cond((ops[k] == 0) | (top < 2), push, add)

        return lax.fori_loop(0, steps, step, (jnp.zeros(n), 0))

    return f


def test_a_stack_is_changed_where_it_lies() -> None:
    """A step touches two numbers, whatever the stack's length."""
    rng = np.random.default_rng(0)
    ops, values = rng.integers(0, 2, 50).astype(np.int32), rng.normal(size=50).astype(np.float32)
    f = stack(3000, 50)
    compare(f, ops, values)
    text = kernels(f, ops, values)
    assert not re.search(r"alloc @\w+: f32", text)
    loop = text[text.index("for seq") :]
    assert "for vector" not in loop and "for parallel" not in loop


def test_branches_that_change_nothing_copy_nothing() -> None:
    def f(x: Any, where: Any, flags: Any) -> Any:
        step = lambda x, t: (lax.cond(t[1], lambda x: x.at[t[0]].add(1.0), lambda x: x, x), None)
        return lax.scan(step, x, (where, flags))[0]

    where, flags = np.arange(9, dtype=np.int32), np.arange(9) % 2 == 0
    x = np.zeros(5000, np.float32)
    compare(f, x, where, flags)
    text = kernels(f, x, where, flags)
    loop = text[text.index("for seq") :]
    assert not re.search(r"for (vector|parallel)", loop)
