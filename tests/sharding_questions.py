"""Small questions that JAX's own tests ask of meshes whose axes are part of types. The script
prints an answer a line; test_core_questions.py runs it on JAX and on Pullback, on eight devices.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import core, dispatch
from jax.experimental import io_callback
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P

EXPLICIT, AUTO = AxisType.Explicit, AxisType.Auto
QUESTIONS: dict[str, Callable[[], Any]] = {}
X = np.arange(16.0).reshape(8, 2)


def mesh_of(shape: Any, names: Any, types: Any = None) -> Mesh:
    devices = np.array(jax.devices()[: math.prod(shape)]).reshape(shape)
    return Mesh(devices, names, axis_types=types or (EXPLICIT,) * len(shape))


def ask(name: str, shape: Any = None, names: Any = ("x", "y"), types: Any = None) -> Any:
    """A question; under the mesh of that shape if there is one."""

    def keep(f: Callable[..., Any]) -> Any:
        def asked() -> Any:
            if shape is None:
                return f()
            mesh = mesh_of(shape, names, types)
            with jax.set_mesh(mesh):
                return f(mesh)

        QUESTIONS[name] = asked
        return f

    return keep


def put(x: Any, *spec: Any) -> Any:
    return jax.device_put(x, P(*spec))


def lies(x: Any) -> str:
    return str(x.sharding.spec)


def says(x: Any) -> str:
    return str(jax.typeof(x).sharding.spec)


def fault(f: Callable[[], Any], words: str = "") -> str:
    try:
        found = f()
    except Exception as e:
        return f"{type(e).__name__} {re.search(words, str(e)) is not None}"
    return f"no fault: {found}"


# ---- axes that change their type


@ask("explicit axes in a program over axes that the compiler places", (2, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    seen = []

    @functools.partial(jax.sharding.explicit_axes, in_sharding=P("x", "y"))
    def inner(y: Any) -> Any:
        out = jnp.einsum("ab,bc->ac", jnp.sin(y), y.T, out_sharding=P("x", None))
        seen.append((says(y), says(out)))
        return out

    out = jax.jit(lambda x: inner(x * 2))(put(X, "x", "y"))
    return seen, lies(out)


@ask("reshard over an abstract mesh of explicit axes", (2, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    seen = []

    @jax.jit
    def f(x: Any) -> Any:
        y = x * 2
        changed = mesh.abstract_mesh.update_axis_types({"x": EXPLICIT, "y": EXPLICIT})
        with jax.sharding.use_abstract_mesh(changed):
            y = jax.sharding.reshard(y, P(None, "y"))
            seen.append((says(y), says(jnp.sin(y))))
        return jax.sharding.reshard(y, P(None, None))

    return seen, lies(f(put(X, "x", "y")))


@ask("an abstract mesh with other names and sizes", (2, 2))
def _(mesh: Any) -> Any:
    @jax.jit
    def f(x: Any) -> Any:
        x = jnp.sin(x)
        other = mesh.abstract_mesh.update(axis_sizes=(4, 1), axis_names=("a", "b"))
        with jax.sharding.use_abstract_mesh(other):
            return jax.sharding.reshard(x, P(("a", "b"), None)) * 2

    out = f(put(X, "x", "y"))
    return lies(out), out.sharding.mesh.axis_names


@ask("what is made under an abstract mesh", (2,), ("x",))
def _(mesh: Any) -> Any:
    def under(*fields: Any) -> Any:
        with jax.sharding.use_abstract_mesh(AbstractMesh(*fields)):
            out = jnp.arange(8)
        return lies(out), out.sharding.mesh.axis_names, out.sharding.mesh.axis_types

    wrong = fault(lambda: under((4,), ("x",)), "cannot change the size of the mesh")
    return wrong, under((2,), ("x",), (EXPLICIT,))[2]


@ask("auto_axes without a mesh in force")
def _() -> Any:
    s, seen = NamedSharding(mesh_of((2, 2), ("x", "y")), P("x", "y")), []

    @functools.partial(jax.sharding.auto_axes, axes="x", out_sharding=s)
    def f(y: Any) -> Any:
        seen.append(says(y))
        return jnp.sin(y)

    x = jax.device_put(X, s)
    return lies(f(x)), lies(jax.jit(f)(x)), seen


@ask("auto_axes where axes are so already", (1, 1), types=(AUTO, EXPLICIT))
def _(mesh: Any) -> Any:
    counts = []
    for axes in ("x", None):
        f = jax.sharding.auto_axes(lambda x: x * 2, axes=axes, out_sharding=P("y"))
        counts.append(str(jax.make_jaxpr(f)(jnp.arange(8))).count("reshard"))
    return counts


@ask("manual axes stay manual", (2, 1), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    f = jax.sharding.auto_axes(lambda a: a * 2, axes=("x", "y"), out_sharding=P("x", "y"))
    g = jax.shard_map(f, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    return fault(lambda: jax.jit(g)(X), "Going from `Manual`")


@ask("no mesh of manual axes is set")
def _() -> Any:
    mesh = Mesh(np.array(jax.devices()), ("x",), (AxisType.Manual,))
    return fault(lambda: jax.set_mesh(mesh), "contains manual axes")


@ask("a layout over another mesh than that in force", (2,), ("x",))
def _(mesh: Any) -> Any:
    s = NamedSharding(mesh_of((2,), ("x",), (AUTO,)), P())
    makers = [
        lambda: jnp.zeros(8, out_sharding=s),
        lambda: jnp.einsum("i,i->i", X[0], X[0], out_sharding=s),
        lambda: jnp.reshape(X, (4, 4), out_sharding=s),
    ]
    return [fault(jax.jit(f), "should match the mesh of sharding") for f in makers]


# ---- how results lie


@ask("products whose contracted axes lie unlike", (2, 2))
def _(mesh: Any) -> Any:
    a, b = put(X, "x", "y"), put(X.T, "x", "y")
    return [
        lies(jax.jit(functools.partial(f, out_sharding=P("x", None)))(a, b))
        for f in (jnp.dot, jnp.matmul, functools.partial(jnp.tensordot, axes=1))
    ]


@ask("slices of a whole axis that lies over a mesh, mapped", (2, 2))
def _(mesh: Any) -> Any:
    x = put(np.arange(32.0).reshape(2, 4, 4), "x", "y", None)
    f = jax.jit(jax.vmap(lambda x: lax.dynamic_slice(x, (jnp.int32(0), jnp.int32(0)), (4, 1))))
    update = lambda x, k, y: lax.dynamic_update_slice_in_dim(x, y[None], k, axis=0)
    where, rows = put(jnp.array([2, 3]), "x"), put(jnp.ones((2, 8)), "x", "y")
    out = jax.vmap(update)(put(jnp.zeros((2, 10, 8)), "x", None, "y"), where, rows)
    return lies(f(x)), lies(jax.grad(lambda x: f(x).sum())(x)), lies(out)


@ask("cotangents lie as what they are of", (2,), ("x",))
def _(mesh: Any) -> Any:
    x, y, z = put(jnp.arange(8.0)), put(jnp.arange(4.0)), put(jnp.arange(8.0), "x")
    f = jax.jit(lambda x, y, z: (lax.dynamic_update_slice(x, y, (1,)) + z).sum())
    g = jax.jit(jax.grad(lambda x, z: (x + z).sum(), (0, 1)))
    return list(map(lies, [*jax.jit(jax.grad(f, (0, 1, 2)))(x, y, z), *g(x, z)]))


@ask("gathers that are mapped and asked to lie", (2, 2))
def _(mesh: Any) -> Any:
    a, k = put(jnp.ones((4, 2, 3)), "x", "y"), put(jnp.ones((4, 2, 2), int), "x", "y")
    f = lambda a, k: a.at[k].get(out_sharding=P("y", None))
    return lies(jax.jit(jax.vmap(f))(a, k))


@ask("bits of a generator are asked to lie", (2,), ("x",))
def _(mesh: Any) -> Any:
    key = np.array((1, 2, 3, 4), np.uint32)
    f = lambda key: lax.rng_bit_generator(key, shape=(4, 8), out_sharding=P("x"))
    return lies(f(key)[1]), lies(jax.jit(f)(key)[1])


@ask("sums that are to come", (2, 2, 1), ("x", "y", "z"))
def _(mesh: Any) -> Any:
    a, b, c, d = put(X, "x", "y"), put(X.T, "y"), put(X, "x", "z"), put(X.T, "z")

    def product(a: Any, b: Any, *names: str) -> Any:
        return jnp.einsum("xy,yz->xz", a, b, out_sharding=P("x", unreduced=set(names)))

    wrong = [
        (lambda: product(a, put(X.T), "y"), "should be sharded identically"),
        (lambda: product(a, b, "y") + product(c, d, "z"), "unreduced along the same mesh axes"),
        (lambda: product(a, b, "y") + product(c, d), "lhs is unreduced while rhs is not"),
    ]
    return [fault(lambda f=f: jax.jit(f).trace(), words) for f, words in wrong]


@ask("types have an entry for each axis, and divide it")
def _() -> Any:
    s = NamedSharding(AbstractMesh((2,), ("x",), axis_types=(EXPLICIT,)), P("x"))
    odd = fault(lambda: core.ShapedArray((5, 2), np.dtype("int32"), sharding=s), "evenly divide")
    return core.ShapedArray((8, 2), np.dtype("int32"), sharding=s).sharding.spec, odd


@ask("nothing is unconstrained over explicit axes", (2,), ("x",))
def _(mesh: Any) -> Any:
    return fault(lambda: NamedSharding(mesh, P(P.UNCONSTRAINED)), "cannot contain `P.UNCONSTR")


@ask("a constraint on an array of NumPy's", (2, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    return lies(lax.with_sharding_constraint(X, P("x", "y")))


@ask("shardings that a program names", (2, 1), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    s = NamedSharding(mesh, P("x"))
    fix = lambda x: lax.with_sharding_constraint(x, s)
    programs = [
        lambda x: fix(fix(x)),
        lambda x: jax.shard_map(lambda x: x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x),
        lambda x: jax.device_put(x, s),
        lambda x: jax.jit(fix, out_shardings=s)(x),
        lambda x: lax.cond(x[0] > 0, fix, lambda x: x, x),
    ]
    traced = [jax.jit(f).trace(jnp.arange(8)).jaxpr for f in programs]
    return [len(dispatch.get_intermediate_shardings(jaxpr)) for jaxpr in traced]


# ---- others


@ask("functions with derivative rules say so")
def _() -> Any:
    return [isinstance(f, jax.custom_jvp) for f in (jax.nn.relu, jax.nn.relu6, jax.nn.silu)]


@ask("sizes that may be negative")
def _() -> Any:
    x = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n"), np.float32)
    makers = [
        lambda n: jnp.zeros(n - 2),
        lambda n: lax.full((n - 2,), 1.0),
        lambda n: lax.iota("int32", n - 2),
        lambda n: jnp.broadcast_to(1.0, (n - 2,)),
        lambda n: jnp.zeros(n + 2).shape,
        lambda n: jnp.arange(n - 2).shape,
    ]
    words = "'n - 2' >= '0' is inconclusive"
    out = [fault(lambda f=f: jax.eval_shape(lambda x: f(x.shape[0]), x), words) for f in makers]
    return [said.partition(":")[0] for said in out]


# ---- arrays on several devices


def parts(x: Any) -> tuple[Any, ...]:
    return str(x.sharding.spec), x.shape


@ask("parts of arrays on several devices", (4, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    x = np.arange(128.0).reshape(16, 8)
    cuts = [np.s_[:4], np.s_[2:6], np.s_[::2], np.s_[:12], np.s_[:, :4], np.s_[0], np.s_[:0]]
    out = []
    for spec in ("x", "y"), (("x", "y"),):
        a = put(x, *spec)
        out += [(parts(jax.jit(lambda a, c=c: a[c])(a)), c) for c in cuts]
        out += [(parts(a[c]), c) for c in cuts[:-1]]
    return out


@ask("operations on arrays on several devices", (4, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    a = put(np.arange(128.0).reshape(16, 8), ("x", "y"))
    b = put(np.arange(128.0).reshape(16, 8), "x", "y")
    fs = [
        lambda a: jnp.roll(a, 1, 0),
        lambda a: jnp.outer(a[:, 0], a[0]),
        lambda a: jax.nn.one_hot(a[:, 0].astype(int), 8),
        lambda a: lax.top_k(a, 2)[0],
        lambda a: jnp.unstack(a)[0],
        lambda a: a.reshape(4, 4, 8),
    ]
    return [(parts(f(x)), parts(jax.jit(f)(x))) for f in fs for x in (a, b)]


@ask("what is asked for a result that is an argument", (4, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    asked = NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P()), None
    return [lies(x) for x in jax.jit(lambda x: (x, x.sum(), x.T), out_shardings=asked)(X)]


@ask("lowered for arguments that lie otherwise", (4, 2), types=(AUTO, AUTO))
def _(mesh: Any) -> Any:
    f = jax.jit(lambda x: x + 1, in_shardings=NamedSharding(mesh, P("x")))
    other = jax.device_put(X, NamedSharding(mesh, P("y")))
    struct = jax.ShapeDtypeStruct(X.shape, np.float32, sharding=other.sharding)
    words = "does not match the sharding on the respective arg"
    return [fault(lambda x=x: f.lower(x).compile() and None, words) for x in (other, struct, X)]


@ask("the buffer of an array on several devices", (8,), ("x",), types=(AUTO,))
def _(mesh: Any) -> Any:
    a, b = put(X, "x"), jax.device_put(X, jax.devices()[1])
    faults = [fault(lambda f=f: f(a), "single shard") for f in (memoryview, bytes, np.frombuffer)]
    return faults, memoryview(b).shape, np.asarray(a).sum(), np.asarray(b).sum()


@ask("axes that the compiler places under explicit ones", (4, 2))
def _(mesh: Any) -> Any:
    auto = Mesh(mesh.devices, ("x", "y"), axis_types=(AUTO, AUTO))
    a = jax.device_put(X, NamedSharding(auto, P("x")))
    words = "context mesh .* should match the aval mesh"
    fs = [lambda: a + 1, lambda: jax.jit(lambda a: a + 1)(a), lambda: a.sum(), lambda: a @ a.T]
    faults = [fault(f, words) for f in fs]
    return faults, says(jax.device_put(a, P("y"))), says(jax.sharding.reshard(a, P("x")))


# ---- effects on several devices


def printed(f: Callable[..., Any], *args: Any) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f(*args)
        jax.effects_barrier()
    return sorted(out.getvalue().splitlines())


@ask("ordered prints on several devices", (8,), ("x",), types=(AUTO,))
def _(mesh: Any) -> Any:
    show = lambda x: (jax.debug.print("{}", x, ordered=True), x)[1]
    on = NamedSharding(mesh, P("x"))
    blocks = jax.shard_map(show, in_specs=P("x"), out_specs=P("x"))
    fs = [jax.jit(show, in_shardings=on), jax.jit(blocks), jax.jit(show)]
    words = "The following ordered effects are not supported for more than 1 device"
    return [fault(lambda f=f: f(np.arange(8)), words) for f in fs]


@ask("each device prints its part", (8,), ("x",), types=(AUTO,))
def _(mesh: Any) -> Any:
    tell = lambda x: (jax.debug.print("{}", x, partitioned=True), x)[1]
    on = NamedSharding(mesh, P("x"))
    twice = lambda x: lax.fori_loop(0, jnp.int32(2) + x[0], lambda i, x: tell(x) + 1, x)
    branch = lambda x: lax.cond(x[0] == 0, tell, lambda x: x, x)
    fs = [tell, lambda x: tell(x.dot(x)), twice, branch, lambda x: tell(jnp.sin(x) * 0).sum()]
    return [printed(jax.jit(f, in_shardings=on), np.arange(8)) for f in fs]


@ask("loops and branches of each device print for it alone")
def _() -> Any:
    tell = lambda x: (jax.debug.print("{}", x), x)[1]
    loop = lambda x: lax.while_loop(lambda x: x < 3, lambda x: tell(x) + 1, x)
    called = lambda x: io_callback(lambda x: print("called", x), None, x)
    branch = lambda x: lax.cond(x > 0, lambda: called(x), lambda: None)
    pmapped: list[Any] = [printed(jax.pmap(f), jnp.arange(2)) for f in (loop, branch)]
    ordered = jax.pmap(lambda x: jax.debug.print("{}", x, ordered=True))
    pmapped += [fault(lambda: ordered(jnp.arange(2)), "not supported for more than 1 device")]
    mesh = mesh_of((8,), ("x",), (AUTO,))
    held = [tell, jax.jit(tell), jax.checkpoint(tell), loop]
    same = [jax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P()) for f in held]
    return pmapped, [len(printed(jax.jit(f), 2)) for f in same]


if __name__ == "__main__":
    for name, question in QUESTIONS.items():
        try:
            answer = question()
        except Exception as e:
            answer = f"{type(e).__name__}: {e}".partition("\n")[0]
        print(f"{name}: {answer}")
