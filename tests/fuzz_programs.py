"""Random programs: functions over the primitives, under stacks of transformations, written once for
any namespace that looks like JAX.

A draw is fixed by (seed, number): `draw(rng)` gives a Program, whose `build(ns)` is the transformed
function for the namespace `ns` (an object with `.jax`, `.numpy`, `.lax`, `.random`), and whose
`args` are NumPy arrays and pytrees of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from fuzz_ops import BINARY, FAULTS, INTEGER, UNARY
from fuzz_ops_wide import WIDE, WIDE_CELLS

TRANSFORMS = ("jit", "grad", "jvp", "vjp", "linearize", "vmap")
CELLS = (
    "plain",
    "closure",
    "custom_jvp",
    "custom_vjp",
    "cond",
    "scan",
    "nested_jit",
    "keys",
    "unbatched",
    "empty",
    "while",
    "switch",
    "index",
    "dtypes",
    "integers",
    "pytree",
    "remat",
    "batched_while",
    "key_arguments",
    "axis_name",
    "jacobian",
    "fault",
    "scan_tree",
    "custom_deep",
    "edges",
    "weak",
    "x64",
    *WIDE_CELLS,
)
SHAPES = ((), (1,), (3,), (2, 3), (4,), (1, 3), (3, 1), (2, 2))
EMPTY_SHAPES = ((0,), (0, 3), (2, 0), (1, 0))
DTYPES = ("float32", "int32", "bool", "bfloat16", "complex64", "uint8", "float16", "int8")
RARE = ("uint16", "int16", "uint32", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", *DTYPES[:4])
WIDE_DTYPES = ("float64", "float32", "int64", "complex128", "uint64", "int32", "bool")
NARROW_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
# What an element may be besides ordinary: the cell "edges" has one in four of them.
EDGES = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e-30, 3.4e38, 1.0, -1.0)
FLOAT0 = np.dtype([("float0", np.void, 0)])


@dataclass
class Program:
    """One draw: a description, the arguments, and how to build the function. `mode` is how it is
    run: both jitted, both eagerly, or eagerly against a jitted oracle."""

    text: str
    args: list[Any]
    build: Callable[[Any], Callable[..., Any]]
    stack: list[str] = field(default_factory=list)
    mode: str = "jit"
    kind: str = "plain"
    x64: bool = False


def body(
    rng: np.random.Generator, depth: int, ints: float = 0.05
) -> tuple[str, Callable[..., Any]]:
    """A random straight-line function of arrays that gives one array, as (text, function of (ns,
    arrays)).
    """
    steps: list[Any] = []
    names = []
    for _ in range(depth):
        which = rng.random()
        table: Any = INTEGER if which < ints else UNARY if which < 0.65 + ints / 3 else BINARY
        if table is UNARY and rng.random() < 0.4:
            table = WIDE
        name, op = table[rng.integers(len(table))]
        steps.append(
            (2 if table is BINARY else 1, op, int(rng.integers(100)), int(rng.integers(100)))
        )
        names.append(name)

    def run(ns: Any, arrays: Any) -> Any:
        values = [floating(ns, x) for x in arrays]
        for arity, op, i, j in steps:
            # Recent values are taken twice as often, so that chains get long.
            x, y = values[-1 - i % len(values)], values[j % len(values)]
            if arity == 1:
                out = op(ns, x)
            else:
                out = op(ns, x, y if compatible(x.shape, y.shape) else y.sum())
            if out.size <= 64 and out.ndim <= 4:
                values.append(out)
        return values[-1]

    return " ".join(names), run  # fmt: skip


def floating(ns: Any, x: Any) -> Any:
    """Any array as one of floats."""
    if np.dtype(x.dtype).name in NARROW_FLOATS[1:]:
        return x.astype("float32")
    kind = "f" if floats(x) else "i" if "int" in np.dtype(x.dtype).name else x.dtype.kind
    if kind == "b":
        return ns.numpy.where(x, 0.75, -0.5)
    if kind == "i":
        return x * 0.25
    if x.dtype.kind == "c":
        return x.real + x.imag * x.real
    return x


def compatible(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def cell(rng: np.random.Generator, kind: str) -> tuple[str, Callable[[Any], Callable[..., Any]]]:
    """A function with a mandatory ingredient, for a namespace."""
    ints = 0.5 if kind == "integers" else 0.05
    text, f = body(rng, int(rng.integers(1, 6)), ints)
    text2, g = body(rng, int(rng.integers(1, 3)), ints)
    c = float(np.round(rng.normal(), 2)) + 0.0013
    if kind == "fault":
        fault, broken = FAULTS[rng.integers(len(FAULTS))]
        return f"fault[{fault}]", lambda ns: lambda *xs: broken(ns, ns.numpy.atleast_1d(xs[0]))
    make = CELL_BUILDERS.get(kind)

    def build(ns: Any) -> Callable[..., Any]:
        if make is None:
            return lambda *xs: f(ns, xs)
        return make(ns, lambda *xs: f(ns, xs), lambda *xs: g(ns, xs), c)

    return f"{kind}[{text} | {text2} c={c}]", build


# --- the cells: each takes (ns, f, g, c), two functions of arrays and a number, and gives a
#  function of arrays ---
def closure(ns: Any, f: Any, g: Any, c: float) -> Any:
    jax = ns.jax
    if c > 0.5:
        return lambda *xs: jax.vmap(lambda i: f(*xs).sum() * i)(ns.numpy.arange(3.0))
    if c > 0:
        return lambda *xs: jax.grad(lambda v: (f(*xs) * v).sum() + v * g(*xs).sum())(0.5)
    return lambda *xs: jax.jit(lambda *ys: f(*ys) * floating(ns, xs[0]).sum())(*xs)


def custom_jvp(ns: Any, f: Any, g: Any, c: float) -> Any:
    jax = ns.jax
    h = jax.custom_jvp(f)
    if c > 0:
        h.defjvp(lambda p, t: (h(*p), jax.jvp(f, p, t)[1] * 2.0))
    else:
        h.defjvps(
            *[lambda t, ans, *xs: ans * t.astype("float32").sum() if t.dtype != FLOAT0 else ans * 0]
            * 3
        )

        def partial(*xs: Any) -> Any:
            k = jax.custom_jvp(f)
            k.defjvps(
                *[
                    (lambda t, ans, *ys: ans * 0.5 * t.astype("float32").sum())
                    if floats(x)
                    else None
                    for x in xs
                ]
            )
            return k(*xs)

        return partial  # fmt: skip
    return h


def floats(x: Any) -> bool:
    return np.dtype(x.dtype).name in NARROW_FLOATS or np.dtype(x.dtype).kind in "fc"


def custom_vjp(ns: Any, f: Any, g: Any, c: float) -> Any:
    jax = ns.jax

    def back(xs: Any, ct: Any) -> Any:
        return tuple(
            (x * 0.5 + ct.sum()).astype(x.dtype) if floats(x) else np.zeros(x.shape, FLOAT0)
            for x in xs
        )

    h = jax.custom_vjp(f)
    h.defvjp(lambda *xs: (f(*xs), xs), back)
    return h if c > 0 else lambda *xs: h(*xs).sum() * g(*xs)


def custom_deep(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Custom rules inside control flow, with non-differentiated and closed-over values."""
    jax, lax = ns.jax, ns.lax

    def rule(scale: Any) -> Any:
        h = jax.custom_vjp(lambda v: v * lax.sin(v) * scale)
        h.defvjp(lambda v: (v * lax.sin(v) * scale, lax.cos(v)), lambda r, ct: (ct * r * scale,))
        return h

    relu = jax.custom_jvp(lambda v: ns.numpy.maximum(v, 0))
    relu.defjvp(lambda p, t: (relu(*p), ns.numpy.where(p[0] > 0.0117, t[0], 0.1 * t[0])))
    if c > 0.3:
        return lambda *xs: lax.scan(lambda v, _: (rule(c)(v), relu(v)), f(*xs), None, length=2)[0]
    if c > -0.3:
        return lambda *xs: lax.cond(g(*xs).sum() > c, relu, rule(c), f(*xs))
    return lambda *xs: jax.checkpoint(jax.jit(lambda *ys: relu(rule(c)(f(*ys)))))(*xs)


def conditional(ns: Any, f: Any, g: Any, c: float) -> Any:
    return lambda *xs: ns.lax.cond(
        floating(ns, xs[0]).sum() > c,
        lambda *ys: f(*ys).astype("float32").sum(),
        lambda *ys: g(*ys).astype("float32").sum() * c,
        *xs,
    )


def switch(ns: Any, f: Any, g: Any, c: float) -> Any:
    branches = [
        lambda *ys: (f(*ys).astype("float32").sum(), 1),
        lambda *ys: (g(*ys).astype("float32").sum(), 2),
        lambda *ys: (ns.numpy.float32(c), 3),
    ]
    if c > 0:
        return lambda *xs: ns.lax.switch(ns.numpy.int32(abs(c) * 2), branches, *xs)
    return lambda *xs: ns.lax.switch(
        (floating(ns, xs[0]).sum() * 2.017).astype("int32"), branches, *xs
    )


def scan(ns: Any, f: Any, g: Any, c: float) -> Any:
    jnp, lax = ns.numpy, ns.lax

    def step(carry: Any, x: Any) -> Any:
        out = f(carry, x).astype("float32").sum() * 0.1
        return carry * 0.5 + out, out + x.sum()

    def run(*xs: Any) -> Any:
        first, last = floating(ns, xs[0]).astype("float32"), floating(ns, xs[-1])
        total = jnp.sum(lax.scan(step, first, jnp.stack([last] * 3))[1])
        unroll = 2 if c > 0 else 1
        return (
            total
            + lax.scan(step, first, jnp.stack([last] * 2), reverse=True, unroll=unroll)[0].sum()
        )

    return run


def scan_tree(ns: Any, f: Any, g: Any, c: float) -> Any:
    """A scan with a counter, a closed-over array, a key and a dict for carry."""
    jnp, lax = ns.numpy, ns.lax

    def run(*xs: Any) -> Any:
        y = f(*xs).astype("float32")

        def step(carry: Any, x: Any) -> Any:
            key, sub = ns.random.split(carry["key"])
            noise = ns.random.uniform(sub, y.shape)
            new = jnp.where(carry["n"] % 2 == 0, carry["v"] * 0.5 + noise, lax.sin(carry["v"]) * y)
            return {"key": key, "n": carry["n"] + 1, "v": new}, (new.sum() + x, carry["n"])

        start = {"key": ns.random.key(int(abs(c) * 100)), "n": 0, "v": y}
        last, (ys, counts) = lax.scan(step, start, jnp.arange(3.0))
        return last["v"], ys, counts, last["n"]

    return run


def loop(ns: Any, f: Any, g: Any, c: float) -> Any:
    def run(*xs: Any) -> Any:
        start = floating(ns, xs[0]).astype("float32")
        return ns.lax.fori_loop(
            0, 3, lambda i, v: v * 0.5 + f(v, *xs[1:]).astype("float32").sum() * 0.1 + i, start
        )

    return run


def batched_while(ns: Any, f: Any, g: Any, c: float) -> Any:
    """A loop whose length depends on the data: forward mode only."""

    def run(*xs: Any) -> Any:
        start = abs(ns.lax.tanh(f(*xs).astype("float32").sum())) + 0.0517
        step = ns.lax.tanh(g(*xs).astype("float32").sum()) * 0.1
        return ns.lax.while_loop(
            lambda s: s[0] < 4.0,
            lambda s: (s[0] * 1.7 + 0.1, s[1] + step, s[2] + 1),
            (start, step, 0),
        )

    return run


def nested_jit(ns: Any, f: Any, g: Any, c: float) -> Any:
    jax = ns.jax
    inner = jax.jit(lambda *ys: {"f": f(*ys), "g": (g(*ys), None)})
    if c > 0:
        static = jax.jit(lambda n, *ys: f(*ys) * n, static_argnums=0)
        return lambda *xs: static(3, *xs).sum() + static(2, *xs).sum()

    def run(*xs: Any) -> Any:
        out = jax.jit(inner)(*xs)
        return sum(x.sum() for x in jax.tree_util.tree_leaves(out)) + f(*xs)

    return run


def keys(ns: Any, f: Any, g: Any, c: float) -> Any:
    def run(*xs: Any) -> Any:
        k1, k2 = ns.random.split(ns.random.key(abs(int(c * 100))))
        k2 = ns.random.fold_in(k2, 7)
        extra = ns.random.bits(k2, (2,), "uint8"), ns.random.randint(k1, (3,), 0, 9)
        noise = ns.random.normal(k1, xs[0].shape)
        return f(*xs, noise) + ns.random.uniform(k2), extra, k1 if c > 0.7 else None

    return run


def key_arguments(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Arrays of keys cross jit, vmap, cond and indexing."""
    random = ns.random

    def run(*xs: Any) -> Any:
        many = random.split(random.wrap_key_data(np.array([1, abs(int(c * 10))], "uint32")), (3,))
        noise = ns.jax.vmap(lambda k: random.uniform(k))(many)
        one = ns.lax.cond(
            floating(ns, xs[0]).sum() > c, lambda k: k[0], lambda k: random.fold_in(k[1], 3), many
        )
        drawn = ns.jax.jit(lambda k: random.normal(k, (2,)))(one)
        y = f(*xs).astype("float32")
        return y * noise.sum() + drawn.mean(), many.reshape(3, 1)[1:] if c > 0 else random.key_data(
            one
        )

    return run


def index(ns: Any, f: Any, g: Any, c: float) -> Any:
    def run(*xs: Any) -> Any:
        flat = floating(ns, xs[0]).reshape(-1)
        if not flat.size:
            return f(*xs)
        i = ns.numpy.argmax(flat + ns.numpy.arange(flat.size) * 0.0137)
        return f(ns.lax.dynamic_index_in_dim(flat, i, keepdims=False), *xs)

    return run


def pytree(ns: Any, f: Any, g: Any, c: float) -> Any:
    def run(*trees: Any) -> Any:
        xs = ns.jax.tree_util.tree_leaves(trees)
        out = {"f": f(*xs), "g": [g(*xs), None], "same": xs[0]}
        return {**out, "n": ns.numpy.int32(3), "b": out["f"] > 0.0113} if c > 0 else out

    return run


def remat(ns: Any, f: Any, g: Any, c: float) -> Any:
    jax = ns.jax
    if c > 0.5:
        return jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)
    if c > -0.5:
        return lambda *xs: g(jax.checkpoint(f)(*xs), *xs)
    return jax.checkpoint(jax.jit(f), policy=jax.checkpoint_policies.everything_saveable)


def axis_name(ns: Any, f: Any, g: Any, c: float) -> Any:
    lax = ns.lax

    def run(*xs: Any) -> Any:
        def lane(k: Any) -> Any:
            y = (f(*xs) * (k + 1.5)).astype("float32")
            if c > 0.6:
                return y - lax.pmean(y, "i")
            if c > 0:
                return lax.psum(y, "i") * lax.axis_index("i")
            if c > -0.6:
                return lax.all_gather(y, "i") * 0.5
            return lax.ppermute(y, "i", [(0, 1), (1, 2), (2, 0)]) + lax.pmax(
                lax.stop_gradient(y), "i"
            )

        return ns.jax.vmap(lane, axis_name="i")(ns.numpy.arange(3.0))

    return run


def jacobian(ns: Any, f: Any, g: Any, c: float) -> Any:
    jax = ns.jax
    of = jax.jacfwd if c > 0.4 else jax.jacrev if c > -0.4 else jax.hessian
    return lambda *xs: of(lambda *ys: f(*ys).sum() if c < -0.4 else f(*ys))(*xs)


def weak(ns: Any, f: Any, g: Any, c: float) -> Any:
    """Arguments of weak type, and numbers of Python's."""
    lax = ns.lax

    def run(*xs: Any) -> Any:
        half = lax.broadcast(0.5, xs[0].shape)
        if c > 0.5:
            return f(half), lax.scan(lambda v, _: (g(v).sum() * 0.5, v), 1.0, None, length=2)
        if c > 0:
            return f(half, 2.0 * half), ns.jax.jit(lambda a, b: g(half * a) + b)(2, 1.5)
        return ns.jax.vmap(lambda i: f(i * 0.5, *xs))(lax.iota("int32", 2)), g(half, *xs)

    return run


CELL_BUILDERS: dict[str, Any] = {
    "weak": weak,
    **WIDE_CELLS,
    "closure": closure,
    "custom_jvp": custom_jvp,
    "custom_vjp": custom_vjp,
    "cond": conditional,
    "switch": switch,
    "scan": scan,
    "while": loop,
    "nested_jit": nested_jit,
    "keys": keys,
    "key_arguments": key_arguments,
    "index": index,
    "pytree": pytree,
    "remat": remat,
    "batched_while": batched_while,
    "axis_name": axis_name,
    "jacobian": jacobian,
    "scan_tree": scan_tree,
    "custom_deep": custom_deep,
}


def tangent(x: Any) -> Any:
    return x * 0.5 + x.dtype.type(0.25) if floats(x) else np.zeros(x.shape, FLOAT0)


def wrap(ns: Any, name: str, f: Any, n: int, choice: Any) -> Any:
    """`f` of n arguments under one transformation; `choice` says which of its forms."""
    jax, tree = ns.jax, ns.jax.tree_util
    flag = bool(choice.get("flag"))
    if name == "jit":
        return jax.jit(f, keep_unused=flag)
    if name == "grad":
        if flag:
            return jax.value_and_grad(lambda *xs: (total(ns, f(*xs)), xs), argnums=0, has_aux=True)
        return jax.grad(
            lambda *xs: total(ns, f(*xs)), choice["argnums"], allow_int=choice["allow_int"]
        )
    if name == "jvp":
        return lambda *xs: jax.jvp(f, xs, tree.tree_map(tangent, xs))
    if name == "vjp":

        def pulled(*xs: Any) -> Any:
            y, pull = jax.vjp(f, *xs)
            return y, pull(tree.tree_map(unit, y))

        return pulled
    if name == "linearize":

        def linear(*xs: Any) -> Any:
            y, push = jax.linearize(f, *xs)
            return y, push(*tree.tree_map(tangent, xs))

        return linear
    return jax.vmap(f, in_axes=choice["axes"], out_axes=-1 if flag else 0)


def unit(y: Any) -> Any:
    """The cotangent of one, of the right type."""
    if getattr(y, "dtype", None) == FLOAT0 or not (hasattr(y, "dtype") and is_array(y)):
        return np.zeros(np.shape(y), FLOAT0)
    return y * 0 + y.dtype.type(1) if floats(y) else np.zeros(y.shape, FLOAT0)


def is_array(x: Any) -> bool:
    """Not keys, whose dtype NumPy does not know."""
    return isinstance(x.dtype, np.dtype)


def total(ns: Any, tree: Any) -> Any:
    """The sum of all floats of a tree."""
    found: Any = 0.0
    for x in ns.jax.tree_util.tree_leaves(tree):
        if is_array(x) and x.dtype != FLOAT0 and floats(x):
            found = found + (x.real + 0.5 * x.imag if np.dtype(x.dtype).kind == "c" else x).sum()
    return found


def random_array(rng: np.random.Generator, shape: Any, dtype: str) -> Any:
    values = np.round(rng.normal(size=shape), 2)
    if dtype == "bool":
        return np.asarray(values > 0)
    if dtype.startswith("complex"):
        return np.asarray(values + 1j * np.round(rng.normal(size=shape), 2)).astype(dtype)
    if "int" in dtype:
        values = np.abs(np.asarray(values) * 3)
    return np.asarray(values).astype(getattr(ml_dtypes, dtype, dtype))


def edged(rng: np.random.Generator, x: Any) -> Any:
    """An array with some elements at the edges of what its type holds."""
    if not floats(x):
        return x
    with np.errstate(all="ignore"):
        special = rng.choice(np.array(EDGES), size=x.shape).astype(x.dtype)
    return np.where(rng.random(x.shape) < 0.25, special, x)


def draw(rng: np.random.Generator) -> Program:
    """One random program."""
    kind = CELLS[rng.integers(len(CELLS))]
    text, build = cell(rng, kind)
    n = int(rng.integers(1, 4))
    pool = EMPTY_SHAPES if kind == "empty" or rng.random() < 0.03 else SHAPES
    shapes = [pool[rng.integers(len(pool))] for _ in range(n)]
    mixed = kind == "dtypes" or rng.random() < 0.12
    choose = WIDE_DTYPES if kind == "x64" else RARE if rng.random() < 0.3 else DTYPES
    mixed = mixed or kind == "x64"
    dtypes = [choose[rng.integers(len(choose))] if mixed else "float32" for _ in range(n)]
    length = rng.integers(0, 2 if kind in ("jacobian", "fault") else 4)
    stack = [TRANSFORMS[rng.integers(len(TRANSFORMS))] for _ in range(length)]
    if kind == "unbatched" and "vmap" not in stack:
        stack = [*stack[:2], "vmap"]
    choices: list[Any] = []
    for name in stack:
        choice: dict[str, Any] = {
            "flag": rng.random() < 0.2,
            "allow_int": mixed and rng.random() < 0.8,
        }
        choice["argnums"] = [tuple(range(n)), 0, -1][rng.integers(3)]
        if name == "vmap":
            mapped = [bool(rng.random() < (0.5 if kind == "unbatched" else 0.8)) for _ in range(n)]
            if not any(mapped):
                mapped[0] = True
            where = [
                int(rng.integers(0, len(s) + 1)) if m else None for s, m in zip(shapes, mapped)
            ]
            choice["axes"] = tuple(where)
            shapes = [(*s[:a], 2, *s[a:]) if a is not None else s for s, a in zip(shapes, where)]
        choices.append(choice)
    args: list[Any] = [random_array(rng, s, d) for s, d in zip(shapes, dtypes)]
    if kind == "edges":
        args = [edged(rng, a) for a in args]
    if kind == "pytree":
        # The whole tree of an argument is mapped along one axis.
        args = [{"x": a, "y": (a * a, [])} if k == 0 else [a] for k, a in enumerate(args)]
    # An eager oracle compiles every operation alone, ten times the cost of a jitted one: it is kept
    # for the faults, where what is concrete decides which error comes, and for a few besides.
    mode = str(rng.choice(["jit", "mixed", "eager"], p=(0.45, 0.52, 0.03)))
    if kind == "fault" and mode == "mixed":
        mode = "eager"

    def build_all(ns: Any) -> Callable[..., Any]:
        f = build(ns)
        for name, choice in zip(stack, choices):
            f = wrap(ns, name, f, n, choice)
        return f

    forms = [s + ("*" if c["flag"] else "") for s, c in zip(stack, choices)]
    shown = (
        f"{' of '.join(reversed(forms)) or 'plain'} of {text} at {list(zip(dtypes, shapes))}, "
        f"{mode}"
    )
    return Program(shown, args, build_all, forms, mode, kind, kind == "x64")
