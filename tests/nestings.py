"""Random nestings of control flow: loops in branches in loops, custom rules, checkpoints and inner
transformations, up to four deep, under stacks of transformations.

A draw is fixed by (seed, number). Every construct is a function `(ns, world, x, n) -> (x, n)` of a
float array and an integer, where `world` holds what it closes over and how loops of unknown length
are written: as loops, or, for the oracle of their reverse mode, as scans of the largest length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax.ad_checkpoint  # noqa: F401  an attribute of `jax` from now on
import ml_dtypes
import numpy as np
from fuzz_programs import FLOAT0, Program, wrap

State = tuple[Any, Any]
Node = Callable[[Any, "World", Any, Any], State]
DTYPES = ("float32", "bfloat16", "float16", "complex64")
SHAPES = ((), (3,), (2, 3), (1,), (2, 2), (0,))
STACK = ("jit", "grad", "jvp", "vjp", "linearize", "vmap", "vmap")
AXIS = "lanes"


@dataclass(frozen=True)
class World:
    """What a construct sees besides its state."""

    outer: tuple[Any, ...] = ()  # float arrays closed over, the innermost last
    axis: bool = False  # whether the named axis is there
    bounded: bool = False  # loops of unknown length as scans

    def inside(self, *values: Any) -> World:
        return replace(self, outer=(*self.outer, *values)[-4:])


@dataclass
class Nesting(Program):
    """A program, and the same one with loops of known lengths."""

    bounded: Callable[[Any], Callable[..., Any]] = field(default=lambda ns: lambda: None)


def fit(y: Any, x: Any) -> Any:
    """A float array as one that can be added to `x` without changing its type."""
    y = y if y.shape in ((), x.shape) else y.sum()
    if y.dtype.kind == "c" and x.dtype.kind != "c":
        y = y.real
    return y.astype(x.dtype)


def real_sum(ns: Any, x: Any) -> Any:
    """A number by which branches are chosen."""
    return ns.numpy.real(x).astype("float32").sum()


def pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


# --- steps without control flow ---
def leaf(rng: np.random.Generator) -> tuple[str, Node]:
    name, step = pick(rng, LEAVES)
    c = float(np.round(rng.normal(), 2)) + 0.0017
    at = int(rng.integers(4))

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        y = fit(world.outer[at % len(world.outer)], x) if world.outer else x * 0.5
        new, m = step(ns, x, n, y, c)
        if name == "psum" and world.axis:
            new = new + 0.1 * fit(ns.lax.pmean(x, AXIS), x)
        return new.astype(x.dtype), m

    return name, run


LEAVES: tuple[tuple[str, Any], ...] = (
    ("sin", lambda ns, x, n, y, c: (ns.lax.sin(x) + y * c, n)),
    ("tanh", lambda ns, x, n, y, c: (ns.lax.tanh(x * y + c), n)),
    ("mix", lambda ns, x, n, y, c: (x * 0.5 + y * 0.25, n + 1)),
    ("number", lambda ns, x, n, y, c: (x * 0.7 + n * 0.01, (3 * n + 1) % 7)),
    ("mean", lambda ns, x, n, y, c: (x - 0.3 * x.sum() * c, n)),
    ("cumsum", lambda ns, x, n, y, c: (ns.numpy.cumsum(x).reshape(x.shape) * 0.4, n)),
    ("where", lambda ns, x, n, y, c: (ns.numpy.where(n % 2 == 0, x * c, y + x), n)),
    ("stop", lambda ns, x, n, y, c: (ns.lax.stop_gradient(x) * y + x, n)),
    ("count", lambda ns, x, n, y, c: (x, n + (real_sum(ns, x) > c).astype(n.dtype))),
    ("square", lambda ns, x, n, y, c: (ns.lax.cos(x) * x * 0.5 + ns.lax.sin(y), n)),
    ("constant", lambda ns, x, n, y, c: (ns.numpy.full_like(x, c) + y, 2 - n % 3)),
    ("psum", lambda ns, x, n, y, c: (x * c, n)),
    (
        "at",
        lambda ns, x, n, y, c: (
            x.reshape(-1).at[n].add(c).reshape(x.shape) if x.size else x,
            n,
        ),
    ),
    ("take", lambda ns, x, n, y, c: (x + x.reshape(-1)[n] * 0.2 if x.size else x, n)),
)


# --- constructs: each is made of the nodes in it ---
def sequence(rng: np.random.Generator, a: Node, b: Node) -> Node:
    return lambda ns, world, x, n: b(ns, world, *a(ns, world, x, n))


def scan(rng: np.random.Generator, a: Node, b: Node) -> Node:
    length, form = int(pick(rng, (0, 1, 2, 3, 3, 4))), int(rng.integers(5))
    options = {"reverse": bool(rng.random() < 0.3), "unroll": pick(rng, (1, 1, 2, True, 0))}

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jnp, lax = ns.numpy, ns.lax
        rows = jnp.stack([x * (0.5 + 0.1 * k) for k in range(length)]) if length else None

        def step(carry: Any, row: Any) -> Any:
            z, m = a(ns, world.inside(x) if row is None else world.inside(row), *carry)
            return (z, m), (z * 0.5, {"m": m, "none": None})

        if form == 0 or rows is None:  # the length only
            (z, m), (zs, rest) = lax.scan(step, (x, n), None, length=length, **options)
            return z + fit(zs.sum(0), z), m + rest["m"].sum(dtype=m.dtype)
        if form == 1:
            (z, m), (zs, _) = lax.scan(step, (x, n), rows, **options)
            return z * 0.5 + fit(zs[0], z), m

        if form == 2:  # a dict, a number of weak type, an array handed on, two xs

            def second(carry: Any, xs: Any) -> Any:
                z, m = a(ns, world.inside(xs["row"]), carry["z"], carry["m"] + xs["k"])
                new = {"z": z, "m": m, "t": carry["t"] + 1, "kept": carry["kept"]}
                return new, (xs["row"], z.sum())

            start = {"z": x, "m": n, "t": 0, "kept": x * 2}
            xs = {"row": rows, "k": jnp.arange(length, dtype=n.dtype)}
            last, (same, _) = lax.scan(second, start, xs, **options)
            return last["z"] + fit(same.sum(0) * 0.1, x) + last["kept"], last["m"] + last["t"]
        if form == 3:  # no carry: a map

            def each(_: Any, row: Any) -> Any:
                return None, a(ns, world, row, n)

            _, (zs, ms) = lax.scan(each, None, rows, **options)
            return fit(zs.sum(0), x), ms.max()

        # The rows are made by one node, the carry is a float alone.
        def both(z: Any, row: Any) -> Any:
            new, m = a(ns, world.inside(row), z, n)
            return new, m

        zs, ms = lax.scan(both, b(ns, world, x, n)[0], rows, **options)
        return zs, ms[-1]

    return run


def while_loop(rng: np.random.Generator, a: Node, b: Node) -> Node:
    form, c = int(rng.integers(4)), float(rng.normal())
    most = 4

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jnp = ns.numpy
        # How often: known here, by the integer, or by the numbers.
        limit = {0: 3, 1: n % 4, 2: (ns.lax.stop_gradient(real_sum(ns, x)) > c) * 2 + 1}.get(form)

        def go_on(carry: Any) -> Any:
            k, z, _ = carry
            if limit is None:  # while the number is small, and not too often
                return (k < most) & (real_sum(ns, z) < 1.0 + c)
            return k < limit

        def step(carry: Any) -> Any:
            k, z, m = carry
            return k + 1, *a(ns, world.inside(x, z), z, m)

        start = (jnp.zeros((), n.dtype) if form == 3 else 0, x, n)
        return loop(ns, world, go_on, step, start, most)[1:]

    return run


def loop(ns: Any, world: World, go_on: Any, step: Any, start: Any, most: int) -> Any:
    """A loop of unknown length, or, in a bounded world, a scan of the largest length."""
    if not world.bounded:
        return ns.lax.while_loop(go_on, step, start)
    return ns.lax.scan(
        lambda carry, _: (ns.lax.cond(go_on(carry), step, lambda c: c, carry), None),
        tuple(ns.numpy.asarray(s) for s in start),
        None,
        length=most,
    )[0]


def fori_loop(rng: np.random.Generator, a: Node, b: Node) -> Node:
    form, lower = int(rng.integers(4)), int(rng.integers(-1, 2))
    length = int(rng.integers(4))
    unroll = pick(rng, (None, 1, 2, True))

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        def step(i: Any, carry: Any) -> Any:
            z, m = carry
            return a(ns, world.inside((x * 0.1 * i).astype(x.dtype)), z, m + i.astype(m.dtype))

        lax = ns.lax
        if form == 0:
            return lax.fori_loop(lower, lower + length, step, (x, n), unroll=unroll)
        if form == 1:
            return lax.fori_loop(np.int32(lower), np.int32(lower + length), step, (x, n))
        first, past = lower + 0 * n, lower + n % 4
        if world.bounded:
            out = loop(
                ns,
                world,
                lambda c: c[0] < past,
                lambda c: (c[0] + 1, *step(c[0], c[1:])),
                (first, x, n),
                3,
            )
            return out[1], out[2]
        return lax.fori_loop(first, past, step, (x, n))

    return run


def cond(rng: np.random.Generator, a: Node, b: Node) -> Node:
    form, c = int(rng.integers(5)), float(np.round(rng.normal(), 2)) + 0.0019

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        lax = ns.lax
        if form == 0:
            return lax.cond(
                real_sum(ns, x) > c,
                lambda x, n: a(ns, world, x, n),
                lambda x, n: b(ns, world, x, n),
                x,
                n,
            )
        if form == 1:  # all is closed over
            inside = world.inside(x)
            return lax.cond(
                n % 2 == 0, lambda: a(ns, inside, x, n), lambda: b(ns, inside, x * 2, n)
            )
        if form == 2:  # one branch hands on what it got
            return lax.cond(n, lambda s: a(ns, world, *s), lambda s: s, (x, n))
        if form == 3:  # known here
            return lax.cond(c > 0, lambda s: a(ns, world, *s), lambda s: b(ns, world, *s), (x, n))
        out = lax.cond(  # results of weak type, of no tangent, and the same
            real_sum(ns, x) > c,
            lambda s: {"z": a(ns, world, *s), "k": 1, "b": True, "same": s[0]},
            lambda s: {"z": b(ns, world, *s), "k": 2, "b": s[1] > 1, "same": s[0]},
            (x, n),
        )
        return out["z"][0] + out["same"] * 0.1 * out["k"], out["z"][1] + out["b"]

    return run


def switch(rng: np.random.Generator, a: Node, b: Node) -> Node:
    by_number = bool(rng.random() < 0.5)

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        index = n - 1 if by_number else (real_sum(ns, x) * 2.013).astype("int32")
        branches = [
            lambda z, m: a(ns, world, z, m),
            lambda z, m: b(ns, world.inside(x), z, m),
            lambda z, m: (z * 0.5, m),
            lambda z, m: (ns.numpy.ones_like(z), n),
        ]
        return ns.lax.switch(index, branches, x, n)

    return run


def mapped(rng: np.random.Generator, a: Node, b: Node) -> Node:
    size, batch = int(pick(rng, (1, 3, 5))), pick(rng, (None, 2, 3, 8))

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        rows = ns.numpy.stack([x * (0.5 + 0.1 * k) for k in range(size)])
        numbers = n + ns.numpy.arange(size, dtype=n.dtype)
        zs, ms = ns.lax.map(
            lambda pair: a(ns, world.inside(x), *pair), (rows, numbers), batch_size=batch
        )
        return fit(zs.sum(0) * 0.3, x), ms.min()

    return run


def associative_scan(rng: np.random.Generator, a: Node, b: Node) -> Node:
    size, reverse, form = (
        int(pick(rng, (1, 3, 4))),
        bool(rng.random() < 0.4),
        int(rng.integers(2)),
    )

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        rows = ns.numpy.stack([x * (0.5 + 0.1 * k) for k in range(size)])
        if form == 0:  # maps z -> s z + t, joined

            def joined(one: Any, two: Any) -> Any:
                return one[0] * two[0], one[1] * two[0] + two[1]

            scales, shifts = ns.lax.associative_scan(joined, (rows, rows * 0.5), reverse=reverse)
            z, m = a(ns, world.inside(scales[-1]), x, n)
            return z + fit(shifts.sum(0), z), m

        def nested(one: Any, two: Any) -> Any:  # not associative: the tree is the same as in JAX
            def pair(p: Any, q: Any) -> Any:
                return a(ns, world.inside(q), p * 0.5, n)[0]

            return ns.jax.vmap(pair)(one, two)

        return ns.lax.associative_scan(nested, rows, reverse=reverse)[-1], n

    return run


def checkpoint(rng: np.random.Generator, a: Node, b: Node) -> Node:
    policy = pick(
        rng,
        (None, None, "dots_saveable", "everything_saveable", "nothing_saveable", "names"),
    )
    options = {"prevent_cse": False} if rng.random() < 0.3 else {}

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        policies = ns.jax.checkpoint_policies
        chosen = dict(options)
        if policy == "names":
            chosen["policy"] = policies.save_only_these_names("kept")
        elif policy:
            chosen["policy"] = getattr(policies, policy)

        def f(z: Any, m: Any) -> State:
            z, m = a(ns, world.inside(x), z, m)
            return ns.lax.sin(ns.jax.ad_checkpoint.checkpoint_name(z, "kept")), m

        return ns.jax.checkpoint(f, **chosen)(x, n)

    return run


def custom_jvp(rng: np.random.Generator, a: Node, b: Node) -> Node:
    form = int(rng.integers(3))

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jax = ns.jax

        @jax.custom_jvp
        def f(z: Any, m: Any, *outer: Any) -> State:
            return a(ns, replace(world, outer=outer), z, m)

        if form == 0:

            @f.defjvp
            def _(primals: Any, tangents: Any) -> Any:
                z, m = f(*primals)
                return (z, m), (ns.lax.cos(z) * tangents[0] * 0.5, np.zeros(m.shape, FLOAT0))

        elif form == 1:  # the derivative of another function

            @f.defjvp
            def _(primals: Any, tangents: Any) -> Any:
                def g(z: Any, m: Any) -> State:
                    return b(ns, replace(world, outer=primals[2:]), z, m)

                out = f(*primals)
                _, dz = jax.jvp(lambda z: g(z, primals[1])[0], primals[:1], tangents[:1])
                return out, (dz, np.zeros(out[1].shape, FLOAT0))

        else:  # zeros that are known as such

            def rule(primals: Any, tangents: Any) -> Any:
                z, m = f(*primals)
                zero = jax.custom_derivatives.SymbolicZero
                dz = ns.numpy.zeros_like(z) if type(tangents[0]) is zero else tangents[0] * 0.5
                return (z, m), (dz, np.zeros(m.shape, FLOAT0))

            f.defjvp(rule, symbolic_zeros=True)
        return f(x, n, *world.outer)

    return run


def custom_vjp(rng: np.random.Generator, a: Node, b: Node) -> Node:
    form, remat = int(rng.integers(3)), bool(rng.random() < 0.2)

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jax = ns.jax

        def plain(z: Any, m: Any, *outer: Any) -> State:
            return a(ns, replace(world, outer=outer), z, m)

        f = jax.custom_vjp(plain)

        def back(res: Any, ct: Any) -> Any:
            z, outer = res
            dz = ns.lax.cos(z) * ct[0]
            if form == 1:  # control flow in the backward rule, too
                dz = b(ns, replace(world, outer=outer), z, ns.numpy.int32(1))[0] * ct[0]
            none = None if form == 2 else np.zeros((), FLOAT0)
            return dz, none, *(ns.numpy.zeros_like(v) for v in outer)

        def forward(z: Any, m: Any, *outer: Any) -> Any:
            return plain(z, m, *outer), (z, outer)

        f.defvjp(forward, back, optimize_remat=remat)
        return f(x, n, *world.outer)

    return run


def jitted(rng: np.random.Generator, a: Node, b: Node) -> Node:
    form = int(rng.integers(3))

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jax = ns.jax
        if form == 0:
            return jax.jit(lambda z, m: a(ns, world, z, m))(x, n)
        if form == 1:  # twice the same function, and what it closes over as an argument
            f = jax.jit(lambda outer, z, m: a(ns, replace(world, outer=outer), z, m))
            return f(world.outer, *f(world.outer, x, n))
        f = jax.jit(lambda k, z, m: {"s": a(ns, world, z * k, m), "k": k}, static_argnums=0)
        return f(2, x, n)["s"]

    return run


def vmapped(rng: np.random.Generator, a: Node, b: Node) -> Node:
    size, numbers = int(pick(rng, (1, 2, 3))), bool(rng.random() < 0.5)
    named, last = bool(rng.random() < 0.4), bool(rng.random() < 0.3)

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jnp = ns.numpy
        rows = jnp.stack([x * (0.7 - 0.4 * k) for k in range(size)])
        many = n + jnp.arange(size, dtype=n.dtype) if numbers else n
        inside = replace(world.inside(x), axis=named or world.axis)
        f = ns.jax.vmap(
            lambda z, m: a(ns, inside, z, m),
            in_axes=(0, 0 if numbers else None),
            out_axes=(-1 if last else 0, 0),
            **({"axis_name": AXIS} if named else {}),
        )
        zs, ms = f(rows, many)
        return fit(zs.sum(-1 if last else 0) * 0.5, x), ms.max()

    return run


def derivative(rng: np.random.Generator, a: Node, b: Node) -> Node:
    kind = pick(rng, ("grad", "jvp", "vjp", "linearize", "value_and_grad"))

    def run(ns: Any, world: World, x: Any, n: Any) -> State:
        jax = ns.jax

        def f(z: Any) -> State:
            return a(ns, world.inside(x), z, n)

        def total(z: Any) -> Any:
            z, m = f(z)
            z = z.real + 0.5 * z.imag if z.dtype.kind == "c" else z
            return z.sum(), m

        if kind == "grad":
            z, m = jax.grad(total, has_aux=True)(x)
        elif kind == "value_and_grad":
            (value, m), z = jax.value_and_grad(total, has_aux=True)(x)
            z = z + value.astype(x.dtype)
        elif kind == "jvp":
            (_, m), (z, _) = jax.jvp(f, (x,), (x * 0.5 + 1,))
        elif kind == "vjp":
            y, pull, m = jax.vjp(f, x, has_aux=True)
            (z,) = pull(y)
        else:
            (_, m), push = jax.linearize(f, x)
            z = push(ns.numpy.ones_like(x))[0]
        return ns.lax.tanh(z).astype(x.dtype), m

    return run


CONSTRUCTS: tuple[tuple[str, int, Any], ...] = (
    ("seq", 2, sequence),
    ("scan", 2, scan),
    ("scan", 2, scan),
    ("while", 1, while_loop),
    ("while", 1, while_loop),
    ("fori", 1, fori_loop),
    ("cond", 2, cond),
    ("cond", 2, cond),
    ("switch", 2, switch),
    ("map", 1, mapped),
    ("assoc", 1, associative_scan),
    ("remat", 1, checkpoint),
    ("custom_jvp", 2, custom_jvp),
    ("custom_vjp", 2, custom_vjp),
    ("jit", 1, jitted),
    ("vmap", 1, vmapped),
    ("derivative", 1, derivative),
)


def nest(rng: np.random.Generator, depth: int) -> tuple[str, Node]:
    """A construct with `depth` levels in it: its first part is as deep as may be."""
    if depth == 0:
        first, f = leaf(rng)
        if rng.random() < 0.5:
            return first, f
        second, g = leaf(rng)
        return f"{first} {second}", sequence(rng, f, g)
    name, arity, make = pick(rng, CONSTRUCTS)
    parts = [nest(rng, depth - 1)]
    if arity == 2:
        parts.append(nest(rng, int(rng.integers(min(depth, 2)))))
    while len(parts) < 2:
        parts.append(("", parts[0][1]))
    text = ", ".join(t for t, _ in parts[:arity])
    return f"{name}({text})", make(rng, parts[0][1], parts[1][1])


def random_array(rng: np.random.Generator, shape: Any, dtype: str) -> Any:
    values = np.round(rng.normal(size=shape), 2)
    if dtype.startswith("complex"):
        values = values + 1j * np.round(rng.normal(size=shape), 2)
    return np.asarray(values).astype(getattr(ml_dtypes, dtype, dtype))


def draw(rng: np.random.Generator, deepest: int = 4) -> Nesting:
    """One random nesting of (x, y, n): a float array, one that is closed over, and an integer."""
    text, node = nest(rng, int(rng.integers(1, deepest + 1)))
    x64 = bool(rng.random() < 0.1)
    dtype = "float64" if x64 else "float32" if rng.random() < 0.8 else pick(rng, DTYPES)
    shape = pick(rng, SHAPES)
    shapes = [shape, shape if rng.random() < 0.5 else (), ()]
    stack = [str(pick(rng, STACK)) for _ in range(rng.integers(4))]
    choices = []
    for name in stack:
        choice: dict[str, Any] = {"flag": rng.random() < 0.2, "allow_int": False}
        choice["argnums"] = pick(rng, ((0, 1), 0, 1))
        if name == "vmap":
            mapped = [bool(rng.random() < 0.6) for _ in shapes]
            mapped[pick(rng, (0, 2))] = True
            choice["axes"] = tuple(
                int(rng.integers(len(s) + 1)) if m else None for s, m in zip(shapes, mapped)
            )
            shapes = [
                s if a is None else (*s[:a], 2, *s[a:]) for s, a in zip(shapes, choice["axes"])
            ]
        choices.append(choice)
    args = [random_array(rng, s, dtype) for s in shapes[:2]]
    args.append(np.asarray(rng.integers(0, 5, shapes[2])).astype("int64" if x64 else "int32"))
    mode = "jit" if rng.random() < 0.6 else "mixed"

    def make(bounded: bool) -> Callable[[Any], Callable[..., Any]]:
        def build(ns: Any) -> Callable[..., Any]:
            def f(x: Any, y: Any, n: Any) -> State:
                return node(ns, World((y,), bounded=bounded), x, n)

            g: Callable[..., Any] = f
            for name, choice in zip(stack, choices, strict=True):
                g = wrap(ns, name, g, 3, choice)
            return g

        return build

    forms = [s + ("*" if c["flag"] else "") for s, c in zip(stack, choices, strict=True)]
    shown = f"{' of '.join(reversed(forms)) or 'plain'} of {text} at {dtype}{shapes}, {mode}"
    kind = text.split("(", 1)[0]
    return Nesting(shown, args, make(False), forms, mode, kind, x64, make(True))
