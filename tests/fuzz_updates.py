"""Random loops that update arrays in place: elements, rows and places of arrays, under conditions,
read before and after; gathers and scatters beyond the ends; loops and branches inside, `vmap` and
gradients around. Every first code and good code against NumPy, to the bit: values are small whole
numbers, which every dtype holds.

    python tests/fuzz_updates.py SEED COUNT        prints what differs
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

import pullback
from pullback.backends.llvm import compiler, stencils, tier
from pullback.backends.llvm.target import host_target

DTYPES = ("float32", "int32", "float64", "bfloat16", "float16", "complex64", "int8", "uint8",
          "int64", "bool", "float32", "int32")  # fmt: skip
SIZES = (1, 2, 3, 5, 8, 9, 16, 17, 33, 70)
BOUND = 32


class Plain:
    """What bodies are written in, as NumPy has it: results are new arrays."""

    xp: Any = np

    def where(self, p: Any, x: Any, y: Any) -> Any:
        return np.where(p, x, y).astype(x.dtype)

    def get(self, x: Any, i: Any, fill: bool) -> Any:
        """Elements or rows at places along the first axis; beyond the ends the nearest, or 0."""
        i = np.asarray(i)
        n = x.shape[0]
        i = np.where(i < 0, i + n, i)
        out = x[np.clip(i, 0, n - 1)]
        bad = (i < 0) | (i >= n)
        bad = bad.reshape(bad.shape + (1,) * (out.ndim - bad.ndim))
        return np.where(bad, np.zeros((), x.dtype), out).astype(x.dtype) if fill else out

    def put(self, x: Any, i: Any, v: Any, how: str) -> Any:
        """An updated copy; places beyond the ends are left out."""
        x, n = x.copy(), x.shape[0]
        i = np.asarray(i)
        v = np.broadcast_to(v, i.shape + x.shape[1:])
        for at in np.ndindex(i.shape):
            k = i[at] + n if i[at] < 0 else i[at]
            if 0 <= k < n:
                x[k] = combined(how, x[k], v[at], x.dtype)
        return x

    def place(self, x: Any, row: Any, i: Any) -> Any:
        """A slice from place i on, which is moved inside."""
        x, k = x.copy(), row.shape[0]
        i = min(max(int(i) + (x.shape[0] if i < 0 else 0), 0), x.shape[0] - k)
        x[i : i + k] = row
        return x

    def cond(self, p: Any, f: Any, g: Any, *xs: Any) -> Any:
        return f(*xs) if p else g(*xs)

    def loop(self, n: int, body: Any, state: Any) -> Any:
        for k in range(n):
            state = body(np.int32(k), state)
        return state

    def until(self, n: Any, body: Any, state: Any) -> Any:
        return self.loop(int(n), body, state)

    def index(self, x: Any) -> Any:
        """A small integer made of a number."""
        return np.real(x).astype(np.int32)

    def bounded(self, x: Any) -> Any:
        """Numbers small enough for every dtype."""
        if x.dtype == bool or x.dtype.kind in "iu":
            return x
        if x.dtype.kind == "c":
            part = lambda v: np.clip(v, -BOUND, BOUND)
            return (part(x.real) + 1j * part(x.imag)).astype(x.dtype)
        return np.clip(x, np.asarray(-BOUND, x.dtype), np.asarray(BOUND, x.dtype)).astype(x.dtype)


def combined(how: str, old: Any, new: Any, dtype: Any) -> Any:
    if how == "set":
        return new
    if how == "add":
        with np.errstate(over="ignore"):  # bytes wrap around
            return (old | new) if dtype.kind == "b" else (old + new).astype(dtype)
    return np.maximum(old, new) if how == "max" else np.minimum(old, new)


class Ours(Plain):
    """The same, traced."""

    def __init__(self, pb: Any) -> None:
        self.pb, self.xp, self.lax = pb, pb.numpy, pb.lax

    def where(self, p: Any, x: Any, y: Any) -> Any:
        return self.xp.where(p, x, y)

    def get(self, x: Any, i: Any, fill: bool) -> Any:
        return x.at[i].get(mode="fill" if fill else "clip", fill_value=0) if fill else x[i]

    def put(self, x: Any, i: Any, v: Any, how: str) -> Any:
        return getattr(x.at[i], how)(v)

    def place(self, x: Any, row: Any, i: Any) -> Any:
        return self.lax.dynamic_update_slice_in_dim(x, row, i, 0)

    def cond(self, p: Any, f: Any, g: Any, *xs: Any) -> Any:
        return self.lax.cond(p, f, g, *xs)

    def loop(self, n: int, body: Any, state: Any) -> Any:
        return self.lax.fori_loop(0, n, body, state)

    def until(self, n: Any, body: Any, state: Any) -> Any:
        step = lambda s: (s[0] + 1, body(s[0], s[1]))
        return self.lax.while_loop(lambda s: s[0] < n, step, (self.xp.int32(0), state))[1]

    def index(self, x: Any) -> Any:
        return self.xp.real(x).astype("int32")

    def bounded(self, x: Any) -> Any:
        if x.dtype == bool or x.dtype.kind in "iu":
            return x
        if x.dtype.kind == "c":
            part = lambda v: self.xp.clip(v, -BOUND, BOUND)
            return self.lax.complex(part(x.real), part(x.imag))
        return self.xp.clip(x, -BOUND, BOUND)


class Unrolled(Ours):
    """Traced, its loops written out and branches of both kinds taken: for gradients."""

    def loop(self, n: int, body: Any, state: Any) -> Any:
        for k in range(n):
            state = body(np.int32(k), state)
        return state


Step = Callable[[Any, Any, list[Any]], None]  # (what it is written in, the counter, arrays)


def statement(rng: Any, arrays: list[Any], depth: int) -> Step:
    """One random statement: it replaces an array of the list."""
    a, b, c = (int(rng.integers(len(arrays))) for _ in range(3))
    n = arrays[a].shape[0]
    m, add, sub = int(rng.integers(1, 4)), int(rng.integers(-2, n + 2)), int(rng.integers(3))
    beyond = int(rng.integers(0, 3)) if rng.random() < 0.3 else 0

    def where_to(ns: Any, k: Any, xs: list[Any]) -> Any:
        i = (ns.xp.int32(k) * np.int32(m) + np.int32(add)) % np.int32(n + beyond)
        if sub == 1:  # a place that an array tells
            i = ns.index(ns.get(xs[b], i % np.int32(arrays[b].shape[0]), False).ravel()[0]) % (
                np.int32(n + beyond)
            )
        return i - np.int32(1) if sub == 2 and beyond else i

    def number(ns: Any, k: Any, xs: list[Any]) -> Any:
        """An element or a row of array c, as one of array a."""
        i = (ns.xp.int32(k) + np.int32(add)) % np.int32(arrays[c].shape[0])
        v = fitted(ns.get(xs[c], i, False), xs[a])
        return v if v.shape == xs[a].shape[1:] else v.ravel()[0]

    def holds(ns: Any, k: Any, xs: list[Any]) -> Any:
        i = (ns.xp.int32(k) + np.int32(m)) % np.int32(arrays[b].shape[0])
        return ns.index(ns.get(xs[b], i, False).ravel()[0]) % np.int32(3) != np.int32(sub)

    kinds = ["put", "put", "chosen", "branch", "places", "gather", "mix", "slice", "swap", "turn"]
    kind = str(rng.choice(kinds + ["inner", "inner until", "inner branch"] * (depth > 0)))
    how = str(rng.choice(["set", "add", "max", "min", "set"]))
    how = "max" if arrays[a].dtype == bool and how == "add" else how
    if arrays[a].dtype.kind == "c" and how in ("max", "min"):
        how = "add"
    places = rng.integers(-1, n + 1, int(rng.integers(1, 2 * n + 1))).astype(np.int32)
    if how == "set" and kind == "places":
        places = rng.permutation(n)[: len(places)].astype(np.int32)
    inside = [statement(rng, arrays, depth - 1) for _ in range(2)] if kind[:5] == "inner" else []
    times = int(rng.integers(0, 4))

    def put(ns: Any, k: Any, xs: list[Any]) -> Any:
        return ns.bounded(ns.put(xs[a], where_to(ns, k, xs), number(ns, k, xs), how))

    def run(ns: Any, k: Any, xs: list[Any]) -> None:
        x = xs[a]
        if kind == "put":
            xs[a] = put(ns, k, xs)
        elif kind == "chosen":
            xs[a] = ns.where(holds(ns, k, xs), put(ns, k, xs), x)
        elif kind == "branch":
            ys = list(xs)
            f = lambda x, *_: put(ns, k, [*ys[:a], x, *ys[a + 1 :]])
            xs[a] = ns.cond(holds(ns, k, xs), f, lambda x: x, x)
        elif kind == "places":
            v = fitted(ns.get(xs[c], places % arrays[c].shape[0], False), x)
            v = v if v.shape[1:] == x.shape[1:] else number(ns, k, xs)
            xs[a] = ns.bounded(ns.put(x, places, v, how))
        elif kind == "gather":
            many = (np.arange(n, dtype=np.int32) * np.int32(m) + where_to(ns, k, xs)).astype("i4")
            xs[a] = ns.get(x, many, bool(sub))
        elif kind == "mix":
            y = fitted(xs[b], x)
            if y.shape != x.shape:
                y = number(ns, k, xs)
            p = x != y
            mixed = ns.where(p, y + x if x.dtype != bool else y | x, x)
            xs[a] = ns.bounded(ns.xp.broadcast_to(mixed, x.shape))
        elif kind == "slice":
            part = ns.xp.flip(x, 0)[: max(1, n // 2)]
            xs[a] = ns.place(x, part, where_to(ns, k, xs))
        elif kind == "swap":
            i, j = where_to(ns, k, xs) % np.int32(n), np.int32(add % n)
            u, v = ns.get(x, i, False), ns.get(x, j, False)
            xs[a] = ns.put(ns.put(x, i, v, "set"), j, u, "set")
        elif kind == "turn":
            xs[a] = ns.xp.roll(x, 1, 0)
        else:
            nested(ns, k, xs)

    def nested(ns: Any, k: Any, xs: list[Any]) -> None:
        def body(j: Any, state: Any) -> Any:
            ys = list(state)
            for s in inside:
                s(ns, j + k, ys)
            return tuple(ys)

        if kind == "inner":
            xs[:] = ns.loop(times, body, tuple(xs))
        elif kind == "inner until":
            limit = ns.index(ns.get(xs[b], k % np.int32(arrays[b].shape[0]), False).ravel()[0])
            xs[:] = ns.until(limit % np.int32(4), body, tuple(xs))
        else:
            f = lambda *s: body(np.int32(1), s)
            xs[:] = ns.cond(holds(ns, k, xs), f, lambda *s: s, *xs)

    return run


def fitted(v: Any, like: Any) -> Any:
    """Numbers in another array's dtype."""
    if v.dtype == like.dtype:
        return v
    v = v.real if v.dtype.kind == "c" and like.dtype.kind != "c" else v
    if like.dtype == bool:
        return v != 0
    if v.dtype.kind not in "iub" and like.dtype.kind in "iu":
        v = v.astype("int32")
    return v.astype(like.dtype)


@dataclass
class Draw:
    """A program and what it begins with."""

    body: Callable[[Any, Any, Any], Any]
    arrays: list[Any]
    steps: int
    around: str  # "fori", "scan", "until", "vmap", "grad"

    def run(self, ns: Any, arrays: Any) -> Any:
        body = lambda k, state: self.body(ns, k, state)
        if self.around == "until":
            return ns.until(np.int32(self.steps), body, tuple(arrays))
        if self.around == "scan" and type(ns) is Ours:
            step = lambda state, k: (body(k, state), state[0])
            out, stack = ns.lax.scan(step, tuple(arrays), np.arange(self.steps, dtype=np.int32))
            return *out, stack
        if self.around == "scan":
            stack, state = [], tuple(arrays)
            for k in range(self.steps):
                stack.append(state[0])
                state = body(np.int32(k), state)
            return *state, np.stack(stack)
        return ns.loop(self.steps, body, tuple(arrays))


def draw(rng: Any) -> Draw:
    around = str(rng.choice(["fori", "fori", "scan", "until", "vmap", "grad"]))
    count = int(rng.integers(1, 5))
    arrays = []
    n = int(rng.choice(SIZES))
    for _ in range(count):
        dtype = "float32" if around == "grad" else str(rng.choice(DTYPES))
        n = n if rng.random() < 0.6 else int(rng.choice(SIZES))
        shape = (n,) if rng.random() < 0.6 else (n, int(rng.choice([1, 3, 8])))
        if around == "vmap":
            shape = (3, *shape)
        low = 0 if dtype.startswith("u") or dtype == "bool" else -6
        x = rng.integers(low, 7, shape)
        arrays.append((x > 0 if dtype == "bool" else x).astype(getattr(ml_dtypes, dtype, dtype)))
    shown = [x[0] for x in arrays] if around == "vmap" else arrays
    statements = [statement(rng, shown, 2) for _ in range(int(rng.integers(1, 6)))]

    def body(ns: Any, k: Any, state: Any) -> Any:
        xs = list(state)
        for s in statements:
            s(ns, k, xs)
        return tuple(xs)

    steps = int(rng.integers(1, 4 if around == "grad" else 9))
    return Draw(body, arrays, steps, around)


KINDS = "stencils", "quick", "good"


@contextmanager
def code(kind: str) -> Iterator[None]:
    """Kernels are compiled one way, and none is known: from stencils where these cover them,
    quickly by LLVM, or well."""
    haste = tier.Haste(kind != "good", kind != "good")
    switches = {"PULLBACK_CACHE": "0", "PULLBACK_STENCILS": str(int(kind == "stencils"))}
    stencils.provide_stencils(host_target(), every=True)
    with (
        mock.patch.dict(os.environ, switches),
        mock.patch.object(tier, "haste", lambda *_, **__: haste),
    ):
        compiler._live.clear()
        compiler._recent.clear()
        yield


def differing(pb: Any, d: Draw, kinds: Any) -> Iterator[str]:
    """What is wrong with a program, if something is."""
    if d.around == "grad":
        loss = lambda ns: lambda *xs: sum((y * (1 + k)).sum() for k, y in enumerate(d.run(ns, xs)))
        numbers = tuple(range(len(d.arrays)))
        f = pb.grad(loss(Ours(pb)), numbers)
        wanted = pb.grad(loss(Unrolled(pb)), numbers)(*d.arrays)
    elif d.around == "vmap":
        f = pb.vmap(lambda *xs: d.run(Ours(pb), xs))
        rows = [d.run(Plain(), [x[k] for x in d.arrays]) for k in range(3)]
        wanted = [np.stack(each) for each in zip(*rows, strict=True)]
    else:
        f = lambda *xs: d.run(Ours(pb), xs)
        wanted = d.run(Plain(), d.arrays)
    for kind in kinds:
        with code(kind):
            compiled = pb.jit(lambda *xs: f(*xs))
            for call in range(2):
                got = compiled(*d.arrays)
                for k, (x, y) in enumerate(zip(got, wanted, strict=True)):
                    x, y = np.asarray(x), np.asarray(y)
                    if x.dtype != y.dtype or not np.array_equal(x, y):
                        yield f"{kind}, call {call}, output {k}: {x} instead of {y}"


def main(seed: int, count: int, kinds: Any = KINDS) -> int:
    wrong = 0
    for number in range(count):
        d = draw(np.random.default_rng([seed, number]))
        with pullback.enable_x64(True):
            try:
                found = list(differing(pullback, d, kinds))
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
        for text in found[:2]:
            print(f"seed {seed} number {number} ({d.around}): {text[:600]}", flush=True)
        wrong += bool(found)
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), int(sys.argv[2]), *[a.split(",") for a in sys.argv[3:]])))
